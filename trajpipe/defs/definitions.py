"""All definitions of a project, built from its catalogue.

What is not here: the module that Dagster loads, see `trajpipe.definitions`.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import dagster as dg

from trajpipe.defs.automation import automation_sensors
from trajpipe.defs.demos import demos_stage
from trajpipe.defs.hub import hub_asset, push_job
from trajpipe.defs.hub_sensor import hub_sensor
from trajpipe.defs.jobs import build_job_name, dataset_jobs, demos_job_name, scan_job
from trajpipe.defs.lerobot import lerobot_stage
from trajpipe.defs.raw import raw_asset
from trajpipe.defs.resources import ProjectResource
from trajpipe.defs.schedules import schedules
from trajpipe.defs.sensors import folder_sensor, run_failures
from trajpipe.defs.stage import stage_asset
from trajpipe.defs.store import store_stage
from trajpipe.pipeline.catalogue import DatasetConfig
from trajpipe.pipeline.project import Project, default_catalogue


def build_defs(
    overrides: Mapping[str, Any] | None = None,
    *,
    catalogue: Path | None = None,
    data_root: Path | None = None,
) -> dg.Definitions:
    """Definitions of every dataset of a catalogue.

    Args:
        overrides: Resources by name that replace or join ours.
        catalogue: `datasets.yaml`; found by `TRAJPIPE_DATA`, `./data` or `.` when None.
        data_root: Data folder; the catalogue's own when None.

    Raises:
        CatalogueError: the catalogue is not there or not valid; every problem is listed.
    """
    path = (catalogue or default_catalogue()).absolute()
    datasets = list(Project.open(path, data_root).catalogue.datasets.values())
    resource = ProjectResource(catalogue=str(path), data_root=str(data_root.absolute()) if data_root else "")
    resources: dict[str, Any] = {"project": resource, **(overrides or {})}
    given = resources["project"]  # the assets' conditions are given no resources by Dagster
    opened = given.open if isinstance(given, ProjectResource) else resource.open
    of_dataset = [(demos_stage(d), store_stage(d, opened), lerobot_stage(d, opened)) for d in datasets]
    jobs = {job.name: job for job in dataset_jobs(datasets)}
    published = [asset for d in datasets if (asset := hub_asset(d)) is not None]
    return dg.Definitions(
        assets=[*(raw_asset(d) for d in datasets), *map(stage_asset, chain(*of_dataset)), *published],
        jobs=[scan_job, *jobs.values(), *(push_job(d) for d in datasets if d.hub is not None)],
        schedules=schedules(datasets, jobs),
        sensors=[*_sensors(datasets, jobs), *automation_sensors(datasets), run_failures],
        resources=resources,
        executor=dg.in_process_executor,
    )


def _sensors(datasets: Sequence[DatasetConfig], jobs: Mapping[str, Any]) -> list[dg.SensorDefinition]:
    """The sensors of each dataset: its folder, and its repositories on the Hub."""
    on_hub = (hub_sensor(d) for d in datasets)
    return [*(folder_sensor(d, _own(d, jobs)) for d in datasets), *(s for s in on_hub if s is not None)]


def _own(dataset: DatasetConfig, jobs: Mapping[str, Any]) -> list[Any]:
    """The two jobs of a dataset."""
    return [jobs[demos_job_name(dataset.name)], jobs[build_job_name(dataset.name)]]
