"""One run over several recordings: each is red or green by itself, with its own events, and the rest goes on.

What is not here: runs of one recording (`test_runs`), what a backfill costs (`test_backfill`).
"""

from dataclasses import replace

import dagster as dg
import pytest

from trajpipe.core.names import Stage
from trajpipe.core.provenance import sha256_file
from trajpipe.defs.demos import demos_stage
from trajpipe.defs.gate_run import gate_on
from trajpipe.defs.partitions import asset_key, partition_of, recordings_partitions
from trajpipe.defs.resources import ProjectResource
from trajpipe.defs.stage import stage_asset
from trajpipe.pipeline.gate import GateOptions
from trajpipe.pipeline.gate_outcomes import State
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.results import StageResult
from trajpipe.testing import write_recording
from trajpipe_tests.defs.conftest import BROKEN, GOOD, QUIET, Runner

DEMOS, RAW = asset_key("lift", Stage.DEMOS), asset_key("lift", Stage.RAW)
ALL = (*GOOD, BROKEN)


@pytest.fixture
def scanned(runner: Runner) -> Runner:
    """The project with its partitions known."""
    assert runner.run("scan_job").success
    return runner


def range_tags(keys: tuple[str, ...]) -> dict[str, str]:
    """The tags by which a run holds several partitions."""
    return {"dagster/asset_partition_range_start": keys[0], "dagster/asset_partition_range_end": keys[-1]}


def run_over(
    runner: Runner, keys: tuple[str, ...] = ALL, job: dg.JobDefinition | None = None
) -> dg.ExecuteInProcessResult:
    """One run over a range of recordings, as a backfill launches it."""
    chosen = job or runner.defs.resolve_job_def("lift_demos")
    return chosen.execute_in_process(
        instance=runner.instance, tags=range_tags(keys), run_config=QUIET, raise_on_error=False
    )


def made(result: dg.ExecuteInProcessResult) -> dict[str, dg.AssetMaterialization]:
    """Partition → what the run says that it made of it."""
    return {str(e.partition): e.materialization for e in result.get_asset_materialization_events()}


def evaluated(result: dg.ExecuteInProcessResult) -> dict[str, dict[str, dg.AssetCheckEvaluation]]:
    """Partition → check → what came of it."""
    out: dict[str, dict[str, dg.AssetCheckEvaluation]] = {}
    for one in result.get_asset_check_evaluations():
        out.setdefault(str(one.partition), {})[one.check_name] = one
    return out


def failure_text(result: dg.ExecuteInProcessResult) -> str:
    """What the run's failed step says."""
    (failed,) = [event for event in result.all_events if event.is_step_failure]
    data = failed.step_failure_data.user_failure_data
    assert data is not None
    return str(data.description)


def test_a_broken_recording_leaves_the_others_of_its_run_alone(scanned: Runner) -> None:
    result = run_over(scanned)
    assert not result.success
    assert made(result).keys() == set(GOOD)
    states = scanned.instance.get_status_by_partition(DEMOS, ALL, recordings_partitions("lift"))
    assert states is not None
    shown = {key: state.value if state else None for key, state in states.items()}
    assert shown == {**dict.fromkeys(GOOD, "MATERIALIZED"), BROKEN: "FAILED"}
    assert failure_text(result).startswith(f"1 of 3 partitions failed: {BROKEN}: ")
    assert "the file is not HDF5" in failure_text(result)


def test_what_comes_after_the_broken_one_is_built(scanned: Runner) -> None:
    path = scanned.root / f"raw/{GOOD[0]}.hdf5"
    path.write_bytes(b"not HDF5 either")
    result = run_over(scanned)
    assert made(result).keys() == {GOOD[1]}
    assert failure_text(result).startswith(f"2 of 3 partitions failed: {GOOD[0]}: ")


