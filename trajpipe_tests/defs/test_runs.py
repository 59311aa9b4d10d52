"""Real runs on a real instance: end to end, a broken recording, unchanged re-runs, blocking checks.

What is not here: the shape of the graph (`test_definitions`), scanning (`test_scan`).
"""

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from trajpipe.checks import registry
from trajpipe.checks.registry import Check, Subject, checks_of
from trajpipe.core import provenance
from trajpipe.core.findings import Finding, Severity
from trajpipe.core.names import Stage
from trajpipe.defs.checks import check_name
from trajpipe.pipeline.project import Project
from trajpipe.testing import write_recording
from trajpipe_tests.defs.conftest import BROKEN, GOOD, QUIET, Built, Runner

DEMOS, STORE, LEROBOT = (dg.AssetKey(["lift", stage]) for stage in ("demos", "store", "lerobot"))


def _checks(result: dg.ExecuteInProcessResult, key: dg.AssetKey) -> dict[str, bool]:
    return {e.check_name: e.passed for e in result.get_asset_check_evaluations() if e.asset_key == key}


def _metadata(result: dg.ExecuteInProcessResult, key: dg.AssetKey) -> dict[str, Any]:
    for event in result.get_asset_materialization_events():
        if event.asset_key == key:
            return dict(event.materialization.metadata)
    raise AssertionError(f"{key} was not materialized")


def _failure(result: dg.ExecuteInProcessResult) -> tuple[str, dict[str, Any]]:
    """Description and metadata of the failed step."""
    for event in result.all_events:
        if event.is_step_failure:
            data = event.step_failure_data.user_failure_data
            assert data is not None
            return str(data.description), dict(data.metadata)
    raise AssertionError("no step failed")


def _names(stage: Stage) -> set[str]:
    """Names of all checks of a stage."""
    return {check_name(rule.code) for rule in checks_of(stage)} | {"stage_builds", "source_findings"}


def test_a_dataset_is_built_end_to_end_without_its_broken_recording(built: Built) -> None:
    root = built.runner.root
    assert built.scan.success
    for key in GOOD:
        assert built.demos[key].success
        assert _checks(built.demos[key], DEMOS).keys() == _names(Stage.DEMOS)
    assert built.build.success
    assert _checks(built.build, STORE).keys() == _names(Stage.STORE)
    assert _checks(built.build, LEROBOT).keys() == _names(Stage.LEROBOT)
    assert (root / "stores/lift.h5").is_file()
    assert (root / "lerobot/lift/meta/info.json").is_file()
    failed = _metadata(built.build, STORE)["failed recordings"].records
    assert [record.data["recording"] for record in failed] == ["scripted_9.hdf5"]
    assert _metadata(built.build, STORE)["episodes written"].value == 2 * len(GOOD)


def test_a_broken_recording_is_red_with_its_finding(built: Built) -> None:
    broken = built.demos[BROKEN]
    assert not broken.success
    assert _checks(broken, DEMOS) == {"stage_builds": False}
    text, metadata = _failure(broken)
    assert "scripted_9.hdf5: the file is not HDF5" in text
    assert [record.data["code"] for record in metadata["findings"].records] == ["unreadable"]
    assert broken.get_asset_materialization_events() == []


def test_partitions_are_red_and_green_each_by_itself(built: Built) -> None:
    storage = built.runner.instance.event_log_storage
    assert set(storage.get_materialized_partitions(DEMOS)) == set(GOOD)
    check = dg.AssetCheckKey(DEMOS, "stage_builds")
    history = storage.get_asset_check_execution_history(check, limit=10)
    status = {record.partition: record.status.value for record in history}
    assert status == {**dict.fromkeys(GOOD, "SUCCEEDED"), BROKEN: "FAILED"}


