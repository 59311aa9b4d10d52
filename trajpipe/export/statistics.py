"""Statistics of an episode and of the whole dataset: exact sums, exact quantiles, memory that does not grow.

Frames are judged by 256-bin histograms on uint8, rows in float64; quantiles are never averaged.
What is not here: the files that the statistics go into, see `trajpipe.export.metadata`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isqrt, sqrt
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

QUANTILES: Final[Mapping[str, float]] = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}
GR00T_QUANTILES: Final = ("q01", "q99")
_FEWEST, _MOST, _POWER = 100, 10_000, 0.75
_LARGE, _TARGET = 300, 150
_QUANTILE_BYTES: Final = 16 << 20
Stats = dict[str, Any]


def sampled_rows(length: int) -> NDArray[np.int64]:
    """Indices of the frames that image statistics use, as LeRobot samples them (all below 100 frames)."""
    count = max(min(length, _FEWEST), min(int(length**_POWER), _MOST))
    return np.round(np.linspace(0, length - 1, count)).astype(np.int64)


def pixel_stride(height: int, width: int) -> int:
    """Every how many pixels LeRobot looks at: 1 for frames smaller than 300 in both directions."""
    largest = max(height, width)
    return 1 if largest < _LARGE else int(largest / _TARGET)


@dataclass(slots=True)
class FrameHistogram:
    """Counts of the 256 values per channel over sampled frames.

    Attributes:
        counts: (3, 256) int64.
        frames: How many frames.
    """

    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros((3, 256), np.int64))
    frames: int = 0

    def add(self, frames: NDArray[np.uint8]) -> None:
        """Count frames (n, H, W, 3) uint8, RGB."""
        self.add_some(frames, np.arange(len(frames)))

    def add_some(self, frames: NDArray[np.uint8], chosen: NDArray[np.int64]) -> None:
        """Count the chosen ones of frames (n, H, W, 3) uint8, RGB."""
        if not len(chosen):
            return
        stride = pixel_stride(frames.shape[1], frames.shape[2])
        counted = [_values_of(np.ascontiguousarray(frames[i, ::stride, ::stride])) for i in chosen]
        self.counts += np.asarray(counted, np.int64).sum(axis=0).reshape(3, 256)
        self.frames += len(chosen)

    def merge(self, other: FrameHistogram) -> None:
        """Add another histogram's counts."""
        self.counts += other.counts
        self.frames += other.frames

    def stats(self, quantiles: Sequence[str] = ()) -> Stats:
        """Min, max, mean, std, count (and quantiles) over values / 255; each (3, 1, 1) as nested lists."""
        channels = [_channel_stats(counts, quantiles) for counts in self.counts]
        out: Stats = {key: [[[c[key]]] for c in channels] for key in channels[0]}
        count = {"count": [self.frames]}
        head = {k: out[k] for k in ("min", "max", "mean", "std")}
        return head | count | {q: out[q] for q in quantiles}


def _values_of(frame: NDArray[np.uint8]) -> list[int]:
    size = (frame.shape[1], frame.shape[0])
    return Image.frombuffer("RGB", size, frame, "raw", "RGB", 0, 1).histogram()


def _channel_stats(counts: NDArray[np.int64], quantiles: Sequence[str]) -> dict[str, float]:
    """Exact integers up to the last division: uint8 squares must not wrap, nor float32 sums drift."""
    values = [int(c) for c in counts]
    number = sum(values)
    total = sum(v * c for v, c in enumerate(values))
    squares = sum(v * v * c for v, c in enumerate(values))
    present = np.flatnonzero(counts)
    spread = number * squares - total * total
    out = {
        "min": int(present[0]) / 255,
        "max": int(present[-1]) / 255,
        "mean": total / (255 * number),
        "std": _square_root(spread) / (255 * number),
    }
    ends = np.cumsum(counts)
    for name in quantiles:
        position = QUANTILES[name] * (number - 1)
        low = int(position)
        a, b = (int(np.searchsorted(ends, k, side="right")) for k in (low, min(low + 1, number - 1)))
        out[name] = (a + (position - low) * (b - a)) / 255
    return out


def _square_root(value: int) -> float:
    """Square root of an integer of any size."""
    return sqrt(value) if value < 1 << 1000 else float(isqrt(value))


def row_stats(rows: NDArray[Any], quantiles: Sequence[str] = ()) -> Stats:
    """Min, max, mean, std, count (and quantiles) of rows (T, n), each a list of n; std of the population."""
    wide = rows.astype(np.float64)
    kind = np.float64 if rows.dtype.kind in "fb" else np.int64
    out: Stats = {
        "min": rows.min(axis=0).astype(kind).tolist(),
        "max": rows.max(axis=0).astype(kind).tolist(),
        "mean": wide.mean(axis=0).tolist(),
        "std": wide.std(axis=0).tolist(),
        "count": [len(rows)],
    }
    if quantiles:
        found = np.quantile(wide, [QUANTILES[q] for q in quantiles], axis=0)
        out |= {q: found[i].tolist() for i, q in enumerate(quantiles)}
    return out


