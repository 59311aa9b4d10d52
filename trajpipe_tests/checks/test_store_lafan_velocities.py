"""Velocities of a motion store are as exact as float32 frames let them be, wherever the robot walks.

What is not here: the other rules, and damage of other columns (`test_store_lafan.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

from trajpipe.testing.lafan import MotionClip, motion_clip
from trajpipe_tests.checks.motion_files import MotionFiles, made_of

CODE = "lafan-velocities"
FAR = np.array([105.0, -40.0, 0.0])
# First rows of the clips, of ceil(23/30/0.02), ceil(39/120/0.02), ceil(39/1000/0.02) rows and the rest.
STARTS = (0, 39, 56, 58)
BODIES = 31


def moved(clip: MotionClip, by: np.ndarray) -> MotionClip:
    """The clip somewhere else."""
    return replace(clip, root_pos=clip.root_pos + by)


def turning_about(clip: MotionClip, angle: float) -> MotionClip:
    """The clip with a root that turns about z by an angle from each frame to the next."""
    half = np.arange(len(clip.root_quat))[:, None] * angle / 2
    quaternions = np.concatenate([0 * half, 0 * half, np.sin(half), np.cos(half)], axis=1)
    return replace(clip, root_quat=quaternions)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> MotionFiles:
    """Clips far away, at high rates, and half a turn a frame."""
    clips = {
        "a_far": moved(motion_clip("walk", 24), FAR),
        "b_often": moved(motion_clip("walk", 40, fps=120), FAR / 5),
        "c_dense": motion_clip("walk", 40, fps=1000),
        "d_half": turning_about(motion_clip("walk", 20), np.pi),
    }
    return made_of(tmp_path_factory.mktemp("far"), clips)


def test_clips_far_away_and_at_any_rate_pass(files: MotionFiles) -> None:
    result = files.result(CODE, files.store)
    assert result.passed, [str(f) for f in result.findings]
    assert 0.2 < result.measures["worst_of_allowed"] <= 1
    assert result.counted is not None
    assert (result.counted.checked, result.counted.total) == (90, 90)


@pytest.mark.parametrize("distance", [0.0, 3.0, 40.0, 500.0, 20_000.0])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_bound_grows_with_the_distance_alone(tmp_path: Path, distance: float, seed: int) -> None:
    clips = {f"{s}": moved(motion_clip("walk", 40, seed=seed), FAR / 105 * distance) for s in range(2)}
    files = made_of(tmp_path, clips)
    result = files.result(CODE, files.store)
    assert result.passed, [str(f) for f in result.findings]

    def change(file: h5py.File) -> None:
        rows = file["body_vel"][()]
        # Twice a unit in the last place of the position, as a rate: no rounding explains it.
        rows[30, 24] += 60 * np.spacing(np.float32(distance + 1)) + 1e-5
        file["body_vel"][()] = rows

    found = files.result(CODE, files.damaged(tmp_path / "..", change))
    assert [(f.place.column, f.place.row) for f in found.findings] == [("body_vel", 30)]


def _of_body(
    column: str, body: int, change: Callable[[np.ndarray], np.ndarray], clip: int = 0
) -> Callable[[h5py.File], None]:
    """Damage of one body's rows in one clip."""

    def damage(file: h5py.File) -> None:
        stop = [*STARTS[1:], file[column].shape[0]][clip]
        rows = file[column][()]
        part = rows.reshape(len(rows), BODIES, 3)[STARTS[clip] : stop, body]
        part[:] = change(part.copy())
        file[column][()] = rows
        if body == 0:
            qvel = file["qvel"][()]
            qvel[:, slice(0, 3) if column == "body_vel" else slice(3, 6)] = rows[:, :3]
            file["qvel"][()] = qvel

    return damage


def _unfiltered_end(rows: np.ndarray) -> np.ndarray:
    """What a filter with zeros beyond the ends would leave of the last row."""
    rows[-1] *= 0.6
    return rows


DAMAGE = {
    "one body a row late": _of_body("body_vel", 7, lambda rows: np.roll(rows, 1, axis=0)),
    "a body's axes exchanged": _of_body("body_vel", 7, lambda rows: rows[:, [1, 0, 2]]),
    "zeros beyond the ends": _of_body("body_vel", 7, _unfiltered_end),
    "frames of another rate": _of_body("body_vel", 12, lambda rows: rows * 25 / 30),
    "one body spins double": _of_body("body_ang_vel", 9, lambda rows: rows * 2),
    "one body spins backwards": _of_body("body_ang_vel", 9, lambda rows: -rows),
    "one body spins a row late": _of_body("body_ang_vel", 0, lambda rows: np.roll(rows, 1, axis=0)),
    "spins in its own frame": _of_body("body_ang_vel", 9, lambda rows: rows[:, [1, 2, 0]]),
    "the last turn is not zero": _of_body(
        "body_ang_vel", 9, lambda rows: np.concatenate([rows[:-1], rows[-2:-1] * 1.05])
    ),
    "often sampled, off by little": _of_body("body_vel", 3, lambda rows: rows + 1e-3, 1),
    "densely sampled, off by little": _of_body("body_ang_vel", 3, lambda rows: rows + 2e-3, 2),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=list(DAMAGE))
def test_damage_of_one_body_is_found(
    files: MotionFiles, tmp_path: Path, damage: Callable[[h5py.File], None]
) -> None:
    result = files.result(CODE, files.damaged(tmp_path, damage))
    assert not result.passed
    (finding,) = result.findings
    assert finding.place.column in ("body_vel", "body_ang_vel")
    assert finding.place.row is not None
    assert "±" in str(finding.expected)


def test_joint_velocities_are_held_to_their_rounding(files: MotionFiles, tmp_path: Path) -> None:
    def change(file: h5py.File) -> None:
        row = file["qvel"][20]
        row[6 + 11] += 3e-5
        file["qvel"][20] = row

    (finding,) = files.result(CODE, files.damaged(tmp_path, change)).findings
    assert (finding.place.column, finding.place.row) == ("qvel", 20)


@pytest.mark.parametrize(("body", "passes"), [(0, True), (3, False)])
def test_half_a_turn_goes_either_way(files: MotionFiles, tmp_path: Path, body: int, passes: bool) -> None:
    """The root turns half round from frame to frame, left or right; a thigh that yaws as well does not."""
    negated = _of_body("body_ang_vel", body, lambda rows: -rows, 3)
    assert files.result(CODE, files.damaged(tmp_path, negated)).passed is passes
