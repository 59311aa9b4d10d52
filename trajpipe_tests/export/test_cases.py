"""Cases from public trackers that no other file of this folder holds, and exports that are killed half-way.

What is not here: names that do not fit, dtypes, tasks, frame sizes (`test_features`), packs (`test_packs`).
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trajpipe.checks import run_checks
from trajpipe.core.atomic import atomic_folder, remove_stale
from trajpipe.core.errors import SchemaError
from trajpipe.demos.reader import DemosFile
from trajpipe.demos.writer import DemosWriter
from trajpipe.export import export_lerobot
from trajpipe_tests.export import scenes
from trajpipe_tests.export.scenes import episode, export, info_of, lines, table, tree

CHILD = """
import sys
from pathlib import Path
from trajpipe.core.atomic import atomic_folder
from trajpipe.export import export_lerobot
from trajpipe_tests.export import scenes
version = sys.argv[2]
with atomic_folder(Path(sys.argv[1])) as folder:
    print("started", flush=True)
    export_lerobot(scenes.lengths_of([60] * 12), folder, scenes.options(version=version))
"""


def test_clock_jitter_of_the_recording_does_not_reach_the_timestamps(tmp_path: Path) -> None:
    jitter = np.arange(30) / 20 + np.random.default_rng(0).normal(0, 0.01, 30)
    export(tmp_path, [episode(columns={"obs/stamp": jitter})], state=("joint_pos",))
    stamps = table(tmp_path, 0)["timestamp"].to_numpy()
    assert stamps.tobytes() == (np.arange(30) / 20).astype(np.float32).tobytes()


def test_t_actions_with_t_plus_1_images_never_become_an_episode() -> None:
    with pytest.raises(SchemaError, match="every column of an episode has its row count") as caught:
        episode(columns={"obs/front": scenes.frames(31)})
    assert "demo_0 · obs/front" in str(caught.value)
    assert "got 31 rows; expected 30 rows" in str(caught.value)


def test_demo_10_follows_demo_9_through_l2(tmp_path: Path) -> None:
    with DemosWriter(tmp_path / "a.hdf5", env_args={"env_name": "Lift"}, recipe={}) as writer:
        for i in range(12):
            writer.write(episode(i, 3, columns={"obs/front": None, "actions": np.full((3, 2), float(i))}))
    with DemosFile(tmp_path / "a.hdf5") as demos:
        export_lerobot(demos.episodes(), tmp_path / "l3", scenes.options())
    assert [e["source_demo"] for e in lines(tmp_path / "l3", "episodes.jsonl")] == [
        f"demo_{i}" for i in range(12)
    ]
    firsts = [table(tmp_path / "l3", i)["action"].to_pylist()[0][0] for i in range(12)]
    assert firsts == list(range(12))


def test_no_success_anywhere_is_kept_and_counted(tmp_path: Path) -> None:
    result = export(tmp_path, [episode(i, 3, success=None) for i in range(4)])
    assert result.episodes == 4
    (note,) = [n for n in result.notes if n.code == "success-unknown"]
    assert note.message == "4 of 4 episodes do not say whether they succeeded"
    assert {e["success_known"] for e in lines(tmp_path, "episodes.jsonl")} == {False}


def test_two_recordings_with_different_terms_name_the_file(tmp_path: Path) -> None:
    first = episode(0, 4, source_file="a.hdf5")
    second = episode(1, 4, source_file="b.hdf5", columns={"obs/gripper": None})
    with pytest.raises(SchemaError, match=r"b.hdf5 · demo_1 · observation.state") as caught:
        export(tmp_path, [first, second])
    assert caught.value.code == "features-differ"


def test_three_tasks_that_alternate_reach_rows_and_lines(tmp_path: Path) -> None:
    column = np.tile([2, 0, 1], 10)
    some = [episode(0, 30, columns={"task_index": column}), episode(1, 5, task="b")]
    export(tmp_path, some, tasks=("a", "b", "立方体"))
    assert table(tmp_path, 0)["task_index"].to_pylist() == [0, 1, 2] * 10
    assert lines(tmp_path, "episodes.jsonl")[0]["tasks"] == ["立方体", "a", "b"]
    assert [t["task"] for t in lines(tmp_path, "tasks.jsonl")] == ["立方体", "a", "b"]
    assert table(tmp_path, 1)["task_index"].to_pylist() == [2] * 5
    assert run_checks("lerobot", tmp_path, select=["lerobot-task*"]).passed


def test_the_names_that_gr00t_needs_with_two_cameras(tmp_path: Path) -> None:
    some = [episode(0, 9, columns={"obs/wrist": scenes.frames(9, 3)})]
    export(tmp_path, some, gr00t=True, action_parts={"ee_pose": (0, 6), "gripper": (6, 7)})
    assert run_checks("lerobot", tmp_path, context={"gr00t": True}).passed
    features = info_of(tmp_path)["features"]
    for camera in ("front", "wrist"):
        assert features[f"observation.images.{camera}"]["names"] == ["height", "width", "channels"]


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_a_killed_export_leaves_nothing_and_the_next_one_is_whole(
    tmp_path: Path, version: str, full: bool
) -> None:
    """SIGKILL at seeded moments: what is visible is always whole; the remains are known as such."""
    whole = tmp_path / "whole" / "ds"
    whole.parent.mkdir()
    with atomic_folder(whole) as folder:
        export_lerobot(scenes.lengths_of([60] * 12), folder, scenes.options(version=version))
    chosen, killed = random.Random(5), 0
    target = tmp_path / "ds"
    for _ in range(30 if full else 3):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(target), version],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(chosen.uniform(0, 0.25))
        child.send_signal(signal.SIGKILL)
        killed += child.wait() == -signal.SIGKILL
        child.stdout.close()
        if target.exists():
            assert tree(target) == tree(whole)
            shutil.rmtree(target)
        else:
            assert remove_stale(tmp_path)
        assert [p.name for p in tmp_path.iterdir()] == ["whole"]
    with atomic_folder(target) as folder:
        export_lerobot(scenes.lengths_of([60] * 12), folder, scenes.options(version=version))
    assert tree(target) == tree(whole)
    assert killed


def test_the_options_that_decide_the_bytes_are_all_in_the_recipe(tmp_path: Path) -> None:
    """Two exports differ exactly when their recipes do."""
    variants: list[dict[str, Any]] = [
        {}, {"workers": 1}, {"crf": 30}, {"preset": "veryfast"}, {"robot_type": "ur5"},
        {"state": ("gripper",)},
        {"extras": {"next.reward": "rewards"}}, {"names": {"gripper": ("jaw",)}}, {"codec": "png"},
        {"version": "v2.0"}, {"fps": Fraction(10)}, {"chunk_size": 1},
    ]  # fmt: skip
    seen: dict[str, dict[str, bytes]] = {}
    for number, changes in enumerate(variants):
        root = tmp_path / str(number)
        export(root, scenes.lengths_of([6, 7]), **changes)
        key = repr(sorted(scenes.options(**changes).to_json().items(), key=str))
        made = tree(root)
        assert seen.setdefault(key, made) == made
        assert sum(made == other for other in seen.values()) == 1, changes
    assert len(seen) == len(variants) - 1
