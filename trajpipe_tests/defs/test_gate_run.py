"""The gate over real runs of a real instance: good, broken, blocked, unfinished, a backfill; events on disk.

What is not here: what outcomes come to, see `trajpipe_tests.pipeline.test_gate`.
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster import DagsterRunStatus
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.execution.api import execute_run
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill
from dagster._core.execution.plan.resume_retry import ReexecutionStrategy
from dagster._core.test_utils import create_run_for_test, in_process_test_workspace
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

from trajpipe.checks import registry
from trajpipe.checks.registry import Check, Subject, checks_of
from trajpipe.core.errors import MissingNameError, StateError, UsageError
from trajpipe.core.findings import Finding, Place, Severity
from trajpipe.core.names import Stage
from trajpipe.defs.gate_run import BACKFILL_TAG, gate_of_run, gate_on
from trajpipe.pipeline.gate import GateOptions
from trajpipe.pipeline.gate_outcomes import GateReport, State
from trajpipe.testing import write_recording
from trajpipe_tests.conftest import REPOSITORY
from trajpipe_tests.defs.conftest import BROKEN, GOOD, QUIET, Built, Runner

RANGE = {
    "dagster/asset_partition_range_start": GOOD[0],
    "dagster/asset_partition_range_end": BROKEN,
}
KILLED = """
import json, os, signal, sys
from pathlib import Path
import dagster as dg
from trajpipe.pipeline import ingest
from trajpipe_tests.defs.conftest import GOOD, QUIET, Runner
real = ingest.ingest
def deadly(plan, **more):
    if plan.key == GOOD[1]:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(plan, **more)
ingest.ingest = deadly
catalogue, home, tags = sys.argv[1:]
with dg.DagsterInstance.from_config(home) as instance:
    Runner(Path(catalogue), instance).defs.resolve_job_def("lift_demos").execute_in_process(
        instance=instance, tags=json.loads(tags), run_config=QUIET
    )
