"""Stores as pandas and pyarrow tables, as plain descriptions, and as episodes for exporters."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from trajpipe.core.episode import is_image, whole
from trajpipe.core.errors import MissingNameError, SchemaError
from trajpipe.store import ColumnSpec, TrajectoryStore, TrajectoryStoreWriter, compact, describe, episodes_of
from trajpipe_tests.store.recordings import LENGTHS, arrays, columns, write

CONTENT = np.arange(128, dtype=np.uint8).reshape(4, 32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with every per-episode side table."""
    options = {"tasks": ["lift", "stack"], "extra": {"cameras": "front,wrist"}}
    with TrajectoryStoreWriter(tmp_path / "x.h5", columns(), **options) as writer:  # type: ignore[arg-type]  # literal
        writer.append(**arrays())
        writer.end_episodes(LENGTHS)
        writer.add_side_table("ep_success", np.array([1, 0, 2, 1], np.uint8))
        writer.add_side_table("ep_source", np.array([0, 1, 1, 0], np.uint8))
        writer.add_side_table("source_tags", ["rl", "teleop"])
        writer.add_side_table("ep_split", np.array([0, 0, 1, 2], np.uint8))
        writer.add_side_table("split_names", ["train", "valid", "none"])
        writer.add_side_table("ep_file", ["a.hdf5", "a.hdf5", "b.hdf5", "b.hdf5"])
        writer.add_side_table("ep_demo", ["demo_0", "demo_1", "demo_0", "demo_9"])
        writer.add_side_table("ep_content", CONTENT)
    return tmp_path / "x.h5"


def test_the_episodes_table(path: Path) -> None:
    with TrajectoryStore(path) as store:
        frame, table = store.episodes_to_pandas(), store.episodes_to_arrow()
        for form in (frame.to_dict("list"), table.to_pydict()):
            assert form["start"] == [0, 7, 8, 20]
            assert form["length"] == list(LENGTHS)
            assert form["source"] == ["rl", "teleop", "teleop", "rl"]
            assert form["split"] == ["train", "train", "valid", "none"]
            assert form["file"] == ["a.hdf5", "a.hdf5", "b.hdf5", "b.hdf5"]
            assert form["task"] == ["lift", "stack", "lift", "stack"]
            assert form["content_sha256"][0] == bytes(CONTENT[0]).hex()
        assert table.to_pydict()["success"] == [True, False, None, True]


def test_columns_as_tables(path: Path) -> None:
    rows = arrays()
    with TrajectoryStore(path) as store:
        frame, table = store.to_pandas(), store.to_arrow(["action", "reward"])
        assert [c for c in frame.columns if c.startswith("action")] == [f"action.{i}" for i in range(7)]
        assert "images" not in frame.columns
        assert np.array_equal(frame["action.3"], rows["action"][:, 3])
        assert table.schema.field("action").type == pa.list_(pa.float32(), 7)
        assert np.array_equal(np.array(table["action"].to_pylist(), np.float32), rows["action"])
        assert np.array_equal(table["reward"].to_numpy(), rows["reward"])
        with pytest.raises(SchemaError, match="read_range"):
            store.to_arrow(["images"])
        with pytest.raises(MissingNameError):
            store.to_pandas(["nope"])


def test_a_mapped_column_is_not_copied(path: Path, tmp_path: Path) -> None:
    compact(path, tmp_path / "c.h5")
    with TrajectoryStore(tmp_path / "c.h5") as store:
        view = store.load_column("action", copy=False)
        values = store.to_arrow(["action"])["action"].chunk(0).values
        assert np.shares_memory(values.to_numpy(zero_copy_only=True), view)
        assert np.shares_memory(
            store.to_pandas(["reward"])["reward"].to_numpy(), store.load_column("reward", copy=False)
        )


def test_a_description_is_plain_data(path: Path, tmp_path: Path) -> None:
    found = describe(path)
    assert json.loads(json.dumps(found)) == found
    assert found["rows"] == 50
    assert found["episodes"] == {"count": 4, "min": 1, "mean": 12.5, "max": 30}
    assert found["tasks"] == ["lift", "stack"]
    by_name = {c["name"]: c for c in found["columns"]}
    assert by_name["images"]["filters"] == ["zstd"]
    assert by_name["images"]["chunks"] == [16, 2, 3, 20, 24]
    assert by_name["images"]["chunk_count"] == 4
    assert by_name["images"]["ratio"] == pytest.approx(1, abs=0.05), "noise does not compress"
    assert by_name["action"]["shape"] == [7]
    assert {s["name"] for s in found["side_tables"]} > {"ep_file", "ep_success"}
    compact(path, tmp_path / "c.h5")
    assert all(c["zero_copy"] for c in describe(tmp_path / "c.h5")["columns"])


