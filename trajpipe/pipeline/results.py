"""What a stage returns: path, status, ledger, checks; stored beside the output and read back when unchanged.

What is not here: the stages themselves.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from trajpipe.checks.registry import CheckReport, CheckResult, merged
from trajpipe.core import atomic, jsontext, names, provenance
from trajpipe.core.errors import StateError, TrajpipeError
from trajpipe.core.findings import Finding, Findings, Place, Severity
from trajpipe.core.ledger import Ledger, LedgerEntry, Rejection, entry
from trajpipe.core.names import Reason, Stage
from trajpipe.core.provenance import Recipe
from trajpipe.core.temporaries import targets_named

SOURCE_FINDINGS: Final = "source-findings"
NOTICED: Final = "What was repaired or noticed while reading"


class Status(StrEnum):
    """What became of a stage."""

    BUILT = "built"
    UNCHANGED = "unchanged"
    FAILED = "failed"
    BLOCKED = "blocked"


@dataclass(slots=True)
class StageResult:
    """The outcome of one stage on one recording (demos) or dataset (store, lerobot).

    Attributes:
        dataset: Dataset name.
        stage: `demos`, `store` or `lerobot`.
        key: Partition key of the recording; "" for a whole dataset.
        path: The output, present unless the status is FAILED or BLOCKED.
        status: BUILT, UNCHANGED, FAILED (with `error`) or BLOCKED (something upstream failed).
        ledger: Episodes read, written, rejected.
        checks: Results of the stage's checks.
        bytes: Size of the output.
        seconds: Wall time of this call.
        error: Why it failed, one paragraph; None otherwise.
        data_version: SHA-256 of the output; "" when there is none.
        facts: Counts for people: episodes, rows, columns.
    """

    dataset: str
    stage: Stage
    key: str
    path: Path
    status: Status
    ledger: Ledger = field(default_factory=Ledger)
    checks: CheckReport = field(default_factory=lambda: CheckReport("", ""))
    bytes: int = 0
    seconds: float = 0.0
    error: str | None = None
    data_version: str = ""
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """The output is there and no check found an ERROR."""
        return self.status in (Status.BUILT, Status.UNCHANGED) and self.checks.passed

    @property
    def usable(self) -> bool:
        """The output is there and no blocking check failed: downstream may read it."""
        return self.status in (Status.BUILT, Status.UNCHANGED) and not self.checks.blocked

    def to_json(self) -> dict[str, Any]:
        """Plain form for `--json` and for worker processes."""
        return {
            "dataset": self.dataset,
            "stage": self.stage.value,
            "key": self.key,
            "path": str(self.path),
            "status": self.status.value,
            "ledger": self.ledger.to_json(),
            "checks": self.checks.to_json(),
            "bytes": self.bytes,
            "seconds": round(self.seconds, 3),
            "error": self.error,
            "data_version": self.data_version,
            "facts": self.facts,
        }


@dataclass(frozen=True, slots=True)
class Made:
    """What a builder hands back: everything but the output itself.

    Attributes:
        ledger: Episodes read, written, rejected.
        facts: Counts for people.
        findings: Repairs and oddities met on the way; they become the result `source-findings`.
    """

    ledger: Ledger
    facts: dict[str, Any] = field(default_factory=dict)
    findings: Findings = field(default_factory=Findings)


@dataclass(frozen=True, slots=True)
class Job:
    """One output to make, and how it is recognised and proven.

    Attributes:
        dataset: Dataset name.
        stage: The stage.
        key: Partition key or "".
        target: The output path.
        recipe: What it is made of.
        build: temporary path → `Made`; writes the output there.
        check: path → report; run on the temporary output before it is published.
        extra: Kept in the stamp (`raw_touch`, …).
        space: Bytes that must be free before it is built; 0 = not known.
    """

    dataset: str
    stage: Stage
    key: str
    target: Path
    recipe: Recipe
    build: Callable[[Path], Made]
    check: Callable[[Path], CheckReport]
    extra: Mapping[str, Any] = field(default_factory=dict)
    space: int = 0


def perform(job: Job, *, force: bool = False, wait_s: float = 600.0) -> StageResult:
    """Make an output, or return the stored result when nothing changed.

    The output is built under a temporary name, checked there, and published only when no blocking
    check failed. A failure never touches an older output and is returned, not raised.

    Args:
        job: What to make.
        force: Build although nothing changed.
        wait_s: How long to wait for another live run on the same output, seconds.
    """
    began = time.perf_counter()
    try:
        with atomic.output_lock(job.target, wait_s=wait_s):
            atomic.remove_stale(job.target.parent)
            if not force and provenance.unchanged(job.target, job.recipe):
                result = _stored(job)
                if result is not None:
                    _forget_failure(job)
                    result.seconds = time.perf_counter() - began
                    return result
            result = _build(job)
    except (TrajpipeError, OSError, ValueError, RuntimeError, KeyError, TypeError) as error:
        result = failed(job, error)
    result.seconds = time.perf_counter() - began
    return result


def _build(job: Job) -> StageResult:
    atomic.require_space(job.target.parent, job.space, what=job.target.name)
    with atomic.named_temporary(job.target) as temporary:
        made = job.build(temporary)
        report = job.check(temporary)
        report.path = str(job.target)
        _add_source_findings(report, made.findings)
        if report.blocked:
            result = _result(job, Status.FAILED, _unpublished(made.ledger), report, made.facts)
            result.error = "a blocking check failed: " + "; ".join(
                str(f)
                for r in report.results
                if r.blocking
                for f in r.findings
                if f.severity is Severity.ERROR
            )
            _note_failure(job, result)
            return result
        coming = provenance.identity_of(temporary)
        provenance.claim(job.target, job.recipe, coming)
        atomic.publish(temporary, job.target)
    stamp = provenance.stamp(job.target, job.recipe, {**job.extra, "facts": made.facts}, coming)
    atomic.write_json(provenance.beside(job.target, names.SUFFIX_LEDGER), made.ledger.to_json())
    atomic.write_json(provenance.beside(job.target, names.SUFFIX_CHECKS), report.to_json())
    _forget_failure(job)
    result = _result(job, Status.BUILT, made.ledger, report, made.facts)
    result.data_version, result.bytes = stamp["output"]["sha256"], stamp["output"]["size"]
    return result


def _unpublished(ledger: Ledger) -> Ledger:
    """The ledger of an output that was not published: what would have been written is rejected."""
    detail = "a blocking check failed, nothing was published"
    entries = []
    for one in ledger.entries:
        more = [
            Rejection(one.recording, f"episode {i}", Reason.NOT_PUBLISHED.value, detail)
            for i in range(one.written)
        ]
        entries.append(entry(one.recording, one.stage, 0, [*one.rejected, *more]))
    return Ledger(entries, dict(ledger.failed))


def _add_source_findings(report: CheckReport, findings: Findings) -> None:
    if len(findings):
        report.results.insert(0, CheckResult(SOURCE_FINDINGS, NOTICED, False, findings))


def _stored(job: Job) -> StageResult | None:
    """The stored result beside an unchanged output; None when part of it is missing."""
    stamp = provenance.read_stamp(job.target)
    ledger = provenance.beside(job.target, names.SUFFIX_LEDGER)
    checks = provenance.beside(job.target, names.SUFFIX_CHECKS)
    if stamp is None or not ledger.is_file() or not checks.is_file():
        return None
    report = CheckReport.from_json(jsontext.loads(checks.read_bytes(), place=checks))
    report.path = str(job.target)
    result = _result(job, Status.UNCHANGED, Ledger.load(ledger), report, stamp.get("facts", {}))
    result.data_version, result.bytes = stamp["output"]["sha256"], stamp["output"]["size"]
    return result


def _result(
    job: Job, status: Status, ledger: Ledger, report: CheckReport, facts: dict[str, Any]
) -> StageResult:
    return StageResult(job.dataset, job.stage, job.key, job.target, status, ledger, report, facts=facts)


def failed(job: Job, error: Exception) -> StageResult:
    """The result of a stage that raised; the error becomes an ERROR finding with the error's code."""
    name = job.key or job.dataset
    report = CheckReport(job.stage, str(job.target))
    finding = finding_of(error, name)
    told = str(error) if isinstance(error, TrajpipeError) else f"{type(error).__name__}: {error}"
    text = targets_named(told)
    result = CheckResult(finding.code, "The stage can be built", True)
    result.findings.add(finding)
    report.results.append(result)
    out = _result(job, Status.FAILED, Ledger(failed={name: text}), report, {})
    out.error = text
    _note_failure(job, out)
    return out


