"""Check reports and findings as text.

What is not here: their JSON form, which they have themselves; stage results, see `trajpipe.cli.results`.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from trajpipe.checks.registry import CheckReport, CheckResult
from trajpipe.cli.formatting import count
from trajpipe.cli.terminal import cell, printable, table
from trajpipe.core.findings import Finding, Severity
from trajpipe.core.temporaries import targets_named

_STYLES: Final = {Severity.ERROR: "bold red", Severity.WARN: "yellow", Severity.INFO: "cyan"}


def render_report(report: CheckReport, *, full: bool = False) -> Iterator[RenderableType]:
    """A report: a headline, a row per rule, the findings, how many rules do not apply.

    Args:
        report: Of one subject.
        full: Each rule that does not apply, with why; else their number.
    """
    yield Text(f"{printable(report.path)} · {report.stage}", style="bold", overflow="fold")
    rows = table("", "rule", "looked at", "found")
    for result in report.results:
        rows.add_row(*_row(result))
    yield Padding(rows, (0, 0, 0, 2), expand=False)
    findings = [line for result in report.results for line in render_findings(result)]
    if findings:
        yield Text("\nFindings", style="bold cyan")
        yield from findings
    if report.skipped:
        title = f"{count(len(report.skipped), 'rule')} {_do_not_apply(len(report.skipped))} here"
        yield Text(f"\n{title}" + ("" if full else " (-v lists them)"), style="dim")
        for code, why in report.skipped.items() if full else ():
            yield Text(f"  {code}: {printable(why)}", style="dim")
    yield Text(f"\n{verdict(report)}\n")


def _row(result: CheckResult) -> "tuple[RenderableType, ...]":
    worst = result.findings.worst()
    mark = {None: ("pass", "green"), Severity.INFO: ("pass", "green"), Severity.WARN: ("warn", "yellow")}
    word, style = mark.get(worst, ("FAIL", "bold red"))
    looked = str(result.counted).removeprefix("checked ") if result.counted else ""
    return cell(word, style), cell(result.code), cell(looked), cell(tally_findings([result]))


def tally_findings(results: Iterable[CheckResult]) -> str:
    """`2 errors, 1 warning, 3 repairs or facts` over results; "" when nothing was found."""
    results = list(results)
    words = ((Severity.ERROR, "error", None), (Severity.WARN, "warning", None), (Severity.INFO, "note", None))
    numbers = [(sum(r.findings.count(s) for r in results), word, plural) for s, word, plural in words]
    return ", ".join(count(n, word, plural) for n, word, plural in numbers if n)


def _do_not_apply(number: int) -> str:
    return "does not apply" if number == 1 else "do not apply"


def verdict(report: CheckReport) -> str:
    """`26 rules: 22 passed, 1 warned, 1 failed, 2 do not apply`; the numbers add up to the first."""
    failed = sum(not r.passed for r in report.results)
    warned = sum(r.passed and r.findings.worst() is Severity.WARN for r in report.results)
    parts = [f"{len(report.results) - failed - warned} passed"]
    parts += [f"{warned} warned"] if warned else []
    parts += [f"{failed} failed"] if failed else []
    skipped = len(report.skipped)
    parts += [f"{skipped} {_do_not_apply(skipped)}"] if skipped else []
    return f"{count(len(report.results) + skipped, 'rule')}: {', '.join(parts)}"


def render_findings(result: CheckResult, severity: Severity | None = None) -> Iterator[RenderableType]:
    """Each kept finding with its place, got and expected; then how many more like it there were.

    Args:
        result: Of one rule.
        severity: Only findings of it; all when None.
    """
    for finding in result.findings:
        if severity in (None, finding.severity):
            yield Padding(render_finding(finding), (0, 0, 0, 2))
    for code, found, column, more in result.findings.repeats():
        if severity not in (None, found):
            continue
        where = f" in {column}" if column else ""
        yield Text(f"  … {more:,} more {found.value} {code}{printable(where)}", style="dim")


def render_finding(finding: Finding) -> RenderableType:
    """One finding: severity, code, place; below it, indented, message, got, expected."""
    head = Text(overflow="fold")
    head.append(f"{finding.severity.value.upper():<5} ", style=_STYLES[finding.severity])
    head.append(f"{finding.code}  ", style="bold")
    head.append(printable(str(finding.place)), style="cyan")
    body = Text(printable(targets_named(finding.message)), overflow="fold")
    for key, value in (("got", finding.got), ("expected", finding.expected)):
        if value is not None:
            body.append(f"\n{key:<9}", style="dim").append(printable(targets_named(value)))
    return Group(head, Padding(body, (0, 0, 0, 6)))
