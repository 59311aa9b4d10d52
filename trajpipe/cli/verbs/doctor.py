"""`trajpipe doctor` and `trajpipe gc`: what ails a project, and what nobody needs any more.

What is not here: looking, see `trajpipe.pipeline.doctor`, `trajpipe.pipeline.gc`, `trajpipe.defs.instance`,
`trajpipe.defs.daemons`.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from trajpipe.cli.terminal import EXIT_FINDINGS, EXIT_FINE, Terminal, cell, table
from trajpipe.cli.verbs.options import CatalogueOption, RootOption, open_project

if TYPE_CHECKING:
    from trajpipe.defs.daemons import Daemons
    from trajpipe.defs.instance import PartitionState
    from trajpipe.pipeline.doctor import Diagnosis
    from trajpipe.pipeline.project import Project

EXAMPLES: Final = {
    "doctor": "  trajpipe doctor              look\n  trajpipe doctor --fix        mend what is safe to mend",
    "gc": "  trajpipe gc                  what could go\n  trajpipe gc --no-dry-run     delete it",
}
_STYLES: Final = {"fine": "green", "note": "cyan", "wrong": "bold red", "fixed": "yellow"}


def doctor(
    ctx: typer.Context,
    *,
    fix: Annotated[
        bool, typer.Option("--fix", help="End dead runs; delete dead processes' temporaries and locks.")
    ] = False,
    home: Annotated[
        Path | None, typer.Option(help="DAGSTER_HOME; $DAGSTER_HOME or ./.dagster by default.")
    ] = None,
    catalogue: CatalogueOption = None,
    root: RootOption = None,
) -> int:
    """Look for what goes wrong in the long run: data folder, installation, Dagster instance.

    Stale temporaries and locks, disk space, missing libraries, `dagster*` packages of different releases,
    outputs that somebody changed, dead runs, two daemons, partitions against files. Exit code 1: something
    is wrong.
    """
    from trajpipe.pipeline.doctor import Grade, examine

    terminal: Terminal = ctx.obj
    project = open_project(catalogue, root)
    found = [*examine(project, fix=fix), *_instance(_home(home), project, fix)]
    rows = table("", "matter", "seen")
    for one in found:
        advice = f" — {one.advice}" if one.advice else ""
        rows.add_row(
            cell(one.grade.value, _STYLES[one.grade.value]), cell(one.what), cell(f"{one.text}{advice}")
        )
    wrong = sum(one.grade is Grade.WRONG for one in found)
    terminal.print(rows, f"\n{wrong} wrong" if wrong else "\nnothing is wrong")
    terminal.document({"wrong": wrong, "diagnoses": [one.to_json() for one in found]})
    return EXIT_FINDINGS if wrong else EXIT_FINE


def _home(given: Path | None) -> Path:
    from trajpipe.pipeline.init_dagster_home import HOME

    return (given or Path(os.environ.get("DAGSTER_HOME") or HOME)).absolute()


def _instance(home: Path, project: "Project", fix: bool) -> "Iterator[Diagnosis]":
    """What the Dagster instance says, where there is one."""
    from trajpipe.pipeline.doctor import Diagnosis, Grade
    from trajpipe.pipeline.init_dagster_home import CONFIG

    if not (home / CONFIG).is_file():
        yield Diagnosis("dagster", Grade.NOTE, f"there is no instance at {home}", "`trajpipe dev` makes one")
        return
    if not os.access(home, os.W_OK):  # SQLite writes beside its files even to read them
        advice = "Run it as the user who owns it."
        yield Diagnosis(
            "dagster", Grade.NOTE, f"the instance at {home} can't be written: not looked at", advice
        )
        return
    from trajpipe.defs import instance
    from trajpipe.defs.daemons import daemons_of

    dead = instance.dead_runs_of(home, end=fix)
    for run in dead:
        text = f"run {run.name}: {run.why}"
        yield Diagnosis("runs", Grade.FIXED if fix else Grade.WRONG, text, "" if fix else "--fix ends it")
    if not dead:
        yield Diagnosis("runs", Grade.FINE, "none that is said to run is dead")
    yield from _daemons(daemons_of(home))
    for state in instance.partition_states(home, project, project.catalogue.datasets):
        yield from _partitions(state)


def _daemons(daemons: "Daemons") -> "Iterator[Diagnosis]":
    from trajpipe.pipeline.doctor import Diagnosis, Grade

    if daemons.count > 1:
        text = f"{daemons.count} daemons work on one instance: {daemons.evidence}"
        yield Diagnosis("daemons", Grade.WRONG, text, "Stop all `trajpipe dev` and `dagster-daemon` but one.")
    else:
        word = "one is running" if daemons.count else "none is running"
        yield Diagnosis("daemons", Grade.FINE, f"{word}: {daemons.evidence}")


def _partitions(state: "PartitionState") -> "Iterator[Diagnosis]":
    from trajpipe.pipeline.doctor import Diagnosis, Grade

    said = False
    if state.unknown:
        said = True
        text = f"{state.dataset}: recordings without a partition: {', '.join(state.unknown[:5])}"
        yield Diagnosis("partitions", Grade.NOTE, text, "The folder sensor or `scan_job` adds them.")
    if state.lost:
        said = True
        text = f"{state.dataset}: materialized, but the L2 file is gone: {', '.join(state.lost[:5])}"
        yield Diagnosis("partitions", Grade.WRONG, text, f"Run {state.dataset}_demos on them.")
    if state.tombstones:
        said = True
        text = f"{state.dataset}: partitions of recordings that are gone: {', '.join(state.tombstones[:5])}"
        yield Diagnosis("partitions", Grade.NOTE, text)
    if not said:
        yield Diagnosis("partitions", Grade.FINE, f"{state.dataset}: as the files are")


def gc(
    ctx: typer.Context,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run/--no-dry-run", "-n/-y", help="Only tell; nothing is deleted.")
    ] = True,
    catalogue: CatalogueOption = None,
    root: RootOption = None,
) -> int:
    """Show, or delete, outputs that no recipe of the catalogue makes any more.

    Outputs of removed recordings and datasets, with what lies beside them. Raw recordings and files that are
    not ours are never touched. Exit code 1: something could not be deleted.
    """
    from trajpipe.cli.formatting import size
    from trajpipe.cli.results import shown_path
    from trajpipe.pipeline.gc import collect, garbage

    terminal: Terminal = ctx.obj
    project = open_project(catalogue, root)
    found = garbage(project) if dry_run else collect(project)
    rows = table("", "output", "size", "why", right=("size",))
    for one in found:
        word = "could go" if dry_run else "left" if one.error else "deleted"
        rows.add_row(
            cell(word), cell(shown_path(one.path)), cell(size(one.bytes)), cell(one.error or one.why)
        )
    total = size(sum(one.bytes for one in found))
    if not found:
        terminal.print("nothing to collect: every output is made by a recipe of the catalogue")
    else:
        terminal.print(rows, f"\n{len(found)} outputs, {total}")
        if dry_run:
            terminal.note("nothing was deleted: --no-dry-run deletes")
    terminal.document({"dry_run": dry_run, "garbage": [one.to_json() for one in found]})
    return EXIT_FINDINGS if any(one.error for one in found) else EXIT_FINE
