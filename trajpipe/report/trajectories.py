"""Values over time of a few episodes: one small diagram for each dimension, one colour for each episode.

    picture = trajectories("joint plots", [Curve("demo_0", values)], labels, "3 of 500 episodes", step_s=0.05)

What is not here: reading rows, see `trajpipe.pipeline.pictures`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.report.axes import Axes, finite_range, padded
from trajpipe.report.canvas import SERIES, Canvas, fitted, text_width
from trajpipe.report.picture import Picture

MAX_CURVES: Final = 6
MAX_DIMENSIONS: Final = 12
MAX_POINTS: Final = 400
_WIDTH: Final = 640
_TOP: Final = 24
_ACROSS: Final = 3
_HEIGHT: Final = 104


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Rows of one episode.

    Attributes:
        label: Name of the episode.
        values: (T, D)
        start: Number of the first of these rows in its episode.
    """

    label: str
    values: NDArray[Any]
    start: int = 0


def trajectories(
    name: str, curves: Sequence[Curve], labels: Sequence[str], caption: str, *, step_s: float | None = None
) -> Picture | None:
    """Curves over time, of at most 6 episodes and 12 dimensions.

    Args:
        name: Of the picture.
        curves: Episodes, of the same D dimensions.
        labels: D names.
        caption: Which episodes of how many.
        step_s: Seconds from row to row; None draws over row numbers.

    Returns:
        The picture; None without rows or dimensions.
    """
    drawn = [curve for curve in curves[:MAX_CURVES] if curve.values.size]
    if not drawn:
        return None
    count = drawn[0].values.shape[1]
    shown = min(count, MAX_DIMENSIONS)
    canvas = Canvas(_WIDTH, _TOP + -(-shown // _ACROSS) * _HEIGHT + 12)
    _legend(canvas, drawn)
    scale = step_s or 1.0
    end = max(curve.start + len(curve.values) - 1 for curve in drawn) * scale
    begin = min(curve.start for curve in drawn) * scale
    for index in range(shown):
        axes = _panel(canvas, index, (begin, max(end, begin + scale)), drawn)
        axes.frame(x_ticks=3, y_ticks=3)
        axes.label(title=fitted(labels[index], 150))
        for colour, curve in zip(SERIES, drawn, strict=False):
            rows = np.unique(np.linspace(0, len(curve.values) - 1, MAX_POINTS).round().astype(np.int64))
            axes.plot((curve.start + rows) * scale, curve.values[rows, index], colour)
    canvas.text(_WIDTH - 8, 8, "seconds" if step_s else "rows", anchor="rm", size=10)
    more = f"; {shown} of {count} dimensions shown" if shown < count else ""
    return Picture(name, canvas.png(), caption + more)


def _panel(canvas: Canvas, index: int, x: tuple[float, float], curves: Sequence[Curve]) -> Axes:
    width = _WIDTH / _ACROSS
    left, top = index % _ACROSS * width, _TOP + index // _ACROSS * _HEIGHT
    ranges = np.array([finite_range(curve.values[:, index]) for curve in curves])
    y = padded(float(ranges[:, 0].min()), float(ranges[:, 1].max()), 0.08)
    return Axes(canvas, (left + 42, top + 20, left + width - 8, top + _HEIGHT - 16), x, y)


def _legend(canvas: Canvas, curves: Sequence[Curve]) -> None:
    at = 10.0
    for colour, curve in zip(SERIES, curves, strict=False):
        label = fitted(curve.label, 84, 10)
        canvas.box((at, 6, at + 10, 10), colour)
        canvas.text(at + 14, 8, label, size=10)
        at += 22 + text_width(label, 10)
