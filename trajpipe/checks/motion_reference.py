"""What a motion store must hold, made a second time: by MuJoCo, rotation matrices, numpy's own tools.

It shares no code with `trajpipe.motion` but the facts of the robot. What is not here: the rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core.errors import InputError, MissingExtraError

Array = NDArray[np.float64]
HEAD_HEIGHT: Final = 0.35
_SIGMA: Final = 2.0
_RADIUS: Final = 8
STEP: Final = 0.02


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """The robot compiled by MuJoCo.

    Attributes:
        model: `mujoco.MjModel`.
        joints: Hinge names in MuJoCo's order.
        bodies: Body names without the world.
        ranges: (J, 2) limits, radians; infinite where there is none.
        torso: Index of the body that carries the virtual head.
    """

    model: Any
    joints: tuple[str, ...]
    bodies: tuple[str, ...]
    ranges: Array
    torso: int

    def poses(self, root_pos: Array, root_quat: Array, joint_pos: Array) -> tuple[Array, Array]:
        """World positions (n, B + 1, 3) and matrices (n, B + 1, 3, 3) of all bodies and the virtual head.

        Args:
            root_pos: (n, 3).
            root_quat: (n, 4) scalar last.
            joint_pos: (n, J) in MuJoCo's order.
        """
        import mujoco

        count, total = len(root_pos), len(self.bodies)
        data = mujoco.MjData(self.model)
        qpos = np.concatenate([root_pos, root_quat[:, [3, 0, 1, 2]], joint_pos], axis=1)
        positions, matrices = np.empty((count, total + 1, 3)), np.empty((count, total + 1, 9))
        for row in range(count):
            data.qpos[:] = qpos[row]
            mujoco.mj_kinematics(self.model, data)
            positions[row, :total], matrices[row, :total] = data.xpos[1:], data.xmat[1:]
        matrices[:, total] = matrices[:, self.torso]
        up = matrices[:, total].reshape(-1, 3, 3)[:, :, 2]
        positions[:, total] = positions[:, self.torso] + HEAD_HEIGHT * up
        return positions, matrices.reshape(count, total + 1, 3, 3)


def compiled(text: str) -> Model:
    """Compile MJCF text without any file.

    Raises:
        MissingExtraError: MuJoCo is not installed.
        InputError: MuJoCo refuses the model, or its tree is not a free root with hinges.
    """
    try:
        import mujoco
    except ImportError as missing:
        raise MissingExtraError("proving a motion needs MuJoCo", hint="pip install mujoco") from missing
    try:
        model = mujoco.MjModel.from_xml_string(text)
    except ValueError as error:
        raise InputError("MuJoCo refuses the robot's model", got=str(error)[:200]) from error
    types = [int(t) for t in model.jnt_type]
    if types[:1] != [int(mujoco.mjtJoint.mjJNT_FREE)] or set(types[1:]) != {int(mujoco.mjtJoint.mjJNT_HINGE)}:
        raise InputError("the robot has a free root, then hinges", got=types[:8])
    bodies = tuple(model.body(i).name for i in range(1, model.nbody))
    if "torso_link" not in bodies:
        raise InputError("the virtual head stands on torso_link", got=", ".join(bodies[:8]))
    limited = model.jnt_limited[1:, None].astype(bool)
    ranges = np.where(limited, model.jnt_range[1:], [-np.inf, np.inf])
    joints = tuple(model.joint(i).name for i in range(1, model.njnt))
    return Model(model, joints, bodies, ranges, bodies.index("torso_link"))


def filtered(values: Array) -> Array:
    """Gaussian filter along axis 0, column by column with numpy's convolution; edges repeat."""
    kernel = np.exp(-0.5 * (np.arange(-_RADIUS, _RADIUS + 1) / _SIGMA) ** 2)
    kernel /= kernel.sum()
    flat = values.reshape(len(values), -1)
    padded = np.concatenate([flat[:1].repeat(_RADIUS, 0), flat, flat[-1:].repeat(_RADIUS, 0)])
    out = np.stack([np.convolve(padded[:, i], kernel, "valid") for i in range(flat.shape[1])], axis=1)
    return out.reshape(values.shape)


def turns_of(matrices: Array) -> Array:
    """Rotation vectors (n, B, 3) from each frame to the next, world, radians; zero on the last frame."""
    out = np.zeros((*matrices.shape[:2], 3))
    out[:-1] = log_of(np.einsum("tbij,tbkj->tbik", matrices[1:], matrices[:-1]))
    return out


