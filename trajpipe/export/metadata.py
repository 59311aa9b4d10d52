"""The JSON files of `meta/`: info.json's features, modality.json, one line per episode and task.

UTF-8, LF, no blank line, no NaN token. What is not here: statistics, and who calls this when.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from trajpipe.core import jsontext, names
from trajpipe.core.episode import Episode
from trajpipe.core.errors import SchemaError
from trajpipe.export.features import ACTION, BOOKKEEPING, IMAGES, STATE, Feature
from trajpipe.export.options import ExportOptions
from trajpipe.export.statistics import Stats
from trajpipe.export.video import PIXEL_FORMAT

META: Final = "meta"
CHANNELS: Final = ("height", "width", "channels")


@dataclass(slots=True)
class EpisodeRecord:
    """One exported episode.

    Attributes:
        index: Dense episode index.
        length: Rows.
        first_row: Global index of its first row.
        tasks: Texts in order of first appearance.
        keys: Our own keys, the same ones with the same types on every episode.
        stats: Feature → statistics.
    """

    index: int
    length: int
    first_row: int
    tasks: tuple[str, ...]
    keys: Mapping[str, Any]
    stats: dict[str, Stats] = field(default_factory=dict)

    def line(self) -> dict[str, Any]:
        """The episode's line of episodes.jsonl."""
        return {"episode_index": self.index, "tasks": list(self.tasks), "length": self.length, **self.keys}


@dataclass(frozen=True, slots=True)
class Summary:
    """Totals of a finished export.

    Attributes:
        features: User features in order.
        episodes: Episodes written.
        frames: Rows written.
        tasks: Texts by index.
        splits: LeRobot's splits.
    """

    features: tuple[Feature, ...]
    episodes: int
    frames: int
    tasks: tuple[str, ...]
    splits: Mapping[str, str]

    @property
    def videos(self) -> list[Feature]:
        """The video features."""
        return [f for f in self.features if f.kind == "video"]


def episode_keys(episode: Episode) -> dict[str, Any]:
    """Our keys for an episode; an absent value is empty, never missing: LeRobot drops or crashes on gaps."""
    return {
        names.EPISODE_SOURCE: str(episode.tag),
        names.EPISODE_SUCCESS: bool(episode.success_as if episode.success is None else episode.success),
        names.EPISODE_SUCCESS_KNOWN: success_known(episode),
        names.EPISODE_SOURCE_FILE: Path(episode.source_file).name,
        names.EPISODE_SOURCE_DEMO: episode.source_demo or episode.name,
        names.EPISODE_CONTENT: episode.content_sha256,
        names.EPISODE_SPLIT: episode.split or names.Split.TRAIN.value,
    }


def success_known(episode: Episode) -> bool:
    """False when the source did not say whether the episode succeeded."""
    return episode.success is not None


def rate(fps: Fraction) -> int | float:
    """Fps as JSON holds it: an integer when it is one."""
    return int(fps) if fps.denominator == 1 else float(fps)


def info_features(features: Sequence[Feature], options: ExportOptions) -> dict[str, Any]:
    """info.json's `features`: ours in order, then LeRobot's five columns."""
    out = {f.name: _info_feature(f, options) for f in features}
    return out | {name: {"dtype": kind, "shape": [1], "names": None} for name, kind in BOOKKEEPING.items()}


def _info_feature(feature: Feature, options: ExportOptions) -> dict[str, Any]:
    value: dict[str, Any] = {"dtype": feature.dtype, "shape": list(feature.shape)}
    if feature.kind == "rows":
        return value | {"names": None if feature.names is None else list(feature.names)}
    value["names"] = list(CHANNELS)
    if feature.kind == "image":
        return value
    height, width, channels = feature.shape
    return value | {
        "info": {
            "video.height": height,
            "video.width": width,
            "video.codec": options.codec,
            "video.pix_fmt": PIXEL_FORMAT,
            "video.is_depth_map": False,
            "video.fps": rate(options.fps),
            "video.channels": channels,
            "has_audio": False,
        }
    }


def modality(features: Sequence[Feature], options: ExportOptions) -> dict[str, Any]:
    """GR00T's modality.json: named slices that tile state and action exactly, cameras, the annotation.

    Raises:
        SchemaError: the configured action parts do not tile the action.
    """
    by_name = {f.name: f for f in features}
    state = by_name.get(STATE)
    parts = [] if state is None else [(p.rsplit("/", 1)[-1], a, b) for p, a, b in state.parts]
    videos = {f.name.removeprefix(IMAGES): {"original_key": f.name} for f in features if f.kind != "rows"}
    return {
        "state": {name: _slice(name, a, b, options) for name, a, b in parts},
        "action": {name: _slice(name, a, b, options) for name, a, b in _action_parts(by_name, options)},
        "video": videos,
        "annotation": {"human.task_description": {"original_key": "task_index"}},
    }


def _slice(name: str, start: int, end: int, options: ExportOptions) -> dict[str, Any]:
    value: dict[str, Any] = {"start": start, "end": end}
    rotation = options.rotation_types.get(name)
    return value | ({"rotation_type": rotation} if rotation else {})


def _action_parts(by_name: Mapping[str, Feature], options: ExportOptions) -> list[tuple[str, int, int]]:
    width = by_name[ACTION].shape[0]
    if not options.action_parts:
        return [(ACTION, 0, width)]
    parts = sorted(((n, a, b) for n, (a, b) in options.action_parts.items()), key=lambda part: part[1])
    ends = [0, *(end for _, _, end in parts)]
    tiled = all(start == ends[i] and start < end for i, (_, start, end) in enumerate(parts))
    if not tiled or ends[-1] != width:
        raise SchemaError(
            "the configured action parts must tile the action exactly",
            got=", ".join(f"{n} {a}:{b}" for n, a, b in parts),
            expected=f"0:{width} without gap or overlap",
            code="action-parts",
        )
    return parts


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON object in its own key order, four spaces of indent as LeRobot does."""
    write_text(path, jsontext.dumps(value, indent=4, sort_keys=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text with LF line ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")


def line(value: Mapping[str, Any]) -> str:
    """One line of a jsonl file in its own key order."""
    return jsontext.dumps(value, sort_keys=False) + "\n"
