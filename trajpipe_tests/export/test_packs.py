"""Tests of v3.0's packing and of PNG columns: where episodes lie, and that every frame is found there."""

from __future__ import annotations

import io
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from trajpipe.core.errors import StateError
from trajpipe.export import packs
from trajpipe.export.features import Feature
from trajpipe.export.layout_v3 import episode_schema
from trajpipe.export.packs import FileCounter, VideoPack
from trajpipe_tests.export import scenes
from trajpipe_tests.export.scenes import episode, export, info_of, table, tree
from trajpipe_tests.export.test_video import encode, settings, textured

LENGTHS = (41, 37, 50, 1, 99)
CAMERA = "observation.images.front"


def rows_of(root: Path) -> list[dict[str, Any]]:
    """The episodes' metadata."""
    out: list[dict[str, Any]] = []
    for path in sorted((root / "meta/episodes").rglob("*.parquet")):
        out += pq.read_table(path).to_pylist()
    return out


def small_files(monkeypatch: pytest.MonkeyPatch, unit: int) -> None:
    """Make a MiB smaller, so that small sets need several files."""
    monkeypatch.setattr(packs, "_MEBI", unit)


def test_the_files_of_a_v30_dataset(tmp_path: Path) -> None:
    export(tmp_path, scenes.lengths_of(LENGTHS), version="v3.0")
    assert sorted(tree(tmp_path)) == [
        "data/chunk-000/file-000.parquet",
        "meta/episodes/chunk-000/file-000.parquet",
        "meta/info.json",
        "meta/stats.json",
        "meta/tasks.parquet",
        f"videos/{CAMERA}/chunk-000/file-000.mp4",
    ]
    assert list(info_of(tmp_path)) == [
        "codebase_version", "robot_type", "total_episodes", "total_frames", "total_tasks", "chunks_size",
        "data_files_size_in_mb", "video_files_size_in_mb", "fps", "splits", "data_path", "video_path",
        "features",
    ]  # fmt: skip
    assert pq.ParquetFile(tmp_path / "data/chunk-000/file-000.parquet").num_row_groups == 5


@pytest.mark.parametrize("codec", ["h264", "av1"])
def test_five_episodes_in_one_video_tell_their_first_and_last_frame(tmp_path: Path, codec: str) -> None:
    export(tmp_path, scenes.lengths_of(LENGTHS), version="v3.0", codec=codec)
    frames, times = scenes.decoded(tmp_path / f"videos/{CAMERA}/chunk-000/file-000.mp4")
    assert times == [Fraction(i, 20) for i in range(sum(LENGTHS))]
    for row, length in zip(rows_of(tmp_path), LENGTHS, strict=True):
        first = round(row[f"videos/{CAMERA}/from_timestamp"] * 20)
        last = round(row[f"videos/{CAMERA}/to_timestamp"] * 20) - 1
        assert last - first == length - 1
        palette = scenes.colours(length, row["episode_index"])
        for frame, wanted in ((first, 0), (last, length - 1)):
            np.testing.assert_allclose(frames[frame][40:, 60:].mean((0, 1)), palette[wanted], atol=6)


def test_metadata_of_each_episode(tmp_path: Path) -> None:
    export(tmp_path, scenes.lengths_of((3, 5)), version="v3.0")
    second = rows_of(tmp_path)[1]
    wanted = {
        "episode_index": 1, "length": 5, "tasks": ["pick up the cube"], "source": "scripted", "success": True,
        "source_demo": "demo_1", "data/chunk_index": 0, "data/file_index": 0, "dataset_from_index": 3,
        "dataset_to_index": 8, f"videos/{CAMERA}/from_timestamp": 0.15, f"videos/{CAMERA}/to_timestamp": 0.4,
        "meta/episodes/chunk_index": 0, "meta/episodes/file_index": 0,
    }  # fmt: skip
    assert {k: second[k] for k in wanted} == wanted
    assert np.shape(second[f"stats/{CAMERA}/q50"]) == (3, 1, 1)
    assert second["stats/frame_index/max"] == [4]
    actions = episode(1, 5).columns["actions"].read(0, 5).astype(np.float64)
    np.testing.assert_allclose(second["stats/action/q90"], np.quantile(actions, 0.9, axis=0), rtol=1e-12)


def test_a_new_file_starts_before_the_limit_would_be_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_files(monkeypatch, 1000)
    export(tmp_path, scenes.lengths_of((30,) * 6), version="v3.0", data_mb=14, video_mb=9, chunk_size=2)
    rows = rows_of(tmp_path)
    data = [(r["data/chunk_index"], r["data/file_index"]) for r in rows]
    videos = [(r[f"videos/{CAMERA}/chunk_index"], r[f"videos/{CAMERA}/file_index"]) for r in rows]
    for places, template in (
        (data, "data/chunk-{:03d}/file-{:03d}.parquet"),
        (videos, f"videos/{CAMERA}/chunk-{{:03d}}/file-{{:03d}}.mp4"),
    ):
        assert len(set(places)) > 1
        assert places == sorted(places)
        assert {file for _, file in places} <= {0, 1}
        assert all((tmp_path / template.format(*place)).is_file() for place in places)
    for (chunk, file), row in zip(data, rows, strict=True):
        found = pq.read_table(tmp_path / f"data/chunk-{chunk:03d}/file-{file:03d}.parquet")
        assert row["episode_index"] in set(found["episode_index"].to_pylist())
    starts = [r[f"videos/{CAMERA}/from_timestamp"] for r in rows]
    assert [s == 0 for s in starts] == [i == 0 or videos[i] != videos[i - 1] for i in range(6)]