def test_each_recording_has_its_own_checks_of_its_own_output(scanned: Runner) -> None:
    result = run_over(scanned)
    records = scanned.instance.fetch_materializations(DEMOS, limit=10).records
    outputs = {record.partition_key: record.storage_id for record in records}
    checks = evaluated(result)
    assert checks.keys() == set(ALL)
    for key in GOOD:
        assert len(checks[key]) > 30
        assert all(one.passed or one.severity is dg.AssetCheckSeverity.WARN for one in checks[key].values())
        targets = {one.target_materialization_data for one in checks[key].values()}
        assert {target.storage_id for target in targets if target is not None} == {outputs[key]}
        assert None not in targets
    (builds,) = checks[BROKEN].values()
    assert (builds.check_name, builds.passed, builds.blocking) == ("stage_builds", False, True)
    assert builds.target_materialization_data is None


def test_a_recording_tells_what_it_was_made_of(scanned: Runner) -> None:
    run_over(scanned, GOOD)
    for key in GOOD:
        wanted = dg.AssetRecordsFilter(DEMOS, asset_partitions=[key])
        (record,) = scanned.instance.fetch_materializations(wanted, limit=1).records
        assert record.asset_materialization is not None
        tags = record.asset_materialization.tags or {}
        raw = scanned.instance.fetch_materializations(
            dg.AssetRecordsFilter(RAW, asset_partitions=[key]), limit=1
        ).records[0]
        assert tags["dagster/input_data_version/lift/raw"] == sha256_file(scanned.root / f"raw/{key}.hdf5")
        assert tags["dagster/input_event_pointer/lift/raw"] == str(raw.storage_id)
        assert tags["dagster/data_version"]
        assert tags["dagster/code_version"]


def test_a_run_of_one_recording_reports_the_same_as_a_run_of_several(scanned: Runner) -> None:
    together = run_over(scanned, GOOD)
    alone = scanned.run("lift_demos", GOOD[0])
    first, second = made(together)[GOOD[0]], made(alone)[GOOD[0]]
    assert first.tags == second.tags
    differ = {"status", "seconds"}  # built, then unchanged
    assert first.metadata.keys() == second.metadata.keys()
    assert first.metadata["path"] == second.metadata["path"]
    assert {k for k in first.metadata if first.metadata[k] != second.metadata[k]} <= differ
    checks = (evaluated(together)[GOOD[0]], evaluated(alone)[GOOD[0]])
    assert checks[0].keys() == checks[1].keys()
    assert all(checks[0][name].passed == checks[1][name].passed for name in checks[0])


def test_a_repeated_run_finds_what_was_built_and_builds_what_was_repaired(scanned: Runner) -> None:
    run_over(scanned)
    path = scanned.root / f"raw/{BROKEN}.hdf5"
    write_recording("isaaclab", path, episodes=1, rows=(4, 6), seed=9, cameras=())
    result = run_over(scanned)
    assert result.success
    statuses = {key: one.metadata["status"].value for key, one in made(result).items()}
    assert statuses == {**dict.fromkeys(GOOD, "unchanged"), BROKEN: "built"}
    check = dg.AssetCheckKey(DEMOS, "stage_builds")
    history = scanned.instance.event_log_storage.get_asset_check_execution_history(check, limit=3)
    assert {record.partition: record.status.value for record in history} == dict.fromkeys(ALL, "SUCCEEDED")


