"""The asset `<dataset>/demos`: one L2 file per recording, partitioned by recording.

What is not here: how a recording becomes L2, see `trajpipe.pipeline.ingest`.
"""

import dagster as dg

from trajpipe.checks.registry import CheckReport
from trajpipe.core.errors import MissingNameError, TrajpipeError
from trajpipe.core.names import Stage
from trajpipe.defs.partitions import asset_key, recordings_partitions
from trajpipe.defs.stage import StageDefinition
from trajpipe.pipeline import ingest
from trajpipe.pipeline.catalogue import DatasetConfig, Recording
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.results import StageResult, failed_plainly

_DESCRIPTION = """\
Demonstrations as L2 (`demos.hdf5`, readable by robomimic and IsaacLab), **one file per recording**:
quaternions xyzw, images top row first, demos numbered without gaps, each with its tag, task and source.

Every episode read is written or rejected with a reason: see *ledger* and *rejected* below. A broken recording
fails its own partition alone; the store is built from those that passed.
"""


def demos_stage(dataset: DatasetConfig) -> StageDefinition:
    """The stage of a dataset's L2 files."""
    name = dataset.name
    partitions = recordings_partitions(name)

    def build(project: Project, key: str, force: bool) -> StageResult:
        recording = find(project, name, key)
        try:
            plan = project.ingest_plan(recording)
        except (TrajpipeError, OSError) as error:
            return failed_plainly(name, Stage.DEMOS, key, project.demos_path(recording), error)
        return ingest.ingest(plan, force=force)

    def check(project: Project, key: str) -> CheckReport:
        plan = project.ingest_plan(find(project, name, key))
        return ingest.check_demos(plan, plan.target)

    return StageDefinition(
        dataset=dataset,
        stage=Stage.DEMOS,
        description=_DESCRIPTION,
        deps=[dg.AssetDep(asset_key(name, Stage.RAW))],
        kinds=frozenset({"hdf5", "python"}),
        code_version=ingest.CODE,
        build=build,
        check=check,
        partitions=partitions,
        backfills=dg.BackfillPolicy.multi_run(max_partitions_per_run=dataset.recordings_per_run),
    )


def find(project: Project, dataset: str, key: str) -> Recording:
    """The recording of a partition.

    Raises:
        MissingNameError: its file is gone; the partition stays as a tombstone.
    """
    for recording in project.recordings(dataset):
        if recording.key == key:
            return recording
    raise MissingNameError(
        "the recording of this partition is no longer there",
        place=f"{dataset}/demos",
        got=key,
        hint="Its L2 file stays; its episodes leave the store at the next build.",
        code="recording-removed",
    )
