"""`trajpipe report`: what it prints, where it writes, what it refuses to replace.

What is not here: what is in the file, see `trajpipe_tests/pipeline/test_report.py`.
"""

import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from trajpipe.testing import write_recording
from trajpipe_tests.cli.conftest import Command


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "take.hdf5"
    write_recording("isaaclab", path, episodes=3, rows=(6, 8))
    return path


def test_a_path_becomes_a_file_beside_the_caller(trajpipe: Command, recording: Path, tmp_path: Path) -> None:
    ran = trajpipe("report", recording)
    assert ran.code == 0, ran.err
    target = tmp_path / "take.hdf5.report.html"
    first, second = ran.out.splitlines()
    assert first.startswith("3 of 3 episodes listed, 3 with frames and curves · ")
    assert second == target.name
    assert target.read_text("utf-8").startswith("<!doctype html>")


def test_json_says_what_was_made(invoke: Command, recording: Path, tmp_path: Path) -> None:
    target = tmp_path / "out" / "a.html"
    ran = invoke("report", recording, "--output", target, "--episodes", "demo_0,2:3", "--json")
    assert ran.code == 0
    assert ran.json["path"] == str(target)
    assert ran.json["bytes"] == target.stat().st_size
    assert (ran.json["episodes"], ran.json["listed"], ran.json["detailed"]) == (3, 2, 2)
    assert any("demo_0, 2:3" in note for note in ran.json["notes"])


def test_a_dataset_of_the_catalogue(invoke: Command, recording: Path, tmp_path: Path) -> None:
    catalogue = tmp_path / "datasets.yaml"
    catalogue.write_text(
        "version: 1\ndatasets:\n  lift:\n    task: lift\n    raw:\n"
        "      - {kind: isaaclab, glob: take.hdf5}\n"
    )
    assert invoke("run", "lift", "--root", tmp_path).code == 0
    target = tmp_path / "lift.html"
    ran = invoke("report", "lift", "--root", tmp_path, "-o", target)
    assert ran.code == 0, ran.err
    text = target.read_text("utf-8")
    assert "<h1>lift</h1>" in text
    assert "Proven: raw = L2 = store = LeRobot" in text


def test_bad_data_are_told_in_the_page_and_not_by_the_exit_code(
    invoke: Command, recording: Path, tmp_path: Path
) -> None:
    with h5py.File(recording, "r+") as file:
        file["data/demo_1/actions"][0, 0] = np.nan
    ran = invoke("report", recording, "-o", tmp_path / "a.html")
    assert ran.code == 0
    text = (tmp_path / "a.html").read_text("utf-8")
    assert "nan-action" in text
    assert "demo_1" in text


def test_no_checks_leaves_them_out(invoke: Command, recording: Path, tmp_path: Path) -> None:
    assert invoke("report", recording, "-o", tmp_path / "a.html", "--no-checks").code == 0
    assert "No checks ran." in (tmp_path / "a.html").read_text("utf-8")