def test_an_error_that_nobody_expected_leaves_the_others_alone_too(scanned: Runner) -> None:
    stage = demos_stage(Project.open(scanned.root / "datasets.yaml").dataset("lift"))

    def build(project: Project, key: str, force: bool) -> StageResult:
        if key == GOOD[0]:
            raise KeyError("a fault of ours")
        return stage.build(project, key, force)

    defs = dg.Definitions(
        assets=[stage_asset(replace(stage, build=build))],
        resources={"project": ProjectResource(catalogue=str(scanned.root / "datasets.yaml"))},
        executor=dg.in_process_executor,
    )
    job = defs.resolve_implicit_global_asset_job_def()
    result = run_over(scanned, job=job)
    assert made(result).keys() == {GOOD[1]}
    assert failure_text(result).startswith(
        f"2 of 3 partitions failed: {GOOD[0]}: KeyError: 'a fault of ours'; "
    )
    report = gate_on(scanned.instance, result.run_id, GateOptions())
    assert report.code == 2, "a fault of ours, although a recording failed too"
    assert "KeyError: 'a fault of ours'" in report.failures[0].message
    assert report.failures[0].message.endswith(f"; not reached: lift/demos/{GOOD[0]}")
    records = scanned.instance.get_records_for_run(result.run_id).records
    logged = [r.event_log_entry.user_message for r in records if r.event_log_entry.dagster_event is None]
    assert any("Traceback" in text and "a fault of ours" in text for text in logged)
    alone = job.execute_in_process(
        instance=scanned.instance, partition_key=GOOD[0], run_config=QUIET, raise_on_error=False
    )
    assert not alone.success
    errors = [e.step_failure_data.error for e in alone.all_events if e.is_step_failure]
    assert ["KeyError" in str(error) for error in errors] == [True]


def test_checks_of_several_recordings_run_without_building(scanned: Runner) -> None:
    run_over(scanned, GOOD)
    checked = dg.materialize(
        list(scanned.defs.resolve_asset_graph().assets_defs),
        selection=dg.AssetSelection.checks_for_assets(DEMOS),
        instance=scanned.instance,
        tags=range_tags(GOOD),
        run_config=QUIET,
        raise_on_error=False,
    )
    assert checked.success
    assert made(checked) == {}
    checks = evaluated(checked)
    assert checks.keys() == set(GOOD)
    for key in GOOD:
        assert len(checks[key]) > 30
        assert all(one.passed for one in checks[key].values())
        assert None not in {one.target_materialization_data for one in checks[key].values()}


def test_a_gate_tells_the_recordings_of_a_run_apart(scanned: Runner) -> None:
    report = gate_on(scanned.instance, run_over(scanned).run_id, GateOptions())
    assert (report.code, report.failures) == (1, [])
    states: dict[str, set[State]] = {}
    for outcome in report.outcomes:
        states.setdefault(outcome.key, set()).add(outcome.state)
    assert states[BROKEN] == {State.FAILED, State.NOT_REACHED}
    for key in GOOD:
        assert states[key] <= {State.PASSED, State.SKIPPED, State.WARNED}
    (failed,) = [o for o in report.outcomes if o.state is State.FAILED]
    assert (failed.unit, failed.code) == (f"lift/demos/{BROKEN}", "stage-builds")
    one = gate_on(scanned.instance, run_over(scanned).run_id, GateOptions(partitions=(GOOD[0],)))
    assert one.code == 0


def test_no_log_line_calls_checks_omitted_that_were_reported(scanned: Runner) -> None:
    result = run_over(scanned, GOOD)
    records = scanned.instance.get_records_for_run(result.run_id).records
    assert not [r for r in records if "did not yield" in r.event_log_entry.user_message]


def test_a_run_names_its_partitions(scanned: Runner) -> None:
    several = scanned.instance.get_run_by_id(run_over(scanned, GOOD).run_id)
    alone = scanned.instance.get_run_by_id(scanned.run("lift_demos", GOOD[0]).run_id)
    scan = scanned.instance.get_run_by_id(scanned.run("scan_job").run_id)
    assert several is not None
    assert alone is not None
    assert scan is not None
    assert [partition_of(run) for run in (several, alone, scan)] == [f"{GOOD[0]}...{GOOD[1]}", GOOD[0], ""]


@pytest.mark.parametrize(("line", "number"), [("", 4), ("    recordings_per_run: 7\n", 7)])
def test_the_catalogue_says_how_many_recordings_a_run_of_a_backfill_holds(
    runner: Runner, line: str, number: int
) -> None:
    catalogue = runner.root / "datasets.yaml"
    catalogue.write_text(catalogue.read_text() + line)
    graph = Runner(catalogue, runner.instance).defs.resolve_asset_graph()
    policy = graph.get(DEMOS).backfill_policy
    assert policy is not None
    assert policy.max_partitions_per_run == number
