"""The stage L2 → L3: a LeRobot dataset from the L2 files of a dataset.

L3 reads L2 for term names and frames; as an asset it is downstream of the store.
What is not here: the LeRobot format, see `trajpipe.export`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trajpipe.checks.certificate_chain import CONTEXT, Chain
from trajpipe.checks.registry import CheckReport, run_checks
from trajpipe.core import atomic, jsontext, names, provenance
from trajpipe.core.episode import Episode
from trajpipe.core.errors import InputError
from trajpipe.core.findings import Findings
from trajpipe.core.ledger import Ledger, LedgerEntry, Rejection, entry
from trajpipe.core.names import Split, Stage
from trajpipe.core.progress import Progress, silent
from trajpipe.core.provenance import Recipe
from trajpipe.demos.reader import DemosFile
from trajpipe.export import ExportOptions, ExportResult
from trajpipe.export.options import EXPORT_CODE
from trajpipe.export.profiles import profile
from trajpipe.pipeline import certify
from trajpipe.pipeline.build_store import sha256_of_output
from trajpipe.pipeline.certify import ChainPlan
from trajpipe.pipeline.export_motion import with_motion_names
from trajpipe.pipeline.export_names import with_recorded_names
from trajpipe.pipeline.results import Job, Made, StageResult, Status, failed_plainly, perform
from trajpipe.pipeline.row_tasks import all_tasks, with_shared_tasks

if TYPE_CHECKING:  # the catalogue's models take pydantic, which converting without a catalogue never needs
    from trajpipe.pipeline.catalogue_export import ExportOptions as ExportEntry

DECLARED: Final = "declared"


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """Everything that decides the bytes of one LeRobot dataset.

    Attributes:
        dataset: Dataset name.
        inputs: L2 files in order.
        target: The folder to make.
        options: Keyword arguments of `trajpipe.export.ExportOptions` but `fps`.
        fps: Declared rate, frames per second; None = the L2 files' own.
        failed: Recording → why it is missing, for the ledger.
        chain: Gives the stages that a certificate compares, when it is wanted; None makes no certificate.
    """

    dataset: str
    inputs: tuple[Path, ...]
    target: Path
    options: Mapping[str, Any] = field(default_factory=dict)
    fps: Fraction | None = None
    failed: Mapping[str, str] = field(default_factory=dict)
    chain: Callable[[], ChainPlan] | None = None


def export(plan: ExportPlan, *, force: bool = False, progress: Progress = silent) -> StageResult:
    """Export the L2 files of a plan, or say that nothing changed. Failures are returned, not raised."""
    try:
        _require_inputs(plan)
        options = export_options(plan)
        recipe = recipe_of_export(plan, options)
    except (InputError, OSError) as error:
        return failed_plainly(plan.dataset, Stage.LEROBOT, "", plan.target, error)
    proof = ExportProof(plan, options)
    job = Job(
        plan.dataset,
        Stage.LEROBOT,
        "",
        plan.target,
        recipe,
        build=lambda temporary: _write(plan, options, temporary, progress),
        check=proof.check,
        extra={DECLARED: declared(plan.options, plan.fps)},
    )
    result = perform(job, force=force)
    return proof.certified(result) if plan.chain is not None else result


def _require_inputs(plan: ExportPlan) -> None:
    """Refuse a plan without L2 files: recordings that failed, or whose L2 file is not made yet."""
    if not plan.inputs:
        why = "; ".join(f"{k}: {v}" for k, v in plan.failed.items()) or "no L2 file is there yet"
        raise InputError(
            "an export needs one L2 file at least", place=plan.dataset, got=why, code="nothing-to-build"
        )


def check_export(plan: ExportPlan, path: Path) -> CheckReport:
    """Run the checks of a plan's LeRobot dataset on a folder."""
    return ExportProof(plan, export_options(plan)).check(path)


@dataclass(slots=True)
class ExportProof:
    """The checks of one export, and the certificate that they amount to.

    Attributes:
        plan: The export's plan.
        options: Its options.
        chain: What the last check compared; None without a certificate.
    """

    plan: ExportPlan
    options: ExportOptions
    chain: Chain | None = None

    def check(self, path: Path) -> CheckReport:
        """Run every rule of the stage; those of the certificate where the plan has a chain."""
        context: dict[str, Any] = {"l2": list(self.plan.inputs), **self.options.check_context()}
        if self.plan.chain is not None:
            self.chain = certify.chain_of(self._chain_plan(self.plan.chain()))
            context[CONTEXT] = self.chain
        return run_checks(Stage.LEROBOT, path, context=context)

    def certified(self, result: StageResult) -> StageResult:
        """Write the certificate of what was built; prove what is unchanged anew when a stage of it is not."""
        if self.plan.chain is None or result.status not in (Status.BUILT, Status.UNCHANGED):
            return result
        plan, target = self._chain_plan(self.plan.chain()), self.plan.target
        stages = certify.hashes(plan, target, result.data_version)
        old = certify.stored(target)
        if result.status is Status.UNCHANGED and old is not None and old.get("stages") == stages:
            return result
        if self.chain is None:
            result.checks = self.check(target)
            result.checks.path = str(target)
            atomic.write_json(provenance.beside(target, names.SUFFIX_CHECKS), result.checks.to_json())
        assert self.chain is not None
        certify.write(target, certify.document(plan, self.chain, result.checks, stages), self.chain)
        return result

    def _chain_plan(self, chain: ChainPlan) -> ChainPlan:
        return replace(chain, export=self.options.check_context(), task=self.options.task)


