"""Seeded motion clips of the Unitree G1 as CSV, pickle and npz files: walking, turning fast, lying still.

What is not here: reading them; what reads these files shares no code with this module.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

Style = Literal["walk", "fast", "lie"]
_LEG: Final = ("hip_pitch", "hip_roll", "hip_yaw", "knee", "ankle_pitch", "ankle_roll")
_ARM: Final = (
    "shoulder_pitch", "shoulder_roll", "shoulder_yaw", "elbow", "wrist_roll", "wrist_pitch", "wrist_yaw"
)  # fmt: skip
JOINTS: Final = tuple(
    f"{name}_joint"
    for name in (
        *(f"{side}_{part}" for side in ("left", "right") for part in _LEG),
        "waist_yaw", "waist_roll", "waist_pitch",
        *(f"{side}_{part}" for side in ("left", "right") for part in _ARM),
    )
)  # fmt: skip
# Middle and reach of each kind of joint, radians: within every limit of the G1's model.
_MIDDLE: Final = {"knee": 0.6, "elbow": 0.5, "ankle_pitch": -0.2, "hip_pitch": -0.3}
_REACH: Final = {"ankle_roll": 0.2, "waist_roll": 0.2, "waist_pitch": 0.3, "hip_roll": 0.3}
_AXES: Final = {"roll": 0, "pitch": 1, "knee": 1, "elbow": 1, "yaw": 2}


@dataclass(frozen=True, slots=True, eq=False)
class MotionClip:
    """A synthetic motion.

    Attributes:
        fps: Frames per second.
        root_pos: (n, 3) metres.
        root_quat: (n, 4) unit, scalar last.
        joint_pos: (n, 29) radians, in the order of `JOINTS`.
    """

    fps: int
    root_pos: NDArray[np.float64]
    root_quat: NDArray[np.float64]
    joint_pos: NDArray[np.float64]


def motion_clip(style: Style, frames: int = 60, *, fps: int = 30, seed: int = 0) -> MotionClip:
    """A motion of a style.

    Args:
        style: `walk`; `fast`: joints and root turn up to half a radian a frame; `lie`: on the back, all but
            still, so that neighbouring frames differ by less than a blend can tell.
        frames: How many.
        fps: Frames per second.
        seed: Of phases and noise.
    """
    random = np.random.default_rng(seed)
    time = np.arange(frames)[:, None] / fps
    middle = _per_joint(_MIDDLE, 0.0)
    reach = _per_joint(_REACH, 0.45)
    rate = {"walk": 1.0, "fast": 2.5, "lie": 0.0}[style]
    phase = random.uniform(0, 2 * np.pi, len(JOINTS))
    joint_pos = middle + reach * np.sin(2 * np.pi * rate * time + phase)
    if style == "lie":
        joint_pos = middle + random.normal(0, 2e-5, (frames, len(JOINTS)))
        root_pos = np.tile([0.3, -0.1, 0.1], (frames, 1)) + random.normal(0, 1e-5, (frames, 3))
        # Not quite flat: a root whose x axis is upright has no heading.
        turn = np.tile([0.0, -1.4, 0.0], (frames, 1)) + random.normal(0, 1e-5, (frames, 3))
    else:
        wander = 0.02 * np.sin(2 * np.pi * rate * time + random.uniform(0, 6, 3))
        root_pos = np.concatenate([0.8 * time, 0.1 * time, 0.75 + 0 * time], axis=1) + wander
        yaw = (3.0 if style == "fast" else 0.6) * time
        turn = np.concatenate([0 * time, 0 * time, yaw], axis=1)
    return MotionClip(fps, root_pos, _quaternions(turn), joint_pos)


def _per_joint(table: Mapping[str, float], default: float) -> NDArray[np.float64]:
    """A value per joint by the end of its name."""
    return np.array(
        [next((v for k, v in table.items() if j.endswith(f"{k}_joint")), default) for j in JOINTS]
    )


def _quaternions(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scalar-last quaternions of rotation vectors."""
    angle = np.linalg.norm(vectors, axis=1, keepdims=True)
    axis = vectors / np.where(angle > 0, angle, 1)
    return np.concatenate([axis * np.sin(angle / 2), np.cos(angle / 2)], axis=1)


def write_csv(path: Path, clip: MotionClip, header: Sequence[str] = ()) -> Path:
    """36 columns, six decimals, as the retargeting data set has them; a header on request."""
    rows = np.concatenate([clip.root_pos, clip.root_quat, clip.joint_pos], axis=1)
    lines = [",".join(header)] if header else []
    lines += [",".join(f"{value:.6f}" for value in row) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def library_entry(
    clip: MotionClip, joints: Sequence[str] = JOINTS, extra_bodies: int = 0
) -> dict[str, object]:
    """A clip as motion libraries keep it: axis-angle of the root, each joint, and bodies that never turn."""
    frames = len(clip.joint_pos)
    pose = np.zeros((frames, 1 + len(joints) + extra_bodies, 3), np.float32)
    pose[:, 0] = _rotation_vectors(clip.root_quat)
    columns = [JOINTS.index(joint) for joint in joints]
    for row, joint in enumerate(joints, 1):
        word = joint.removesuffix("_joint").rpartition("_")[2]
        pose[:, row, _AXES[word]] = clip.joint_pos[:, columns[row - 1]]
    return {
        "root_trans_offset": clip.root_pos.astype(np.float32),
        "pose_aa": pose,
        "dof": clip.joint_pos[:, columns].astype(np.float32),
        "root_rot": _quaternions(pose[:, 0].astype(np.float64)),
        "fps": clip.fps,
    }


def _rotation_vectors(quaternions: NDArray[np.float64]) -> NDArray[np.float64]:
    positive = np.where(quaternions[:, 3:] < 0, -quaternions, quaternions)
    sine = np.linalg.norm(positive[:, :3], axis=1, keepdims=True)
    angle = 2 * np.arctan2(sine, positive[:, 3:])
    return positive[:, :3] * np.where(sine > 0, angle / np.where(sine > 0, sine, 1), 2.0)


def write_pickle(path: Path, entries: Mapping[str, object], protocol: int = 4) -> Path:
    """A plain pickle of clip → entry."""
    path.write_bytes(pickle.dumps(dict(entries), protocol=protocol))
    return path


def write_npz(path: Path, clip: MotionClip) -> Path:
    """The form of AMP motion files: named joints, and the pelvis among named bodies, scalar first.

    The other body is a hand that the robot's model has not.
    """
    np.savez(
        path,
        fps=np.array(clip.fps),
        dof_names=np.array(JOINTS),
        dof_positions=clip.joint_pos,
        body_names=np.array(["left_rubber_hand", "pelvis"]),
        body_positions=np.stack([clip.root_pos + 1, clip.root_pos], axis=1),
        body_rotations=np.stack([clip.root_quat, clip.root_quat[:, [3, 0, 1, 2]]], axis=1),
    )
    return path
