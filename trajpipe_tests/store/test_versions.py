"""New versions of a store: compact ones and longer ones; the old file stays until the new one is whole."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from trajpipe.core.errors import OutputExistsError, SchemaError
from trajpipe.store import (
    ColumnSpec,
    Compression,
    TrajectoryStore,
    TrajectoryStoreWriter,
    compact,
    describe,
    extending,
)
from trajpipe_tests.store.recordings import LENGTHS, Arrays, arrays, columns, leftovers, write


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with side tables and an extra key."""
    rows = arrays()
    with TrajectoryStoreWriter(
        tmp_path / "x.h5", columns(), tasks=["lift"], extra={"package": "p"}
    ) as writer:
        writer.append(**rows)
        writer.end_episodes(LENGTHS)
        writer.add_side_table("ep_success", np.array([1, 0, 2, 1], np.uint8))
        writer.add_side_table("mean", np.zeros(7))
    return tmp_path / "x.h5"


def on_disk(rows: Arrays) -> Arrays:
    """Rows as the stored columns have them: a store knows no bool."""
    return {name: a.view(np.uint8) if a.dtype == np.bool_ else a for name, a in rows.items()}


def test_compact_keeps_everything(path: Path, tmp_path: Path) -> None:
    assert compact(path, tmp_path / "c.h5") == tmp_path / "c.h5"
    with TrajectoryStore(path) as old, TrajectoryStore(tmp_path / "c.h5") as new:
        assert new.manifest == old.manifest
        assert new.side_tables == old.side_tables
        assert new.side_table("ep_success").tolist() == [1, 0, 2, 1]
        for name in old.columns:
            assert new.reader(name).view is not None, name
            assert np.array_equal(new.load_column(name), old.load_column(name))


def test_a_long_column_becomes_one_run(tmp_path: Path) -> None:
    """Two columns written in step lie interleaved; compact parts them."""
    specs = [ColumnSpec("a", "float32", 3, chunk_rows=256), ColumnSpec("b", "float64", chunk_rows=128)]
    rows = {"a": np.random.default_rng(0).random((1000, 3), np.float32), "b": np.arange(1000.0)}
    write(tmp_path / "x.h5", specs, rows, [10] * 100)
    compact(tmp_path / "x.h5", tmp_path / "c.h5")
    for name, array in rows.items():
        with TrajectoryStore(tmp_path / "x.h5") as old:
            found = old.reader(name).map
            assert found is not None
            assert len(found.runs()) > 1
            assert np.array_equal(old.load_column(name), array)
        with TrajectoryStore(tmp_path / "c.h5") as new:
            assert np.array_equal(new.load_column(name, copy=False), array)
            assert new.reader(name).view is not None


def test_compact_in_place_and_with_another_storage(path: Path) -> None:
    compact(path, path, compression={"images": "zstd"})
    with TrajectoryStore(path) as store:
        assert store.reader("images").view is None
        assert store.reader("action").view is not None
        assert np.array_equal(store.load_column("images"), arrays()["images"])
    with pytest.raises(SchemaError, match="said of columns"):
        compact(path, path, compression={"nope": "zstd"})
    with pytest.raises(OutputExistsError):
        compact(path, path, overwrite=False)


def test_a_store_grows_by_a_new_version(path: Path) -> None:
    before, more = path.read_bytes(), on_disk(arrays((3, 2), seed=5))
    with extending(path) as writer:
        assert writer.n_episodes == 4
        assert writer.add_task("stack") == 1
        writer.append(**more)
        assert path.read_bytes() == before, "never in place"
        writer.end_episodes([3, 2])
        writer.replace_side_table("ep_success", [1, 0, 2, 1, 1, 1])
    with TrajectoryStore(path) as store:
        assert store.ep_len.tolist() == [*LENGTHS, 3, 2]
        assert store.tasks == ("lift", "stack")
        assert store.extra == {"package": "p"}
        assert store.side_tables == ("ep_success", "mean")
        for name, array in arrays().items():
            assert np.array_equal(store.load_column(name), np.concatenate([array, more[name]]))
    with h5py.File(path) as file:
        assert file["images"].id.get_create_plist().get_filter(0)[0] == 32015


@pytest.mark.parametrize("fletcher32", [False, True])
@pytest.mark.parametrize("compression", list(Compression))
def test_a_longer_version_is_stored_as_the_one_before(
    tmp_path: Path, compression: Compression, fletcher32: bool
) -> None:
    path = tmp_path / "x.h5"
    write(path, image_compression=compression, fletcher32=fletcher32)

    def storage() -> dict[str, object]:
        found = describe(path)
        assert found["rows"] in (50, 53)
        return {c["name"]: c["filters"] for c in found["columns"]}

    before = storage()
    with extending(path) as writer:
        writer.append(**on_disk(arrays((3,), seed=5)))
        writer.end_episode()
    assert storage() == before
    with extending(path, image_compression="deflate") as writer:
        assert writer.n_episodes == 5
    assert storage()["images"] == (["deflate", "fletcher32"] if fletcher32 else ["deflate"])


def test_episode_tables_must_grow_too(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(SchemaError, match="ep_success"), extending(path) as writer:  # noqa: PT012
        writer.append(**on_disk(arrays((3,), seed=5)))
        writer.end_episode()
    assert path.read_bytes() == before
    assert leftovers(path.parent) == []
    with extending(path, keep_side_tables=False) as writer:
        writer.append(**on_disk(arrays((3,), seed=5)))
        writer.end_episode()
    with TrajectoryStore(path) as store:
        assert store.n_episodes == 5


def test_a_failed_extension_leaves_the_old_version(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(RuntimeError), extending(path) as writer:  # noqa: PT012
        writer.append(**on_disk(arrays((3,), seed=5)))
        raise RuntimeError
    assert path.read_bytes() == before
    assert leftovers(path.parent) == []
