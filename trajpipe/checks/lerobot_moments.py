"""Moments of rows recomputed for comparison, and the proof of a claimed quantile by counting.

What is not here: which statistics a dataset claims, see `lerobot_stats`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

QUANTILES: Final[Mapping[str, float]] = {"q01": 0.01, "q10": 0.1, "q50": 0.5, "q90": 0.9, "q99": 0.99}


@dataclass(slots=True)
class Moments:
    """Count, mean, spread and range per dimension, in float64.

    Attributes:
        count: Rows.
        mean: (n,).
        squares: (n,) sum of squared distances from the mean.
        low: (n,) smallest.
        high: (n,) largest.
        claims: Quantile name → claimed values (n,), counted against while rows stream by.
        below: Quantile name → (n,) rows clearly below the claim.
        up_to: Quantile name → (n,) rows not clearly above the claim.
    """

    count: int
    mean: NDArray[np.float64]
    squares: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    claims: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    below: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    up_to: dict[str, NDArray[np.int64]] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: NDArray[Any]) -> Moments:
        """Of rows (T, n), T ≥ 1."""
        wide = rows.astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            mean = wide.mean(axis=0)
            squares = ((wide - mean) ** 2).sum(axis=0)
        return cls(len(wide), mean, squares, wide.min(axis=0), wide.max(axis=0))

    @classmethod
    def empty(cls, width: int, claimed: Any) -> Moments:
        """Of no rows yet, with the quantiles that are claimed for all of them.

        Args:
            width: n.
            claimed: Statistic → values, as JSON holds them; what is no list of n numbers is left out.
        """
        out = cls(0, np.zeros(width), np.zeros(width), np.full(width, np.inf), np.full(width, -np.inf))
        for name in QUANTILES:
            values = numbers(claimed.get(name)) if isinstance(claimed, Mapping) else None
            if values is not None and values.shape == (width,):
                out.claims[name] = values
                out.below[name], out.up_to[name] = np.zeros(width, np.int64), np.zeros(width, np.int64)
        return out

    def merge(self, other: Moments, rows: NDArray[Any]) -> None:
        """Add an episode: its moments and its rows (T, n)."""
        total = self.count + other.count
        shift = other.mean - self.mean
        with np.errstate(invalid="ignore", over="ignore"):
            self.squares += other.squares + shift**2 * (self.count * other.count / total)
            self.mean += shift * (other.count / total)
        self.count = total
        self.low, self.high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        for name, claim in self.claims.items():
            slack = 1e-6 * np.abs(claim) + 1e-9
            self.below[name] += (rows < claim - slack).sum(axis=0)
            self.up_to[name] += (rows <= claim + slack).sum(axis=0)

    @property
    def std(self) -> NDArray[np.float64]:
        """Population standard deviation (n,)."""
        with np.errstate(invalid="ignore"):
            deviation: NDArray[np.float64] = np.sqrt(self.squares / max(1, self.count))
        return deviation

    def quantile_is_wrong(self, name: str) -> NDArray[np.bool_]:
        """Per dimension: the claim does not lie between the two order statistics around its position."""
        position = QUANTILES[name] * (self.count - 1)
        low, high = int(np.floor(position)), int(np.ceil(position))
        wrong: NDArray[np.bool_] = (self.up_to[name] < low + 1) | (self.below[name] > high)
        return wrong


def numbers(value: Any) -> NDArray[np.float64] | None:
    """A flat list of numbers (or bools) as float64; None for anything else."""
    if not isinstance(value, list) or not value:
        return None
    if not all(isinstance(v, (int, float)) for v in value):
        return None
    return np.asarray(value, np.float64)
