"""`trajpipe init`: a new project folder.

What is not here: its files, see `trajpipe.pipeline.init`.
"""

from pathlib import Path
from typing import Annotated, Final

import typer

from trajpipe.cli.terminal import EXIT_FINE, Terminal

EXAMPLES: Final = {
    "init": "  trajpipe init my_project --dataset pick_cup\n"
    "  cd my_project; cp ~/recordings/*.hdf5 data/raw/pick_cup/; trajpipe gate"
}


def init(
    ctx: typer.Context,
    folder: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="The project folder; here by default.")
    ] = Path(),
    *,
    dataset: Annotated[str, typer.Option(help="Name of the catalogue's first dataset.")] = "my_task",
) -> int:
    """Start a project: catalogue with comments, baseline, workspace, data folders, .gitignore, CI recipe.

    What is there already is left as it is (--force writes over it).
    """
    from trajpipe.cli.results import shown_path
    from trajpipe.pipeline.init import init as start

    terminal: Terminal = ctx.obj
    started = start(folder, dataset, force=terminal.force)
    for name in started.written:
        terminal.print(f"wrote  {shown_path(folder / name)}")
    for name in started.kept:
        terminal.print(f"kept   {shown_path(folder / name)}")
    steps = [] if folder.resolve() == Path.cwd() else [f"cd {shown_path(folder)}"]
    steps += [f"cp RECORDINGS data/raw/{dataset}/", "trajpipe list", "trajpipe dev", "trajpipe gate"]
    if not terminal.quiet:
        terminal.print("next:", *(f"  {step}" for step in steps))
    terminal.document(
        {"folder": str(folder), "written": started.written, "kept": started.kept, "next": steps}
    )
    return EXIT_FINE
