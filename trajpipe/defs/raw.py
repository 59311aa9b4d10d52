"""The external asset `<dataset>/raw`: recordings that stay where they are; nothing here writes them.

What is not here: noticing new and changed recordings, see `trajpipe.defs.scan`.
"""

import dagster as dg

from trajpipe.core.names import Stage
from trajpipe.defs.partitions import asset_key, recordings_partitions
from trajpipe.pipeline.catalogue import DatasetConfig


def raw_asset(dataset: DatasetConfig) -> dg.AssetSpec:
    """The recordings of a dataset; each partition's data version is its recording's SHA-256."""
    kinds = sorted({entry.kind for entry in dataset.raw})
    return dg.AssetSpec(
        asset_key(dataset.name, Stage.RAW),
        description=_description(dataset),
        group_name=dataset.name,
        kinds={"hdf5", *kinds},
        owners=list(dataset.owners),
        metadata={"license": dataset.license} if dataset.license else {},
        partitions_def=recordings_partitions(dataset.name),
    )


def _description(dataset: DatasetConfig) -> str:
    lines = [dataset.description, ""] if dataset.description else []
    lines += [
        "Recordings as they were made, one partition each; the job `scan_job` notices new and changed ones.",
        "",
    ]
    lines += ["| kind | files | tag |", "|---|---|---|"]
    lines += [f"| {e.kind} | {'<br>'.join(f'`{g}`' for g in e.glob)} | {e.tag or ''} |" for e in dataset.raw]
    return "\n".join(lines)
