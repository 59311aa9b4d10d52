"""Looking at a Dagster instance from outside of Dagster: dead runs, partitions against files.

What is not here: its daemons, see `trajpipe.defs.daemons`; what people are told of it, see
`trajpipe.cli.verbs.doctor`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from trajpipe.core.names import Stage
from trajpipe.defs.dead_runs import DeadRun, dead_runs, end_dead_runs
from trajpipe.defs.partitions import asset_key, recordings_partitions
from trajpipe.pipeline.project import Project


@dataclass(frozen=True, slots=True)
class PartitionState:
    """What an instance says of a dataset's partitions, against the files.

    Attributes:
        dataset: Dataset name.
        unknown: Recordings on disk that have no partition yet.
        tombstones: Partitions whose recording is gone.
        lost: Partitions that are materialized although their L2 file is not there.
    """

    dataset: str
    unknown: tuple[str, ...]
    tombstones: tuple[str, ...]
    lost: tuple[str, ...]


def dead_runs_of(home: Path, *, end: bool = False) -> list[DeadRun]:
    """The dead runs of the instance of a DAGSTER_HOME.

    Args:
        home: Holds `dagster.yaml`.
        end: Mark them as failed.
    """
    with dg.DagsterInstance.from_config(str(home)) as instance:
        found = dead_runs(instance)
        if end:
            end_dead_runs(instance, found)
        return found


def partition_states(home: Path, project: Project, datasets: Iterable[str]) -> list[PartitionState]:
    """What the instance says of the datasets' partitions, against the files on disk.

    Args:
        home: Holds `dagster.yaml`.
        project: The project.
        datasets: Dataset names.
    """
    with dg.DagsterInstance.from_config(str(home)) as instance:
        return [_partitions(instance, project, name) for name in datasets]


def _partitions(instance: dg.DagsterInstance, project: Project, name: str) -> PartitionState:
    known = set(instance.get_dynamic_partitions(str(recordings_partitions(name).name)))
    recordings = {r.key: r for r in project.recordings(name)}
    made = instance.get_materialized_partitions(asset_key(name, Stage.DEMOS))
    lost = (k for k in made if k in recordings and not project.demos_path(recordings[k]).exists())
    return PartitionState(
        name,
        unknown=tuple(k for k in recordings if k not in known),
        tombstones=tuple(sorted(known - set(recordings))),
        lost=tuple(sorted(lost)),
    )
