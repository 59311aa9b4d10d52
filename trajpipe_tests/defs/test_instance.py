"""Dead runs, partitions against files: on a real instance on disk.

What is not here: daemons, see `test_daemons.py`; what people are told, see `trajpipe_tests.cli.test_doctor`.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test

from trajpipe.core.names import Stage
from trajpipe.defs.dead_runs import dead_runs
from trajpipe.defs.instance import dead_runs_of, partition_states
from trajpipe.defs.partitions import asset_key
from trajpipe.pipeline.init_dagster_home import prepare_home
from trajpipe.pipeline.project import Project
from trajpipe_tests.defs.conftest import BROKEN, GOOD


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A DAGSTER_HOME as `trajpipe dev` makes it."""
    prepare_home(tmp_path / "home")
    return tmp_path / "home"


@pytest.fixture
def opened(home: Path) -> Iterator[dg.DagsterInstance]:
    """Its instance."""
    with dg.DagsterInstance.from_config(str(home)) as instance:
        yield instance


def dead_pid() -> int:
    """The pid of a process that ended."""
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


def started(instance: dg.DagsterInstance, pid: int | None, partition: str = "day1") -> str:
    """A run that is said to be running in a process; its id."""
    run = create_run_for_test(
        instance,
        job_name="lift_demos",
        status=dg.DagsterRunStatus.STARTED,
        tags={"dagster/partition": partition},
    )
    if pid is not None:
        instance.report_engine_event(f"Executing steps in process (pid: {pid})", run)
    return str(run.run_id)


def test_the_home_is_a_valid_instance_without_dialog_or_telemetry(
    home: Path, opened: dg.DagsterInstance
) -> None:
    assert not opened.telemetry_enabled
    assert (home / ".nux/nux.yaml").read_text() == "seen: 1\n"
    assert opened.run_monitoring_enabled
    kept = (home / "dagster.yaml").read_text()
    (home / "dagster.yaml").write_text(kept + "# mine\n")
    assert prepare_home(home) == []
    assert (home / "dagster.yaml").read_text().endswith("# mine\n")


def test_a_run_whose_process_is_gone_is_dead_and_can_be_ended(home: Path, opened: dg.DagsterInstance) -> None:
    pid = dead_pid()
    dead, alive = started(opened, pid), started(opened, os.getpid(), "day2")
    (found,) = dead_runs_of(home)
    assert (found.run_id, found.job, found.partition) == (dead, "lift_demos", "day1")
    assert found.why == f"its process {pid} is gone"
    dead_runs_of(home, end=True)
    ended = opened.get_run_by_id(dead)
    assert ended is not None
    assert ended.status is dg.DagsterRunStatus.FAILURE
    still = opened.get_run_by_id(alive)
    assert still is not None
    assert still.status is dg.DagsterRunStatus.STARTED
    assert dead_runs_of(home) == []


def test_the_last_process_that_a_run_names_counts(opened: dg.DagsterInstance) -> None:
    run = opened.get_run_by_id(started(opened, dead_pid()))
    opened.report_engine_event(f"Started process for run (pid: {os.getpid()}).", run)
    assert dead_runs(opened) == []


def test_a_run_without_a_process_is_dead_after_a_long_silence(opened: dg.DagsterInstance) -> None:
    run = started(opened, None)
    assert dead_runs(opened) == []
    (found,) = dead_runs(opened, silent_s=-1)
    assert (found.run_id, found.why) == (run, "it has said nothing for 0 minutes")


def test_partitions_are_held_against_the_files(
    home: Path, opened: dg.DagsterInstance, catalogue: Path
) -> None:
    project = Project.open(catalogue)
    opened.add_dynamic_partitions("lift_recordings", [GOOD[0], "gone"])
    event = dg.AssetMaterialization(asset_key("lift", Stage.DEMOS), partition=GOOD[0])
    opened.report_runless_asset_event(event)
    (state,) = partition_states(home, project, ["lift"])
    assert (state.unknown, state.tombstones, state.lost) == ((GOOD[1], BROKEN), ("gone",), (GOOD[0],))
    target = project.demos_path(project.recording("lift", GOOD[0]))
    target.parent.mkdir()
    target.write_bytes(b"")
    (state,) = partition_states(home, project, ["lift"])
    assert state.lost == ()
