"""`trajpipe gate`: exit codes, what people read, reports on disk, the baseline beside the catalogue."""

import json
import re
import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from trajpipe_tests.cli.conftest import Command

TODAY = datetime.now(UTC).date()


def waiver(until: int, check: str = "truncated") -> str:
    """A baseline with one waiver that ends in some days."""
    expires = (TODAY + timedelta(days=until)).isoformat()
    return (
        f"version: 1\nwaivers:\n  - check: {check}\n    owner: team:data\n"
        f"    reason: lost in a crash\n    expires: {expires}\n"
    )


@pytest.fixture
def broken(data: Path) -> Path:
    """A data folder whose second recording is cut in half."""
    path = data / "raw/lift/take_1.hdf5"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    return data


def test_a_good_project_passes_and_writes_reports_in_every_form(invoke: Command, data: Path) -> None:
    ran = invoke(
        "gate", "--report", "out/gate.xml", "--report", "out/gate.sarif", "--report", "out/gate.json"
    )
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert [line.split()[1] for line in lines[2:7]] == [
        "lift/demos/take_0",
        "lift/demos/take_1",
        "lift/demos/take_2",
        "lift/store",
        "lift/lerobot",
    ]
    assert {line.split()[0] for line in lines[2:7]} <= {"pass", "warn"}
    assert lines[-1].startswith("passed (code 0): ")
    out = data.parent / "out"
    assert ET.parse(out / "gate.xml").getroot().get("failures") == "0"
    assert json.loads((out / "gate.sarif").read_text())["runs"][0]["invocations"][0]["exitCode"] == 0
    assert json.loads((out / "gate.json").read_text())["code"] == 0
    again = invoke("gate", "--no-run", "--json")
    assert (again.code, again.json["counts"]) == (0, json.loads((out / "gate.json").read_text())["counts"])


def test_a_broken_recording_is_code_1_and_is_named(trajpipe: Command, broken: Path) -> None:
    ran = trajpipe("gate", "--stage", "demos")
    assert ran.code == 1
    assert "FAIL   lift/demos/take_1" in ran.out
    assert "FAILED  lift/demos/take_1 · stage-builds" in ran.out
    assert "ERROR truncated" in ran.out
    assert ran.out.splitlines()[-1].startswith("failed (code 1): ")


def test_a_waiver_beside_the_catalogue_opens_the_gate_until_its_day(invoke: Command, broken: Path) -> None:
    (broken / "gate.yaml").write_text(waiver(0))
    ran = invoke("gate", "--stage", "demos")
    assert ran.code == 0
    assert "waived by team:data until " in ran.out
    (broken / "gate.yaml").write_text(waiver(-1))
    expired = invoke("gate", "--stage", "demos")
    assert expired.code == 1
    assert "baseline: expired waiver of truncated" in expired.out
    (broken / "other.yaml").write_text(waiver(9, "nan-*"))
    other = invoke("gate", "--stage", "demos", "--baseline", broken / "other.yaml")
    assert other.code == 1
    assert "matches nothing: delete it" in other.out


def test_what_cannot_start_is_code_2(invoke: Command, data: Path) -> None:
    assert invoke("gate", "--catalogue", "nowhere.yaml").code == 2
    assert invoke("gate", "--check", "no-such-rule").code == 2
    assert invoke("gate", "lfit").code == 2
    assert invoke("gate", "--stage", "raw").code == 2
    assert invoke("gate", "--report", "gate.txt").code == 2
    (data / "gate.yaml").write_text("version: 1\nwaiver: []\n")
    assert invoke("gate", "--stage", "demos").code == 2
    (data / "gate.yaml").unlink()
    run = invoke("gate", "--run-id", "x", "--dagster-home", "nowhere")
    assert (run.code, "there is no Dagster instance" in run.err) == (2, True)


def test_what_never_ran_is_code_3(invoke: Command, data: Path) -> None:
    ran = invoke("gate", "--no-run")
    assert ran.code == 3
    never = [line for line in ran.out.splitlines() if line.startswith("NEVER RAN")]
    assert [re.sub(r"\d\d+ checks", "N checks", line) for line in never] == [
        *(f"NEVER RAN  lift/demos/take_{n}: N checks: missing: not ingested yet" for n in range(3)),
        "NEVER RAN  lift/store: N checks: missing: not built yet",
        "NEVER RAN  lift/lerobot: N checks: missing: not built yet",
    ], "a line for each output, not for each check"
    assert "????" in ran.out
    whole = invoke("gate", "--no-run", "--json").json["outcomes"]
    assert sum(int(re.findall(r"(\d+) checks", line)[0]) for line in never) == len(whole)
    some = invoke("gate", "--no-run", "--stage", "store", "--check", "stage-builds")
    assert "NEVER RAN  lift/store · stage-builds: missing: not built yet" in some.out.splitlines()
    for path in (data / "raw/lift").iterdir():
        path.unlink()
    empty = invoke("gate")
    assert empty.code == 3
    assert "its globs match nothing" in empty.out


def test_what_failed_stands_below_what_never_ran(invoke: Command, broken: Path) -> None:
    assert invoke("gate", "--stage", "demos").code == 1
    (broken / "raw/lift/take_3.hdf5").write_bytes((broken / "raw/lift/take_0.hdf5").read_bytes())
    baseline = waiver(9, "nan-*") + waiver(9, "'*'").split("waivers:\n")[1].replace(
        "owner:", "recording: take_3\n    owner:"
    )
    (broken / "gate.yaml").write_text(baseline)
    ran = invoke("gate", "--stage", "demos", "--no-run")
    lines = ran.out.splitlines()
    starts = [line for line in lines if line.startswith(("NEVER RAN", "baseline", "WARNED", "FAILED"))]
    (never,) = [line for line in starts if line.startswith("NEVER RAN")]
    assert never.startswith("NEVER RAN  lift/demos/take_3: ")
    assert f"(waived by team:data until {(TODAY + timedelta(days=9)).isoformat()}: lost" in ran.out
    order = ["NEVER RAN", "baseline", "WARNED", "FAILED"]
    places = [order.index(next(word for word in order if line.startswith(word))) for line in starts]
    assert places == sorted(places)
    assert starts[-1].startswith("FAILED  lift/demos/take_1 · stage-builds")
    assert len(lines) - lines.index(starts[-1]) < 12, "it stands just before the verdict"
    assert (ran.code, lines[-1].startswith("failed (code 1): ")) == (1, True)


def test_one_form_on_stdout_and_nothing_else(invoke: Command, data: Path) -> None:
    arguments = ("gate", "--partition", "take_0", "--check", "demos-q*,stage-builds")
    value = invoke(*arguments, "--format", "json").json
    assert {o["key"] for o in value["outcomes"]} == {"take_0"}
    assert value == invoke(*arguments, "--json").json | {"seconds": value["seconds"]}
    sarif = invoke(*arguments, "--format", "sarif")
    assert (sarif.code, sarif.json["version"]) == (0, "2.1.0")
    assert ET.fromstring(invoke(*arguments, "--format", "junit").out).get("name") == "trajpipe gate"
