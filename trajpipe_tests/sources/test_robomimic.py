"""The robomimic source: everything it may hold comes through, RoboTurk's logs as extras.

What is not here: images (`test_images`), quaternions (`test_quaternions`), real files (`test_real_files`).
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import h5py
import numpy as np

from trajpipe.core.conventions import Conventions
from trajpipe.core.findings import Severity
from trajpipe.core.names import Alignment
from trajpipe.testing import write_recording
from trajpipe_tests.sources.builders import ROBOSUITE_ENV, Demo, random, read, write


def test_low_dimensional_and_image_observations_come_as_recorded(tmp_path: Path) -> None:
    path = write_recording("robomimic", tmp_path / "teleop_lift.hdf5", rows=(5, 8), image_size=16)
    found = read(path)
    assert found.description.kind == "robomimic"
    assert found.description.fps == Fraction(20)
    assert set(found.description.masks) == {"train", "valid"}
    assert [e.split for e in found.episodes] == ["train", "train", "valid"]
    with h5py.File(path) as handle:
        for episode in found.episodes:
            demo, names = handle["data"][episode.name], list[str]()
            demo.visititems(
                lambda n, item, out=names: out.append(n) if isinstance(item, h5py.Dataset) else None
            )
            assert sorted(found.values[episode.name]) == sorted(names)
            for where, values in found.values[episode.name].items():
                np.testing.assert_array_equal(values, demo[where][()], err_msg=where)
                assert values.dtype == demo[where].dtype
            assert episode.attributes["model_file"].startswith("<mujoco")
    assert found.values["demo_0"]["actions"].dtype == np.float64
    assert found.finding("success-unknown").got == "3 of 3 demos without it"
    assert found.finding("alignment").got.endswith("rows agree with before_action")  # type: ignore[union-attr]  # it has one


def test_logs_whose_length_is_not_t_go_to_extras_as_whole_groups(tmp_path: Path) -> None:
    tree = {
        "actions": random(6, 14),
        "states": random(6, 50),
        "user_acting": np.ones((6, 2), bool),
        "controller_info/counters": np.arange(11),
        "controller_info/robot_controls/action": random(6, 14),
        "user_info/0/dpos": random(13, 3),
        "late": random(9, 2),
    }
    found = read(write(tmp_path / "x.hdf5", {"demo_0": Demo(tree)}, data={"env_args": ROBOSUITE_ENV}))
    assert list(found.values["demo_0"]) == ["actions", "states", "user_acting"]
    assert list(found.extras["demo_0"]) == [
        "controller_info/counters",
        "controller_info/robot_controls/action",
        "late",
        "user_info/0/dpos",
    ]
    for where, values in found.extras["demo_0"].items():
        np.testing.assert_array_equal(values, tree[where])
    assert found.finding("no-obs").severity is Severity.INFO
    assert found.rejections == []


def test_integer_success_counts_and_rewards_are_no_evidence(tmp_path: Path) -> None:
    demos = {
        "demo_0": Demo(
            {"actions": random(3, 7), "obs/x": random(3, 2), "rewards": np.ones(3)}, {"success": 1}
        ),
        "demo_1": Demo({"actions": random(3, 7), "obs/x": random(3, 2), "dones": np.ones(3)}),
    }
    found = read(write(tmp_path / "x.hdf5", demos, data={"env_args": ROBOSUITE_ENV}))
    assert [e.success for e in found.episodes] == [True, None]


def test_joint_positions_are_found_in_the_flat_state(tmp_path: Path) -> None:
    state = random(7, 20, dtype="f8")
    for first, alignment, agree in ((0, None, "5 of 5"), (1, Alignment.AFTER_ACTION, "5 of 5")):
        tree = {
            "actions": random(6, 7),
            "states": state[:6],
            "obs/robot0_joint_pos": state[first : first + 6, 1:8],
        }
        path = write(tmp_path / f"{first}.hdf5", {"demo_0": Demo(tree)}, data={"env_args": ROBOSUITE_ENV})
        found = read(path, conventions=Conventions(alignment=alignment))
        assert str(found.finding("alignment").got).startswith(agree)


def test_what_cannot_be_compared_says_nothing(tmp_path: Path) -> None:
    tree = {
        "actions": random(6, 7),
        "states": random(6, 20, dtype="f8"),
        "obs/robot0_joint_pos": random(6, 7, dtype="f4"),
    }
    found = read(write(tmp_path / "x.hdf5", {"demo_0": Demo(tree)}, data={"env_args": ROBOSUITE_ENV}))
    assert "alignment" not in found.codes()
    assert found.episodes[0].alignment == "before_action"
