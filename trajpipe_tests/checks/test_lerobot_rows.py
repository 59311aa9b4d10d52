"""Tests of the rules about rows, statistics and videos: each finds what the loaders do not notice."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trajpipe.checks import run_checks
from trajpipe.checks.lerobot_moments import Moments
from trajpipe.checks.lerobot_video import box_problem
from trajpipe.core.findings import Place, Severity
from trajpipe_tests.checks import lerobot_sets as sets
from trajpipe_tests.checks.lerobot_sets import edit_json, edit_lines, edit_table, finding, result, with_column
from trajpipe_tests.export import scenes

ROWS = "data/chunk-000/episode_000001.parquet"


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A good set of each version."""
    return {v: sets.build(tmp_path_factory.mktemp("good") / v, v) for v in ("v2.0", "v2.1", "v3.0")}


@pytest.fixture
def v21(good: dict[str, Path], tmp_path: Path) -> Path:
    """A v2.1 set to break."""
    return sets.copied(good["v2.1"], tmp_path / "set")


@pytest.fixture
def v30(good: dict[str, Path], tmp_path: Path) -> Path:
    """A v3.0 set to break."""
    return sets.copied(good["v3.0"], tmp_path / "set")


# --- lerobot-schema


def test_a_feature_that_the_rows_lack(v21: Path) -> None:
    edit_table(sets.rows_of(v21, 1), lambda t: t.drop_columns(["action"]))
    found = finding(v21, "lerobot-schema")
    assert found.message == "a declared feature is missing in the rows"
    assert found.place == Place(ROWS, column="action")


def test_a_column_that_nobody_declared(v21: Path) -> None:
    edit_table(sets.rows_of(v21, 1), lambda t: t.append_column("extra", t["index"]))
    assert finding(v21, "lerobot-schema").message == "a column is not declared in info.json"


@pytest.mark.parametrize(
    ("column", "kind", "message"),
    [
        ("action", pa.list_(pa.float64(), 7), "the column's dtype is the declared one"),
        ("frame_index", pa.int32(), "the column's dtype is the declared one"),
    ],
)
def test_a_column_of_another_type(v21: Path, column: str, kind: pa.DataType, message: str) -> None:
    edit_table(sets.rows_of(v21, 1), lambda t: with_column(column, t[column].cast(kind).combine_chunks())(t))
    assert finding(v21, "lerobot-schema").message == message


def test_a_column_of_another_width(v21: Path) -> None:
    rows = pa.array(np.zeros((37, 6), np.float32).tolist(), pa.list_(pa.float32(), 6))
    edit_table(sets.rows_of(v21, 1), with_column("action", rows))
    found = finding(v21, "lerobot-schema")
    assert (found.message, found.got, found.expected) == (
        "the column's width is the declared one",
        "6",
        "7",
    )


@pytest.mark.parametrize(("version", "severity"), [("v2.1", Severity.ERROR), ("v2.0", Severity.WARN)])
def test_a_scalar_feature_as_a_list(
    good: dict[str, Path], tmp_path: Path, version: str, severity: Severity
) -> None:
    root = sets.copied(good[version], tmp_path / "set")
    rows = pa.array([[float(i)] for i in range(37)], pa.list_(pa.float64()))
    edit_table(sets.rows_of(root, 1), with_column("next.reward", rows))
    found = finding(root, "lerobot-schema")
    assert (found.message, found.severity) == ("a feature of shape [1] is a plain column", severity)


def test_a_text_column_kills_readers_that_cast(v21: Path) -> None:
    edit_json(
        v21 / "meta/info.json",
        lambda i: i["features"].update(note={"dtype": "string", "shape": [1], "names": None}),
    )
    for index in range(4):
        edit_table(
            sets.rows_of(v21, index),
            lambda t: t.append_column("note", pa.array(["x"] * t.num_rows)),
        )
    assert "text column" in finding(v21, "lerobot-schema").message


