"""Partitions: one dynamic definition per dataset, one key per recording.

A key is never deleted: the partition of a removed recording stays as its tombstone.
What is not here: finding recordings, see `trajpipe.defs.scan`.
"""

from typing import Final

import dagster as dg

from trajpipe.core.names import Stage

PARTITION_TAGS: Final = (
    "dagster/partition",
    "dagster/asset_partition_range_start",
    "dagster/asset_partition_range_end",
)


def recordings_partitions(dataset: str) -> dg.DynamicPartitionsDefinition:
    """The partitions of a dataset's recordings."""
    return dg.DynamicPartitionsDefinition(name=f"{dataset}_recordings")


def asset_key(dataset: str, stage: Stage) -> dg.AssetKey:
    """`<dataset>/<stage>`."""
    return dg.AssetKey([dataset, stage.value])


def partition_of(run: dg.DagsterRun) -> str:
    """The partition key of a run; `first...last` for a run over several, as Dagster writes it; else ""."""
    key, first, last = (run.tags.get(tag, "") for tag in PARTITION_TAGS)
    return key or (first if first == last else f"{first}...{last}")