def test_an_episode_larger_than_the_limit_has_a_file_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_files(monkeypatch, 1)
    export(tmp_path, scenes.lengths_of((3, 3, 3)), version="v3.0")
    assert [r["data/file_index"] for r in rows_of(tmp_path)] == [0, 1, 2]


def test_v30_and_v21_hold_the_same_rows(tmp_path: Path) -> None:
    export(tmp_path / "v21", scenes.lengths_of(LENGTHS))
    export(tmp_path / "v30", scenes.lengths_of(LENGTHS), version="v3.0")
    packed = pq.read_table(tmp_path / "v30/data/chunk-000/file-000.parquet")
    single = pa.concat_tables([table(tmp_path / "v21", i) for i in range(5)])
    assert packed.equals(single)


def test_v30_repeats_to_the_byte(tmp_path: Path) -> None:
    for name, workers in (("a", 1), ("b", 3)):
        export(tmp_path / name, scenes.lengths_of(LENGTHS), version="v3.0", workers=workers)
    assert tree(tmp_path / "a") == tree(tmp_path / "b")


def test_many_episodes_are_flushed_in_groups(tmp_path: Path) -> None:
    some = [episode(i, 1, columns={"obs/front": None}) for i in range(600)]
    export(tmp_path, some, version="v3.0")
    file = pq.ParquetFile(tmp_path / "meta/episodes/chunk-000/file-000.parquet")
    assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [256, 256, 88]
    assert [r["episode_index"] for r in rows_of(tmp_path)] == list(range(600))


def test_the_episode_schema_is_the_same_for_every_kind_of_feature() -> None:
    made = [
        Feature("next.done", "rows", "bool", (1,), (("dones", 0, 1),)),
        Feature("count", "rows", "uint8", (2,), (("count", 0, 2),)),
        Feature(CAMERA, "video", "video", (4, 4, 3), (("obs/front", 0, 3),)),
    ]
    schema = episode_schema(made)
    assert str(schema.field("stats/next.done/min").type) == "list<item: double>"
    assert str(schema.field("stats/count/min").type) == "list<item: int64>"
    assert str(schema.field("stats/count/mean").type) == "list<item: double>"
    assert str(schema.field(f"stats/{CAMERA}/min").type).count("list") == 3


def test_videos_with_other_headers_do_not_share_a_file(tmp_path: Path) -> None:
    encode(tmp_path / "a.mp4", textured(4))
    encode(tmp_path / "b.mp4", textured(4, (32, 32)))
    pack = VideoPack(
        lambda chunk, file: tmp_path / f"{chunk}-{file}.mp4", 10**9, settings().fps, FileCounter(9)
    )
    try:
        pack.append(tmp_path / "a.mp4")
        with pytest.raises(StateError, match="share the encoder's header"):
            pack.append(tmp_path / "b.mp4")
    finally:
        pack.close()


# --- PNG columns


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_png_columns_hold_the_frames_exactly(tmp_path: Path, version: str) -> None:
    odd = scenes.frames(300, 2, (63, 65))
    export(tmp_path, [episode(0, 300, columns={"obs/front": odd})], version=version, codec="png")
    (path,) = (tmp_path / "data").rglob("*.parquet")
    rows = pq.read_table(path)
    cells = rows[CAMERA].to_pylist()
    assert [c["path"] for c in cells[:2]] == ["frame_000000.png", "frame_000001.png"]
    for i in (0, 127, 128, 299):
        np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(cells[i]["bytes"]))), odd[i])
    assert not (tmp_path / "videos").exists()
    info = info_of(tmp_path)
    assert info["video_path"] is None
    assert info["features"][CAMERA] == {
        "dtype": "image", "shape": [63, 65, 3], "names": ["height", "width", "channels"],
    }  # fmt: skip


def test_png_columns_carry_the_metadata_that_the_loaders_need(tmp_path: Path) -> None:
    export(tmp_path, [episode(0, 5)], codec="png", extras={"next.reward": "rewards"})
    schema = table(tmp_path, 0).schema
    features = json.loads(schema.metadata[b"huggingface"])["info"]["features"]
    assert list(features) == schema.names
    assert features[CAMERA] == {"_type": "Image"}
    assert features["action"] == {
        "feature": {"dtype": "float32", "_type": "Value"},
        "length": 7,
        "_type": "Sequence",
    }
    assert features["next.reward"] == {"dtype": "float64", "_type": "Value"}


def test_png_statistics_are_those_of_the_frames(tmp_path: Path) -> None:
    frames = scenes.frames(40)
    export(tmp_path, [episode(0, 40)], codec="png")
    stats = scenes.lines(tmp_path, "episodes_stats.jsonl")[0]["stats"][CAMERA]
    np.testing.assert_allclose(np.reshape(stats["mean"], 3), frames.mean((0, 1, 2)) / 255, rtol=1e-12)
    assert stats["count"] == [40]


def test_png_repeats_to_the_byte(tmp_path: Path) -> None:
    for name, workers in (("a", 1), ("b", 3)):
        export(tmp_path / name, scenes.lengths_of((20, 150)), codec="png", workers=workers)
    assert tree(tmp_path / "a") == tree(tmp_path / "b")
