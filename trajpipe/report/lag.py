"""The lag plot: how many rows after an action the state moves with it, as the data show it.

For each lag k the action of row t is correlated with the change of the state from row t + k - 1 to row
t + k. Without any delay the peak is at lag 1 where obs[t] was recorded before action[t] was applied, at lag 0
where it was recorded after; a controller's or a recorder's delay adds to both. An absolute action (a target)
is differenced too, since two slow curves correlate at every lag.

    curve = lag_curve(actions, states)              # the figures
    picture = lag_plot(curve, labels, "40 of 500 episodes")

What is not here: the check of the declared alignment, see `trajpipe.checks.demos_values`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from trajpipe.report.axes import Axes
from trajpipe.report.canvas import INK, MUTED, SERIES, Canvas, fitted
from trajpipe.report.picture import Picture

NAME: Final = "action lag"
MAX_LAG: Final = 10
LEAST_PEAK: Final = 0.2
_FEWEST_ROWS: Final = 20
_EDGE: Final = 1e-6
MAX_PAIRS: Final = 6000

Meaning = Literal["delta", "absolute"]


@dataclass(frozen=True, slots=True, eq=False)
class LagCurve:
    """Correlations by lag, for each action dimension with the state dimension that follows it best.

    Attributes:
        lags: (K,) rows, ascending.
        correlations: (K, A), of the sign that makes each peak positive; 0 where a side is constant.
        partners: (A,) the state dimension.
        meaning: How the action was taken.
        rows: Row pairs at lag 0.
    """

    lags: NDArray[np.int64]
    correlations: NDArray[np.float64]
    partners: NDArray[np.int64]
    meaning: Meaning
    rows: int

    @property
    def peaks(self) -> NDArray[np.int64]:
        """(A,) the lag of each greatest correlation."""
        return np.asarray(self.lags[np.argmax(self.correlations, axis=0)])

    @property
    def telling(self) -> NDArray[np.bool_]:
        """(A,) True where that correlation is 0.2 or more: the others say nothing."""
        return np.asarray(self.correlations.max(axis=0) >= LEAST_PEAK)

    @property
    def lag(self) -> int | None:
        """The peak of more than half of the telling dimensions; None without such a majority.

        A peak at the edge of the window is none: the correlation may rise further beyond it.
        """
        told = self.peaks[self.telling]
        lags, votes = np.unique(told[np.abs(told) < MAX_LAG], return_counts=True)
        if not len(votes) or 2 * int(votes.max()) <= len(told):
            return None
        return int(lags[np.argmax(votes)])


def lag_curve(
    actions: Sequence[NDArray[Any]], states: Sequence[NDArray[Any]], meaning: Meaning | None = None
) -> LagCurve | None:
    """The correlations of some episodes; no pair of rows crosses episodes.

    Args:
        actions: (T, A) of each episode.
        states: (T, S) of each episode, in the same order.
        meaning: What an action is; None = whichever of both correlates more.

    Returns:
        None when fewer than 20 pairs of rows are there, or no dimensions.
    """
    if not len(actions) or not actions[0].shape[1] or not states[0].shape[1]:
        return None
    if sum(max(0, len(rows) - 1 - MAX_LAG) for rows in actions) < _FEWEST_ROWS:
        return None
    actions, states = _few(actions, states)
    meanings: tuple[Meaning, ...] = ("delta", "absolute") if meaning is None else (meaning,)
    curves = [_curve(actions, states, one) for one in meanings]
    return max(curves, key=lambda curve: float(curve.correlations.max(axis=0).mean()))


def _few(
    actions: Sequence[NDArray[Any]], states: Sequence[NDArray[Any]]
) -> tuple[list[NDArray[Any]], list[NDArray[Any]]]:
    """Each episode's first rows, so many that all together are about 6,000: more tell the same."""
    most = max(2 * MAX_LAG, MAX_PAIRS // len(actions))
    return [rows[:most] for rows in actions], [rows[:most] for rows in states]


def _curve(actions: Sequence[NDArray[Any]], states: Sequence[NDArray[Any]], meaning: Meaning) -> LagCurve:
    lags = np.arange(-MAX_LAG, MAX_LAG + 1)
    moved = [np.diff(np.asarray(rows, np.float32), axis=0) for rows in states]
    pushed = [np.asarray(rows, np.float32) for rows in actions]
    pushed = [np.diff(rows, axis=0) if meaning == "absolute" else rows[1:] for rows in pushed]
    both = np.stack([_correlated(*_shifted(pushed, moved, int(lag))) for lag in lags])
    strongest = np.abs(both).max(axis=0)
    partners = strongest.argmax(axis=1)
    chosen = both[:, np.arange(len(partners)), partners]
    peak = chosen[np.abs(chosen).argmax(axis=0), np.arange(len(partners))]
    rows = sum(len(rows) for rows in pushed)
    return LagCurve(lags, chosen * np.where(peak < 0, -1.0, 1.0), partners, meaning, rows)


def _shifted(
    pushed: Sequence[NDArray[np.float32]], moved: Sequence[NDArray[np.float32]], lag: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Rows t of the one beside rows t + lag of the other."""
    pairs = []
    for one, other in zip(pushed, moved, strict=True):
        count = len(one) - abs(lag)
        if count > 0:
            a, b = max(0, -lag), max(0, lag)
            pairs.append((one[a : a + count], other[b : b + count]))
    return np.concatenate([a for a, _ in pairs]), np.concatenate([b for _, b in pairs])


def _correlated(one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float64]:
    """Pearson's r of each column of the one with each of the other; 0 where a column is constant."""
    finite = np.isfinite(one).all(axis=1) & np.isfinite(other).all(axis=1)
    x, y = (_standardised(rows[finite]) for rows in (one, other))
    return np.asarray(x.T @ y / max(1, len(x)))


def _standardised(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    if not len(rows):
        return rows
    spread = rows.std(axis=0)
    still = spread <= _EDGE * (1.0 + np.abs(rows).max(axis=0))
    return np.asarray(np.where(still, 0.0, (rows - rows.mean(axis=0)) / np.where(still, 1.0, spread)))


def lag_plot(
    curve: LagCurve, action_labels: Sequence[str], state_labels: Sequence[str], caption: str
) -> Picture:
    """The curves of the action dimensions that tell something, at most 8, the strongest first.

    Args:
        curve: From `lag_curve`.
        action_labels: A names.
        state_labels: S names.
        caption: Which episodes of how many.
    """
    canvas = Canvas(640, 240)
    axes = Axes(canvas, (44, 22, 400, 196), (-MAX_LAG, MAX_LAG), (-1.0, 1.0))
    axes.frame(x_ticks=10)
    for at, word in ((0, "same row"), (1, "next row")):
        column = float(axes.at_x(at))
        canvas.line(np.array([[column, 22.0], [column, 196.0]]), MUTED)
        canvas.text(column, 10 if at else 16, word, anchor="lm" if at else "rm", size=9, colour=MUTED)
    axes.label(x="lag k, rows: action of row t with the state's change into row t + k")
    strength = curve.correlations.max(axis=0)
    order = [int(i) for i in np.argsort(-strength, kind="stable") if curve.telling[i]][: len(SERIES)]
    for number, (colour, index) in enumerate(zip(SERIES, order, strict=False)):
        axes.plot(curve.lags, curve.correlations[:, index], colour, 1.4)
        y = 30 + 20 * number
        canvas.box((412, y - 2, 424, y + 2), colour)
        pair = f"{action_labels[index]} moves {state_labels[curve.partners[index]]}"
        canvas.text(429, y, fitted(pair, 150, 10), size=10)
        peak = int(curve.peaks[index])
        shown = f"{peak:+d}" if abs(peak) < MAX_LAG else "edge"
        canvas.text(632, y, shown, anchor="rm", size=10, colour=INK)
    if order:
        canvas.text(632, 12, "peak", anchor="rm", size=10, colour=MUTED)
    return Picture(NAME, canvas.png(), f"{_told(curve)}; {caption}, {curve.rows:,} pairs of rows")


def _told(curve: LagCurve) -> str:
    count = int(curve.telling.sum())
    if not count:
        return f"no action dimension moves a state dimension (|r| < {LEAST_PEAK:g})"
    if curve.lag is None:
        return f"lag not clear: {_peaks(curve)} in {count} telling dimensions ({curve.meaning} actions)"
    means = {0: "the state moves in the action's own row", 1: "the state moves into the next row"}.get(
        curve.lag, f"the state follows {curve.lag} rows later" if curve.lag > 1 else "the state moves first"
    )
    agree = int((curve.peaks[curve.telling] == curve.lag).sum())
    return f"lag {curve.lag:+d} in {agree} of {count} telling dimensions ({curve.meaning} actions): {means}"


def _peaks(curve: LagCurve) -> str:
    """`peaks at +1 (2), +4 (1), at the edge of the window (1)`."""
    told = curve.peaks[curve.telling]
    lags, votes = np.unique(told[np.abs(told) < MAX_LAG], return_counts=True)
    parts = [f"{lag:+d} ({n})" for lag, n in zip(lags.tolist(), votes.tolist(), strict=True)]
    edge = int((np.abs(told) == MAX_LAG).sum())
    return "peaks at " + ", ".join([*parts, f"the edge of the window ({edge})"] if edge else parts)
