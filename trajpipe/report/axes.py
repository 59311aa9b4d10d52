"""Scales, ticks and curves of one diagram on a canvas.

What is not here: pixels, see `canvas`; what the diagrams show.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trajpipe.report.canvas import GRID, INK, MUTED, Box, Canvas


@dataclass(frozen=True, slots=True)
class Axes:
    """A diagram: where it lies on its canvas, and which values its sides stand for.

    Attributes:
        canvas: Drawn on.
        box: (left, top, right, bottom), pixels.
        x: Values of the left and the right side.
        y: Values of the bottom and the top side.
    """

    canvas: Canvas
    box: Box
    x: tuple[float, float]
    y: tuple[float, float]

    def at_x(self, value: Any) -> Any:
        """Pixel column of a value or of an array of them."""
        return self.box[0] + (value - self.x[0]) / (self.x[1] - self.x[0]) * (self.box[2] - self.box[0])

    def at_y(self, value: Any) -> Any:
        """Pixel row of a value or of an array of them."""
        return self.box[3] - (value - self.y[0]) / (self.y[1] - self.y[0]) * (self.box[3] - self.box[1])

    def frame(self, *, x_ticks: int = 6, y_ticks: int = 4) -> None:
        """Grid lines at round values with their numbers, and the lower left edges; 0 = no ticks there."""
        left, top, right, bottom = self.box
        for value in ticks(*self.x, x_ticks):
            at = float(self.at_x(value))
            self.canvas.line(np.array([[at, top], [at, bottom]]), GRID)
            self.canvas.text(at, bottom + 9, number(value), anchor="mm", size=10, colour=MUTED)
        for value in ticks(*self.y, y_ticks):
            at = float(self.at_y(value))
            self.canvas.line(np.array([[left, at], [right, at]]), GRID)
            self.canvas.text(left - 5, at, number(value), anchor="rm", size=10, colour=MUTED)
        self.canvas.line(np.array([[left, top], [left, bottom], [right, bottom]]), MUTED)

    def label(self, x: str = "", title: str = "") -> None:
        """What the x axis is, below it; a title above the diagram."""
        left, top, right, bottom = self.box
        if x:
            self.canvas.text((left + right) / 2, bottom + 23, x, anchor="mm", size=10, colour=MUTED)
        if title:
            self.canvas.text(left, top - 9, title, anchor="lm", size=11, colour=INK)

    def plot(self, x: ArrayLike, y: ArrayLike, colour: str, width: float = 1.0) -> None:
        """A curve through (x, y); values that aren't finite interrupt it."""
        across, up = np.asarray(x, np.float64), np.asarray(y, np.float64)
        self.canvas.line(np.stack([self.at_x(across), self.at_y(up)], axis=-1), colour, width)

    def bars(self, edges: ArrayLike, heights: ArrayLike, colour: str) -> None:
        """Bars from the bottom, one between each two edges; none for a height of 0."""
        at = np.asarray(self.at_x(np.asarray(edges, np.float64)))
        for left, right, height in zip(at[:-1], at[1:], np.asarray(heights, np.float64), strict=True):
            if height > 0:
                gap = 1.0 if right - left > 4 else 0.0
                top = float(self.at_y(height))
                self.canvas.box(
                    (float(left), min(top, self.box[3] - 1), float(right) - gap, self.box[3]), colour
                )


def ticks(low: float, high: float, count: int) -> list[float]:
    """Round values within [low, high], about `count` of them: multiples of 1, 2 or 5 times a power of ten."""
    if count < 1 or not high > low:
        return []
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def number(value: float) -> str:
    """A short decimal: `1,200`, `0.05`, `-3`, `7e-06`."""
    if value == 0:
        return "0"
    if abs(value) >= 1000 and float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:.3g}" if 1e-4 <= abs(value) < 1e6 else f"{value:.0e}"


def padded(low: float, high: float, share: float = 0.04) -> tuple[float, float]:
    """The interval a little wider; never empty."""
    if not high > low:
        room = max(abs(low) * 0.05, 1e-6) if low else 1.0
        return low - room, high + room
    return low - (high - low) * share, high + (high - low) * share


def finite_range(values: NDArray[Any]) -> tuple[float, float]:
    """Least and greatest finite value; (0, 0) without any."""
    finite = values[np.isfinite(values)]
    return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
