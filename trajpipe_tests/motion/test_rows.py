"""Whole clips against the slow reference, within the contract's tolerances; the exact parts of the pipeline.

What is not here: single steps, see the tests beside this one.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from trajpipe.core.errors import InputError
from trajpipe.core.pickles import read_pickle
from trajpipe.motion.g1 import HEAD_HEIGHT, JOINTS, TORSO, default_joint_pos, g1
from trajpipe.motion.resample import resampling
from trajpipe.motion.rows import Clip, VirtualBody, motion_rows
from trajpipe.testing.lafan import MotionClip, Style, motion_clip
from trajpipe_tests.motion.slow_reference import rows_of

HEAD = VirtualBody(TORSO, HEAD_HEIGHT)
WIDTHS = {
    "qpos": 36, "qvel": 35, "state": 64, "privileged": 463,
    "body_pos": 93, "body_vel": 93, "body_ang_vel": 93, "body_quat": 124,
}  # fmt: skip


def _clip(made: MotionClip, name: str = "clip") -> Clip:
    return Clip(name, float(made.fps), made.root_pos, made.root_quat, made.joint_pos)


def _rows(clip: Clip) -> dict[str, NDArray[np.float32]]:
    return motion_rows(clip, g1(), default_joint_pos(), HEAD)


def _require_agreement(clip: Clip, model: Any) -> None:
    """The contract's tolerances."""
    found = _rows(clip)
    expected = rows_of(model, clip.root_pos, clip.root_quat, clip.joint_pos, clip.fps)
    assert {name: rows.shape[1] for name, rows in found.items()} == WIDTHS
    for name, rows in found.items():
        assert rows.dtype == np.float32
        assert rows.shape == expected[name].shape, name
    off = {name: np.abs(rows - expected[name]) for name, rows in found.items()}
    assert off["body_pos"].max() <= 1e-5
    assert off["body_vel"].max() <= 1e-4
    assert np.mean(off["body_quat"] > 6e-4) <= 0.03
    assert off["body_quat"].max() <= 2e-3
    assert np.mean(off["body_ang_vel"] > 2e-2) <= 0.25
    joints = expected["qpos"][:, 7:].astype(np.float32)
    assert np.abs(found["qpos"][:, 7:] - joints).max() <= np.spacing(np.abs(joints).max())
    assert off["qpos"][:, :3].max() <= 1e-5
    assert off["qvel"][:, :3].max() <= 1e-4
    assert off["qvel"][:, 6:].max() <= 1e-4
    assert off["state"][:, :58].max() <= 1e-4
    assert off["state"][:, 58:61].max() <= 2e-3
    assert off["privileged"][:, :91].max() <= 2e-3
    assert off["privileged"][:, 277:370].max() <= 5e-3


@pytest.mark.parametrize(
    ("style", "frames", "fps"),
    [("walk", 40, 30), ("fast", 40, 30), ("lie", 40, 30), ("walk", 50, 60), ("fast", 4, 24), ("walk", 3, 50)],
)
def test_a_clip_agrees_with_the_slow_reference(style: Style, frames: int, fps: int, g1_model: Any) -> None:
    _require_agreement(_clip(motion_clip(style, frames, fps=fps, seed=3)), g1_model)


def test_lying_still_takes_the_midpoint_branch() -> None:
    """The clip that the issue asks for: neighbouring frames closer than a blend can tell."""
    clip = _clip(motion_clip("lie", 40))
    rows = _rows(clip)["body_quat"].reshape(-1, 31, 4).astype(np.float64)
    at = resampling(40, 30.0, 0.02)
    between = np.abs(at.blend - np.rint(at.blend)) > 0.1
    same_frames = np.flatnonzero(between[:-1] & between[1:] & (at.first[:-1] == at.first[1:]))
    assert len(same_frames) > 5
    # Whatever the blend, rows between the same two frames are their midpoint, one and the same.
    np.testing.assert_array_equal(rows[same_frames], rows[same_frames + 1])


