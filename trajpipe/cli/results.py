"""Stage results as text: the table, rejected episodes, failures, findings, the closing line.

What is not here: running stages, see `trajpipe.pipeline`; check reports, see `trajpipe.cli.reports`.
"""

import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from trajpipe.cli.formatting import seconds, size
from trajpipe.cli.reports import render_finding, render_findings
from trajpipe.cli.terminal import cell, printable, table
from trajpipe.core.findings import Severity
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


def render_results(results: Sequence[StageResult]) -> Iterator[RenderableType]:
    """A table of stages; then rejected episodes with reasons, failures, and what was repaired or noticed."""
    rows = table(
        *("dataset", "stage", "output", "status", "episodes", "rows", "size", "seconds", "checks"),
        right=("episodes", "rows", "size", "seconds"),
    )
    last = None
    for result in results:
        shown = result.dataset if result.dataset != last else ""
        last = result.dataset
        rows.add_row(cell(shown, "bold"), *_row(result))
    yield rows
    yield from render_rejections(results)
    yield from render_failures(results)
    yield from _findings(results)


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
        cell(f"{rows:,}" if isinstance(rows, int) else ""),
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


def _findings(results: Sequence[StageResult]) -> Iterator[RenderableType]:
    """Errors, warnings, then repairs and facts of the outputs that are there, the worst first."""
    found = [(r, c, f) for r in results if is_there(r) for c in r.checks.results for f in c.findings]
    if not found:
        return
    yield Text("\nFindings", style="bold cyan")
    ordered = sorted(found, key=lambda item: _ORDER.index(item[2].severity))
    last: StageResult | None = None
    for result, _, finding in ordered[:MAX_LISTED]:
        if result is not last:
            yield Text(f"  {name_of(result)}", style="bold", overflow="fold")
            last = result
        yield Padding(render_finding(finding), (0, 0, 0, 4))
    total = sum(len(c.findings) for r in results if is_there(r) for c in r.checks.results)
    if total > min(len(ordered), MAX_LISTED):
        yield Text(
            f"  … {total - min(len(ordered), MAX_LISTED):,} more of these: --json has all that are kept"
        )


def closing_line(results: Sequence[StageResult], duration: float) -> str:
    """`read 12 · written 10 · rejected 2 (1 nan-action, 1 too-short) · 34 MB · 3.1 s`.

    Args:
        results: Of one run; the first stage among them is the one that is counted.
        duration: Wall time, seconds.
    """
    first = next((s for s in Stage if any(r.stage is s for r in results)), None)
    ledger = Ledger.joined(r.ledger for r in results if r.stage is first)
    return f"{ledger.summary()} · {size(sum(r.bytes for r in results))} · {seconds(duration)}"


def shown_path(path: Path) -> str:
    """A path as one would type it here: relative below the current folder, quoted for a shell."""
    relative = os.path.relpath(path)
    return shlex.quote(str(path) if relative.startswith("..") else relative)
