"""Tests of a whole v2.1 or v2.0 export: what lies on disk, to the byte where it matters."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from trajpipe.core.episode import ArrayColumn, Episode, FunctionColumn
from trajpipe.core.errors import InputError, SchemaError
from trajpipe.export import export_lerobot
from trajpipe_tests.export import scenes
from trajpipe_tests.export.scenes import episode, export, info_of, lines, table, tree, video


def test_the_files_of_a_v21_dataset(tmp_path: Path) -> None:
    export(tmp_path, scenes.lengths_of([30, 12]))
    assert sorted(tree(tmp_path)) == [
        "data/chunk-000/episode_000000.parquet",
        "data/chunk-000/episode_000001.parquet",
        "meta/episodes.jsonl",
        "meta/episodes_stats.jsonl",
        "meta/info.json",
        "meta/modality.json",
        "meta/stats.json",
        "meta/tasks.jsonl",
        "videos/chunk-000/observation.images.front/episode_000000.mp4",
        "videos/chunk-000/observation.images.front/episode_000001.mp4",
    ]


def test_info_has_the_keys_in_order_and_true_totals(tmp_path: Path) -> None:
    export(tmp_path, scenes.lengths_of([30, 12]), extras={"next.reward": "rewards"})
    info = info_of(tmp_path)
    assert list(info) == [
        "codebase_version", "robot_type", "total_episodes", "total_frames", "total_tasks", "total_videos",
        "total_chunks", "chunks_size", "fps", "splits", "data_path", "video_path", "features",
    ]  # fmt: skip
    assert (info["codebase_version"], info["robot_type"], info["fps"]) == ("v2.1", "panda", 20)
    totals = [info[f"total_{what}"] for what in ("episodes", "frames", "tasks", "videos", "chunks")]
    assert totals == [2, 42, 1, 2, 1]
    assert info["splits"] == {"train": "0:2"}
    assert list(info["features"]) == [
        "observation.state", "action", "next.reward", "observation.images.front",
        "timestamp", "frame_index", "episode_index", "index", "task_index",
    ]  # fmt: skip
    assert info["features"]["observation.images.front"]["info"] == {
        "video.height": 64, "video.width": 96, "video.codec": "h264", "video.pix_fmt": "yuv420p",
        "video.is_depth_map": False, "video.fps": 20, "video.channels": 3, "has_audio": False,
    }  # fmt: skip


def test_without_cameras_there_is_no_video_path(tmp_path: Path) -> None:
    export(tmp_path, [episode(columns={"obs/front": None})])
    info = info_of(tmp_path)
    assert info["video_path"] is None
    assert info["total_videos"] == 0
    assert not (tmp_path / "videos").exists()


def test_rows_are_typed_columns_and_fixed_size_lists(tmp_path: Path) -> None:
    export(tmp_path, [episode()], extras={"next.reward": "rewards"})
    assert table(tmp_path, 0).schema.remove_metadata() == pa.schema(
        [
            ("observation.state", pa.list_(pa.field("element", pa.float32()), 10)),
            ("action", pa.list_(pa.field("element", pa.float32()), 7)),
            ("next.reward", pa.float64()),
            ("timestamp", pa.float32()),
            ("frame_index", pa.int64()),
            ("episode_index", pa.int64()),
            ("index", pa.int64()),
            ("task_index", pa.int64()),
        ]
    )


def test_rows_hold_the_terms_in_order_bit_for_bit(tmp_path: Path) -> None:
    one = episode()
    export(tmp_path, [one], state=("joint_pos", "gripper"))
    rows = table(tmp_path, 0)
    state = np.stack(rows["observation.state"].to_pylist()).astype(np.float32)
    parts = [one.columns[f"obs/{t}"].read(0, 30) for t in ("joint_pos", "gripper")]
    assert state.tobytes() == np.concatenate(parts, axis=1).tobytes()
    action = np.stack(rows["action"].to_pylist()).astype(np.float32)
    assert action.tobytes() == one.columns["actions"].read(0, 30).tobytes()


def test_indices_are_dense_whatever_the_demos_are_called(tmp_path: Path) -> None:
    names = ("demo_0", "demo_1", "demo_3", "demo_10")
    export(tmp_path, [episode(i, 5, name=n, source_demo=n) for i, n in enumerate(names)])
    rows = pa.concat_tables([table(tmp_path, i) for i in range(4)])
    assert rows["index"].to_pylist() == list(range(20))
    assert rows["episode_index"].to_pylist() == [i for i in range(4) for _ in range(5)]
    assert rows["frame_index"].to_pylist() == list(range(5)) * 4
    assert [e["source_demo"] for e in lines(tmp_path, "episodes.jsonl")] == list(names)
    assert info_of(tmp_path)["total_episodes"] == 4


def test_timestamps_are_frame_index_over_fps(tmp_path: Path) -> None:
    export(tmp_path, [episode()], fps=Fraction(30000, 1001))
    stamps = table(tmp_path, 0)["timestamp"].to_numpy()
    assert stamps.tobytes() == (np.arange(30) * 1001 / 30000).astype(np.float32).tobytes()
    assert info_of(tmp_path)["fps"] == pytest.approx(29.97002997)


def test_every_episode_line_has_the_same_typed_keys(tmp_path: Path) -> None:
    unknown = episode(1, success=None, success_as=False, tag="teleop", task=None, content_sha256="")
    export(tmp_path, [episode(0), unknown])
    first, second = lines(tmp_path, "episodes.jsonl")
    assert list(first) == [
        "episode_index", "tasks", "length",
        "source", "success", "success_known", "source_file", "source_demo", "content_sha256", "split",
    ]  # fmt: skip
    assert [type(v) for v in first.values()] == [type(v) for v in second.values()]
    assert (first["source"], first["success"], first["success_known"]) == ("scripted", True, True)
    assert (second["source"], second["success"], second["success_known"]) == ("teleop", False, False)
    assert (second["tasks"], second["content_sha256"]) == ([""], "")


def test_a_source_path_is_reduced_to_its_base_name(tmp_path: Path) -> None:
    export(tmp_path, [episode(source_file="/home/somebody/lift.hdf5")])
    assert lines(tmp_path, "episodes.jsonl")[0]["source_file"] == "lift.hdf5"


def test_statistics_of_an_episode_are_nested_lists(tmp_path: Path) -> None:
    one = episode()
    export(tmp_path, [one], extras={"next.reward": "rewards"})
    stats = lines(tmp_path, "episodes_stats.jsonl")[0]["stats"]
    action = one.columns["actions"].read(0, 30).astype(np.float64)
    assert list(stats["action"]) == ["min", "max", "mean", "std", "count"]
    np.testing.assert_allclose(stats["action"]["mean"], action.mean(0), rtol=1e-12)
    np.testing.assert_allclose(stats["action"]["std"], action.std(0), rtol=1e-12)
    assert stats["action"]["min"] == action.min(0).tolist()
    assert stats["next.reward"]["max"] == [1.0]
    assert stats["frame_index"]["max"] == [29]
    assert np.shape(stats["observation.images.front"]["mean"]) == (3, 1, 1)
    assert stats["observation.images.front"]["count"] == [30]
    assert set(stats) == set(info_of(tmp_path)["features"])


def test_dataset_statistics_are_gr00ts_six_for_floats_only(tmp_path: Path) -> None:
    some = scenes.lengths_of([30, 50])
    export(tmp_path, some)
    stats = json.loads((tmp_path / "meta/stats.json").read_text())
    assert set(stats) == {"observation.state", "action", "timestamp"}
    rows = np.concatenate([e.columns["actions"].read(0, e.length) for e in some]).astype(np.float64)
    assert list(stats["action"]) == ["mean", "std", "min", "max", "q01", "q99"]
    np.testing.assert_allclose(stats["action"]["q01"], np.quantile(rows, 0.01, axis=0), rtol=1e-12)
    np.testing.assert_allclose(stats["action"]["q99"], np.quantile(rows, 0.99, axis=0), rtol=1e-12)
    np.testing.assert_allclose(stats["action"]["std"], rows.std(0), rtol=1e-10)


def test_v20_has_one_stats_file_for_lerobot_with_every_feature(tmp_path: Path) -> None:
    export(tmp_path, [episode()], version="v2.0")
    assert info_of(tmp_path)["codebase_version"] == "v2.0"
    assert not (tmp_path / "meta/episodes_stats.jsonl").exists()
    stats = json.loads((tmp_path / "meta/stats.json").read_text())
    assert set(stats) == set(info_of(tmp_path)["features"])
    assert all("count" not in s for s in stats.values())
    assert np.shape(stats["observation.images.front"]["std"]) == (3, 1, 1)


def test_modality_tiles_state_and_action(tmp_path: Path) -> None:
    export(
        tmp_path,
        [episode()],
        state=("joint_pos", "gripper"),
        action_parts={"ee_pose": (0, 6), "gripper": (6, 7)},
        rotation_types={"ee_pose": "quaternion"},
    )
    assert json.loads((tmp_path / "meta/modality.json").read_text()) == {
        "state": {"joint_pos": {"start": 0, "end": 9}, "gripper": {"start": 9, "end": 10}},
        "action": {
            "ee_pose": {"start": 0, "end": 6, "rotation_type": "quaternion"},
            "gripper": {"start": 6, "end": 7},
        },
        "video": {"front": {"original_key": "observation.images.front"}},
        "annotation": {"human.task_description": {"original_key": "task_index"}},
    }


@pytest.mark.parametrize("parts", [{"a": (0, 6)}, {"a": (0, 4), "b": (3, 7)}, {"a": (0, 8)}, {"a": (1, 7)}])
def test_action_parts_that_do_not_tile_are_refused(tmp_path: Path, parts: dict[str, tuple[int, int]]) -> None:
    with pytest.raises(SchemaError, match="tile the action exactly"):
        export(tmp_path, [episode()], action_parts=parts)


def test_splits_are_ranges_train_first(tmp_path: Path) -> None:
    result = export(tmp_path, [episode(0, 4), episode(1, 4, split="train"), episode(2, 4, split="valid")])
    assert info_of(tmp_path)["splits"] == result.splits == {"train": "0:2", "val": "2:3"}
    assert [e["split"] for e in lines(tmp_path, "episodes.jsonl")] == ["train", "train", "valid"]


def test_only_validation_episodes_make_one_split(tmp_path: Path) -> None:
    export(tmp_path, [episode(0, 4, split="valid")])
    assert info_of(tmp_path)["splits"] == {"val": "0:1"}


def test_splits_that_interleave_are_refused(tmp_path: Path) -> None:
    some = [episode(0, 4, split="valid"), episode(1, 4, split="train")]
    with pytest.raises(InputError, match="train episodes come first") as caught:
        export(tmp_path, some)
    assert caught.value.code == "splits-interleave"
    again = tmp_path / "again"
    export(again, some, splits=False)
    assert info_of(again)["splits"] == {"train": "0:2"}


def test_the_success_filter_keeps_a_reason_for_each(tmp_path: Path) -> None:
    some = [episode(0, 4), episode(1, 4, success=False), episode(2, 4, success=None)]
    result = export(tmp_path, some, successful_only=True)
    assert result.episodes == 1
    assert [(r.episode, r.reason) for r in result.rejected] == [
        ("demo_1", "not-successful"),
        ("demo_2", "unknown-success"),
    ]


def test_the_result_tells_tags_tasks_and_what_was_left_out(tmp_path: Path) -> None:
    some = [
        episode(0, 4, columns={"obs/depth": np.zeros((4, 8, 8), np.float32)}, tag="rl"),
        episode(1, 4, columns={"obs/depth": np.zeros((4, 8, 8), np.float32)}, task=None, success=None),
    ]
    result = export(tmp_path, some)
    assert (result.episodes, result.frames, result.version) == (2, 8, "v2.1")
    assert result.tags == {"rl": 1, "scripted": 1}
    assert result.tasks == ("pick up the cube", "")
    notes = {(n.code, n.got) for n in result.notes}
    assert ("term-left-out", "obs/depth (8, 8) float32") in notes
    assert ("term-left-out", "rewards () float64") in notes
    assert {"task-filled", "success-unknown"} <= {code for code, _ in notes}


@pytest.mark.parametrize("chosen", [[], [episode(0, 4, success=False)]])
def test_no_episode_is_an_error(tmp_path: Path, chosen: list[Episode]) -> None:
    with pytest.raises(InputError, match="at least one episode") as caught:
        export(tmp_path, chosen, successful_only=True)
    assert caught.value.code == "no-episodes"


def test_an_empty_episode_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"scripted_lift.hdf5 · demo_0: an episode has at least one row"):
        export(tmp_path, [episode(0, 0)])


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e39])
def test_a_value_that_float32_cannot_hold_is_an_error_with_its_row(tmp_path: Path, value: float) -> None:
    rows = np.zeros((6, 2))
    rows[4, 1] = value
    with pytest.raises(InputError, match=r"demo_0 · obs/joint_pos · row 4: an exported value must be finite"):
        export(tmp_path, [episode(0, 6, columns={"obs/joint_pos": rows})])


def test_1024_seconds_at_30_fps_is_too_long_for_float32(tmp_path: Path) -> None:
    def long(rows: int) -> Episode:
        return Episode("demo_0", rows, {"actions": ArrayColumn(np.zeros((rows, 2), np.float32))})

    export(tmp_path / "fits", [long(1024 * 30)], fps=Fraction(30))
    with pytest.raises(InputError, match="too long for LeRobot's float32 timestamps") as caught:
        export(tmp_path / "long", [long(1024 * 30 + 30)], fps=Fraction(30))
    assert caught.value.code == "episode-too-long"
    export(tmp_path / "slow", [long(1100 * 10)], fps=Fraction(10))


def test_a_failure_closes_all_files_and_leaves_no_thread(tmp_path: Path) -> None:
    def broken(a: int, b: int) -> NDArray[Any]:
        if a >= 32:
            raise InputError("broken chunk", place="x")
        return scenes.frames(b - a)

    lazy = FunctionColumn(np.dtype(np.uint8), (300, *scenes.SIZE, 3), broken)
    bad = episode(1, 300)
    columns = {**bad.columns, "obs/front": lazy}
    with pytest.raises(InputError, match="broken chunk"):
        export(tmp_path, [episode(0, 40), bad.with_columns(columns)])
    assert not [t for t in threading.enumerate() if t.name.startswith("encode")]


def test_the_same_episodes_give_the_same_bytes(tmp_path: Path) -> None:
    some = [3, 200, 31, 64]
    export(tmp_path / "a", scenes.lengths_of(some), workers=1)
    export(tmp_path / "b", scenes.lengths_of(some), workers=3)
    assert tree(tmp_path / "a") == tree(tmp_path / "b")


def test_episodes_are_taken_one_at_a_time(tmp_path: Path) -> None:
    """Columns may be valid only until the next episode is asked for."""
    valid: set[int] = set()

    def one(index: int) -> Episode:
        made = episode(index, 90)

        def fetch(start: int, stop: int) -> NDArray[Any]:
            assert index in valid, "read after the next episode was asked for"
            return scenes.frames(90, index)[start:stop]

        lazy = FunctionColumn(np.dtype(np.uint8), (90, *scenes.SIZE, 3), fetch)
        return made.with_columns({**made.columns, "obs/front": lazy})

    def stream() -> Iterator[Episode]:
        for index in range(4):
            valid.clear()
            valid.add(index)
            yield one(index)

    assert export(tmp_path, stream()).episodes == 4


def test_many_episodes_fall_into_chunks(tmp_path: Path) -> None:
    some = [episode(i, 2, columns={"obs/front": None}) for i in range(5)]
    export(tmp_path, some, chunk_size=2)
    assert info_of(tmp_path)["total_chunks"] == 3
    assert (tmp_path / "data/chunk-002/episode_000004.parquet").is_file()


def test_metadata_end_their_lines_with_lf_and_keep_unicode(tmp_path: Path) -> None:
    export(tmp_path, [episode(task="拿起立方体 ")])
    for path in (tmp_path / "meta").iterdir():
        data = path.read_bytes()
        assert b"\r" not in data
        assert not data.startswith(b"\xef\xbb\xbf")
        assert data.endswith(b"\n")
        assert b"\n\n" not in data
    assert "拿起立方体 " in (tmp_path / "meta/tasks.jsonl").read_text(encoding="utf-8")


def test_progress_counts_frames(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int | None]] = []
    some = scenes.lengths_of([5, 6])
    export_lerobot(some, tmp_path, scenes.options(), progress=lambda *a: seen.append(a))
    assert seen == [("frames", 5, None), ("frames", 11, None)]


def test_nothing_but_the_dataset_stays_in_the_folder(tmp_path: Path) -> None:
    export(tmp_path, [episode()])
    assert {p.name for p in tmp_path.iterdir()} == {"data", "meta", "videos"}
    assert video(tmp_path, 0).is_file()