def test_an_instance_on_disk_remembers_the_red_partition(catalogue: Path, tmp_path: Path) -> None:
    home, settings = tmp_path / "home", {"telemetry": {"enabled": False}}
    home.mkdir()
    with dg.DagsterInstance.local_temp(str(home), overrides=settings) as instance:
        runner = Runner(catalogue, instance)
        runner.run("scan_job")
        runner.run("lift_demos", BROKEN)
    with dg.DagsterInstance.local_temp(str(home), overrides=settings) as instance:
        check = dg.AssetCheckKey(DEMOS, "stage_builds")
        (record,) = instance.event_log_storage.get_asset_check_execution_history(check, limit=10)
        assert (record.partition, record.status.value) == (BROKEN, "FAILED")
        assert instance.get_dynamic_partitions("lift_recordings") == [*GOOD, BROKEN]


def test_metadata_tells_path_counts_rows_schema_and_ledger(built: Built) -> None:
    metadata = _metadata(built.demos[GOOD[0]], DEMOS)
    path = built.runner.root / "demos/scripted_lift__scripted_0.hdf5"
    assert metadata["path"].value == str(path)
    assert metadata["status"].value == "built"
    assert metadata["summary"].value == "read 2 · written 2 · rejected 0"
    assert metadata["episodes written"].value == 2
    assert 24 <= metadata["dagster/row_count"].value <= 32
    assert metadata["bytes"].value == path.stat().st_size
    assert [r.data for r in metadata["ledger"].records] == [
        {"recording": "scripted_0.hdf5", "read": 2, "written": 2, "rejected": 0, "reasons": ""}
    ]


@pytest.mark.parametrize(
    ("stage", "column", "kind"),
    [
        (Stage.DEMOS, "actions", "float32 (T, 8)"),
        (Stage.STORE, "action", "float32 (T, 8)"),
        (Stage.LEROBOT, "action", "float32 (T, 8)"),
    ],
)
def test_the_schema_of_every_stage_is_shown(built: Built, stage: Stage, column: str, kind: str) -> None:
    result = built.demos[GOOD[0]] if stage is Stage.DEMOS else built.build
    schema = _metadata(result, dg.AssetKey(["lift", stage.value]))["dagster/column_schema"].value
    assert {c.name: c.type for c in schema.columns}[column] == kind


def test_the_data_version_is_the_outputs_hash(built: Built) -> None:
    (event,) = built.demos[GOOD[0]].get_asset_materialization_events()
    path = built.runner.root / "demos/scripted_lift__scripted_0.hdf5"
    assert (event.materialization.tags or {})["dagster/data_version"] == provenance.sha256_file(path)


def test_unchanged_input_returns_the_stored_result_and_reports_its_checks_again(built: Built) -> None:
    path = built.runner.root / "demos/scripted_lift__scripted_0.hdf5"
    before = path.stat()
    again = built.runner.run("lift_demos", GOOD[0])
    assert again.success
    assert _metadata(again, DEMOS)["status"].value == "unchanged"
    assert _checks(again, DEMOS) == _checks(built.demos[GOOD[0]], DEMOS)
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (before.st_mtime_ns, before.st_ino)


def test_an_unchanged_store_and_export_are_reported_again(built: Built) -> None:
    again = built.runner.run("lift_build")
    assert [_metadata(again, key)["status"].value for key in (STORE, LEROBOT)] == ["unchanged", "unchanged"]
    assert _checks(again, STORE) == _checks(built.build, STORE)
    assert _checks(again, LEROBOT) == _checks(built.build, LEROBOT)


def test_force_builds_anew_the_same_bytes(runner: Runner) -> None:
    runner.run("scan_job")
    runner.run("lift_demos", GOOD[0])
    path = runner.root / "demos/scripted_lift__scripted_0.hdf5"
    before = (path.stat().st_ino, provenance.sha256_file(path))
    forced = runner.run("lift_demos", GOOD[0], force=True)
    assert _metadata(forced, DEMOS)["status"].value == "built"
    assert path.stat().st_ino != before[0]
    assert provenance.sha256_file(path) == before[1]


def test_a_mended_recording_turns_its_partition_green(runner: Runner) -> None:
    runner.run("scan_job")
    assert not runner.run("lift_demos", BROKEN).success
    path = runner.root / f"raw/{BROKEN}.hdf5"
    write_recording("isaaclab", path, episodes=2, rows=(12, 16), seed=9, image_size=64)
    assert runner.run("lift_demos", BROKEN).success


