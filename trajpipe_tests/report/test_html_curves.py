"""Curves: no extreme is lost, values come back within the code's step, odd values become gaps.

What is not here: how they are drawn.
"""

from __future__ import annotations

from base64 import b64decode
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from trajpipe.core.episode import ArrayColumn, FunctionColumn
from trajpipe.report.html_curves import curve, is_drawn


def decoded(value: dict[str, Any]) -> NDArray[np.float64]:
    """The (points, shown) values that the page's script computes."""
    codes = np.frombuffer(b64decode(value["v"]), "<u2").reshape(value["s"], value["p"]).astype(np.float64)
    low, high = (np.array(value[side])[:, None] for side in ("lo", "hi"))
    return np.where(codes == 65535, np.nan, low + (high / 65534 - low / 65534) * codes).T


def close(got: NDArray[Any], wanted: NDArray[Any], of: NDArray[Any]) -> bool:
    """Equal within a step of the codes, a 65,534th of the reach of all values drawn."""
    reach = of.max(axis=0) - of.min(axis=0)
    return bool(np.all(np.abs(got - wanted) <= reach / 65_534 + 1e-6 * np.abs(of).max(axis=0)))


def test_a_short_column_keeps_every_row() -> None:
    rows = np.random.default_rng(0).normal(size=(50, 7)).astype(np.float32)
    made = curve(ArrayColumn(rows), 50)
    assert (made["w"], made["s"], made["p"], made["e"], made["bad"]) == (7, 7, 50, False, 0)
    assert close(decoded(made), rows, rows)


def test_a_long_column_keeps_the_extremes_of_each_span() -> None:
    rows = np.random.default_rng(1).normal(size=(10_007, 3))
    rows[5003, 1] = 40.0
    made = curve(ArrayColumn(rows), 100)
    assert (made["p"], made["e"]) == (100, True)
    got = decoded(made)
    edges = np.linspace(0, 10_007, 51).astype(int)
    least = np.array([rows[a:b].min(axis=0) for a, b in pairwise(edges)])
    greatest = np.array([rows[a:b].max(axis=0) for a, b in pairwise(edges)])
    assert close(got[::2], least, rows)
    assert close(got[1::2], greatest, rows)
    assert got[:, 1].max() == pytest.approx(40.0)


def test_spans_do_not_depend_on_the_blocks_that_are_read() -> None:
    rows = np.random.default_rng(2).normal(size=(40_000, 16))
    calls: list[int] = []

    def fetch(start: int, stop: int) -> NDArray[Any]:
        calls.append(stop - start)
        return rows[start:stop]

    lazy = FunctionColumn(rows.dtype, rows.shape, fetch)
    assert curve(lazy, 90) == curve(ArrayColumn(rows.astype(np.float64)), 90)
    assert len(calls) > 1
    assert max(calls) * 16 * 8 <= 4 << 20


@given(
    arrays(np.float64, st.tuples(st.integers(1, 60), st.integers(1, 5)), elements=st.floats(width=64)),
    st.integers(2, 40),
)
def test_any_values_are_packed_without_a_warning(rows: NDArray[np.float64], points: int) -> None:
    with np.errstate(all="raise", under="ignore"):
        made = curve(ArrayColumn(rows), points)
    assert made["bad"] == int((~np.isfinite(rows)).sum())
    assert len(b64decode(made["v"])) == 2 * made["s"] * made["p"]
    assert np.isfinite(made["lo"] + made["hi"]).all()


def test_values_that_are_not_finite_are_gaps_and_counted() -> None:
    rows = np.array([[0.0], [np.nan], [np.inf], [2.0]])
    made = curve(ArrayColumn(rows), 10)
    assert made["bad"] == 2
    assert np.isnan(decoded(made)[:, 0]).tolist() == [False, True, True, False]
    assert decoded(made)[[0, 3], 0].tolist() == [0.0, 2.0]
    assert np.isnan(decoded(curve(ArrayColumn(np.full((3, 2), np.nan)), 10))).all()


@pytest.mark.parametrize("kind", ["bool", "uint8", "int64", "float16", "float32"])
def test_every_kind_of_number_is_drawn(kind: str) -> None:
    column = ArrayColumn(np.array([0, 1, 1], kind))
    assert is_drawn(column)
    assert decoded(curve(column, 10))[:, 0].tolist() == [0.0, 1.0, 1.0]


def test_only_some_dimensions_of_a_wide_row_are_drawn() -> None:
    made = curve(ArrayColumn(np.ones((4, 6, 10))), 10)
    assert (made["w"], made["s"]) == (60, 32)


def test_frames_texts_and_depth_are_no_curves() -> None:
    assert not is_drawn(ArrayColumn(np.zeros((2, 8, 8, 3), np.uint8)))
    assert not is_drawn(ArrayColumn(np.zeros((2, 64, 64), np.float32)))
    assert not is_drawn(ArrayColumn(np.array(["a", "b"])))
    assert not is_drawn(ArrayColumn(np.zeros((2, 0))))