def finding_of(error: Exception, name: str) -> Finding:
    """The ERROR finding that an exception amounts to.

    Args:
        error: The exception.
        name: The file or recording, when the error names no place.
    """
    if not isinstance(error, TrajpipeError):
        text = targets_named(f"{type(error).__name__}: {error}")
        return Finding("unexpected", Severity.ERROR, text, Place(file=name))
    place = error.place if isinstance(error.place, Place) else Place(file=name)
    if isinstance(error.place, Path):
        place = Place(file=error.place.name)
    message = f"{error.rule}. {error.hint}" if error.hint else error.rule
    got = None if error.got is None else str(error.got)
    expected = None if error.expected is None else str(error.expected)
    return Finding(error.code, Severity.ERROR, message, place, got, expected)


def failed_plainly(dataset: str, stage: Stage, key: str, target: Path, error: Exception) -> StageResult:
    """The result of a stage that could not even be planned."""
    return failed(Job(dataset, stage, key, target, Recipe(stage, {}, {}, ""), _never, _nothing), error)


def _never(temporary: Path) -> Made:
    raise StateError("this job has no builder", place=temporary)


def _nothing(temporary: Path) -> CheckReport:
    return CheckReport("", str(temporary))


def _note_failure(job: Job, result: StageResult) -> None:
    """Keep a failed attempt's evidence beside the output, apart from a good output's own.

    Where nothing can be written the failure is that already, and is told by the result.
    """
    beside = provenance.beside(job.target, names.SUFFIX_FAILURE)
    value = {"key": job.recipe.key(), "error": result.error, "checks": result.checks.to_json()}
    if job.target.parent.is_dir():
        with suppress(OSError):
            atomic.write_json(beside, value)


