"""`trajpipe run`: the catalogue's datasets through their stages.

What is not here: the stages, see `trajpipe.pipeline`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from trajpipe.cli.terminal import EXIT_FINDINGS, EXIT_FINE, Terminal, cell, table
from trajpipe.cli.verbs.options import CatalogueOption, RootOption, chosen_datasets, open_project
from trajpipe.core.errors import UsageError
from trajpipe.core.names import Stage

if TYPE_CHECKING:
    from trajpipe.pipeline.project import Project
    from trajpipe.pipeline.results import StageResult
    from trajpipe.pipeline.run import Planned, RunResult

EXAMPLES: Final = {
    "run": "  trajpipe run                                 all datasets, all stages, unless unchanged\n"
    "  trajpipe run lift_cube --jobs 4              one dataset, four recordings at a time\n"
    "  trajpipe run 'libero_*' --stage demos        some datasets, one stage\n"
    "  trajpipe run lift_cube --recording day2.hdf5\n"
    "  trajpipe run --dry-run                       what would be done, and why"
}


def run(  # noqa: PLR0913  (one parameter per option of the command)
    ctx: typer.Context,
    datasets: Annotated[
        list[str] | None, typer.Argument(metavar="[DATASET…]", help="Names or patterns; all when none.")
    ] = None,
    *,
    recording: Annotated[
        list[str] | None, typer.Option("--recording", "-r", help="Only this recording; repeat for more.")
    ] = None,
    stage: Annotated[
        list[Stage] | None, typer.Option("--stage", "-s", help="Only this stage; repeat for more.")
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Recordings at a time.")] = 1,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="Tell what would be done and why; do nothing.")
    ] = False,
    catalogue: CatalogueOption = None,
    root: RootOption = None,
) -> int:
    """Bring datasets of the catalogue through their stages: raw → demos → store → lerobot.

    What is unchanged is not built again (--force builds it). A broken recording fails alone and is listed;
    the store is built from the others. Exit code 0: all is there and every check passed; 1: something
    failed or was found; 2: could not run.
    """
    from trajpipe.pipeline.run import plan

    terminal: Terminal = ctx.obj
    stages = _stages(stage)
    project = open_project(catalogue, root)
    names = chosen_datasets(project, datasets)
    if dry_run:
        steps = [s for s in plan(project, names) if s.stage in stages and _is_chosen(s, project, recording)]
        show_plan(steps, terminal)
        return EXIT_FINE
    result = run_datasets(project, names, terminal, recordings=recording or (), stages=stages, jobs=jobs)
    show_run(project, result, terminal)
    return EXIT_FINE if result.ok else EXIT_FINDINGS


def _stages(given: Sequence[Stage] | None) -> tuple[Stage, ...]:
    from trajpipe.pipeline.run import STAGES

    if given and Stage.RAW in given:
        raise UsageError(
            "raw is what is there already", expected=f"--stage {', '.join(s.value for s in STAGES)}"
        )
    return tuple(s for s in STAGES if not given or s in given)


def _is_chosen(step: "Planned", project: "Project", recordings: Sequence[str] | None) -> bool:
    if not recordings or step.stage is not Stage.DEMOS:
        return True
    return any(
        step.key == r.key
        for r in project.recordings(step.dataset)
        if {r.key, r.path.name, r.path.stem} & set(recordings)
    )


def run_datasets(
    project: "Project",
    datasets: Sequence[str],
    terminal: Terminal,
    *,
    recordings: Sequence[str] = (),
    stages: Sequence[Stage] = (),
    jobs: int = 1,
) -> "RunResult":
    """Run with progress bars, and a line per finished stage under `-v` (always for a failed one)."""
    from trajpipe.pipeline.run import RunOptions
    from trajpipe.pipeline.run import run as run_stages

    options = RunOptions(tuple(recordings), tuple(stages), jobs, terminal.force)
    with terminal.progress() as progress:
        return run_stages(
            project, datasets, options, progress=progress, watch=lambda result: note_stage(result, terminal)
        )


def note_stage(result: "StageResult", terminal: Terminal) -> None:
    """Tell on stderr that a stage is finished, under `-v`; a failed one always.

    Raises:
        Stop: the stage failed since the command was asked to stop.
    """
    from trajpipe.cli.formatting import seconds
    from trajpipe.cli.results import name_of
    from trajpipe.cli.stopping import STOPPING

    STOPPING.check()

    if terminal.verbose or not result.ok:
        terminal.note(f"{name_of(result)}: {result.status.value} · {seconds(result.seconds)}")


def show_plan(steps: "Sequence[Planned]", terminal: Terminal) -> None:
    """Print what a run would do."""
    from trajpipe.cli.results import shown_path

    terminal.document(
        {
            "dry_run": True,
            "steps": [
                {
                    "dataset": s.dataset,
                    "stage": s.stage.value,
                    "key": s.key,
                    "path": str(s.path),
                    "state": s.state,
                    "would_build": terminal.force or s.state != "ready",
                    "why": s.why,
                }
                for s in steps
            ],
        }
    )
    rows = table("dataset", "stage", "output", "would", "why")
    for step in steps:
        build = terminal.force or step.state != "ready"
        why = step.why or ("--force" if terminal.force else "unchanged")
        would = cell("build", "green") if build else cell("skip", "dim")
        rows.add_row(cell(step.dataset), step.stage.value, cell(shown_path(step.path)), would, cell(why))
    todo = sum(terminal.force or s.state != "ready" for s in steps)
    terminal.print(rows, f"would build {todo} of {len(steps)} outputs; nothing was done")


def show_run(project: "Project", result: "RunResult", terminal: Terminal) -> None:
    """Print the results, the closing line, the path and the next command."""
    from trajpipe.cli.results import closing_line, render_results

    document: dict[str, Any] = result.to_json()
    document["next"] = next_commands(project, result)
    terminal.document(document)
    if terminal.json:
        return
    terminal.print(*render_results(result.results, full=terminal.verbose > 0), "")
    if not result.results:
        terminal.print("nothing to do: the datasets have no recordings")
    elif all(r.status.value == "unchanged" for r in result.results):
        terminal.print("unchanged: nothing was built (--force builds again)")
    terminal.print(closing_line(result.results, result.seconds))
    _print_paths(project, result, terminal)
    if not terminal.quiet:
        terminal.print("next:", *(f"  {command}" for command in document["next"]))


def _print_paths(project: "Project", result: "RunResult", terminal: Terminal) -> None:
    """The last output of the one dataset, or the data folder of several."""
    from trajpipe.cli.results import is_there, shown_path

    there = [r for r in result.results if is_there(r)]
    if len({r.dataset for r in there}) == 1:
        terminal.print(shown_path(there[-1].path))
    elif there:
        terminal.print(shown_path(project.root))


def next_commands(project: "Project", result: "RunResult") -> list[str]:
    """What one would type after this run."""
    from trajpipe.cli.results import is_there, shown_path

    failed = [r for r in result.results if not is_there(r)]
    there = [r for r in result.results if is_there(r)]
    commands = []
    if failed and failed[0].key:
        paths = [r.path for r in project.recordings(failed[0].dataset) if r.key == failed[0].key]
        commands += [f"trajpipe inspect {shown_path(path)}" for path in paths]
    missing = [s for s in Stage if s is not Stage.RAW and not any(r.stage is s for r in result.results)]
    if there and not failed and missing:
        commands.append(f"trajpipe run{_at(project)} {there[-1].dataset}")
    if len({r.dataset for r in there}) == 1:
        output = shown_path(there[-1].path)
        commands += [f"trajpipe inspect {output}", f"trajpipe check {output}"]
    elif there:
        commands += [f"trajpipe list{_at(project)}", f"trajpipe check {shown_path(there[-1].path.parent)}"]
    return commands or ["trajpipe list"]


def _at(project: "Project") -> str:
    """The option that names the catalogue, where it is not found by itself."""
    from trajpipe.cli.results import shown_path
    from trajpipe.pipeline.project import default_catalogue

    path = project.catalogue.path
    return "" if path.absolute() == default_catalogue().absolute() else f" --catalogue {shown_path(path)}"