def test_rows_that_cannot_be_read(v21: Path) -> None:
    path = sets.rows_of(v21, 1)
    path.write_bytes(path.read_bytes()[:-8])
    found = finding(v21, "lerobot-schema")
    assert (found.message, found.place.file) == ("the rows cannot be read", ROWS)


# --- lerobot-index


def test_an_index_that_restarts(v21: Path) -> None:
    edit_table(sets.rows_of(v21, 1), with_column("index", np.arange(37)))
    found = finding(v21, "lerobot-index")
    assert found.message == "index counts without gap or restart"
    assert found.place == Place(ROWS, "episode 1", "index", 0)
    assert (found.got, found.expected) == ("0", "41")


@pytest.mark.parametrize("column", ["frame_index", "episode_index", "index"])
def test_one_wrong_index(v21: Path, column: str) -> None:
    def spoil(table: pa.Table) -> pa.Table:
        values = table[column].to_numpy().copy()
        values[20] += 1
        return with_column(column, values)(table)

    edit_table(sets.rows_of(v21, 1), spoil)
    found = finding(v21, "lerobot-index")
    assert (found.place.column, found.place.row) == (column, 20)


def test_fewer_rows_than_the_length(v21: Path) -> None:
    edit_table(sets.rows_of(v21, 1), lambda t: t.slice(0, 36))
    found = finding(v21, "lerobot-index")
    assert (found.message, found.got, found.expected) == (
        "the episode's rows are as many as its length",
        "36",
        "37",
    )


def test_an_episode_without_rows_and_rows_without_an_episode(v21: Path) -> None:
    sets.rows_of(v21, 3).rename(sets.rows_of(v21, 9))
    messages = [f.message for f in result(v21, "lerobot-index").findings]
    assert messages == ["rows of an episode that the metadata do not list", "the episode has no rows"]


def test_v3_ranges_and_file_numbers(v30: Path) -> None:
    path = v30 / "meta/episodes/chunk-000/file-000.parquet"
    edit_table(path, with_column("dataset_to_index", [41, 78, 79, 140]))
    found = finding(v30, "lerobot-index")
    assert found.message == "dataset_from_index and dataset_to_index are the episode's rows"
    assert (found.got, found.expected) == ("(79, 140)", "(79, 139)")


def test_v3_data_file_index_as_the_official_converter_gets_it_wrong(v30: Path) -> None:
    path = v30 / "meta/episodes/chunk-000/file-000.parquet"
    edit_table(path, with_column("data/file_index", [0, 0, 1, 1]))
    found = finding(v30, "lerobot-index")
    assert "data/file_index names another file" in found.message
    assert found.got == "data/chunk-000/file-001.parquet"


def test_v3_rows_of_an_episode_that_lie_apart(v30: Path) -> None:
    path = v30 / "data/chunk-000/file-000.parquet"
    table = pq.read_table(path)
    pq.write_table(pa.concat_tables([table.slice(0, 20), table.slice(41, 37), table.slice(20, 21)]), path)
    messages = {f.message for f in result(v30, "lerobot-index").findings}
    assert "the rows of an episode stand together, once" in messages


# --- lerobot-timestamps


def test_jitter_breaks_the_loaders_tolerance(v21: Path) -> None:
    def jitter(table: pa.Table) -> pa.Table:
        times = table["timestamp"].to_numpy().copy()
        times[10:] += 0.004
        return with_column("timestamp", times)(table)

    edit_table(sets.rows_of(v21, 1), jitter)
    found = finding(v21, "lerobot-timestamps")
    assert found.message == "neighbouring timestamps are 1/fps apart within 0.0001 s"
    assert (found.place.row, found.got, found.expected) == (10, "0.054000 s", "0.050000 s")


@pytest.mark.parametrize(("version", "severity"), [("v2.1", Severity.ERROR), ("v2.0", Severity.WARN)])
def test_timestamps_that_do_not_start_at_zero(
    good: dict[str, Path], tmp_path: Path, version: str, severity: Severity
) -> None:
    """GR00T's v2.0 sample starts at one step, which is a warning there."""
    root = sets.copied(good[version], tmp_path / "set")
    edit_table(
        sets.rows_of(root, 1),
        lambda t: with_column("timestamp", t["timestamp"].to_numpy() + np.float32(0.05))(t),
    )
    found = finding(root, "lerobot-timestamps")
    assert (found.message, found.severity) == ("timestamp is frame_index / fps, from 0", severity)


