"""The sensor of recordings on the Hub: it asks which commit a revision is, and has a moved one fetched.

On by default for the datasets that have such entries: the catalogue asked for it by naming a repository. It
moves no data itself: a tick is too short for that; `scan_job` fetches, and the folder sensor sees what came.
What is not here: fetching, see `trajpipe.pipeline.raw_hub`.
"""

from collections.abc import Iterator

import dagster as dg

from trajpipe.core.errors import TrajpipeError
from trajpipe.defs.jobs import ScanConfig, scan_job
from trajpipe.defs.resources import ProjectResource
from trajpipe.hub import Repository, split_address
from trajpipe.hub.client import is_offline
from trajpipe.hub.versions import UNFINISHED, followed
from trajpipe.pipeline.catalogue import DatasetConfig
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.raw_hub import revision_of

INTERVAL_S = 300


def hub_sensor(dataset: DatasetConfig) -> dg.SensorDefinition | None:
    """The sensor of a dataset's entries on the Hub; None when it has none.

    Args:
        dataset: The dataset.
    """
    name = dataset.name
    if not any(entry.hub is not None for entry in dataset.raw):
        return None

    @dg.sensor(
        name=f"{name}_hub",
        job=scan_job,
        minimum_interval_seconds=INTERVAL_S,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Fetches the recordings of {name} when their revision on the Hub moved.",
    )
    def look(context: dg.SensorEvaluationContext, project: ProjectResource) -> dg.SensorResult:  # noqa: ARG001 - Dagster gives it
        if is_offline():
            return dg.SensorResult(skip_reason="offline: what is there is what counts")
        try:
            wanted = dict(_moved(project.open(), name))
        except TrajpipeError as error:
            if error.code == UNFINISHED:
                return dg.SensorResult(skip_reason=str(error))
            raise dg.Failure(str(error), allow_retries=False) from error
        if not wanted:
            return dg.SensorResult(skip_reason="what is there is of the wanted revisions")
        key = ",".join(f"{repo}@{commit}" for repo, commit in sorted(wanted.items()))
        config = dg.RunConfig(ops={"scan_recordings": ScanConfig(datasets=[name])})
        return dg.SensorResult(run_requests=[dg.RunRequest(run_key=f"{name}:{key}", run_config=config)])

    return look


def _moved(project: Project, name: str) -> Iterator[tuple[str, str]]:
    """(repository, commit) of each entry whose revision is another commit than the one that is there.

    A pinned entry that is there is not asked for again.
    """
    there = revision_of(project, name)
    for entry in project.dataset(name).raw:
        if entry.hub is None:
            continue
        repo, revision = split_address(entry.hub)
        if repo in there and not entry.follow:
            continue
        commit = followed(Repository(repo), str(revision))
        if there.get(repo) != commit:
            yield repo, commit
