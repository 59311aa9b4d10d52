"""One stage of one dataset as an asset with its checks, in one op.

The op runs the pipeline's stage function. On unchanged input that returns at once with the stored result,
whose check results are reported again. A stage that fails publishes nothing: its run is red, the failed
rule is red, and what is downstream does not run. A build that a sensor asked for and that finds its L2 files
still awaited publishes nothing and is not red. Checks can be run without the asset.
What is not here: what is particular to a stage, see `demos.py`, `store.py`, `lerobot.py`.
"""

import traceback
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import dagster as dg

from trajpipe.checks.registry import CheckReport
from trajpipe.core.errors import TrajpipeError
from trajpipe.core.names import Stage
from trajpipe.defs.awaited import too_few_yet
from trajpipe.defs.checks import BUILDS, NOTICED, check_name, check_specs, results_of_report, results_of_stage
from trajpipe.defs.metadata import failure_metadata, stage_metadata
from trajpipe.defs.open_databases import events_kept_open
from trajpipe.defs.partitions import asset_key
from trajpipe.defs.pictures import earlier_pictures
from trajpipe.defs.reporting import (
    call_no_check_omitted,
    evaluations,
    input_tags,
    latest,
    materialization,
)
from trajpipe.defs.resources import ProjectResource
from trajpipe.pipeline.catalogue import DatasetConfig
from trajpipe.pipeline.lineage import Lineage
from trajpipe.pipeline.pictures import action_of
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.results import StageResult, Status

_BY_A_SENSOR: Final = ("dagster/sensor_name", "dagster/from_automation_condition")
Event = dg.MaterializeResult[Any] | dg.AssetMaterialization | dg.AssetCheckEvaluation
Events = Iterator[Event]


class StageConfig(dg.Config):
    """Run configuration of a stage.

    Attributes:
        force: Build although nothing changed.
    """

    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StageDefinition:
    """What makes one stage of one dataset.

    Attributes:
        dataset: The dataset.
        stage: The stage.
        description: Markdown for the asset's page.
        deps: What it is made of.
        kinds: Labels on the graph.
        code_version: Raised when the same input must give other bytes.
        build: (project, partition key, force) → result; the key is "" without partitions.
        check: (project, partition key) → report of the output on disk.
        partitions: None for a stage of the whole dataset.
        backfills: How many partitions a run of a backfill holds; None = Dagster's one.
        automation: When it runs by itself; None = it is asked for.
        lineage: (project, output) → its column → columns of L2; None where there is none.
    """

    dataset: DatasetConfig
    stage: Stage
    description: str
    deps: Sequence[dg.AssetDep]
    kinds: frozenset[str]
    code_version: str
    build: Callable[[Project, str, bool], StageResult]
    check: Callable[[Project, str], CheckReport]
    partitions: dg.PartitionsDefinition | None = None
    backfills: dg.BackfillPolicy | None = None
    automation: dg.AutomationCondition[Any] | None = None
    lineage: Callable[[Project, Path], Lineage] | None = None

    @property
    def key(self) -> dg.AssetKey:
        """`<dataset>/<stage>`."""
        return asset_key(self.dataset.name, self.stage)

    def spec(self) -> dg.AssetSpec:
        """The asset."""
        return dg.AssetSpec(
            self.key,
            deps=self.deps,
            description="\n\n".join(filter(None, (self.dataset.description.strip(), self.description))),
            group_name=self.dataset.name,
            kinds=set(self.kinds),
            owners=list(self.dataset.owners),
            code_version=self.code_version,
            metadata={"license": self.dataset.license} if self.dataset.license else {},
            partitions_def=self.partitions,
            automation_condition=self.automation,
        )


@dataclass(frozen=True, slots=True)
class _Broken:
    """What failed of a run: a stage, or one of the partitions that the run holds."""

    key: str
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)


def stage_asset(definition: StageDefinition) -> dg.AssetsDefinition:
    """The asset of a stage together with its checks.

    A run of a partitioned stage may hold several partitions: one that fails leaves the others alone, and the
    run is red at its end.
    """

    @dg.multi_asset(
        name=f"{definition.dataset.name}__{definition.stage.value}",
        specs=[definition.spec()],
        check_specs=check_specs(definition.key, definition.stage, definition.partitions),
        can_subset=True,
        partitions_def=definition.partitions,
        backfill_policy=definition.backfills,
    )
    def stage_op(context: dg.AssetExecutionContext, config: StageConfig, project: ProjectResource) -> Events:
        keys = context.partition_keys if definition.partitions is not None else [""]
        call_no_check_omitted(context)
        with events_kept_open(context.instance):
            try:
                opened = project.open()
            except TrajpipeError as error:
                raise dg.Failure(str(error), allow_retries=False) from error
            work, broken = _Work(definition, context, opened, config.force), []
            for key in keys:
                found = yield from work.one(key, alone=len(keys) == 1)
                broken += [found] if found is not None else []
        if broken:
            raise _failure(broken, len(keys))

    return stage_op


