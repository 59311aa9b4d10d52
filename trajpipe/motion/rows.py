"""A clip's rows in the motion store: frames → kinematics → velocities → 50 Hz → observations.

What is not here: reading the clip, and writing the store.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core.errors import InputError
from trajpipe.motion import velocities
from trajpipe.motion.kinematics import forward
from trajpipe.motion.observations import privileged_rows, state_rows
from trajpipe.motion.resample import Resampling, resampling
from trajpipe.motion.rotations import normalised, rotate, signed_by_largest
from trajpipe.motion.skeleton import Skeleton

RATE: Final = 50
STEP: Final = 1 / RATE
MIN_FRAMES: Final = 3
_F4: Final = np.dtype(np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class Clip:
    """A motion at its own rate.

    Attributes:
        name: Clip name.
        fps: Frames per second.
        root_pos: (n, 3) float64, metres, world.
        root_quat: (n, 4) float64, scalar last.
        joint_pos: (n, J) float64, radians, in the skeleton's order.
    """

    name: str
    fps: float
    root_pos: NDArray[np.float64]
    root_quat: NDArray[np.float64]
    joint_pos: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.joint_pos)


@dataclass(frozen=True, slots=True)
class VirtualBody:
    """A body without a joint, added after the skeleton's.

    Attributes:
        parent: The body it is fixed to.
        height: Metres above it along its z axis.
    """

    parent: str
    height: float


def motion_rows(
    clip: Clip, skeleton: Skeleton, default: NDArray[np.float32], head: VirtualBody, *, step: float = STEP
) -> dict[str, NDArray[np.float32]]:
    """The float columns of one clip.

    Args:
        clip: n ≥ 3 frames.
        skeleton: B bodies, J = B - 1 joints.
        default: (J,) default joint angles.
        head: The virtual body that becomes body B.
        step: Seconds between rows.

    Returns:
        Column → float32 rows: `qpos` (7 + J), `qvel` (6 + J), `state`, `privileged`, `body_pos`, `body_quat`
        (scalar last), `body_vel`, `body_ang_vel`.

    Raises:
        InputError: fewer than 3 frames (`too-short`), or no row at this rate.
    """
    if len(clip) < MIN_FRAMES:
        raise InputError(
            "a clip has 3 frames at least", place=clip.name, got=f"{len(clip)} frames", code="too-short"
        )
    positions, quaternions = _frames(clip, skeleton, head)
    at = resampling(len(clip), clip.fps, step)
    joint_pos = _single(clip.joint_pos)
    columns = {
        "body_pos": at.linear(positions),
        "body_quat": at.rotations(normalised(quaternions)),
        "body_vel": at.linear(_single(velocities.linear(positions, clip.fps))),
        "body_ang_vel": at.linear(_single(velocities.angular(quaternions, clip.fps))),
        "joint_pos": at.linear(joint_pos),
        "joint_vel": at.linear(_single(velocities.joints(joint_pos, clip.fps))),
    }
    return _columns({name: _single(rows) for name, rows in columns.items()}, default, at)


def _frames(
    clip: Clip, skeleton: Skeleton, head: VirtualBody
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Poses of all bodies and the virtual one at the clip's rate, through float32."""
    positions, quaternions = forward(skeleton, clip.root_pos, clip.root_quat, clip.joint_pos)
    parent = skeleton.body(head.parent)
    up = rotate(quaternions[:, parent], np.array([0.0, 0.0, head.height]))
    positions = np.concatenate([positions, (positions[:, parent] + up)[:, None]], axis=1)
    quaternions = np.concatenate([quaternions, quaternions[:, parent : parent + 1]], axis=1)
    return _single(positions), _single(signed_by_largest(quaternions))


def _columns(
    rows: dict[str, NDArray[np.float64]], default: NDArray[np.float32], at: Resampling
) -> dict[str, NDArray[np.float32]]:
    """The store's columns from 50 Hz rows."""
    count = len(at)
    position, quaternion = rows["body_pos"], rows["body_quat"]
    root_quat, turning = quaternion[:, 0], rows["body_ang_vel"][:, 0]
    joint_pos, joint_vel = rows["joint_pos"], rows["joint_vel"]
    poses = position, quaternion, rows["body_vel"], rows["body_ang_vel"]
    out = {
        "qpos": np.concatenate([position[:, 0], root_quat[:, [3, 0, 1, 2]], joint_pos], axis=1),
        "qvel": np.concatenate([rows["body_vel"][:, 0], turning, joint_vel], axis=1),
        "state": state_rows(joint_pos, joint_vel, default.astype(np.float64), root_quat, turning),
        "privileged": privileged_rows(*poses),
        "body_pos": position.reshape(count, -1),
        "body_vel": rows["body_vel"].reshape(count, -1),
        "body_ang_vel": rows["body_ang_vel"].reshape(count, -1),
        "body_quat": quaternion.reshape(count, -1),
    }
    return {name: values.astype(_F4) for name, values in out.items()}


def _single(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The values rounded to float32, in float64 for what follows."""
    return values.astype(_F4).astype(np.float64)
