"""`trajpipe inspect PATH`: what is in any file or folder of any stage.

What is not here: how it is read and shown, see `trajpipe.cli.inspection`.
"""

from pathlib import Path
from typing import Annotated, Final

import typer

from trajpipe.cli.terminal import EXIT_FINE, Terminal

EXAMPLES: Final = {
    "inspect": "  trajpipe inspect data/raw/demo.hdf5          a recording, L2 or store\n"
    "  trajpipe inspect data/lerobot/lift_cube      a LeRobot folder, v2 or v3\n"
    "  trajpipe inspect data/raw                    what is each file of a folder?\n"
    "  trajpipe inspect demo.hdf5 --json | jq .episodes.lengths"
}


def inspect(
    ctx: typer.Context,
    paths: Annotated[list[Path], typer.Argument(metavar="PATH…", help="Files or folders of any stage.")],
    *,
    every: Annotated[
        bool, typer.Option("--all", "-a", help="All layouts, dimensions, tasks and whole attributes.")
    ] = False,
) -> int:
    """Show what is in a file or folder: tree, shapes, dtypes, chunks, episode lengths, action ranges.

    Reads raw HDF5 of any kind, L2, stores, `.demo`, LeRobot v2 and v3 folders, parquet, mp4, npz, npy, csv;
    pickles by name only. It judges nothing: that is what `trajpipe check` is for.
    """
    from trajpipe.cli.inspection.reading import inspect_path

    terminal: Terminal = ctx.obj
    documents = []
    for path in paths:
        with terminal.progress() as progress:
            found = inspect_path(path, progress)
        documents.append(found.to_json())
        if not terminal.json:
            from trajpipe.cli.inspection.render import render

            terminal.print(*render(found, every=every, width=terminal.width), "")
    terminal.document(documents[0] if len(documents) == 1 else {"inspections": documents})
    return EXIT_FINE
