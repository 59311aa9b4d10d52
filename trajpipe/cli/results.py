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
from trajpipe.core.errors import on_one_line
from trajpipe.core.findings import Finding, Severity
from trajpipe.core.ledger import Ledger, Rejection
from trajpipe.core.names import Stage
from trajpipe.core.temporaries import targets_named
from trajpipe.pipeline.results import StageResult, Status

MAX_LISTED: Final = 40
MAX_OTHERS: Final = 6
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


def stage_of(result: StageResult) -> str:
    """`lift · demos`, of all its recordings."""
    return printable(f"{result.dataset} · {result.stage.value}" if result.dataset else result.stage.value)


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
    return checks_text(len(results), failed, sum(r.findings.worst() is Severity.WARN for r in results))


def checks_text(total: int, failed: int, warned: int) -> RenderableType:
    """`24 passed`, `22 passed, 2 warned`, `1 of 24 failed`."""
    if failed:
        return cell(f"{failed} of {total} failed", "bold red")
    text = f"{total - warned} passed" + (f", {warned} warned" if warned else "")
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
    text = Text(printable(on_one_line(f"{rejection.recording}:{rejection.episode}  ")), overflow="fold")
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
        yield Padding(
            Group(*lines) if lines else Text(printable(f"  {targets_named(str(result.error))}")), (0, 0, 0, 2)
        )


def _findings(results: Sequence[StageResult], *, full: bool) -> Iterator[RenderableType]:
    """What was found in the outputs that are there, the worst first: one heading a stage, in full one each.

    Facts of unchanged outputs were told when they were built; they are left out unless all is asked for.
    """
    groups = dict[tuple[str, str, str], list[StageResult]]()
    for result in filter(is_there, results):
        if any(_own([result], severity, full) for severity in _ORDER):
            key = result.key if full else ""
            groups.setdefault((result.dataset, result.stage.value, key), []).append(result)
    worst_first = sorted(
        groups.values(), key=lambda group: next(i for i, s in enumerate(_ORDER) if _own(group, s, full))
    )
    if worst_first:
        yield Text("\nFindings", style="bold cyan")
    for number, group in enumerate(worst_first):
        heading = name_of(group[0]) if len(group) == 1 else stage_of(group[0])
        yield Text(("\n" if number else "") + f"  {heading}", style="bold", overflow="fold")
        yield Padding(Group(*_told(group, full)), (0, 0, 0, 4))


def _own(group: Sequence[StageResult], severity: Severity, full: bool) -> list[Finding]:
    """Kept findings of one severity that are to be told."""
    told = [r for r in group if full or severity is not Severity.INFO or r.status is Status.BUILT]
    return [f for r in told for c in r.checks.results for f in c.findings if f.severity is severity]


def _told(group: Sequence[StageResult], full: bool) -> Iterator[RenderableType]:
    """Each finding in full; or, of each code, the first: errors and warnings by recording, facts over all."""
    for severity in _ORDER:
        if full:
            for result in (c for r in group for c in r.checks.results):
                yield from render_findings(result, severity)
            continue
        together = [group] if severity is Severity.INFO else [[result] for result in group]
        for some in together:
            yield from _first_of_each_code(some, severity)


def _first_of_each_code(group: Sequence[StageResult], severity: Severity) -> Iterator[RenderableType]:
    """The first finding of a code, in how many recordings it is, and what tells the others from it."""
    findings = _own(group, severity, full=False)
    for code in dict.fromkeys(f.code for f in findings):
        alike = [f for f in findings if f.code == code]
        having = [n for r in group if _own([r], severity, full=False) and (n := _number(r, code, severity))]
        more, first = sum(having) - 1, alike[0]
        unlike = [f for f in alike if (f.place, f.got) != (first.place, first.got)]
        others = list(dict.fromkeys(_apart(f, first) for f in unlike))
        yield render_finding(first)
        if more:
            shown = ", ".join(others[:MAX_OTHERS]) + (" …" if more > len(others[:MAX_OTHERS]) else "")
            text = f"in {len(having)} recordings · " if len(having) > 1 else ""
            text += f"… {more:,} more" + (f": {shown}" if others else "")
            yield Padding(Text(printable(text), style="dim", overflow="fold"), (0, 0, 0, 6))


def _number(result: StageResult, code: str, severity: Severity) -> int:
    """How many findings of a code and severity a stage's checks made, those that were not kept too."""
    counts = [c.findings.counts for c in result.checks.results]
    return sum(n for one in counts for (own, s, _), n in one.items() if own == code and s is severity)


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
