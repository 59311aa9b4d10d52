"""One stage of one dataset as an asset with its checks, in one op.

The op runs the pipeline's stage function. On unchanged input that returns at once with the stored result,
whose check results are reported again. A stage that fails publishes nothing: its run is red, the failed
rule is red, and what is downstream does not run. A build that a sensor asked for and that finds its L2 files
still awaited publishes nothing and is not red. Checks can be run without the asset.
What is not here: what is particular to a stage, see `demos.py`, `store.py`, `lerobot.py`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from trajpipe.defs.resources import ProjectResource
from trajpipe.pipeline.catalogue import DatasetConfig
from trajpipe.pipeline.lineage import Lineage
from trajpipe.pipeline.pictures import action_of
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.results import StageResult, Status

_BY_A_SENSOR: Final = ("dagster/sensor_name", "dagster/from_automation_condition")
Events = Iterator[dg.MaterializeResult[Any] | dg.AssetCheckResult]


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


def stage_asset(definition: StageDefinition) -> dg.AssetsDefinition:
    """The asset of a stage together with its checks."""

    @dg.multi_asset(
        name=f"{definition.dataset.name}__{definition.stage.value}",
        specs=[definition.spec()],
        check_specs=check_specs(definition.key, definition.stage, definition.partitions),
        can_subset=True,
        partitions_def=definition.partitions,
    )
    def stage_op(context: dg.AssetExecutionContext, config: StageConfig, project: ProjectResource) -> Events:
        key = context.partition_key if definition.partitions is not None else ""
        selected = {check.name for check in context.selected_asset_check_keys}
        with events_kept_open(context.instance):
            try:
                opened = project.open()
                if definition.key not in context.selected_asset_keys:
                    yield from _check_alone(definition, opened, key, selected)
                    return
                result = definition.build(opened, key, config.force)
                waits = _waits(definition, opened, result, context.run.tags)
                if waits:
                    context.log.info("%s: not built yet: %s", definition.key.to_user_string(), waits)
                    return
                context.log.info(_line(result))
                shown = earlier_pictures(context.instance, definition.key, key, result)
                yield from _events(definition, opened, result, selected, shown)
            except TrajpipeError as error:
                raise dg.Failure(str(error), allow_retries=False) from error

    return stage_op


def _events(
    definition: StageDefinition,
    project: Project,
    result: StageResult,
    selected: set[str],
    pictures: Mapping[str, Any],
) -> Events:
    """What a stage that ran reports; raises at the end when its output may not be used."""
    if result.usable:
        yield dg.MaterializeResult(
            asset_key=definition.key,
            data_version=dg.DataVersion(result.data_version),
            metadata=stage_metadata(
                result,
                action=action_of(definition.dataset),
                pictures=pictures or None,
                lineage=_lineage(definition, project, result.path),
            ),
        )
    yield from results_of_stage(definition.key, result, selected)
    if result.status is Status.UNCHANGED:
        yield from _new_rules(definition, project, result, selected)
    if not result.usable:
        text = result.error or "a blocking check failed"
        raise dg.Failure(text, metadata=failure_metadata(result), allow_retries=False)


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


def _new_rules(
    definition: StageDefinition, project: Project, result: StageResult, selected: set[str]
) -> Events:
    """Results of rules that were registered after the unchanged output was built: they run now."""
    reported = {r.code for r in result.checks.results} | set(result.checks.skipped)
    missing = selected - {check_name(code) for code in reported} - {BUILDS, NOTICED}
    if missing:
        yield from results_of_report(definition.key, definition.check(project, result.key), missing)


def _check_alone(definition: StageDefinition, project: Project, key: str, selected: set[str]) -> Events:
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
