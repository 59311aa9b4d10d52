"""`trajpipe convert SRC… DEST`: recordings into L2, a store or a LeRobot folder, without a catalogue.

What is not here: the conversion, see `trajpipe.pipeline.convert`.
"""

import time
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from trajpipe.cli.terminal import EXIT_FINDINGS, EXIT_FINE, Terminal
from trajpipe.cli.verbs.options import (
    FailOn,
    QuaternionOrderOption,
    QuaternionsOption,
    json_pairs,
    pairs,
    quaternion_options,
    quaternion_site,
    rate,
    words,
)
from trajpipe.core import names
from trajpipe.core.conventions import Conventions
from trajpipe.core.errors import UsageError

if TYPE_CHECKING:
    from trajpipe.pipeline.convert import ConvertOptions
    from trajpipe.pipeline.results import StageResult

EXAMPLES: Final = {
    "convert": "  trajpipe convert recording.hdf5 out.hdf5 --to demos\n"
    "  trajpipe convert libero_goal/ libero_goal.h5 --to store\n"
    "  trajpipe convert day1.hdf5 day2.hdf5 lift.h5 --to store --tag teleop\n"
    "  trajpipe convert recording.hdf5 lift_lerobot --to lerobot-v2.1 --fps 20 --task 'Lift the cube.'\n"
    "  trajpipe convert legacy.hdf5 out.hdf5 --to demos \\\n"
    "    --quaternions obs/eef_quat --quaternions obs/object:3,10,17"
}
_BY_SUFFIX: Final = {".h5": "store", ".hdf5": "demos", "": "lerobot-v2.1"}


class UnknownSuccess(StrEnum):
    """What an episode counts as when its source does not say whether it succeeded."""

    KEEP = "keep"
    FAIL = "fail"
    DROP = "drop"


class Layout(StrEnum):
    """Which columns a store gets."""

    AUTO = "auto"
    GENERIC = "generic"
    LIBERO = "libero"
    LAFAN = "lafan"
    LEROBOT = "lerobot"


class Codec(StrEnum):
    """How a LeRobot folder holds frames: video, or png image columns."""

    H264 = "h264"
    AV1 = "av1"
    PNG = "png"


class Images(StrEnum):
    """Which row of an image comes first: opengl = the bottom one, opencv = the top one."""

    OPENGL = "opengl"
    OPENCV = "opencv"


PathsArgument = Annotated[
    list[Path], typer.Argument(metavar="SRC… DEST", help="Recordings, folders or L2 files, then the output.")
]
ToOption = Annotated[
    str | None, typer.Option(help="demos, store, lerobot-v2.1, …; by DEST's suffix when absent.")
]
KindOption = Annotated[str | None, typer.Option(help="Kind of the recordings; found by content.")]
NameOption = Annotated[str | None, typer.Option(help="Dataset name; DEST's name when absent.")]
TaskOption = Annotated[str | None, typer.Option(help="Instruction of episodes that have none.")]
TagOption = Annotated[names.Tag | None, typer.Option(help="Where the episodes came from.")]
FpsOption = Annotated[str | None, typer.Option(help="Frames per second: 20, 29.97, 30000/1001.")]
ImagesOption = Annotated[Images | None, typer.Option(help="Which image row was recorded first.")]
EnvNameOption = Annotated[str | None, typer.Option(help="Environment, when the recording has none.")]
RenameOption = Annotated[
    list[str] | None, typer.Option(metavar="KEY=TERM", help="Obs key to its term; repeat.")
]
TermWidthOption = Annotated[
    list[str] | None, typer.Option(metavar="TERM=N", help="Splits one concatenated obs; repeat in order.")
]
SourceOption = Annotated[
    list[str] | None, typer.Option(metavar="KEY=VALUE", help="Option of the source, its value JSON; repeat.")
]
StateOption = Annotated[
    list[str] | None, typer.Option(metavar="TERM,…", help="Terms of LeRobot's observation.state, in order.")
]
CamerasOption = Annotated[
    list[str] | None, typer.Option(metavar="TERM,…", help="Cameras to keep in a store or LeRobot folder.")
]
CodecOption = Annotated[Codec | None, typer.Option(help="Frames of a LeRobot folder; h264 when absent.")]
CrfOption = Annotated[
    int | None, typer.Option(min=0, max=63, help="Video quality, lower is better: 23 (h264), 30 (av1).")
]
RobotTypeOption = Annotated[str | None, typer.Option(help="Robot's name in LeRobot's info.json.")]
Gr00tOption = Annotated[bool, typer.Option("--gr00t", help="Refuse what GR00T's loaders cannot read.")]
OnlySuccessOption = Annotated[bool, typer.Option("--only-success", help="Drop episodes that failed.")]
MinLengthOption = Annotated[int, typer.Option(min=1, help="Drop episodes with fewer rows.")]
MinKeptOption = Annotated[
    float, typer.Option(min=0, max=1, help="Fail when less than this share of a recording's episodes stays.")
]
ExcludeOption = Annotated[
    list[str] | None,
    typer.Option(metavar="DEMO|FILE:DEMO,…", help="Leave these out: of every recording, or of one."),
]
FailOnOption = Annotated[FailOn, typer.Option(help="`warn`: warnings make the code 1 too.")]
UnknownSuccessOption = Annotated[UnknownSuccess, typer.Option(help="What an unknown success counts as.")]
AlignmentOption = Annotated[
    names.Alignment | None, typer.Option(help="Whether obs[t] was recorded before or after action[t].")
]
LayoutOption = Annotated[Layout, typer.Option(help="Columns of a store; auto = the recordings' own.")]
SuiteOption = Annotated[str | None, typer.Option(help="LIBERO suite (libero_goal, …) of a store.")]
TargetModelOption = Annotated[
    Path | None, typer.Option(help="MJCF: joint order of a LIBERO store's states, or a motion store's robot.")
]
SceneOption = Annotated[
    Path | None, typer.Option(help="Recording or MJCF of the scene of LIBERO .init tables.")
]
NoImagesOption = Annotated[bool, typer.Option("--no-images", help="Leave images out of a store.")]
DemosOption = Annotated[int | None, typer.Option("--demos", min=1, help="At most N demos of each task.")]
AlignOption = Annotated[bool, typer.Option("--align-causal", help="Shift so that obs[t] precedes action[t].")]


