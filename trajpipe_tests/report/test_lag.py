"""The lag curve finds the lag that was put in, whatever an action means.

What is not here: how it looks beyond its colours.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from trajpipe.report.canvas import SERIES
from trajpipe.report.lag import MAX_LAG, MAX_PAIRS, LagCurve, lag_curve, lag_plot

Rows = list[NDArray[Any]]


def pushed(lag: int, *, episodes: int = 4, rows: int = 120, seed: int = 0) -> tuple[Rows, Rows]:
    """Delta actions, and states that move by them so many rows later; the state's dimensions are permuted."""
    generator = np.random.default_rng(seed)
    actions, states = [], []
    for _ in range(episodes):
        action = generator.normal(size=(rows, 3))
        moved = np.zeros((rows, 3))
        if lag >= 0:
            moved[lag:] = action[: rows - lag]
        else:
            moved[:lag] = action[-lag:]
        actions.append(action)
        states.append(np.cumsum(moved, axis=0)[:, [2, 0, 1]])
    return actions, states


@pytest.mark.parametrize("lag", [0, 1, 2, 5, -1])
def test_the_lag_that_was_put_in_is_found(lag: int) -> None:
    curve = lag_curve(*pushed(lag))
    assert curve is not None
    assert curve.lag == lag
    assert curve.peaks.tolist() == [lag] * 3
    assert curve.partners.tolist() == [1, 2, 0]
    assert curve.meaning == "delta"
    assert curve.correlations.max() == pytest.approx(1, abs=0.01)


def test_an_absolute_action_is_differenced() -> None:
    generator = np.random.default_rng(3)
    targets = [np.cumsum(generator.normal(size=(150, 2)), axis=0) for _ in range(4)]
    states = [np.concatenate([t[:1], t[:-1]]) for t in targets]  # reached one row later
    curve = lag_curve(targets, states)
    assert curve is not None
    assert (curve.meaning, curve.lag) == ("absolute", 1)
    declared = lag_curve(targets, states, "delta")
    assert declared is not None
    assert declared.correlations.max() < 0.9


def test_a_negative_gain_gives_the_same_peak() -> None:
    actions, states = pushed(1)
    curve = lag_curve(actions, [-s for s in states])
    assert curve is not None
    assert curve.lag == 1
    assert curve.correlations.max() == pytest.approx(1, abs=0.01)


def test_noise_tells_nothing() -> None:
    generator = np.random.default_rng(4)
    noise = [generator.normal(size=(1000, 2)) for _ in range(6)]
    other = [np.cumsum(generator.normal(size=(1000, 2)), axis=0) for _ in range(6)]
    curve = lag_curve(noise, other)
    assert curve is not None
    assert curve.lag is None
    assert not curve.telling.any()
    assert "no action dimension moves" in lag_plot(curve, ["a", "b"], ["x", "y"], "all").caption


def test_no_pair_crosses_two_episodes() -> None:
    """Episodes whose ends would correlate with the next one's beginning: pooled rows would show it."""
    actions, states = pushed(1, episodes=30, rows=25)
    alone = lag_curve(actions, states)
    assert alone is not None
    assert alone.rows == 30 * 24
    assert alone.correlations[MAX_LAG + 1] == pytest.approx([1, 1, 1], abs=1e-3)


def test_constant_dimensions_correlate_with_nothing() -> None:
    actions, states = pushed(1)
    still = [np.concatenate([a, np.full((len(a), 1), 0.5)], axis=1) for a in actions]
    curve = lag_curve(still, [np.concatenate([s, np.ones((len(s), 1))], axis=1) for s in states])
    assert curve is not None
    assert curve.correlations[:, 3].tolist() == [0.0] * (2 * MAX_LAG + 1)
    assert curve.telling.tolist() == [True, True, True, False]


def test_rows_that_are_not_finite_are_left_out() -> None:
    actions, states = pushed(2)
    actions[0][5] = np.nan
    states[1][7] = np.inf
    curve = lag_curve(actions, states)
    assert curve is not None
    assert curve.lag == 2


def test_the_rows_are_bounded() -> None:
    actions, states = pushed(1, episodes=4, rows=4000)
    curve = lag_curve(actions, states)
    assert curve is not None
    assert curve.rows == 4 * (MAX_PAIRS // 4 - 1)


def test_too_few_rows_or_no_dimensions_give_no_curve() -> None:
    assert lag_curve([], []) is None
    assert lag_curve(*pushed(1, episodes=1, rows=20)) is None
    actions, states = pushed(1)
    assert lag_curve(actions, [s[:, :0] for s in states]) is None
    assert lag_curve([a[:, :0] for a in actions], states) is None


def test_the_plot_says_what_the_peak_means() -> None:
    labels, terms = ["dx", "dy", "dz"], ["z", "x", "y"]

    def caption(lag: int) -> str:
        curve = lag_curve(*pushed(lag))
        assert curve is not None
        return lag_plot(curve, labels, terms, "4 of 4 episodes").caption

    assert caption(1).startswith(
        "lag +1 in 3 of 3 telling dimensions (delta actions): the state moves into the next row"
    )
    assert "the state moves in the action's own row" in caption(0)
    assert "the state follows 3 rows later" in caption(3)
    assert "the state moves first" in caption(-2)
    assert caption(1).endswith("4 of 4 episodes, 476 pairs of rows")


def test_the_strongest_curves_are_drawn_one_colour_each() -> None:
    curve = lag_curve(*pushed(1))
    assert curve is not None
    with Image.open(io.BytesIO(lag_plot(curve, ["a", "b", "c"], ["x", "y", "z"], "all").data)) as image:
        shown = np.asarray(image.convert("RGB"))
    for index, colour in enumerate(SERIES[:4]):
        there = (shown[:, 400:] == [int(colour[i : i + 2], 16) for i in (1, 3, 5)]).all(axis=-1).any()
        assert there == (index < 3)


def _curve_of(*peaks: int) -> LagCurve:
    """A curve whose dimensions peak at these lags, each with r = 0.5."""
    lags = np.arange(-MAX_LAG, MAX_LAG + 1)
    correlations = np.zeros((len(lags), len(peaks)))
    correlations[np.array(peaks) + MAX_LAG, np.arange(len(peaks))] = 0.5
    return LagCurve(lags, correlations, np.zeros(len(peaks), np.int64), "delta", 500)


@pytest.mark.parametrize(
    ("peaks", "lag", "words"),
    [
        (
            (10, 10, 3, 3, -1, 2, 5),
            None,
            "peaks at -1 (1), +2 (1), +3 (2), +5 (1), the edge of the window (2)",
        ),
        ((1, 1, 2, 2), None, "peaks at +1 (2), +2 (2) in 4 telling dimensions"),
        ((10, 10, 10), None, "peaks at the edge of the window (3) in 3 telling dimensions"),
        ((-10, -10, 1), None, "peaks at +1 (1), the edge of the window (2)"),
        ((1, 1, 1, 10), 1, "lag +1 in 3 of 4 telling dimensions"),
    ],
)
def test_without_a_majority_within_the_window_the_lag_is_not_clear(
    peaks: tuple[int, ...], lag: int | None, words: str
) -> None:
    curve = _curve_of(*peaks)
    assert curve.lag == lag
    caption = lag_plot(curve, [f"a{i}" for i in range(len(peaks))], ["s"], "all").caption
    assert words in caption
    assert caption.startswith("lag not clear: ") == (lag is None)
