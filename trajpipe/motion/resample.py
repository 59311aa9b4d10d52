"""Resampling frames of one rate to another: how many rows, between which frames, and the blends.

What is not here: what the rows mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trajpipe.motion.rotations import slerp


@dataclass(frozen=True, slots=True, eq=False)
class Resampling:
    """For each new row the two frames that it lies between.

    Attributes:
        first: (rows,) frame at or before.
        second: (rows,) the next frame, the last one at the end.
        blend: (rows,) float64 in [0, 1], how far from the first to the second.
    """

    first: NDArray[np.intp]
    second: NDArray[np.intp]
    blend: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.blend)

    def linear(self, frames: NDArray[np.float64]) -> NDArray[np.float64]:
        """Blend of frames (n, …), (rows, …)."""
        blend = self.blend.reshape(-1, *[1] * (frames.ndim - 1))
        out = frames[self.first]
        out *= 1 - blend
        other = frames[self.second]
        other *= blend
        out += other
        return out

    def rotations(self, frames: NDArray[np.float64]) -> NDArray[np.float64]:
        """Spherical blend of unit quaternions (n, …, 4), (rows, …, 4)."""
        blend = self.blend.reshape(-1, *[1] * (frames.ndim - 2))
        return slerp(frames[self.first], frames[self.second], blend)


def duration_of(frames: int, fps: float) -> float:
    """Seconds from the first frame to the last, rounded to float32 as the reference's are."""
    return float(np.float32((1.0 / fps) * (frames - 1)))


def resampling(frames: int, fps: float, step: float) -> Resampling:
    """The rows `0, step, 2 step, …` of a clip: ceil(duration / step) of them.

    Args:
        frames: How many frames there are.
        fps: Their rate.
        step: Seconds between the new rows.
    """
    rows = math.ceil(duration_of(frames, fps) / step)
    at = np.minimum(np.arange(rows) * step * fps, frames - 1)
    first = np.floor(at).astype(np.intp)
    return Resampling(first, np.minimum(first + 1, frames - 1), at - first)
