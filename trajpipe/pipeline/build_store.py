"""The stage L2 → store: the trajectory store of a dataset from its L2 files.

What is not here: the store's columns (its layout), and its file format (`trajpipe.store`).
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, Final

from trajpipe.checks.registry import CheckReport, run_checks
from trajpipe.core import names, provenance
from trajpipe.core.ahead import ahead
from trajpipe.core.errors import InputError
from trajpipe.core.ledger import Ledger, LedgerEntry, Rejection, entry
from trajpipe.core.names import Reason, Stage
from trajpipe.core.progress import Progress, silent
from trajpipe.core.provenance import Recipe
from trajpipe.demos.reader import DemosFile
from trajpipe.mjcf.remap import write_table
from trajpipe.pipeline.episode_tables import EpisodeTables
from trajpipe.pipeline.results import Job, Made, StageResult, Status, failed, perform
from trajpipe.pipeline.store_generic import GenericLayout
from trajpipe.pipeline.store_lafan import LafanLayout
from trajpipe.pipeline.store_layout import StoreLayout
from trajpipe.pipeline.store_lerobot import LeRobotLayout
from trajpipe.pipeline.store_libero import LiberoLayout
from trajpipe.pipeline.store_plan import LiberoOptions, StorePlan
from trajpipe.store import TrajectoryStoreWriter

CODE: Final = "store-1"


def build_store(plan: StorePlan, *, force: bool = False, progress: Progress = silent) -> StageResult:
    """Build the store of a plan, or say that nothing changed. Failures are returned, not raised."""
    recipe = recipe_of_store(plan)

    @cache
    def layout() -> StoreLayout:
        # one look at all L2 files serves the building, the checks and the remap table
        return layout_of(plan)

    job = Job(
        plan.dataset,
        Stage.STORE,
        "",
        plan.target,
        recipe,
        build=lambda temporary: write_store(plan, recipe, temporary, progress, layout=layout()),
        check=lambda temporary: check_store(plan, temporary, layout()),
        space=sum(path.stat().st_size for path in plan.inputs),
    )
    if not plan.inputs:
        why = "; ".join(f"{k}: {v}" for k, v in plan.failed.items()) or "no recording"
        return failed(job, InputError("a store needs one L2 file at least", got=why, code="nothing-to-build"))
    result = perform(job, force=force)
    if result.usable and plan.libero is not None and plan.libero.state:
        path = _remap_path(plan.target, plan.libero)
        if result.status is Status.BUILT or not path.is_file():
            _write_remap(path, layout())
    return result


def _remap_path(target: Path, options: LiberoOptions) -> Path:
    return target.with_name(f"{names.REMAP_TABLE}{options.family or options.suite}{names.SUFFIX_REMAP}")


def _write_remap(path: Path, layout: StoreLayout) -> None:
    """Keep the remap table of a LIBERO store beside it, in the form that noeira reads."""
    if isinstance(layout, LiberoLayout) and layout.table is not None:
        write_table(path, layout.table)


def recipe_of_store(plan: StorePlan) -> Recipe:
    """The recipe of a plan: the L2 files' hashes and the options."""
    hashes = {path.name: sha256_of_output(path) for path in plan.inputs}
    return Recipe(Stage.STORE, hashes, plan.recipe_options(), CODE)


def sha256_of_output(path: Path) -> str:
    """SHA-256 of an L2 file; the stamp's when the file is untouched since."""
    stamp = provenance.read_stamp(path)
    if stamp is not None and stamp["output"].get("touch") == provenance.touch_of(path):
        return str(stamp["output"]["sha256"])
    return provenance.sha256_path(path)


def layout_of(plan: StorePlan) -> StoreLayout:
    """The layout of a plan."""
    if plan.lafan is not None:
        return LafanLayout(plan, plan.lafan)
    if plan.lerobot is not None:
        return LeRobotLayout(plan, plan.lerobot)
    return GenericLayout(plan) if plan.libero is None else LiberoLayout(plan, plan.libero)


def check_store(plan: StorePlan, path: Path, layout: StoreLayout | None = None) -> CheckReport:
    """Run the checks of a plan's store on a file; `layout` saves a look at all L2 files."""
    return run_checks(Stage.STORE, path, context=store_context(plan, layout))


def store_context(plan: StorePlan, layout: StoreLayout | None = None) -> dict[str, Any]:
    """What the checks of a plan's store compare with; `layout` saves a look at all L2 files."""
    layout = layout_of(plan) if layout is None else layout
    # Rows of a motion store are resampled: no rule compares them with L2's one by one.
    inputs = {"l2": list(plan.inputs)} if plan.lafan is None else {}
    context = {**inputs, **layout.check_context()}
    if plan.demos_per_task is not None:
        context |= {"demos_per_task": plan.demos_per_task, "cap_attribute": layout.cap_attribute}
    return context


