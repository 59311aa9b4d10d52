"""Velocities of frames at a fixed rate, the way the reference makes them: differences, then a filter.

What is not here: resampling to another rate.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.motion.rotations import conjugate, multiply, to_rotation_vector

SIGMA: Final = 2.0
RADIUS: Final = 8


def gaussian(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Filter along axis 0: sigma 2 frames, radius 8, the edge value repeated beyond the ends."""
    offsets = np.arange(RADIUS + 1)
    weights = np.exp(-0.5 * (offsets / SIGMA) ** 2)
    weights /= weights[0] + 2 * weights[1:].sum()
    edges = [(RADIUS, RADIUS)] + [(0, 0)] * (values.ndim - 1)
    padded, count = np.pad(values, edges, mode="edge"), len(values)
    out: NDArray[np.float64] = weights[0] * values
    for k in range(1, RADIUS + 1):
        pair = padded[RADIUS - k : RADIUS - k + count] + padded[RADIUS + k : RADIUS + k + count]
        pair *= weights[k]
        out += pair
    return out


def linear(positions: NDArray[np.float64], fps: float) -> NDArray[np.float64]:
    """Filtered velocities of positions (n, …), n ≥ 2: central differences, one-sided at both ends."""
    out = np.empty_like(positions)
    out[1:-1] = (positions[2:] - positions[:-2]) * (fps / 2)
    out[0], out[-1] = (positions[1] - positions[0]) * fps, (positions[-1] - positions[-2]) * fps
    return gaussian(out)


def angular(quaternions: NDArray[np.float64], fps: float) -> NDArray[np.float64]:
    """Filtered angular velocities (n, …, 3) in the world's frame, rad/s, of unit quaternions (n, …, 4).

    The turn from frame t to t + 1 belongs to t; the last frame has none and is zero.
    """
    out = np.zeros((*quaternions.shape[:-1], 3))
    out[:-1] = to_rotation_vector(multiply(quaternions[1:], conjugate(quaternions[:-1]))) * fps
    return gaussian(out)


def joints(joint_pos: NDArray[np.float64], fps: float) -> NDArray[np.float64]:
    """Joint velocities (n, J), n ≥ 3: forward differences; the last row repeats row n - 3.

    Row n - 3, not n - 2: the reference appends the slice [-2:-1] of its n - 1 differences.
    """
    difference = np.diff(joint_pos, axis=0) * fps
    return np.concatenate([difference, difference[-2:-1]])
