"""Curves of an episode's columns, thinned so that no extreme is lost and packed into 16 bits a value.

What is not here: choosing the columns, see `html_budget`; drawing them, see `html_page.js`.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core.episode import Column, blocks, is_image

MAX_DIMENSIONS: Final = 32
MAX_WIDTH: Final = 1024
_NUMBERS: Final = "buif"
_GAP: Final = 65535


def width_of(column: Column) -> int:
    """Values in a row."""
    return int(np.prod(column.shape[1:], dtype=np.int64))


def is_drawn(column: Column) -> bool:
    """True for numbers of at most 1,024 values a row that are no frames."""
    return column.dtype.kind in _NUMBERS and not is_image(column) and 0 < width_of(column) <= MAX_WIDTH


def curve(column: Column, points: int, dimensions: int = MAX_DIMENSIONS) -> dict[str, Any]:
    """A column as plain JSON values.

    A column of more than `points` rows is cut into `points / 2` spans of rows; of each the least and the
    greatest value are kept. Values that are not finite are gaps and are counted.

    Args:
        column: (T, …) numbers.
        points: Most points of a curve, 2 at least.
        dimensions: Most curves; the first so many values of a row are drawn.

    Returns:
        `w` values in a row, `s` of them drawn, `p` points of each, `e` whether a pair of points is a span's
        extremes, `lo` and `hi` of each curve, `bad` values not finite, `v` base64 of uint16 (s, p).
    """
    shown = min(width_of(column), dimensions)
    spans = points // 2 if column.shape[0] > points else column.shape[0]
    least, greatest, bad = _extremes(column, shown, spans)
    extremes = spans < column.shape[0]
    values = np.stack([least, greatest], axis=1).reshape(-1, shown) if extremes else least
    low, high, packed = _packed(values)
    return {
        "w": width_of(column),
        "s": shown,
        "p": len(values),
        "e": extremes,
        "lo": low,
        "hi": high,
        "bad": bad,
        "v": b64encode(packed.T.astype("<u2").tobytes()).decode("ascii"),
    }


def _extremes(column: Column, shown: int, spans: int) -> tuple[NDArray[Any], NDArray[Any], int]:
    """Least and greatest finite value of each span of rows, (spans, shown) with NaN where there is none."""
    edges = np.linspace(0, column.shape[0], spans + 1).astype(np.int64)
    least = np.full((spans, shown), np.nan)
    greatest, start, bad = least.copy(), 0, 0
    for rows in blocks(column):
        values = rows.reshape(len(rows), -1)[:, :shown].astype(np.float64)
        infinite = ~np.isfinite(values)
        bad += int(infinite.sum())
        values[infinite] = np.nan
        span = np.searchsorted(edges, np.arange(start, start + len(rows)), "right") - 1
        first = np.flatnonzero(np.diff(span, prepend=-1))
        at = span[first]
        least[at] = np.fmin(least[at], np.fmin.reduceat(values, first, axis=0))
        greatest[at] = np.fmax(greatest[at], np.fmax.reduceat(values, first, axis=0))
        start += len(rows)
    return least, greatest, bad


def _packed(values: NDArray[Any]) -> tuple[list[float], list[float], NDArray[np.uint16]]:
    """(lo, hi, codes): code 0 is lo, 65534 is hi, 65535 a gap."""
    gaps = np.isnan(values)
    low = np.where(gaps, np.inf, values).min(axis=0, initial=np.inf)
    high = np.where(gaps, -np.inf, values).max(axis=0, initial=-np.inf)
    low, high = (np.where(np.isfinite(v), v, 0.0) for v in (low, high))
    reach = high / 2 - low / 2  # halves: the reach of float64 extremes would overflow
    part = (values / 2 - low / 2) / np.where(reach > 0, reach, 1.0)
    codes = np.where(gaps, _GAP, np.round(np.clip(np.where(gaps, 0, part), 0, 1) * (_GAP - 1)))
    return _short(low), _short(high), codes.astype(np.uint16)


def _short(values: NDArray[Any]) -> list[float]:
    """Seven significant digits: as fine as the codes, and short in JSON."""
    return [float(f"{v:.7g}") for v in values.tolist()]
