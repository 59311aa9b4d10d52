"""The motion store's rows made slowly and readably, frame by frame: scipy for rotations, MuJoCo for FK.

Written from the contract alone; it shares no code with `trajpipe.motion`.
"""

from __future__ import annotations

import math
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d
from scipy.spatial.transform import Rotation

Array = NDArray[np.float64]
DEFAULT = {"hip_pitch": -0.1, "knee": 0.3, "ankle_pitch": -0.2}


def rows_of(model: Any, root_pos: Array, root_quat: Array, joint_pos: Array, fps: float) -> dict[str, Array]:
    """Column → rows, float64, of one clip; joints in MuJoCo's order, root quaternion x y z w."""
    positions, rotations = _world(model, root_pos, root_quat, joint_pos)
    quaternions = np.array([[_signed(r.as_quat()) for r in frame] for frame in rotations])
    velocity = _smooth(np.array([_difference(positions, t, fps) for t in range(len(positions))]))
    spin = [
        [_turning(before, after, fps) for before, after in zip(rotations[t], rotations[t + 1], strict=True)]
        for t in range(len(rotations) - 1)
    ]
    turning = _smooth(np.array([*spin, np.zeros_like(spin[0])]))
    joint_vel = [(joint_pos[t + 1] - joint_pos[t]) * fps for t in range(len(joint_pos) - 1)]
    joint_vel.append(joint_vel[len(joint_pos) - 3])
    duration = float(np.float32((1.0 / fps) * (len(joint_pos) - 1)))
    rows: dict[str, list[Array]] = {}
    default = _default(model)
    for k in range(math.ceil(duration / 0.02)):
        first = min(int(k * 0.02 * fps), len(joint_pos) - 1)
        second, blend = min(first + 1, len(joint_pos) - 1), k * 0.02 * fps - first

        def between(frames: Any, i: int = first, j: int = second, b: float = blend) -> Array:
            return (1 - b) * np.asarray(frames[i]) + b * np.asarray(frames[j])

        quats = [_slerp(p, q, blend) for p, q in zip(quaternions[first], quaternions[second], strict=True)]
        moving = between(velocity), between(turning)
        made = _row(between(positions), np.array(quats), *moving, between(joint_pos), between(joint_vel))
        made["state"][:29] -= default
        for name, values in made.items():
            rows.setdefault(name, []).append(values)
    return {name: np.array(values) for name, values in rows.items()}


def _world(
    model: Any, root_pos: Array, root_quat: Array, joint_pos: Array
) -> tuple[Array, list[list[Rotation]]]:
    data, positions, rotations = mujoco.MjData(model), [], []
    torso = model.body("torso_link").id
    for position, quaternion, angles in zip(root_pos, root_quat, joint_pos, strict=True):
        data.qpos[:] = [*position, quaternion[3], *quaternion[:3], *angles]
        mujoco.mj_kinematics(model, data)
        bodies = [Rotation.from_matrix(data.xmat[i].reshape(3, 3)) for i in range(1, model.nbody)]
        head = data.xpos[torso] + bodies[torso - 1].apply([0, 0, 0.35])
        positions.append([*data.xpos[1:].copy(), head])
        rotations.append([*bodies, bodies[torso - 1]])
    return np.array(positions), rotations


def _signed(q: Array) -> Array:
    """The sign that makes the largest component positive."""
    return q if q[np.argmax(np.abs(q))] > 0 else -q


def _difference(frames: Array, t: int, fps: float) -> Array:
    before, after = max(t - 1, 0), min(t + 1, len(frames) - 1)
    return np.asarray((frames[after] - frames[before]) * fps / (after - before))


def _turning(a: Rotation, b: Rotation, fps: float) -> Array:
    return np.asarray((b * a.inv()).as_rotvec() * fps)


def _smooth(frames: Array) -> Array:
    return np.asarray(gaussian_filter1d(frames, 2.0, axis=0, mode="nearest", radius=8))


def _slerp(p: Array, q: Array, blend: float) -> Array:
    if p @ q < 0:
        q = -q
    half = math.acos(min(1.0, float(p @ q)))
    if math.sin(half) < 1e-3:
        return 0.5 * p + 0.5 * q
    return (math.sin((1 - blend) * half) * p + math.sin(blend * half) * q) / math.sin(half)


def _row(
    position: Array, quaternion: Array, velocity: Array, turning: Array, joint_pos: Array, joint_vel: Array
) -> dict[str, Array]:
    root = Rotation.from_quat(quaternion[0])
    ahead = root.apply([1, 0, 0])
    back = Rotation.from_euler("z", -math.atan2(ahead[1], ahead[0]))
    local = [back * Rotation.from_quat(q) for q in quaternion]
    privileged = [
        [position[0, 2]],
        *(back.apply(p - position[0]) for p in position[1:]),
        *(np.concatenate([r.apply([1, 0, 0]), r.apply([0, 0, 1])]) for r in local),
        *(back.apply(v) for v in velocity),
        *(back.apply(w) for w in turning),
    ]
    x, y, z, w = quaternion[0]
    return {
        "qpos": np.array([*position[0], w, x, y, z, *joint_pos]),
        "qvel": np.array([*velocity[0], *turning[0], *joint_vel]),
        "state": np.array([*joint_pos, *joint_vel, *root.inv().apply([0, 0, -1]), *turning[0]]),
        "privileged": np.concatenate(privileged),
        "body_pos": position.ravel(),
        "body_vel": velocity.ravel(),
        "body_ang_vel": turning.ravel(),
        "body_quat": quaternion.ravel(),
    }


def _default(model: Any) -> Array:
    names = [model.joint(i).name for i in range(1, model.njnt)]
    return np.array([next((v for k, v in DEFAULT.items() if n.endswith(f"_{k}_joint")), 0.0) for n in names])