def test_episodes_for_exporters(path: Path) -> None:
    rows = arrays()
    with TrajectoryStore(path) as store:
        episodes = list(episodes_of(store))
        assert [e.length for e in episodes] == list(LENGTHS)
        assert [e.task for e in episodes] == ["lift", "stack", "lift", "stack"]
        assert [e.success for e in episodes] == [True, False, None, True]
        assert [e.tag for e in episodes] == ["rl", "teleop", "teleop", "rl"]
        assert [e.split for e in episodes] == ["train", "train", "valid", None]
        assert [(e.source_file, e.source_demo) for e in episodes][3] == ("b.hdf5", "demo_9")
        assert episodes[1].content_sha256 == bytes(CONTENT[1]).hex()
        for episode, start in zip(episodes, (0, 7, 8, 20), strict=True):
            stop = start + episode.length
            assert set(episode.columns) == {
                "actions",
                "dones",
                "obs/front",
                "obs/joint_pos",
                "obs/wrist",
                "rewards",
            }
            assert np.array_equal(whole(episode.columns["actions"]), rows["action"][start:stop])
            assert np.array_equal(whole(episode.columns["obs/joint_pos"]), rows["joint_pos"][start:stop])
            for number, camera in enumerate(("front", "wrist")):
                frames = episode.columns[f"obs/{camera}"]
                assert is_image(frames)
                expected = rows["images"][start:stop, number].transpose(0, 2, 3, 1)
                assert np.array_equal(whole(frames), expected)
                assert np.array_equal(frames.read(0, 1), expected[:1])


def test_cameras_of_their_own_and_without_names(tmp_path: Path) -> None:
    specs = [
        ColumnSpec("action", "float32", 1),
        ColumnSpec("images_left", "uint8", (3, 8, 10)),
        ColumnSpec("pixels", "uint8", (8, 10, 3)),
        ColumnSpec("images", "uint8", (2, 8, 10, 3)),
        ColumnSpec("mask", "uint8", (8, 10)),
    ]
    rows = {s.name: np.ones((4, *s.shape), s.dtype) for s in specs}
    write(tmp_path / "x.h5", specs, rows, (4,), tasks=())
    with TrajectoryStore(tmp_path / "x.h5") as store:
        (episode,) = episodes_of(store)
        shapes = {name: column.shape for name, column in episode.columns.items()}
        assert shapes == {
            "actions": (4, 1),
            "obs/left": (4, 8, 10, 3),
            "obs/pixels": (4, 8, 10, 3),
            "obs/camera_0": (4, 8, 10, 3),
            "obs/camera_1": (4, 8, 10, 3),
            "obs/mask": (4, 8, 10),
        }
        assert (episode.task, episode.success, episode.tag, episode.content_sha256) == (
            None,
            None,
            "unknown",
            "",
        )
        assert (episode.source_file, episode.source_demo) == ("x.h5", "demo_0")


@pytest.mark.parametrize(
    ("spec", "said"),
    [(ColumnSpec("obs", "float32", 2), "action"), (ColumnSpec("images", "uint8", (5, 8, 10)), "frames")],
)
def test_a_store_that_cannot_be_exported(tmp_path: Path, spec: ColumnSpec, said: str) -> None:
    specs = [spec] if said == "action" else [spec, ColumnSpec("action", "float32", 1)]
    write(tmp_path / "x.h5", specs, {s.name: np.zeros((2, *s.shape), s.dtype) for s in specs}, (2,))
    with TrajectoryStore(tmp_path / "x.h5") as store, pytest.raises(SchemaError, match=said):
        list(episodes_of(store))


def test_a_motion_stores_tasks_are_its_clips(tmp_path: Path) -> None:
    specs = [ColumnSpec("action", "float32", 1), ColumnSpec("motion_id", "int32", ())]
    rows = {"action": np.ones((4, 1), np.float32), "motion_id": np.array([0, 1, 1, 1], np.int32)}
    write(tmp_path / "x.h5", specs, rows, (1, 3), tasks=("walk", "dance"))
    with TrajectoryStore(tmp_path / "x.h5") as store:
        assert store.episodes_to_pandas()["task"].tolist() == ["walk", "dance"]
        assert [e.task for e in episodes_of(store)] == ["walk", "dance"]