def test_a_removed_recordings_partition_fails_with_the_reason(runner: Runner) -> None:
    runner.run("scan_job")
    (runner.root / f"raw/{GOOD[1]}.hdf5").unlink()
    result = runner.run("lift_demos", GOOD[1])
    assert not result.success
    assert "the recording of this partition is no longer there; got scripted_1" in _failure(result)[0]


def test_a_store_without_any_recording_is_red_and_its_export_does_not_run(runner: Runner) -> None:
    result = runner.run("lift_build")
    assert not result.success
    assert _failure(result)[0].startswith("0 of 3 recordings are ready, 1 needed")
    assert _checks(result, STORE) == {"stage_builds": False}
    assert _checks(result, LEROBOT) == {}
    assert not result.get_asset_materialization_events()


@pytest.fixture
def refusing_rule(monkeypatch: pytest.MonkeyPatch) -> Check:
    """A blocking rule of the store that always finds an ERROR."""

    def refuse(subject: Subject) -> list[Finding]:
        subject.count(1, 1, "stores")
        return [Finding("always-refused", Severity.ERROR, "this store is refused")]

    rule = Check("always-refused", Stage.STORE.value, "Refuses every store", refuse, blocking=True)
    monkeypatch.setitem(registry._REGISTRY, (rule.stage, rule.code), rule)
    return rule


def test_a_blocking_check_stops_what_is_downstream(
    catalogue: Path, instance: dg.DagsterInstance, refusing_rule: Check
) -> None:
    runner = Runner(catalogue, instance)
    runner.run("scan_job")
    runner.run("lift_demos", GOOD[0])
    result = runner.run("lift_build")
    assert not result.success
    assert _checks(result, STORE)["always_refused"] is False
    assert "this store is refused" in _failure(result)[0]
    assert _checks(result, LEROBOT) == {}
    assert not (runner.root / "lerobot/lift").exists()


def test_a_rule_registered_later_runs_on_an_unchanged_output(
    built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    def count(subject: Subject) -> list[Finding]:
        subject.count(2, 2, "demos")
        return []

    late = Check("came-late", Stage.DEMOS.value, "Came with an extension", count, blocking=False)
    monkeypatch.setitem(registry._REGISTRY, (late.stage, late.code), late)
    later = Runner(built.runner.root / "datasets.yaml", built.runner.instance)
    result = later.run("lift_demos", GOOD[0])
    assert _metadata(result, DEMOS)["status"].value == "unchanged"
    assert _checks(result, DEMOS)["came_late"] is True


def _checks_alone(runner: Runner, key: dg.AssetKey) -> dg.ExecuteInProcessResult:
    """Run the checks of an asset without the asset."""
    return dg.materialize(
        list(runner.defs.resolve_asset_graph().assets_defs),
        selection=dg.AssetSelection.checks_for_assets(key),
        instance=runner.instance,
        run_config=QUIET,
        raise_on_error=False,
    )


def test_checks_run_alone_on_what_is_on_disk(built: Built) -> None:
    result = _checks_alone(built.runner, STORE)
    assert result.success
    assert result.get_asset_materialization_events() == []
    assert _checks(result, STORE).keys() == _names(Stage.STORE)
    assert all(_checks(result, STORE).values())


def test_checks_alone_find_a_file_damaged_since(built: Built) -> None:
    store = built.runner.root / "stores/lift.h5"
    whole = store.read_bytes()
    store.write_bytes(whole[: len(whole) // 2])
    try:
        result = _checks_alone(built.runner, STORE)
    finally:
        store.write_bytes(whole)
    assert not result.success
    assert _checks(result, STORE)["store_manifest"] is False


def test_what_is_beside_the_output_is_what_the_command_line_reads(built: Built) -> None:
    project = Project.open(built.runner.root / "datasets.yaml")
    states = {recording.key: project.state_of(recording)[0] for recording in project.recordings("lift")}
    assert states == {**dict.fromkeys(GOOD, "ready"), BROKEN: "failed"}
