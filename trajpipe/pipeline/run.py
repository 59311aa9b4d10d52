"""Running a project's stages: recordings in worker processes, then the store, then the export.

What is not here: Dagster's way of running the same stages, see `trajpipe.defs`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from trajpipe.checks.registry import CheckReport, CheckResult, merged
from trajpipe.core.errors import CatalogueError, TrajpipeError, UsageError
from trajpipe.core.ledger import Ledger
from trajpipe.core.names import Stage
from trajpipe.core.progress import Progress, silent
from trajpipe.pipeline import export_lerobot
from trajpipe.pipeline.build_store import build_store, check_store
from trajpipe.pipeline.catalogue import Recording
from trajpipe.pipeline.dataset_findings import findings_of_dataset
from trajpipe.pipeline.due import export_is_current, store_is_current
from trajpipe.pipeline.ingest import IngestPlan, ingest
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.raw_hub import fetch_raw
from trajpipe.pipeline.results import (
    NOTICED,
    SOURCE_FINDINGS,
    StageResult,
    Status,
    blocked,
    failed_plainly,
    joined,
)
from trajpipe.pipeline.workers import in_workers

STAGES: Final = (Stage.DEMOS, Stage.STORE, Stage.LEROBOT)
Watch = Callable[[StageResult], None]


@dataclass(frozen=True, slots=True)
class Planned:
    """One step of a dry run.

    Attributes:
        dataset: Dataset name.
        stage: The stage.
        key: Partition key or "".
        path: The output.
        state: `ready` (nothing to do), `missing`, `stale` or `failed` (would be tried again).
        why: Why, in words.
    """

    dataset: str
    stage: Stage
    key: str
    path: Path
    state: str
    why: str


@dataclass(slots=True)
class RunResult:
    """What a run did.

    Attributes:
        results: One per stage and recording, in order.
        seconds: Wall time.
    """

    results: list[StageResult] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Every stage is there and every check passed."""
        return bool(self.results) and all(r.ok for r in self.results)

    @property
    def ledger(self) -> Ledger:
        """The ingest ledger of all datasets: what was read, written and rejected."""
        return Ledger.joined(r.ledger for r in self.results if r.stage is Stage.DEMOS)

    def bytes(self) -> int:
        """Size of all outputs that are there."""
        return sum(r.bytes for r in self.results)

    def to_json(self) -> dict[str, Any]:
        """Plain form for `--json`."""
        return {
            "ok": self.ok,
            "seconds": round(self.seconds, 3),
            "bytes": self.bytes(),
            "summary": self.ledger.summary(),
            "results": [r.to_json() for r in self.results],
        }


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What to run and how.

    Attributes:
        recordings: Keys or file names to ingest; empty = all. The store is built from all that are ready.
        stages: Stages to run; empty = all.
        jobs: Worker processes for recordings.
        force: Build although nothing changed.
    """

    recordings: tuple[str, ...] = ()
    stages: tuple[Stage, ...] = ()
    jobs: int = 1
    force: bool = False

    def __post_init__(self) -> None:
        if self.jobs < 1:
            raise UsageError("jobs must be 1 or more", got=self.jobs)


def run(
    project: Project,
    datasets: Sequence[str] = (),
    options: RunOptions = RunOptions(),
    *,
    progress: Progress = silent,
    watch: Watch = lambda _: None,
) -> RunResult:
    """Bring datasets through their stages.

    A broken recording fails alone: its dataset's store is built from the others, and the result says so. A
    dataset whose raw entries on the Hub can't be had fails alone too; nothing of it is built.

    Args:
        project: The project.
        datasets: Dataset names; empty = all.
        options: Which recordings and stages, how many workers.
        progress: Called with recordings, demos and frames done.
        watch: Called with each finished stage.

    Raises:
        MissingNameError: no such dataset or recording.
        CatalogueError: two recordings would write one file.
    """
    began = time.perf_counter()
    chosen = list(datasets) or list(project.catalogue.datasets)
    wanted = options.stages or STAGES
    out = RunResult()

    def done(result: StageResult) -> None:
        out.results.append(result)
        watch(result)

    if Stage.DEMOS in wanted:
        for result in _fetch_all(project, chosen, progress):
            done(result)
            chosen.remove(result.dataset)
    todo = _chosen_recordings(project, chosen, options.recordings) if chosen else []
    project.require_distinct_outputs(chosen)
    if Stage.DEMOS in wanted:
        for number, result in enumerate(_ingest_all(project, todo, options, progress), 1):
            done(result)
            progress("recordings", number, len(todo))
    for name in chosen:
        store = None
        if Stage.STORE in wanted:
            store = build_dataset_store(project, name, force=options.force, progress=progress)
            done(store)
        if Stage.LEROBOT in wanted:
            done(export_dataset(project, name, store, force=options.force, progress=progress))
    out.seconds = time.perf_counter() - began
    return out


def _fetch_all(project: Project, names: Sequence[str], progress: Progress) -> list[StageResult]:
    """Fetch what lies on the Hub; a result for each dataset whose recordings cannot be had."""
    failures = []
    for name in names:
        dataset = project.dataset(name)
        try:
            fetch_raw(project, name, progress=progress)
        except (TrajpipeError, OSError) as error:
            folders = [entry.hub_folder(name) for entry in dataset.raw if entry.hub is not None]
            failure = blocked(name, Stage.DEMOS, project.root / folders[0], str(error))
            failures.append(replace(failure, status=Status.FAILED))
    return failures


def _chosen_recordings(project: Project, datasets: Sequence[str], keys: Sequence[str]) -> list[Recording]:
    if not keys:
        return [r for name in datasets for r in project.recordings(name)]
    found: list[Recording] = []
    for key in keys:
        errors: list[TrajpipeError] = []
        for name in datasets:
            try:
                found.append(project.recording(name, key))
            except TrajpipeError as error:
                errors.append(error)
        if len(errors) == len(datasets):
            raise errors[0]
    return found


def _ingest_all(
    project: Project, todo: Sequence[Recording], options: RunOptions, progress: Progress
) -> Iterator[StageResult]:
    plans: list[IngestPlan] = []
    for recording in todo:
        try:
            plans.append(project.ingest_plan(recording))
        except CatalogueError:
            raise
        except (TrajpipeError, OSError) as error:
            target = project.demos_path(recording)
            yield failed_plainly(recording.dataset, Stage.DEMOS, recording.key, target, error)
    if options.jobs == 1 or len(plans) < 2:
        for plan in plans:
            yield ingest(plan, force=options.force, progress=progress)
        return
    yield from _in_workers(plans, min(options.jobs, len(plans)), options.force)


def _in_workers(plans: Sequence[IngestPlan], jobs: int, force: bool) -> Iterator[StageResult]:
    """Results in the order of the plans; a worker that dies fails its own recording alone."""
    calls = [((plan,), {"force": force}) for plan in plans]
    with in_workers(jobs, ingest, calls) as futures:
        for plan, future in zip(plans, futures, strict=True):
            error = future.exception()
            if error is None:
                yield future.result()
            elif isinstance(error, Exception):
                yield failed_plainly(plan.dataset, Stage.DEMOS, plan.key, plan.target, error)
            else:
                raise error


def build_dataset_store(
    project: Project, name: str, *, force: bool = False, progress: Progress = silent
) -> StageResult:
    """Build a dataset's store or stores from the recordings that are ready; blocked when too few are."""
    minimum = project.dataset(name).min_recordings or 1
    plans, target = project.store_plans(name), project.store_path(name)
    ready, all_of = sum(len(plan.inputs) for plan in plans), len(project.recordings(name))
    if ready < minimum:
        why = f"{ready} of {all_of} recordings are ready, {minimum} needed"
        if not all_of:
            patterns = ", ".join(g for entry in project.dataset(name).raw for g in entry.glob)
            why = f"no recording matches {patterns} below {project.root}"
        details = "; ".join(f"{k}: {v}" for plan in plans for k, v in plan.failed.items())
        return blocked(name, Stage.STORE, target, f"{why}: {details}" if details else why)
    results = [build_store(plan, force=force, progress=progress) for plan in plans]
    grouped = project.dataset(name).store.group_by != "none"
    result = joined(name, Stage.STORE, target, results) if grouped else results[0]
    noticed = findings_of_dataset(project, name)
    if len(noticed):
        result.checks.results.insert(0, CheckResult(SOURCE_FINDINGS, NOTICED, False, noticed))
    return result