@dataclass(slots=True)
class _Running:
    """Moments of one feature over all episodes, merged pairwise; its rows lie in a spool file."""

    spool: BinaryIO
    dtype: np.dtype[Any]
    width: int
    count: int = 0
    mean: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    squares: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    low: NDArray[Any] = field(default_factory=lambda: np.zeros(0))
    high: NDArray[Any] = field(default_factory=lambda: np.zeros(0))

    def add(self, rows: NDArray[Any]) -> None:
        wide = rows.astype(np.float64)
        mean = wide.mean(axis=0)
        squares = ((wide - mean) ** 2).sum(axis=0)
        low, high = rows.min(axis=0), rows.max(axis=0)
        self.spool.write(np.ascontiguousarray(rows).data)
        if not self.count:
            self.count, self.mean, self.squares, self.low, self.high = len(rows), mean, squares, low, high
            return
        total = self.count + len(rows)
        shift = mean - self.mean
        self.squares += squares + shift**2 * (self.count * len(rows) / total)
        self.mean += shift * (len(rows) / total)
        self.count, self.low, self.high = total, np.minimum(self.low, low), np.maximum(self.high, high)

    def quantiles(self, wanted: Sequence[str]) -> dict[str, list[float]]:
        """Exact quantiles, some dimensions at a time, so that memory stays within a budget."""
        out: dict[str, list[float]] = {q: [] for q in wanted}
        self.spool.flush()
        step = max(1, _QUANTILE_BYTES // max(1, 8 * self.count))
        for start in range(0, self.width, step):
            values = self._dimensions(start, min(start + step, self.width))
            found = np.quantile(values, [QUANTILES[q] for q in wanted], axis=1, overwrite_input=True)
            for i, name in enumerate(wanted):
                out[name] += found[i].tolist()
        return out

    def _dimensions(self, start: int, stop: int) -> NDArray[np.float64]:
        out = np.empty((stop - start, self.count))
        block = max(1, (4 << 20) // (self.width * self.dtype.itemsize))
        self.spool.seek(0)
        for first in range(0, self.count, block):
            number = min(block, self.count - first)
            data = self.spool.read(number * self.width * self.dtype.itemsize)
            rows = np.frombuffer(data, self.dtype).reshape(number, self.width)
            out[:, first : first + number] = rows[:, start:stop].T
        return out

    def stats(self, wanted: Sequence[str]) -> Stats:
        kind = np.float64 if self.dtype.kind in "fb" else np.int64
        return {
            "mean": self.mean.tolist(),
            "std": np.sqrt(self.squares / self.count).tolist(),
            "min": self.low.astype(kind).tolist(),
            "max": self.high.astype(kind).tolist(),
            **self.quantiles(wanted),
        }


class DatasetStatistics:
    """Statistics over all episodes; rows are spooled to a scratch folder for the exact quantiles.

    Args:
        scratch: Folder for the spool files; the caller removes it.
    """

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._rows: dict[str, _Running] = {}
        self._frames: dict[str, FrameHistogram] = {}

    def add_rows(self, name: str, rows: NDArray[Any]) -> None:
        """Add an episode's rows (T, n) of a feature."""
        if name not in self._rows:
            spool = (self._scratch / f"spool-{len(self._rows)}").open("w+b")
            self._rows[name] = _Running(spool, rows.dtype, rows.shape[1])
        self._rows[name].add(rows)

    def add_frames(self, name: str, histogram: FrameHistogram) -> None:
        """Add an episode's sampled frames of a camera."""
        self._frames.setdefault(name, FrameHistogram()).merge(histogram)

    def gr00t(self) -> dict[str, Stats]:
        """Float features only, exactly mean, std, min, max, q01, q99: what GR00T's loaders index."""
        floats = {name: r for name, r in self._rows.items() if r.dtype.kind == "f"}
        return {name: running.stats(GR00T_QUANTILES) for name, running in floats.items()}

    def all(self, quantiles: Sequence[str], *, count: bool) -> dict[str, Stats]:
        """Every feature; `count` adds the number of rows or frames."""
        out: dict[str, Stats] = {}
        for name, running in self._rows.items():
            out[name] = running.stats(quantiles) | ({"count": [running.count]} if count else {})
        for name, histogram in self._frames.items():
            stats = histogram.stats(quantiles)
            order = ("mean", "std", "min", "max", *quantiles, *(("count",) if count else ()))
            out[name] = {key: stats[key] for key in order}
        return out

    def close(self) -> None:
        """Close the spool files."""
        for running in self._rows.values():
            running.spool.close()
