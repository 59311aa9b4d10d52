"""`ColumnSpec`: names, dtypes, chunks, and which arrays are rows of a column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from trajpipe.core.errors import DTypeError, SchemaError
from trajpipe.store import ColumnSpec, Compression
from trajpipe.store.codecs import Codec, chunk_shape, codec_of
from trajpipe.store.columns import ALIGNMENT, DTYPES


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_of_the_format(dtype: str) -> None:
    spec = ColumnSpec("x", dtype, (2, 3))
    assert (spec.dtype.name, spec.row_items, spec.row_bytes) == (dtype, 6, 6 * np.dtype(dtype).itemsize)


def test_bool_is_stored_as_uint8_and_takes_both() -> None:
    spec = ColumnSpec("done", bool)
    assert spec.dtype == np.uint8
    assert spec.takes_bool
    assert spec.rows_of(np.array([True, False])).tolist() == [1, 0]
    assert spec.rows_of(np.array([1, 0], np.uint8)).tolist() == [1, 0]
    with pytest.raises(DTypeError):
        ColumnSpec("done", np.uint8).rows_of(np.array([True]))


@pytest.mark.parametrize("dtype", ["float16", "complex64", "S4", "datetime64[s]", "longdouble"])
def test_other_dtypes_are_refused(dtype: str) -> None:
    with pytest.raises(DTypeError):
        ColumnSpec("x", dtype)


@pytest.mark.parametrize(
    "name", ["", "__manifest__", "ep_len", "ep_offset", "a:b", "a/b", "a\nb", " a", "a ", ".", "a\0b"]
)
def test_names_that_cannot_stand_are_refused(name: str) -> None:
    with pytest.raises(SchemaError):
        ColumnSpec(name, "float32")


@pytest.mark.parametrize("shape", [(0,), (3, 0), (-1,)])
def test_dimensions_are_positive(shape: tuple[int, ...]) -> None:
    with pytest.raises(SchemaError):
        ColumnSpec("x", "float32", shape)


def test_chunk_rows_are_positive() -> None:
    with pytest.raises(SchemaError):
        ColumnSpec("x", "float32", chunk_rows=0)


@pytest.mark.parametrize(
    ("array", "fits"),
    [
        (np.zeros((4, 3), np.float32), True),
        (np.zeros((4, 3), ">f4"), True),
        (np.zeros((3, 4), np.float32).T, True),
        (np.zeros((8, 6), np.float32)[::2, ::2], True),
        (np.zeros((0, 3), np.float32), True),
        (np.zeros((4, 3), np.float64), False),
        (np.zeros((4, 3), np.int32), False),
        (np.zeros((4, 2), np.float32), False),
        (np.zeros((4, 1, 3), np.float32), False),
        (np.zeros(3, np.float32), False),
        (np.float32(0), False),
    ],
)
def test_rows_of_a_vector_column(array: NDArray[Any], fits: bool) -> None:
    spec = ColumnSpec("x", "float32", 3)
    if fits:
        rows = spec.rows_of(array)
        assert rows.flags.c_contiguous
        assert rows.dtype == np.dtype("=f4")
        assert np.array_equal(rows, array)
    else:
        with pytest.raises((DTypeError, SchemaError)):
            spec.rows_of(array)


def test_width_one_is_taken_with_and_without_its_axis() -> None:
    assert ColumnSpec("x", "int32", 1).rows_of(np.arange(3, dtype=np.int32)).shape == (3, 1)
    assert ColumnSpec("x", "int32").rows_of(np.zeros((3, 1), np.int32)).shape == (3,)


def test_read_only_arrays_are_taken() -> None:
    rows = np.zeros((2, 3), np.float32)
    rows.flags.writeable = False
    assert ColumnSpec("x", "float32", 3).rows_of(rows) is not None


def test_a_big_endian_array_keeps_its_values() -> None:
    values = np.array([1, 256, -5], ">i4")
    assert ColumnSpec("x", "int32").rows_of(values).tolist() == [1, 256, -5]


@pytest.mark.parametrize("columns", [1, 5])
@pytest.mark.parametrize("width", [1, 3, 6, 17, 26, 1000])
def test_chunks_are_sized_in_bytes_and_follow_each_other_without_a_gap(width: int, columns: int) -> None:
    spec = ColumnSpec("x", "float32", width)
    size = spec.chunk_rows_for(columns) * spec.row_bytes
    target = 1 << 20 if columns == 1 else 1 << 18
    assert 0.9 * target < size <= target
    assert size % ALIGNMENT == 0


def test_chunks_of_images_are_16_frames_but_never_huge() -> None:
    assert ColumnSpec("images", "uint8", (2, 3, 128, 128)).chunk_rows_for(3) == 16
    assert ColumnSpec("images", "uint8", (3, 2160, 3840)).chunk_rows_for(3) == 1
    assert ColumnSpec("images", "uint8", (3, 512, 1024), chunk_rows=2).chunk_rows_for(1) == 2
    assert ColumnSpec("x", "float64", 10**7).chunk_rows_for(1) == 1


def test_the_default_codec_is_zstd_for_images_alone() -> None:
    image, flat = ColumnSpec("images", "uint8", (3, 8, 8)), ColumnSpec("bytes", "uint8", 64)
    assert codec_of(image, Compression.ZSTD).compression is Compression.ZSTD
    assert codec_of(flat, Compression.ZSTD).compression is Compression.NONE
    own = ColumnSpec("images", "uint8", (3, 8, 8), compression="none")
    assert codec_of(own, Compression.ZSTD).compression is Compression.NONE
    with pytest.raises(ValueError, match="lzma"):
        ColumnSpec("x", "uint8", compression="lzma")


@pytest.mark.parametrize(
    ("shape", "chunk"),
    [
        ((2, 3, 128, 96), (16, 1, 3, 16, 96)),
        ((3, 128, 96), (16, 3, 16, 96)),
        ((128, 96, 3), (16, 16, 96, 3)),
        ((2, 128, 96, 3), (16, 1, 16, 96, 3)),
        ((128, 96), (16, 16, 96)),
        ((3, 8, 96), (16, 3, 8, 96)),
    ],
)
def test_deflated_images_are_cut_into_strips(shape: tuple[int, ...], chunk: tuple[int, ...]) -> None:
    assert chunk_shape(ColumnSpec("images", "uint8", shape), Codec(Compression.DEFLATE), 2) == chunk
