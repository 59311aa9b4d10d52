"""`trajpipe check PATH…`: every rule of its stage on a file or folder; findings and an exit code.

What is not here: the rules, see `trajpipe.checks`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from trajpipe.cli.terminal import EXIT_FINDINGS, EXIT_FINE, Terminal
from trajpipe.cli.verbs.options import FailOn, QuaternionOrderOption, QuaternionsOption, quaternion_site
from trajpipe.core import names
from trajpipe.core.conventions import Conventions
from trajpipe.core.errors import InputError, LockedError, TrajpipeError, UsageError

if TYPE_CHECKING:
    from trajpipe.checks.registry import CheckReport

EXAMPLES: Final = {
    "check": "  trajpipe check data/demos/teleop_lift.hdf5\n"
    "  trajpipe check data/stores data/lerobot        everything below, one by one\n"
    "  trajpipe check out.h5 --select 'episode-*'     some rules; `trajpipe checks` lists them\n"
    "  trajpipe check out.h5 --fail-on warn           exit code 1 on warnings too"
}
UNREADABLE: Final = "readable"


@dataclass(frozen=True, slots=True)
class _Subject:
    """One thing to check.

    Attributes:
        path: File or folder.
        stage: Whose rules.
        broken: Why it cannot even be opened; None when it can.
    """

    path: Path
    stage: names.Stage
    broken: TrajpipeError | None = None


@dataclass(frozen=True, slots=True)
class _How:
    """What the options say.

    Attributes:
        select: Codes and patterns to run; empty = all.
        ignore: Codes and patterns to leave out.
        kind: Kind of raw recordings; None = detected.
        conventions: Declared conventions of raw recordings.
    """

    select: list[str]
    ignore: list[str]
    kind: str | None
    conventions: Conventions


def check(  # noqa: PLR0913  (one parameter per option of the command)
    ctx: typer.Context,
    paths: Annotated[list[Path], typer.Argument(metavar="PATH…", help="Files or folders of any stage.")],
    *,
    select: Annotated[
        list[str] | None, typer.Option(metavar="CODE,…", help="Only these rules; patterns with * too.")
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option(metavar="CODE,…", help="All rules but these; patterns with * too.")
    ] = None,
    fail_on: Annotated[
        FailOn, typer.Option(help="Severity from which on the exit code is 1.")
    ] = FailOn.ERROR,
    stage: Annotated[names.Stage | None, typer.Option(help="Use this stage's rules, whatever it is.")] = None,
    kind: Annotated[str | None, typer.Option(help="Kind of raw recordings; found by content.")] = None,
    quaternions: QuaternionsOption = None,
    quaternion_order: QuaternionOrderOption = None,
) -> int:
    """Run every rule of its stage on a file or folder; the stage is found by content.

    L2 files, stores, LeRobot folders and raw recordings have rules of their own; of another folder,
    everything in it that has rules is checked. Exit code 0: nothing found; 1: findings; 2: could not run.
    """
    from trajpipe.core.findings import Severity

    terminal: Terminal = ctx.obj
    subjects = [s for path in paths for s in _subjects(path, stage)]
    conventions = Conventions(
        quaternion_order=quaternion_order.value if quaternion_order else None,
        quaternions=tuple(quaternion_site(q) for q in quaternions or ()),
    )
    how = _How(_codes(select), _codes(ignore), kind, conventions)
    _require_known([*how.select, *how.ignore], {s.stage for s in subjects})
    reports = []
    with terminal.progress() as progress:
        for done, subject in enumerate(subjects):
            progress("checked", done, len(subjects))
            reports.append(_report(subject, how))
    threshold = Severity(fail_on.value)
    failed = [r for r in reports if r.fails(threshold)]
    _print(reports, failed, fail_on, terminal)
    return EXIT_FINDINGS if failed else EXIT_FINE


def _print(
    reports: "Sequence[CheckReport]", failed: "Sequence[CheckReport]", fail_on: FailOn, terminal: Terminal
) -> None:
    documents = [r.to_json() | {"path": r.path, "failed": r in failed} for r in reports]
    terminal.document({"passed": not failed, "fail_on": fail_on.value, "reports": documents})
    if terminal.json:
        return
    from trajpipe.cli.reports import render_report

    for report in reports:
        terminal.print(*render_report(report, full=terminal.verbose > 0))
    if len(reports) > 1:
        passed = len(reports) - len(failed)
        terminal.print(f"checked {len(reports)} · passed {passed} · failed {len(failed)}")


def _subjects(path: Path, stage: names.Stage | None) -> Iterator[_Subject]:
    """What to check of a path given: itself, or what lies in a folder.

    Raises:
        TrajpipeError: it does not exist, is locked, or nothing in it has rules.
    """
    from trajpipe.cli.inspection.folders import entries_below

    if stage is not None and path.exists():
        yield _Subject(path, stage)
        return
    found = _subject(path)
    if found is not None:
        yield found
        return
    below = [s for p in sorted(entries_below(path)) if (s := _subject(p))] if path.is_dir() else []
    if not below:
        raise InputError(
            "nothing here has rules",
            place=path,
            expected="an L2 file, a store, a LeRobot folder, a raw HDF5 recording, or a folder of them",
            hint="Look at it with `trajpipe inspect`, or name its rules with --stage.",
            code="no-rules",
        )
    yield from below


def _subject(path: Path) -> _Subject | None:
    """A path as a subject; None when it has no rules. What exists and cannot be opened is a finding."""
    from trajpipe.cli.kinds import recognise

    try:
        stage = recognise(path).stage
    except LockedError:
        raise
    except TrajpipeError as error:
        if not path.exists():
            raise
        return _Subject(path, names.Stage.RAW, error)
    return None if stage is None else _Subject(path, stage)


def _report(subject: _Subject, how: _How) -> "CheckReport":
    from trajpipe.checks.registry import run_checks
    from trajpipe.pipeline.check_raw import check_raw

    if subject.broken is not None:
        return _unreadable(subject, subject.broken)
    if subject.stage is not names.Stage.RAW:
        return run_checks(subject.stage, subject.path, select=how.select, ignore=how.ignore)
    return check_raw(
        subject.path, kind=how.kind, conventions=how.conventions, select=how.select, ignore=how.ignore
    )


def _unreadable(subject: _Subject, error: TrajpipeError) -> "CheckReport":
    """A report whose only finding is that the file cannot be opened, and why."""
    from trajpipe.checks.registry import CheckReport, CheckResult
    from trajpipe.core.findings import Finding, Place, Severity

    result = CheckResult(UNREADABLE, "The file can be opened", True)
    message = error.rule + (f". {error.hint}" if error.hint else "")
    got, expected = (None if v is None else str(v) for v in (error.got, error.expected))
    result.findings.add(
        Finding(error.code, Severity.ERROR, message, Place(file=subject.path.name), got, expected)
    )
    return CheckReport(subject.stage, str(subject.path), [result])


def _codes(given: Sequence[str] | None) -> list[str]:
    """Codes of `a,b` and of repeats; `_` is taken for `-`."""
    return [c.strip().replace("_", "-") for text in given or () for c in text.split(",") if c.strip()]


def _require_known(patterns: Sequence[str], stages: "set[names.Stage]") -> None:
    """Refuse a code or pattern that names no rule of the stages at hand.

    Raises:
        UsageError: names it and the nearest codes.
    """
    from difflib import get_close_matches
    from fnmatch import fnmatchcase

    from trajpipe.checks.registry import checks_of

    if not patterns:
        return
    known = [c.code for stage in sorted(stages) for c in checks_of(stage)]
    for pattern in patterns:
        if not any(fnmatchcase(code, pattern) for code in known):
            near = get_close_matches(pattern, known, n=3)
            hint = f"Did you mean {' or '.join(near)}? " if near else ""
            raise UsageError(
                "no rule has this code",
                got=pattern,
                expected=f"a code of the stage {', '.join(sorted(stages))}",
                hint=f"{hint}`trajpipe checks` lists them.",
            )
