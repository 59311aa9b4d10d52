"""Files without a manifest: stable-worldmodel's, PushT's schema at full size, and foreign compressors."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pytest

from trajpipe.core.errors import InputError, SchemaError
from trajpipe.store import TrajectoryStore, WindowedColumn, compact

PUSHT_ROWS = 2_336_736
PUSHT_EPISODES = 18_685


def flat(path: Path, rows: int = 6, **more: Any) -> None:
    with h5py.File(path, "w") as file:
        file["ep_len"], file["ep_offset"] = np.array([4, rows - 4], np.int32), np.array([0, 4])
        file["action"] = np.arange(rows * 2, dtype=np.float32).reshape(rows, 2)
        for name, value in more.items():
            file[name] = value


def test_columns_are_inferred(tmp_path: Path) -> None:
    success = np.array([0, 1, 1, 0, 0, 1], np.bool_)
    big = np.arange(6, dtype=">i4")
    flat(tmp_path / "x.h5", success=success, big=big, fps=30, name="PushT", half=np.zeros(6, np.float16))
    with TrajectoryStore(tmp_path / "x.h5") as store:
        assert store.is_foreign
        assert {n: (c.dtype.name, c.shape) for n, c in store.columns.items()} == {
            "action": ("float32", (2,)),
            "big": ("int32", ()),
            "success": ("uint8", ()),
        }
        assert store.ep_len.dtype == np.int64
        assert store.load_column("success").tolist() == success.tolist()
        assert store.load_column("big").tolist() == big.tolist()
        assert store.load_column("big").dtype == np.int32
        assert store.side_tables == ("fps", "half", "name")
        assert store.side_table("fps") == 30
        assert store.texts("name") == ["PushT"]
        assert (store.env_id, store.seed, store.tasks) == ("", 0, ())


def test_another_row_count_names_both(tmp_path: Path) -> None:
    flat(tmp_path / "x.h5", state=np.zeros((5, 2)))
    with pytest.raises(SchemaError, match=r"'state' has 5 rows.*'ep_len' sums to 6"):
        TrajectoryStore(tmp_path / "x.h5")


def test_a_file_without_an_index_or_columns_is_no_store(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["action"] = np.zeros((3, 2))
    with pytest.raises(InputError, match="episode index"):
        TrajectoryStore(tmp_path / "x.h5")
    with h5py.File(tmp_path / "y.h5", "w") as file:
        file["ep_len"], file["ep_offset"] = np.array([3]), np.array([0])
    with pytest.raises(SchemaError, match="at least one column"):
        TrajectoryStore(tmp_path / "y.h5")


def filters() -> list[Any]:
    return [
        pytest.param(hdf5plugin.Blosc(cname=c, shuffle=s), id=f"blosc-{c}-{s}")
        for c, s in [("lz4", 1), ("zstd", 2), ("blosclz", 0), ("zlib", 1)]
    ] + [
        pytest.param(hdf5plugin.LZ4(), id="lz4"),
        pytest.param(hdf5plugin.Zstd(), id="zstd"),
        pytest.param(hdf5plugin.Bitshuffle(), id="bitshuffle"),
        pytest.param(hdf5plugin.Bitshuffle(cname="zstd"), id="bitshuffle-zstd"),
        pytest.param(hdf5plugin.Blosc2(), id="blosc2"),
        pytest.param({"compression": "gzip", "shuffle": True}, id="gzip"),
        pytest.param({"compression": "lzf"}, id="lzf"),
        pytest.param({"scaleoffset": 0}, id="scaleoffset"),
        pytest.param({"fletcher32": True}, id="fletcher32"),
        pytest.param({}, id="none"),
    ]


@pytest.mark.parametrize("options", filters())
def test_foreign_compressors(tmp_path: Path, options: Any) -> None:
    rng = np.random.default_rng(0)
    pixels = np.cumsum(rng.integers(0, 2, (90, 24, 24, 3)), 0).astype(np.uint8)
    lossless = "scaleoffset" not in dict(options)
    state = rng.standard_normal((90, 7)).astype(np.float32)
    with h5py.File(tmp_path / "x.h5", "w", libver="latest") as file:
        file["ep_len"], file["ep_offset"] = np.array([40, 50], np.int32), np.array([0, 40])
        file.create_dataset("pixels", data=pixels, chunks=(1, 24, 24, 3), **options)
        if lossless:
            file.create_dataset("state", data=state, chunks=(7, 7), **options)
    with TrajectoryStore(tmp_path / "x.h5") as store:
        assert np.array_equal(store.load_column("pixels"), pixels)
        assert np.array_equal(store.read_range("pixels", 33, 61), pixels[33:61])
        if lossless:
            assert np.array_equal(store.read_range("state", 5, 90), state[5:])


def test_a_layout_that_only_hdf5_can_read(tmp_path: Path) -> None:
    """A user block, chunks across trailing axes, compact storage, chunks never written."""
    rows = np.arange(60, dtype=np.float32).reshape(10, 6)
    with h5py.File(tmp_path / "x.h5", "w", userblock_size=512) as file:
        file["ep_len"], file["ep_offset"] = np.array([10]), np.array([0])
        file.create_dataset("tiles", data=rows, chunks=(3, 4))
        file.create_dataset("sparse", (10, 6), np.float32, chunks=(5, 6), fillvalue=2.5)[7] = rows[7]
    with TrajectoryStore(tmp_path / "x.h5") as store:
        assert np.array_equal(store.read_range("tiles", 2, 8), rows[2:8])
        assert store.load_column("sparse")[:, 0].tolist() == [2.5] * 7 + [42.0] + [2.5] * 2
    with h5py.File(tmp_path / "y.h5", "w") as file:
        file["ep_len"], file["ep_offset"] = np.array([10]), np.array([0])
        file.create_dataset("tiles", data=rows, chunks=(3, 4))
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple((10, 6))
        made = h5py.h5d.create(file.id, b"compact", h5py.h5t.IEEE_F32LE, space, plist)
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, rows)
    with TrajectoryStore(tmp_path / "y.h5") as store:
        for name in ("tiles", "compact"):
            assert np.array_equal(store.read_range(name, 2, 8), rows[2:8])
            assert np.array_equal(store.load_column(name), rows)


def pusht(path: Path) -> None:
    """`pusht_expert_train.h5` by name, dtype, shape, row count and compressor; constant content.

    One blosc frame of a grey image stands at every thousandth row, the rest is never written: zeros.
    """
    rng = np.random.default_rng(0)
    lengths = np.full(PUSHT_EPISODES, PUSHT_ROWS // PUSHT_EPISODES, np.int32)
    lengths[: PUSHT_ROWS - int(lengths.sum())] += 1
    blosc = dict(hdf5plugin.Blosc(cname="lz4", shuffle=1))
    with h5py.File(path, "w", libver="latest") as file:
        file["ep_len"] = lengths
        file["ep_offset"] = np.cumsum(lengths, dtype=np.int64) - lengths
        shape = (PUSHT_ROWS, 224, 224, 3)
        pixels = file.create_dataset("pixels", shape, np.uint8, chunks=(100, 224, 224, 3), **blosc)
        for row in range(0, PUSHT_ROWS, 100_000):
            pixels[row : row + 100] = row // 100_000
        for name, width in (("action", 2), ("proprio", 4), ("state", 7)):
            data = np.tile(rng.standard_normal((1000, width)).astype(np.float32), (PUSHT_ROWS // 1000 + 1, 1))
            file.create_dataset(name, data=data[:PUSHT_ROWS], chunks=(10_000, width), **blosc)


STREAM = """
import resource, sys
import numpy as np
from trajpipe.store import TrajectoryStore, WindowedColumn
with TrajectoryStore(sys.argv[1]) as store:
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    window = WindowedColumn(store, "pixels", 200)
    total = int(window.rows[0, 0, 0, 0])
    for start in range(0, 2_300_001, 100_000):
        window.seek(start)
        total += int(window.gather([start])[0, 0, 0, 0])
    print(total, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base) << 10)
