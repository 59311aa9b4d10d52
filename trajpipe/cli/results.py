"""Stage results as text: the table, rejected episodes, failures, findings, the closing line.

What is not here: running stages, see `trajpipe.pipeline`; check reports, see `trajpipe.cli.reports`.
"""

import os
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from trajpipe.cli.formatting import listed, seconds, size
from trajpipe.cli.reports import render_finding, render_findings
from trajpipe.cli.terminal import cell, printable, table
from trajpipe.core.findings import Finding, Severity
from trajpipe.core.ledger import Ledger, Rejection
from trajpipe.core.names import Stage
from trajpipe.pipeline.results import StageResult, Status

MAX_LISTED: Final = 40
_STATUS_STYLES: Final = {
    Status.BUILT: "green",
    Status.UNCHANGED: "dim",
    Status.FAILED: "bold red",
    Status.BLOCKED: "red",
}
_ORDER: Final = (Severity.ERROR, Severity.WARN, Severity.INFO)


def render_results(results: Sequence[StageResult], *, full: bool = False) -> Iterator[RenderableType]:
    """A table of stages; then rejected episodes with reasons, failures, and what was repaired or noticed.

    Args:
        results: Of one run.
        full: Every finding in full, those of unchanged outputs too; else one line or two per code.
    """
    rows = table(
        *("dataset", "stage", "output", "status", "episodes", "rows", "size", "seconds", "checks"),
        right=("episodes", "rows", "size", "seconds"),
    )
    datasets = list(dict.fromkeys(r.dataset for r in results))
    for name in datasets:
        shown = name
        for result in (r for r in results if r.dataset == name):
            rows.add_row(cell(shown, "bold"), *_row(result))
            shown = ""
    yield rows
    yield from render_rejections(results)
    yield from render_failures(results)
    yield from _findings(results, full=full)


def is_there(result: StageResult) -> bool:
    """The output exists."""
    return result.status in (Status.BUILT, Status.UNCHANGED)


def name_of(result: StageResult) -> str:
    """`lift · demos · a.hdf5`."""
    return printable(" · ".join(p for p in (result.dataset, result.stage.value, result.key) if p))


def _row(result: StageResult) -> tuple[RenderableType, ...]:
    there, ledger = is_there(result), result.ledger
    episodes = f"{ledger.written:,}" + (f" of {ledger.read:,}" if ledger.rejected else "")
    rows = result.facts.get("rows", result.facts.get("frames"))
    return (
        cell(result.stage.value),
        cell(result.path.name if there or not result.key else result.key),
        cell(result.status.value, _STATUS_STYLES[result.status]),
        cell(episodes if there else ""),
        cell(f"{rows:,}" if there and isinstance(rows, int) else ""),
        cell(size(result.bytes) if there else ""),
        cell(f"{result.seconds:.1f}"),
        checks_cell(result),
    )


def checks_cell(result: StageResult) -> RenderableType:
    """`24 passed`, `22 passed, 2 warned`, `1 of 24 failed`, `not run`."""
    results = result.checks.results
    failed = sum(not r.passed for r in results)
    if result.status is Status.BLOCKED or not results:
        return cell("not run", "dim")
    if failed:
        return cell(f"{failed} of {len(results)} failed", "bold red")
    warned = sum(r.findings.worst() is Severity.WARN for r in results)
    text = f"{len(results) - warned} passed" + (f", {warned} warned" if warned else "")
    return cell(text, "yellow" if warned else "green")


def render_rejections(results: Sequence[StageResult]) -> Iterator[RenderableType]:
    """The rejected episodes with their reasons; nothing when there are none."""
    rejected = [(r, x) for r in results for x in r.ledger.rejected]
    if not rejected:
        return
    yield Text("\nRejected episodes", style="bold cyan")
    for result, rejection in rejected[:MAX_LISTED]:
        yield Padding(_rejection(result.stage, rejection), (0, 0, 0, 2))
    if len(rejected) > MAX_LISTED:
        yield Text(f"  … {len(rejected) - MAX_LISTED:,} more: the ledgers beside the outputs have them all")


