"""`trajpipe push DATASET|PATH`: publish a finished dataset on the Hub as one tagged version.

What is not here: the protocol (`trajpipe.hub`), what a dataset consists of (`trajpipe.pipeline.publish`).
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from trajpipe.cli.terminal import EXIT_FINE, Terminal
from trajpipe.cli.verbs.options import CatalogueOption, RootOption, open_project
from trajpipe.core.errors import UsageError

if TYPE_CHECKING:
    from trajpipe.core.progress import Progress
    from trajpipe.hub import PushOptions, PushResult

EXAMPLES: Final = {
    "push": "  trajpipe push lift_cube                           where the catalogue's `hub:` says\n"
    "  trajpipe push lift_cube --repo org/lift --dry-run     what would move\n"
    "  trajpipe push data/stores/lift.h5 --repo org/lift     a store, an L2 file or a LeRobot folder\n"
    "The login comes from HF_TOKEN or `hf auth login`; it is never an option."
}
_SHOWN: Final = 10


def push(  # noqa: PLR0913  (one parameter per option of the command)
    ctx: typer.Context,
    what: Annotated[
        str, typer.Argument(metavar="DATASET|PATH", help="A dataset's name, a file or a folder.")
    ],
    *,
    repo: Annotated[
        str | None, typer.Option(metavar="ORG/NAME", help="Repository; the catalogue's by default.")
    ] = None,
    public: Annotated[
        bool, typer.Option("--public", help="Create the repository public; an existing one stays as it is.")
    ] = False,
    tag: Annotated[str | None, typer.Option(help="One more tag for this version; it never moves.")] = None,
    message: Annotated[str | None, typer.Option(help="Title of the commits.")] = None,
    licence: Annotated[
        str | None, typer.Option("--license", help="SPDX name of a path's licence; a dataset has its own.")
    ] = None,
    allow_license: Annotated[
        bool, typer.Option("--allow-license", help="Publish in the open although the licence forbids it.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="Tell what would move and where; do nothing.")
    ] = False,
    catalogue: CatalogueOption = None,
    root: RootOption = None,
) -> int:
    """Publish a finished dataset on the Hub: files, their hashes, then a tag that never moves.

    Nobody can pull half of it: readers go by tags. Repeating the command after an interruption finishes it;
    what is there already is not sent again. New repositories are private.
    """
    from trajpipe.hub import PushOptions

    terminal: Terminal = ctx.obj
    options = PushOptions(
        private=not public, tag=tag, message=message, allow_license=allow_license, force=terminal.force
    )
    with terminal.progress() as progress:
        if _is_path(what):
            result = _push_path(Path(what), repo, licence, options, dry_run=dry_run, progress=progress)
        else:
            if licence is not None:
                raise UsageError("a dataset's licence is in the catalogue", got="--license", place=what)
            result = _push_dataset(
                what, repo, options, catalogue=catalogue, root=root, dry_run=dry_run, progress=progress
            )
    _show(result, terminal)
    return EXIT_FINE


def _is_path(what: str) -> bool:
    return "/" in what or "." in what or (Path(what).exists() and not what.isidentifier())


def _push_path(
    path: Path,
    repo: str | None,
    licence: str | None,
    options: "PushOptions",
    *,
    dry_run: bool,
    progress: "Progress",
) -> "PushResult":
    from trajpipe.hub import Repository, plan_push
    from trajpipe.hub import push as push_files
    from trajpipe.pipeline.publish import publication_of_path

    if repo is None:
        raise UsageError("a path needs a repository", place=path, hint="Say --repo org/name.")
    publication = publication_of_path(path, repo, licence)
    act = plan_push if dry_run else push_files
    return act(publication, Repository(repo), options, progress=progress)


def _push_dataset(
    name: str,
    repo: str | None,
    options: "PushOptions",
    *,
    catalogue: Path | None,
    root: Path | None,
    dry_run: bool,
    progress: "Progress",
) -> "PushResult":
    from trajpipe.pipeline.publish import options_of_dataset, push_dataset

    project = open_project(catalogue, root)
    declared = options_of_dataset(project, name)
    chosen = replace(
        options,
        private=options.private and declared.private,
        tag=options.tag or declared.tag,
        allow_license=options.allow_license or declared.allow_license,
    )
    return push_dataset(project, name, repo=repo, options=chosen, dry_run=dry_run, progress=progress)


def _show(result: "PushResult", terminal: Terminal) -> None:
    from trajpipe.cli.formatting import size

    terminal.document(result.to_json())
    if terminal.json:
        return
    visibility = "private" if result.private else "public"
    if result.dry_run:
        _show_plan(result, terminal, visibility)
        return
    if result.unchanged:
        terminal.print("unchanged: this version is published already")
    else:
        made = ", created" if result.created else ""
        sent = f"{len(result.uploaded)} committed, {len(result.deleted)} deleted, {size(result.moved)} sent"
        terminal.print(
            f"{result.repo} ({visibility}{made}): {result.files} files, {size(result.bytes)} · {sent}"
        )
    terminal.print(f"tags {' '.join(result.tags)} · commit {result.commit[:12]}", result.url)
    terminal.print("next:", f"  trajpipe pull {result.repo}@{result.tag}")


def _show_plan(result: "PushResult", terminal: Terminal, visibility: str) -> None:
    from trajpipe.cli.formatting import size

    created = " (would be created)" if result.created else ""
    terminal.print(f"{result.repo}, {visibility}{created}")
    for word, paths in (("send", result.uploaded), ("delete", result.deleted)):
        terminal.print(*(f"  {word} {path}" for path in paths[:_SHOWN]))
        if len(paths) > _SHOWN:
            terminal.print(f"  … and {len(paths) - _SHOWN} more to {word}")
    total = f"{result.files} files, {size(result.bytes)} in all"
    moves = f"at most {size(result.moved)} to send" if result.uploaded else "nothing to send"
    terminal.print(f"{total} · {moves} · tags {' '.join(result.tags)}; nothing was done")