"""


def test_pushts_schema_at_full_size(tmp_path: Path) -> None:
    path = tmp_path / "pusht_expert_train.h5"
    pusht(path)
    start = time.process_time()
    with TrajectoryStore(path) as store:
        assert time.process_time() - start < 1.0
        assert (store.n_rows, store.n_episodes) == (PUSHT_ROWS, PUSHT_EPISODES)
        assert {n: (c.dtype.name, c.shape) for n, c in store.columns.items()} == {
            "action": ("float32", (2,)),
            "pixels": ("uint8", (224, 224, 3)),
            "proprio": ("float32", (4,)),
            "state": ("float32", (7,)),
        }
        window = WindowedColumn(store, "state", 500_000)
        seen = int(window.rows.shape[0])
        while window.advance():
            seen += window.new_rows[1] - window.new_rows[0]
        assert (seen, window.refills) == (PUSHT_ROWS, 5)
    ran = subprocess.run(
        [sys.executable, "-c", STREAM, str(path)], capture_output=True, text=True, check=True, timeout=120
    )
    total, grown = map(int, ran.stdout.split())
    assert total == sum(range(24))
    assert grown < 4 * 200 * 224 * 224 * 3, "one window, and the chunks under it"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 0


@pytest.mark.shared
def test_stable_worldmodels_own_file(shared_data: Path, tmp_path: Path) -> None:
    path = shared_data / "stable_worldmodel" / "pusht_swm_small.h5"
    with h5py.File(path) as file, TrajectoryStore(path) as store:
        assert store.ep_len.tolist() == [40, 55, 33, 48]
        for name in store.columns:
            expected = file[name][()]
            expected = expected.view(np.uint8) if expected.dtype == np.bool_ else expected
            assert np.array_equal(store.load_column(name), expected)
            assert np.array_equal(store.read_range(name, 39, 97), expected[39:97])
        assert store.columns["pixels"].shape == (64, 64, 3)
    compact(path, tmp_path / "c.h5")
    with TrajectoryStore(path) as store, TrajectoryStore(tmp_path / "c.h5") as other:
        assert not other.is_foreign
        assert list(other.columns) == list(store.columns)
        for name in store.columns:
            assert np.array_equal(other.load_column(name, copy=False), store.load_column(name))


@pytest.mark.shared
@pytest.mark.parametrize("options", filters()[:-5])
def test_stable_worldmodels_file_recompressed(shared_data: Path, tmp_path: Path, options: Any) -> None:
    source = shared_data / "stable_worldmodel" / "pusht_swm_small.h5"
    with h5py.File(source) as old, h5py.File(tmp_path / "x.h5", "w", libver="latest") as new:
        for name in old:
            data = old[name][()]
            kept = name in ("ep_len", "ep_offset")
            new.create_dataset(
                name, data=data, **({} if kept else {"chunks": (16, *data.shape[1:]), **options})
            )
    with TrajectoryStore(source) as store, TrajectoryStore(tmp_path / "x.h5") as other:
        for name in store.columns:
            assert np.array_equal(other.load_column(name), store.load_column(name))
