"""`trajpipe verify DEST`: every byte of a pulled folder against its manifest, without a network.

What is not here: the rules about contents, see `trajpipe check`.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from trajpipe.cli.terminal import EXIT_FINDINGS, EXIT_FINE, Terminal

if TYPE_CHECKING:
    from trajpipe.hub import Verified

EXAMPLES: Final = {"verify": "  trajpipe verify lift            is what was pulled still what was published?"}
_SHOWN: Final = 20


def verify(
    ctx: typer.Context,
    dest: Annotated[Path, typer.Argument(metavar="DEST", help="A folder that `trajpipe pull` made.")],
) -> int:
    """Hash every file of a pulled folder against its trajpipe.json.

    Exit code 0: every wanted file is there, bit for bit; 1: a file is missing or another; 2: no manifest.
    Files that the manifest does not know are listed.
    """
    from trajpipe.hub import verify as verify_folder

    terminal: Terminal = ctx.obj
    with terminal.progress() as progress:
        result = verify_folder(dest, progress=progress)
    _show(result, terminal)
    return EXIT_FINE if result.ok else EXIT_FINDINGS


def _show(result: "Verified", terminal: Terminal) -> None:
    from trajpipe.cli.formatting import size

    terminal.document(result.to_json())
    if terminal.json:
        return
    for word, paths in (
        ("missing", result.missing),
        ("damaged", result.damaged),
        ("unknown", result.foreign),
    ):
        terminal.print(*(f"{word:8} {path}" for path in paths[:_SHOWN]))
        if len(paths) > _SHOWN:
            terminal.print(f"… and {len(paths) - _SHOWN} more {word}")
    whole = "whole" if result.ok else f"{len(result.missing)} missing, {len(result.damaged)} damaged"
    part = " of what was wanted" if result.partial else ""
    terminal.print(f"{result.tag}: checked {result.checked} files{part}, {size(result.bytes)} · {whole}")
    if not result.ok and result.repo:
        terminal.print("next:", f"  trajpipe pull {result.repo}@{result.commit or result.tag} {result.path}")
