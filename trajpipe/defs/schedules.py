"""Schedules: two per dataset that declares one, which run what is not current and skip the rest.

Off by default unless the catalogue says `enabled: true`: a schedule spends machines while nobody looks.
What is not here: changes as they happen, see `trajpipe.defs.sensors`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import dagster as dg

from trajpipe.core.errors import TrajpipeError
from trajpipe.core.names import Stage
from trajpipe.defs.jobs import build_job_name, demos_job_name
from trajpipe.defs.resources import ProjectResource
from trajpipe.defs.scan import scan
from trajpipe.pipeline.catalogue import DatasetConfig
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.run import Planned, plan

Requests = Callable[[dg.ScheduleEvaluationContext, Project, str], Iterator[dg.RunRequest]]


def schedules(datasets: Iterable[DatasetConfig], jobs: Mapping[str, Any]) -> list[dg.ScheduleDefinition]:
    """The schedules of all datasets that declare one.

    `<dataset>_sweep` ingests what is missing, stale or failed; `<dataset>_rebuild` builds a store or an
    export that is not current although every recording is: what a sweep ingests is built by itself.

    Args:
        datasets: The catalogue's.
        jobs: Name → job.
    """
    out: list[dg.ScheduleDefinition] = []
    for dataset in datasets:
        name = dataset.name
        if dataset.schedule is not None:
            out.append(_schedule(dataset, f"{name}_sweep", jobs[demos_job_name(name)], _to_ingest))
            out.append(_schedule(dataset, f"{name}_rebuild", jobs[build_job_name(name)], _to_build))
    return out


def _schedule(dataset: DatasetConfig, name: str, job: Any, requests: Requests) -> dg.ScheduleDefinition:
    options = dataset.schedule
    if options is None:
        raise ValueError(f"{dataset.name} declares no schedule")

    @dg.schedule(
        name=name,
        job=job,
        cron_schedule=options.cron,
        execution_timezone=options.timezone,
        default_status=(
            dg.DefaultScheduleStatus.RUNNING if options.enabled else dg.DefaultScheduleStatus.STOPPED
        ),
        description=f"Runs what is not current of {dataset.name}; what is unchanged is skipped.",
    )
    def due(context: dg.ScheduleEvaluationContext, project: ProjectResource) -> Any:
        try:
            found = list(requests(context, project.open(), dataset.name))
        except TrajpipeError as error:
            raise dg.Failure(str(error), allow_retries=False) from error
        return found or dg.SkipReason("nothing to do: everything is current")

    return due


def _to_ingest(context: dg.ScheduleEvaluationContext, project: Project, name: str) -> Iterator[dg.RunRequest]:
    """Notice new and changed recordings, and ask for a run of each that is not current."""
    for event in scan(context.instance, project, name).events:
        context.instance.report_runless_asset_event(event)
    for step in _steps(project, name, Stage.DEMOS):
        yield dg.RunRequest(
            run_key=f"{name}/{step.key}:{context.scheduled_execution_time.isoformat()}",
            partition_key=step.key,
        )


def _to_build(context: dg.ScheduleEvaluationContext, project: Project, name: str) -> Iterator[dg.RunRequest]:
    """Ask for a build when the store or the export is not current and nothing is to be ingested first."""
    waits = any(step.state in ("missing", "stale") for step in _steps(project, name, Stage.DEMOS))
    if project.recordings(name) and not waits and _steps(project, name, Stage.STORE, Stage.LEROBOT):
        yield dg.RunRequest(run_key=f"{name}:{context.scheduled_execution_time.isoformat()}")


def _steps(project: Project, name: str, *stages: Stage) -> list[Planned]:
    """Steps of these stages that are not current."""
    return [step for step in plan(project, [name]) if step.state != "ready" and step.stage in stages]