def test_float32_cannot_tell_30_fps_apart_after_1024_seconds(tmp_path: Path) -> None:
    """Built by hand: the exporter refuses such an episode."""
    long = scenes.episode(0, 40, columns={"obs/front": None})
    scenes.export(tmp_path, [long], fps=Fraction(30))
    number = 1025 * 30

    def stretch(table: pa.Table) -> pa.Table:
        rows = table.take(pa.array(np.zeros(number, np.int64)))
        rows = with_column("timestamp", (np.arange(number) / 30).astype(np.float32))(rows)
        rows = with_column("frame_index", np.arange(number))(rows)
        return with_column("index", np.arange(number))(rows)

    edit_table(sets.rows_of(tmp_path, 0), stretch)
    edit_lines(tmp_path / "meta/episodes.jsonl", lambda rows: rows[0].update(length=number))
    found = finding(tmp_path, "lerobot-timestamps")
    assert "float32 is too coarse for an episode this long" in found.message
    assert found.place.row is not None
    assert 1024 * 30 - 1 <= found.place.row <= 1024 * 30 + 30
    assert result(tmp_path, "lerobot-index").passed


# --- lerobot-finite, lerobot-task-rows


def test_one_nan_in_the_rows(v21: Path) -> None:
    rows = np.zeros((37, 7), np.float32)
    rows[5, 3] = np.nan
    array = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1), from_pandas=False), 7)
    edit_table(sets.rows_of(v21, 1), with_column("action", array))
    found = finding(v21, "lerobot-finite")
    assert found.place == Place(ROWS, "episode 1", "action", 5)


def test_a_task_index_outside_the_table(v21: Path) -> None:
    edit_table(sets.rows_of(v21, 1), with_column("task_index", [1] * 36 + [7]))
    found = finding(v21, "lerobot-task-rows")
    assert (found.message, found.got) == ("a row's task_index is in the task table", "7")


def test_rows_of_another_task_than_the_episodes(v21: Path) -> None:
    edit_table(sets.rows_of(v21, 1), with_column("task_index", [0] * 37))
    found = finding(v21, "lerobot-task-rows")
    assert found.message == "the episode's tasks are those of its rows"


# --- lerobot-stats, lerobot-image-stats


