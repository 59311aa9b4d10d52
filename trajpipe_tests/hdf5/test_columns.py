"""Columns over HDF5 datasets: native dtypes, blocks, and broken bytes that name their place.

What is not here: opening files, see `test_files`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest

from trajpipe.core.episode import blocks, whole
from trajpipe.core.errors import RowIndexError, SchemaError, UnreadableError
from trajpipe.hdf5.columns import column_of


@pytest.fixture
def handle(tmp_path: Path) -> Iterator[h5py.File]:
    with h5py.File(tmp_path / "columns.hdf5", "w") as file:
        yield file


def test_big_endian_becomes_native(handle: h5py.File) -> None:
    values = np.linspace(-3, 3, 12, dtype=">f8").reshape(4, 3)
    handle["x"] = values
    column = column_of(handle["x"])
    assert column.dtype == np.dtype("=f8")
    assert column.dtype.isnative
    assert column.shape == (4, 3)
    rows = column.read(1, 3)
    assert rows.dtype.isnative
    np.testing.assert_array_equal(rows, values[1:3])


def test_hdf5_bool_stays_bool(handle: h5py.File) -> None:
    handle["flag"] = np.array([True, False, True])
    column = column_of(handle["flag"])
    assert column.dtype == np.bool_
    assert whole(column).tolist() == [True, False, True]


@pytest.mark.parametrize("dtype", ["u1", "i2", "u4", "i8", "f2", "f4", "f8"])
def test_numbers_keep_their_dtype_and_values(handle: h5py.File, dtype: str) -> None:
    values = np.arange(10, dtype=dtype)
    handle["x"] = values
    column = column_of(handle["x"])
    assert column.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(whole(column), values)


def test_blocks_cover_all_rows_in_order(handle: h5py.File) -> None:
    values = np.arange(1000, dtype=np.float32).reshape(100, 10)
    handle["x"] = values
    parts = list(blocks(column_of(handle["x"]), max_bytes=400))
    assert [len(p) for p in parts] == [10] * 10
    np.testing.assert_array_equal(np.concatenate(parts), values)


def test_rows_outside_are_refused(handle: h5py.File) -> None:
    handle["x"] = np.zeros((3, 2))
    column = column_of(handle["x"])
    assert column.read(3, 3).shape == (0, 2)
    with pytest.raises(RowIndexError, match=r"\[1, 4\)"):
        column.read(1, 4)
    with pytest.raises(IndexError):
        column.read(-1, 2)


def test_what_has_no_rows_is_no_column(handle: h5py.File) -> None:
    handle["scalar"] = 3.0
    handle["text"] = "words"
    handle["texts"] = np.array([b"a", b"b"])
    handle["pair"] = np.zeros(3, dtype=[("a", "f4"), ("b", "i4")])
    handle.create_dataset("empty", data=h5py.Empty("f4"))
    handle["complex"] = np.zeros(3, dtype=np.complex64)
    for name in ("scalar", "text", "texts", "pair", "empty", "complex"):
        with pytest.raises(SchemaError) as caught:
            column_of(handle[name])
        assert caught.value.code == "not-a-column"
        assert f"/{name}" in str(caught.value)


def test_a_broken_chunk_names_dataset_and_row(tmp_path: Path) -> None:
    path = tmp_path / "broken.hdf5"
    values = np.random.default_rng(0).normal(size=(64, 32))
    with h5py.File(path, "w") as handle:
        dataset = handle.create_dataset("data/x", data=values, chunks=(16, 32), compression="gzip")
        where = dataset.id.get_chunk_info(2)
    content = bytearray(path.read_bytes())
    for offset in range(where.byte_offset + 100, where.byte_offset + 140):
        content[offset] ^= 0xFF
    path.write_bytes(content)
    with h5py.File(path, "r") as handle:
        column = column_of(handle["data/x"])
        np.testing.assert_array_equal(column.read(0, 32), values[:32])
        with pytest.raises(UnreadableError) as caught:
            column.read(32, 48)
    assert caught.value.code == "broken-chunk"
    assert "broken.hdf5 · /data/x · row 32" in str(caught.value)


def test_a_filter_that_is_not_there_is_unreadable(tmp_path: Path) -> None:
    path = tmp_path / "filter.hdf5"
    with h5py.File(path, "w") as handle:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((4,))
        plist.set_filter(h5py.h5z.FILTER_DEFLATE, 0, (1,))
        space = h5py.h5s.create_simple((4,))
        dataset = h5py.h5d.create(handle.id, b"x", h5py.h5t.NATIVE_FLOAT, space, plist)
        h5py.Dataset(dataset)[...] = np.ones(4, np.float32)
    content = path.read_bytes()
    # The filter message names deflate; another number in its place is a filter that nobody has.
    at = content.index(b"deflate") - 8
    path.write_bytes(content[:at] + (399).to_bytes(2, "little") + content[at + 2 :])
    with h5py.File(path, "r") as handle, pytest.raises(UnreadableError):
        column_of(handle["x"]).read(0, 4)


def test_values_that_are_declared_and_never_stored_are_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "huge.hdf5", "w") as file:
        huge = file.create_dataset("huge", (20, 1 << 27), "f8", chunks=(1, 1 << 20), compression="gzip")
        small = file.create_dataset("small", (20, 1 << 10), "f8", chunks=(1, 1 << 10))
        with pytest.raises(UnreadableError, match="stores none") as caught:
            column_of(huge)
        assert caught.value.code == "never-written"
        assert column_of(small).shape == (20, 1 << 10)


def test_a_few_stored_chunks_do_not_make_up_for_the_others(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "few.hdf5", "w") as file:
        few = file.create_dataset("few", (1 << 40, 7), "f4", chunks=(1024, 7), compression="gzip")
        few[:3] = 1.0
        whole = file.create_dataset("whole", (3 << 20, 7), "f4", chunks=(1 << 18, 7), compression="gzip")
        whole[:] = np.zeros(whole.shape, np.float32)
        lacking = file.create_dataset("lacking", (3 << 20, 7), "f4", chunks=(1 << 18, 7), compression="gzip")
        lacking[: 2 << 20] = np.zeros((2 << 20, 7), np.float32)
        file.create_dataset("contiguous", data=np.zeros((3 << 20, 7), np.float32))
        with pytest.raises(UnreadableError, match="stores few of them") as caught:
            column_of(few)
        assert caught.value.code == "never-written"
        for known in ("whole", "lacking", "contiguous"):
            assert column_of(file[known]).shape == (3 << 20, 7)


def bomb(handle: h5py.File, path: str, chunks: int, *, noise: int = 0) -> h5py.Dataset:
    """A dataset of chunks of 64 MiB zeros; `noise` random bytes begin each, so that it deflates less."""
    width = 1 << 20
    made = handle.create_dataset(path, (chunks * 64, width), "u1", chunks=(64, width), compression="gzip")
    content = np.zeros(64 * width, np.uint8)
    content[:noise] = np.random.default_rng(0).integers(0, 256, noise, np.uint8)
    packed = zlib.compress(content.tobytes(), 1)
    for i in range(chunks):
        made.id.write_direct_chunk((i * 64, 0), packed)
    return made


def test_a_deflate_bomb_is_refused_with_both_sizes(handle: h5py.File) -> None:
    with pytest.raises(UnreadableError, match="far more bytes than it stores") as caught:
        column_of(bomb(handle, "data/demo_0/obs/front", 40))
    assert caught.value.code == "absurd-size"
    assert str(caught.value.got).startswith("2,684,354,560 bytes in ")
    assert "at most 200 for each stored byte" in str(caught.value.expected)


def test_a_small_blank_camera_and_a_large_real_one_are_read(handle: h5py.File) -> None:
    blank = column_of(bomb(handle, "blank", 8))
    assert not blank.read(0, 2).any()
    assert column_of(bomb(handle, "real", 40, noise=1 << 19)).shape == (2560, 1 << 20)
