"""Recordings as IsaacLab's `HDF5DatasetFileHandler` writes them, old and new.

obs[t] precedes actions[t], states[t] follows it; quaternions are scalar first unless `format_version` is 1.
What is not here: defects, see `trajpipe.testing.defects`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import h5py
import numpy as np
from numpy.typing import NDArray

from trajpipe.core import names
from trajpipe.core.quaternions import xyzw_to_wxyz
from trajpipe.testing import kinematics
from trajpipe.testing.layout import Tree, write_attributes, write_tree
from trajpipe.testing.motion import Rollout, Task
from trajpipe.testing.request import Request

Array = NDArray[Any]

CAMERAS: Final = ("table_cam", "wrist_cam")
ENVIRONMENTS: Final = {
    "lift": "Isaac-Lift-Cube-Franka-IK-Abs-v0",
    "stack": "Isaac-Stack-Cube-Franka-IK-Rel-v0",
    "place": "Isaac-Place-Cube-Franka-IK-Rel-v0",
    "pull": "Isaac-Open-Drawer-Franka-IK-Rel-v0",
}
DEFAULT_JOINTS: Final = (0.0444, -0.1894, -0.1107, -2.5148, 0.0044, 2.3775, 0.6952, 0.04, 0.04)
_OBJECTS: Final = {"lift": 1, "stack": 3, "place": 2, "pull": 2}
_DECIMATION: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class IsaacLabOptions:
    """Options of a generated `isaaclab` recording.

    Attributes:
        format_version: 1 (xyzw everywhere), 0 or None (legacy wxyz, None leaves the attribute out).
        gzip: Deflate every dataset, as 2.x recorders do.
        concatenated: One flat `obs` dataset instead of terms; see `term_widths`. No cameras then.
        datagen_info: Add Mimic's nested `obs/datagen_info/…` groups.
        failed: Write the recorder's file of failed episodes: name `<stem>_failed.hdf5`, success False.
        success: False leaves the `success` attribute out.
        seeds: Write a `seed` attribute on every demo.
        sim_args: Put dt and decimation into env_args, as newer recorders do.
        states: Write `states/…` and `initial_state/…`.
    """

    format_version: int | None = 1
    gzip: bool = True
    concatenated: bool = False
    datagen_info: bool = False
    failed: bool = False
    success: bool = True
    seeds: bool = False
    sim_args: bool = True
    states: bool = True

    @property
    def xyzw(self) -> bool:
        """True when quaternions are scalar last."""
        return self.format_version == 1


def write(path: Path, request: Request, options: IsaacLabOptions) -> Path:
    """Write a recording; returns its path, which `failed` changes."""
    if options.failed and not path.stem.endswith("_failed"):
        path = path.with_name(f"{path.stem}_failed{path.suffix}")
    task: Task = request.task or "lift"
    with h5py.File(path, "w") as handle:
        if options.format_version is not None:
            handle.attrs[names.ATTR_FORMAT_VERSION] = options.format_version
        data = handle.create_group(names.GROUP_DATA)
        total = 0
        for name, rollout in zip(
            request.demo_names(), request.rollouts(task, objects=_OBJECTS[task]), strict=True
        ):
            demo = data.create_group(name)
            write_attributes(demo, _demo_attributes(rollout, options, request.seed + total))
            write_tree(demo, _demo(rollout, request, options, task), gzip=4 if options.gzip else None)
            total += rollout.length
        write_attributes(
            data, {names.ATTR_TOTAL: total, names.ATTR_ENV_ARGS: json.dumps(env_args(task, request, options))}
        )
    return path


def env_args(task: Task, request: Request, options: IsaacLabOptions) -> dict[str, Any]:
    """The object that the recorder stores as `env_args`."""
    suffix = "-Mimic-v0" if options.datagen_info else "-v0"
    args: dict[str, Any] = {
        "env_name": ENVIRONMENTS[task].removesuffix("-v0") + suffix,
        "type": names.ENV_TYPE_GYM,
    }
    if options.sim_args:
        dt = 1.0 / (request.fps * _DECIMATION)
        args["sim_args"] = {
            "dt": dt,
            "decimation": _DECIMATION,
            "render_interval": _DECIMATION,
            "num_envs": 1,
        }
    return args


def term_widths(task: Task = "lift") -> dict[str, int]:
    """Term → width of the concatenated `obs` of a task, in its order."""
    rollout = next(Request(episodes=1, rows=(2, 2)).rollouts(task, objects=_OBJECTS[task]))
    terms = _terms(rollout, task, xyzw=True)
    return {name: int(value.shape[1]) for name, value in terms.items()}


def quaternion_spans(demo: h5py.Group) -> dict[str, tuple[int, ...]]:
    """Dataset path below a generated demo → offsets of its quaternions in the last axis.

    Args:
        demo: A demo with obs terms, of any task.
    """
    spans: dict[str, tuple[int, ...]] = {}

    def visit(path: str, item: object) -> None:
        if not isinstance(item, h5py.Dataset):
            return
        leaf = path.rsplit("/", 1)[-1]
        if leaf == "root_pose" or (leaf == names.DATASET_ACTIONS and item.shape[-1] == 8):
            spans[path] = (3,)
        elif leaf in ("eef_quat", "object_orientation"):
            spans[path] = (0,)
        elif path == "obs/cube_orientations":
            spans[path] = tuple(range(0, item.shape[-1], 4))
        elif path == "obs/object":
            spans[path] = tuple(range(3, 7 * demo["obs/cube_positions"].shape[-1] // 3, 7))

    demo.visititems(visit)
    return dict(sorted(spans.items()))


def _demo_attributes(rollout: Rollout, options: IsaacLabOptions, seed: int) -> dict[str, Any]:
    attributes: dict[str, Any] = {names.ATTR_NUM_SAMPLES: rollout.length}
    if options.seeds:
        attributes[names.ATTR_SEED] = seed
    if options.success:
        attributes[names.ATTR_SUCCESS] = bool(rollout.success and not options.failed)
    return attributes


def _demo(rollout: Rollout, request: Request, options: IsaacLabOptions, task: Task) -> Tree:
    terms: dict[str, Any] = _terms(rollout, task, xyzw=options.xyzw)
    tree: dict[str, Any] = {names.DATASET_ACTIONS: actions(rollout, task, xyzw=options.xyzw)}
    if options.states:
        tree["initial_state"] = _states(rollout, slice(0, 1), xyzw=options.xyzw)
    if options.concatenated:
        tree[names.GROUP_OBS] = np.concatenate(list(terms.values()), axis=1)
    else:
        terms |= request.films(rollout, slice(0, rollout.length), CAMERAS)
        if options.datagen_info:
            terms["datagen_info"] = _datagen_info(rollout)
        tree[names.GROUP_OBS] = dict(sorted(terms.items()))
    if options.states:
        tree["states"] = _states(rollout, slice(1, None), xyzw=options.xyzw)
    return tree


def actions(rollout: Rollout, task: Task, *, xyzw: bool = True) -> Array:
    """(T, 8) absolute pose and gripper for `lift`, (T, 7) scaled deltas for the other tasks; float32."""
    grip = rollout.grip[:, None]
    if task == "lift":
        pose = np.concatenate((rollout.eef_pos[1:], _order(rollout.eef_quat[1:], xyzw=xyzw)), axis=1)
        return np.concatenate((pose, grip), axis=1).astype(np.float32)
    return np.concatenate((np.clip(rollout.delta_pose() / 0.5, -1, 1), grip), axis=1).astype(np.float32)


def _order(quats: Array, *, xyzw: bool) -> Array:
    return quats if xyzw else xyzw_to_wxyz(quats)


def _terms(rollout: Rollout, task: Task, *, xyzw: bool) -> dict[str, Array]:
    rows = slice(0, rollout.length)
    joints = _nine(rollout.joints, rollout.fingers)
    acts = actions(rollout, task, xyzw=xyzw)
    position, orientation = rollout.object_pos[rows], _order(rollout.object_quat[rows], xyzw=xyzw)
    terms = {
        "actions": np.concatenate((np.zeros_like(acts[:1]), acts[:-1])),
        "eef_pos": rollout.eef_pos[rows],
        "eef_quat": _order(rollout.eef_quat[rows], xyzw=xyzw),
        "gripper_pos": np.stack((rollout.fingers[rows], -rollout.fingers[rows]), axis=1),
        "joint_pos": (joints - np.asarray(DEFAULT_JOINTS))[rows],
        "joint_vel": rollout.velocity(joints)[rows],
    }
    if task == "lift":
        terms |= {"object_position": position[:, 0], "object_orientation": orientation[:, 0]}
    else:
        flat = (rollout.length, -1)
        gaps = (position - rollout.eef_pos[rows, None]).reshape(flat)
        between = (position - np.roll(position, -1, axis=1)).reshape(flat)
        poses = np.concatenate((position, orientation), axis=2).reshape(flat)
        terms |= {
            "cube_orientations": orientation.reshape(flat),
            "cube_positions": position.reshape(flat),
            "object": np.concatenate((poses, gaps, between), axis=1),
        }
    return {name: value.astype(np.float32) for name, value in terms.items()}


def _nine(joints: Array, fingers: Array) -> Array:
    return np.concatenate((joints, np.stack((fingers, fingers), axis=1)), axis=1)


def _states(rollout: Rollout, rows: slice, *, xyzw: bool) -> Tree:
    joints = _nine(rollout.joints, rollout.fingers)
    count = joints[rows].shape[0]
    root = np.tile([0.0, 0.0, 0.0, *((0.0, 0.0, 0.0, 1.0) if xyzw else (1.0, 0.0, 0.0, 0.0))], (count, 1))
    robot = {
        "joint_position": joints[rows],
        "joint_velocity": rollout.velocity(joints)[rows],
        "root_pose": root,
        "root_velocity": np.zeros((count, 6)),
    }
    pose = np.concatenate((rollout.object_pos, _order(rollout.object_quat, xyzw=xyzw)), axis=2)
    twist = np.concatenate(
        (rollout.velocity(rollout.object_pos), rollout.angular_velocity(rollout.object_quat)), axis=2
    )
    objects = {
        name: {"root_pose": _single(pose[rows, index]), "root_velocity": _single(twist[rows, index])}
        for index, name in enumerate(rollout.scene.names)
    }
    singles = {name: _single(value) for name, value in robot.items()}
    return {"articulation": {"robot": singles}, "rigid_object": objects}


def _single(values: Array) -> Array:
    return np.ascontiguousarray(values, dtype=np.float32)


def _datagen_info(rollout: Rollout) -> Tree:
    eef = _frames(rollout.eef_pos, rollout.eef_quat)
    objects = {
        name: _frames(rollout.object_pos[:-1, index], rollout.object_quat[:-1, index])
        for index, name in enumerate(rollout.scene.names)
    }
    return {
        "eef_pose": {"franka": eef[:-1]},
        "object_pose": objects,
        "subtask_term_signals": {"grasp_1": rollout.grasped[:-1]},
        "target_eef_pose": {"franka": eef[1:]},
    }


def _frames(position: Array, quats: Array) -> Array:
    """(S, 4, 4) float32 homogeneous matrices."""
    frames = np.zeros((position.shape[0], 4, 4), dtype=np.float32)
    frames[:, :3, :3] = kinematics.matrix(quats)
    frames[:, :3, 3] = position
    frames[:, 3, 3] = 1.0
    return frames
