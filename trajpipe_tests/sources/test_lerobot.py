"""The LeRobot source on small folders of every version: rows, frames, facts; what is refused and how.

What is not here: real sets and round trips, see `test_lerobot_chain.py`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trajpipe.core.conventions import Conventions, QuaternionSite
from trajpipe.core.episode import Description, Episode, whole
from trajpipe.core.errors import InputError, TrajpipeError, UnreadableError, UntrustedError
from trajpipe.core.findings import Finding
from trajpipe.core.ledger import Rejection
from trajpipe.sources.base import ReadOptions, detect, source
from trajpipe.sources.lerobot_folder import exact_rate, read_meta
from trajpipe.sources.lerobot_video import VideoFile
from trajpipe_tests.sources.lerobot_folders import (
    CAMERA,
    FPS,
    TASKS,
    Folder,
    assert_frames,
    edit_info,
    frame,
    rows_of,
    video_of,
    write_lines,
    write_video,
)

VERSIONS = ("v2.0", "v2.1", "v3.0")


def described(root: Path, **options: Any) -> Description:
    """What the source says of a folder."""
    return source("lerobot").describe(root, ReadOptions(sha256="0" * 64, **options))


def items(root: Path, found: list[Finding] | None = None, **options: Any) -> Iterator[Episode | Rejection]:
    """Episodes and rejections, one by one: columns are valid until the next."""
    report = (found if found is not None else []).append
    return source("lerobot").episodes(root, ReadOptions(sha256="0" * 64, report=report, **options))


def facts(root: Path, **options: Any) -> list[Any]:
    """Episodes (their arrays read while valid, cameras left out) and rejections."""
    out: list[Any] = []
    for item in items(root, **options):
        if isinstance(item, Episode):
            arrays = {p: whole(c) for p, c in item.columns.items() if len(c.shape) < 4}
            out.append((item, arrays))
        else:
            out.append(item)
    return out


def codes(found: Any) -> list[str]:
    """Codes of findings."""
    return [f.code for f in found]


@pytest.mark.parametrize("version", VERSIONS)
def test_rows_frames_and_facts_of_every_version(tmp_path: Path, version: str) -> None:
    folder = Folder(version=version)
    root = folder.write(tmp_path / "set")
    assert detect(root).kind == "lerobot"
    told = described(root)
    assert (told.fps, told.env_args, told.attributes) == (Fraction(FPS), {"env_name": "arm"}, {"robot_type": "arm"})
    assert (told.conventions["version"], told.conventions["layout"]) == (version, version[:2])
    assert told.findings == ()
    start = 0
    for number, item in enumerate(items(root)):
        assert isinstance(item, Episode)
        stop = start + folder.lengths[number]
        np.testing.assert_array_equal(whole(item.columns["obs/state"]), folder.state()[start:stop])
        np.testing.assert_array_equal(whole(item.columns["actions"]), folder.action()[start:stop])
        assert set(item.columns) == {"obs/state", "actions", "obs/front"}
        assert item.columns["obs/front"].shape == (item.length, 32, 48, 3)
        assert_frames(whole(item.columns["obs/front"]), number)
        assert (item.name, item.task, item.success, item.tag) == (
            f"episode_00000{number}",
            "pick",
            None,
            "unknown",
        )
        assert (item.source_file, item.source_demo, item.split) == ("set", item.name, "train")
        assert item.alignment == "before_action"
        start = stop
    assert start == folder.total


def test_v3_frames_are_found_by_rounding_also_when_episodes_are_out_of_order(tmp_path: Path) -> None:
    root = Folder(lengths=(41, 37, 50, 1, 99), version="v3.0", order=(4, 2, 0, 3, 1)).write(tmp_path / "set")
    for number, item in enumerate(items(root)):
        assert isinstance(item, Episode)
        column = item.columns["obs/front"]
        assert_frames(column.read(0, 1), number)
        assert_frames(column.read(item.length - 1, item.length), number, item.length - 1)


def test_going_back_seeks_once_and_reading_in_order_never_does(tmp_path: Path) -> None:
    root = Folder(lengths=(30, 25, 28), version="v3.0", order=(1, 2, 0)).write(tmp_path / "set")
    videos = []
    for number, item in enumerate(items(root)):
        assert isinstance(item, Episode)
        column: Any = item.columns["obs/front"]
        assert_frames(np.concatenate([column.read(0, 7), column.read(7, item.length)]), number)
        videos.append(column.open())
    assert len({id(v) for v in videos}) == 1, "one open file for the camera"
    assert videos[0].passes == 2, "the first pass, and one seek back to the episodes before"


def test_a_v2_camera_is_decoded_once_per_file(tmp_path: Path) -> None:
    for item in items(Folder().write(tmp_path / "set")):
        assert isinstance(item, Episode)
        column: Any = item.columns["obs/front"]
        for row in range(item.length):
            column.read(row, row + 1)
        assert column.open().passes == 1


def test_v3_rows_are_found_by_their_own_index_not_by_the_metadata(tmp_path: Path) -> None:
    folder = Folder(version="v3.0", videos=False)
    root = folder.write(tmp_path / "set")
    table = pq.read_table(root / "data/chunk-000/file-000.parquet")
    # The last episode lies in a file of its own; the metadata say file 7 for all.
    pq.write_table(table.slice(0, 11), root / "data/chunk-000/file-000.parquet")
    pq.write_table(table.slice(11), root / "data/chunk-000/file-001.parquet")
    last = facts(root)[2][1]
    np.testing.assert_array_equal(last["obs/state"], folder.state()[11:])


@pytest.mark.parametrize("column", ["__index_level_0__", "task"])
def test_the_text_of_v3_tasks_is_the_pandas_index_or_a_column(tmp_path: Path, column: str) -> None:
    root = Folder(version="v3.0", videos=False, tasks=[[1] * 7, [2] * 4, [0] * 5]).write(tmp_path / "set")
    table = pa.table({"task_index": [0, 1, 2], column: list(TASKS)})
    pq.write_table(table, root / "meta/tasks.parquet")
    assert [e.task for e, _ in facts(root)] == ["pick ", "立方体", "pick"]


def test_tasks_that_change_inside_an_episode_are_kept_per_row(tmp_path: Path) -> None:
    tasks = [[2, 0, 1, 2, 0, 1, 2], [0] * 4, [1] * 5]
    first, second, third = facts(Folder(videos=False, tasks=tasks).write(tmp_path / "set"))
    assert first[0].task == "立方体"
    assert json.loads(first[0].attributes["tasks"]) == ["立方体", "pick", "pick "]
    np.testing.assert_array_equal(first[1]["task_index"], [0, 1, 2, 0, 1, 2, 0])
    assert [json.loads(e.attributes["tasks"]) for e, _ in (second, third)] == [["pick"], ["pick "]]
    np.testing.assert_array_equal(second[1]["task_index"], np.zeros(4))


def test_unknown_features_become_terms_and_rewards_keep_their_place(tmp_path: Path) -> None:
    total = 16
    extra: dict[str, Any] = {
        "next.reward": ({"dtype": "float32", "shape": [1]}, np.arange(total, dtype=np.float32)),
        "next.done": ({"dtype": "bool", "shape": [1]}, np.arange(total) % 4 == 3),
        "observation.environment_state": ({"dtype": "float64", "shape": [2]}, np.ones((total, 2)).tolist()),
        "annotation.human.validity": ({"dtype": "int64", "shape": [1]}, np.arange(total)),
        "language": ({"dtype": "string", "shape": [1]}, ["go", "stop"] * 8),
    }
    (_, arrays), *_ = found = facts(Folder(videos=False, extra=extra).write(tmp_path / "set"))
    assert {p: (a.shape, a.dtype.name) for p, a in arrays.items()} == {
        "obs/state": ((7, 3), "float32"),
        "actions": ((7, 2), "float32"),
        "rewards": ((7,), "float32"),
        "dones": ((7,), "bool"),
        "obs/environment_state": ((7, 2), "float64"),
        "obs/annotation.human.validity": ((7, 1), "int64"),
        "obs/language_index": ((7, 1), "int32"),
    }
    assert [json.loads(e.attributes["language"]) for e, _ in found] == [
        ["go", "stop"],
        ["stop", "go"],
        ["stop", "go"],
    ]


def test_success_is_ours_or_any_row_of_next_success(tmp_path: Path) -> None:
    values = np.zeros(16, bool)
    values[9] = True
    extra: dict[str, Any] = {"next.success": ({"dtype": "bool", "shape": [1]}, values)}
    assert [e.success for e, _ in facts(Folder(videos=False, extra=extra).write(tmp_path / "a"))] == [
        False,
        True,
        False,
    ]
    keys = [
        {"success": True, "success_known": True, "source": "teleop", "split": "train"},
        {"success": False, "success_known": True, "source": "rl", "split": "valid"},
        {"success": True, "success_known": False, "source": "dreamt", "split": "valid"},
    ]
    root = Folder(
        videos=False, keys=[k | {"operator": "ann", "source_demo": f"d_{i}"} for i, k in enumerate(keys)]
    )
    noted: list[Finding] = []
    found = list(items(root.write(tmp_path / "b"), noted))
    assert [e.success for e in found if isinstance(e, Episode)] == [True, False, None]
    assert [e.tag for e in found if isinstance(e, Episode)] == ["teleop", "rl", "unknown"]
    assert [e.source_demo for e in found if isinstance(e, Episode)] == ["d_0", "d_1", "d_2"]
    assert [dict(e.attributes) for e in found if isinstance(e, Episode)] == [{"operator": "ann"}] * 3
    assert codes(noted) == ["tag-unknown"]
    assert described(tmp_path / "b").masks == {
        "train": ("episode_000000",),
        "valid": ("episode_000001", "episode_000002"),
    }


def test_splits_of_info_become_masks(tmp_path: Path) -> None:
    root = Folder(videos=False).write(tmp_path / "set")
    edit_info(root, splits={"train": "0:2", "val": "2:3"})
    assert described(root).masks == {
        "train": ("episode_000000", "episode_000001"),
        "valid": ("episode_000002",),
    }


@pytest.mark.parametrize(
    ("state", "names", "terms"),
    [
        ({"b": {"start": 1, "end": 3}, "a": {"start": 0, "end": 1}}, ["a", "b_0", "b_1"], ["obs/a", "obs/b"]),
        ({"b": {"start": 0, "end": 3}}, ["g/b_0", "g/b_1", "g/b_2"], ["obs/g/b"]),
        ({"a": {"start": 0, "end": 2}}, ["a", "b", "c"], ["obs/state"]),  # does not reach the end
        ({"a": {"start": 0, "end": 3, "original_key": "action"}}, ["a", "b", "c"], ["obs/state"]),
        ({"a": {"start": 0, "end": 2}, "b": {"start": 1, "end": 3}}, ["a", "b", "c"], ["obs/state"]),
    ],
)
def test_modality_json_restores_the_terms_when_it_tiles_the_state(
    tmp_path: Path, state: Any, names: list[str], terms: list[str]
) -> None:
    folder = Folder(videos=False)
    root = folder.write(tmp_path / "set")
    (root / "meta/modality.json").write_text(json.dumps({"state": state, "action": {}}))
    info = json.loads((root / "meta/info.json").read_text())
    info["features"]["observation.state"]["names"] = names
    (root / "meta/info.json").write_text(json.dumps(info))
    assert described(root).conventions["state"] == terms
    arrays = facts(root)[0][1]
    np.testing.assert_array_equal(np.concatenate([arrays[t] for t in terms], axis=1), folder.state()[:7])
    assert described(root, options={"state": "whole"}).conventions["state"] == ["obs/state"]
    if terms == ["obs/state"]:
        with pytest.raises(InputError, match=r"tile observation\.state"):
            described(root, options={"state": "split"})


def test_image_columns_are_decoded_from_the_rows(tmp_path: Path) -> None:
    from trajpipe.export.images import png

    cells = [{"bytes": png(frame(i, t)), "path": None} for i, n in enumerate((7, 4, 5)) for t in range(n)]
    extra: dict[str, Any] = {
        "observation.images.wrist": ({"dtype": "image", "shape": [32, 48, 3]}, pa.array(cells))
    }
    root = Folder(videos=False, extra=extra).write(tmp_path / "set")
    for number, item in enumerate(items(root)):
        assert isinstance(item, Episode)
        np.testing.assert_array_equal(
            item.columns["obs/wrist"].read(1, 3), [frame(number, t) for t in (1, 2)]
        )


def test_text_files_with_bom_crlf_and_blank_lines_are_read_and_reported(tmp_path: Path) -> None:
    root = Folder(videos=False).write(tmp_path / "set")
    path = root / "meta/episodes.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n\r\n"))
    told = described(root)
    assert len(told.episodes) == 3
    assert [f.got for f in told.findings] == ["BOM", "CRLF", "3 blank lines"]
    path.write_text('{"episode_index": 0,\n')
    with pytest.raises(InputError, match=r"episodes.jsonl · row 0: the text is not JSON"):
        described(root)


def test_the_files_tell_the_layout_and_a_contradiction_is_reported(tmp_path: Path) -> None:
    root = Folder(videos=False, version="v3.0").write(tmp_path / "set")
    edit_info(root, codebase_version="v2.1")
    told = described(root)
    assert (told.conventions["layout"], codes(told.findings)) == ("v3", ["layout-contradiction"])
    assert len(facts(root)) == 3
    write_lines(root / "meta/episodes.jsonl", [])
    edit_info(root, codebase_version="v3.0")
    assert (
        described(root).findings[0].message
        == "the folder has the metadata of two layouts; the declared one is read"
    )


def test_a_v3_file_without_its_end_is_not_finalised(tmp_path: Path) -> None:
    root = Folder(videos=False, version="v3.0").write(tmp_path / "set")
    for name in (
        "data/chunk-000/file-000.parquet",
        "meta/episodes/chunk-000/file-000.parquet",
        "meta/tasks.parquet",
    ):
        broken = shutil.copytree(root, tmp_path / name.replace("/", "_"))
        (broken / name).write_bytes((broken / name).read_bytes()[:-8])
        with pytest.raises(UnreadableError, match="not finalised") as error:
            list(items(broken))
        assert (error.value.code, error.value.place) == ("not-finalised", name)


def test_a_broken_v2_file_loses_its_own_episode_alone(tmp_path: Path) -> None:
    root = Folder(videos=False).write(tmp_path / "set")
    rows_of(root, 0).write_bytes(rows_of(root, 0).read_bytes()[:-8])
    rows_of(root, 1).unlink()
    first, second, third = facts(root)
    assert first.reason == "unreadable"
    assert "not finalised" in first.detail
    assert (second.reason, "missing" in second.detail) == ("unreadable", True)
    assert third[0].name == "episode_000002"


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_a_short_video_fails_its_episode_with_both_numbers(tmp_path: Path, version: str) -> None:
    root = Folder(version=version).write(tmp_path / "set")
    if version == "v3.0":
        video, need = (
            root / f"videos/{CAMERA}/chunk-000/file-000.mp4",
            "13 frames; expected 16 frames at least",
        )
        write_video(video, [frame(0, t) for t in range(13)])
    else:
        video, need = video_of(root, 2), "3 frames; expected 5 frames at least"
        write_video(video, [frame(2, t) for t in range(3)])
    *good, last = items(root)
    assert all(isinstance(e, Episode) for e in good)
    assert isinstance(last, Rejection)
    assert last.reason == "short-video"
    assert need in last.detail


def test_frames_past_the_end_are_an_error_with_both_numbers(tmp_path: Path) -> None:
    path = write_video(tmp_path / "v.mp4", [frame(0, t) for t in range(12)])
    video = VideoFile(path, "v.mp4")
    with pytest.raises(UnreadableError, match="12 frames; expected 15 frames at least") as error:
        video.read(9, 15)
    assert error.value.code == "short-video"
    assert_frames(video.read(3, 8), 0, 3)
    assert_frames(video.read(0, 2), 0)
    video.close()


def test_a_video_cut_short_is_not_finalised(tmp_path: Path) -> None:
    path = write_video(tmp_path / "v.mp4", [frame(0, t) for t in range(12)])
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(UnreadableError, match="not finalised"):
        VideoFile(path, "v.mp4")


def test_a_longer_video_is_a_warning_and_no_video_an_unreadable_episode(tmp_path: Path) -> None:
    root = Folder().write(tmp_path / "set")
    write_video(video_of(root, 0), [frame(0, t) for t in range(9)])
    video_of(root, 1).unlink()
    video_of(root, 2).write_bytes(b"no video")
    noted: list[Finding] = []
    first, second, third = items(root, noted)
    assert isinstance(first, Episode)
    assert [(f.code, f.got, f.expected) for f in noted] == [("long-video", "9", "7")]
    assert isinstance(second, Rejection)
    assert second.reason == "missing-file"
    assert isinstance(third, Rejection)
    assert third.reason == "bad-video"


def test_a_declared_camera_without_files_is_left_out(tmp_path: Path) -> None:
    root = Folder().write(tmp_path / "set")
    shutil.rmtree(root / "videos")
    told = described(root)
    assert [(f.code, f.place.column) for f in told.findings] == [("video-missing", CAMERA)]
    assert set(facts(root)[0][0].columns) == {"obs/state", "actions"}


def test_rejected_episodes_are_left_out_by_name(tmp_path: Path) -> None:
    root = Folder(videos=False).write(tmp_path / "set")
    path = root / "meta/rejected_episodes.json"
    path.write_text('{"rejected_episodes": [1]}')
    assert [getattr(i, "reason", "read") for i in items(root)] == ["read", "declared-rejected", "read"]
    for listed, rule in (
        ([3], "indices of this set"),
        ([0, 1, 2], "every episode is rejected"),
        (["1"], "indices"),
    ):
        path.write_text(json.dumps({"rejected_episodes": listed}))
        with pytest.raises(InputError, match=rule):
            described(root)


def test_rows_that_contradict_the_metadata_reject_the_episode(tmp_path: Path) -> None:
    root = Folder(videos=False).write(tmp_path / "set")
    pq.write_table(pq.read_table(rows_of(root, 0)).slice(1), rows_of(root, 0))
    table = pq.read_table(rows_of(root, 1))
    at = table.column_names.index("episode_index")
    pq.write_table(table.set_column(at, "episode_index", pa.array([2] * 4)), rows_of(root, 1))
    first, second, third = facts(root)
    assert (first.reason, first.detail) == ("ragged", "6 rows, the metadata say 7")
    assert second.reason == "bad-episode"
    assert third[0].length == 5


def test_ragged_and_wrong_widths_and_nulls_reject_the_episode(tmp_path: Path) -> None:
    root = Folder(videos=False).write(tmp_path / "set")
    changes = ([[1.0, 2.0]] * 7, [[1.0], [1.0, 2.0], [0.0], [0.0]], [[1.0, 2.0, None]] * 5)
    for i, values in enumerate(changes):
        table = pq.read_table(rows_of(root, i))
        state = pa.array(values, pa.list_(pa.float32()))
        pq.write_table(table.set_column(0, "observation.state", state), rows_of(root, i))
    assert [r.reason for r in facts(root)] == ["bad-episode", "ragged", "bad-episode"]


def test_v3_rows_apart_or_of_nobody(tmp_path: Path) -> None:
    root = Folder(videos=False, version="v3.0", lengths=(4, 4, 4)).write(tmp_path / "set")
    path = root / "data/chunk-000/file-000.parquet"
    table = pq.read_table(path)
    at = table.column_names.index("episode_index")
    numbers = [0, 0, 1, 1, 0, 0, 1, 1, 9, 9, 9, 9]
    pq.write_table(table.set_column(at, "episode_index", pa.array(numbers)), path)
    assert [r.reason for r in facts(root)] == ["bad-episode", "bad-episode", "unreadable"]
    assert codes(described(root).findings) == ["orphan-rows"]


def test_a_template_cannot_lead_out_of_the_folder_or_run_code(tmp_path: Path) -> None:
    root = Folder(videos=False).write(tmp_path / "set")
    edit_info(root, data_path="../../{episode_index}.parquet")
    with pytest.raises(UntrustedError, match="leads out of the folder"):
        described(root)
    edit_info(root, data_path="data/{episode_index.__class__}.parquet")
    with pytest.raises(InputError, match="not a path template"):
        described(root)
    edit_info(root, data_path="data/{nobody}.parquet")
    with pytest.raises(InputError, match="names what is not known"):
        described(root)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"fps": 0}, "needs a rate"),
        ({"features": {}}, "needs features"),
        ({"features": {"observation.state": {"dtype": "float32", "shape": [3]}}}, "L2 needs actions"),
    ],
)
def test_metadata_that_cannot_be_used_are_refused(tmp_path: Path, change: dict[str, Any], rule: str) -> None:
    root = Folder(videos=False).write(tmp_path / "set")
    edit_info(root, **change)
    with pytest.raises(InputError, match=rule):
        described(root)


def test_wrong_totals_are_reported_and_repeated_indices_refused(tmp_path: Path) -> None:
    folder = Folder(videos=False)
    root = folder.write(tmp_path / "set")
    edit_info(root, total_frames=99)
    assert [(f.code, f.got, f.expected) for f in described(root).findings] == [("total-wrong", "99", "16")]
    write_lines(root / "meta/episodes.jsonl", [*folder.meta_rows(), folder.meta_rows()[0]])
    with pytest.raises(InputError, match="given once"):
        described(root)


def test_declared_quaternions_are_converted_and_must_say_their_order(tmp_path: Path) -> None:
    rows = np.tile(np.array([1.0, 0, 0, 0], np.float32), (16, 1))
    extra: dict[str, Any] = {"observation.quat": ({"dtype": "float32", "shape": [4]}, rows.tolist())}
    root = Folder(videos=False, extra=extra).write(tmp_path / "set")
    site = QuaternionSite("obs/quat", (0,), "wxyz")
    converted = facts(root, conventions=Conventions(quaternions=(site,)))[0][1]
    np.testing.assert_array_equal(converted["obs/quat"][0], [0, 0, 0, 1])
    with pytest.raises(InputError, match="does not tell the order"):
        list(items(root, conventions=Conventions(quaternions=(replace(site, order=None),))))


def test_unknown_options_are_refused(tmp_path: Path) -> None:
    root = Folder(videos=False).write(tmp_path / "set")
    with pytest.raises(InputError, match="state: 'halved'"):
        described(root, options={"state": "halved"})


def test_huge_row_groups_are_refused_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trajpipe.sources.lerobot_parquet.MAX_ROW_GROUP_BYTES", 10)
    root = Folder(videos=False, version="v3.0").write(tmp_path / "set")
    with pytest.raises(TrajpipeError, match="more than is read at once"):
        list(items(root))


def test_detect_wants_the_info_file(tmp_path: Path) -> None:
    assert not source("lerobot").detect(tmp_path)
    assert not source("lerobot").detect(tmp_path / "absent")
    with pytest.raises(UnreadableError, match=r"meta/info\.json"):
        read_meta(tmp_path)


@pytest.mark.parametrize(
    ("number", "rate"),
    [
        (20, "20"),
        (20.0, "20"),
        (29.97, "30000/1001"),
        (59.94005994005994, "60000/1001"),
        (12.5, "25/2"),
        (16.666666666666668, "50/3"),
    ],
)
def test_rates_are_the_fractions_they_stand_for(number: float, rate: str) -> None:
    assert str(exact_rate(number)) == rate
