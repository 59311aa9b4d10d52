"""When the stages downstream of L2 run by themselves, and the sensors that evaluate it.

On by default. State decides, no event: an output is asked for when what is on disk is not what a build would
make now. Events only say when to look, so one that comes at a bad moment (before the first tick, between a
build's end and the next tick, while a build goes on) is not lost. What is not here: ingesting
(`trajpipe.defs.sensors`); what a build would make (`trajpipe.pipeline.due`).
"""

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import dagster as dg

from trajpipe.core import jsontext
from trajpipe.core.errors import TrajpipeError
from trajpipe.core.names import Stage
from trajpipe.defs.partitions import asset_key
from trajpipe.pipeline.catalogue import DatasetConfig
from trajpipe.pipeline.due import due
from trajpipe.pipeline.project import Project

SENSOR: Final = "automation"
INTERVAL_S: Final = int(os.environ.get("TRAJPIPE_SENSOR_INTERVAL", "30"))
MOST_ASSETS: Final = 200  # of one sensor: Dagster allows 500, and a tick 60 s, of which 500 may take half
LOOKING_S: Final = 20.0  # of one tick; what is left is looked at by the next one
Open = Callable[[], Project]


def on_new_l2(dataset: str, opened: Open) -> dg.AutomationCondition[Any]:
    """For the store: it is due, and no recording is being ingested.

    It has many partitions above it. A broken one must not stop it for good, so neither missing partitions nor
    their checks are asked for: the store's own rule builds from the recordings that passed.

    Args:
        dataset: Dataset name.
        opened: Gives the project as its files are now.
    """
    return _idle() & IsDue(dataset, Stage.STORE, opened)


def on_new_store(dataset: str, opened: Open) -> dg.AutomationCondition[Any]:
    """For the export: it is due, its store's checks passed, and no recording is being ingested.

    A recording that is being ingested gives the store, and so the export, another content again; and a second
    one of a task renames the first one's L2 file.

    Args:
        dataset: Dataset name.
        opened: Gives the project as its files are now.
    """
    passed = dg.AutomationCondition.all_deps_blocking_checks_passed()
    ingesting = dg.AutomationCondition.any_deps_match(dg.AutomationCondition.any_deps_in_progress())
    return _idle() & passed & ~ingesting & IsDue(dataset, Stage.LEROBOT, opened)


def _idle() -> dg.AutomationCondition[Any]:
    """Neither the stage nor anything it depends on is in the making."""
    return ~dg.AutomationCondition.any_deps_in_progress() & ~dg.AutomationCondition.in_progress()


@dataclass(frozen=True, eq=False)
class IsDue(dg.AutomationCondition[dg.AssetKey]):
    """What is on disk is not what a build would make now, and that very build was not asked for before.

    It must come last of an "all of": what it says is then asked for, and its cursor notes that. While another
    condition fails it is not evaluated but keeps its cursor, so that it looks as soon as it may. It looks at
    the disk only after an event of the stages involved.

    Attributes:
        dataset: Dataset name.
        stage: `store` or `lerobot`.
        opened: Gives the project as its files are now.
    """

    dataset: str
    stage: Stage
    opened: Open

    @property
    def name(self) -> str:
        """Part of the node's id, under which Dagster keeps the cursor."""
        return "is_due"

    @property
    def description(self) -> str:
        """For the UI."""
        return "What is on disk is not what a build would make now, and that build was not asked for before"

    def evaluate(self, context: dg.AutomationContext[dg.AssetKey]) -> dg.AutomationResult[dg.AssetKey]:
        """All of the candidates (one, without partitions) or nothing; see the class."""
        before = _Looked.of(context.cursor)
        now = None if context.candidate_subset.is_empty else self._look(context, before)
        if now is None:
            return dg.AutomationResult(context, context.get_empty_subset(), cursor=context.cursor)
        asks = now.digest not in ("", before.digest)
        asked = context.candidate_subset if asks else context.get_empty_subset()
        return dg.AutomationResult(context, asked, cursor=now.to_text())

    def _look(self, context: dg.AutomationContext[dg.AssetKey], before: "_Looked") -> "_Looked | None":
        """What is there now; None when there was no event, or when that cannot be told now."""
        events = self._events(context)
        if not events or events == before.events:
            return None
        spent = datetime.now(UTC) - context.evaluation_time
        if spent.total_seconds() > LOOKING_S:
            context.log.info("%s/%s: the next tick looks at it", self.dataset, self.stage)
            return None
        try:
            return _Looked(events, due(self.opened(), self.dataset, self.stage))
        except (TrajpipeError, OSError) as error:
            context.log.warning("%s/%s: not asked for: %s", self.dataset, self.stage, error)
            return None

    def _events(self, context: dg.AutomationContext[dg.AssetKey]) -> dict[str, int]:
        """Stage → number of its newest materialization: of this one and of those it is made of.

        As the tick found them when it began, in one query for all its assets: what lands later gives others.
        """
        queryer = context.asset_graph_view.get_inner_queryer_for_back_compat()
        found: dict[str, int] = {}
        for stage in dict.fromkeys((Stage.DEMOS, Stage.STORE, self.stage)):
            record = queryer.get_asset_record(asset_key(self.dataset, stage))
            number = None if record is None else record.asset_entry.last_materialization_storage_id
            if number is not None:
                found[stage.value] = number
        return found


@dataclass(frozen=True, slots=True)
class _Looked:
    """What a condition found when it last looked; its cursor.

    Attributes:
        events: Stage → number of its newest materialization then.
        digest: Of the build that was asked for; "" when the output was what it should be.
    """

    events: Mapping[str, int] | None = None
    digest: str = ""

    @classmethod
    def of(cls, cursor: str | None) -> "_Looked":
        try:
            value = jsontext.loads(cursor or "{}")
            return cls(value.get("events"), str(value.get("digest", "")))
        except (TrajpipeError, AttributeError):
            return cls()

    def to_text(self) -> str:
        return jsontext.dumps({"events": self.events, "digest": self.digest})


def automation_sensors(datasets: Sequence[DatasetConfig]) -> list[dg.AutomationConditionSensorDefinition]:
    """The sensors that evaluate the conditions: `automation`, and `automation_2`, … for very many datasets.

    Args:
        datasets: The catalogue's.
    """
    size = MOST_ASSETS // 2
    parts = [datasets[first : first + size] for first in range(0, len(datasets), size)]
    return [_sensor(SENSOR if n == 1 else f"{SENSOR}_{n}", part) for n, part in enumerate(parts, 1)]


def _sensor(name: str, datasets: Sequence[DatasetConfig]) -> dg.AutomationConditionSensorDefinition:
    """A sensor of stores and exports; their checks come with them, and have no conditions of their own."""
    keys = [asset_key(d.name, stage) for d in datasets for stage in (Stage.STORE, Stage.LEROBOT)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)  # our code's server evaluates; the version is pinned
        return dg.AutomationConditionSensorDefinition(
            name,
            target=dg.AssetSelection.assets(*keys).without_checks(),
            default_status=dg.DefaultSensorStatus.RUNNING,
            minimum_interval_seconds=INTERVAL_S,
            description="Builds a store or an export that is out of date; a failed blocking check stops it.",
            use_user_code_server=True,
        )
