"""Rules about statistics: claimed values against those recomputed from rows and decoded frames.

What is not here: the passes that recompute them (`lerobot_rows`, `lerobot_video`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.checks import lerobot_folder as files
from trajpipe.checks.lerobot_folder import LeRobotFolder, folder_of
from trajpipe.checks.lerobot_meta import STAGE, error
from trajpipe.checks.lerobot_moments import Moments, numbers
from trajpipe.checks.lerobot_rows import scan_of
from trajpipe.checks.lerobot_video import Frames, sampled_count, videos_of
from trajpipe.checks.registry import Subject, check
from trajpipe.core.findings import Finding, Place, Severity

_MOMENTS: Final = ("min", "max", "mean", "std")
# Official writers average in float32: relative to the largest magnitude of the dimension.
_ROW_TOLERANCE: Final = 1e-4
# Claimed before, recomputed after lossy encoding; values are in 0..1.
_FRAME_TOLERANCE: Final = {"mean": 0.03, "std": 0.06}


@check("lerobot-stats", stage=STAGE, title="Statistics equal those recomputed from the rows")
def statistics(subject: Subject) -> Iterator[Finding]:
    """Per episode (v2.1, v3.0) and of the whole dataset (stats.json); LeRobot takes NaN silently."""
    folder, scan = folder_of(subject), scan_of(subject)
    compared = 0
    per_episode = folder.layout == "v3" or folder.version == "v2.1"
    for episode in folder.episodes if per_episode else ():
        for name, moments in scan.per_episode.get(episode.index, {}).items():
            place = Place(_stats_file(folder), f"episode {episode.index}", name)
            compared += 1
            yield from _compare(episode.stats.get(name), moments, place, count=True)
    for name, moments in scan.moments.items():
        claimed = (folder.stats or {}).get(name)
        if claimed is not None:
            compared += 1
            yield from _compare(claimed, moments, Place(files.STATS, column=name), count=False)
            yield from _quantiles(folder, moments, Place(files.STATS, column=name))
    subject.count(compared, max(1, compared), "feature statistics")


def _stats_file(folder: LeRobotFolder) -> str:
    return files.EPISODES_STATS if folder.layout == "v2" else files.EPISODES_V3


def _compare(claimed: Any, moments: Moments, place: Place, *, count: bool) -> Iterator[Finding]:
    code = "lerobot-stats"
    if not isinstance(claimed, Mapping):
        yield error(code, "every numeric feature has statistics", place, "none")
        return
    scale = np.maximum(np.abs(moments.low), np.abs(moments.high)) + 1e-6
    real = dict(zip(_MOMENTS, (moments.low, moments.high, moments.mean, moments.std), strict=True))
    for name, value in real.items():
        found = numbers(claimed.get(name))
        if found is None or found.shape != value.shape:
            yield error(code, f"{name} is a list of numbers, one per dimension", place, claimed.get(name))
            continue
        with np.errstate(invalid="ignore"):
            wrong = np.flatnonzero(~(np.abs(found - value) <= _ROW_TOLERANCE * scale))
        if wrong.size:
            i = int(wrong[0])
            message = f"{name} of dimension {i} differs from the recomputed one"
            yield error(code, message, place, found[i], value[i])
    if count and numbers(claimed.get("count")) is not None and claimed["count"] != [moments.count]:
        yield error(code, "count is the number of rows", place, claimed["count"], [moments.count])
    if count and "count" not in claimed:
        yield error(code, "LeRobot aggregates with count", place, "no count")


def _quantiles(folder: LeRobotFolder, moments: Moments, place: Place) -> Iterator[Finding]:
    """Official v3.0 writers average the episodes' quantiles, which is a warning there."""
    severity = Severity.WARN if folder.layout == "v3" else Severity.ERROR
    for name, claim in moments.claims.items():
        wrong = np.flatnonzero(moments.quantile_is_wrong(name))
        if wrong.size:
            i = int(wrong[0])
            got = f"{claim[i]}: {moments.below[name][i]} of {moments.count} rows below"
            message = f"{name} of dimension {i} is not that quantile of the rows"
            yield error("lerobot-stats", message, place, got, severity=severity)


@check("lerobot-image-stats", stage=STAGE, title="Camera statistics fit the decoded frames")
def image_statistics(subject: Subject) -> Iterator[Finding]:
    """(3,1,1) in 0..1, count = sampled frames; mean and std near those of the decoded frames."""
    folder = folder_of(subject)
    if not folder.cameras:
        return
    found = videos_of(subject).frames
    compared = 0
    per_episode = folder.layout == "v3" or folder.version == "v2.1"
    for episode in folder.episodes if per_episode else ():
        for camera in folder.cameras:
            frames = found.get((camera, episode.index))
            if frames is None or not frames.number:
                continue
            compared += 1
            place = Place(_stats_file(folder), f"episode {episode.index}", camera)
            yield from _compare_frames(episode.stats.get(camera), frames, place, episode.length)
    for camera in folder.cameras:
        claimed = (folder.stats or {}).get(camera)
        seen = {e.index: f for e in folder.episodes if (f := found.get((camera, e.index))) and f.number}
        if claimed is not None and seen:
            compared += 1
            weights = [sampled_count(e.length) for e in folder.episodes if e.index in seen]
            joined = Frames.joined(list(seen.values()), weights)
            yield from _compare_frames(claimed, joined, Place(files.STATS, column=camera), None)
    if per_episode or compared:
        subject.count(compared, max(1, compared), "camera statistics")


def _compare_frames(claimed: Any, frames: Frames, place: Place, length: int | None) -> Iterator[Finding]:
    code = "lerobot-image-stats"
    if not isinstance(claimed, Mapping):
        yield error(code, "every camera has statistics", place, "none")
        return
    real = {"mean": frames.mean, "std": frames.std}
    for name in _MOMENTS:
        values = _channels(claimed.get(name))
        if values is None:
            yield error(code, f"{name} has the shape (3, 1, 1)", place, claimed.get(name))
        elif not ((values >= 0) & (values <= 1)).all():
            yield error(code, f"{name} lies in 0..1", place, values.tolist())
        elif name in real and (np.abs(values - real[name]) > _FRAME_TOLERANCE[name]).any():
            message = f"{name} is far from that of the decoded frames"
            yield error(code, message, place, values.round(4).tolist(), real[name].round(4).tolist())
    if length is not None and claimed.get("count") != [sampled_count(length)]:
        severity = Severity.ERROR if numbers(claimed.get("count")) is None else Severity.WARN
        message = "count is the number of frames used"
        yield error(code, message, place, claimed.get("count"), [sampled_count(length)], severity)


def _channels(value: Any) -> NDArray[np.float64] | None:
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        return None
    return array.reshape(3) if array.shape == (3, 1, 1) else None
