"""The stage L2 → store: the trajectory store of a dataset from its L2 files.

What is not here: the store's columns (its layout), and its file format (`trajpipe.store`).
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Final

from trajpipe.checks.registry import CheckReport, run_checks
from trajpipe.core import names, provenance
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
from trajpipe.pipeline.store_plan import StorePlan
from trajpipe.store import TrajectoryStoreWriter

CODE: Final = "store-1"


def build_store(plan: StorePlan, *, force: bool = False, progress: Progress = silent) -> StageResult:
    """Build the store of a plan, or say that nothing changed. Failures are returned, not raised."""
    recipe = recipe_of_store(plan)
    job = Job(
        plan.dataset,
        Stage.STORE,
        "",
        plan.target,
        recipe,
        build=lambda temporary: write_store(plan, recipe, temporary, progress),
        check=lambda temporary: check_store(plan, temporary),
        space=sum(path.stat().st_size for path in plan.inputs),
    )
    if not plan.inputs:
        why = "; ".join(f"{k}: {v}" for k, v in plan.failed.items()) or "no recording"
        return failed(job, InputError("a store needs one L2 file at least", got=why, code="nothing-to-build"))
    result = perform(job, force=force)
    if result.usable:
        _write_remap(plan, result.status is Status.BUILT)
    return result


def _write_remap(plan: StorePlan, built: bool) -> None:
    """Keep the remap table of a LIBERO store beside it, in the form that noeira reads."""
    if plan.libero is None or not plan.libero.state:
        return
    name = f"{names.REMAP_TABLE}{plan.libero.family or plan.libero.suite}{names.SUFFIX_REMAP}"
    path = plan.target.with_name(name)
    if built or not path.is_file():
        table = LiberoLayout(plan, plan.libero).table
        if table is not None:
            write_table(path, table)


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


def check_store(plan: StorePlan, path: Path) -> CheckReport:
    """Run the checks of a plan's store on a file."""
    return run_checks(Stage.STORE, path, context=store_context(plan))


def store_context(plan: StorePlan) -> dict[str, Any]:
    """What the checks of a plan's store compare with."""
    layout = layout_of(plan)
    # Rows of a motion store are resampled: no rule compares them with L2's one by one.
    inputs = {"l2": list(plan.inputs)} if plan.lafan is None else {}
    context = {**inputs, **layout.check_context()}
    if plan.demos_per_task is not None:
        context |= {"demos_per_task": plan.demos_per_task, "cap_attribute": layout.cap_attribute}
    return context


def write_store(plan: StorePlan, recipe: Recipe, temporary: Path, progress: Progress = silent) -> Made:
    """Write the store of a plan at a temporary path.

    Raises:
        SchemaError: an episode's terms, shapes or dtypes differ from the first one's; names both files.
    """
    layout, tables, ledger = layout_of(plan), EpisodeTables(), Ledger(failed=dict(plan.failed))
    specs, counts = layout.specs(), Counter[str]()
    with TrajectoryStoreWriter(
        temporary,
        specs,
        env_id=layout.env_id,
        seed=plan.seed,
        source_commit=recipe.key(),
        tasks=layout.tasks,
    ) as writer:
        for number, path in enumerate(plan.inputs, 1):
            ledger.entries.append(_append_file(writer, path, layout, tables, plan, counts))
            progress("recordings", number, len(plan.inputs))
        rows = writer.n_rows
        for key, value in _manifest_facts(plan, layout).items():
            writer.set_extra(key, value)
        for name, table in {**tables.tables(), **layout.side_tables()}.items():
            writer.add_side_table(name, table)
    ledger.entries.extend(_departed(plan))
    facts = {"episodes": ledger.written, "rows": rows, "columns": len(specs), "tasks": len(counts)}
    return Made(ledger, facts)


def _append_file(
    writer: TrajectoryStoreWriter,
    path: Path,
    layout: StoreLayout,
    tables: EpisodeTables,
    plan: StorePlan,
    counts: Counter[str],
) -> LedgerEntry:
    """Append the episodes of an L2 file; those over the cap per task are rejections."""
    over: list[Rejection] = []
    with DemosFile(path) as demos:
        for episode in demos.episodes():
            by_file = layout.cap_attribute == names.ATTR_SOURCE_FILE
            task = episode.source_file if by_file else episode.task or ""
            if plan.demos_per_task is not None and counts[task] >= plan.demos_per_task:
                detail = f"{plan.demos_per_task} demos of its task are kept"
                over.append(Rejection(path.name, episode.name, Reason.OVER_CAP.value, detail))
                continue
            layout.append(writer, episode, path.name)
            tables.add(episode)
            counts[task] += 1
            writer.end_episode()
        written = len(demos) - len(over)
    return entry(path.name, Stage.STORE.value, written, over)


def _manifest_facts(plan: StorePlan, layout: StoreLayout) -> dict[str, str]:
    """Manifest keys of our own: camera names, and the rate that all L2 files agree on."""
    facts = {}
    if layout.cameras:
        cameras = [camera.removeprefix(f"{names.GROUP_OBS}/") for camera in layout.cameras]
        facts[names.MANIFEST_CAMERAS] = ",".join(cameras)
    rates = set()
    for path in plan.inputs:
        with DemosFile(path) as demos:
            rates.add(demos.fps)
    if len(rates) == 1 and None not in rates:
        facts[names.MANIFEST_FPS] = str(rates.pop())
    return facts


def _departed(plan: StorePlan) -> list[LedgerEntry]:
    """Entries for L2 files of the store on disk whose recordings are gone: their episodes leave."""
    path = provenance.beside(plan.target, names.SUFFIX_LEDGER)
    if not path.is_file():
        return []
    current = {p.name for p in plan.inputs} | {p.name for p in plan.absent}
    gone = [e for e in Ledger.load(path).entries if e.recording not in current and e.written]
    return [_all_removed(e) for e in gone]


def _all_removed(old: LedgerEntry) -> LedgerEntry:
    detail = "its recording is no longer among the dataset's raw files"
    rejected = [
        Rejection(old.recording, f"{names.DEMO_PREFIX}{i}", Reason.REMOVED.value, detail)
        for i in range(old.written)
    ]
    return entry(old.recording, Stage.STORE.value, 0, rejected)
