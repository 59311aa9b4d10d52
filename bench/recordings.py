"""Data for the benchmarks: joint-like motion, rendered-like frames, episode bounds.

What is not here: timing.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

_PART = 1 << 18


def motion(rows: int, width: int, seed: int = 0) -> NDArray[np.float32]:
    """Joint-like float32 (rows, width): slow sines and a little noise."""
    rng = np.random.default_rng(seed)
    t = np.arange(rows, dtype=np.float32)[:, None] * 0.02
    rates = np.linspace(0.3, 3, width, dtype=np.float32)
    out = rng.standard_normal((rows, width), dtype=np.float32)
    out *= 1e-3
    for start in range(0, rows, _PART):
        out[start : start + _PART] += np.sin(t[start : start + _PART] * rates)
    return out


def scene(count: int, size: int = 128, cameras: int = 2) -> NDArray[np.uint8]:
    """Rendered-like frames (count, cameras, 3, size, size) of a still camera: texture, and moving discs."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[0:size, 0:size].astype(np.float32) / size
    out = np.empty((count, cameras, 3, size, size), np.uint8)
    for camera in range(cameras):
        wall = np.stack([140 + 40 * y, 120 + 50 * x, 110 + 40 * y * x])
        wall += np.kron(rng.standard_normal((3, size // 8, size // 8)), np.ones((8, 8))) * 8
        wall += rng.standard_normal((3, size, size)) * 3
        for frame in range(count):
            image = wall.copy()
            for disc in range(4):
                cx = 0.5 + 0.35 * np.sin(frame * 0.02 * (disc + 1) + camera)
                cy = 0.6 + 0.25 * np.cos(frame * 0.017 * (disc + 1))
                inside = (x - cx) ** 2 + (y - cy) ** 2 < (0.06 + 0.02 * disc) ** 2
                shade = 1 - 2 * ((x - cx) ** 2 + (y - cy) ** 2)
                image[:, inside] = (np.array([[220], [60 * disc], [90]]) * shade[inside]).clip(0, 255)
            out[frame, camera] = image.clip(0, 255)
    return out


def bounds(rows: int, seed: int = 1) -> list[tuple[int, int]]:
    """Episodes of 200 to 1000 rows that cover `rows`."""
    rng, edges = np.random.default_rng(seed), [0]
    while edges[-1] < rows:
        edges.append(min(rows, edges[-1] + int(rng.integers(200, 1001))))
    return list(itertools.pairwise(edges))
