"""The stage L2 → store: the generic trajectory store of a dataset from its L2 files.

Columns: `action`, one per flat obs term, cameras as CHW images, `task_index`, `success`, `reward`, `done`
and `truncated` when recorded; per-episode facts as side tables. What is not here: the store's file format.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from trajpipe.checks.registry import CheckReport, run_checks
from trajpipe.core import names, provenance
from trajpipe.core.episode import Episode
from trajpipe.core.errors import InputError
from trajpipe.core.ledger import Ledger, LedgerEntry, Rejection, entry
from trajpipe.core.names import Reason, Split, Stage
from trajpipe.core.progress import Progress, silent
from trajpipe.core.provenance import Recipe
from trajpipe.demos.reader import DemosFile
from trajpipe.pipeline.results import Job, Made, StageResult, entry_of, failed, perform
from trajpipe.pipeline.store_columns import ColumnSource, StorePlan, agree, columns_of, rows_of
from trajpipe.store import ColumnSpec, TrajectoryStoreWriter

CODE: Final = "store-1"
_NO_SPLIT: Final = "none"
_SPLIT_NAMES: Final = [*(split.value for split in Split), _NO_SPLIT]
_EPISODE_COLUMNS: Final = (
    ColumnSpec(names.COLUMN_TASK_INDEX, np.dtype(np.int32), (1,)),
    ColumnSpec(names.COLUMN_SUCCESS, np.dtype(np.uint8), ()),
)


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
    )
    if not plan.inputs:
        why = "; ".join(f"{k}: {v}" for k, v in plan.failed.items()) or "no recording"
        return failed(job, InputError("a store needs one L2 file at least", got=why, code="nothing-to-build"))
    return perform(job, force=force)


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


def check_store(plan: StorePlan, path: Path) -> CheckReport:
    """Run the checks of a plan's store on a file."""
    columns = {c.name: list(c.paths) for c in columns_of(plan)}
    return run_checks(Stage.STORE, path, context={"l2": list(plan.inputs), "columns": columns})


def write_store(plan: StorePlan, recipe: Recipe, temporary: Path, progress: Progress = silent) -> Made:
    """Write the store of a plan at a temporary path.

    Raises:
        SchemaError: an episode's terms, shapes or dtypes differ from the first one's; names both files.
    """
    columns, tables, ledger = columns_of(plan), _EpisodeTables(), Ledger(failed=dict(plan.failed))
    with ExitStack() as stack:
        first = stack.enter_context(DemosFile(plan.inputs[0]))
        env_id = plan.env_id or str(first.env_args.get("env_name", plan.dataset))
        writer = stack.enter_context(
            TrajectoryStoreWriter(
                temporary,
                [*(_spec(c, plan) for c in columns), *_EPISODE_COLUMNS],
                env_id=env_id,
                seed=plan.seed,
                source_commit=recipe.key(),
            )
        )
        for number, path in enumerate(plan.inputs, 1):
            with DemosFile(path) as demos:
                count = _append_file(writer, demos, columns, tables, plan)
            ledger.entries.append(entry_of(path.name, Stage.STORE, count))
            progress("recordings", number, len(plan.inputs))
        tables.write(writer)
    ledger.entries.extend(_departed(plan))
    facts = {
        "episodes": ledger.written,
        "rows": tables.rows,
        "columns": len(columns) + 2,
        "tasks": len(tables.tasks),
    }
    return Made(ledger, facts)


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


def _spec(column: ColumnSource, plan: StorePlan) -> ColumnSpec:
    own = plan.column_compression.get(column.name, plan.compression if column.image else None)
    if own is None:
        return ColumnSpec(column.name, column.dtype, column.trailing)
    return ColumnSpec(column.name, column.dtype, column.trailing, compression=own)


def _append_file(
    writer: TrajectoryStoreWriter,
    demos: DemosFile,
    columns: list[ColumnSource],
    tables: _EpisodeTables,
    plan: StorePlan,
) -> int:
    count = 0
    for episode in demos.episodes():
        count += 1
        agree(episode, columns, plan, demos.path.name)
        for column in columns:
            for rows in rows_of(episode, column):
                writer.append(column.name, rows)
        tables.add(writer, episode)
        writer.end_episode()
    return count


@dataclass(slots=True)
class _EpisodeTables:
    """Per-episode side tables and the per-row columns that come from them."""

    tasks: set[int] = field(default_factory=set)
    sources: list[str] = field(default_factory=list)
    success: list[int] = field(default_factory=list)
    splits: list[int] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    demos: list[str] = field(default_factory=list)
    content: list[bytes] = field(default_factory=list)
    rows: int = 0

    def add(self, writer: TrajectoryStoreWriter, episode: Episode) -> None:
        """Append `task_index` and `success` rows of an episode and note its facts."""
        known = episode.success is not None
        success = bool(episode.success) if known else episode.success_as
        task = writer.add_task(episode.task or "")
        writer.append(names.COLUMN_TASK_INDEX, np.full((episode.length, 1), task, np.int32))
        writer.append(names.COLUMN_SUCCESS, np.full(episode.length, success, np.uint8))
        self.tasks.add(task)
        self.sources.append(episode.tag)
        self.success.append(int(success) if known else names.SUCCESS_UNKNOWN)
        self.splits.append(_SPLIT_NAMES.index(episode.split or _NO_SPLIT))
        self.files.append(episode.source_file)
        self.demos.append(episode.source_demo)
        self.content.append(bytes.fromhex(episode.content_sha256 or "00" * 32))
        self.rows += episode.length

    def write(self, writer: TrajectoryStoreWriter) -> None:
        """Write the side tables."""
        tags = sorted(set(self.sources))
        writer.add_side_table(names.SIDE_EP_SOURCE, np.array([tags.index(t) for t in self.sources], np.uint8))
        writer.add_side_table(names.SIDE_SOURCE_TAGS, tags)
        writer.add_side_table(names.SIDE_EP_SUCCESS, np.array(self.success, np.uint8))
        writer.add_side_table(names.SIDE_EP_SPLIT, np.array(self.splits, np.uint8))
        writer.add_side_table(names.SIDE_SPLIT_NAMES, _SPLIT_NAMES)
        writer.add_side_table(names.SIDE_EP_FILE, self.files)
        writer.add_side_table(names.SIDE_EP_DEMO, self.demos)
        hashes = np.frombuffer(b"".join(self.content), np.uint8).reshape(len(self.content), 32)
        writer.add_side_table(names.SIDE_EP_CONTENT, hashes)
