"""Rules of motions in L2: actions are the next joint angles, joints by name, limits, steps.

They hold for files whose env_args say `"actions": "next_joint_pos"`. What is not here: the motion store.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.checks.motion_reading import Motion, is_motion, motions
from trajpipe.checks.registry import Subject, check
from trajpipe.checks.store_reading import opened
from trajpipe.core.errors import TrajpipeError
from trajpipe.core.findings import Finding, Place, Severity
from trajpipe.motion.g1 import JOINTS, g1

STAGE: Final = "demos"
STEP_RAD: Final = 0.5
LIMIT_SLACK: Final = 1e-4
# A mix-up of left and right shows where the limits of the two sides mirror each other.
FAR_OUTSIDE_RAD: Final = 0.1
_MIXED_SHARE: Final = 0.01


def _clips(subject: Subject) -> Iterator[Motion]:
    """The file's motions; none when it holds no motions, or cannot be opened (another rule says why)."""
    try:
        with opened(subject.path) as file:
            told = "data" in file and is_motion(file["data"])
    except (TrajpipeError, OSError):
        return
    if told:
        yield from motions(subject.path)


@check("demos-motion-actions", stage=STAGE, title="A motion's actions are the next frame's joint angles")
def actions(subject: Subject) -> Iterator[Finding]:
    """Equal to `obs/joint_pos` one row on after the cast to float32; the last row repeats."""
    rows = 0
    for motion in _clips(subject):
        expected = np.concatenate([motion.joint_pos[1:], motion.joint_pos[-1:]]).astype(np.float32)
        place = motion.place("actions")
        if motion.actions.shape != expected.shape:
            yield _error(
                "demos-motion-actions", "actions have the joints' shape", place, motion.actions.shape
            )
            continue
        wrong = (motion.actions != expected).any(axis=1)
        if wrong.any():
            row = int(np.argmax(wrong))
            message = f"{int(wrong.sum())} actions are not the next frame's joint angles"
            yield _error(
                "demos-motion-actions", message, motion.place("actions", row), motion.actions[row][:3]
            )
        rows += len(expected)
    if rows:
        subject.count(rows, rows, "actions")


@check("demos-motion-joints", stage=STAGE, title="A motion's joints are the robot's, left and right apart")
def joints(subject: Subject) -> Iterator[Finding]:
    """By name; and by the limits, which would be kept better if left and right were exchanged."""
    code, count = "demos-motion-joints", 0
    for motion in _clips(subject):
        count += 1
        place = motion.place("obs/joint_pos")
        if motion.joints != JOINTS or motion.joint_pos.shape[1:] != (len(JOINTS),):
            got = f"{len(motion.joints)} names, {motion.joint_pos.shape[1]} columns"
            strange = [f"{a} for {b}" for a, b in zip(motion.joints, JOINTS, strict=False) if a != b]
            message = "joint columns are the robot's 29 in its model's order"
            yield _error(code, message, place, f"{got}; {', '.join(strange[:3])}")
            continue
        own, exchanged = _far_outside(motion.joint_pos), _far_outside(motion.joint_pos[:, _EXCHANGED])
        if own > _MIXED_SHARE * motion.joint_pos.size and exchanged * 10 < own:
            message = "left and right joints look exchanged: their limits would be kept the other way round"
            yield _error(code, message, place, f"{own} angles far outside; exchanged {exchanged}")
    if count:
        subject.count(count, count, "clips")


def _other_side(joint: str) -> str:
    side, _, rest = joint.partition("_")
    return {"left": "right", "right": "left"}.get(side, side) + f"_{rest}"


_EXCHANGED: Final = [JOINTS.index(_other_side(joint)) for joint in JOINTS]


def _beyond(angles: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far each angle lies outside its joint's limits; below 0 inside, (n, J)."""
    ranges = g1().ranges
    return np.maximum(ranges[:, 0] - angles, angles - ranges[:, 1])


def _far_outside(angles: NDArray[np.float64]) -> int:
    return int((_beyond(angles) > FAR_OUTSIDE_RAD).sum())


@check("demos-motion-limits", stage=STAGE, title="A motion keeps its joints' limits", blocking=False)
def limits(subject: Subject) -> Iterator[Finding]:
    """How many angles lie outside, and the worst."""
    values = outside = 0
    worst = 0.0
    for motion in _fitting(subject):
        beyond = _beyond(motion.joint_pos)
        bad = int((beyond > LIMIT_SLACK).sum())
        values, outside = values + beyond.size, outside + bad
        worst = max(worst, float(beyond.max(initial=0)))
        if bad:
            row, joint = (int(i) for i in np.unravel_index(int(beyond.argmax()), beyond.shape))
            low, high = g1().ranges[joint]
            message = f"{bad} of {beyond.size} joint angles lie outside their limits; the worst"
            got = f"{JOINTS[joint]} {motion.joint_pos[row, joint]:.4f}"
            place, expected = motion.place("obs/joint_pos", row), f"{low:.4f} to {high:.4f}"
            yield Finding("demos-motion-limits", Severity.WARN, message, place, got, expected)
    if values:
        subject.measures |= {"joint_values_outside": float(outside), "worst_rad_outside": worst}
        subject.count(values, values, "joint angles")


@check("demos-motion-steps", stage=STAGE, title="No joint jumps between two frames", blocking=False)
def steps(subject: Subject) -> Iterator[Finding]:
    """Steps above 0.5 rad a frame are counted; the largest is told."""
    values = jumps = 0
    largest = 0.0
    for motion in _fitting(subject):
        size = np.abs(np.diff(motion.joint_pos, axis=0))
        many = int((size > STEP_RAD).sum())
        values, jumps, largest = values + size.size, jumps + many, max(largest, float(size.max(initial=0)))
        if many:
            row, joint = (int(i) for i in np.unravel_index(int(size.argmax()), size.shape))
            message = f"{many} of {size.size} joint steps are above {STEP_RAD:g} rad a frame; the largest"
            got = f"{JOINTS[joint]} {size[row, joint]:.4f} rad"
            place = motion.place("obs/joint_pos", row + 1)
            yield Finding("demos-motion-steps", Severity.WARN, message, place, got, f"≤ {STEP_RAD:g} rad")
    if values:
        subject.measures |= {"joint_steps_above": float(jumps), "largest_step_rad": largest}
        subject.count(values, values, "joint steps")


def _fitting(subject: Subject) -> Iterator[Motion]:
    """The motions whose joints are the robot's; the others are `demos-motion-joints`'s to tell."""
    for motion in _clips(subject):
        if motion.joints == JOINTS and motion.joint_pos.shape[1:] == (len(JOINTS),):
            yield motion


def _error(code: str, message: str, place: Place, got: object) -> Finding:
    return Finding(code, Severity.ERROR, message, place, str(got)[:160])
