"""Recordings as robomimic stores them: low-dimensional or with images, `next_obs`, masks, RoboTurk's groups.

Quaternions are scalar last; image rows are top first, since robomimic turns robosuite's buffers over.
What is not here: raw robosuite collections, see `trajpipe.testing.robosuite`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import h5py
import numpy as np
from numpy.typing import NDArray

from trajpipe.core import names
from trajpipe.core.quaternions import xyzw_to_wxyz
from trajpipe.testing import isaaclab, mjcf
from trajpipe.testing.layout import write_attributes, write_tree
from trajpipe.testing.motion import Rollout
from trajpipe.testing.render import Film
from trajpipe.testing.request import Request

Array = NDArray[Any]

CAMERAS: Final = ("agentview_image", "robot0_eye_in_hand_image")
CAMERA_SUFFIX: Final = "_image"
POSITION_STEP: Final = 0.05
ROTATION_STEP: Final = 0.5
CONTROLLER: Final = {
    "type": "OSC_POSE",
    "input_max": 1,
    "input_min": -1,
    "output_max": [POSITION_STEP] * 3 + [ROTATION_STEP] * 3,
    "output_min": [-POSITION_STEP] * 3 + [-ROTATION_STEP] * 3,
    "kp": 150,
    "damping": 1,
    "impedance_mode": "fixed",
    "control_delta": True,
    "interpolation": None,
    "ramp_ratio": 0.2,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RobomimicOptions:
    """Options of a generated `robomimic` recording.

    Attributes:
        environment: `robosuite` (7-wide OSC deltas, robosuite's term names, MuJoCo states) or `isaaclab`: a
            hand-driven IsaacLab lift task stored in robomimic's form, 8-wide absolute poses, no rewards.
        quaternion_order: `wxyz` is what early IsaacLab collectors recorded in this form.
        next_obs: Write `next_obs/…`.
        masks: Write `mask/train` and `mask/valid`.
        roboturk: Add `controller_info` and `user_info` groups whose length is not T.
        states: Write `states` and `model_file`.
        success: Write robosuite's `success` (an int64), which most robomimic files lack.
        image_convention: `macros_image_convention` of `/data`, left out when None; `opengl` stores the
            bottom row first.
        gzip: Deflate every dataset.
    """

    environment: Literal["robosuite", "isaaclab"] = "robosuite"
    quaternion_order: Literal["xyzw", "wxyz"] = "xyzw"
    next_obs: bool = True
    masks: bool = True
    roboturk: bool = False
    states: bool = True
    success: bool = False
    image_convention: Literal["opengl", "opencv"] | None = None
    gzip: bool = False


def write(path: Path, request: Request, options: RobomimicOptions) -> Path:
    """Write a recording; returns its path."""
    with h5py.File(path, "w") as handle:
        data = handle.create_group(names.GROUP_DATA)
        total = 0
        demos = request.demo_names()
        for name, rollout in zip(demos, request.rollouts(request.task or "lift"), strict=True):
            demo = data.create_group(name)
            write_tree(demo, _demo(rollout, request, options), gzip=4 if options.gzip else None)
            attributes: dict[str, Any] = {names.ATTR_NUM_SAMPLES: rollout.length}
            if options.states and options.environment == "robosuite":
                attributes[names.ATTR_MODEL_FILE] = mjcf.cubes_model(rollout.scene)
            if options.success:
                attributes[names.ATTR_SUCCESS] = int(rollout.success)
            write_attributes(demo, attributes)
            total += rollout.length
        write_attributes(data, {names.ATTR_ENV_ARGS: json.dumps(env_args(request, options), indent=4)})
        if options.image_convention is not None:
            data.attrs[names.ATTR_IMAGE_CONVENTION] = options.image_convention
        data.attrs[names.ATTR_TOTAL] = total
        if options.masks:
            _write_masks(handle, demos)
    return path


def env_args(request: Request, options: RobomimicOptions) -> dict[str, Any]:
    """The object that robomimic stores as `env_args` (type 1 = robosuite, 2 = gym)."""
    if options.environment == "isaaclab":
        return {"env_name": isaaclab.ENVIRONMENTS["lift"], "type": names.ENV_TYPE_GYM, "env_kwargs": {}}
    kwargs = {
        "has_renderer": False,
        "has_offscreen_renderer": False,
        "ignore_done": True,
        "use_object_obs": True,
        "use_camera_obs": False,
        "control_freq": request.fps,
        "controller_configs": CONTROLLER,
        "robots": ["Panda"],
        "camera_depths": False,
        "camera_heights": 84,
        "camera_widths": 84,
        "reward_shaping": False,
    }
    return {"env_name": "Lift", "env_version": "1.4.1", "type": 1, "env_kwargs": kwargs}


def delta_actions(rollout: Rollout) -> Array:
    """(T, 7) float64 OSC actions in [-1, 1]: robosuite's gripper closes at +1."""
    steps = rollout.delta_pose() / ([POSITION_STEP] * 3 + [ROTATION_STEP] * 3)
    return np.concatenate((np.clip(steps, -1.0, 1.0), -rollout.grip[:, None]), axis=1)


def _demo(rollout: Rollout, request: Request, options: RobomimicOptions) -> dict[str, Any]:
    gym = options.environment == "isaaclab"
    acts = _gym_actions(rollout, options) if gym else delta_actions(rollout)
    tree: dict[str, Any] = {names.DATASET_ACTIONS: acts}
    if not gym:
        tree["dones"] = np.eye(1, rollout.length, rollout.length - 1, dtype=np.int64)[0]
    if options.next_obs:
        tree["next_obs"] = _obs(rollout, slice(1, None), request, options)
    tree[names.GROUP_OBS] = _obs(rollout, slice(0, rollout.length), request, options)
    if not gym:
        tree["rewards"] = float(rollout.success) * np.eye(1, rollout.length, rollout.length - 1)[0]
    if options.states and not gym:
        tree["states"] = mjcf.states(rollout)[:-1]
    if options.roboturk:
        tree |= _roboturk(rollout, request.seed)
    return tree


def _gym_actions(rollout: Rollout, options: RobomimicOptions) -> Array:
    return isaaclab.actions(rollout, "lift", xyzw=options.quaternion_order == "xyzw").astype(np.float64)


def _obs(rollout: Rollout, rows: slice, request: Request, options: RobomimicOptions) -> dict[str, Any]:
    gym = options.environment == "isaaclab"
    terms: dict[str, Any] = _gym_terms(rollout, rows, options) if gym else _robosuite_terms(rollout, rows)
    films: dict[str, Film] = request.films(
        rollout, rows, CAMERAS, top_first=options.image_convention != "opengl"
    )
    return dict(sorted((terms | films).items()))


def _robosuite_terms(rollout: Rollout, rows: slice) -> dict[str, Array]:
    joints, velocity = rollout.joints[rows], rollout.velocity(rollout.joints)[rows]
    fingers = mjcf.finger_positions(rollout)
    base = np.asarray(mjcf.ROBOT_BASE)
    cube, eef = rollout.object_pos[rows, 0], rollout.eef_pos[rows]
    return {
        "object": np.concatenate((cube + base, rollout.object_quat[rows, 0], eef - cube), axis=1),
        "robot0_eef_pos": eef + base,
        "robot0_eef_quat": rollout.eef_quat[rows],
        "robot0_eef_vel_ang": rollout.angular_velocity(rollout.eef_quat)[rows],
        "robot0_eef_vel_lin": rollout.velocity(rollout.eef_pos)[rows],
        "robot0_gripper_qpos": fingers[rows],
        "robot0_gripper_qvel": rollout.velocity(fingers)[rows],
        "robot0_joint_pos": joints,
        "robot0_joint_pos_cos": np.cos(joints),
        "robot0_joint_pos_sin": np.sin(joints),
        "robot0_joint_vel": velocity,
    }


def _gym_terms(rollout: Rollout, rows: slice, options: RobomimicOptions) -> dict[str, Array]:
    """IsaacLab's lift terms under robosuite's names, in double precision, positions in the root frame."""
    joints = np.concatenate((rollout.joints, np.repeat(rollout.fingers[:, None], 2, axis=1)), axis=1)
    before = np.concatenate((np.zeros((1, 8)), _gym_actions(rollout, options)))
    xyzw = options.quaternion_order == "xyzw"
    cube, hand = rollout.object_quat[rows, 0], rollout.eef_quat[rows]
    return {
        "cube_pos": rollout.object_pos[rows, 0],
        "cube_quat": cube if xyzw else xyzw_to_wxyz(cube),
        "last_action": before[rows],
        "robot0_eef_pos": rollout.eef_pos[rows],
        "robot0_eef_quat": hand if xyzw else xyzw_to_wxyz(hand),
        "robot0_gripper_qpos": mjcf.finger_positions(rollout)[rows],
        "robot0_joint_pos": (joints - np.asarray(isaaclab.DEFAULT_JOINTS))[rows],
        "robot0_joint_vel": rollout.velocity(joints)[rows],
    }


def _write_masks(handle: h5py.File, demos: list[str]) -> None:
    """`train` and `valid` as fixed-length byte strings; every tenth demo, and the last, is for validation."""
    valid = [name for index, name in enumerate(demos) if index % 10 == 9 or index == len(demos) - 1]
    train = [name for name in demos if name not in valid]
    mask = handle.create_group(names.GROUP_MASK)
    mask.create_dataset(names.MASK_TRAIN, data=np.array(train or valid, dtype="S"))
    mask.create_dataset(names.MASK_VALID, data=np.array(valid if train else [], dtype="S8"))


def _roboturk(rollout: Rollout, seed: int) -> dict[str, Any]:
    """RoboTurk's own logs run at the phone's rate, not the simulator's."""
    ticks = 2 * rollout.length + 13
    rng = np.random.default_rng([seed, rollout.length, 5])
    clock = np.cumsum(rng.uniform(0.008, 0.03, ticks))
    touch = np.repeat(rollout.grip < 0, 2)
    grasp = np.concatenate((touch, np.full(ticks - touch.size, bool(touch[-1]))))
    return {
        "controller_info": {
            "counters": np.arange(ticks),
            "enabled": np.ones((ticks, 1), dtype=bool),
            "user_timestamps": 1627325457.0 + clock[:, None],
        },
        "interventions": np.zeros((rollout.length, 1), dtype=bool),
        "policy_acting": np.zeros(rollout.length, dtype=bool),
        "user_acting": np.ones((rollout.length, 1), dtype=bool),
        "user_info": {"0": {"dpos": rng.normal(0, 0.002, (ticks, 3)), "grasp": grasp, "timestamp": clock}},
    }
