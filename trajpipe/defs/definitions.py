"""All definitions of a project, built from its catalogue.

What is not here: the module that Dagster loads, see `trajpipe.definitions`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg

from trajpipe.defs.demos import demos_stage
from trajpipe.defs.jobs import dataset_jobs, scan_job
from trajpipe.defs.lerobot import lerobot_stage
from trajpipe.defs.raw import raw_asset
from trajpipe.defs.resources import ProjectResource
from trajpipe.defs.stage import stage_asset
from trajpipe.defs.store import store_stage
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
    stages = [stage for d in datasets for stage in (demos_stage(d), store_stage(d), lerobot_stage(d))]
    resource = ProjectResource(catalogue=str(path), data_root=str(data_root.absolute()) if data_root else "")
    return dg.Definitions(
        assets=[*(raw_asset(d) for d in datasets), *(stage_asset(stage) for stage in stages)],
        jobs=[scan_job, *dataset_jobs(datasets)],
        resources={"project": resource, **(overrides or {})},
        executor=dg.in_process_executor,
    )
