"""`trajpipe run`: what lands, what is rejected and listed, what is skipped, the closing line, exit codes."""

import re
from pathlib import Path

import h5py
import numpy as np
import pytest

from trajpipe.testing import write_recording
from trajpipe_tests.cli.conftest import ESCAPE, Command

CLOSING = re.compile(
    r"^read \d+ · written \d+ · rejected \d+( \([^)]*\))?( · failed recordings \d+)? · \S+ [kMG]?B · \S+ s$"
)


def closing(out: str) -> str:
    """The one closing line of an output."""
    (line,) = [x for x in out.splitlines() if x.startswith("read ")]
    assert CLOSING.match(line), line
    return line


def put_nan(path: Path, demo: str, row: int) -> None:
    """Put a NaN into a recording's actions."""
    with h5py.File(path, "r+") as handle:
        handle["data"][demo]["actions"][row, 0] = np.nan


def test_all_stages_end_with_the_closing_line_the_path_and_the_next_command(
    trajpipe: Command, data: Path
) -> None:
    ran = trajpipe("run", "--catalogue", data / "datasets.yaml")
    assert (ran.code, ran.err) == (0, "")
    assert closing(ran.out).startswith("read 6 · written 6 · rejected 0 · ")
    lines = ran.out.splitlines()
    after = lines[lines.index(closing(ran.out)) + 1 :]
    assert after == [
        "data/lerobot/lift",
        "next:",
        "  trajpipe inspect data/lerobot/lift",
        "  trajpipe check data/lerobot/lift",
    ]
    assert ESCAPE not in ran.out
    for path in ("demos/scripted_lift__take_2.hdf5", "stores/lift.h5", "lerobot/lift/meta/info.json"):
        assert (data / path).is_file()


def test_the_next_command_is_one_that_works(trajpipe: Command, data: Path) -> None:
    ran = trajpipe("run")
    commands = [x.split()[1:] for x in ran.out.splitlines() if x.startswith("  trajpipe ")]
    assert commands
    for command in commands:
        assert trajpipe(*command).code == 0


def test_json_is_one_document_with_every_result(trajpipe: Command, data: Path) -> None:
    ran = trajpipe("run", "--json")
    value = ran.json
    assert (ran.code, ran.err, value["ok"]) == (0, "", True)
    assert [(r["stage"], r["status"]) for r in value["results"]] == [
        *[("demos", "built")] * 3,
        ("store", "built"),
        ("lerobot", "built"),
    ]
    assert value["summary"] == "read 6 · written 6 · rejected 0"
    assert value["next"] == ["trajpipe inspect data/lerobot/lift", "trajpipe check data/lerobot/lift"]


def test_a_second_run_does_nothing_and_says_so(invoke: Command, data: Path) -> None:
    invoke("run")
    before = {p: p.stat().st_mtime_ns for p in data.rglob("*") if p.is_file()}
    ran = invoke("run")
    assert ran.code == 0
    assert "unchanged: nothing was built (--force builds again)" in ran.out
    assert closing(ran.out).startswith("read 6 · written 6 · rejected 0 · ")
    assert {p: p.stat().st_mtime_ns for p in data.rglob("*") if p.is_file()} == before
    forced = invoke("run", "--force", "--json").json
    assert {r["status"] for r in forced["results"]} == {"built"}


def test_rejected_episodes_are_listed_with_their_reasons(invoke: Command, data: Path) -> None:
    put_nan(data / "raw/lift/take_1.hdf5", "demo_1", 3)
    ran = invoke("run", "--stage", "demos")
    assert ran.code == 0
    assert closing(ran.out).startswith("read 6 · written 5 · rejected 1 (1 nan-action) · ")
    assert "Rejected episodes\n  take_1.hdf5:demo_1  nan-action  " in ran.out
    assert "row 3" in ran.out
    assert "1 of 2" in ran.out