def check_dataset_store(project: Project, name: str) -> CheckReport:
    """Run the checks of a dataset's store, or stores, on what is on disk."""
    return merged([check_store(plan, plan.target) for plan in project.store_plans(name)])


def export_dataset(
    project: Project,
    name: str,
    store: StageResult | None = None,
    *,
    force: bool = False,
    progress: Progress = silent,
) -> StageResult:
    """Export a dataset; blocked when its store is absent or failed a blocking check.

    Args:
        project: The project.
        name: Dataset name.
        store: The store's result of this run; None = the stored checks tell.
        force: Export although nothing changed.
        progress: Called with frames done.
    """
    plan = project.export_plan(name)
    why = _store_blocks(project, name, store)
    if why is not None:
        return blocked(name, Stage.LEROBOT, plan.target, why)
    return export_lerobot.export(plan, force=force, progress=progress)


def _store_blocks(project: Project, name: str, store: StageResult | None) -> str | None:
    """Why the store stops the export; None when it does not."""
    if store is not None:
        return (
            None
            if store.usable
            else f"the store is {store.status}: {store.error or 'a blocking check failed'}"
        )
    if not project.store_path(name).exists():
        return f"there is no store yet: trajpipe run {name}"
    report = project.store_checks(name)
    return "a blocking check of the store failed" if report is None or report.blocked else None


def plan(project: Project, datasets: Sequence[str] = ()) -> list[Planned]:
    """What a run would do, without doing it."""
    steps: list[Planned] = []
    for name in list(datasets) or list(project.catalogue.datasets):
        states = []
        for recording in project.recordings(name):
            state, why = project.state_of(recording)
            states.append(state)
            steps.append(Planned(name, Stage.DEMOS, recording.key, project.demos_path(recording), state, why))
        for stage, path in (
            (Stage.STORE, project.store_path(name)),
            (Stage.LEROBOT, project.lerobot_path(name)),
        ):
            state, why = _output_state(project, name, stage, path, states)
            steps.append(Planned(name, stage, "", path, state, why))
    return steps


def _output_state(
    project: Project, name: str, stage: Stage, path: Path, states: Sequence[str]
) -> tuple[str, str]:
    if not path.exists():
        return "missing", "not built yet"
    if any(state in ("stale", "missing") for state in states):
        return "stale", "a recording is to be ingested first"
    made = store_is_current(project, name) if stage is Stage.STORE else export_is_current(project, name)
    if not made:
        return "stale", "its inputs or options changed"
    report = project.stored_checks(path)
    return (
        ("ready", "") if report is not None and not report.blocked else ("failed", "a blocking check failed")
    )