def _rejection(stage: Stage, rejection: Rejection) -> Text:
    text = Text(printable(f"{rejection.recording}:{rejection.episode}  "), overflow="fold")
    text.append(rejection.reason, style="yellow")
    detail = f"  {rejection.detail}" if rejection.detail else ""
    return text.append(printable(f"{detail} · {stage.value}"), style="dim")


def render_failures(results: Sequence[StageResult]) -> Iterator[RenderableType]:
    """Stages that failed or were blocked, each with its findings; nothing when there are none."""
    failed = [r for r in results if not is_there(r)]
    if not failed:
        return
    yield Text("\nFailed", style="bold red")
    for result in failed:
        yield Text(f"  {name_of(result)}: {result.status.value}", style="bold", overflow="fold")
        lines = [x for r in result.checks.results if not r.passed for x in render_findings(r)]
        yield Padding(Group(*lines) if lines else Text(printable(f"  {result.error}")), (0, 0, 0, 2))


def _findings(results: Sequence[StageResult], *, full: bool) -> Iterator[RenderableType]:
    """What was found in the outputs that are there: errors, then warnings, then repairs and facts.

    Facts of unchanged outputs were told when they were built; they are left out unless all is asked for.
    """
    title = Text("\nFindings", style="bold cyan")
    for severity in _ORDER:
        for result in results:
            told = full or severity is not Severity.INFO or result.status is Status.BUILT
            own = [f for c in result.checks.results for f in c.findings if f.severity is severity]
            if own and told and is_there(result):
                if title:
                    yield title
                    title = Text()
                yield Text(f"  {name_of(result)}", style="bold", overflow="fold")
                yield Padding(Group(*_told(result, severity, own, full)), (0, 0, 0, 4))


def _told(
    result: StageResult, severity: Severity, findings: Sequence[Finding], full: bool
) -> Iterator[RenderableType]:
    """Findings of one severity: each in full, or the first of a code with the places of the others."""
    if full:
        yield from (render_finding(f) for f in findings)
        return
    numbers: Counter[str] = Counter()
    for check in result.checks.results:
        for (code, found, _), number in check.findings.counts.items():
            numbers[code] += number if found is severity else 0
    for code in dict.fromkeys(f.code for f in findings):
        alike = [f for f in findings if f.code == code]
        yield render_finding(alike[0])
        if numbers[code] > 1:
            others = list(dict.fromkeys(_apart(f, alike[0]) for f in alike[1:]))
            more = f"… {numbers[code] - 1:,} more" + (f": {listed(others, 6)}" if others else "")
            yield Padding(Text(printable(more), style="dim", overflow="fold"), (0, 0, 0, 6))


def _apart(finding: Finding, first: Finding) -> str:
    """What tells a finding from the first of its code."""
    here, there = finding.place, first.place
    parts = [
        (here.column, there.column),
        (here.demo, there.demo),
        (here.file, there.file),
        (finding.got, first.got),
    ]
    return next((str(own) for own, other in parts if own is not None and own != other), str(here))


def closing_line(
    results: Sequence[StageResult], duration: float, outputs: Sequence[StageResult] | None = None
) -> str:
    """`read 12 · written 10 · rejected 2 (1 nan-action, 1 too-short) · 34 MB · 3.1 s`.

    Args:
        results: Of one run; the first stage among them is the one that is counted.
        duration: Wall time, seconds.
        outputs: Those whose sizes are summed; all when None.
    """
    first = next((s for s in Stage if any(r.stage is s for r in results)), None)
    ledger = Ledger.joined(r.ledger for r in results if r.stage is first)
    total = sum(r.bytes for r in (results if outputs is None else outputs))
    return f"{ledger.summary()} · {size(total)} · {seconds(duration)}"


def shown_path(path: Path) -> str:
    """A path as one would type it here: relative below the current folder, quoted for a shell."""
    relative = os.path.relpath(path)
    return shlex.quote(str(path) if relative.startswith("..") else relative)
