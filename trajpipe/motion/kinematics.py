"""Forward kinematics of a skeleton, batched over frames: one pass along the tree, float64.

What is not here: MuJoCo; it is the independent check, see `trajpipe.checks.store_lafan`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trajpipe.core.errors import SchemaError
from trajpipe.motion.rotations import multiply, normalised, rotate
from trajpipe.motion.skeleton import Skeleton


def forward(
    skeleton: Skeleton,
    root_pos: NDArray[np.float64],
    root_quat: NDArray[np.float64],
    joint_pos: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """World poses of all bodies.

    Args:
        skeleton: B bodies.
        root_pos: (n, 3) metres.
        root_quat: (n, 4) scalar last; normalised here, as MuJoCo does.
        joint_pos: (n, B - 1) radians, in the skeleton's order.

    Returns:
        Positions (n, B, 3) and unit quaternions (n, B, 4), scalar last.

    Raises:
        SchemaError: another number of joints.
    """
    if joint_pos.ndim != 2 or joint_pos.shape[1] != len(skeleton.joints):
        raise SchemaError(
            "joint angles are one column per joint of the model",
            place=skeleton.name,
            got=joint_pos.shape,
            expected=f"(n, {len(skeleton.joints)})",
        )
    count, total = len(joint_pos), len(skeleton.bodies)
    # Bodies first: each body's rows then lie together, which the loop below walks through.
    positions, quaternions = np.empty((total, count, 3)), np.empty((total, count, 4))
    positions[0], quaternions[0] = root_pos, normalised(np.asarray(root_quat, np.float64))
    local = _local(skeleton, joint_pos)
    for body, parent in enumerate(skeleton.parents[1:], 1):
        positions[body] = positions[parent] + rotate(quaternions[parent], skeleton.offsets[body])
        quaternions[body] = multiply(quaternions[parent], local[body - 1])
    return positions.transpose(1, 0, 2), normalised(quaternions).transpose(1, 0, 2)


def _local(skeleton: Skeleton, joint_pos: NDArray[np.float64]) -> NDArray[np.float64]:
    """(B - 1, n, 4): each body's turn in its parent's frame."""
    half = np.ascontiguousarray(joint_pos.T) / 2
    turn = np.empty((*half.shape, 4))
    turn[..., :3] = np.sin(half)[..., None] * skeleton.axes[:, None, :]
    turn[..., 3] = np.cos(half)
    return multiply(skeleton.rotations[1:, None, :], turn)