def _forget_failure(job: Job) -> None:
    """Remove what an earlier attempt left: the output is current now, built again or found so."""
    provenance.beside(job.target, names.SUFFIX_FAILURE).unlink(missing_ok=True)


def joined(dataset: str, stage: Stage, path: Path, results: Sequence[StageResult]) -> StageResult:
    """One result of a stage that makes several outputs (a store per scene family).

    Args:
        dataset: Dataset name.
        stage: The stage.
        path: The folder of the outputs.
        results: One or more.
    """
    statuses = {r.status for r in results}
    worst_first = (Status.FAILED, Status.BLOCKED, Status.BUILT, Status.UNCHANGED)
    status = next(s for s in worst_first if s in statuses)
    out = StageResult(dataset, stage, "", path, status, Ledger.joined(r.ledger for r in results))
    out.checks = merged([r.checks for r in results])
    out.checks.path = str(path)
    out.bytes, out.seconds = sum(r.bytes for r in results), sum(r.seconds for r in results)
    out.error = "; ".join(r.error for r in results if r.error) or None
    out.data_version = provenance.sha256_bytes("".join(r.data_version for r in results).encode())
    counts = ("episodes", "rows")
    out.facts = {c: sum(r.facts.get(c, 0) for r in results) for c in counts} | {"stores": len(results)}
    return out


def blocked(dataset: str, stage: Stage, target: Path, why: str) -> StageResult:
    """The result of a stage that was not tried since something upstream failed."""
    result = StageResult(dataset, stage, "", target, Status.BLOCKED, Ledger(failed={dataset: why}))
    result.checks = CheckReport(stage, str(target))
    result.error = why
    return result


def entry_of(recording: str, stage: Stage, written: int) -> LedgerEntry:
    """A ledger entry of a recording of which every episode was written."""
    return LedgerEntry(recording, stage.value, written, written)
