"""The kinematic tree of a robot: a free root and bodies that turn about one hinge each.

What is not here: a robot's numbers (`g1.py`, `skeleton_mjcf.py`) and moving it (`kinematics.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trajpipe.core.errors import InputError, MissingNameError

Triple = tuple[float, float, float]
Quadruple = tuple[float, float, float, float]
# body, parent, joint, offset, rotation (w x y z), axis, range
BodyFacts = tuple[str, str, str, Triple, Quadruple, Triple, tuple[float, float]]


@dataclass(frozen=True, slots=True, eq=False)
class Skeleton:
    """Bodies in depth-first order: body 0 is the root, body i + 1 turns about joint i.

    Attributes:
        name: Model name.
        bodies: B names.
        joints: B - 1 names.
        parents: Index of each body's parent; -1 for the root.
        offsets: (B, 3) float64, position in the parent's frame, metres.
        rotations: (B, 4) float64, unit quaternion in the parent's frame, scalar last.
        axes: (B - 1, 3) float64, unit joint axes in the body's frame.
        ranges: (B - 1, 2) float64, joint limits, radians; ±infinity where there is none.
    """

    name: str
    bodies: tuple[str, ...]
    joints: tuple[str, ...]
    parents: tuple[int, ...]
    offsets: NDArray[np.float64]
    rotations: NDArray[np.float64]
    axes: NDArray[np.float64]
    ranges: NDArray[np.float64]

    def body(self, name: str) -> int:
        """Index of a body.

        Raises:
            MissingNameError: no such body; lists them.
        """
        if name not in self.bodies:
            raise MissingNameError("no body of this name", got=name, expected=", ".join(self.bodies))
        return self.bodies.index(name)


def skeleton(name: str, root: str, facts: Sequence[BodyFacts]) -> Skeleton:
    """A skeleton from facts in depth-first order.

    Args:
        name: Model name.
        root: Name of the root body.
        facts: Body, parent, joint, offset, rotation scalar first, axis, range.

    Raises:
        InputError: a name comes twice, or a parent comes after its child.
    """
    bodies = (root, *(row[0] for row in facts))
    joints = tuple(row[2] for row in facts)
    for names in (bodies, joints):
        twice = [n for n, count in Counter(names).items() if count > 1]
        if twice:
            raise InputError("a name of the kinematic tree is used twice", place=name, got=twice[0])
    parents = [-1]
    for index, row in enumerate(facts, 1):
        if row[1] not in bodies[:index]:
            raise InputError("a parent comes before its child", place=name, got=f"{row[0]} below {row[1]}")
        parents.append(bodies.index(row[1]))
    quaternions = np.array([(0.0, 0.0, 0.0, 1.0), *((*r[4][1:], r[4][0]) for r in facts)])
    axes = np.array([r[5] for r in facts], np.float64).reshape(-1, 3)
    return Skeleton(
        name,
        bodies,
        joints,
        tuple(parents),
        np.array([(0.0, 0.0, 0.0), *(r[3] for r in facts)]),
        quaternions / np.linalg.norm(quaternions, axis=1, keepdims=True),
        axes / np.linalg.norm(axes, axis=1, keepdims=True),
        np.array([r[6] for r in facts], np.float64).reshape(-1, 2),
    )