def write_store(
    plan: StorePlan,
    recipe: Recipe,
    temporary: Path,
    progress: Progress = silent,
    *,
    layout: StoreLayout | None = None,
) -> Made:
    """Write the store of a plan at a temporary path.

    Args:
        plan: What to build.
        recipe: Its key becomes the manifest's `source_commit`.
        temporary: The file to write.
        progress: Told of each L2 file.
        layout: A fresh one of the plan, to be used for this build alone; None makes it.

    Raises:
        SchemaError: an episode's terms, shapes or dtypes differ from the first one's; names both files.
    """
    layout = layout_of(plan) if layout is None else layout
    tables, ledger = EpisodeTables(), Ledger(failed=dict(plan.failed))
    specs, counts, rates = layout.specs(), Counter[str](), set[Fraction | None]()
    with TrajectoryStoreWriter(
        temporary,
        specs,
        env_id=layout.env_id,
        seed=plan.seed,
        source_commit=recipe.key(),
        tasks=layout.tasks,
        durable=False,  # whoever publishes the temporary file makes it durable
    ) as writer:
        for number, path in enumerate(plan.inputs, 1):
            with DemosFile(path) as demos:
                rates.add(demos.fps)
                ledger.entries.append(_append_file(writer, demos, layout, tables, plan, counts))
            progress("recordings", number, len(plan.inputs))
        rows = writer.n_rows
        for key, value in _manifest_facts(layout, rates).items():
            writer.set_extra(key, value)
        for name, table in {**tables.tables(), **layout.side_tables()}.items():
            writer.add_side_table(name, table)
    ledger.entries.extend(_departed(plan))
    facts = {"episodes": ledger.written, "rows": rows, "columns": len(specs), "tasks": len(counts)}
    return Made(ledger, facts)


def _append_file(
    writer: TrajectoryStoreWriter,
    demos: DemosFile,
    layout: StoreLayout,
    tables: EpisodeTables,
    plan: StorePlan,
    counts: Counter[str],
) -> LedgerEntry:
    """Append the episodes of an L2 file; those over the cap per task are rejections."""
    over: list[Rejection] = []
    file = demos.path.name
    for episode in ahead(demos.episodes()):
        by_file = layout.cap_attribute == names.ATTR_SOURCE_FILE
        task = episode.source_file if by_file else episode.task or ""
        if plan.demos_per_task is not None and counts[task] >= plan.demos_per_task:
            detail = f"{plan.demos_per_task} demos of its task are kept"
            over.append(Rejection(file, episode.name, Reason.OVER_CAP.value, detail))
            continue
        layout.append(writer, episode, file)
        tables.add(episode)
        counts[task] += 1
        writer.end_episode()
    return entry(file, Stage.STORE.value, len(demos) - len(over), over)


def _manifest_facts(layout: StoreLayout, rates: set[Fraction | None]) -> dict[str, str]:
    """Manifest keys of our own: camera names, and the layout's rate, else the one of all L2 files."""
    facts = {}
    if layout.cameras:
        cameras = [camera.removeprefix(f"{names.GROUP_OBS}/") for camera in layout.cameras]
        facts[names.MANIFEST_CAMERAS] = ",".join(cameras)
    rates = rates if layout.rate is None else {layout.rate}
    if len(rates) == 1 and None not in rates:
        facts[names.MANIFEST_FPS] = str(next(iter(rates)))
    return facts


def _departed(plan: StorePlan) -> list[LedgerEntry]:
    """Entries for L2 files of the store on disk whose recordings are gone: their episodes leave."""
    path = provenance.beside(plan.target, names.SUFFIX_LEDGER)
    if not path.is_file():
        return []
    current = {p.name for p in plan.inputs} | {p.name for p in plan.absent}
    gone = [e for e in Ledger.load(path).entries if e.recording not in current and e.written]
    if not gone:
        return []
    before = (provenance.read_stamp(plan.target) or {}).get("inputs", {})
    here = {sha256_of_output(p) for p in plan.inputs}  # one may have another name, as others came or went
    return [_all_removed(e) for e in gone if before.get(e.recording) not in here]


def _all_removed(old: LedgerEntry) -> LedgerEntry:
    detail = "its recording is no longer among the dataset's raw files"
    rejected = [
        Rejection(old.recording, f"{names.DEMO_PREFIX}{i}", Reason.REMOVED.value, detail)
        for i in range(old.written)
    ]
    return entry(old.recording, Stage.STORE.value, 0, rejected)
