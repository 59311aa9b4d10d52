"""The asset `<dataset>/lerobot`: the LeRobot export of a dataset, guarded by its store's checks.

What is not here: the format, see `trajpipe.export`.
"""

import dagster as dg

from trajpipe.checks.registry import CheckReport
from trajpipe.core.names import Stage
from trajpipe.defs.automation import Open, on_new_store
from trajpipe.defs.partitions import asset_key
from trajpipe.defs.stage import StageDefinition
from trajpipe.export.options import EXPORT_CODE
from trajpipe.pipeline import export_lerobot
from trajpipe.pipeline.catalogue import DatasetConfig
from trajpipe.pipeline.lineage import lerobot_lineage
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.results import StageResult
from trajpipe.pipeline.run import export_dataset

_DESCRIPTION = """\
LeRobot {version}: parquet, {codec} video, tasks, and on **every** episode its source, success, source file
and demo, and content hash. Written from the L2 files; downstream of the store, whose
 blocking checks guard it.
"""


def lerobot_stage(dataset: DatasetConfig, opened: Open) -> StageDefinition:
    """The stage of a dataset's LeRobot export.

    Args:
        dataset: The dataset.
        opened: Gives the project as its files are now, to whatever asks whether a build is due.
    """
    name, form = dataset.name, dataset.export.form()

    def build(project: Project, key: str, force: bool) -> StageResult:  # noqa: ARG001 - not partitioned
        return export_dataset(project, name, force=force)

    def check(project: Project, key: str) -> CheckReport:  # noqa: ARG001 - not partitioned
        plan = project.export_plan(name)
        return export_lerobot.check_export(plan, plan.target)

    return StageDefinition(
        dataset=dataset,
        stage=Stage.LEROBOT,
        description=_DESCRIPTION.format(version=form.version, codec=form.codec),
        deps=[dg.AssetDep(asset_key(name, Stage.STORE))],
        kinds=frozenset({"parquet", "huggingface"}),
        code_version=EXPORT_CODE,
        build=build,
        check=check,
        automation=on_new_store(name, opened),
        lineage=lambda project, output: lerobot_lineage(output),  # noqa: ARG005 - the output says it all
    )