def test_real_clips_agree_with_the_slow_reference(shared_data: Path, g1_model: Any) -> None:
    values = np.loadtxt(shared_data / "lafan_g1/dance1_subject2.csv", delimiter=",")
    for part in (values[:40], values[1905:1945]):
        _require_agreement(Clip("dance", 30.0, part[:, :3], part[:, 3:7], part[:, 7:]), g1_model)
    (walk,) = read_pickle(next(iter(sorted(shared_data.glob("lafan_g1/*walk*.pkl"))))).values()
    joints = np.zeros((40, 29))
    joints[:, [i for i, j in enumerate(JOINTS) if "wrist" not in j]] = walk["dof"][:40]
    clip = Clip("walk", 30.0, walk["root_trans_offset"][:40].astype(float), walk["root_rot"][:40], joints)
    _require_agreement(clip, g1_model)


def test_the_real_clip_has_as_many_rows_as_the_reference(shared_data: Path) -> None:
    values = np.loadtxt(shared_data / "lafan_g1/dance1_subject2.csv", delimiter=",")
    rows = _rows(Clip("dance", 30.0, values[:, :3], values[:, 3:7], values[:, 7:]))
    assert len(rows["qpos"]) == math.ceil(float(np.float32(3944 / 30)) / 0.02) == 6574


@pytest.mark.parametrize("frames", [0, 1, 2])
def test_a_clip_of_fewer_than_three_frames_is_refused(frames: int) -> None:
    made = motion_clip("walk", max(frames, 1))
    clip = Clip("x", 30.0, made.root_pos[:frames], made.root_quat[:frames], made.joint_pos[:frames])
    with pytest.raises(InputError, match="3 frames"):
        _rows(clip)


def test_columns_repeat_each_other_where_the_contract_says_so() -> None:
    found = _rows(_clip(motion_clip("walk", 30)))
    position, quat = found["body_pos"], found["body_quat"]
    np.testing.assert_array_equal(found["qpos"][:, :3], position[:, :3])
    np.testing.assert_array_equal(found["qpos"][:, 3:7], quat[:, [3, 0, 1, 2]])
    np.testing.assert_array_equal(found["qvel"][:, :3], found["body_vel"][:, :3])
    np.testing.assert_array_equal(found["qvel"][:, 3:6], found["body_ang_vel"][:, :3])
    np.testing.assert_array_equal(found["state"][:, 29:58], found["qvel"][:, 6:])
    np.testing.assert_array_equal(found["state"][:, 61:], found["qvel"][:, 3:6])
    np.testing.assert_allclose(found["state"][:, :29], found["qpos"][:, 7:] - default_joint_pos(), atol=1e-7)
    torso = g1().body(TORSO)
    np.testing.assert_array_equal(quat[:, 4 * torso : 4 * torso + 4], quat[:, 120:])
    apart = np.linalg.norm(position[:, 90:] - position[:, 3 * torso : 3 * torso + 3], axis=1)
    # Every fifth row is a frame; between frames the head moves along a chord.
    np.testing.assert_allclose(apart[::5], HEAD_HEIGHT, atol=1e-6)


def test_the_same_clip_gives_the_same_bytes() -> None:
    first, second = (_rows(_clip(motion_clip("walk", 30, seed=9))) for _ in range(2))
    assert {n: r.tobytes() for n, r in first.items()} == {n: r.tobytes() for n, r in second.items()}


def test_default_joint_angles_are_the_contracts() -> None:
    by_name = dict(zip(JOINTS, default_joint_pos().tolist(), strict=True))
    for side in ("left", "right"):
        assert by_name.pop(f"{side}_hip_pitch_joint") == pytest.approx(-0.1)
        assert by_name.pop(f"{side}_knee_joint") == pytest.approx(0.3)
        assert by_name.pop(f"{side}_ankle_pitch_joint") == pytest.approx(-0.2)
    assert set(by_name.values()) == {0.0}
    assert default_joint_pos(["left_knee_joint", "waist_yaw_joint"]).tolist() == pytest.approx([0.3, 0.0])
