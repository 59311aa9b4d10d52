"""Inflating chunks outside HDF5 gives what HDF5 gives, or leaves the reading to it.

What is not here: columns, see `test_columns.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trajpipe.core.errors import UnreadableError
from trajpipe.hdf5 import inflate
from trajpipe.hdf5.columns import HDF5Column
from trajpipe.hdf5.inflate import read_inflated


@pytest.fixture
def file(tmp_path: Path) -> Any:
    """An open file to make datasets in."""
    with h5py.File(tmp_path / "a.hdf5", "w") as handle:
        yield handle


@pytest.fixture(autouse=True)
def small_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small reads take the fast way too, so that tests stay small."""
    monkeypatch.setattr(inflate, "LEAST_BYTES", 1)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_grid_and_any_rows(data: st.DataObject) -> None:
    shape = data.draw(st.tuples(st.integers(1, 40), st.integers(1, 9), st.integers(1, 5)))
    chunks = tuple(data.draw(st.integers(1, n)) for n in shape)
    dtype = data.draw(st.sampled_from(["u1", "f4", "i8", "f2"]))
    start = data.draw(st.integers(0, shape[0]))
    stop = data.draw(st.integers(start, shape[0]))
    values = np.random.default_rng(0).integers(0, 100, shape).astype(dtype)
    with h5py.File("memory", "w", driver="core", backing_store=False) as handle:
        stored = handle.create_dataset("x", data=values, chunks=chunks, compression="gzip")
        found = read_inflated(stored, start, stop)
    part_of_a_chunk = stop - start < chunks[0] and stop < shape[0]
    if part_of_a_chunk or start == stop:
        assert found is None
    else:
        assert found is not None
        assert found.dtype == values.dtype
        np.testing.assert_array_equal(found, values[start:stop])


@pytest.mark.parametrize(
    ("values", "options"),
    [
        (np.zeros((8, 4), np.uint8), {}),
        (np.zeros((8, 4), np.uint8), {"chunks": (2, 4)}),
        (np.zeros((8, 4), np.uint8), {"chunks": (2, 4), "compression": "lzf"}),
        (np.zeros((8, 4), np.uint8), {"chunks": (2, 4), "compression": "gzip", "fletcher32": True}),
        (np.zeros((8, 4), np.uint8), {"chunks": (2, 4), "compression": "gzip", "shuffle": True}),
        (np.zeros((8, 4), ">f4"), {"chunks": (2, 4), "compression": "gzip"}),
        (np.zeros((8, 4), np.bool_), {"chunks": (2, 4), "compression": "gzip"}),
    ],
)
def test_what_hdf5_reads_itself(file: h5py.File, values: Any, options: dict[str, Any]) -> None:
    stored = file.create_dataset("x", data=values, **options)
    assert read_inflated(stored, 0, 8) is None
    np.testing.assert_array_equal(HDF5Column(stored).read(0, 8), values)


def test_a_small_read_is_left_to_the_chunk_cache(file: h5py.File, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inflate, "LEAST_BYTES", 128 << 10)
    stored = file.create_dataset("x", data=np.zeros((8, 4), np.uint8), chunks=(2, 4), compression="gzip")
    assert read_inflated(stored, 0, 8) is None


def test_a_chunk_that_was_never_written_reads_as_the_fill_value(file: h5py.File) -> None:
    stored = file.create_dataset("x", (8, 4), "u1", chunks=(2, 4), compression="gzip", fillvalue=7)
    stored[2:4] = 1
    assert read_inflated(stored, 0, 8) is None
    assert HDF5Column(stored).read(0, 8)[:, 0].tolist() == [7, 7, 1, 1, 7, 7, 7, 7]


def test_a_chunk_stored_without_its_filter(file: h5py.File) -> None:
    stored = file.create_dataset("x", (4, 4), "u1", chunks=(2, 4), compression="gzip")
    stored[...] = 1
    stored.id.write_direct_chunk((2, 0), np.arange(8, dtype=np.uint8).tobytes(), filter_mask=1)
    found = read_inflated(stored, 0, 4)
    assert found is not None
    assert found[2:].ravel().tolist() == list(range(8))


@pytest.mark.parametrize("bytes_there", [b"\xff" * 20, b""])
def test_a_broken_chunk_is_unreadable(file: h5py.File, bytes_there: bytes) -> None:
    stored = file.create_dataset("x", data=np.zeros((8, 4), np.uint8), chunks=(2, 4), compression="gzip")
    stored.id.write_direct_chunk((4, 0), bytes_there or b"\x00")
    assert read_inflated(stored, 0, 8) is None
    with pytest.raises(UnreadableError, match="cannot be read"):
        HDF5Column(stored).read(0, 8)


def test_a_chunk_of_another_size_is_left_to_hdf5(file: h5py.File) -> None:
    import zlib

    stored = file.create_dataset("x", data=np.zeros((8, 4), np.uint8), chunks=(2, 4), compression="gzip")
    stored.id.write_direct_chunk((4, 0), zlib.compress(b"abc"))
    assert read_inflated(stored, 0, 8) is None
