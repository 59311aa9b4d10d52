"""The reader: everything a store promises is checked on open; slabs, whole columns, mapped views, limits."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from trajpipe.core.errors import (
    InputError,
    MissingNameError,
    RowIndexError,
    SchemaError,
    TrajpipeError,
    UnreadableError,
    UntrustedError,
    UsageError,
)
from trajpipe.store import ColumnSpec, TrajectoryStore, compact
from trajpipe_tests.store.recordings import LENGTHS, arrays, columns, write


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """An ordinary store."""
    write(tmp_path / "x.h5")
    return tmp_path / "x.h5"


def test_what_the_store_says(path: Path) -> None:
    with TrajectoryStore(path) as store:
        assert (store.n_rows, store.n_episodes, store.is_foreign) == (sum(LENGTHS), len(LENGTHS), False)
        assert (store.env_id, store.seed, store.source_commit) == ("Lift", 7, "")
        assert list(store.columns) == [c.name for c in columns()]
        assert store.ep_len.tolist() == list(LENGTHS)
        assert store.episodes.rows_of(2) == (8, 20)
        assert store.episodes.episode_of([0, 6, 7, 8, 49]).tolist() == [0, 0, 1, 2, 3]
        assert store.episodes.is_first([0, 1, 7, 8]).tolist() == [True, False, True, True]
        assert repr(store) == f"TrajectoryStore({str(path)!r}, rows=50, episodes=4)"
        assert not store.ep_len.flags.writeable
        with pytest.raises(RowIndexError):
            store.episodes.rows_of(4)
        with pytest.raises(RowIndexError):
            store.episodes.episode_of([50])


def test_tasks(path: Path, tmp_path: Path) -> None:
    with TrajectoryStore(path) as store:
        assert store.task_text(1) == "stack"
        for index in (-1, 2):
            with pytest.raises(MissingNameError, match="no such task"):
                store.task_text(index)
    write(tmp_path / "none.h5", tasks=())
    with TrajectoryStore(tmp_path / "none.h5") as store, pytest.raises(MissingNameError, match="no tasks"):
        store.task_text(0)


def test_rows(path: Path) -> None:
    rows = arrays()
    with TrajectoryStore(path) as store:
        for name, array in rows.items():
            assert np.array_equal(store.load_column(name), array)
            assert np.array_equal(store.read_range(name, 5, 33), array[5:33])
            assert store.read_range(name, 9, 9).shape == (0, *array.shape[1:])
            out = np.empty_like(store.read_range(name, 0, 4))
            assert store.read_range(name, 46, 50, out=out) is out
            assert np.array_equal(out, array[46:50])
            assert np.array_equal(store.read_episode(name, 1), array[7:8])


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (0, 51), (3, 2), (51, 51)])
def test_rows_out_of_range_raise(path: Path, start: int, stop: int) -> None:
    with TrajectoryStore(path) as store, pytest.raises(RowIndexError, match=r"\[0, 50\)"):
        store.read_range("action", start, stop)


def test_an_unknown_column_names_the_known_ones(path: Path) -> None:
    with TrajectoryStore(path) as store, pytest.raises(MissingNameError, match="action, joint_pos"):
        store.read_range("actions", 0, 1)


@pytest.mark.parametrize(
    "out",
    [
        np.empty((3, 7)),
        np.empty((2, 7), np.float32),
        np.empty((7, 3), np.float32).T,
        np.empty(21, np.float32),
    ],
)
def test_an_out_that_does_not_fit_is_refused(path: Path, out: Any) -> None:
    with TrajectoryStore(path) as store, pytest.raises(SchemaError, match="out"):
        store.read_range("action", 0, 3, out=out)


def test_a_large_column_is_refused_with_the_way_out(path: Path) -> None:
    with TrajectoryStore(path) as store:
        with pytest.raises(UsageError, match="read_range"):
            store.load_column("action", max_bytes=50 * 7 * 4 - 1)
        assert store.load_column("action", max_bytes=50 * 7 * 4).shape == (50, 7)


def test_a_large_side_table_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["ep_len"], file["ep_offset"], file["a"] = [2], [0], [1, 2]
        file["__manifest__"] = np.frombuffer(
            b"schema_version=1\nn_rows=2\nn_episodes=1\ncolumn=a:int64\n", np.uint8
        )
        file["mean"] = np.zeros(100)
    with TrajectoryStore(tmp_path / "x.h5") as store:
        assert store.side_table("mean", max_bytes=800).shape == (100,)
        with pytest.raises(UsageError, match="mean"):
            store.side_table("mean", max_bytes=799)


# --- mapped views


def test_a_plain_run_is_a_read_only_view(tmp_path: Path) -> None:
    spec = ColumnSpec("x", "float32", 16, chunk_rows=64)
    rows = {"x": np.random.default_rng(0).standard_normal((1000, 16)).astype(np.float32)}
    write(tmp_path / "x.h5", [spec], rows, (1000,))
    with TrajectoryStore(tmp_path / "x.h5") as store:
        view = store.load_column("x", copy=False)
        assert view.base is not None
        assert not view.flags.writeable
        assert view.flags.aligned
        assert not view.flags.owndata
        again = store.load_column("x", copy=False)
        assert np.shares_memory(view, again)
        assert store.load_column("x").flags.writeable
    assert np.array_equal(view, rows["x"]), "the view outlives the store"


def test_what_cannot_be_mapped_is_copied(path: Path) -> None:
    with TrajectoryStore(path) as store:
        view = store.load_column("images", copy=False)
        assert np.array_equal(view, arrays()["images"])
        assert not view.flags.writeable


def test_compact_makes_every_column_mappable(path: Path, tmp_path: Path) -> None:
    compact(path, tmp_path / "c.h5")
    with TrajectoryStore(tmp_path / "c.h5") as store:
        for name, array in arrays().items():
            assert np.array_equal(store.load_column(name, copy=False), array)
        assert np.shares_memory(
            store.load_column("images", copy=False), store.load_column("images", copy=False)
        )


def test_a_file_replaced_meanwhile_is_not_mixed_up(path: Path, tmp_path: Path) -> None:
    with TrajectoryStore(path) as store:
        write(path, rows=arrays(seed=1))
        assert np.array_equal(store.load_column("action"), arrays()["action"])
        assert np.array_equal(store.load_column("images"), arrays()["images"])


# --- life


def test_a_store_pickles_as_its_path(path: Path) -> None:
    with TrajectoryStore(path) as store:
        data = pickle.dumps(store)
        assert len(data) < 300
        with pickle.loads(data) as other:
            assert np.array_equal(other.load_column("action"), store.load_column("action"))


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="no /proc")
def test_a_store_that_is_dropped_gives_its_descriptors_back(path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        store = TrajectoryStore(path)
        view = store.load_column("action", copy=False)
        del store
    gc.collect()
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 1, "but for the mapping's own"
    assert np.array_equal(view, arrays()["action"])


def test_a_store_closes_twice(path: Path) -> None:
    store = TrajectoryStore(path)
    store.close()
    store.close()


def _child(store: TrajectoryStore, queue: Any) -> None:
    queue.put((os.getpid(), store.load_column("images").sum(), store.read_range("action", 3, 5)))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_store_works_in_a_child_process(path: Path, method: str) -> None:
    context: Any = multiprocessing.get_context(method)
    queue = context.Queue()
    with TrajectoryStore(path) as store:
        store.load_column("images")
        child = context.Process(target=_child, args=(store, queue))
        child.start()
        pid, total, rows = queue.get(timeout=60)
        child.join()
        assert pid != os.getpid()
        assert total == arrays()["images"].sum()
        assert np.array_equal(rows, arrays()["action"][3:5])
        assert np.array_equal(store.load_column("images"), arrays()["images"])


# --- validation on open


def replace(name: str, value: Any) -> Callable[[h5py.File], None]:
    def edit(file: h5py.File) -> None:
        del file[name]
        if value is not None:
            file[name] = value

    return edit


def manifest(old: str, new: str) -> Callable[[h5py.File], None]:
    def edit(file: h5py.File) -> None:
        text = file["__manifest__"][()].tobytes().decode()
        assert old in text
        replace("__manifest__", np.frombuffer(text.replace(old, new).encode(), np.uint8))(file)

    return edit


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (replace("ep_len", np.array([7, 1, 12])), "one length"),
        (replace("ep_len", np.array([7, 0, 13, 30])), "at least one row"),
        (replace("ep_len", np.array([7, -1, 14, 30])), "at least one row"),
        (replace("ep_len", np.array([7, 1, 12, 29])), "n_rows"),
        (replace("ep_len", np.array([7.0, 1, 12, 30])), "integers"),
        (replace("ep_len", np.array([[7, 1, 12, 30]])), "integers"),
        (replace("ep_len", np.array([2**63 - 1, 2**62, 1, 1])), "counted|begins"),
        (replace("ep_len", np.array([2**64 - 1, 1, 1, 1], np.uint64)), "int64"),
        (replace("ep_len", None), "episode index"),
        (replace("ep_offset", None), "episode index"),
        (replace("ep_offset", np.array([0, 7, 9, 20])), "begins where"),
        (replace("ep_offset", np.array([0, 8, 7, 20])), "begins where"),
        (replace("ep_offset", np.array([1, 8, 9, 21])), "begins where"),
        (replace("action", np.zeros((50, 7))), "declared dtype"),
        (replace("action", np.zeros((50, 8), np.float32)), "declared shape"),
        (replace("action", np.zeros((49, 7), np.float32)), "declared shape"),
        (replace("action", np.float32(0)), "declared shape"),
        (replace("action", None), "has a dataset"),
        (replace("images", np.zeros((50, 3, 2, 20, 24), np.uint8)), "declared shape"),
        (manifest("n_rows=50", "n_rows=51"), "n_rows"),
        (manifest("n_episodes=4", "n_episodes=3"), "n_episodes"),
        (manifest("schema_version=1", "schema_version=9"), "schema version"),
        (manifest("action:float32:7", "action:float32:8"), "declared shape"),
        (manifest("action:float32:7", "action:float64:7"), "declared dtype"),
        (replace("__manifest__", np.zeros((2, 3), np.uint8)), "one row of uint8"),
        (replace("__manifest__", np.zeros(3, np.int32)), "one row of uint8"),
    ],
)
def test_a_store_that_contradicts_itself_does_not_open(
    path: Path, edit: Callable[[h5py.File], None], said: str
) -> None:
    with h5py.File(path, "r+") as file:
        edit(file)
    with pytest.raises(InputError, match=said) as caught:
        TrajectoryStore(path)
    assert "x.h5" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "no such file"),
        (b"", "empty"),
        (b"not hdf5 at all" * 99, "not HDF5"),
        (b"version https://git-lfs", "lfs"),
    ],
)
def test_what_is_no_store_says_what_it_is(tmp_path: Path, content: bytes | None, said: str) -> None:
    if content is not None:
        (tmp_path / "x.h5").write_bytes(content)
    with pytest.raises(UnreadableError, match=said):
        TrajectoryStore(tmp_path / "x.h5")


def test_a_truncated_store_is_said_to_be(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(TrajpipeError):
        TrajectoryStore(path)


def test_a_store_that_leads_out_of_itself_is_refused(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        file["x"] = h5py.ExternalLink("/etc/passwd", "/")
    with pytest.raises(UntrustedError):
        TrajectoryStore(path)


def test_a_broken_chunk_names_its_column(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    write(path)
    with h5py.File(path) as file:
        info = file["images"].id.get_chunk_info(1)
    data = bytearray(path.read_bytes())
    data[info.byte_offset : info.byte_offset + 40] = b"\xff" * 40
    path.write_bytes(data)
    with TrajectoryStore(path) as store:
        assert np.array_equal(store.read_range("images", 0, 16), arrays()["images"][:16])
        with pytest.raises(UnreadableError, match="images"):
            store.load_column("images")


def test_a_million_episodes_open_quickly(tmp_path: Path) -> None:
    lengths = np.full(1_000_000, 2, np.int64)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["ep_len"], file["ep_offset"] = lengths, np.cumsum(lengths) - lengths
        file.create_dataset("a", (2_000_000,), np.uint8, chunks=(1 << 16,))
    with TrajectoryStore(tmp_path / "x.h5") as store:
        assert store.n_episodes == 1_000_000
        assert store.episodes.episode_of([1_999_999]).tolist() == [999_999]