def convert(  # noqa: PLR0913  (one parameter per option of the command, read through `given`)
    ctx: typer.Context,
    paths: PathsArgument,
    *,
    to: ToOption = None,
    kind: KindOption = None,
    name: NameOption = None,
    task: TaskOption = None,
    tag: TagOption = None,
    fps: FpsOption = None,
    quaternions: QuaternionsOption = None,
    quaternion_order: QuaternionOrderOption = None,
    images: ImagesOption = None,
    env_name: EnvNameOption = None,
    rename: RenameOption = None,
    term_width: TermWidthOption = None,
    option: SourceOption = None,
    state: StateOption = None,
    cameras: CamerasOption = None,
    codec: CodecOption = None,
    crf: CrfOption = None,
    robot_type: RobotTypeOption = None,
    gr00t: Gr00tOption = False,
    only_success: OnlySuccessOption = False,
    min_length: MinLengthOption = 1,
    unknown_success: UnknownSuccessOption = UnknownSuccess.KEEP,
    min_kept: MinKeptOption = 0.0,
    exclude: ExcludeOption = None,
    fail_on: FailOnOption = FailOn.ERROR,
    alignment: AlignmentOption = None,
    align_causal: AlignOption = False,
    layout: LayoutOption = Layout.AUTO,
    suite: SuiteOption = None,
    target_model: TargetModelOption = None,
    scene: SceneOption = None,
    no_images: NoImagesOption = False,
    demos: DemosOption = None,
) -> int:
    """Convert recordings to L2 (demos), a trajectory store or a LeRobot folder; no catalogue is needed.

    Several sources become one dataset. A broken recording fails alone and is listed. What is unchanged
    is not built again (--force builds it). Exit code 0: built and every check passed, whatever was
    rejected (--min-kept bounds it); 1: something failed or was found; 2: could not run.
    """
    given = SimpleNamespace(**locals())
    terminal: Terminal = ctx.obj
    sources, destination = _sources_and_destination(paths)
    target = _target(to, destination, terminal)
    return _convert(sources, destination, target, _options(given, terminal), terminal, fail_on=fail_on)


def _conventions(given: SimpleNamespace) -> Conventions:
    """The conventions that the options declare.

    Raises:
        UsageError: an option's text is of another form.
    """
    return Conventions(
        quaternion_order=given.quaternion_order.value if given.quaternion_order else None,
        quaternions=tuple(quaternion_site(q) for q in given.quaternions or ()),
        images=given.images.value if given.images else None,
        alignment=given.alignment,
        fps=rate(given.fps),
        unknown_success=given.unknown_success.value,
        terms=pairs(given.rename, "--rename"),
        term_widths=_widths(given.term_width),
        env_name=given.env_name,
    )


