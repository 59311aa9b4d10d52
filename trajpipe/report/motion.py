"""Pictures of a motion store: the root's path from above, foot heights over time, joints within their limits.

What is not here: judging the motion, see `trajpipe.checks.store_lafan`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import h5py
import numpy as np
from numpy.typing import NDArray

from trajpipe.core import names
from trajpipe.hdf5.attributes import plain
from trajpipe.hdf5.files import open_hdf5
from trajpipe.motion.g1 import FEET, JOINTS, g1
from trajpipe.report.canvas import one_line
from trajpipe.report.figures import figure, png_of

ROOT_PATH: Final = "root path"
FOOT_HEIGHTS: Final = "foot heights"
JOINT_LIMITS: Final = "joint limits"
MAX_CLIPS: Final = 10
MAX_POINTS: Final = 1500
_BLOCK: Final = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class _Shown:
    """What the pictures show, thinned."""

    clips: list[tuple[str, NDArray[Any]]]
    seconds: NDArray[Any]
    heights: NDArray[Any]
    low: NDArray[Any]
    high: NDArray[Any]


def motion_pictures(store: Path) -> dict[str, bytes]:
    """PNG pictures of a motion store, each of at most 30 kB.

    Args:
        store: A trajectory store.

    Returns:
        Name → PNG bytes; empty when the store is not one of motions.

    Raises:
        UnreadableError: it cannot be opened.
    """
    with open_hdf5(store) as file:
        if names.COLUMN_MOTION_ID not in file or names.COLUMN_BODY_POS not in file:
            return {}
        shown = _read(file)
    return {
        ROOT_PATH: _root_path(shown),
        FOOT_HEIGHTS: _foot_heights(shown),
        JOINT_LIMITS: _joint_limits(shown),
    }


def _read(file: h5py.File) -> _Shown:
    lengths, offsets = file[names.STORE_EP_LEN][()], file[names.STORE_EP_OFFSET][()]
    keys = [str(plain(v)) for v in file[names.SIDE_MOTION_KEY][()].tolist()]
    clips = []
    for key, start, count in list(zip(keys, offsets.tolist(), lengths.tolist(), strict=False))[:MAX_CLIPS]:
        step = max(1, count // MAX_POINTS)
        clips.append((key, file[names.COLUMN_QPOS][start : start + count : step, :2]))
    count = int(lengths[0])
    step = max(1, count // MAX_POINTS)
    columns = [3 * g1().body(foot) + 2 for foot in FEET]
    heights = file[names.COLUMN_BODY_POS][0:count:step][:, columns]
    low, high = np.full(len(JOINTS), np.inf), np.full(len(JOINTS), -np.inf)
    for start in range(0, file[names.COLUMN_QPOS].shape[0], _BLOCK):
        angles = file[names.COLUMN_QPOS][start : start + _BLOCK, 7:]
        low, high = np.minimum(low, angles.min(axis=0)), np.maximum(high, angles.max(axis=0))
    seconds = np.arange(len(heights)) * step * float(np.ravel(file[names.SIDE_ENV_DT][()])[0])
    return _Shown(clips, seconds, heights, low, high)


def _root_path(shown: _Shown) -> bytes:
    drawn, axes = figure(4.5, 4.0)
    for name, path in shown.clips:
        axes.plot(path[:, 0], path[:, 1], linewidth=0.8, label=one_line(name[:28]))
        axes.plot(path[:1, 0], path[:1, 1], "o", color="black", markersize=3)
    axes.set_aspect("equal", adjustable="datalim")
    axes.set(xlabel="x, m", ylabel="y, m", title="Root from above (dot: start)")
    if len(shown.clips) > 1:
        axes.legend(fontsize=6)
    return png_of(drawn)


def _foot_heights(shown: _Shown) -> bytes:
    drawn, axes = figure(6.5, 2.6)
    for index, foot in enumerate(FEET):
        axes.plot(shown.seconds, shown.heights[:, index], linewidth=0.7, label=foot.split("_", 1)[0])
    axes.axhline(0.0, color="black", linewidth=0.6)
    axes.set(xlabel="s", ylabel="m", title=f"Ankle heights, {one_line(shown.clips[0][0][:40])}")
    axes.legend(fontsize=7)
    return png_of(drawn)


def _joint_limits(shown: _Shown) -> bytes:
    """Grey: what the model allows; coloured: what the motions use, red where they go beyond."""
    drawn, axes = figure(5.5, 5.0)
    at = np.arange(len(JOINTS))
    ranges = g1().ranges
    axes.barh(at, ranges[:, 1] - ranges[:, 0], left=ranges[:, 0], height=0.8, color="0.85")
    beyond = (shown.low < ranges[:, 0] - 1e-4) | (shown.high > ranges[:, 1] + 1e-4)
    colours = np.where(beyond, "tab:red", "tab:blue")
    axes.barh(at, shown.high - shown.low, left=shown.low, height=0.45, color=colours.tolist())
    axes.set_yticks(at, [joint.removesuffix("_joint") for joint in JOINTS], fontsize=6)
    axes.invert_yaxis()
    axes.set(xlabel="rad", title="Joint angles within their limits")
    return png_of(drawn)