def test_broken_recordings_fail_alone_and_are_listed_with_their_findings(invoke: Command, data: Path) -> None:
    (data / "raw/lift/take_0.hdf5").write_bytes(b"")
    whole = (data / "raw/lift/take_1.hdf5").read_bytes()
    (data / "raw/lift/take_1.hdf5").write_bytes(whole[: len(whole) // 2])
    ran = invoke("run")
    assert ran.code == 1
    assert "lift · demos · take_0: failed" in ran.out
    assert "ERROR empty-file" in ran.out
    assert "ERROR truncated" in ran.out
    assert f"{len(whole) // 2} bytes" in ran.out
    assert closing(ran.out).startswith("read 2 · written 2 · rejected 0 · failed recordings 2 · ")
    assert "lift · demos · take_0: failed" in ran.err
    assert "  trajpipe inspect data/raw/lift/take_0.hdf5" in ran.out
    value = invoke("run", "--json").json
    assert value["ok"] is False
    assert [r["status"] for r in value["results"]][-2:] == ["unchanged", "unchanged"]
    with h5py.File(data / "stores/lift.h5") as store:
        assert len(store["ep_len"]) == 2


def test_nothing_that_works_is_blocked_downstream(invoke: Command, data: Path) -> None:
    for path in (data / "raw/lift").iterdir():
        path.write_bytes(b"")
    ran = invoke("run")
    assert ran.code == 1
    assert "lift · store: blocked" in ran.out
    assert "0 of 3 recordings are ready" in ran.out
    assert not (data / "stores/lift.h5").exists()


def test_stages_recordings_and_datasets_can_be_chosen(invoke: Command, data: Path) -> None:
    value = invoke("run", "lift", "--stage", "demos", "-r", "take_1", "-r", "take_2.hdf5", "--json").json
    assert [(r["stage"], r["key"]) for r in value["results"]] == [("demos", "take_1"), ("demos", "take_2")]
    value = invoke("run", "l*", "-s", "store", "--json").json
    assert [r["stage"] for r in value["results"]] == ["store"]
    with h5py.File(data / "stores/lift.h5") as store:
        assert len(store["ep_len"]) == 4
    ran = invoke("run", "-s", "store")
    assert closing(ran.out).startswith("read 4 · written 4 · ")
    assert "  trajpipe run lift" in ran.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("lfit",), "Did you mean `lift`?"),
        (("lift", "-r", "take_9"), "take_0, take_1, take_2"),
        (("--stage", "raw"), "--stage demos, store, lerobot"),
        (("--stage", "demo"), "demo"),
        (("--jobs", "0"), "--jobs"),
        (("--catalogue", "absent.yaml"), "there is no catalogue"),
    ],
)
def test_what_cannot_run_exits_2_with_words_that_help(
    invoke: Command, data: Path, arguments: tuple[str, ...], words: str
) -> None:
    ran = invoke("run", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err


def test_a_dry_run_tells_what_would_be_done_and_does_nothing(invoke: Command, data: Path) -> None:
    before = sorted(data.rglob("*"))
    ran = invoke("run", "--dry-run")
    assert ran.code == 0
    assert "would build 5 of 5 outputs; nothing was done" in ran.out
    assert sorted(data.rglob("*")) == before
    invoke("run")
    assert "would build 0 of 5 outputs" in invoke("run", "-n").out
    assert "would build 5 of 5 outputs" in invoke("run", "-n", "--force").out
    put_nan(data / "raw/lift/take_1.hdf5", "demo_0", 0)
    value = invoke("run", "-n", "--json").json
    assert [(s["key"], s["would_build"]) for s in value["steps"]] == [
        ("take_0", False),
        ("take_1", True),
        ("take_2", False),
        ("", True),
        ("", True),
    ]
    value = invoke("run", "-n", "-r", "take_2.hdf5", "-s", "demos", "--json").json
    assert [s["key"] for s in value["steps"]] == ["take_2"]


def test_jobs_give_the_same_bytes(invoke: Command, data: Path) -> None:
    invoke("run")
    one = {p: p.read_bytes() for p in (data / "demos").glob("*.hdf5")}
    value = invoke("run", "--force", "--jobs", "2", "--json").json
    assert value["ok"]
    assert {p: p.read_bytes() for p in (data / "demos").glob("*.hdf5")} == one


def test_verbose_tells_every_stage_on_stderr_and_quiet_drops_the_hints(invoke: Command, data: Path) -> None:
    verbose = invoke("run", "-v")
    assert re.search(r"^lift · demos · take_0: built · \S+ s$", verbose.err, re.MULTILINE)
    assert re.search(r"^lift · lerobot: built · \S+ s$", verbose.err, re.MULTILINE)
    quiet = invoke("run", "-q")
    assert quiet.err == ""
    assert "next:" not in quiet.out
    assert quiet.out.splitlines()[-1] == "data/lerobot/lift"


def test_repairs_are_named_when_built_and_in_full_with_v(invoke: Command, data: Path) -> None:
    with h5py.File(data / "raw/lift/take_0.hdf5", "r+") as handle:
        handle["data"].attrs["total"] = 999
    built = invoke("run")
    assert "INFO  total-wrong" in built.out
    assert "got      999" in built.out
    assert "total-wrong" not in invoke("run").out
    assert "total-wrong" in invoke("run", "-v").out


def test_several_datasets_end_with_the_data_folder_and_list(invoke: Command, data: Path) -> None:
    write_recording("isaaclab", data / "raw/push/a.hdf5", episodes=2, rows=(8, 9), cameras=(), seed=8)
    catalogue = data / "datasets.yaml"
    catalogue.write_text(
        catalogue.read_text() + "  push:\n    raw: [{kind: isaaclab, glob: raw/push/*.hdf5, tag: rl}]\n"
    )
    ran = invoke("run")
    lines = ran.out.splitlines()
    after = lines[lines.index(closing(ran.out)) + 1 :]
    assert after == ["data", "next:", "  trajpipe list", "  trajpipe check data/lerobot"]


def test_a_catalogue_elsewhere_is_named_in_the_next_command(
    invoke: Command, data: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other folder"
    other.mkdir()
    ran = invoke("run", "--root", data, "-s", "demos", cwd=other)
    assert "next:\n  trajpipe run --catalogue '" in ran.out or f"--catalogue {data}" in ran.out


def test_a_dataset_without_recordings_is_blocked_not_forgotten(invoke: Command, data: Path) -> None:
    for path in (data / "raw/lift").iterdir():
        path.unlink()
    ran = invoke("run")
    assert ran.code == 1
    assert "no recording matches raw/lift/*.hdf5 below" in ran.out


def test_the_table_fits_a_narrow_terminal(invoke: Command, data: Path) -> None:
    ran = invoke("run", COLUMNS="60")
    table, _, _ = ran.out.partition("read 6")
    assert max(len(line) for line in table.splitlines()) <= 60
    assert closing(ran.out)