@pytest.mark.parametrize("statistic", ["min", "max", "mean", "std", "count"])
def test_a_wrong_statistic_of_an_episode(v21: Path, statistic: str) -> None:
    def spoil(rows: list[dict[str, Any]]) -> None:
        values = rows[1]["stats"]["observation.state"][statistic]
        values[0] += 1

    edit_lines(v21 / "meta/episodes_stats.jsonl", spoil)
    found = finding(v21, "lerobot-stats")
    place = Place("meta/episodes_stats.jsonl", "episode 1", "observation.state")
    assert (found.place, statistic in found.message) == (place, True)


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.pop("action"),
        lambda s: s["action"].pop("std"),
        lambda s: s["action"].update(mean=0.0),
        lambda s: s["action"].update(mean=[0.0]),
        lambda s: s["action"].update(std=None),
        lambda s: s["action"].pop("count"),
    ],
)
def test_a_statistic_that_is_missing_or_misshapen(v21: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    edit_lines(v21 / "meta/episodes_stats.jsonl", lambda rows: change(rows[2]["stats"]))
    assert not result(v21, "lerobot-stats").passed


@pytest.mark.parametrize("statistic", ["mean", "std", "min", "max", "q01", "q99"])
def test_a_wrong_statistic_of_the_dataset(v21: Path, statistic: str) -> None:
    def spoil(stats: dict[str, Any]) -> None:
        stats["action"][statistic][1] += 0.5

    edit_json(v21 / "meta/stats.json", spoil)
    found = finding(v21, "lerobot-stats")
    assert found.place == Place("meta/stats.json", column="action")
    assert found.message.startswith(f"{statistic} of dimension 1")


def test_averaged_quantiles_are_a_warning_in_v3(v30: Path) -> None:
    def spoil(stats: dict[str, Any]) -> None:
        stats["action"]["q99"][0] -= 0.7

    edit_json(v30 / "meta/stats.json", spoil)
    found = result(v30, "lerobot-stats")
    assert found.passed
    assert found.findings.kept[0].severity is Severity.WARN


def test_image_statistics_of_the_0_to_255_range_or_without_spread(v21: Path) -> None:
    def scale(rows: list[dict[str, Any]]) -> None:
        rows[0]["stats"][sets.CAMERA]["mean"] = [[[130.0]], [[131.0]], [[40.0]]]
        rows[1]["stats"][sets.CAMERA]["std"] = [[[0.0]], [[0.0]], [[0.0]]]
        rows[2]["stats"][sets.CAMERA]["min"] = [0, 0, 0]
        rows[3]["stats"][sets.CAMERA]["count"] = [7]

    edit_lines(v21 / "meta/episodes_stats.jsonl", scale)
    found = {f.place.demo: (f.message, f.severity) for f in result(v21, "lerobot-image-stats").findings}
    assert found == {
        "episode 0": ("mean lies in 0..1", Severity.ERROR),
        "episode 1": ("std is far from that of the decoded frames", Severity.ERROR),
        "episode 2": ("min has the shape (3, 1, 1)", Severity.ERROR),
        "episode 3": ("count is the number of frames used", Severity.WARN),
    }


@pytest.mark.parametrize("seed", range(5))
def test_the_quantile_proof_agrees_with_numpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 9, (int(rng.integers(1, 300)), 3)).astype(np.float32)
    claim = {q: np.quantile(rows, p, axis=0).tolist() for q, p in (("q01", 0.01), ("q50", 0.5))}
    moments = Moments.empty(3, claim)
    for part in np.array_split(rows, 4):
        if len(part):
            moments.merge(Moments.of(part), part)
    assert not moments.quantile_is_wrong("q01").any()
    assert not moments.quantile_is_wrong("q50").any()
    np.testing.assert_allclose(moments.mean, rows.astype(np.float64).mean(0), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(moments.std, rows.astype(np.float64).std(0), rtol=1e-9, atol=1e-9)


# --- lerobot-video


def test_a_video_with_a_frame_too_few(v21: Path) -> None:
    shorter = v21.parent / "shorter"
    scenes.export(shorter, [scenes.episode(1, 36)])
    sets.video_of(v21, 1).write_bytes(sets.video_of(shorter, 0).read_bytes())
    found = finding(v21, "lerobot-video")
    assert (found.message, found.got, found.expected) == (
        "the video is shorter than the episode",
        "36 frames",
        "37",
    )


def test_a_video_with_a_frame_too_many(v21: Path) -> None:
    longer = v21.parent / "longer"
    scenes.export(longer, [scenes.episode(1, 38)])
    sets.video_of(v21, 1).write_bytes(sets.video_of(longer, 0).read_bytes())
    found = finding(v21, "lerobot-video")
    assert (found.message, found.got, found.expected) == (
        "the video has more frames than the episodes",
        "38",
        "37",
    )


def test_a_video_of_another_size_or_rate(v21: Path) -> None:
    other = v21.parent / "other"
    small = scenes.frames(37, 1, (32, 32))
    scenes.export(other, [scenes.episode(1, 37, columns={"obs/front": small})], fps=Fraction(10))
    sets.video_of(v21, 1).write_bytes(sets.video_of(other, 0).read_bytes())
    messages = [f.message for f in result(v21, "lerobot-video").findings]
    assert messages == [
        "frames have the declared size",
        "the stream's rate is fps",
        "frame i is shown at i / fps: the rate is constant, from 0",
    ]


def test_a_codec_that_is_not_the_declared_one(v21: Path) -> None:
    edit_json(
        v21 / "meta/info.json", lambda i: i["features"][sets.CAMERA]["info"].update({"video.codec": "av1"})
    )
    found = finding(v21, "lerobot-video")
    assert (found.message, found.got, found.expected) == ("video.codec is the stream's", "h264", "av1")


def test_a_missing_a_truncated_and_a_wrong_file(v21: Path) -> None:
    sets.video_of(v21, 0).unlink()
    path = sets.video_of(v21, 1)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    sets.video_of(v21, 2).write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    found = result(v21, "lerobot-video")
    assert [f.message for f in found.findings] == [
        "the video is missing",
        "the video is not finalised: its writer was stopped, or the file was cut",
        "the video is not finalised: its writer was stopped, or the file was cut",
    ]
    assert str(found.counted) == "checked 1 of 4 videos"


@pytest.mark.parametrize("cut", [1, 8, 64, 3000])
def test_a_v3_video_without_its_last_bytes_is_not_finalised(v30: Path, cut: int) -> None:
    path = next((v30 / "videos").rglob("*.mp4"))
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-cut])
    found = finding(v30, "lerobot-video")
    assert "not finalised" in found.message
    assert str(found.got).endswith(f"the file at {size - cut}")


