"""The episode-length histogram.

    picture = episode_lengths(lengths, fps=20)

What is not here: reading the lengths, see `trajpipe.pipeline.pictures`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.report.axes import Axes, number
from trajpipe.report.canvas import BLUE, MUTED, Canvas
from trajpipe.report.picture import Picture

NAME: Final = "episode lengths"
MAX_BINS: Final = 40


def episode_lengths(lengths: NDArray[Any], fps: float | None = None) -> Picture | None:
    """How many episodes are how long.

    Args:
        lengths: (E,) rows of every episode.
        fps: Rows per second, for the caption; None when not known.

    Returns:
        The picture; None without episodes.
    """
    if not len(lengths):
        return None
    counts, edges = length_histogram(lengths)
    canvas = Canvas(640, 220)
    axes = Axes(canvas, (46, 14, 624, 176), (float(edges[0]), float(edges[-1])), (0.0, counts.max() * 1.05))
    axes.frame(x_ticks=min(6, int(edges[-1] - edges[0])), y_ticks=min(4, int(counts.max()) + 1))
    axes.bars(edges, counts, BLUE)
    axes.label(x="rows of an episode")
    canvas.text(624, 8, "episodes per bin", anchor="rm", size=10, colour=MUTED)
    return Picture(NAME, canvas.png(), _caption(lengths, fps))


def length_histogram(lengths: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Counts (B,) and edges (B + 1,): bins of a whole number of rows, at most 40; each length in one bin."""
    low, high = int(np.min(lengths)), int(np.max(lengths))
    step = -(-(high - low + 1) // MAX_BINS)
    bins = -(-(high - low + 1) // step)
    edges = low - 0.5 + step * np.arange(bins + 1, dtype=np.float64)
    return np.histogram(lengths, edges)[0].astype(np.int64), edges


def _caption(lengths: NDArray[Any], fps: float | None) -> str:
    low, middle, high = int(np.min(lengths)), float(np.median(lengths)), int(np.max(lengths))
    word = "episode" if len(lengths) == 1 else "episodes"
    rate = f"; at {number(fps)} Hz " if fps else ""
    if low == high:
        return f"{len(lengths):,} {word} of {low:,} rows" + (f"{rate}{number(low / fps)} s" if fps else "")
    text = f"{len(lengths):,} {word} of {low:,} to {high:,} rows, median {number(middle)}"
    return text + (f"{rate}{number(low / fps)} s to {number(high / fps)} s" if fps else "")
