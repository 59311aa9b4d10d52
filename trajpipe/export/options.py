"""What an export is asked for, and what it hands back.

What is not here: the named presets of these options, see `trajpipe.export.profiles`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import Any, Final, Literal

from trajpipe.core.errors import UsageError
from trajpipe.core.findings import Finding
from trajpipe.core.ledger import Rejection
from trajpipe.core.names import DATASET_ACTIONS

Version = Literal["v2.0", "v2.1", "v3.0"]
Codec = Literal["h264", "av1", "png"]
VERSIONS: Final = ("v2.0", "v2.1", "v3.0")
CODECS: Final = ("h264", "av1", "png")
DEFAULT_VERSION: Final[Version] = "v2.1"
DEFAULT_CRF: Final = {"h264": 23, "av1": 30}
MOST_CRF: Final[dict[Codec, int]] = {"h264": 51, "av1": 63, "png": 0}
# ultrafast: twice the rate of veryfast and 2 dB better at the same crf, for 1.6 times its size.
DEFAULT_PRESET: Final = {"h264": "ultrafast", "av1": "12"}
# Raised when the same episodes and options must give other bytes.
EXPORT_CODE: Final = "lerobot-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """How to write a LeRobot dataset. Everything but `workers` can change the bytes.

    Attributes:
        fps: Frames per second, exact (`Fraction(30000, 1001)` for 29.97).
        version: `codebase_version` of the result.
        robot_type: Free text for info.json.
        state: Obs terms concatenated in this order into `observation.state` float32; None = every
            one-dimensional numeric term in natural order; () = no state.
        action: L2 path of the actions, written as `action` float32.
        cameras: Obs terms written as `observation.images.<term>`; None = every image term in natural order.
        extras: Further features: name → L2 path (`{"next.reward": "rewards"}`), dtype kept.
        names: L2 term or path → a name per dimension; others get `<term>_<i>`.
        codec: `h264`, `av1`, or `png` (image columns in the parquet files).
        crf: Constant rate factor; None = 23 (h264) or 30 (av1).
        preset: Encoder preset; None = `ultrafast` (h264) or `12` (av1).
        task: Task text of episodes that have none.
        tasks: Table of texts for episodes with a per-row `task_index` column.
        action_parts: modality.json's parts of the action: name → (start, end), tiling it exactly.
        rotation_types: modality.json's `rotation_type` of a state term or action part (`quaternion`).
        gr00t: Refuse what GR00T's loaders cannot read.
        splits: Write LeRobot's `splits` from the episodes' splits (train first, then val).
        successful_only: Leave out episodes that are not known to be successful; each is a rejection.
        chunk_size: Episodes (v2.x) or files (v3.0) per chunk folder.
        data_mb: v3.0: size at which a new data file starts.
        video_mb: v3.0: size at which a new video file starts.
        workers: Encoder threads.
    """

    fps: Fraction
    version: Version = DEFAULT_VERSION
    robot_type: str = "unknown"
    state: tuple[str, ...] | None = None
    action: str = DATASET_ACTIONS
    cameras: tuple[str, ...] | None = None
    extras: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    codec: Codec = "h264"
    crf: int | None = None
    preset: str | None = None
    task: str = ""
    tasks: tuple[str, ...] = ()
    action_parts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    rotation_types: Mapping[str, str] = field(default_factory=dict)
    gr00t: bool = False
    splits: bool = True
    successful_only: bool = False
    chunk_size: int = 1000
    data_mb: int = 100
    video_mb: int = 200
    workers: int = 2

    def __post_init__(self) -> None:
        _one_of("version", self.version, VERSIONS)
        _one_of("codec", self.codec, CODECS)
        if self.fps <= 0:
            raise UsageError("fps is a positive number", got=self.fps)
        for name in ("chunk_size", "data_mb", "video_mb", "workers"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is at least 1", got=getattr(self, name))
        most = MOST_CRF[self.codec]
        if self.crf is not None and not 0 <= self.crf <= most:
            raise UsageError(f"no such crf of {self.codec}", got=self.crf, expected=f"0 to {most}")
        if self.gr00t and self.version == "v3.0":
            raise UsageError("GR00T reads v2.0 and v2.1 only", got=self.version, expected="v2.0 or v2.1")
        if self.gr00t and self.codec != "h264":
            raise UsageError("GR00T's video readers decode h264 only", got=self.codec, expected="h264")

    @property
    def quality(self) -> int:
        """The crf in force."""
        return DEFAULT_CRF.get(self.codec, 0) if self.crf is None else self.crf

    @property
    def speed(self) -> str:
        """The encoder preset in force."""
        return DEFAULT_PRESET.get(self.codec, "") if self.preset is None else self.preset

    def to_json(self) -> dict[str, Any]:
        """Plain form of everything that changes the bytes, for the recipe."""
        value = asdict(self)
        del value["workers"]
        return value | {"fps": str(self.fps), "crf": self.quality, "preset": self.speed}

    def check_context(self) -> dict[str, Any]:
        """What the checks of the stage `lerobot` must know of these options, beside the `l2` files."""
        return {
            "gr00t": self.gr00t,
            "state": self.state,
            "action": self.action,
            "extras": dict(self.extras),
            "names": {term: list(given) for term, given in self.names.items()},
            "successful_only": self.successful_only,
        }


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise UsageError(f"no such {name}", got=value, expected=f"one of {', '.join(allowed)}")


@dataclass(frozen=True, slots=True)
class ExportResult:
    """What was written.

    Attributes:
        version: `codebase_version`.
        episodes: Episodes written.
        frames: Rows written.
        tasks: Texts by task index.
        features: info.json's features.
        splits: info.json's splits.
        tags: `source` tag → episodes.
        rejected: Episodes read and not written.
        rejected_at: Where each of them came in the order given, from 0.
        notes: INFO findings: terms left out, tasks filled in, …
    """

    version: str
    episodes: int
    frames: int
    tasks: tuple[str, ...]
    features: Mapping[str, Any]
    splits: Mapping[str, str]
    tags: Mapping[str, int]
    rejected: tuple[Rejection, ...] = ()
    rejected_at: tuple[int, ...] = ()
    notes: tuple[Finding, ...] = ()
