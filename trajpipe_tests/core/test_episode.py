"""Tests of columns and episodes: blocks, slices, casts, row checks.

What is not here: columns that read files.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from trajpipe.core.episode import (
    ArrayColumn,
    Column,
    Episode,
    FunctionColumn,
    blocks,
    cast,
    is_image,
    mapped,
    rows_per_block,
    sliced,
    whole,
)
from trajpipe.core.errors import RowIndexError, SchemaError

ARRAYS = hnp.arrays(
    st.sampled_from([np.float64, np.float32, np.uint8, np.bool_]),
    hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=6),
)


def counting(length: int, trailing: tuple[int, ...] = ()) -> tuple[FunctionColumn, list[tuple[int, int]]]:
    """A lazy float32 column whose rows are their numbers, and the reads that were made of it."""
    reads: list[tuple[int, int]] = []

    def fetch(start: int, stop: int) -> NDArray[Any]:
        reads.append((start, stop))
        rows = np.arange(start, stop, dtype=np.float32).reshape(-1, *(1 for _ in trailing))
        return np.broadcast_to(rows, (stop - start, *trailing))

    return FunctionColumn(np.dtype(np.float32), (length, *trailing), fetch), reads


@given(ARRAYS, st.integers(1, 200))
def test_blocks_are_all_rows_in_order_and_none_is_too_big(array: NDArray[Any], max_bytes: int) -> None:
    column = ArrayColumn(array)
    parts = list(blocks(column, max_bytes))
    np.testing.assert_array_equal(np.concatenate([array[:0], *parts]), array)
    assert all(part.nbytes <= max_bytes or len(part) == 1 for part in parts)
    assert all(len(part) for part in parts)


def test_a_row_larger_than_a_block_is_read_alone() -> None:
    column, reads = counting(3, (100,))
    assert rows_per_block(column, 10) == 1
    assert sum(len(part) for part in blocks(column, 10)) == 3
    assert reads == [(0, 1), (1, 2), (2, 3)]


def test_a_column_of_nothing_wide_rows_has_one_block() -> None:
    assert len(list(blocks(ArrayColumn(np.zeros((5, 0))), 8))) == 1


@pytest.mark.parametrize("column", [ArrayColumn(np.arange(5.0)), counting(5)[0]])
@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (0, 6), (3, 2), (6, 6)])
def test_rows_out_of_range_are_refused(column: Column, start: int, stop: int) -> None:
    with pytest.raises(RowIndexError, match=r"expected within \[0, 5\)"):
        column.read(start, stop)


def test_the_empty_range_at_the_end_is_no_error() -> None:
    assert ArrayColumn(np.arange(5.0)).read(5, 5).shape == (0,)


def test_lazy_columns_read_only_what_is_asked_for() -> None:
    column, reads = counting(1000)
    np.testing.assert_array_equal(sliced(column, 100, 200).read(10, 12), [110, 111])
    assert reads == [(110, 112)]


def test_a_slice_knows_its_own_bounds() -> None:
    column, _ = counting(10, (2,))
    part = sliced(column, 4, 7)
    assert part.shape == (3, 2)
    np.testing.assert_array_equal(whole(part)[:, 0], [4, 5, 6])
    with pytest.raises(RowIndexError):
        part.read(0, 4)
    with pytest.raises(RowIndexError):
        sliced(column, 4, 11)


def test_slices_nest() -> None:
    column, _ = counting(10)
    np.testing.assert_array_equal(whole(sliced(sliced(column, 2, 9), 3, 5)), [5, 6])


def test_a_cast_to_the_same_dtype_is_the_column_itself() -> None:
    column = ArrayColumn(np.zeros(3, np.float32))
    assert cast(column, np.float32) is column


@given(hnp.arrays(np.float64, 7, elements=st.floats(-1e30, 1e30)))
def test_the_declared_cast_is_one_round_to_nearest(array: NDArray[np.float64]) -> None:
    out = cast(ArrayColumn(array), np.float32)
    assert out.dtype == np.float32
    np.testing.assert_array_equal(whole(out), array.astype(np.float32))


def test_mapping_may_change_dtype_and_trailing_shape() -> None:
    column, _ = counting(4, (3,))
    out = mapped(column, lambda rows: rows.sum(axis=1).astype(np.int64), dtype=np.int64, trailing=())
    assert (out.dtype, out.shape) == (np.dtype(np.int64), (4,))
    np.testing.assert_array_equal(whole(out), [0, 3, 6, 9])


def test_every_kind_of_column_fits_the_protocol() -> None:
    column, _ = counting(2)
    for one in (ArrayColumn(np.zeros(2)), column, sliced(column, 0, 1), mapped(column, np.negative)):
        assert isinstance(one, Column)


@pytest.mark.parametrize(
    ("shape", "dtype", "expected"),
    [
        ((2, 8, 8, 3), np.uint8, True),
        ((2, 8, 8, 1), np.uint8, True),
        ((2, 8, 8, 4), np.uint8, True),
        ((2, 3, 8, 8), np.uint8, False),
        ((2, 8, 8, 3), np.float32, False),
        ((8, 8, 3), np.uint8, False),
    ],
)
def test_images_are_told_by_dtype_and_shape(shape: tuple[int, ...], dtype: Any, *, expected: bool) -> None:
    assert is_image(ArrayColumn(np.zeros(shape, dtype))) is expected


def test_an_episode_s_columns_have_its_length() -> None:
    columns = {"actions": ArrayColumn(np.zeros((5, 7))), "obs/x": ArrayColumn(np.zeros((4, 2)))}
    with pytest.raises(
        SchemaError, match=r"a\.hdf5 · demo_3 · obs/x: .* got 4 rows; expected 5 rows"
    ) as caught:
        Episode("demo_3", 5, columns, source_file="a.hdf5")
    assert caught.value.code == "ragged"


def test_extras_may_have_any_leading_axis() -> None:
    extras = {"initial_state/root_pose": ArrayColumn(np.zeros((1, 7)))}
    episode = Episode("demo_0", 5, {"actions": ArrayColumn(np.zeros((5, 7)))}, extras)
    assert episode.extras["initial_state/root_pose"].shape == (1, 7)


def test_other_columns_keep_the_rest_of_the_episode() -> None:
    episode = Episode("demo_0", 5, {"actions": ArrayColumn(np.zeros((5, 7)))}, task="pick", success=False)
    other = episode.with_columns({"actions": ArrayColumn(np.ones((5, 8)))})
    assert (other.name, other.task, other.success) == ("demo_0", "pick", False)
    assert other.columns["actions"].shape == (5, 8)
    assert episode.columns["actions"].shape == (5, 7)


def test_replacing_columns_checks_their_length_again() -> None:
    episode = Episode("demo_0", 5, {})
    with pytest.raises(SchemaError):
        episode.with_columns({"actions": ArrayColumn(np.zeros((6, 7)))})
