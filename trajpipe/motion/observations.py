"""The observations of a motion store: `state` (64 wide) and `privileged` (463 wide).

What is not here: where poses and velocities come from.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.motion.rotations import conjugate, rotate

Array = NDArray[np.float64]
STATE_WIDTH: Final = 64
PRIVILEGED_WIDTH: Final = 463
_X: Final = np.array([1.0, 0.0, 0.0])
_Z: Final = np.array([0.0, 0.0, 1.0])


def state_rows(
    joint_pos: Array, joint_vel: Array, default: Array, root_quat: Array, root_ang_vel: Array
) -> Array:
    """What the robot can measure.

    Args:
        joint_pos: (n, J) radians.
        joint_vel: (n, J) rad/s.
        default: (J,) radians.
        root_quat: (n, 4) scalar last.
        root_ang_vel: (n, 3) world, rad/s.

    Returns:
        (n, 2 J + 6): joint - default, joint velocity, gravity in the root's frame, angular velocity.
    """
    gravity = rotate(conjugate(root_quat), -_Z)
    return np.concatenate([joint_pos - default, joint_vel, gravity, root_ang_vel], axis=1)


def heading(root_quat: Array) -> Array:
    """(n,) angle of the turned x axis about the world's z, radians."""
    x_axis = rotate(root_quat, _X)
    out: Array = np.arctan2(x_axis[..., 1], x_axis[..., 0])
    return out


def privileged_rows(body_pos: Array, body_quat: Array, body_vel: Array, body_ang_vel: Array) -> Array:
    """All bodies in the frame that stands at the root and looks along its heading.

    Args:
        body_pos: (n, B, 3) world; body 0 is the root.
        body_quat: (n, B, 4) world, scalar last.
        body_vel: (n, B, 3) world.
        body_ang_vel: (n, B, 3) world.

    Returns:
        (n, 1 + 3 (B - 1) + 12 B): root height; positions but the root's; tangent (turned x axis) and normal
        (turned z axis) of each body; velocities; angular velocities.
    """
    count = len(body_pos)
    angle = heading(body_quat[:, 0])[:, None]
    turn = np.cos(angle), np.sin(angle)
    axes = np.stack([rotate(body_quat, _X), rotate(body_quat, _Z)], axis=2)
    parts = (
        body_pos[:, 0, 2:3],
        _turned_back(body_pos[:, 1:] - body_pos[:, :1], *turn),
        _turned_back(axes.reshape(count, -1, 3), *turn),
        _turned_back(body_vel, *turn),
        _turned_back(body_ang_vel, *turn),
    )
    return np.concatenate([p.reshape(count, -1) for p in parts], axis=1)


def _turned_back(vectors: Array, cosine: Array, sine: Array) -> Array:
    """Vectors (n, K, 3) turned about z by minus the angle."""
    out = np.empty_like(vectors)
    x, y = vectors[..., 0], vectors[..., 1]
    out[..., 0] = cosine * x + sine * y
    out[..., 1] = cosine * y - sine * x
    out[..., 2] = vectors[..., 2]
    return out
