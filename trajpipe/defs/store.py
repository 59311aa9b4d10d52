"""The asset `<dataset>/store`: the trajectory store of a dataset, from the recordings that passed.

What is not here: how a store is built, see `trajpipe.pipeline.build_store`.
"""

import dagster as dg

from trajpipe.checks.registry import CheckReport
from trajpipe.core.names import Stage
from trajpipe.defs.automation import Open, on_new_l2
from trajpipe.defs.partitions import asset_key
from trajpipe.defs.stage import StageDefinition
from trajpipe.pipeline import build_store
from trajpipe.pipeline.catalogue import DatasetConfig
from trajpipe.pipeline.lineage import store_lineage
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.results import StageResult
from trajpipe.pipeline.run import build_dataset_store, check_dataset_store
from trajpipe.pipeline.sampling_stages import first_store

_DESCRIPTION = """\
One HDF5 file of columns over time steps with an episode index, for training: `action`, one column per obs
term, `images` per camera (CHW), `task_index`, `success`, and side tables with each episode's source, split
and hash.

Built from the recordings that passed; *failed recordings* lists the others. Read it with
`trajpipe.TrajectoryStore(path)`.
"""


def store_stage(dataset: DatasetConfig, opened: Open) -> StageDefinition:
    """The stage of a dataset's store.

    Args:
        dataset: The dataset.
        opened: Gives the project as its files are now, to whatever asks whether a build is due.
    """
    name = dataset.name

    def build(project: Project, key: str, force: bool) -> StageResult:  # noqa: ARG001 - not partitioned
        return build_dataset_store(project, name, force=force)

    def check(project: Project, key: str) -> CheckReport:  # noqa: ARG001 - not partitioned
        return check_dataset_store(project, name)

    return StageDefinition(
        dataset=dataset,
        stage=Stage.STORE,
        description=_DESCRIPTION,
        deps=[dg.AssetDep(asset_key(name, Stage.DEMOS), partition_mapping=dg.AllPartitionMapping())],
        kinds=frozenset({"hdf5", "python"}),
        code_version=build_store.CODE,
        build=build,
        check=check,
        automation=on_new_l2(name, opened),
        lineage=lambda project, output: store_lineage(project.store_plans(name)[0], first_store(output)),
    )