"""


def states(report: GateReport) -> dict[State, set[str]]:
    """State → units in it."""
    out: dict[State, set[str]] = {}
    for outcome in report.outcomes:
        out.setdefault(outcome.state, set()).add(outcome.unit)
    return out


def test_a_good_run_passes_with_every_planned_check_of_its_partition(built: Built) -> None:
    report = gate_on(built.runner.instance, built.demos[GOOD[0]].run_id, GateOptions())
    assert report.code == 0, report.verdict()
    codes = [o.code for o in report.outcomes]
    assert len(codes) == len(set(codes))
    assert {c.code for c in checks_of(Stage.DEMOS)} < set(codes)
    assert {o.unit for o in report.outcomes} == {f"lift/demos/{GOOD[0]}"}


def test_a_broken_recordings_run_is_code_1_with_its_finding(built: Built) -> None:
    report = gate_on(built.runner.instance, built.demos[BROKEN].run_id, GateOptions())
    assert (report.code, report.failures) == (1, [])
    (failed,) = [o for o in report.outcomes if o.state is State.FAILED]
    assert (failed.unit, failed.code) == (f"lift/demos/{BROKEN}", "stage-builds")
    assert [f.severity for f in failed.findings] == [Severity.ERROR]
    assert "HDF5" in str(next(iter(failed.findings)))
    assert {o.state for o in report.outcomes} == {State.FAILED, State.NOT_REACHED}


def test_a_recording_that_somebody_writes_is_no_fault_of_its_data(runner: Runner) -> None:
    runner.run("scan_job")
    with (runner.root / f"raw/{GOOD[0]}.hdf5").open("rb+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # as HDF5 does
        run = runner.run("lift_demos", GOOD[0])
    report = gate_on(runner.instance, run.run_id, GateOptions())
    assert report.code == 2
    (failure,) = report.failures
    assert "is being written" in failure.message


def test_the_build_runs_checks_of_store_and_export_are_read(built: Built) -> None:
    report = gate_on(built.runner.instance, built.build.run_id, GateOptions())
    assert report.code == 0, report.verdict()
    assert {o.unit for o in report.outcomes} == {"lift/store", "lift/lerobot"}
    assert State.SKIPPED in states(report)
    some = gate_on(built.runner.instance, built.build.run_id, GateOptions(stages=(Stage.STORE,)))
    assert {o.unit for o in some.outcomes} == {"lift/store"}
    none = gate_on(built.runner.instance, built.build.run_id, GateOptions(datasets=("stack",)))
    assert (none.code, none.outcomes) == (3, [])


def test_a_blocking_failure_leaves_downstream_checks_unrun(runner: Runner) -> None:
    def rule(subject: Subject) -> list[Finding]:
        place = Place(file=subject.path.name, row=7)
        return [Finding("too-heavy", Severity.ERROR, "it is too heavy", place, got="9 kg", expected="1 kg")]

    registry._REGISTRY[("store", "too-heavy")] = Check("too-heavy", "store", "Is light", rule)
    try:
        runner = Runner(runner.root / "datasets.yaml", runner.instance)
        runner.run("scan_job")
        for key in GOOD:
            assert runner.run("lift_demos", key).success
        run = runner.run("lift_build")
        report = gate_on(runner.instance, run.run_id, GateOptions())
        assert (report.code, report.failures) == (1, [])
        (failed,) = [o for o in report.outcomes if o.state is State.FAILED]
        (finding,) = failed.findings
        assert (failed.unit, failed.code, failed.title) == ("lift/store", "too-heavy", "Is light")
        assert (finding.code, finding.got, finding.expected) == ("too-heavy", "9 kg", "1 kg")
        assert {o.unit for o in report.outcomes if o.state is State.NEVER_RAN} == {"lift/lerobot"}
        selected = gate_on(runner.instance, run.run_id, GateOptions(stages=(Stage.LEROBOT,)))
        assert (selected.code, selected.failures) == (3, [])
    finally:
        del registry._REGISTRY[("store", "too-heavy")]


def test_a_run_that_failed_for_another_reason_is_code_2(built: Built) -> None:
    instance = built.runner.instance
    run = create_run_for_test(instance, job_name="lift_build", status=DagsterRunStatus.FAILURE)
    report = gate_on(instance, run.run_id, GateOptions())
    assert report.code == 2
    assert report.failures[0].message == f"run {run.run_id} of lift_build ended FAILURE"


def test_a_killed_run_is_code_2_although_a_recording_of_it_failed(catalogue: Path, home: Path) -> None:
    (catalogue.parent / f"raw/{GOOD[0]}.hdf5").write_bytes(b"not HDF5 either")
    run_id = _killed(catalogue, home, RANGE)
    report = gate_of_run(run_id, home, GateOptions())
    assert report.code == 2, report.verdict()
    assert report.failures[0].message == (
        f"run {run_id} of lift_demos ended FAILURE: This run has been marked as failed from outside the "
        f"execution context; not reached: lift/demos/{GOOD[1]}, lift/demos/{BROKEN}"
    )
    found = states(report)
    assert found[State.FAILED] == {f"lift/demos/{GOOD[0]}"}
    assert found[State.NEVER_RAN] == {f"lift/demos/{GOOD[1]}", f"lift/demos/{BROKEN}"}


def test_it_waits_for_the_run_to_end_but_not_forever(built: Built) -> None:
    instance = built.runner.instance
    run = create_run_for_test(instance, job_name="lift_build", status=DagsterRunStatus.STARTED)
    began = time.monotonic()
    with pytest.raises(StateError, match=r"did not end in time; got STARTED after 0\.3 s"):
        gate_on(instance, run.run_id, GateOptions(), timeout_s=0.3, poll_s=0.05)
    assert time.monotonic() - began < 5
    ends = threading.Timer(0.3, lambda: instance.report_run_canceled(run))
    ends.start()
    report = gate_on(instance, run.run_id, GateOptions(), timeout_s=30, poll_s=0.05)
    ends.join()
    assert (report.code, "CANCELED" in report.failures[0].message) == (2, True)


def test_an_unknown_run_or_check_or_instance_is_refused(built: Built, tmp_path: Path) -> None:
    instance = built.runner.instance
    with pytest.raises(MissingNameError, match="no such run or backfill; got nowhere"):
        gate_on(instance, "nowhere", GateOptions())
    with pytest.raises(UsageError, match="no check of this name"):
        gate_on(instance, "nowhere", GateOptions(checks=("no-such",)))
    with pytest.raises(StateError, match="there is no Dagster instance"):
        gate_of_run("nowhere", tmp_path / "home", GateOptions())


def test_an_environment_without_an_instance_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    with pytest.raises(StateError, match="Name it with --dagster-home"):
        gate_of_run("nowhere", None, GateOptions())


def test_a_backfill_is_all_its_runs_and_only_the_last_of_each_partition(catalogue: Path, home: Path) -> None:
    with dg.DagsterInstance.from_config(str(home)) as instance:
        runner = Runner(catalogue, instance)
        runner.run("scan_job")
        _backfill(runner, "bf", BulkActionStatus.COMPLETED_SUCCESS)
        for key in (BROKEN, GOOD[0]):
            _run_of_backfill(runner, key, "bf")
    report = gate_of_run("bf", home, GateOptions())
    assert report.code == 1
    assert {o.unit for o in report.outcomes} == {f"lift/demos/{BROKEN}", f"lift/demos/{GOOD[0]}"}
    only = gate_of_run("bf", home, GateOptions(partitions=("scripted_0",)))
    assert (only.code, {o.key for o in only.outcomes}) == (0, {"scripted_0"})
    whole = (catalogue.parent / f"raw/{GOOD[0]}.hdf5").read_bytes()
    (catalogue.parent / f"raw/{BROKEN}.hdf5").write_bytes(whole)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        _run_of_backfill(Runner(catalogue, instance), BROKEN, "bf")
    assert gate_of_run("bf", home, GateOptions()).code == 0


@pytest.fixture
def stored(catalogue: Path, home: Path) -> Iterator[Runner]:
    """The project on an instance on disk, as code locations need it; its partitions are known."""
    with dg.DagsterInstance.from_config(str(home)) as instance:
        runner = Runner(catalogue, instance)
        assert runner.run("scan_job").success
        yield runner


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An instance on disk."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    return folder


def _killed(catalogue: Path, home: Path, tags: dict[str, str]) -> str:
    """A run over all recordings that is killed at the second; marked as failed, as a daemon does it."""
    with dg.DagsterInstance.from_config(str(home)) as instance:
        Runner(catalogue, instance).run("scan_job")
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(catalogue), str(home), json.dumps(tags)],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()[-3000:]
    with dg.DagsterInstance.from_config(str(home)) as instance:
        (run,) = instance.get_runs(dg.RunsFilter(job_name="lift_demos"))
        instance.report_run_failed(run)
        return run.run_id


@pytest.mark.parametrize("while_it_goes_on", [False, True])
def test_a_run_that_was_executed_again_counts_for_its_backfill(
    stored: Runner, while_it_goes_on: bool
) -> None:
    _backfill(
        stored, "bf", BulkActionStatus.REQUESTED if while_it_goes_on else BulkActionStatus.COMPLETED_FAILED
    )
    first = _range_of_backfill(stored, "bf")
    _write_again(stored.root, BROKEN)
    again = _executed_again(stored, first)
    _ended_backfill(stored, "bf")
    assert (BACKFILL_TAG in again.tags) is while_it_goes_on
    assert again.tags["dagster/root_run_id"] == first.run_id
    report = gate_on(stored.instance, "bf", GateOptions())
    assert report.code == 0, report.verdict()
    assert {o.unit for o in report.outcomes} == {f"lift/demos/{key}" for key in (*GOOD, BROKEN)}
    assert len(report.outcomes) == len({(o.unit, o.code) for o in report.outcomes})
    assert gate_on(stored.instance, first.run_id, GateOptions()).code == 1, "a run is judged by itself"


def test_the_last_of_several_that_repeat_each_other_decides(stored: Runner) -> None:
    _backfill(stored, "bf", BulkActionStatus.COMPLETED_FAILED)
    first = _range_of_backfill(stored, "bf")
    good = (stored.root / f"raw/{GOOD[0]}.hdf5").read_bytes()
    _write_again(stored.root, BROKEN)
    (stored.root / f"raw/{GOOD[0]}.hdf5").write_bytes(b"lost meanwhile")
    second = _executed_again(stored, first)
    report = gate_on(stored.instance, "bf", GateOptions())
    assert (report.code, states(report)[State.FAILED]) == (1, {f"lift/demos/{GOOD[0]}"})
    (stored.root / f"raw/{GOOD[0]}.hdf5").write_bytes(good)
    third = _executed_again(stored, second)
    assert third.tags["dagster/parent_run_id"] == second.run_id
    assert gate_on(stored.instance, "bf", GateOptions()).code == 0


def test_a_run_that_was_lost_counts_until_all_of_it_was_covered(stored: Runner) -> None:
    _backfill(stored, "bf", BulkActionStatus.COMPLETED_FAILED)
    _write_again(stored.root, BROKEN)
    job = stored.defs.resolve_job_def("lift_demos")
    tags = RANGE | {BACKFILL_TAG: "bf"}
    lost = stored.instance.create_run_for_job(job, tags=tags, asset_selection=job.asset_selection)
    stored.instance.report_run_canceled(lost)
    report = gate_on(stored.instance, "bf", GateOptions())
    assert (report.code, [f.unit for f in report.failures]) == (2, [lost.run_id])
    for key in (*GOOD, BROKEN):
        assert gate_on(stored.instance, "bf", GateOptions()).code == 2, f"{key} was not covered yet"
        _run_of_backfill(stored, key, "bf")
    assert gate_on(stored.instance, "bf", GateOptions()).code == 0
    again = create_run_for_test(stored.instance, job_name="lift_demos", tags=tags)
    stored.instance.report_run_failed(again)
    assert gate_on(stored.instance, "bf", GateOptions()).failures[0].unit == again.run_id, "it is later"


def _range_of_backfill(runner: Runner, backfill: str) -> dg.DagsterRun:
    """A run of a backfill over all recordings, one of which is broken."""
    done = runner.defs.resolve_job_def("lift_demos").execute_in_process(
        instance=runner.instance,
        tags=RANGE | {BACKFILL_TAG: backfill},
        run_config=QUIET,
        raise_on_error=False,
    )
    assert not done.success
    run = runner.instance.get_run_by_id(done.run_id)
    assert run is not None
    return run


def _write_again(root: Path, key: str) -> None:
    write_recording("isaaclab", root / f"raw/{key}.hdf5", episodes=1, rows=(4, 6), seed=9, cameras=())


def _executed_again(runner: Runner, run: dg.DagsterRun) -> dg.DagsterRun:
    """A run again, made by what answers `launchRunReexecution`: Dagster decides which tags it keeps."""
    code = runner.root / "code_location.py"
    code.write_text(
        "from pathlib import Path\nfrom trajpipe.defs import build_defs\n"
        f"defs = build_defs(catalogue=Path({str(runner.root / 'datasets.yaml')!r}))\n"
    )
    origin = LoadableTargetOrigin(executable_path=sys.executable, python_file=str(code))
    with in_process_test_workspace(runner.instance, origin) as workspace:
        (location,) = workspace.code_locations
        (repository,) = location.get_repositories().values()
        again = runner.instance.create_reexecuted_run(
            request_context=workspace,
            parent_run=run,
            code_location=location,
            remote_job=repository.get_full_job(run.job_name),
            strategy=ReexecutionStrategy.ALL_STEPS,
            use_parent_run_tags=True,
        )
    execute_run(InMemoryJob(runner.defs.resolve_job_def(run.job_name)), again, runner.instance)
    return again


def _ended_backfill(runner: Runner, name: str) -> None:
    backfill = runner.instance.get_backfill(name)
    assert backfill is not None
    runner.instance.update_backfill(backfill._replace(status=BulkActionStatus.COMPLETED_SUCCESS))


def _backfill(runner: Runner, name: str, status: BulkActionStatus) -> None:
    backfill: Any = PartitionBackfill(
        backfill_id=name,
        partition_set_origin=None,
        status=status,
        partition_names=[*GOOD, BROKEN],
        from_failure=False,
        reexecution_steps=None,
        tags={},
        backfill_timestamp=time.time(),
    )
    runner.instance.add_backfill(backfill)


def _run_of_backfill(runner: Runner, key: str, backfill: str) -> None:
    runner.defs.resolve_job_def("lift_demos").execute_in_process(
        instance=runner.instance, partition_key=key, tags={BACKFILL_TAG: backfill}, raise_on_error=False
    )