def log_of(matrices: Array) -> Array:
    """Rotation vectors (…, 3) of rotation matrices (…, 3, 3)."""
    skew = np.stack(
        [
            matrices[..., 2, 1] - matrices[..., 1, 2],
            matrices[..., 0, 2] - matrices[..., 2, 0],
            matrices[..., 1, 0] - matrices[..., 0, 1],
        ],
        axis=-1,
    )
    sine, cosine = np.linalg.norm(skew, axis=-1) / 2, (np.trace(matrices, axis1=-2, axis2=-1) - 1) / 2
    angle = np.arctan2(sine, cosine)
    factor = np.where(sine > 1e-12, angle / np.where(sine > 1e-12, 2 * sine, 1), 0.5)
    out: Array = np.asarray(skew * factor[..., None], np.float64)
    return out


def matrices_of(quaternions: Array) -> Array:
    """Rotation matrices (…, 3, 3) of scalar-last quaternions (…, 4) of any norm but zero."""
    norms: Array = np.sqrt(np.square(quaternions).sum(axis=-1, keepdims=True))
    x, y, z, w = np.moveaxis(quaternions / norms, -1, 0)
    out: Array = np.empty((*quaternions.shape[:-1], 3, 3))
    out[..., 0, 0], out[..., 0, 1] = 1 - 2 * (y * y + z * z), 2 * (x * y - z * w)
    out[..., 0, 2], out[..., 1, 0] = 2 * (x * z + y * w), 2 * (x * y + z * w)
    out[..., 1, 1], out[..., 1, 2] = 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)
    out[..., 2, 0], out[..., 2, 1] = 2 * (x * z - y * w), 2 * (y * z + x * w)
    out[..., 2, 2] = 1 - 2 * (x * x + y * y)
    return out


def times_of(frames: int, fps: float) -> Array:
    """Seconds of the store's rows: their count is ceil(duration / 0.02), the duration rounded to float32."""
    duration = np.float64(np.float32((1 / fps) * (frames - 1)))
    out: Array = np.arange(int(np.ceil(duration / STEP))).astype(np.float64) * STEP
    return out


def interpolated(frames: Array, fps: float) -> Array:
    """Frames (n, …) at the store's times, by numpy's own interpolation, column by column."""
    flat = frames.reshape(len(frames), -1)
    seconds, at = np.arange(len(frames)) / fps, times_of(len(frames), fps)
    out = np.stack([np.interp(at, seconds, flat[:, i]) for i in range(flat.shape[1])], axis=1)
    return out.reshape(len(at), *frames.shape[1:])


def state_of(rows: dict[str, Array], default: Array) -> Array:
    """`state` from the store's own `qpos` and `qvel`, in float64."""
    matrices = matrices_of(rows["qpos"][:, [4, 5, 6, 3]])
    return np.concatenate(
        [rows["qpos"][:, 7:] - default, rows["qvel"][:, 6:], -matrices[:, 2, :], rows["qvel"][:, 3:6]], axis=1
    )


def privileged_of(rows: dict[str, Array], matrices: Array) -> Array:
    """`privileged` from the store's own body columns, in float64.

    Args:
        rows: Column → rows.
        matrices: (n, B, 3, 3), of `body_quat`.
    """
    count = len(rows["body_pos"])
    position, velocity, spin = (
        rows[n].reshape(count, -1, 3) for n in ("body_pos", "body_vel", "body_ang_vel")
    )
    ahead = matrices[:, 0, :2, 0]
    cosine, sine = (ahead / np.linalg.norm(ahead, axis=1, keepdims=True)).T
    back = np.zeros((count, 3, 3))
    back[:, 0, 0], back[:, 0, 1], back[:, 1, 0], back[:, 1, 1], back[:, 2, 2] = cosine, sine, -sine, cosine, 1
    axes = np.stack([matrices[..., 0], matrices[..., 2]], axis=2)
    parts = (
        position[:, 0, 2:],
        np.einsum("tij,tbj->tbi", back, (position - position[:, :1])[:, 1:]),
        np.einsum("tij,tbaj->tbai", back, axes),
        np.einsum("tij,tbj->tbi", back, velocity),
        np.einsum("tij,tbj->tbi", back, spin),
    )
    return np.concatenate([p.reshape(count, -1) for p in parts], axis=1)
