"""Tests of ULP distance, against walks with numpy.nextafter.

What is not here: tolerances of any check.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajpipe.core.errors import DTypeError, SchemaError
from trajpipe.core.ulp import ulp_distance

LARGEST = np.iinfo(np.uint64).max
KINDS = st.sampled_from([np.float32, np.float64])
STARTS = st.floats(-(2.0**126), 2.0**126, width=32) | st.floats(-(2.0**-140), 2.0**-140, width=32)


def walked(start: Any, steps: int, towards: float) -> Any:
    """The float that many representable steps away."""
    out = start
    for _ in range(steps):
        out = np.nextafter(out, np.array(towards, dtype=start.dtype), dtype=start.dtype)
    return out


@given(KINDS, STARTS, st.integers(0, 40), st.sampled_from([np.inf, -np.inf]))
def test_n_steps_of_nextafter_are_n_ulps(kind: type[Any], value: float, steps: int, towards: float) -> None:
    start = np.array([value], dtype=kind)
    end = walked(start, steps, towards)
    assert ulp_distance(start, end)[0] == steps
    assert ulp_distance(end, start)[0] == steps


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_walking_across_zero_counts_one_zero(kind: type[Any]) -> None:
    tiny = np.array([np.finfo(kind).smallest_subnormal], dtype=kind)
    assert ulp_distance(-tiny, tiny)[0] == 2
    assert ulp_distance(np.array([-0.0], kind), np.array([0.0], kind))[0] == 0


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_the_whole_line_does_not_overflow(kind: type[Any]) -> None:
    low, high = np.array([-np.inf], kind), np.array([np.inf], kind)
    bits = 32 if kind is np.float32 else 64
    infinity = int(high.view(f"u{bits // 8}")[0])
    assert int(ulp_distance(low, high)[0]) == 2 * infinity


def test_nan_is_equal_to_nan_and_farthest_from_numbers() -> None:
    a = np.array([np.nan, np.nan, 1.0])
    b = np.array([np.nan, 1.0, np.nan])
    np.testing.assert_array_equal(ulp_distance(a, b), np.array([0, LARGEST, LARGEST], dtype=np.uint64))


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 3), (2, 0, 3)])
def test_the_shape_is_kept(shape: tuple[int, ...]) -> None:
    a = np.full(shape, 1.0)
    out = ulp_distance(a, np.nextafter(a, 2.0))
    assert out.shape == shape
    assert out.dtype == np.uint64
    assert np.all(out == 1)


def test_views_that_are_not_contiguous_are_compared_by_value() -> None:
    a = np.arange(12.0).reshape(3, 4).T
    b = a.copy()
    b[2, 1] = np.nextafter(b[2, 1], np.inf)
    expected = np.zeros((4, 3), np.uint64)
    expected[2, 1] = 1
    np.testing.assert_array_equal(ulp_distance(a, b), expected)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (np.float32, np.float64),
        (np.int32, np.int32),
        (np.float16, np.float16),
        (">f4", ">f4"),
    ],
)
def test_other_dtypes_are_refused(a: Any, b: Any) -> None:
    with pytest.raises(DTypeError):
        ulp_distance(np.zeros(2, a), np.zeros(2, b))


def test_other_shapes_are_refused_rather_than_broadcast() -> None:
    with pytest.raises(SchemaError):
        ulp_distance(np.zeros((2, 1)), np.zeros((1, 2)))


def test_one_cast_to_float32_is_at_most_half_a_spacing() -> None:
    values = np.random.default_rng(0).normal(size=1000)
    single = values.astype(np.float32)
    neighbours = np.stack([np.nextafter(single, -np.inf), single, np.nextafter(single, np.inf)])
    nearest = np.abs(neighbours.astype(np.float64) - values).argmin(axis=0)
    assert np.all(nearest == 1)
