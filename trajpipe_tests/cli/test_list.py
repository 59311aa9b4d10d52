"""`trajpipe list`: datasets, recordings, and the state of every stage."""

import json
from pathlib import Path
from typing import Any

from trajpipe.testing import write_recording
from trajpipe_tests.cli.conftest import Command


def states(value: dict[str, Any]) -> tuple[list[str], str, str]:
    """States of the recordings, the store and the export of the only dataset."""
    (one,) = value["datasets"]
    return [r["state"] for r in one["recordings"]], one["store"]["state"], one["lerobot"]["state"]


def test_the_states_follow_what_happens(invoke: Command, data: Path) -> None:
    at = ("--root", data)
    assert states(invoke("list", *at, "--json").json) == (["missing"] * 3, "missing", "missing")
    assert invoke("run", *at, "--stage", "demos").code == 0
    assert states(invoke("list", *at, "--json").json) == (["built"] * 3, "missing", "missing")
    assert invoke("run", *at).code == 0
    assert states(invoke("list", *at, "--json").json) == (["built"] * 3, "built", "built")
    write_recording("isaaclab", data / "raw/lift/take_1.hdf5", episodes=2, rows=(8, 12), seed=9, cameras=())
    assert states(invoke("list", *at, "--json").json) == (["built", "stale", "built"], "stale", "stale")
    (data / "raw/lift/take_1.hdf5").write_bytes(b"")
    invoke("run", *at)
    recordings, store, lerobot = states(invoke("list", *at, "--json").json)
    assert recordings == ["built", "failed", "built"]
    assert (store, lerobot) == ("built", "built")


def test_a_removed_output_is_missing(invoke: Command, data: Path) -> None:
    at = ("--root", data)
    invoke("run", *at, "--stage", "demos", "--stage", "store")
    (data / "stores" / "lift.h5").unlink()
    assert states(invoke("list", *at, "--json").json)[1] == "missing"


def test_one_line_per_dataset_and_recordings_on_request(invoke: Command, data: Path) -> None:
    invoke("run", "--root", data, "--stage", "demos")
    brief = invoke("list", "--root", data)
    assert brief.code == 0
    assert "3 built" in brief.out
    assert "take_1" not in brief.out
    detailed = invoke("list", "lift", "--root", data, COLUMNS="400").out
    for number in range(3):
        assert f"raw/lift/take_{number}.hdf5" in detailed
        assert f"demos/scripted_lift__take_{number}.hdf5" in detailed
    assert "not built yet" in detailed


def test_why_a_recording_failed_is_shown(invoke: Command, data: Path) -> None:
    (data / "raw/lift/take_0.hdf5").write_bytes(b"")
    assert invoke("run", "--root", data).code == 1
    ran = invoke("list", "--root", data)
    assert "1 failed" in ran.out
    assert "why they failed: trajpipe list lift" in ran.err
    assert "the file is empty" in invoke("list", "lift", "--root", data, COLUMNS="400").out


def test_a_store_whose_build_failed_is_not_called_missing(invoke: Command, data: Path) -> None:
    at, catalogue = ("--root", data), data / "datasets.yaml"
    good = catalogue.read_text()
    catalogue.write_text(f"{good}    store: {{layout: libero}}\n")
    assert invoke("run", *at, "--stage", "demos", "--stage", "store").code == 1
    assert (data / "stores/lift.h5.failure.json").is_file()
    (one,) = invoke("list", *at, "--json").json["datasets"]
    noted = json.loads((data / "stores/lift.h5.failure.json").read_text())
    assert (one["store"]["state"], one["store"]["why"]) == ("failed", noted["error"])
    assert one["lerobot"]["state"] == "missing"
    brief = invoke("list", *at)
    assert "why they failed: trajpipe list lift" in brief.err
    catalogue.write_text(good)
    assert invoke("run", *at, "--stage", "store").code == 0
    assert states(invoke("list", *at, "--json").json)[1] == "built"


def test_listing_changes_nothing(invoke: Command, data: Path) -> None:
    invoke("run", "--root", data)
    before = {p: p.stat().st_mtime_ns for p in data.rglob("*")}
    invoke("list", "lift", "--root", data)
    assert {p: p.stat().st_mtime_ns for p in data.rglob("*")} == before


def test_a_dataset_without_recordings(invoke: Command, data: Path) -> None:
    for path in (data / "raw/lift").iterdir():
        path.unlink()
    ran = invoke("list", "--root", data)
    assert ran.code == 0
    assert "no recording" in ran.out


def test_unknown_names_and_catalogues_could_not_run(invoke: Command, data: Path, tmp_path: Path) -> None:
    ran = invoke("list", "lfit", "--root", data)
    assert ran.code == 2
    assert "Did you mean `lift`?" in ran.err
    (data / "datasets.yaml").write_text("version: 1\ndatasets:\n  lift:\n    rawr: []\n")
    ran = invoke("list", "--root", data)
    assert ran.code == 2
    assert "line 4" in ran.err
    assert invoke("list", "--root", tmp_path / "absent").code == 2


def test_the_text_fits_a_narrow_terminal(invoke: Command, data: Path) -> None:
    ran = invoke("list", "lift", "--root", data, COLUMNS="60")
    assert max(len(line) for line in ran.out.splitlines()) <= 60
