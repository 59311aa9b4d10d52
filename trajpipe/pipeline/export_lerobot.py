"""The stage L2 → L3: a LeRobot dataset from the L2 files of a dataset.

L3 reads L2 for term names and frames; as an asset it is downstream of the store.
What is not here: the LeRobot format, see `trajpipe.export`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from trajpipe.checks.registry import CheckReport, run_checks
from trajpipe.core.episode import Episode
from trajpipe.core.errors import InputError
from trajpipe.core.ledger import Ledger
from trajpipe.core.names import Split, Stage
from trajpipe.core.progress import Progress, silent
from trajpipe.core.provenance import Recipe
from trajpipe.demos.reader import DemosFile
from trajpipe.export import ExportOptions, export_lerobot
from trajpipe.pipeline.build_store import sha256_of_output
from trajpipe.pipeline.results import Job, Made, StageResult, entry_of, failed, perform

CODE: Final = "lerobot-1"


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """Everything that decides the bytes of one LeRobot dataset.

    Attributes:
        dataset: Dataset name.
        inputs: L2 files in order.
        target: The folder to make.
        options: Export options; `fps` None = the L2 files' own.
        fps: Declared rate, frames per second; None = the L2 files' own.
        failed: Recording → why it is missing, for the ledger.
    """

    dataset: str
    inputs: tuple[Path, ...]
    target: Path
    options: ExportOptions
    fps: Fraction | None = None
    failed: Mapping[str, str] = field(default_factory=dict)


def export(plan: ExportPlan, *, force: bool = False, progress: Progress = silent) -> StageResult:
    """Export the L2 files of a plan, or say that nothing changed. Failures are returned, not raised."""
    job = Job(
        plan.dataset, Stage.LEROBOT, "", plan.target, Recipe(Stage.LEROBOT, {}, {}, CODE), _never, _none
    )
    try:
        hashes = {path.name: sha256_of_output(path) for path in plan.inputs}
        options = replace(plan.options, fps=rate_of(plan))
    except (InputError, OSError) as error:
        return failed(job, error)
    recipe = Recipe(Stage.LEROBOT, hashes, {"dataset": plan.dataset, **options.to_json()}, CODE)
    context = {"l2": list(plan.inputs), "gr00t": options.gr00t}
    job = replace(
        job,
        recipe=recipe,
        build=lambda temporary: _write(plan, options, temporary, progress),
        check=lambda temporary: run_checks(Stage.LEROBOT, temporary, context=context),
    )
    return perform(job, force=force)


def _never(temporary: Path) -> Made:
    raise InputError("this job has no builder", place=temporary)


def _none(temporary: Path) -> CheckReport:
    return CheckReport(Stage.LEROBOT, str(temporary))


def rate_of(plan: ExportPlan) -> Fraction:
    """The rate of the export: declared, else the one that all L2 files agree on.

    Raises:
        InputError: no file has one, or they differ; says the line to add.
    """
    if plan.fps is not None:
        return plan.fps
    rates: dict[str, Fraction | None] = {}
    for path in plan.inputs:
        with DemosFile(path) as demos:
            rates[path.name] = demos.fps
    found = set(rates.values())
    if len(found) == 1 and None not in found:
        return next(r for r in found if r is not None)
    listed = ", ".join(f"{name}: {rate or 'none'}" for name, rate in rates.items())
    raise InputError(
        "the export needs one frame rate",
        place=plan.dataset,
        got=listed,
        hint="Add `fps: 20` (your rate) under `conventions:` of the raw entry, or pass --fps.",
        code="fps-unknown",
    )


def _write(plan: ExportPlan, options: ExportOptions, temporary: Path, progress: Progress) -> Made:
    counts: dict[str, int] = {path.name: 0 for path in plan.inputs}
    result = export_lerobot(_episodes(plan.inputs, counts), temporary, options, progress=progress)
    entries = [entry_of(name, Stage.LEROBOT, count) for name, count in counts.items()]
    facts: dict[str, Any] = {
        "episodes": result.episodes,
        "rows": result.frames,
        "tasks": result.tasks,
        "cameras": result.cameras,
    }
    return Made(Ledger(entries, dict(plan.failed)), facts)


def _episodes(inputs: tuple[Path, ...], counts: dict[str, int]) -> Iterator[Episode]:
    """Train episodes of all files first, then the rest: LeRobot's splits are ranges of episodes."""
    for wanted in (True, False):
        for path in inputs:
            with DemosFile(path) as demos:
                for episode in demos.episodes():
                    if (episode.split != Split.VALID) is wanted:
                        counts[path.name] += 1
                        yield episode
