"""Converting recordings without a catalogue: raw or L2 in, L2, store or LeRobot out.

What is not here: the stages, see `ingest.py`, `build_store.py` and `export_lerobot.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from trajpipe.checks.registry import CheckResult, run_checks
from trajpipe.core import atomic, names, provenance
from trajpipe.core.conventions import Conventions
from trajpipe.core.errors import InputError, TrajpipeError, UsageError
from trajpipe.core.ledger import Ledger
from trajpipe.core.names import Stage
from trajpipe.core.order import natural_key, natural_sorted, slug
from trajpipe.core.progress import Progress, silent
from trajpipe.core.provenance import Recipe
from trajpipe.core.signatures import looks_like_hdf5
from trajpipe.demos.images import ImageLayout
from trajpipe.demos.merge import merge
from trajpipe.demos.reader import DemosFile
from trajpipe.demos.select import Filters
from trajpipe.export.profiles import profile, profiles
from trajpipe.hdf5.attributes import text
from trajpipe.hdf5.files import open_hdf5
from trajpipe.pipeline import export_lerobot, init_store
from trajpipe.pipeline.build_store import build_store
from trajpipe.pipeline.convert_sources import (
    exclusions_of,
    expanded,
    rate_is_known,
    require_apart,
    require_exclusions_known,
    require_ours,
    require_there,
    twins_of,
    without_rate,
)
from trajpipe.pipeline.convert_store import export_store, is_store
from trajpipe.pipeline.ingest import IngestPlan, ingest
from trajpipe.pipeline.results import (
    NOTICED,
    SOURCE_FINDINGS,
    Job,
    Made,
    StageResult,
    Status,
    entry_of,
    failed_plainly,
    perform,
)
from trajpipe.pipeline.store_plan import LafanOptions, LeRobotOptions, LiberoOptions, StorePlan
from trajpipe.sources.base import detect, source
from trajpipe.sources.detection import LAFAN, LIBERO

TO_DEMOS: Final = "demos"
TO_STORE: Final = "store"
LEROBOT_COLUMNS: Final = "lerobot"
MERGE_CODE: Final = "merge-1"


@dataclass(frozen=True, slots=True)
class ConvertOptions:
    """How to convert; what is None is the format's own.

    Attributes:
        kind: Source kind; None = detected.
        name: Dataset name; the destination's stem when None.
        tag: `source` tag of every episode.
        task: Task text for episodes without one.
        conventions: Declared conventions.
        options: Source-specific options.
        filters: Which episodes stay.
        exclude: Episodes left out by hand: `DEMO`, `FILE:DEMO`, or `FILE`, with or without its suffix.
        image_layout: L2 images: `strips` or `frames`.
        fletcher32: L2 checksums.
        align_causal: Shift `after_action` recordings.
        store: Keyword arguments of `StorePlan` (`terms`, `cameras`, `float32`, `images`, `compression`,
            `demos_per_task`).
        layout: Store layout: `auto` (LIBERO's and LAFAN1's own for theirs), `generic`, `libero`,
            `lafan` or `lerobot` (noeira's columns of a LeRobot set).
        scene: A recording or MJCF that gives the joint order of initial-state tables.
        libero: Keyword arguments of `LiberoOptions`; the suite is the dataset's name when absent. A motion
            store takes its `model` too.
        export: Keyword arguments of `trajpipe.export.ExportOptions` but `fps` and `version`.
        force: Build although the destination is the same already.
    """

    kind: str | None = None
    name: str | None = None
    tag: str | None = None
    task: str | None = None
    conventions: Conventions = field(default_factory=Conventions)
    options: Mapping[str, Any] = field(default_factory=dict)
    filters: Filters = field(default_factory=Filters)
    exclude: tuple[str, ...] = ()
    image_layout: ImageLayout = "strips"
    fletcher32: bool = False
    align_causal: bool = False
    store: Mapping[str, Any] = field(default_factory=dict)
    layout: str = "auto"
    scene: Path | None = None
    libero: Mapping[str, Any] = field(default_factory=dict)
    export: Mapping[str, Any] = field(default_factory=dict)
    force: bool = False


def targets() -> tuple[str, ...]:
    """What `--to` may say."""
    return (TO_DEMOS, TO_STORE, *profiles())


def is_l2(path: Path) -> bool:
    """True for an L2 file that trajpipe wrote."""
    if not path.is_file() or not looks_like_hdf5(path):
        return False
    try:
        with open_hdf5(path) as file:
            data = file.get(names.GROUP_DATA)
            return data is not None and text(data, names.ATTR_TRAJPIPE) is not None
    except TrajpipeError:
        return False


def convert(
    sources: Sequence[Path],
    destination: Path,
    to: str,
    options: ConvertOptions = ConvertOptions(),
    progress: Progress = silent,
) -> list[StageResult]:
    """Convert recordings into one destination.

    Args:
        sources: Raw recordings and L2 files; several become one dataset.
        destination: A file for `demos` and `store`; a folder for LeRobot, or for `demos` one file each.
        to: `demos`, `store` or an export profile (`lerobot-v2.1`, …).
        options: How.
        progress: Called with demos, recordings and frames done.

    Returns:
        One result per recording that was read, then the destination's; a broken recording fails alone.

    Raises:
        UsageError: no source or one that is not there, an unknown target, the destination among the sources.
        OutputExistsError: the destination exists, and trajpipe did not make it.
    """
    if to not in targets():
        raise UsageError("no such target", got=to, expected=f"one of {', '.join(targets())}")
    require_there(sources)
    if to == TO_STORE and all(s.suffix in init_store.SUFFIXES for s in sources):
        require_apart(sources, [destination])
        return [_init_store(sources, destination, options)]
    sources = expanded(sources, options.kind)
    into_folder = to == TO_DEMOS and (destination.is_dir() or destination.suffix not in (".hdf5", ".h5"))
    written = [_l2_name(s, destination, into_folder) for s in sources] if into_folder else [destination]
    require_apart(sources, written)
    require_exclusions_known(sources, options.exclude)
    for target in written:
        require_ours(target, force=options.force)
    if options.kind is None and any(is_store(s) for s in sources):
        results = [_from_store(sources, destination, to, options, progress)]
    elif into_folder or (to == TO_DEMOS and len(sources) == 1):
        results = [_to_l2(s, _l2_name(s, destination, into_folder), options, progress) for s in sources]
    elif to not in (TO_DEMOS, TO_STORE) and not rate_is_known(sources, options.kind, options.conventions):
        dataset = _dataset_of(destination, options)
        results = [failed_plainly(dataset, Stage.LEROBOT, "", destination, without_rate(sources))]
    else:
        results = _together(sources, destination, to, options, progress)
    twins = twins_of(sources)
    if len(twins):
        results[-1].checks.results.insert(0, CheckResult(SOURCE_FINDINGS, NOTICED, False, twins))
    return results


def _together(
    sources: Sequence[Path], destination: Path, to: str, options: ConvertOptions, progress: Progress
) -> list[StageResult]:
    """L2 files of all sources, the raw ones' under a temporary folder; then the output of all of them."""
    with atomic.named_temporary(destination) as temporary:
        steps, inputs = _ingested(sources, temporary.parent / "l2", options, progress)
        failures = {r.key: r.error or "a blocking check failed" for r in steps if not r.usable}
        final = _build(
            _dataset_of(destination, options), inputs, failures, (to, destination), options, progress
        )
    return [*steps, final]


def _dataset_of(destination: Path, options: ConvertOptions) -> str:
    file = destination.suffix in (".hdf5", ".h5")
    return options.name or slug(destination.stem if file else destination.name)


def _init_store(sources: Sequence[Path], destination: Path, options: ConvertOptions) -> StageResult:
    """A store of LIBERO's initial-state tables."""
    if options.scene is None:
        raise UsageError(
            "a table of initial states does not say its joint order",
            got=sources[0].name,
            expected="a recording or MJCF of the same scene",
            hint="Pass --scene recording.hdf5 (or model.xml).",
        )
    name = options.name or slug(destination.stem)
    libero = LiberoOptions(**{"suite": name, **options.libero})
    ordered = sorted(sources, key=lambda p: natural_key(p.name))
    plan = init_store.InitPlan(name, tuple(ordered), options.scene, destination, libero)
    return init_store.build_init_store(plan, force=options.force)


def _l2_name(recording: Path, destination: Path, folder: bool) -> Path:
    return destination / f"{_slug_of(recording)}.hdf5" if folder else destination


def _slug_of(recording: Path) -> str:
    """A recording's name without its suffix; a folder has none (`lift_v2.1` is no `lift_v2`)."""
    return slug(recording.name if recording.is_dir() else recording.stem)


def _to_l2(recording: Path, target: Path, options: ConvertOptions, progress: Progress) -> StageResult:
    try:
        plan = _plan(recording, target, options)
    except (TrajpipeError, OSError) as error:
        return failed_plainly(_slug_of(recording), Stage.DEMOS, recording.name, target, error)
    return ingest(plan, force=options.force, progress=progress)


def _plan(recording: Path, target: Path, options: ConvertOptions) -> IngestPlan:
    if not recording.exists():
        raise InputError("no such recording", place=recording, code="missing-file")
    kind = source(options.kind).kind if options.kind else detect(recording).kind
    return IngestPlan(
        dataset=options.name or _slug_of(recording),
        key=recording.name,
        path=recording,
        kind=kind,
        target=target,
        conventions=replace(options.conventions, unknown_success=options.filters.unknown_success),
        options=options.options,
        tag=options.tag,
        task=options.task,
        filters=options.filters,
        exclude=exclusions_of(recording, options.exclude),
        splits={"": names.Split.TRAIN.value},
        own_masks=True,
        align_causal=options.align_causal,
        image_layout=options.image_layout,
        fletcher32=options.fletcher32,
    )


def _ingested(
    sources: Sequence[Path], folder: Path, options: ConvertOptions, progress: Progress
) -> tuple[list[StageResult], list[Path]]:
    """L2 files of all sources: those that are L2 already as they are, the others under a temporary folder."""
    results: list[StageResult] = []
    inputs: list[Path] = []
    for number, recording in enumerate(sources):
        if is_l2(recording) and options.kind is None and not _selects(options):
            results.append(_checked_l2(recording))
            if results[-1].usable:
                inputs.append(recording)
            continue
        result = _to_l2(recording, _unused(folder, recording, inputs, number), options, progress)
        results.append(replace(result, path=recording))
        if result.usable:
            inputs.append(result.path)
    return results, inputs


def _selects(options: ConvertOptions) -> bool:
    """True when some episodes may be left out: an L2 file is then read anew, and not taken as it is."""
    return bool(options.exclude) or options.filters != Filters(
        unknown_success=options.filters.unknown_success
    )


def _checked_l2(path: Path) -> StageResult:
    """An L2 file as it is, with its checks: one that was edited by hand does not pass."""
    report = run_checks(Stage.DEMOS, path)
    result = StageResult(path.stem, Stage.DEMOS, path.name, path, Status.UNCHANGED, checks=report)
    if report.blocked:
        result.status, result.error = Status.FAILED, f"{path.name} is not a valid L2 file"
        result.ledger = Ledger(failed={path.name: result.error})
        return result
    with DemosFile(path) as demos:
        result.ledger = Ledger([entry_of(path.name, Stage.DEMOS, len(demos))])
        result.facts = {"episodes": len(demos), "rows": demos.total}
    return result


def _unused(folder: Path, recording: Path, taken: Sequence[Path], number: int) -> Path:
    name = f"{_slug_of(recording)}.hdf5"
    return folder / (name if name not in {p.name for p in taken} else f"{_slug_of(recording)}-{number}.hdf5")


def _build(
    dataset: str,
    inputs: Sequence[Path],
    failures: Mapping[str, str],
    target: tuple[str, Path],
    options: ConvertOptions,
    progress: Progress,
) -> StageResult:
    to, destination = target
    stage = {TO_DEMOS: Stage.DEMOS, TO_STORE: Stage.STORE}.get(to, Stage.LEROBOT)
    if not inputs:
        why = "; ".join(f"{k}: {v}" for k, v in failures.items())
        error = InputError("no recording could be read", got=why, code="nothing-to-build")
        return failed_plainly(dataset, stage, "", destination, error)
    if to == TO_DEMOS:
        return _merged(dataset, inputs, failures, destination, options)
    if to == TO_STORE:
        plan = _store_plan(dataset, inputs, failures, destination, options)
        return build_store(plan, force=options.force, progress=progress)
    keywords = _export_keywords(to, options)
    return export_lerobot.export(
        export_lerobot.ExportPlan(
            dataset, tuple(inputs), destination, keywords, options.conventions.fps, dict(failures)
        ),
        force=options.force,
        progress=progress,
    )


def _export_keywords(to: str, options: ConvertOptions) -> dict[str, Any]:
    """Keyword arguments of the export: the profile's settings, the task, what was asked for."""
    return {**profile(to).settings, "task": options.task or "", **options.export}


def _from_store(
    sources: Sequence[Path], destination: Path, to: str, options: ConvertOptions, progress: Progress
) -> StageResult:
    """A store → LeRobot; a store is the end of the way to L2 and to stores.

    Raises:
        UsageError: several sources, or another target.
    """
    if len(sources) != 1 or to in (TO_DEMOS, TO_STORE):
        raise UsageError(
            "a store converts alone, and to LeRobot only",
            got=f"{len(sources)} sources --to {to}",
            expected="one store --to lerobot-v2.1",
        )
    return export_store(
        sources[0],
        destination,
        _export_keywords(to, options),
        fps=options.conventions.fps,
        force=options.force,
        progress=progress,
    )


def _store_plan(
    dataset: str,
    inputs: Sequence[Path],
    failures: Mapping[str, str],
    destination: Path,
    options: ConvertOptions,
) -> StorePlan:
    layout = options.layout
    if layout == "auto":
        kinds = {kind_of_l2(path) for path in inputs}
        layout = kinds.pop() if len(kinds) == 1 else "generic"
    keywords = {"suite": dataset, **options.libero}
    return StorePlan(
        dataset,
        tuple(inputs),
        destination,
        libero=LiberoOptions(**keywords) if layout == LIBERO else None,
        lafan=LafanOptions(options.libero.get("model")) if layout == LAFAN else None,
        lerobot=LeRobotOptions() if options.layout == LEROBOT_COLUMNS else None,
        failed=dict(failures),
        **options.store,
    )


def kind_of_l2(path: Path) -> str:
    """The source kind in an L2 file's recipe, of a merged one that of all its inputs; "" when it has none."""
    with DemosFile(path) as demos:
        return _kind_in(demos.recipe)


def _kind_in(recipe: Any) -> str:
    if not isinstance(recipe, Mapping):
        return ""
    merged = recipe.get("merged")
    if isinstance(merged, list):
        kinds = {_kind_in(part.get("recipe")) if isinstance(part, Mapping) else "" for part in merged}
        return kinds.pop() if len(kinds) == 1 else ""
    options = recipe.get("options", {})
    return str(options.get("kind", "")) if isinstance(options, Mapping) else ""


def _merged(
    dataset: str,
    inputs: Sequence[Path],
    failures: Mapping[str, str],
    destination: Path,
    options: ConvertOptions,
) -> StageResult:
    hashes = {path.name: provenance.sha256_file(path) for path in inputs}
    recipe = Recipe(Stage.DEMOS, hashes, {"dataset": dataset, "merged": natural_sorted(hashes)}, MERGE_CODE)

    def build(temporary: Path) -> Made:
        merge(list(inputs), temporary)
        entries = []
        for path in inputs:
            with DemosFile(path) as demos:
                entries.append(entry_of(path.name, Stage.DEMOS, len(demos)))
        with DemosFile(temporary) as demos:
            facts = {"episodes": len(demos), "rows": demos.total}
        return Made(Ledger(entries, dict(failures)), facts)

    job = Job(
        dataset,
        Stage.DEMOS,
        "",
        destination,
        recipe,
        build,
        lambda temporary: run_checks(Stage.DEMOS, temporary),
    )
    return perform(job, force=options.force)
