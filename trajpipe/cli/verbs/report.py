"""`trajpipe report DATASET|PATH`: one HTML file to look at, which opens without a server.

What is not here: what is in it, see `trajpipe.pipeline.report`.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from trajpipe.cli.formatting import count, size
from trajpipe.cli.terminal import EXIT_FINE, Terminal
from trajpipe.cli.verbs.options import (
    CatalogueOption,
    QuaternionOrderOption,
    QuaternionsOption,
    RootOption,
    open_project,
    quaternion_site,
)
from trajpipe.core.conventions import Conventions
from trajpipe.core.errors import InputError, UsageError

if TYPE_CHECKING:
    from trajpipe.pipeline.report_options import ReportOptions
    from trajpipe.pipeline.report_subject import Subject

EXAMPLES: Final = {
    "report": "  trajpipe report lift_cube                        a dataset: all its stages together\n"
    "  trajpipe report data/lerobot/lift -o lift.html   any recording, L2 file, store, LeRobot folder\n"
    "  trajpipe report train.h5 --episodes 0:50 --open  some episodes; opened in the browser"
}
_MIB: Final = 1 << 20


def report(  # noqa: PLR0913  (one parameter per option of the command)
    ctx: typer.Context,
    what: Annotated[str, typer.Argument(metavar="DATASET|PATH", help="A dataset's name, or any output.")],
    *,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file; ./NAME.report.html by default.")
    ] = None,
    episodes: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME|A:B,…", help="Only these: names, patterns, ranges of positions."),
    ] = None,
    frames: Annotated[
        int, typer.Option(min=0, max=12, help="Most frames of a camera of an episode; 0 = none.")
    ] = 12,
    max_size: Annotated[int, typer.Option(metavar="MIB", min=1, help="Bound of the file, MiB.")] = 16,
    rrd: Annotated[
        Path | None,
        typer.Option(help="Write a recording for Rerun too (trajpipe[viz]); 20 episodes of each."),
    ] = None,
    checks: Annotated[
        bool, typer.Option("--checks/--no-checks", help="Run the rules where no results are stored.")
    ] = True,
    show: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    kind: Annotated[str | None, typer.Option(help="Kind of raw recordings; found by content.")] = None,
    quaternions: QuaternionsOption = None,
    quaternion_order: QuaternionOrderOption = None,
    catalogue: CatalogueOption = None,
    root: RootOption = None,
) -> int:
    """Write one self-contained HTML file about a dataset or an output of any stage.

    Pictures, every episode with frames and curves, checks, ledger, certificate. It needs no server and
    no network, and is bounded: what is left out is told in it. Exit code 0 whatever the data are like.
    """
    from trajpipe.pipeline.report_options import ReportOptions

    terminal: Terminal = ctx.obj
    conventions = Conventions(
        quaternion_order=quaternion_order.value if quaternion_order else None,
        quaternions=tuple(quaternion_site(q) for q in quaternions or ()),
    )
    subject = _subject(what, catalogue, root, kind, conventions)
    target = output or Path(f"{_file_name(subject.title)}.report.html")
    asked = tuple(e.strip() for text in episodes or () for e in text.split(",") if e.strip())
    _write(subject, target, rrd, ReportOptions(max_size * _MIB, frames, asked, checks), terminal)
    if show:
        typer.launch(target.resolve().as_uri())
    return EXIT_FINE


def _write(
    subject: "Subject", target: Path, rrd: Path | None, options: "ReportOptions", terminal: Terminal
) -> None:
    """Write the page, and the recording for Rerun when one is wanted; print what was made."""
    from trajpipe.pipeline.report import write_report
    from trajpipe.pipeline.report_rerun import FIRST, write_rerun
    from trajpipe.pipeline.report_target import PAGE, RERUN, require_replaceable
    from trajpipe.report.rerun_recording import rerun_sdk

    about = [one.path for one in subject.outputs if one.path.exists()]
    require_replaceable(target, PAGE, about, force=terminal.force)
    if rrd is not None:
        rerun_sdk()
        require_replaceable(rrd, RERUN, about, force=terminal.force)
        if rrd.resolve() == target.resolve():
            raise UsageError("the page and the recording for Rerun are one file", got=rrd)
    in_rerun = None
    with terminal.progress() as progress:
        made = write_report(subject, target, options, progress=progress)
        if rrd is not None:
            in_rerun = write_rerun(subject, rrd, options.episodes or FIRST, progress=progress)
    document: dict[str, Any] = {"path": str(made.path), "bytes": made.bytes, "episodes": made.episodes}
    document |= {"listed": made.indexed, "detailed": made.detailed, "notes": list(made.notes)}
    if in_rerun is not None:
        document["rerun"] = {"path": str(rrd), "written": in_rerun[0], "of": in_rerun[1]}
    terminal.document(document)
    listed = f"{made.indexed:,} of {count(made.episodes, 'episode')} listed"
    counts = f"{listed}, {made.detailed:,} with frames and curves"
    terminal.print(f"{counts} · {size(made.bytes)}", str(made.path))
    if in_rerun is not None:
        terminal.print(f"{in_rerun[0]:,} of {in_rerun[1]:,} episodes for Rerun", str(rrd))


def _subject(
    what: str, catalogue: Path | None, root: Path | None, kind: str | None, conventions: Conventions
) -> "Subject":
    """The subject of a dataset's name, or of a path.

    Raises:
        UsageError: it is neither.
        InputError: the file is of no stage.
    """
    from trajpipe.cli.kinds import recognise
    from trajpipe.core.names import Stage
    from trajpipe.pipeline.report_subject import subject_of_dataset, subject_of_path

    path = Path(what)
    if path.exists() and catalogue is None and root is None:
        stage = Stage.RAW if kind else recognise(path).stage
        if stage is None and path.is_dir():
            raise InputError(
                "a report is of one recording, and this folder is none",
                place=path,
                hint="Name one file in it, or convert the folder first: `trajpipe convert FOLDER all.h5`.",
                code="no-stage",
            )
        if stage is None:
            raise InputError(
                "a report is of a recording, an L2 file, a store or a LeRobot folder",
                place=path,
                hint="Look at other files with `trajpipe inspect`.",
                code="no-stage",
            )
        return subject_of_path(path, stage, kind=kind, conventions=conventions)
    if "/" in what:
        raise UsageError("no such file or folder", got=what)
    return subject_of_dataset(open_project(catalogue, root), what)


def _file_name(title: str) -> str:
    from trajpipe.core.order import slug

    return slug(title)
