"""`trajpipe check`: the stage by content, findings with exit codes, selection of rules."""

import re
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest

from trajpipe.testing import write_recording
from trajpipe_tests.cli.conftest import Command


@pytest.mark.parametrize("stage", ["raw", "demos", "store", "lerobot"])
def test_the_stage_is_found_by_content_and_a_good_output_passes(
    invoke: Command, chain: dict[str, Path], stage: str
) -> None:
    ran = invoke("check", chain[stage], "--json")
    value = ran.json
    assert (ran.code, ran.err) == (0, "")
    assert (value["passed"], value["fail_on"]) == (True, "error")
    (report,) = value["reports"]
    assert (report["stage"], report["path"], report["failed"]) == (stage, str(chain[stage]), False)
    assert report["results"]
    assert all(r["counted"] is None or r["counted"][0] > 0 for r in report["results"])


def test_the_text_lists_every_rule_with_its_denominator_and_a_verdict(
    invoke: Command, chain: dict[str, Path]
) -> None:
    value = invoke("check", chain["demos"], "--json").json["reports"][0]
    text = invoke("check", chain["demos"]).out
    for result in value["results"]:
        assert result["code"] in text
    ran, skipped = len(value["results"]), len(value["skipped"])
    assert f"{ran + skipped} rules: {ran} passed" in text
    assert " of 3 demos" in text


def break_demos(path: Path) -> None:
    """Put one NaN into an L2 file's actions."""
    with h5py.File(path, "r+") as handle:
        handle["data/demo_1/actions"][2, 0] = np.nan


def test_a_finding_is_told_in_full_and_exits_1(invoke: Command, chain: dict[str, Path]) -> None:
    break_demos(chain["demos"])
    ran = invoke("check", chain["demos"])
    assert (ran.code, ran.err) == (1, "")
    assert "FAIL" in ran.out
    assert "ERROR demos-" in ran.out
    assert "demo_1 · actions" in ran.out
    value = invoke("check", chain["demos"], "--json").json
    assert value["passed"] is False
    failed = [
        r for r in value["reports"][0]["results"] if any(f["severity"] == "error" for f in r["findings"])
    ]
    assert failed


def test_select_and_ignore_take_codes_patterns_commas_and_underscores(
    invoke: Command, chain: dict[str, Path]
) -> None:
    every = [r["code"] for r in invoke("check", chain["demos"], "--json").json["reports"][0]["results"]]
    first, second = every[:2]

    def codes(*options: str) -> list[str]:
        value = invoke("check", chain["demos"], *options, "--json").json
        return [r["code"] for r in value["reports"][0]["results"]]

    assert codes("--select", first) == [first]
    assert codes("--select", f"{first},{second}") == [first, second]
    assert codes("--select", first, "--select", second.replace("-", "_")) == [first, second]
    assert codes("--ignore", first) == every[1:]
    assert codes("--select", "demos-*", "--ignore", first) == [c for c in every[1:] if c.startswith("demos-")]


def test_ignoring_the_broken_rules_passes(invoke: Command, chain: dict[str, Path]) -> None:
    break_demos(chain["demos"])
    value = invoke("check", chain["demos"], "--json").json["reports"][0]
    broken = [r["code"] for r in value["results"] if any(f["severity"] == "error" for f in r["findings"])]
    assert invoke("check", chain["demos"], "--ignore", ",".join(broken)).code == 0


def test_an_unknown_code_is_a_usage_error_with_the_near_ones(invoke: Command, chain: dict[str, Path]) -> None:
    ran = invoke("check", chain["demos"], "--select", "demos-finit")
    assert (ran.code, ran.out) == (2, "")
    assert "error [bad-usage] no rule has this code" in ran.err
    assert "got       demos-finit" in ran.err
    assert "Did you mean demos-" in ran.err


def test_fail_on_warn(invoke: Command, chain: dict[str, Path]) -> None:
    with h5py.File(chain["demos"], "r+") as handle:
        handle["data/demo_0/actions"][0, 0] = 1.5e6
    found = invoke("check", chain["demos"], "--json").json["reports"][0]
    severities = {f["severity"] for r in found["results"] for f in r["findings"]}
    strict = invoke("check", chain["demos"], "--fail-on", "warn")
    assert strict.code == (1 if severities & {"warn", "error"} else 0)
    assert "warn" in severities or "error" in severities
    assert invoke("check", chain["demos"], "--fail-on", "wrn").code == 2


