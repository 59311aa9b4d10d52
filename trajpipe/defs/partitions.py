"""Partitions: one dynamic definition per dataset, one key per recording.

A key is never deleted: the partition of a removed recording stays as its tombstone.
What is not here: finding recordings, see `trajpipe.defs.scan`.
"""

import dagster as dg

from trajpipe.core.names import Stage


def recordings_partitions(dataset: str) -> dg.DynamicPartitionsDefinition:
    """The partitions of a dataset's recordings."""
    return dg.DynamicPartitionsDefinition(name=f"{dataset}_recordings")


def asset_key(dataset: str, stage: Stage) -> dg.AssetKey:
    """`<dataset>/<stage>`."""
    return dg.AssetKey([dataset, stage.value])
