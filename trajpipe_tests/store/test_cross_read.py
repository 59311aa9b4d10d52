"""h5py alone recomputes every value written; noeira's layout is read, and ours obeys its rules."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pytest
from numpy.typing import NDArray

from trajpipe.store import ColumnSpec, Compression, TrajectoryStore, TrajectoryStoreWriter
from trajpipe.store.columns import DTYPES
from trajpipe_tests.store.recordings import LENGTHS, arrays, columns, random_rows, write

SHAPES: list[tuple[int, ...]] = [(), (1,), (5,), (3, 4), (2, 3, 5), (2, 3, 4, 5)]


def same(a: NDArray[Any], b: NDArray[Any]) -> bool:
    """Bit for bit, shapes included."""
    return (
        a.shape == b.shape
        and a.dtype.newbyteorder("=") == b.dtype.newbyteorder("=")
        and a.tobytes() == b.tobytes()
    )


@pytest.mark.parametrize("compression", list(Compression))
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_rank_and_boundary(tmp_path: Path, dtype: str, compression: Compression) -> None:
    """Chunks of 4 rows; lengths that end before, on and after a boundary; uneven pieces."""
    specs = [
        ColumnSpec(f"c{i}", dtype, shape, compression=compression, chunk_rows=4)
        for i, shape in enumerate(SHAPES)
    ]
    for lengths in [(1,), (3, 1), (4, 4), (5, 8, 3), (9,)]:
        rows = {s.name: random_rows(s, sum(lengths), seed=len(lengths)) for s in specs}
        path = tmp_path / f"{sum(lengths)}.h5"
        write(path, specs, rows, lengths)
        with h5py.File(path) as file:
            for spec in specs:
                found = file[spec.name]
                assert same(found[()], rows[spec.name])
                assert found.maxshape == (None, *spec.shape)
                assert found.chunks is not None
            assert file["ep_len"][()].tolist() == list(lengths)
            assert file["ep_len"].dtype == file["ep_offset"].dtype == np.int64
            assert file["ep_offset"][()].tolist() == [sum(lengths[:i]) for i in range(len(lengths))]
        with TrajectoryStore(path) as store:
            for spec in specs:
                assert same(store.load_column(spec.name), rows[spec.name])
                for start in range(store.n_rows):
                    assert same(store.read_range(spec.name, start, store.n_rows), rows[spec.name][start:])


@pytest.mark.parametrize("fletcher32", [False, True])
@pytest.mark.parametrize("compression", list(Compression))
@pytest.mark.parametrize("shape", [(2, 3, 37, 24), (37, 24, 3), (40, 24)])
def test_images_in_every_storage(
    tmp_path: Path, shape: tuple[int, ...], compression: Compression, fletcher32: bool
) -> None:
    spec = ColumnSpec("images", "uint8", shape)
    rows = {"images": random_rows(spec, 39) // 64}
    path = tmp_path / "x.h5"
    write(path, [spec], rows, (20, 19), image_compression=compression, fletcher32=fletcher32)
    with h5py.File(path) as file:
        assert same(file["images"][()], rows["images"])
        assert file["images"].fletcher32 == fletcher32
    with TrajectoryStore(path) as store:
        assert same(store.load_column("images"), rows["images"])
        for start, stop in [(0, 1), (15, 17), (16, 32), (31, 39), (38, 39), (5, 5)]:
            assert same(store.read_range("images", start, stop), rows["images"][start:stop])
        order = np.random.default_rng(0).permutation(39)
        assert all(same(store.read_range("images", i, i + 1), rows["images"][i : i + 1]) for i in order)


@pytest.mark.parametrize("shape", [(3, 40, 24), (8,)])
def test_deflate_opens_without_any_plugin(tmp_path: Path, shape: tuple[int, ...]) -> None:
    path = tmp_path / "x.h5"
    spec = ColumnSpec("x", "uint8", shape, compression="deflate")
    write(path, [spec], {"x": random_rows(spec, 20)}, (20,))
    with h5py.File(path) as file:
        plist = file["x"].id.get_create_plist()
        assert [plist.get_filter(i)[0] for i in range(plist.get_nfilters())] == [h5py.h5z.FILTER_DEFLATE]


@pytest.mark.parametrize("piece", [1, 3, 16, 17, 1000])
def test_the_pieces_that_rows_come_in_do_not_show(tmp_path: Path, piece: int) -> None:
    rows, digests = arrays(), set()
    for name, step in (("whole", 10**6), ("pieces", piece)):
        with TrajectoryStoreWriter(tmp_path / f"{name}.h5", columns()) as writer:
            start = 0
            for length in LENGTHS:
                for a in range(start, start + length, step):
                    b = min(a + step, start + length)
                    for column in columns():
                        writer.append(column.name, rows[column.name][a:b])
                writer.end_episode()
                start += length
        digests.add(hashlib.sha256((tmp_path / f"{name}.h5").read_bytes()).hexdigest())
    with TrajectoryStore(tmp_path / "pieces.h5") as store:
        assert all(np.array_equal(store.load_column(n), a) for n, a in rows.items())
    assert len(digests) == 1


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    digests = set()
    for i in range(4):
        specs = [ColumnSpec("images", "uint8", (2, 3, 64, 64)), ColumnSpec("x", "float32", 4, chunk_rows=8)]
        rows = {s.name: random_rows(s, 150) for s in specs}
        write(tmp_path / f"{i}.h5", specs, rows, (75, 75), threads=i % 3)
        digests.add(hashlib.sha256((tmp_path / f"{i}.h5").read_bytes()).hexdigest())
    assert len(digests) == 1


# --- noeira's layout, by rules written down here and nowhere else

NOEIRA_TEXT = """schema_version=1
env_id=g1_walk
n_rows=11
n_episodes=3
seed=42
source_commit=0123abc
column=qpos:float32:36
column=images:uint8:2,3,4,5
column=task_index:int32:1
column=motion_id:int64
task=0\t"say \\"hi\\"\\tnow"
"""


def noeira_file(path: Path) -> dict[str, NDArray[Any]]:
    """A store as noeira lays it: trailing dimensions flattened to rank 2, the true shape in the manifest."""
    rng = np.random.default_rng(3)
    rows: dict[str, NDArray[Any]] = {
        "qpos": rng.standard_normal((11, 36)).astype(np.float32),
        "images": rng.integers(0, 255, (11, 2, 3, 4, 5), np.uint8),
        "task_index": np.zeros((11, 1), np.int32),
        "motion_id": np.arange(11, dtype=np.int64),
    }
    with h5py.File(path, "w") as file:
        for name, array in rows.items():
            flat = array.reshape(11, -1)
            file.create_dataset(name, data=flat, chunks=(4, flat.shape[1]), maxshape=(None, flat.shape[1]))
        file["ep_len"] = np.array([5, 2, 4], np.int64)
        file["ep_offset"] = np.array([0, 5, 7], np.int64)
        file["__manifest__"] = np.frombuffer(NOEIRA_TEXT.encode(), np.uint8)
        file["norm_qpos_mean"] = np.zeros(36)
    return rows


def test_noeiras_own_layout_is_read(tmp_path: Path) -> None:
    rows = noeira_file(tmp_path / "n.h5")
    with TrajectoryStore(tmp_path / "n.h5") as store:
        assert (store.env_id, store.seed, store.source_commit) == ("g1_walk", 42, "0123abc")
        assert store.task_text(0) == 'say "hi"\tnow'
        assert store.side_tables == ("norm_qpos_mean",)
        for name, array in rows.items():
            assert same(store.load_column(name), array)
            assert same(store.read_range(name, 3, 9), array[3:9])


@pytest.mark.parametrize("disk", [(6,), (6, 1)])
@pytest.mark.parametrize("declared", ["x:float32", "x:float32:1"])
def test_width_one_lies_with_or_without_its_axis(
    tmp_path: Path, declared: str, disk: tuple[int, ...]
) -> None:
    text = f"schema_version=1\nn_rows=6\nn_episodes=1\ncolumn={declared}\n"
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["ep_len"], file["ep_offset"] = np.array([6]), np.array([0])
        file["__manifest__"] = np.frombuffer(text.encode(), np.uint8)
        file["x"] = np.arange(6, dtype=np.float32).reshape(disk)
    shape = (6, 1) if declared.endswith(":1") else (6,)
    with TrajectoryStore(tmp_path / "x.h5") as store:
        for rows in (store.load_column("x"), store.load_column("x", copy=False), store.read_range("x", 0, 6)):
            assert rows.shape == shape
            assert rows.ravel().tolist() == [0, 1, 2, 3, 4, 5]


def obeys_noeira(path: Path) -> None:
    """The reader's rules of the format, from the contract: raises AssertionError where one is broken."""
    with h5py.File(path) as file:
        lines = file["__manifest__"][()].tobytes().decode().split("\n")
        pairs = [line.split("=", 1) for line in lines if line]
        keys = [k for k, _ in pairs]
        assert keys[:6] == ["schema_version", "env_id", "n_rows", "n_episodes", "seed", "source_commit"]
        head = dict(pairs[:6])
        assert head["schema_version"] == "1"
        body = keys[6:]
        assert body == sorted(body, key=lambda k: (k != "column", k != "task"))
        lengths, offsets = file["ep_len"][()], file["ep_offset"][()]
        assert lengths.dtype == offsets.dtype == np.int64
        assert (lengths > 0).all()
        assert (offsets == np.cumsum(lengths) - lengths).all()
        assert int(head["n_episodes"]) == len(lengths)
        assert int(head["n_rows"]) == lengths.sum()
        for text in (v for k, v in pairs if k == "column"):
            name, dtype, *dims = text.split(":")
            trailing = tuple(int(d) for d in dims[0].split(",")) if dims else ()
            dataset = file[name]
            assert dataset.dtype == np.dtype(dtype)
            assert dataset.shape == (lengths.sum(), *trailing)
            assert dataset.chunks is not None
            assert dataset.maxshape[0] is None
        for number, text in enumerate(v for k, v in pairs if k == "task"):
            index, quoted = text.split("\t", 1)
            assert int(index) == number
            assert quoted.startswith('"')
            assert quoted.endswith('"')


def test_ours_is_a_valid_noeira_store(tmp_path: Path) -> None:
    write(tmp_path / "x.h5", extra={"package": "trajpipe"}, tasks=("a", 'b "c"\n'))
    obeys_noeira(tmp_path / "x.h5")
    noeira_file(tmp_path / "n.h5")
    with pytest.raises(AssertionError):
        obeys_noeira(tmp_path / "n.h5")  # flattened on disk: the rule for ours is the true shape


def test_zstd_chunks_are_those_of_hdf5s_own_filter(tmp_path: Path) -> None:
    """Chunks that HDF5's filter compressed are read by ours, and the other way round (every other test)."""
    rows = np.random.default_rng(0).integers(0, 9, (20, 3, 16, 16), np.uint8)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("images", data=rows, chunks=(8, 3, 16, 16), **hdf5plugin.Zstd(clevel=3))
        file["ep_len"], file["ep_offset"] = np.array([20]), np.array([0])
    with TrajectoryStore(tmp_path / "x.h5") as store:
        assert store.reader("images").map is not None
        assert same(store.load_column("images"), rows)
