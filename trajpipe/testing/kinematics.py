"""Kinematics of the Panda arm: forward, and inverse for a whole path at once; poses as xyzw quaternions.

The link offsets are those of Franka's published kinematic parameters, so joint angles and end-effector
poses of generated recordings agree with each other as they do in real ones.
What is not here: what the arm does, see `trajpipe.testing.motion`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core.quaternions import conjugate_xyzw, multiply_xyzw, rotate_xyzw

Array = NDArray[Any]

HOME: Final = (0.0, -0.57, 0.0, -2.45, 0.0, 1.9, 0.785)
FLANGE: Final = 0.107
GRIP: Final = 0.1034
FINGER_OPEN: Final = 0.04
LINKS: Final = (
    ((0.0, 0.0, 0.333), 0.0),
    ((0.0, 0.0, 0.0), -np.pi / 2),
    ((0.0, -0.316, 0.0), np.pi / 2),
    ((0.0825, 0.0, 0.0), np.pi / 2),
    ((-0.0825, 0.384, 0.0), -np.pi / 2),
    ((0.0, 0.0, 0.0), np.pi / 2),
    ((0.088, 0.0, 0.0), np.pi / 2),
)
"""Per joint, which turns about z: offset (m) from the parent link and rotation (rad) about the x axis."""

_DAMPING: Final = 0.02
_ITERATIONS: Final = 24
_POSTURE_GAIN: Final = 0.02


def about(axis: tuple[float, float, float], angle: Array | float) -> Array:
    """Rotation by `angle` (…,) rad about a unit axis, as (…, 4) xyzw quaternions."""
    half = np.asarray(angle, dtype=np.float64) / 2.0
    vector = np.sin(half)[..., None] * np.asarray(axis)
    return np.concatenate((vector, np.cos(half)[..., None]), axis=-1)


def rotation_vector(q: Array) -> Array:
    """Axis times angle (…, 3) rad, at most pi long, of (…, 4) xyzw unit quaternions."""
    q = np.where(q[..., 3:] < 0, -q, q)
    sine = np.linalg.norm(q[..., :3], axis=-1, keepdims=True)
    angle = 2.0 * np.arctan2(sine, q[..., 3:])
    return np.asarray(np.where(sine > 1e-9, q[..., :3] / np.maximum(sine, 1e-12) * angle, 2.0 * q[..., :3]))


def matrix(q: Array) -> Array:
    """(…, 3, 3) rotation matrices of (…, 4) xyzw unit quaternions."""
    return np.stack([rotate_xyzw(q, np.broadcast_to(e, (*q.shape[:-1], 3))) for e in np.eye(3)], axis=-1)


def forward(joints: Array) -> tuple[Array, Array]:
    """Pose of the grip point.

    Args:
        joints: (S, 7) rad.

    Returns:
        (S, 3) m in the robot's base frame and (S, 4) xyzw.
    """
    position, orientation, _, _ = _chain(joints)
    return position, orientation


def _chain(joints: Array) -> tuple[Array, Array, Array, Array]:
    steps = joints.shape[0]
    position = np.zeros((steps, 3))
    orientation = np.tile([0.0, 0.0, 0.0, 1.0], (steps, 1))
    origins, axes = [], []
    for index, (offset, twist) in enumerate(LINKS):
        position = position + rotate_xyzw(orientation, np.broadcast_to(offset, (steps, 3)))
        orientation = multiply_xyzw(orientation, np.broadcast_to(about((1, 0, 0), twist), (steps, 4)))
        origins.append(position)
        axes.append(rotate_xyzw(orientation, np.broadcast_to((0.0, 0.0, 1.0), (steps, 3))))
        orientation = multiply_xyzw(orientation, about((0, 0, 1), joints[:, index]))
    orientation = multiply_xyzw(orientation, np.broadcast_to(about((0, 0, 1), -np.pi / 4), (steps, 4)))
    position = position + rotate_xyzw(orientation, np.broadcast_to((0.0, 0.0, FLANGE + GRIP), (steps, 3)))
    return position, orientation, np.stack(origins, axis=1), np.stack(axes, axis=1)


def inverse(position: Array, orientation: Array) -> Array:
    """Joint angles that reach a path of poses, all rows at once by damped least squares from `HOME`.

    The map is smooth, so a smooth path gives smooth joints.

    Args:
        position: (S, 3) m, in front of the robot.
        orientation: (S, 4) xyzw.

    Returns:
        (S, 7) rad.
    """
    joints = np.tile(np.asarray(HOME), (position.shape[0], 1))
    joints[:, 0] = np.arctan2(position[:, 1], position[:, 0])
    rest = joints.copy()
    damping = _DAMPING**2 * np.eye(6)
    for _ in range(_ITERATIONS):
        reached, turned, origins, axes = _chain(joints)
        error = np.concatenate(
            (position - reached, rotation_vector(multiply_xyzw(orientation, conjugate_xyzw(turned)))), axis=1
        )
        jacobian = np.concatenate((np.cross(axes, reached[:, None] - origins), axes), axis=2).swapaxes(1, 2)
        posture = _POSTURE_GAIN * (rest - joints)
        error = error - np.einsum("sij,sj->si", jacobian, posture)
        weights = np.linalg.solve(jacobian @ jacobian.swapaxes(1, 2) + damping, error[..., None])
        joints = joints + posture + (jacobian.swapaxes(1, 2) @ weights)[..., 0]
    return joints
