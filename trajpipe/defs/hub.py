"""The asset `<dataset>/hub`: a dataset's published version, for datasets whose catalogue entry has `hub:`.

It is never run by automation: publishing is asked for, in the UI or by the job `<dataset>_push`.
What is not here: the protocol, see `trajpipe.hub`; what is published, see `trajpipe.pipeline.publish`.
"""

from typing import Any, Final

import dagster as dg

from trajpipe.core.errors import TrajpipeError
from trajpipe.core.names import Stage
from trajpipe.defs.partitions import asset_key
from trajpipe.defs.resources import ProjectResource
from trajpipe.hub import PushResult
from trajpipe.pipeline.catalogue import DatasetConfig
from trajpipe.pipeline.publish import push_dataset

HUB_CODE: Final = "hub-1"
_DESCRIPTION: Final = """\
Published on the Hub as [{repo}](https://huggingface.co/datasets/{repo}): files, then a manifest of their
hashes, then a tag that never moves, so nobody can pull half of it. The login comes from the environment.
"""


def hub_key(dataset: str) -> dg.AssetKey:
    """`<dataset>/hub`."""
    return dg.AssetKey([dataset, "hub"])


def push_job_name(dataset: str) -> str:
    """`<dataset>_push`: publishes a dataset."""
    return f"{dataset}_push"


def hub_asset(dataset: DatasetConfig) -> dg.AssetsDefinition | None:
    """The published version of a dataset; None when its entry has no `hub:`."""
    if dataset.hub is None:
        return None
    name, repo = dataset.name, dataset.hub.repo

    @dg.asset(
        key=hub_key(name),
        deps=[asset_key(name, stage) for stage in (Stage.STORE, Stage.LEROBOT)],
        description=_DESCRIPTION.format(repo=repo),
        group_name=name,
        kinds={"huggingface"},
        owners=list(dataset.owners),
        code_version=HUB_CODE,
        metadata={"repo": repo, **({"license": dataset.license} if dataset.license else {})},
    )
    def hub_op(context: dg.AssetExecutionContext, project: ProjectResource) -> dg.MaterializeResult[Any]:
        try:
            result = push_dataset(project.open(), name)
        except TrajpipeError as error:
            # not chained: an error of the client may hold what no event may
            raise dg.Failure(str(error), allow_retries=False) from None
        context.log.info("%s: tag %s, %d bytes sent", result.repo, result.tag, result.moved)
        return dg.MaterializeResult(
            data_version=dg.DataVersion(result.data_version), metadata=hub_metadata(result)
        )

    return hub_op


def hub_metadata(result: PushResult) -> dict[str, Any]:
    """Metadata of a published version: where it is, how it is named, what moved."""
    return {
        "repo": result.repo,
        "url": dg.MetadataValue.url(result.url),
        "private": result.private,
        "commit": result.commit,
        "tag": result.tag,
        "tags": ", ".join(result.tags),
        "files": result.files,
        "bytes": result.bytes,
        "bytes moved": result.moved,
        "files committed": len(result.uploaded),
        "files deleted": len(result.deleted),
        "status": "unchanged" if result.unchanged else "published",
    }


def push_job(dataset: DatasetConfig) -> Any:
    """`<dataset>_push`. The type of such a job has no public name in Dagster."""
    return dg.define_asset_job(
        push_job_name(dataset.name),
        dg.AssetSelection.assets(hub_key(dataset.name)),
        description=f"Publish {dataset.name} on the Hub.",
    )
