"""What one result of a stage reports to Dagster: its materialization, and an evaluation of each check.

A run may hold several partitions of a stage, of which some fail: Dagster's own result objects stand for all
partitions of a run at once, so a partition's events are written out here, each with its partition, its data
version and where that came from. What is not here: which checks there are, see `trajpipe.defs.checks`.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import dagster as dg
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationTargetMaterializationData as Target,
)

from trajpipe.core.names import Stage
from trajpipe.defs.checks import blocking_checks
from trajpipe.defs.scan import DATA_VERSION_TAG

_CODE: Final = "dagster/code_version"
_OURS: Final = "dagster/data_version_is_user_provided"
_INPUT_VERSION: Final = "dagster/input_data_version/"
_INPUT_EVENT: Final = "dagster/input_event_pointer/"


def materialization(
    key: dg.AssetKey,
    partition: str,
    versions: tuple[str, str],
    metadata: Mapping[str, Any],
    inputs: Mapping[str, str],
) -> dg.AssetMaterialization:
    """The event that a partition of an asset was made.

    Args:
        key: The asset.
        partition: Its partition key.
        versions: Of what was made, and of the code that made it.
        metadata: For the asset's page.
        inputs: Tags that say what it was made of, see `input_tags`.
    """
    tags = {DATA_VERSION_TAG: versions[0], _CODE: versions[1], _OURS: "true", **inputs}
    return dg.AssetMaterialization(key, partition=partition, metadata=dict(metadata), tags=tags)


def input_tags(instance: dg.DagsterInstance, keys: Iterable[dg.AssetKey], partition: str) -> dict[str, str]:
    """The versions of the same partition of other assets, as tags of what is made of them.

    By them Dagster tells which partitions are out of date.

    Args:
        instance: The run's.
        keys: The assets that it is made of.
        partition: Partition key.
    """
    tags = {}
    for key in keys:
        record = latest(instance, key, partition)
        event = record.asset_materialization if record is not None else None
        name = key.to_user_string()
        tags[_INPUT_VERSION + name] = (
            (event.tags or {}).get(DATA_VERSION_TAG, "INITIAL") if event else "INITIAL"
        )
        tags[_INPUT_EVENT + name] = str(record.storage_id) if record is not None else "NULL"
    return tags


def latest(instance: dg.DagsterInstance, key: dg.AssetKey, partition: str = "") -> dg.EventLogRecord | None:
    """The last materialization of an asset, or of one of its partitions."""
    wanted = dg.AssetRecordsFilter(key, asset_partitions=[partition] if partition else None)
    found: Sequence[dg.EventLogRecord] = instance.fetch_materializations(wanted, limit=1).records
    return found[0] if found else None


def evaluations(
    results: Iterable[dg.AssetCheckResult],
    stage: Stage,
    partition: str,
    record: dg.EventLogRecord | None,
) -> Iterator[dg.AssetCheckEvaluation]:
    """The events of a stage's check results.

    Args:
        results: Of one asset; each names its asset and its check.
        stage: The asset's stage: which of its checks block.
        partition: Partition key, "" for a stage without.
        record: The materialization that was checked, when there is one.
    """
    blocking = blocking_checks(stage)
    target = (
        Target(storage_id=record.storage_id, run_id=record.run_id, timestamp=record.timestamp)
        if record is not None
        else None
    )
    for one in results:
        if one.asset_key is None or one.check_name is None:
            raise ValueError("a check result that does not name its asset and its check")
        yield dg.AssetCheckEvaluation(
            asset_key=one.asset_key,
            check_name=one.check_name,
            passed=one.passed,
            metadata=one.metadata,
            severity=one.severity,
            description=one.description,
            blocking=one.check_name in blocking,
            target_materialization_data=target,
            partition=partition or None,
        )


def call_no_check_omitted(context: dg.AssetExecutionContext) -> None:
    """Keep a message out of a run's log: that its op gave no check results, as it gives evaluations.

    Dagster says so after the op has ended, so this holds for the rest of the run.
    """
    context.log.addFilter(_is_wanted)


def _is_wanted(record: logging.LogRecord) -> bool:
    return "did not yield or return expected outputs" not in record.getMessage()
