"""The LeRobot source on small folders of every version: rows, frames, facts.

What is not here: refusals (`test_lerobot_refusals.py`), real sets and round trips (`test_lerobot_chain.py`).
"""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trajpipe.core.conventions import Conventions, QuaternionSite
from trajpipe.core.episode import Episode, whole
from trajpipe.core.errors import InputError, UnreadableError
from trajpipe.core.findings import Finding
from trajpipe.sources.base import detect, source
from trajpipe.sources.lerobot_folder import exact_rate, read_meta
from trajpipe_tests.sources.lerobot_folders import (
    FPS,
    TASKS,
    Folder,
    assert_frames,
    codes,
    described,
    edit_info,
    facts,
    frame,
    items,
)

VERSIONS = ("v2.0", "v2.1", "v3.0")


@pytest.mark.parametrize("version", VERSIONS)
def test_rows_frames_and_facts_of_every_version(tmp_path: Path, version: str) -> None:
    folder = Folder(version=version)
    root = folder.write(tmp_path / "set")
    assert detect(root).kind == "lerobot"
    told = described(root)
    assert (told.fps, told.env_args, told.attributes) == (
        Fraction(FPS),
        {"env_name": "arm"},
        {"robot_type": "arm"},
    )
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


def test_declared_quaternions_are_converted_and_must_say_their_order(tmp_path: Path) -> None:
    rows = np.tile(np.array([1.0, 0, 0, 0], np.float32), (16, 1))
    extra: dict[str, Any] = {"observation.quat": ({"dtype": "float32", "shape": [4]}, rows.tolist())}
    root = Folder(videos=False, extra=extra).write(tmp_path / "set")
    site = QuaternionSite("obs/quat", (0,), "wxyz")
    converted = facts(root, conventions=Conventions(quaternions=(site,)))[0][1]
    np.testing.assert_array_equal(converted["obs/quat"][0], [0, 0, 0, 1])
    with pytest.raises(InputError, match="does not tell the order"):
        list(items(root, conventions=Conventions(quaternions=(replace(site, order=None),))))


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


@pytest.mark.parametrize(
    ("names", "terms"),
    [
        (["arm_0", "arm_1", "gripper"], ["obs/arm", "obs/gripper"]),
        (["b_0", "arm_0", "arm_1"], ["obs/b", "obs/arm"]),
        (["shoulder", "elbow", "wrist"], ["obs/state"]),
        (["a_0", "a_1"], ["obs/state"]),  # not one for each dimension
    ],
)
def test_our_own_v3_exports_name_dimensions_after_their_terms(
    tmp_path: Path, names: list[str], terms: list[str]
) -> None:
    keys = [{"content_sha256": "0" * 64}] * 3
    root = Folder(videos=False, version="v3.0", keys=keys).write(tmp_path / "ours")
    info = json.loads((root / "meta/info.json").read_text())
    info["features"]["observation.state"]["names"] = names
    edit_info(root, features=info["features"])
    assert described(root).conventions["state"] == terms
    assert facts(root)[0][0].alignment is None
    foreign = Folder(videos=False, version="v3.0").write(tmp_path / "foreign")
    edit_info(foreign, features=info["features"])
    assert described(foreign).conventions["state"] == ["obs/state"]
