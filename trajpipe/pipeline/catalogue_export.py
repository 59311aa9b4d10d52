"""The catalogue's `export:`: what a LeRobot export may be asked for, and which combinations cannot be.

What is not here: what an option does, see `trajpipe.export.options`; passing them on, see
`trajpipe.pipeline.export_lerobot`.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, NamedTuple

from pydantic import BeforeValidator, Field, model_validator

from trajpipe.core.errors import MissingNameError
from trajpipe.export.options import DEFAULT_VERSION, MOST_CRF, Codec, Version
from trajpipe.export.profiles import profile
from trajpipe.pipeline.catalogue_conventions import Model
from trajpipe.pipeline.catalogue_values import Rate, problem

DEFAULT_CODEC: Final[Codec] = "h264"
# By encoder: x264's own names, SVT-AV1's numbers.
PRESETS: Final[dict[Codec, tuple[str, ...]]] = {
    "h264": (
        *("ultrafast", "superfast", "veryfast", "faster", "fast"),
        *("medium", "slow", "slower", "veryslow", "placebo"),
    ),
    "av1": tuple(map(str, range(14))),
    "png": (),
}


def _preset(value: Any) -> Any:
    """AV1's presets are numbers: `preset: 8` is as good as `preset: "8"`."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class VideoOptions(Model):
    """How videos are encoded."""

    codec: Codec | None = None
    """Codec, or `png` for image columns without loss; the profile's when absent, else h264."""
    crf: int | None = Field(default=None, ge=0, le=63)
    """Constant rate factor: lower is better and larger; 23 (h264) or 30 (av1) when absent."""
    preset: Annotated[str, BeforeValidator(_preset)] | None = None
    """Encoder preset: `ultrafast` … `placebo` (h264), 0 … 13 (av1); ultrafast or 12 when absent."""


class Form(NamedTuple):
    """What a LeRobot export comes out as."""

    version: Version
    codec: Codec
    gr00t: bool


class ExportOptions(Model):
    """The LeRobot export."""

    profile: str | None = None
    """Named preset of these options (`lerobot-v3.0`, `gr00t-v2.1`); what is declared beside it wins."""
    version: Version | None = None
    """LeRobot format version; the profile's when absent, else v2.1."""
    gr00t: bool | None = None
    """Refuse what GR00T's loaders cannot read; the profile's when absent, else false."""
    fps: Rate | None = None
    """Frames per second; the recordings' own when absent."""
    robot_type: str | None = None
    """Robot's name for info.json."""
    state: tuple[str, ...] | None = None
    """Obs terms that make `observation.state`, in this order; every 1-D term when absent."""
    cameras: tuple[str, ...] | None = None
    """Cameras to export; all when absent."""
    extras: dict[str, str] = Field(default_factory=dict)
    """Further features: name → L2 path (`next.reward: rewards`), dtype kept."""
    names: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Term of the state, or L2 path (`actions`) → a name for each dimension; `<term>_<i>` when absent."""
    action_parts: dict[str, tuple[int, int]] = Field(default_factory=dict)
    """Parts of the action in modality.json: name → [start, end], which tile it; one part when absent."""
    rotation_types: dict[str, str] = Field(default_factory=dict)
    """State term or action part → its `rotation_type` in modality.json."""
    successful_only: bool | None = None
    """Leave out episodes that are not known to be successful; the profile's when absent, else false."""
    splits: bool | None = None
    """Write train and val into info.json; the profile's when absent, else true."""
    tasks: tuple[str, ...] | None = None
    """Task texts in the order of their indices in per-row `task_index` columns; as found when absent."""
    video: VideoOptions = VideoOptions()
    """Encoding."""

    def form(self) -> Form:
        """Version, codec and flavour in force: what is declared, else the profile's, else the default."""
        settings = {"version": DEFAULT_VERSION, "codec": DEFAULT_CODEC, "gr00t": False} | self._settings()
        return Form(
            self.version or settings["version"],
            self.video.codec or settings["codec"],
            settings["gr00t"] if self.gr00t is None else self.gr00t,
        )

    @model_validator(mode="after")
    def _possible(self) -> ExportOptions:
        form = self.form()
        if form.gr00t and form.version == "v3.0":
            raise problem("GR00T does not read LeRobot v3.0", "`version` v2.0 or v2.1 with `gr00t: true`")
        if form.gr00t and form.codec != "h264":
            raise problem(f"GR00T's video readers do not decode {form.codec}", "`video: {codec: h264}`")
        self._encoder_takes(form.codec)
        return self

    def _settings(self) -> dict[str, Any]:
        if self.profile is None:
            return {}
        try:
            return dict(profile(self.profile).settings)
        except MissingNameError as error:
            raise problem(f"no export profile `{self.profile}`", str(error.expected)) from error

    def _encoder_takes(self, codec: Codec) -> None:
        crf, preset = self.video.crf, self.video.preset
        if codec == "png" and (crf is not None or preset is not None):
            raise problem("`crf` and `preset` are of videos; png has none", "`codec` h264 or av1")
        if crf is not None and crf > MOST_CRF[codec]:
            raise problem(f"{codec} has no crf of {crf}", f"0 to {MOST_CRF[codec]}")
        if preset is not None and preset not in PRESETS[codec]:
            raise problem(f"{codec} has no preset `{preset}`", f"one of {', '.join(PRESETS[codec])}")

    @model_validator(mode="after")
    def _parts_tile(self) -> ExportOptions:
        spans = sorted(self.action_parts.values())
        edges = [0, *(end for _, end in spans)]
        if any(end <= start for start, end in spans) or any(
            start != edge for (start, _), edge in zip(spans, edges, strict=False)
        ):
            raise problem(
                "the parts of the action leave a gap, overlap or are empty",
                "parts that follow one another from 0, such as {arm: [0, 6], gripper: [6, 7]}",
            )
        return self
