"""Columns in memory: gathers checked before they read, windows that lose no tail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trajpipe.core.errors import MissingNameError, RowIndexError, SchemaError, UsageError
from trajpipe.store import IndexBatch, ResidentColumn, TrajectoryStore, WindowedColumn
from trajpipe_tests.store.recordings import arrays, write


@pytest.fixture
def store(tmp_path: Path) -> TrajectoryStore:
    """An ordinary store, open."""
    write(tmp_path / "x.h5")
    return TrajectoryStore(tmp_path / "x.h5")


@pytest.mark.parametrize("name", ["action", "images", "reward", "task_index"])
@pytest.mark.parametrize("copy", [True, False])
def test_a_gather_is_fancy_indexing(store: TrajectoryStore, name: str, copy: bool) -> None:
    column, rows = ResidentColumn.load(store, name, copy=copy), arrays()[name]
    assert len(column) == 50
    assert column.nbytes == rows.nbytes
    batches: list[Any] = [
        [0, 49, 49, 3],
        np.array([[1, 2], [3, 4]]),
        np.array([7], np.uint8),
        IndexBatch(np.arange(12).reshape(3, 4)),
        [],
    ]
    for indices in batches:
        at = np.asarray(indices, np.int64)
        got = column.gather(indices)
        assert got.dtype == rows.dtype
        assert np.array_equal(got, rows[at])
        out = np.empty_like(got)
        assert column.gather(indices, out=out) is out
        assert np.array_equal(out, got)


@pytest.mark.parametrize("indices", [[50], [0, -1], [-(2**63)], [2**62], [[0], [99]]])
def test_out_of_range_raises_before_anything_is_read(store: TrajectoryStore, indices: Any) -> None:
    out = np.full((*np.shape(indices), 7), 5, np.float32)
    with pytest.raises(RowIndexError, match=r"\[0, 50\)"):
        ResidentColumn.load(store, "action").gather(indices, out=out)
    assert (out == 5).all()


def test_indices_are_integers(store: TrajectoryStore) -> None:
    with pytest.raises(RowIndexError, match="integers"):
        ResidentColumn.load(store, "action").gather([0.5])


@pytest.mark.parametrize(
    "out", [np.empty((2, 7)), np.empty((3, 7), np.float32), np.empty((7, 2), np.float32).T]
)
def test_an_out_that_does_not_fit_is_refused(store: TrajectoryStore, out: Any) -> None:
    with pytest.raises(SchemaError, match="out"):
        ResidentColumn.load(store, "action").gather([0, 1], out=out)


def test_the_residency_guard(store: TrajectoryStore) -> None:
    with pytest.raises(UsageError, match="read_range"):
        ResidentColumn.load(store, "images", max_bytes=10**5)
    with pytest.raises(MissingNameError):
        ResidentColumn.load(store, "nope")


@pytest.mark.parametrize("size", [1, 7, 16, 25, 49, 50, 1000])
def test_windows_cover_every_row_once(store: TrajectoryStore, size: int) -> None:
    rows = arrays()["action"]
    window = WindowedColumn(store, "action", size)
    seen, steps = [window.rows.copy()], 1
    while window.advance():
        first, last = window.new_rows
        assert last == window.stop
        assert window.stop - window.start == window.window_rows
        seen.append(window.rows[first - window.start :].copy())
        assert np.array_equal(
            window.gather(np.arange(window.start, window.stop)), rows[window.start : window.stop]
        )
        steps += 1
    assert np.array_equal(np.concatenate(seen), rows), "the tail is not lost"
    assert window.refills == steps == -(-50 // min(size, 50))
    assert not window.advance()
    assert window.refills == steps


def test_seek_clamps_to_the_last_full_window(store: TrajectoryStore) -> None:
    window = WindowedColumn(store, "action", 20)
    assert window.seek(12) == 12
    assert window.seek(45) == 30
    assert np.array_equal(window.rows, arrays()["action"][30:])
    assert window.new_rows == (30, 50)
    assert window.refills == 3
    for start in (-1, 50):
        with pytest.raises(RowIndexError):
            window.seek(start)
    assert window.refills == 3


def test_a_miss_raises_and_does_not_refill(store: TrajectoryStore) -> None:
    window = WindowedColumn(store, "images", 10)
    window.seek(10)
    for wrong in (9, 20):
        with pytest.raises(RowIndexError, match=r"\[10, 20\)"):
            window.gather([10, wrong])
    assert window.refills == 2
    assert np.array_equal(window.gather([19, 10]), arrays()["images"][[19, 10]])
    assert not window.rows.flags.writeable


def test_a_window_has_rows_and_a_column(store: TrajectoryStore) -> None:
    with pytest.raises(UsageError):
        WindowedColumn(store, "action", 0)
    with pytest.raises(MissingNameError):
        WindowedColumn(store, "nope", 3)
