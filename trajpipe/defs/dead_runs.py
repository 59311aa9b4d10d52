"""Runs that an instance takes for running although their process is dead, and ending them.

A run tells the pid of its process in its events. That says something on one machine alone: for an instance
whose runs are launched elsewhere, age decides.
What is not here: who asks, see `trajpipe.cli.verbs.dev` and `trajpipe.cli.verbs.doctor`.
"""

import re
import time
from dataclasses import dataclass
from typing import Final

import dagster as dg

from trajpipe.core.temporaries import is_alive
from trajpipe.defs.partitions import partition_of

RUNNING: Final = (
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
)
SILENT_S: Final = 3600.0
_PID: Final = re.compile(r"\(pid: (\d+)\)")


@dataclass(frozen=True, slots=True)
class DeadRun:
    """A run that nobody works on.

    Attributes:
        run_id: Its id.
        job: Its job's name.
        partition: Its partition key, `first...last` of several, or "".
        why: How one can tell.
    """

    run_id: str
    job: str
    partition: str
    why: str

    @property
    def name(self) -> str:
        """`<run id> of <job> [<partition>]`."""
        return f"{self.run_id} of {self.job}{f' [{self.partition}]' if self.partition else ''}"


def dead_runs(instance: dg.DagsterInstance, *, silent_s: float = SILENT_S) -> list[DeadRun]:
    """Runs that are said to be running and are not.

    Args:
        instance: The instance.
        silent_s: A run whose process cannot be told is dead when it has said nothing for so long, seconds.
    """
    local = type(instance.run_launcher).__name__ in ("DefaultRunLauncher", "SyncInMemoryRunLauncher")
    found = []
    for record in instance.get_run_records(dg.RunsFilter(statuses=list(RUNNING))):
        run = record.dagster_run
        pid = _pid_of(instance, run.run_id) if local else None
        if pid is not None:
            why = "" if is_alive(pid, 0) else f"its process {pid} is gone"
        else:
            silence = time.time() - record.update_timestamp.timestamp()
            why = f"it has said nothing for {silence / 60:.0f} minutes" if silence > silent_s else ""
        if why:
            found.append(DeadRun(run.run_id, run.job_name, partition_of(run), why))
    return found


def _pid_of(instance: dg.DagsterInstance, run_id: str) -> int | None:
    """The pid that the run's last events of its process name."""
    for entry in reversed(instance.all_logs(run_id, of_type=dg.DagsterEventType.ENGINE_EVENT)):
        found = _PID.search(entry.message)
        if found is not None:
            return int(found[1])
    return None


def end_dead_runs(instance: dg.DagsterInstance, runs: list[DeadRun]) -> None:
    """Mark dead runs as failed, so that their partitions can run again.

    Args:
        instance: The instance.
        runs: As `dead_runs` found them.
    """
    for dead in runs:
        run = instance.get_run_by_id(dead.run_id)
        if run is not None and run.status in RUNNING:
            instance.report_run_failed(run, f"Ended by trajpipe: {dead.why}.")
