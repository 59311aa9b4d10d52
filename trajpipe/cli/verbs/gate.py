"""`trajpipe gate`: one exit code over every planned check, for CI.

What is not here: deciding (`trajpipe.pipeline.gate`), a Dagster run's checks (`trajpipe.defs.gate_run`).
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from trajpipe.cli.terminal import EXIT_COULD_NOT, Terminal, printable, write_text
from trajpipe.cli.verbs.options import (
    CatalogueOption,
    FailOn,
    RootOption,
    chosen_datasets,
    open_project,
    words,
)
from trajpipe.core.errors import UsageError
from trajpipe.core.findings import Severity
from trajpipe.core.names import Stage

if TYPE_CHECKING:
    from rich.console import RenderableType

    from trajpipe.pipeline.gate import GateOptions
    from trajpipe.pipeline.gate_outcomes import GateReport, Outcome
    from trajpipe.pipeline.project import Project

EXAMPLES: Final = {
    "gate": "  trajpipe gate                                   run what changed, then look at every check\n"
    "  trajpipe gate lift --check 'demos-q*'       one dataset, some rules\n"
    "  trajpipe gate --fail-on warn --report gate.xml  warnings fail too; JUnit XML for the CI server\n"
    "  trajpipe gate --no-run                          only what is stored; what is out of date never ran\n"
    "  trajpipe gate --run-id 9f1c… --dagster-home .dagster    a run (or backfill) of a Dagster instance"
}

NAMED: Final = 3  # so many checks of one output are named in a line

PartitionOption = Annotated[
    list[str] | None,
    typer.Option("--partition", "-p", help="Recording's key or pattern: its L2 file alone; repeatable."),
]
CheckOption = Annotated[
    list[str] | None, typer.Option("--check", help="Code or pattern of checks that count; repeatable.")
]
BaselineOption = Annotated[
    Path | None,
    typer.Option(help="Waivers with owner, reason, expiry; gate.yaml beside the catalogue by default."),
]
ReportOption = Annotated[
    list[Path] | None,
    typer.Option(help="Also write this file: .json, .xml (JUnit) or .sarif; repeatable."),
]
RunOption = Annotated[
    str | None, typer.Option(help="Wait for this Dagster run or backfill and read its check events.")
]


class Format(StrEnum):
    """Form of the report on stdout."""

    HUMAN = "human"
    JSON = "json"
    JUNIT = "junit"
    SARIF = "sarif"


def gate(  # noqa: PLR0913  (one parameter per option of the command)
    ctx: typer.Context,
    datasets: Annotated[
        list[str] | None, typer.Argument(metavar="[DATASET…]", help="Names or patterns; all when none.")
    ] = None,
    *,
    partition: PartitionOption = None,
    stage: Annotated[
        list[Stage] | None, typer.Option("--stage", "-s", help="Only this stage; repeatable.")
    ] = None,
    check: CheckOption = None,
    ignore: Annotated[list[str] | None, typer.Option("--ignore", help="Codes or patterns left out.")] = None,
    fail_on: Annotated[FailOn, typer.Option(help="`warn`: warnings make the code 1 too.")] = FailOn.ERROR,
    baseline: BaselineOption = None,
    output_format: Annotated[Format, typer.Option("--format", help="Form of stdout.")] = Format.HUMAN,
    report: ReportOption = None,
    no_run: Annotated[bool, typer.Option("--no-run", help="Stored results alone count.")] = False,
    run_id: RunOption = None,
    dagster_home: Annotated[
        Path | None, typer.Option(help="Instance of --run-id; $DAGSTER_HOME by default.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=0, help="Longest wait for --run-id, seconds.")] = 3600.0,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Recordings at a time.")] = 1,
    catalogue: CatalogueOption = None,
    root: RootOption = None,
) -> int:
    """Hold every planned check to account, and say so with one exit code.

    0: all passed. 1: a check found an ERROR (a WARN too with --fail-on warn). 2: a run failed or could not
    start. 3: a planned check never ran. What is unchanged is not built again; its stored results count.
    A waiver of the baseline file counts until its date.
    """
    from trajpipe.pipeline.gate import GateOptions

    terminal: Terminal = ctx.obj
    _require_suffixes(report or ())
    project = open_project(catalogue, root)
    options = GateOptions(
        datasets=tuple(chosen_datasets(project, datasets)),
        partitions=words(partition) or (),
        stages=_stages(stage),
        checks=words(check) or (),
        ignore=words(ignore) or (),
        fail_on=Severity(fail_on.value),
        jobs=jobs,
        build=not no_run,
    )
    if run_id is not None:
        found = _of_run(run_id, dagster_home, options, timeout)
    else:
        found = _of_project(project, options, terminal)
    whole = not (datasets or partition or stage or check or ignore or run_id)
    _apply_baseline(found, project, baseline, whole=whole)
    _write_reports(found, report or ())
    _show(found, Format.JSON if terminal.json else output_format, terminal)
    return found.code


def _stages(given: Sequence[Stage] | None) -> tuple[Stage, ...]:
    if given and Stage.RAW in given:
        raise UsageError("a gate looks at outputs", expected="--stage demos, store or lerobot")
    return tuple(given or ())


def _of_project(project: "Project", options: "GateOptions", terminal: Terminal) -> "GateReport":
    from trajpipe.pipeline.gate import gate as run_gate

    with terminal.progress() as progress:
        return run_gate(project, options, progress=progress)


def _of_run(run_id: str, home: Path | None, options: "GateOptions", timeout: float) -> "GateReport":
    from trajpipe.defs.gate_run import gate_of_run  # Dagster takes seconds to load: only when asked for

    return gate_of_run(run_id, home, options, timeout_s=timeout)


def _apply_baseline(found: "GateReport", project: "Project", given: Path | None, *, whole: bool) -> None:
    """Apply the baseline that was named, or the one beside the catalogue when there is one."""
    from trajpipe.pipeline.gate_baseline import BASELINE, apply_baseline, load_baseline

    path = given or project.catalogue.path.parent / BASELINE
    if given is not None or path.is_file():
        apply_baseline(found, load_baseline(path), datetime.now(UTC).date(), whole=whole)


def _require_suffixes(reports: Sequence[Path]) -> None:
    from trajpipe.pipeline.gate_formats import SUFFIXES

    for path in reports:
        if path.suffix not in SUFFIXES:
            raise UsageError("a report's suffix says its form", got=path, expected=" or ".join(SUFFIXES))


def _write_reports(found: "GateReport", reports: Sequence[Path]) -> None:
    from trajpipe.core import atomic
    from trajpipe.pipeline.gate_formats import FORMATS, SUFFIXES

    for path in reports:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_text(path, FORMATS[SUFFIXES[path.suffix]](found))


def _show(found: "GateReport", form: Format, terminal: Terminal) -> None:
    from trajpipe.pipeline.gate_formats import FORMATS

    if form is Format.HUMAN:
        terminal.print(*_rendered(found))
    else:
        write_text(FORMATS[form.value](found))
    if found.code == EXIT_COULD_NOT:
        terminal.note("a run failed for another reason than its data: the other figures are incomplete")


def _rendered(found: "GateReport") -> "Iterator[RenderableType]":
    """Outputs in a row each, what needs attention below, the worst last, and the verdict."""
    from trajpipe.cli.terminal import cell, table

    rows = table("", "output", "checks", "found", right=("checks",))
    by_unit: dict[str, list[Outcome]] = {}
    for outcome in found.outcomes:
        by_unit.setdefault(outcome.unit, []).append(outcome)
    for unit, outcomes in by_unit.items():
        word, style, said = _summary(found, outcomes)
        rows.add_row(cell(word, style), cell(unit), cell(len(outcomes)), cell(said))
    yield rows
    yield from _unrun(found)
    for note in found.notes:
        yield f"\nbaseline: {printable(note)}"
    yield from _attention(found)
    for failure in found.failures:
        yield f"\nRUN FAILED  {printable(failure.unit)}: {printable(failure.message)}"
    yield f"\n{found.verdict()}"


def _summary(found: "GateReport", outcomes: "Sequence[Outcome]") -> tuple[str, str, str]:
    """(word, style, counts) of an output."""
    from trajpipe.pipeline.gate_outcomes import GateReport, State

    counts = GateReport(outcomes=list(outcomes)).counts()
    said = ", ".join(f"{n} {state.replace('-', ' ')}" for state, n in counts.items())
    if any(found.fails(o) for o in outcomes):
        return "FAIL", "bold red", said
    if any(o.counts_as(State.NEVER_RAN) for o in outcomes):
        return "????", "bold red", said
    warned = any(o.counts_as(State.WARNED) for o in outcomes)
    return ("warn", "yellow", said) if warned else ("pass", "green", said)


def _unrun(found: "GateReport") -> "Iterator[RenderableType]":
    """Checks that never ran: a line for each output and reason, however many they are."""
    from rich.text import Text

    from trajpipe.pipeline.gate_outcomes import State

    codes: dict[tuple[str, str, str | None], list[str]] = {}
    for one in found.outcomes:
        if one.state is State.NEVER_RAN:
            codes.setdefault((one.unit, one.why, one.waiver), []).append(one.code)
    start = "\n"
    for (unit, why, waiver), names in codes.items():
        what = f" · {', '.join(names)}" if len(names) <= NAMED else f": {len(names)} checks"
        waived = f" (waived by {waiver})" if waiver is not None else ""
        line = printable(f"NEVER RAN  {unit}{what}: {why}{waived}")
        yield Text(start + line, style="dim" if waiver is not None else "bold", overflow="fold")
        start = ""


def _attention(found: "GateReport") -> "Iterator[RenderableType]":
    """Warned, then failed checks with what they found, waived ones included."""
    from rich.padding import Padding
    from rich.text import Text

    from trajpipe.cli.reports import render_finding
    from trajpipe.pipeline.gate_outcomes import State

    words = {State.WARNED: "WARNED", State.FAILED: "FAILED"}
    for state, word in words.items():
        for outcome in (o for o in found.outcomes if o.state is state):
            head = f"\n{word}  {outcome.unit} · {outcome.code}" + (f": {outcome.why}" if outcome.why else "")
            yield Text(printable(head), style="bold" if outcome.waiver is None else "dim", overflow="fold")
            if outcome.waiver is not None:
                yield Text(f"  waived by {printable(outcome.waiver)}", style="dim", overflow="fold")
            for finding in outcome.findings:
                if finding.severity is not Severity.INFO:
                    yield Padding(render_finding(finding), (0, 0, 0, 2))
            more = sum(n for _, s, _, n in outcome.findings.repeats() if s is not Severity.INFO)
            if more:
                yield Text(f"  … {more:,} more like these", style="dim")