def test_a_report_is_replaced_and_other_files_are_not(
    invoke: Command, recording: Path, tmp_path: Path
) -> None:
    target = tmp_path / "a.html"
    assert invoke("report", recording, "-o", target).code == 0
    assert invoke("report", recording, "-o", target).code == 0
    target.write_text("<p>my page</p>")
    ran = invoke("report", recording, "-o", target)
    assert ran.code == 2
    assert "is no report" in ran.err
    assert "--force" in ran.err
    assert target.read_text() == "<p>my page</p>"
    assert invoke("report", recording, "-o", target, "--force").code == 0
    assert target.read_text("utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize("option", ["-o", "--rrd"])
@pytest.mark.parametrize("reached", ["itself", "soft link", "hard link", "another recording", "misnamed"])
def test_data_are_never_replaced_even_by_force(
    invoke: Command, recording: Path, tmp_path: Path, option: str, reached: str
) -> None:
    pytest.importorskip("rerun", reason="rerun-sdk is not installed (trajpipe[viz])")
    suffix = ".html" if option == "-o" else ".rrd"
    target = tmp_path / f"target{suffix}"
    if reached == "itself":
        target = recording
    elif reached == "soft link":
        target.symlink_to(recording)
    elif reached == "hard link":
        target.hardlink_to(recording)
    else:
        target = tmp_path / ("other.hdf5" if reached == "another recording" else f"other{suffix}")
        target.write_bytes(recording.read_bytes())
    before = target.read_bytes()
    page = () if option == "-o" else ("-o", tmp_path / "page.html")
    ran = invoke("report", recording, *page, option, target, "--force", "--no-checks")
    assert ran.code == 2
    assert "one of the files that the report is about" in ran.err or "is no re" in ran.err
    assert "--force" not in ran.err
    assert target.read_bytes() == before == recording.read_bytes()
    assert not (tmp_path / "page.html").exists()


def test_a_file_inside_the_folder_that_is_reported_on_is_not_replaced(
    invoke: Command, recording: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "lift"
    asked = ("--to", "lerobot-v2.1", "--fps", "20", "--task", "Lift.", "--codec", "png")
    assert invoke("convert", recording, folder, *asked).code == 0
    for inside in (folder / "meta" / "info.json", next(folder.rglob("*.parquet"))):
        before = inside.read_bytes()
        ran = invoke("report", folder, "-o", inside, "--force", "--no-checks")
        assert ran.code == 2
        assert "one of the files that the report is about" in ran.err
        assert inside.read_bytes() == before


def test_page_and_rerun_recording_are_two_files(invoke: Command, recording: Path, tmp_path: Path) -> None:
    pytest.importorskip("rerun", reason="rerun-sdk is not installed (trajpipe[viz])")
    ran = invoke("report", recording, "-o", tmp_path / "a", "--rrd", tmp_path / "a")
    assert ran.code == 2
    assert "are one file" in ran.err


def test_a_recording_for_rerun_beside_it(invoke: Command, recording: Path, tmp_path: Path) -> None:
    pytest.importorskip("rerun", reason="rerun-sdk is not installed (trajpipe[viz])")
    target = tmp_path / "a.rrd"
    arguments = ("report", recording, "-o", tmp_path / "a.html", "--rrd", target, "--no-checks")
    ran = invoke(*arguments, "--json")
    assert ran.code == 0, ran.err
    assert ran.json["rerun"] == {"path": str(target), "written": 3, "of": 3}
    assert target.read_bytes()[:4] == b"RRF2"
    assert invoke(*arguments, "--episodes", "demo_1").out.splitlines()[2:] == [
        "1 of 3 episodes for Rerun",
        str(target),
    ]
    target.write_text("notes")
    ran = invoke(*arguments)
    assert ran.code == 2
    assert target.read_text() == "notes"


def test_without_rerun_nothing_is_written_and_the_extra_is_named(
    invoke: Command, recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rerun", None)
    ran = invoke("report", recording, "-o", tmp_path / "a.html", "--rrd", tmp_path / "a.rrd")
    assert ran.code == 2
    assert "pip install 'trajpipe[viz]'" in ran.err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["take.hdf5"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no/such.hdf5"], "no such file or folder"),
        (["take.hdf5", "--episodes", "demo_77"], "no episode of this name"),
        (["take.hdf5", "--episodes", "99:100"], "no episode is in this range: there are 3 episodes"),
        (["."], "a report is of one recording, and this folder is none"),
        (["take.hdf5", "--frames", "40"], "'--frames': at most 12 is allowed"),
        (["take.hdf5", "--max-size", "0"], "'--max-size': at least 1 is needed"),
        (["take.hdf5", "--max-size", "0.001"], "'--max-size': a whole number is needed"),
        (["notes.txt"], "a report is of a recording"),
        (["take.hdf5", "-o", "."], "is a folder"),
    ],
)
def test_what_cannot_be_is_refused_with_words(
    invoke: Command,
    recording: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("words")
    ran = invoke("report", *arguments)
    assert ran.code == 2
    assert words in ran.err
    assert not list(tmp_path.glob("*.html"))


def test_an_unknown_dataset_names_the_nearest(invoke: Command, tmp_path: Path) -> None:
    (tmp_path / "datasets.yaml").write_text(
        "version: 1\ndatasets:\n  lift:\n    raw:\n      - {kind: isaaclab, glob: '*.hdf5'}\n"
    )
    ran = invoke("report", "lfit", "--root", tmp_path)
    assert ran.code == 2
    assert "lift" in ran.err