def recipe_of_export(plan: ExportPlan, options: ExportOptions | None = None) -> Recipe:
    """The recipe of a plan: the L2 files' hashes and the options.

    Args:
        plan: The plan.
        options: As `export_options` gives them, where that was asked already.

    Raises:
        InputError: the rate is unknown, see `rate_of`.
    """
    options = export_options(plan) if options is None else options
    hashes = {path.name: sha256_of_output(path) for path in plan.inputs}
    return Recipe(Stage.LEROBOT, hashes, {"dataset": plan.dataset, **options.to_json()}, EXPORT_CODE)


def declared(options: Mapping[str, Any], fps: Fraction | None) -> str:
    """A digest of what is said about an export, before names and a rate are read from its L2 files.

    The stamp keeps it: together with the L2 files' hashes it tells a changed export without opening them.

    Args:
        options: As of `ExportPlan`.
        fps: As of `ExportPlan`.

    Raises:
        UsageError: the options contradict each other.
    """
    value = ExportOptions(fps=fps or Fraction(1), **options).to_json()
    said = jsontext.dumps(value | {"fps": None if fps is None else str(fps)})
    return provenance.sha256_bytes(said.encode())


def export_options(plan: ExportPlan) -> ExportOptions:
    """How a plan's LeRobot dataset is written.

    Raises:
        InputError: the rate is unknown, see `rate_of`.
    """
    options = with_recorded_names(with_motion_names(plan.options, plan.inputs), plan.inputs)
    return ExportOptions(fps=rate_of(plan), **options)


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
        hint="Add `fps: 20` (your rate) under `conventions:` of the raw entry; for `convert`, pass --fps.",
        code="fps-unknown",
    )


def options_of(export: ExportEntry, task: str | None) -> dict[str, Any]:
    """The keyword arguments that a catalogue's `export:` and `task:` stand for; its profile's come below."""
    declared: dict[str, Any] = {
        "version": export.version,
        "gr00t": export.gr00t,
        "robot_type": export.robot_type,
        "state": export.state,
        "cameras": export.cameras,
        "extras": export.extras or None,
        "names": export.names or None,
        "action_parts": export.action_parts or None,
        "rotation_types": export.rotation_types or None,
        "successful_only": export.successful_only,
        "splits": export.splits,
        "tasks": export.tasks,
        "codec": export.video.codec,
        "crf": export.video.crf,
        "preset": export.video.preset,
        "task": task,
    }
    settings = profile(export.profile).settings if export.profile else {}
    return {**settings, **{name: value for name, value in declared.items() if value is not None}}


def _write(plan: ExportPlan, options: ExportOptions, temporary: Path, progress: Progress) -> Made:
    from trajpipe.export import export_lerobot  # PyArrow and PyAV, which no other stage needs

    read: list[Path] = []
    if not options.tasks:
        options = replace(options, tasks=all_tasks(plan.inputs))
    episodes = (with_shared_tasks(e, options.tasks) for e in _episodes(plan.inputs, read))
    result = export_lerobot(episodes, temporary, options, progress=progress)
    facts: dict[str, Any] = {
        "episodes": result.episodes,
        "rows": result.frames,
        "tasks": len(result.tasks),
        "features": len(result.features),
        "tags": dict(result.tags),
    }
    findings = Findings()
    findings.extend(result.notes)
    return Made(Ledger(_entries(plan.inputs, read, result), dict(plan.failed)), facts, findings)


def _entries(inputs: Sequence[Path], read: Sequence[Path], result: ExportResult) -> list[LedgerEntry]:
    """An entry for each L2 file; `read` has the file of every episode in the order of reading.

    The exporter knows an episode by the recording it came from, which two L2 files may share, so a rejection
    goes to its file by where it came; the recording's own name stays in the detail.
    """
    rejected: dict[Path, list[Rejection]] = {path: [] for path in inputs}
    for position, one in zip(result.rejected_at, result.rejected, strict=True):
        path = read[position]
        detail = one.detail or f"recorded in {one.recording}"
        rejected[path].append(replace(one, recording=path.name, detail=detail))
    counts = Counter(read)
    return [
        entry(path.name, Stage.LEROBOT, counts[path] - len(some), some) for path, some in rejected.items()
    ]


def _episodes(inputs: tuple[Path, ...], read: list[Path]) -> Iterator[Episode]:
    """Train episodes of all files first, then the rest: LeRobot's splits are ranges of episodes.

    Each file is appended to `read` once per episode, before the episode is given.
    """
    for wanted in (True, False):
        for path in inputs:
            with DemosFile(path) as demos:
                for episode in demos.episodes():
                    if (episode.split != Split.VALID) is wanted:
                        read.append(path)
                        yield episode
