"""Distributions of actions or states: a histogram for each dimension, with the declared range behind it.

    picture = distribution("action distribution", values, labels, "40 of 500 episodes", declared=(low, high))

Each dimension has a scale of its own; what lies outside the declared range is red and counted.
What is not here: reading rows, see `trajpipe.pipeline.pictures`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trajpipe.report.axes import Axes, finite_range, number, padded
from trajpipe.report.canvas import BAND, BLUE, GRID, MUTED, RED, Canvas, fitted
from trajpipe.report.picture import Picture

BINS: Final = 48
MAX_DIMENSIONS: Final = 48
_WIDTH: Final = 640
_ROW: Final = 24
_ONE_COLUMN: Final = 10
_TOLERANCE: Final = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """How the values of one dimension are spread.

    Attributes:
        edges: (B + 1,)
        counts: (B,)
        outside: Values beyond the declared range.
        low: Least finite value.
        high: Greatest finite value.
        not_finite: NaN and infinite values.
    """

    edges: NDArray[np.float64]
    counts: NDArray[np.int64]
    outside: int
    low: float
    high: float
    not_finite: int


def histogram(values: NDArray[Any], declared: tuple[float, float] | None = None) -> Histogram:
    """The histogram of one dimension; its bins span the data and the declared range.

    Args:
        values: (N,) of any numeric type.
        declared: Lower and upper bound, or None; a millionth of the range is forgiven.
    """
    numbers = np.asarray(values, np.float64)
    finite = numbers[np.isfinite(numbers)]
    low, high = finite_range(numbers)
    span, outside = padded(low, high), 0
    if declared is not None:
        slack = _TOLERANCE * (declared[1] - declared[0])
        outside = int(((finite < declared[0] - slack) | (finite > declared[1] + slack)).sum())
        span = padded(min(low, declared[0]), max(high, declared[1]))
    counts, edges = np.histogram(finite, np.linspace(*span, BINS + 1))
    return Histogram(edges, counts.astype(np.int64), outside, low, high, len(numbers) - len(finite))


def distribution(
    name: str,
    values: NDArray[Any],
    labels: Sequence[str],
    caption: str,
    *,
    declared: tuple[ArrayLike, ArrayLike] | None = None,
) -> Picture | None:
    """A histogram for each dimension, at most 48 of them.

    Args:
        name: Of the picture.
        values: (N, D) rows.
        labels: D names.
        caption: What the rows are of how many.
        declared: Lower and upper bounds, (D,) or one for all; None = not declared.

    Returns:
        The picture; None without rows or dimensions.
    """
    if not values.size:
        return None
    count = values.shape[1]
    bounds = None if declared is None else [np.broadcast_to(np.asarray(b, float), count) for b in declared]
    shown = min(count, MAX_DIMENSIONS)
    columns = 1 if shown <= _ONE_COLUMN else 2
    down = -(-shown // columns)
    canvas = Canvas(_WIDTH, down * _ROW + 10)
    outside = not_finite = 0
    for index in range(count):
        limits = None if bounds is None else (float(bounds[0][index]), float(bounds[1][index]))
        made = histogram(values[:, index], limits)
        outside, not_finite = outside + made.outside, not_finite + made.not_finite
        if index < shown:
            width = _WIDTH / columns
            corner = (index // down * width, 5.0 + index % down * _ROW)
            _draw(canvas, corner, width, labels[index], made, limits)
    return Picture(name, canvas.png(), _caption(caption, (shown, count), declared, (outside, not_finite)))


def _draw(
    canvas: Canvas,
    corner: tuple[float, float],
    width: float,
    label: str,
    made: Histogram,
    declared: tuple[float, float] | None,
) -> None:
    left, top = corner
    bottom, middle, begin, end = top + _ROW - 3, top + _ROW / 2, left + width * 0.26, left + width * 0.7
    canvas.text(begin - 6, middle, fitted(label, width * 0.26 - 10, 10), anchor="rm", size=10)
    axes = Axes(
        canvas, (begin, top + 1, end, bottom), (made.edges[0], made.edges[-1]), (0, made.counts.max() or 1)
    )
    if declared is not None:
        canvas.box((axes.at_x(declared[0]), top + 1, axes.at_x(declared[1]), bottom), BAND)
    canvas.line(np.array([[begin, bottom], [end, bottom]]), GRID)
    axes.bars(made.edges, made.counts, BLUE)
    text, colour = f"{number(made.low)} … {number(made.high)}", MUTED
    if made.outside and declared is not None:
        beyond = (made.edges[1:] <= declared[0]) | (made.edges[:-1] >= declared[1])
        axes.bars(made.edges, np.where(beyond, made.counts, 0), RED)
        text, colour = f"{text}, {made.outside:,} out", RED
    canvas.text(end + 6, middle, fitted(text, width * 0.29 - 4, 10), size=10, colour=colour)


def _caption(caption: str, shown: tuple[int, int], declared: object | None, counted: tuple[int, int]) -> str:
    parts = [caption]
    if shown[0] < shown[1]:
        parts.append(f"{shown[0]} of {shown[1]} dimensions shown")
    if declared is not None:
        parts.append(f"declared range shaded, {_values(counted[0])} outside")
    if counted[1]:
        parts.append(f"{_values(counted[1])} {'is' if counted[1] == 1 else 'are'} not finite")
    return "; ".join(parts)


def _values(number_of: int) -> str:
    return f"{number_of:,} value{'' if number_of == 1 else 's'}"
