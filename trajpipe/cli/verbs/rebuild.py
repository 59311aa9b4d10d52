"""`trajpipe rebuild MANIFEST DEST`: the same bytes from the recipe and the recordings, not a download.

What is not here: building and comparing, see `trajpipe.pipeline.rebuild`.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from trajpipe.cli.terminal import EXIT_FINDINGS, EXIT_FINE, Terminal

if TYPE_CHECKING:
    from trajpipe.hub import Manifest
    from trajpipe.pipeline.rebuild import Rebuilt

EXAMPLES: Final = {
    "rebuild": "  trajpipe rebuild lift/trajpipe.json lift2 --raw recordings\n"
    "  trajpipe rebuild org/lift@v0123456789abcdef lift --raw recordings     fetches the manifest alone"
}


def rebuild(
    ctx: typer.Context,
    manifest: Annotated[
        str, typer.Argument(metavar="MANIFEST", help="trajpipe.json, its folder, or org/name[@tag].")
    ],
    dest: Annotated[Path, typer.Argument(metavar="DEST", help="The folder to make.")],
    *,
    raw: Annotated[
        list[Path] | None,
        typer.Option(metavar="FOLDER", help="Where raw recordings lie; repeat for more. `.` by default."),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Recordings at a time.")] = 1,
) -> int:
    """Build a published version from its recipe when its raw recordings are at hand, and verify every byte.

    Recordings are found by name and SHA-256. Exit code 0: the same bytes, in DEST; 1: some differ, DEST is
    not written; 2: could not run.
    """
    from trajpipe.pipeline.rebuild import rebuild as rebuild_version

    terminal: Terminal = ctx.obj
    wanted = _manifest(manifest)
    with terminal.progress() as progress:
        result = rebuild_version(
            wanted, raw or [Path()], dest, jobs=jobs, force=terminal.force, progress=progress
        )
    _show(result, terminal)
    return EXIT_FINE if result.same else EXIT_FINDINGS


def _manifest(text: str) -> "Manifest":
    """The manifest of a file, a folder, or an address on the Hub."""
    from trajpipe.hub import Repository, read_manifest, split_address
    from trajpipe.hub.pull import published_manifest

    if Path(text).exists():
        return read_manifest(Path(text))
    repo, revision = split_address(text)
    return published_manifest(Repository(repo), revision)


def _show(result: "Rebuilt", terminal: Terminal) -> None:
    from trajpipe.cli.formatting import size
    from trajpipe.cli.results import shown_path

    terminal.document(result.to_json())
    if terminal.json:
        return
    terminal.print(
        *(f"missing    {p}" for p in result.missing), *(f"different  {p}" for p in result.different)
    )
    for package, (then, now) in result.versions.items():
        terminal.print(f"{package} was {then}, here it is {now}")
    if result.same:
        terminal.print(f"{result.tag}: {result.files} files, {size(result.bytes)} · the same bytes")
        terminal.print(shown_path(result.path))
    else:
        other = len(result.missing) + len(result.different)
        terminal.print(f"{result.tag}: {other} of {result.files} files differ; nothing was written")
