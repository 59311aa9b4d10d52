"""Jobs: scan for recordings; per dataset, ingest recordings, or build its store and export.

What is not here: what starts them by itself, see `sensors.py`, `schedules.py`, `automation.py`.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import dagster as dg

from trajpipe.core.errors import TrajpipeError
from trajpipe.core.names import Stage
from trajpipe.defs.partitions import asset_key
from trajpipe.defs.resources import ProjectResource
from trajpipe.defs.scan import scan
from trajpipe.pipeline.catalogue import DatasetConfig


class ScanConfig(dg.Config):
    """Run configuration of the scan.

    Attributes:
        datasets: Dataset names; empty = all.
    """

    datasets: list[str] = []  # noqa: RUF012 - Dagster's config copies it


@dg.op(
    out={}, description="Adds a partition per new recording and records the SHA-256 of new and changed ones."
)
def scan_recordings(
    context: dg.OpExecutionContext, config: ScanConfig, project: ProjectResource
) -> Iterator[dg.AssetMaterialization]:
    """Scan the datasets and log one event per new or changed recording.

    A dataset that cannot be looked through, since a repository is out of reach, say, leaves the others alone.
    """
    opened, failed = project.open(), []
    for name in config.datasets or list(opened.catalogue.datasets):
        try:
            found = scan(context.instance, opened, name)
        except TrajpipeError as error:
            failed.append(f"{name}: {error}")
            continue
        yield from found.events  # an event that is only logged would be lost with a failure
        context.log.info(found.summary())
    if failed:
        raise dg.Failure("; ".join(failed), allow_retries=False)


@dg.job(description="Notices new, changed and removed recordings of all datasets. Run it after adding files.")
def scan_job() -> None:
    """The scan as a job."""
    scan_recordings()


def demos_job_name(dataset: str) -> str:
    """`<dataset>_demos`: ingests recordings."""
    return f"{dataset}_demos"


def build_job_name(dataset: str) -> str:
    """`<dataset>_build`: builds the store and exports it."""
    return f"{dataset}_build"


def dataset_jobs(datasets: Iterable[DatasetConfig]) -> list[Any]:
    """`<dataset>_demos` (recordings into L2) and `<dataset>_build` (store and export) of each dataset.

    The type of such a job has no public name in Dagster.
    """
    jobs = []
    for dataset in datasets:
        demos, store, lerobot = (
            asset_key(dataset.name, s) for s in (Stage.DEMOS, Stage.STORE, Stage.LEROBOT)
        )
        jobs += [
            dg.define_asset_job(
                demos_job_name(dataset.name),
                dg.AssetSelection.assets(demos),
                description=f"Ingest recordings of {dataset.name} into L2; each passes or fails by itself.",
            ),
            dg.define_asset_job(
                build_job_name(dataset.name),
                dg.AssetSelection.assets(store, lerobot),
                description=f"Build the store of {dataset.name} from what passed, and export it.",
            ),
        ]
    return jobs