def test_boxes_of_a_whole_file_and_of_none(v21: Path, tmp_path: Path) -> None:
    assert box_problem(sets.video_of(v21, 0)) is None
    for data, problem in (
        (b"", "no index (moov) among the boxes none"),
        (b"\0\0\0\x08ftyp", "no index (moov) among the boxes ftyp"),
        (b"\0\0\0\x08ftyp\0\0", "2 bytes after the last box"),
        (b"\0\0\0\x01mdat" + (16).to_bytes(8, "big") + b"\0\0\0\0moov", None),
        (b"\0\0\0\x04moov", "box 'moov' at byte 0 ends at 4, the file at 8"),
    ):
        (tmp_path / "v.mp4").write_bytes(data)
        assert box_problem(tmp_path / "v.mp4") == problem


def test_a_flipped_byte_in_the_frames(v21: Path) -> None:
    """A file of the right structure whose frames are damaged."""
    path = sets.video_of(v21, 3)
    data = bytearray(path.read_bytes())
    start = data.index(b"mdat") + 2000
    data[start : start + 400] = bytes(b ^ 0x55 for b in data[start : start + 400])
    path.write_bytes(data)
    found = finding(v21, "lerobot-video")
    assert found.message in ("a frame is corrupt", "the video cannot be decoded")


def test_v3_episodes_that_overlap_in_the_file(v30: Path) -> None:
    path = v30 / "meta/episodes/chunk-000/file-000.parquet"
    edit_table(path, with_column(f"videos/{sets.CAMERA}/from_timestamp", [0.0, 2.0, 3.9, 3.95]))
    found = finding(v30, "lerobot-video")
    assert found.message == "episodes follow each other in the file without gap or overlap"
    assert (found.place.demo, found.got, found.expected) == ("episode 1", "from frame 40", "frame 41")


# --- real sets


@pytest.mark.shared
def test_real_sets_pass_or_fail_for_known_reasons(shared_data: Path) -> None:
    expected = {
        "v2.1_g1_bottle_2ep": set[str](),
        "v3.0_g1_bottle_2ep": set[str](),
        "v2.0_robot_sim.PickNPlace": {
            "lerobot-counters",
            "lerobot-splits",
            "lerobot-orphans",
            "lerobot-video",
        },
        "v3.0_pusht": {"lerobot-orphans", "lerobot-video", "lerobot-image-stats"},
        "v2.1_screwdriver_panel_ls_080225_4_e5": {
            "lerobot-orphans",
            "lerobot-video",
            "lerobot-image-stats",
        },
    }
    for name, codes in expected.items():
        report = run_checks("lerobot", shared_data / "lerobot" / name)
        assert {r.code for r in report.results if not r.passed} == codes, name
