"""When the stages downstream of L2 run by themselves, and the sensor that evaluates it.

On by default: nothing is requested unless the data version of an input changed. What is not here: ingesting
(`trajpipe.defs.sensors`).
"""

import os
from typing import Any, Final

import dagster as dg

SENSOR: Final = "automation"
INTERVAL_S: Final = int(os.environ.get("TRAJPIPE_SENSOR_INTERVAL", "30"))


def on_new_l2() -> dg.AutomationCondition[Any]:
    """For the store: an L2 file has another content, and no recording is being ingested.

    It has many partitions above it. A broken one must not stop it for good, so neither missing partitions nor
    their checks are asked for: the store's own rule builds from the recordings that passed.
    """
    changed = dg.AutomationCondition.any_deps_match(dg.AutomationCondition.data_version_changed())
    return _when(changed)


def on_new_store() -> dg.AutomationCondition[Any]:
    """For the export: the store has another content, its checks passed, and no recording is being ingested.

    A recording that is being ingested gives the store, and so the export, another content again; and a second
    one of a task renames the first one's L2 file.
    """
    changed = dg.AutomationCondition.any_deps_match(dg.AutomationCondition.data_version_changed())
    passed = dg.AutomationCondition.all_deps_blocking_checks_passed()
    ingesting = dg.AutomationCondition.any_deps_match(dg.AutomationCondition.any_deps_in_progress())
    return _when(changed) & passed & ~ingesting


def _when(changed: dg.AutomationCondition[Any]) -> dg.AutomationCondition[Any]:
    """A change that was not yet handled, once nothing it depends on is in the making."""
    return (
        changed.since_last_handled()
        & ~dg.AutomationCondition.any_deps_in_progress()
        & ~dg.AutomationCondition.in_progress()
    )


def automation_sensor() -> dg.AutomationConditionSensorDefinition:
    """The sensor that evaluates the conditions of all assets."""
    return dg.AutomationConditionSensorDefinition(
        SENSOR,
        target=dg.AssetSelection.all(),
        default_status=dg.DefaultSensorStatus.RUNNING,
        minimum_interval_seconds=INTERVAL_S,
        description="Builds stores and exports whose inputs changed; a failed blocking check stops the rest.",
    )