def test_a_warning_alone_fails_only_when_asked_for(invoke: Command, tmp_path: Path) -> None:
    path = write_recording("isaaclab", tmp_path / "a.hdf5", episodes=2, rows=(6, 8), cameras=(), style="rl")
    out = tmp_path / "gr00t_without_camera"
    assert invoke("convert", path, out, "--to", "lerobot-v2.1", "--fps", "20", "--task", "x").code == 0
    value = invoke("check", out, "--json").json["reports"][0]
    assert {f["severity"] for r in value["results"] for f in r["findings"]} >= {"warn"}
    assert invoke("check", out).code == 0
    assert "warned" in invoke("check", out).out
    assert invoke("check", out, "--fail-on", "warn").code == 1


def test_a_folder_is_checked_entry_by_entry(invoke: Command, chain: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "all"
    folder.mkdir()
    for path in chain.values():
        shutil.move(path, folder / path.name)
    (folder / "notes.txt").write_text("not checked")
    (folder / "broken.hdf5").write_bytes(b"")
    ran = invoke("check", folder)
    assert ran.code == 1
    assert "checked 5 · passed 4 · failed 1" in ran.out
    value = invoke("check", folder, "--json").json
    assert {Path(r["path"]).name: r["stage"] for r in value["reports"]} == {
        "broken.hdf5": "raw",
        "o.h5": "store",
        "o.hdf5": "demos",
        "o_lerobot": "lerobot",
        "take.hdf5": "raw",
    }


def test_what_exists_and_cannot_be_opened_is_a_finding(invoke: Command, recording: Path) -> None:
    whole = recording.read_bytes()
    recording.write_bytes(whole[: len(whole) // 2])
    ran = invoke("check", recording)
    assert ran.code == 1
    assert "ERROR truncated" in ran.out
    assert "Copy or record it again." in ran.out


@pytest.mark.parametrize("name", ["absent.hdf5", "notes.txt", "empty"])
def test_what_has_no_rules_could_not_run(invoke: Command, tmp_path: Path, name: str) -> None:
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "empty").mkdir()
    ran = invoke("check", name)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(("error [missing-file]", "error [no-rules]"))


def test_a_stage_can_be_named(invoke: Command, chain: dict[str, Path]) -> None:
    value = invoke("check", chain["raw"], "--stage", "demos", "--json").json
    assert value["reports"][0]["stage"] == "demos"
    assert invoke("check", chain["raw"], "--stage", "demoes").code == 2


def legacy(folder: Path) -> Path:
    """A recording without format_version whose environment is not in any table."""
    path = write_recording(
        "isaaclab", folder / "legacy.hdf5", episodes=1, rows=(6, 8), cameras=(), format_version=None
    )
    with h5py.File(path, "r+") as handle:
        handle["data/demo_0/obs/tool_quat"] = handle["data/demo_0/obs/eef_quat"][:]
    return path


def test_a_legacy_recording_needs_its_quaternions_declared(invoke: Command, tmp_path: Path) -> None:
    path = legacy(tmp_path)
    ran = invoke("check", path)
    assert ran.code == 1
    assert "ERROR quaternion-undeclared" in ran.out
    declared = [f"obs/{n}" for n in ("eef_quat", "object_orientation", "tool_quat")]
    sites = [*declared, "actions:3", "obs/actions:3"]
    options = [x for site in sites for x in ("--quaternions", site)]
    assert invoke("check", path, *options).code == 0
    assert invoke("check", path, "--quaternion-order", "xyzw").code == 0


def test_rules_that_do_not_apply_are_counted_and_listed_on_request(
    invoke: Command, chain: dict[str, Path]
) -> None:
    skipped = invoke("check", chain["store"], "--json").json["reports"][0]["skipped"]
    assert len(skipped) > 1
    text, full = (invoke(*verbose, "check", chain["store"]).out for verbose in ((), ("-v",)))
    assert f"{len(skipped)} rules do not apply here (-v lists them)\n" in text
    assert f"{len(skipped)} rules do not apply here\n" in full
    for code, why in skipped.items():
        assert f"  {code}: {why}\n" in full
        assert code not in text
    (headline,) = re.findall(r"^(\d+) rules: (.*)$", text, re.MULTILINE)
    assert int(headline[0]) == sum(map(int, re.findall(r"\d+", headline[1])))


def test_checking_changes_nothing(invoke: Command, chain: dict[str, Path], tmp_path: Path) -> None:
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")}
    for path in chain.values():
        invoke("check", path)
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")} == before
