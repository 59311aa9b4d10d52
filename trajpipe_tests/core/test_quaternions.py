"""Tests of quaternion orders and rotations, against scipy's Rotation.

What is not here: which columns hold quaternions, see test_conventions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from trajpipe.core.errors import SchemaError
from trajpipe.core.quaternions import (
    conjugate_xyzw,
    multiply_xyzw,
    rotate_xyzw,
    to_xyzw_at,
    wxyz_to_xyzw,
    xyzw_to_wxyz,
)

ANY = hnp.arrays(
    st.sampled_from([np.float32, np.float64]),
    hnp.array_shapes(min_dims=0, max_dims=3, max_side=4).map(lambda s: (*s, 4)),
    elements=st.floats(-2, 2, width=32),
)
SEEDS = st.integers(0, 2**32 - 1)


def unit(seed: int, count: int = 5) -> NDArray[np.float64]:
    """Random unit quaternions, scalar last, (count, 4) float64."""
    values = np.random.default_rng(seed).normal(size=(count, 4))
    return np.asarray(values / np.linalg.norm(values, axis=-1, keepdims=True))


@given(ANY)
def test_the_two_orders_are_inverse_and_keep_the_dtype(q: NDArray[Any]) -> None:
    there = wxyz_to_xyzw(q)
    assert there.dtype == q.dtype
    np.testing.assert_array_equal(xyzw_to_wxyz(there), q)
    np.testing.assert_array_equal(there[..., 3], q[..., 0])
    np.testing.assert_array_equal(there[..., :3], q[..., 1:])


def test_the_result_is_a_copy() -> None:
    q = np.array([1.0, 2.0, 3.0, 4.0])
    wxyz_to_xyzw(q)[0] = 99
    np.testing.assert_array_equal(q, [1, 2, 3, 4])


@pytest.mark.parametrize("shape", [(), (3,), (4, 3), (4, 7)])
def test_a_last_axis_that_is_not_four_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(SchemaError, match="last axis has 4 values"):
        wxyz_to_xyzw(np.zeros(shape))


@given(SEEDS)
def test_it_agrees_with_scipy_on_the_orders(seed: int) -> None:
    q = unit(seed)
    scalar_first = Rotation.from_quat(q).as_quat(canonical=False, scalar_first=True)
    np.testing.assert_allclose(xyzw_to_wxyz(q), scalar_first, atol=1e-15)


def test_declared_spans_of_a_wide_row_are_converted_and_the_rest_is_kept() -> None:
    row = np.arange(39, dtype=np.float32)[None]
    out = to_xyzw_at(row, (3, 10, 17), "wxyz")
    expected = row.copy()
    for start in (3, 10, 17):
        expected[0, start : start + 4] = [start + 1, start + 2, start + 3, start]
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(row[0], np.arange(39))
    assert out.dtype == np.float32


def test_xyzw_input_is_handed_back_as_it_is() -> None:
    rows = np.zeros((3, 7))
    assert to_xyzw_at(rows, (3,), "xyzw") is rows


def test_the_last_four_values_fit() -> None:
    np.testing.assert_array_equal(to_xyzw_at(np.arange(7.0), (3,), "wxyz"), [0, 1, 2, 4, 5, 6, 3])


@pytest.mark.parametrize("start", [-1, 4, 100])
def test_a_span_outside_the_row_is_refused(start: int) -> None:
    with pytest.raises(SchemaError, match="lies outside the column"):
        to_xyzw_at(np.zeros((2, 7)), (start,), "wxyz")


@pytest.mark.parametrize("starts", [(0, 2), (4, 1), (3, 3)])
def test_spans_that_overlap_are_refused(starts: tuple[int, ...]) -> None:
    with pytest.raises(SchemaError, match="overlap"):
        to_xyzw_at(np.zeros((2, 12)), starts, "wxyz")


def test_a_word_that_is_no_order_is_refused() -> None:
    with pytest.raises(SchemaError, match="expected wxyz or xyzw"):
        to_xyzw_at(np.zeros((2, 7)), (3,), "wxzy")  # type: ignore[arg-type]  # the wrong word is the test


@given(SEEDS, SEEDS)
def test_the_product_is_scipy_s(first: int, second: int) -> None:
    a, b = unit(first), unit(second)
    ours, theirs = multiply_xyzw(a, b), (Rotation.from_quat(a) * Rotation.from_quat(b)).as_quat()
    sign = np.sign(np.sum(ours * theirs, axis=-1, keepdims=True))
    np.testing.assert_allclose(ours, theirs * sign, atol=1e-14)


@given(SEEDS)
def test_rotating_vectors_is_scipy_s(seed: int) -> None:
    q, v = unit(seed), np.random.default_rng(seed + 1).normal(size=(5, 3))
    np.testing.assert_allclose(rotate_xyzw(q, v), Rotation.from_quat(q).apply(v), atol=1e-13)


@given(SEEDS)
def test_a_quaternion_times_its_conjugate_is_one(seed: int) -> None:
    q = unit(seed)
    np.testing.assert_allclose(multiply_xyzw(q, conjugate_xyzw(q)), np.tile([0, 0, 0, 1], (5, 1)), atol=1e-14)
    np.testing.assert_allclose(
        conjugate_xyzw(q), Rotation.from_quat(q).inv().as_quat(canonical=False), atol=1e-15
    )


def test_a_known_yaw_turns_x_into_y() -> None:
    yaw = np.array([0, 0, np.sqrt(0.5), np.sqrt(0.5)])
    np.testing.assert_allclose(rotate_xyzw(yaw, np.array([1.0, 0, 0])), [0, 1, 0], atol=1e-15)


def test_float32_stays_float32() -> None:
    q = unit(3).astype(np.float32)
    assert multiply_xyzw(q, q).dtype == conjugate_xyzw(q).dtype == np.float32
    assert rotate_xyzw(q, np.ones((5, 3), np.float32)).dtype == np.float32
