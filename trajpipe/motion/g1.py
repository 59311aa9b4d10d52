"""The kinematics of the Unitree G1 with 29 joints as a fact table, and what its motion store fixes.

Facts read off `g1_29dof.xml` of unitreerobotics/unitree_rl_gym (robots/g1_description), BSD-3-Clause,
copyright (c) 2016-2024 HangZhou YuShu TECHNOLOGY CO., LTD. "Unitree Robotics": body offsets in metres, body
rotations scalar first as written there, joint axes, ranges in radians.
What is not here: another model's kinematics, see `skeleton_mjcf.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.motion.skeleton import BodyFacts, Skeleton, Triple, skeleton

ROBOT: Final = "unitree_g1"
ROOT: Final = "pelvis"
TORSO: Final = "torso_link"
HEAD_HEIGHT: Final = 0.35
FEET: Final = ("left_ankle_roll_link", "right_ankle_roll_link")
# body, parent (a dot: the row above), axis, offset x y z, rotation w x y z, range; names without `_link`.
_TABLE: Final = """
left_hip_pitch pelvis y 0 .064452 -.1027 1 0 0 0 -2.5307 2.8798
left_hip_roll . x 0 .052 -.030465 .996179 0 -.0873386 0 -.5236 2.9671
left_hip_yaw . z .025001 0 -.12412 1 0 0 0 -2.7576 2.7576
left_knee . y -.078273 .0021489 -.17734 .996179 0 .0873386 0 -.087267 2.8798
left_ankle_pitch . y 0 -9.4445e-05 -.30001 1 0 0 0 -.87267 .5236
left_ankle_roll . x 0 0 -.017558 1 0 0 0 -.2618 .2618
right_hip_pitch pelvis y 0 -.064452 -.1027 1 0 0 0 -2.5307 2.8798
right_hip_roll . x 0 -.052 -.030465 .996179 0 -.0873386 0 -2.9671 .5236
right_hip_yaw . z .025001 0 -.12412 1 0 0 0 -2.7576 2.7576
right_knee . y -.078273 -.0021489 -.17734 .996179 0 .0873386 0 -.087267 2.8798
right_ankle_pitch . y 0 9.4445e-05 -.30001 1 0 0 0 -.87267 .5236
right_ankle_roll . x 0 0 -.017558 1 0 0 0 -.2618 .2618
waist_yaw pelvis z 0 0 0 1 0 0 0 -2.618 2.618
waist_roll . x -.0039635 0 .035 1 0 0 0 -.52 .52
torso . y 0 0 .019 1 0 0 0 -.52 .52
left_shoulder_pitch . y .0039563 .10022 .23778 .990264 .139201 1.38722e-05 -9.86868e-05 -3.0892 2.6704
left_shoulder_roll . x 0 .038 -.013831 .990268 -.139172 0 0 -1.5882 2.2515
left_shoulder_yaw . z 0 .00624 -.1032 1 0 0 0 -2.618 2.618
left_elbow . y .015783 0 -.080518 1 0 0 0 -1.0472 2.0944
left_wrist_roll . x .1 .00188791 -.01 1 0 0 0 -1.97222 1.97222
left_wrist_pitch . y .038 0 0 1 0 0 0 -1.61443 1.61443
left_wrist_yaw . z .046 0 0 1 0 0 0 -1.61443 1.61443
right_shoulder_pitch torso y .0039563 -.10021 .23778 .990264 -.139201 1.38722e-05 9.86868e-05 -3.0892 2.6704
right_shoulder_roll . x 0 -.038 -.013831 .990268 .139172 0 0 -2.2515 1.5882
right_shoulder_yaw . z 0 -.00624 -.1032 1 0 0 0 -2.618 2.618
right_elbow . y .015783 0 -.080518 1 0 0 0 -1.0472 2.0944
right_wrist_roll . x .1 -.00188791 -.01 1 0 0 0 -1.97222 1.97222
right_wrist_pitch . y .038 0 0 1 0 0 0 -1.61443 1.61443
right_wrist_yaw . z .046 0 0 1 0 0 0 -1.61443 1.61443
"""
_AXES: Final[dict[str, Triple]] = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}


def _facts() -> Iterator[BodyFacts]:
    above = ROOT
    for line in _TABLE.strip().splitlines():
        body, parent, axis, *numbers = line.split()
        x, y, z, qw, qx, qy, qz, low, high = map(float, numbers)
        if parent != ".":
            above = parent if parent == ROOT else f"{parent}_link"
        # The torso is what the waist's third joint turns.
        joint = "waist_pitch_joint" if body == "torso" else f"{body}_joint"
        yield f"{body}_link", above, joint, (x, y, z), (qw, qx, qy, qz), _AXES[axis], (low, high)
        above = f"{body}_link"


BODIES: Final = tuple(_facts())
JOINTS: Final = tuple(row[2] for row in BODIES)
# The published 23-joint sets leave out the wrists.
JOINTS_23: Final = tuple(j for j in JOINTS if "_wrist_" not in j)
# Four contact points of a foot's sole in the frame of its ankle_roll_link, metres; radius of each.
SOLE: Final = ((-0.05, 0.025, -0.03), (-0.05, -0.025, -0.03), (0.12, 0.03, -0.03), (0.12, -0.03, -0.03))
SOLE_RADIUS: Final = 0.005
_DEFAULTS: Final = {"hip_pitch": -0.1, "knee": 0.3, "ankle_pitch": -0.2}


@cache
def g1() -> Skeleton:
    """The G1's kinematic tree: the pelvis and 29 joint bodies, depth first."""
    return skeleton("g1_29dof", ROOT, BODIES)


def default_joint_pos(joints: Sequence[str] = JOINTS) -> NDArray[np.float32]:
    """Default joint angles, (29,) float32, radians: hip pitch -0.1, knee 0.3, ankle pitch -0.2, others 0."""
    out = np.zeros(len(joints), np.float32)
    for index, joint in enumerate(joints):
        for word, angle in _DEFAULTS.items():
            if joint.split("_", 1)[1] == f"{word}_joint":
                out[index] = angle
    return out
