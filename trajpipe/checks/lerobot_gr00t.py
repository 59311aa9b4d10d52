"""Rules that GR00T's loaders (N1.5 to N1.7) follow: modality.json, stats.json without count, names, codec.

Warnings unless the context says `gr00t`, then errors. What is not here: what LeRobot itself needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from trajpipe.checks import lerobot_folder as files
from trajpipe.checks.lerobot_folder import LeRobotFolder, folder_of
from trajpipe.checks.lerobot_meta import STAGE, error
from trajpipe.checks.registry import Subject, check
from trajpipe.core.findings import Finding, Place, Severity

_SIX: Final = {"mean", "std", "min", "max", "q01", "q99"}
# NVIDIA's own sample names no part for some dimensions.
_UNNAMED: Final = "some dimensions have no named part in"
_DEFAULT_KEYS: Final = {"state": "observation.state", "action": "action"}


@check("lerobot-gr00t", stage=STAGE, title="GR00T's loaders can read the dataset", blocking=False)
def gr00t(subject: Subject) -> Iterator[Finding]:
    """Read from GR00T's documentation and loaders; they are not run here."""
    folder = folder_of(subject)
    severity = Severity.ERROR if subject.context.get("gr00t") else Severity.WARN
    subject.count(1, 1, "folders")
    for message, place, got, expected in _problems(folder):
        mild = message.startswith(_UNNAMED)
        yield error("lerobot-gr00t", message, place, got, expected, Severity.WARN if mild else severity)


_Problem = tuple[str, Place, object | None, object | None]


def _problems(folder: LeRobotFolder) -> Iterator[_Problem]:
    if folder.layout == "v3":
        yield "GR00T reads v2.0 and v2.1", Place(files.INFO), folder.version, "v2.0 or v2.1"
        return
    if folder.modality is None:
        yield "GR00T needs meta/modality.json", Place(files.MODALITY), "no such file", None
    else:
        yield from _modality(folder, folder.modality)
    yield from _statistics(folder)
    for name in folder.cameras:
        info = folder.features[name].get("info") or folder.features[name].get("video_info") or {}
        place = Place(files.INFO, column=name)
        if info.get("video.codec") != "h264":
            yield "GR00T's video readers decode h264", place, info.get("video.codec"), "h264"
        names = folder.features[name].get("names")
        wanted = names if isinstance(names, list) else []
        if wanted[:2] != ["height", "width"] or len(wanted) != 3:
            yield "a camera's names are height, width, channels", place, names, None
        if "video.fps" not in info:
            yield "GR00T reads video.fps", place, "none", None
    if not folder.cameras:
        yield "GR00T needs a camera", Place(files.INFO), "none", None


def _modality(folder: LeRobotFolder, modality: Mapping[str, Any]) -> Iterator[_Problem]:
    for group, default in _DEFAULT_KEYS.items():
        parts = modality.get(group)
        place = Place(files.MODALITY, column=group)
        if not isinstance(parts, dict) or not parts:
            yield f"modality.json needs {group}", place, parts, None
            continue
        by_key: dict[str, list[tuple[int, int, str]]] = {}
        for name, part in parts.items():
            if not isinstance(part, dict) or not all(isinstance(part.get(k), int) for k in ("start", "end")):
                yield "a part has start and end", place, f"{name}: {part}", None
                continue
            key = str(part.get("original_key", default))
            by_key.setdefault(key, []).append((part["start"], part["end"], name))
        for key, spans in by_key.items():
            yield from _tiling(folder, key, sorted(spans), place)
    yield from _originals(folder, modality)


def _tiling(
    folder: LeRobotFolder, key: str, spans: list[tuple[int, int, str]], place: Place
) -> Iterator[_Problem]:
    spec = folder.features.get(key)
    if spec is None:
        yield "a part's original key is a feature", place, key, ", ".join(folder.features)
        return
    width = (spec.get("shape") or [0])[0]
    if width < 2:
        yield "GR00T cannot stack a column of width 1", Place(files.INFO, column=key), width, "2 or more"
    if not str(spec.get("dtype", "")).startswith("float"):
        yield "state and action are floats", Place(files.INFO, column=key), spec.get("dtype"), "float32"
    got = ", ".join(f"{n} {a}:{b}" for a, b, n in spans)
    ends = [0, *(end for _, end, _ in spans)]
    if ends[-1] > width or any(start < ends[i] or end <= start for i, (start, end, _) in enumerate(spans)):
        yield f"the parts lie within {key} and do not overlap", place, got, f"within 0:{width}"
    elif sum(end - start for start, end, _ in spans) != width:
        yield f"{_UNNAMED} {key}", place, got, f"0:{width}"


def _originals(folder: LeRobotFolder, modality: Mapping[str, Any]) -> Iterator[_Problem]:
    for group in ("video", "annotation"):
        parts = modality.get(group, {})
        for name, part in (parts if isinstance(parts, dict) else {}).items():
            default = f"annotation.{name}" if group == "annotation" else name
            key = part.get("original_key", default) if isinstance(part, dict) else None
            spec = folder.features.get(str(key))
            fits = spec is not None and (spec.get("dtype") == "video") is (group == "video")
            if not fits:
                what = "a video feature" if group == "video" else "a column"
                yield (
                    f"{group}.{name}'s original key is {what}",
                    Place(files.MODALITY, column=group),
                    key,
                    None,
                )


def _statistics(folder: LeRobotFolder) -> Iterator[_Problem]:
    if folder.stats is None:
        yield "GR00T needs meta/stats.json", Place(files.STATS), "no such file", None
        return
    for key in _DEFAULT_KEYS.values():
        if key not in folder.features:
            continue
        place = Place(files.STATS, column=key)
        claimed = folder.stats.get(key)
        found = set(claimed) if isinstance(claimed, dict) else set()
        if found != _SIX:
            message = "exactly six statistics; with count GR00T N1.5 raises IndexError"
            yield message, place, ", ".join(sorted(found)), ", ".join(sorted(_SIX))
            continue
        width = (folder.features[key].get("shape") or [0])[0]
        for name, values in (claimed or {}).items():
            if not isinstance(values, list) or len(values) != width:
                yield f"{name} has one value per dimension", place, values, width
