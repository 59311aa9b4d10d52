"""What the LeRobot source forgives, reports, rejects and refuses, and the words for it.

What is not here: what it reads, see `test_lerobot.py`.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trajpipe.core.episode import Episode
from trajpipe.core.errors import InputError, TrajpipeError, UnreadableError, UntrustedError
from trajpipe.core.findings import Finding
from trajpipe.core.ledger import Rejection
from trajpipe.sources.lerobot_video import VideoFile
from trajpipe_tests.sources.lerobot_folders import (
    CAMERA,
    Folder,
    assert_frames,
    codes,
    described,
    edit_info,
    facts,
    frame,
    items,
    rows_of,
    video_of,
    write_lines,
    write_video,
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


def test_half_a_character_in_a_task_is_named(tmp_path: Path) -> None:
    root = Folder(videos=False).write(tmp_path / "set")
    lines = (root / "meta/tasks.jsonl").read_text("utf-8").splitlines()
    lines[1] = r'{"task_index": 1, "task": "pick \ud83d"}'
    (root / "meta/tasks.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    with pytest.raises(InputError, match="half a character") as caught:
        described(root)
    assert (caught.value.code, caught.value.got) == ("bad-json", r"\ud83d")
    assert "meta/tasks.jsonl" in str(caught.value.place)
