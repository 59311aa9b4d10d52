"""Scanning on a real instance: new, changed, removed and unreadable recordings.

What is not here: what is done with them.
"""

from pathlib import Path

import dagster as dg
import pytest

from trajpipe.core import provenance
from trajpipe.defs.scan import DATA_VERSION_TAG, scan
from trajpipe.pipeline.project import Project
from trajpipe_tests.defs.conftest import BROKEN, GOOD, Runner

RAW = dg.AssetKey(["lift", "raw"])


def _scan(runner: Runner) -> str:
    """Scan as the job does; the summary."""
    found = scan(runner.instance, Project.open(runner.root / "datasets.yaml"), "lift")
    for event in found.events:
        runner.instance.report_runless_asset_event(event)
    return found.summary()


def _events(runner: Runner) -> list[tuple[str | None, str]]:
    records = runner.instance.fetch_materializations(RAW, limit=100).records
    found = [r.asset_materialization for r in reversed(records)]
    return [(e.partition, (e.tags or {})[DATA_VERSION_TAG]) for e in found if e is not None]


def test_new_recordings_get_a_partition_and_an_event_with_their_hash(runner: Runner) -> None:
    assert _scan(runner) == "lift: 3 new, 0 changed, 0 unchanged, 0 removed"
    assert runner.instance.get_dynamic_partitions("lift_recordings") == [*GOOD, BROKEN]
    assert _events(runner) == [
        (key, provenance.sha256_file(runner.root / f"raw/{key}.hdf5")) for key in [*GOOD, BROKEN]
    ]


def test_an_unchanged_recording_gives_no_event(runner: Runner) -> None:
    _scan(runner)
    assert _scan(runner) == "lift: 0 new, 0 changed, 3 unchanged, 0 removed"
    assert len(_events(runner)) == 3


def test_a_changed_recording_gives_one_event(runner: Runner) -> None:
    _scan(runner)
    (runner.root / f"raw/{BROKEN}.hdf5").write_bytes(b"changed")
    assert _scan(runner) == "lift: 0 new, 1 changed, 2 unchanged, 0 removed"
    assert _events(runner)[-1] == (BROKEN, provenance.sha256_bytes(b"changed"))
    assert _scan(runner) == "lift: 0 new, 0 changed, 3 unchanged, 0 removed"


def test_a_touched_recording_is_not_a_changed_one(runner: Runner) -> None:
    _scan(runner)
    path = runner.root / f"raw/{GOOD[0]}.hdf5"
    path.write_bytes(path.read_bytes())
    assert _scan(runner) == "lift: 0 new, 0 changed, 3 unchanged, 0 removed"


def test_a_removed_recording_keeps_its_partition(runner: Runner) -> None:
    _scan(runner)
    (runner.root / f"raw/{GOOD[1]}.hdf5").unlink()
    assert _scan(runner) == "lift: 0 new, 0 changed, 2 unchanged, 1 removed"
    assert runner.instance.get_dynamic_partitions("lift_recordings") == [*GOOD, BROKEN]


def test_a_recording_that_cannot_be_hashed_is_named_and_stops_no_other(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = runner.root / f"raw/{GOOD[1]}.hdf5"
    hashed = provenance.sha256_path

    def vanishing(file: Path) -> str:
        """The recording is deleted between its listing and its hashing."""
        file.unlink() if file == path else None
        return hashed(file)

    monkeypatch.setattr(provenance, "sha256_path", vanishing)
    summary = _scan(runner)
    assert summary.startswith("lift: 2 new, 0 changed, 0 unchanged, 0 removed; scripted_1: ")
    assert "No such file" in summary


def test_the_job_scans_all_datasets_or_the_named_ones(runner: Runner, tmp_path: Path) -> None:
    assert runner.run("scan_job").success
    assert len(_events(runner)) == 3
    job = runner.defs.resolve_job_def("scan_job")
    config = {"ops": {"scan_recordings": {"config": {"datasets": ["lfit"]}}}}
    result = job.execute_in_process(instance=runner.instance, run_config=config, raise_on_error=False)
    assert not result.success


def test_scanning_knows_more_recordings_than_one_page_of_events(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    (tmp_path / "raw").mkdir()
    for number in range(601):
        (tmp_path / f"raw/r{number}.hdf5").write_bytes(str(number).encode())
    text = "version: 1\ndatasets: {lift: {raw: [{kind: isaaclab, glob: raw/*.hdf5}]}}"
    (tmp_path / "datasets.yaml").write_text(text, encoding="utf-8")
    project = Project.open(tmp_path / "datasets.yaml")
    first = scan(instance, project, "lift")
    assert len(first.added) == 601
    for event in first.events:
        instance.report_runless_asset_event(event)
    assert len(scan(instance, project, "lift").unchanged) == 601
