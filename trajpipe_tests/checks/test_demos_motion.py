"""Rules of motions in L2: each passes on good files, finds its own damage, and leaves other files alone.

What is not here: the motion store, see `test_store_lafan.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from trajpipe.checks.demos_motion import _EXCHANGED, STEP_RAD
from trajpipe.core import jsontext
from trajpipe.core.findings import Severity
from trajpipe.core.names import Stage
from trajpipe.motion.g1 import JOINTS, g1
from trajpipe.pipeline.convert import ConvertOptions, convert
from trajpipe.testing.recording import write_recording
from trajpipe_tests.checks.motion_files import MotionFiles, made_in

RULES = ("demos-motion-actions", "demos-motion-joints", "demos-motion-limits", "demos-motion-steps")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> MotionFiles:
    """A good L2 file of motions."""
    return made_in(tmp_path_factory.mktemp("motions"))


@pytest.mark.parametrize("code", RULES)
def test_good_motions_pass(files: MotionFiles, code: str) -> None:
    result = files.result(code, files.l2, Stage.DEMOS)
    assert [str(f) for f in result.findings] == []
    assert result.counted is not None
    assert result.counted.checked == result.counted.total > 0


@pytest.mark.parametrize("code", RULES)
def test_other_files_are_left_alone(files: MotionFiles, tmp_path: Path, code: str) -> None:
    raw = tmp_path / "lift.hdf5"
    write_recording("isaaclab", raw, episodes=1, rows=(4, 4), image_size=16)
    (made,) = convert([raw], tmp_path / "l2.hdf5", "demos", ConvertOptions())
    broken = tmp_path / "broken.hdf5"
    broken.write_bytes(b"\x89HDF\r\n\x1a\nnothing")
    for path in (made.path, broken):
        result = files.result(code, path, Stage.DEMOS)
        assert len(result.findings) == 0
        assert result.counted is None


def _joint(row: int, joint: str, value: float) -> Callable[[h5py.File], None]:
    """Set an angle of the first clip, and the action that aims at it."""

    def change(file: h5py.File) -> None:
        demo, index = file["data/demo_0"], JOINTS.index(joint)
        angles = demo["obs/joint_pos"][row]
        angles[index] = value
        demo["obs/joint_pos"][row] = angles

    return change


def test_actions_that_are_not_the_next_angles_are_found(files: MotionFiles, tmp_path: Path) -> None:
    path = files.damaged(tmp_path, _joint(5, "waist_yaw_joint", 0.05), of="l2")
    (finding,) = files.result("demos-motion-actions", path, Stage.DEMOS).findings
    assert (finding.severity, finding.place.demo, finding.place.row) == (Severity.ERROR, "demo_0", 4)
    assert "1 actions" in finding.message

    def narrower(file: h5py.File) -> None:
        rows = file["data/demo_1/actions"][:, :28]
        del file["data/demo_1/actions"]
        file["data/demo_1/actions"] = rows

    path = files.damaged(tmp_path, narrower, of="l2")
    (finding,) = files.result("demos-motion-actions", path, Stage.DEMOS).findings
    assert (finding.place.demo, finding.got) == ("demo_1", "(20, 28)")


def test_the_last_action_repeats(files: MotionFiles, tmp_path: Path) -> None:
    def change(file: h5py.File) -> None:
        file["data/demo_0/actions"][-1] = file["data/demo_0/actions"][0]

    (finding,) = files.result(
        "demos-motion-actions", files.damaged(tmp_path, change, of="l2"), Stage.DEMOS
    ).findings
    assert finding.place.row == 23


def test_joints_in_another_order_are_found_by_name(files: MotionFiles, tmp_path: Path) -> None:
    def change(file: h5py.File) -> None:
        args = jsontext.loads(file["data"].attrs["env_args"])
        names = args["env_kwargs"]["joint_names"]
        names[0], names[6] = names[6], names[0]
        file["data"].attrs["env_args"] = jsontext.dumps(args)

    result = files.result("demos-motion-joints", files.damaged(tmp_path, change, of="l2"), Stage.DEMOS)
    assert result.findings.count(Severity.ERROR) == 3
    finding = next(iter(result.findings))
    assert finding.got is not None
    assert "right_hip_pitch_joint for left_hip_pitch_joint" in finding.got


def test_left_and_right_exchanged_are_found_by_the_limits(files: MotionFiles, tmp_path: Path) -> None:
    """Angles that lie well inside their own limits lie far outside the other side's."""
    low, high = g1().ranges.T
    other_low, other_high = low[_EXCHANGED], high[_EXCHANGED]
    towards = np.where(high > other_high + 0.5, high - 0.1, np.where(low < other_low - 0.5, low + 0.1, 0))
    inside = np.clip(towards, low, high)

    def change(file: h5py.File, exchanged: bool) -> None:
        for demo in file["data"].values():
            rows = demo["obs/joint_pos"]
            rows[()] = np.tile(inside[_EXCHANGED] if exchanged else inside, (len(rows), 1))

    good = files.damaged(tmp_path, lambda file: change(file, False), of="l2")
    assert len(files.result("demos-motion-joints", good, Stage.DEMOS).findings) == 0
    bad = files.damaged(tmp_path, lambda file: change(file, True), of="l2")
    result = files.result("demos-motion-joints", bad, Stage.DEMOS)
    assert result.findings.count(Severity.ERROR) == 3
    assert "look exchanged" in next(iter(result.findings)).message


def test_limits_and_steps_are_counted_and_the_worst_named(files: MotionFiles, tmp_path: Path) -> None:
    path = files.damaged(tmp_path, _joint(5, "left_knee_joint", 3.0), of="l2")
    result = files.result("demos-motion-limits", path, Stage.DEMOS)
    (finding,) = result.findings
    assert (finding.severity, finding.place.row) == (Severity.WARN, 5)
    assert finding.message.startswith("1 of 696 joint angles")
    assert finding.got == "left_knee_joint 3.0000"
    assert result.measures["joint_values_outside"] == 1
    assert result.measures["worst_rad_outside"] == pytest.approx(3.0 - 2.8798)
    result = files.result("demos-motion-steps", path, Stage.DEMOS)
    (finding,) = result.findings
    assert finding.severity is Severity.WARN
    assert finding.message.startswith("2 of 667 joint steps")
    assert finding.place.row in (5, 6)
    assert result.measures["joint_steps_above"] == 2
    assert result.measures["largest_step_rad"] > STEP_RAD