def _options(given: SimpleNamespace, terminal: Terminal) -> "ConvertOptions":
    """What the options ask for; `given` has one attribute per parameter of `convert`."""
    from trajpipe.demos.select import Filters
    from trajpipe.pipeline.convert import ConvertOptions

    cameras = words(given.cameras)
    images = False if given.no_images else None
    return ConvertOptions(
        kind=given.kind,
        name=given.name,
        tag=given.tag.value if given.tag else None,
        task=given.task,
        conventions=_conventions(given),
        options=json_pairs(given.option, "--option"),
        filters=Filters(
            given.only_success, given.min_length, given.unknown_success.value, min_kept=given.min_kept
        ),
        exclude=words(given.exclude) or (),
        align_causal=given.align_causal,
        store=_given(cameras=cameras, demos_per_task=given.demos, images=images),
        layout=given.layout.value,
        scene=given.scene,
        libero=_given(suite=given.suite, model=given.target_model),
        export=_export(given),
        force=terminal.force,
    )


def _export(given: SimpleNamespace) -> dict[str, Any]:
    """Options of a LeRobot folder; `--gr00t` only adds to what the profile says."""
    return _given(
        state=words(given.state),
        cameras=words(given.cameras),
        codec=given.codec.value if given.codec else None,
        crf=given.crf,
        robot_type=given.robot_type,
        gr00t=given.gr00t or None,
    )


def _convert(
    sources: Sequence[Path],
    destination: Path,
    to: str,
    options: "ConvertOptions",
    terminal: Terminal,
    *,
    fail_on: FailOn,
) -> int:
    from trajpipe.core.findings import Severity
    from trajpipe.pipeline.convert import convert as convert_files

    began = time.perf_counter()
    with terminal.progress() as progress:
        results = convert_files(sources, destination, to, options, progress)
    fine = bool(results) and all(r.ok for r in results)
    if fail_on is FailOn.WARN:
        fine = fine and not any(r.checks.fails(Severity.WARN) for r in results)
    _show(results, destination, time.perf_counter() - began, terminal, fine=fine)
    return EXIT_FINE if fine else EXIT_FINDINGS


def _show(
    results: "Sequence[StageResult]", destination: Path, duration: float, terminal: Terminal, *, fine: bool
) -> None:
    from trajpipe.cli.results import closing_line, is_there, render_results, shown_path

    there = is_there(results[-1]) if results else False
    follow = [f"trajpipe {verb} {shown_path(destination)}" for verb in ("inspect", "check")] if there else []
    terminal.document(
        {
            "ok": fine,
            "seconds": round(duration, 3),
            "destination": str(destination),
            "results": [r.to_json() for r in results],
            "next": follow,
        }
    )
    if terminal.json:
        return
    made = [r for r in results if r.path.is_relative_to(destination)]
    terminal.print(
        *render_results(results, full=terminal.verbose > 0), "", closing_line(results, duration, made)
    )
    undeclared = [o for r in results if (o := quaternion_options(r.error or ""))]
    for options in dict.fromkeys(undeclared):
        terminal.note(f"on the command line: {options}")
    if there:
        terminal.print(shown_path(destination))
        if not terminal.quiet:
            terminal.print("next:", *(f"  {command}" for command in follow))


def _sources_and_destination(paths: Sequence[Path]) -> tuple[list[Path], Path]:
    if len(paths) < 2:
        raise UsageError(
            "convert needs a source and a destination",
            got=", ".join(map(str, paths)),
            expected="SRC… DEST",
            hint=f"For example: trajpipe convert {paths[0]} {paths[0].stem}.h5 --to store",
        )
    return list(paths[:-1]), paths[-1]


def _target(to: str | None, destination: Path, terminal: Terminal) -> str:
    """The target asked for, else the one that DEST's suffix stands for."""
    from difflib import get_close_matches

    from trajpipe.pipeline.convert import targets

    known = targets()
    if to is None:
        chosen = _BY_SUFFIX.get(destination.suffix)
        if chosen is None:
            raise UsageError("--to is needed", got=destination.name, expected=f"one of {', '.join(known)}")
        why = "by the suffix of" if destination.suffix else "as there is no suffix in"
        terminal.note(f"--to {chosen}, {why} {destination.name}")
        return chosen
    to = {"lerobot": "lerobot-v2.1", "l2": "demos"}.get(to, to)
    if to not in known:
        near = get_close_matches(to, known, n=1)
        hint = f"Did you mean {near[0]}?" if near else None
        raise UsageError("no such target", got=f"--to {to}", expected=f"one of {', '.join(known)}", hint=hint)
    return to


def _widths(given: Sequence[str] | None) -> dict[str, int]:
    texts = pairs(given, "--term-width")
    bad = [f"{term}={n}" for term, n in texts.items() if not n.isdigit() or int(n) < 1]
    if bad:
        raise UsageError("--term-width is TERM=N with a whole number N", got=", ".join(bad))
    return {term: int(n) for term, n in texts.items()}


def _given(**options: Any) -> dict[str, Any]:
    return {key: value for key, value in options.items() if value is not None}
