"""`trajpipe pull org/name[@tag]`: fetch a published version, every byte of it verified.

What is not here: the protocol, see `trajpipe.hub`.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from trajpipe.cli.terminal import EXIT_FINE, Terminal
from trajpipe.cli.verbs.options import words

if TYPE_CHECKING:
    from trajpipe.hub import PullResult

EXAMPLES: Final = {
    "pull": "  trajpipe pull org/lift                        the newest published version, into ./lift\n"
    "  trajpipe pull org/lift@v0123456789abcdef data/lift\n"
    "  trajpipe pull org/lift --only store           without the LeRobot tree and the L2 files\n"
    "  trajpipe pull org/lift --episodes 0,5-9       some episodes of the LeRobot tree"
}


def pull(
    ctx: typer.Context,
    address: Annotated[
        str, typer.Argument(metavar="ORG/NAME[@TAG]", help="Repository, and a tag or a commit.")
    ],
    dest: Annotated[
        Path | None, typer.Argument(metavar="[DEST]", help="The folder; the repository's name by default.")
    ] = None,
    *,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="PART,…", help="store, lerobot, demos or other; all by default."),
    ] = None,
    episodes: Annotated[
        str | None, typer.Option(metavar="N,N-N", help="Episodes of a LeRobot v2 tree; all by default.")
    ] = None,
) -> int:
    """Fetch a published version: into DEST.part, every hash verified, then renamed in one step.

    Repeating the command after an interruption goes on where it stopped. Files that are there with the right
    hash move no bytes. With HF_HUB_OFFLINE=1 the copy that is there is verified and nothing is asked.
    """
    from trajpipe.hub import Selection, episodes_of
    from trajpipe.hub import pull as pull_version

    terminal: Terminal = ctx.obj
    chosen = Selection(words(only) or (), None if episodes is None else episodes_of(episodes))
    with terminal.progress() as progress:
        result = pull_version(address, dest, selection=chosen, force=terminal.force, progress=progress)
    _show(result, terminal)
    return EXIT_FINE


def _show(result: "PullResult", terminal: Terminal) -> None:
    from trajpipe.cli.formatting import size
    from trajpipe.cli.results import shown_path

    terminal.document(result.to_json())
    if terminal.json:
        return
    if result.offline:
        terminal.print("offline: the copy that is here was verified")
    elif result.unchanged:
        terminal.print("unchanged: every file was here already")
    if result.unfinished:
        terminal.print(
            f"the push of a newer version ({result.unfinished}) was interrupted or is not over: this is the "
            "newest finished one. Repeating that push finishes it"
        )
    if result.refetched:
        terminal.print(f"came damaged once and whole the second time: {', '.join(result.refetched)}")
    moved = f"{result.files} files, {size(result.bytes)} · {size(result.moved)} received"
    terminal.print(f"{result.repo}@{result.revision}: {moved} · every hash verified")
    terminal.print(shown_path(result.path))
    if not terminal.quiet:
        terminal.print("next:", f"  trajpipe verify {shown_path(result.path)}")