@dataclass(frozen=True, slots=True)
class _Work:
    """One run of a stage."""

    definition: StageDefinition
    context: dg.AssetExecutionContext
    project: Project
    force: bool

    def one(self, key: str, *, alone: bool) -> Generator[Event, None, _Broken | None]:
        """Build or check one partition and report it; what broke of it.

        Args:
            key: Partition key; "" for a stage without.
            alone: Nothing else is left to be done in this run: an error that nobody expected ends it.
        """
        try:
            if self.definition.key in self.context.selected_asset_keys:
                return (yield from self._build(key))
            yield from self._evaluations(key, _checked(self.definition, self.project, key, self._selected()))
        except TrajpipeError as error:
            return _Broken(key, str(error))
        except Exception as error:
            if alone:
                raise
            self.context.log.error("%s: %s", key, "".join(traceback.format_exception(error)))
            return _Broken(key, f"{type(error).__name__}: {error}")
        return None

    def _build(self, key: str) -> Generator[Event, None, _Broken | None]:
        definition, context = self.definition, self.context
        result = definition.build(self.project, key, self.force)
        waits = _waits(definition, self.project, result, context.run.tags)
        if waits:
            context.log.info("%s: not built yet: %s", definition.key.to_user_string(), waits)
            return None
        context.log.info(_line(result))
        if result.usable:
            yield self._materialization(key, result)
        yield from self._evaluations(key, self._results(key, result))
        if result.usable:
            return None
        return _Broken(key, result.error or "a blocking check failed", failure_metadata(result))

    def _materialization(self, key: str, result: StageResult) -> Event:
        definition, instance = self.definition, self.context.instance
        metadata = stage_metadata(
            result,
            action=action_of(definition.dataset),
            pictures=earlier_pictures(instance, definition.key, key, result) or None,
            lineage=_lineage(definition, self.project, result.path),
        )
        if definition.partitions is None:
            version = dg.DataVersion(result.data_version)
            return dg.MaterializeResult(asset_key=definition.key, data_version=version, metadata=metadata)
        inputs = input_tags(instance, [dep.asset_key for dep in definition.deps], key)
        versions = result.data_version, definition.code_version
        return materialization(definition.key, key, versions, metadata, inputs)

    def _results(self, key: str, result: StageResult) -> Iterator[dg.AssetCheckResult]:
        """Of the stage; rules that were registered after an unchanged output was built run now."""
        definition, selected = self.definition, self._selected()
        yield from results_of_stage(definition.key, result, selected)
        if result.usable and result.status is Status.UNCHANGED:
            reported = {r.code for r in result.checks.results} | set(result.checks.skipped)
            missing = selected - {check_name(code) for code in reported} - {BUILDS, NOTICED}
            if missing:
                report = definition.check(self.project, key)
                yield from results_of_report(definition.key, report, missing)

    def _evaluations(self, key: str, results: Iterator[dg.AssetCheckResult]) -> Iterator[Event]:
        made = latest(self.context.instance, self.definition.key, key)
        yield from evaluations(results, self.definition.stage, key, made)

    def _selected(self) -> set[str]:
        return {check.name for check in self.context.selected_asset_check_keys}


def _failure(broken: Sequence[_Broken], number: int) -> dg.Failure:
    """The failure of a run, with all that broke in it."""
    if number == 1:
        return dg.Failure(broken[0].text, metadata=dict(broken[0].metadata), allow_retries=False)
    text = f"{len(broken)} of {number} partitions failed: " + "; ".join(f"{b.key}: {b.text}" for b in broken)
    metadata = {f"{b.key}: {name}": value for b in broken for name, value in b.metadata.items()}
    return dg.Failure(text, metadata=metadata, allow_retries=False)


def _waits(
    definition: StageDefinition, project: Project, result: StageResult, tags: Mapping[str, str]
) -> str:
    """What a stage that a sensor asked for waits for, when that alone stopped it; "" otherwise.

    A recording that lands after the request, and renames the L2 file of another, takes away what was to be
    built from. Both are ingested by runs of their own, after which the stage is asked for again.
    """
    if result.usable or definition.partitions is not None or not any(tag in tags for tag in _BY_A_SENSOR):
        return ""
    keys = too_few_yet(project, definition.dataset.name)
    return f"{len(keys)} recordings are being ingested: {', '.join(keys[:20])}" if keys else ""


def _lineage(definition: StageDefinition, project: Project, output: Path) -> Lineage:
    """Which columns of L2 the output's columns come from; empty where that cannot be read."""
    if definition.lineage is None:
        return {}
    try:
        return definition.lineage(project, output)
    except (TrajpipeError, OSError, KeyError):
        return {}


def _checked(
    definition: StageDefinition, project: Project, key: str, selected: set[str]
) -> Iterator[dg.AssetCheckResult]:
    """Run the selected rules on the output on disk, without building it."""
    report = definition.check(project, key)
    yield from results_of_report(definition.key, report, selected)
    for name in sorted(selected & {BUILDS, NOTICED}):
        yield dg.AssetCheckResult(
            passed=True,
            asset_key=definition.key,
            check_name=name,
            description="nothing was built: this is known when the asset is materialized",
        )


def _line(result: StageResult) -> str:
    text = f"{result.path.name}: {result.status.value}, {result.ledger.summary()}, {result.seconds:.1f} s"
    return f"{text}: {result.error}" if result.error else text
