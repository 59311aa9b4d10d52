"""Recordings as LIBERO's `create_dataset.py` writes them, of the goal suite's tabletop.

obs[t] follows actions[t] (`joint_states[t] == states[t + 1][1:8]`), states[t] precedes it; images have the
bottom row first; rewards and dones end in 1 whatever happened.
What is not here: the joint remap.
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
from trajpipe.testing import kinematics, mjcf
from trajpipe.testing.layout import write_attributes, write_tree
from trajpipe.testing.motion import Rollout, Task
from trajpipe.testing.request import Request
from trajpipe.testing.robomimic import CONTROLLER, delta_actions

Array = NDArray[Any]

CAMERAS: Final = ("agentview_rgb", "eye_in_hand_rgb")
CAMERA_SUFFIX: Final = "_rgb"
IMAGE_SIZE: Final = 128
LANGUAGE: Final[dict[Task, tuple[str, str]]] = {
    "place": ("put_the_bowl_on_the_plate", "put the bowl on the plate"),
    "pull": ("open_the_middle_drawer_of_the_cabinet", "open the middle layer of the drawer"),
    "lift": ("pick_up_the_bowl", "pick up the bowl"),
    "stack": ("put_the_bowl_on_the_cream_cheese", "put the bowl on the cream cheese"),
}
"""Task → file name without `_demo.hdf5`, and instruction; the first two are the goal suite's own words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiberoOptions:
    """Options of a generated `libero` recording.

    Attributes:
        language: Instruction; the task's own when None.
        released: True has `tag` and no `bddl_file_content`, as released files; False the opposite, as the
            public script writes.
        image_convention: `macros_image_convention`; `opencv` stores the top row first, None leaves it out.
        gzip: Deflate images frame by frame.
    """

    language: str | None = None
    released: bool = True
    image_convention: str | None = "opengl"
    gzip: bool = False


def file_name(task: Task) -> str:
    """Name that LIBERO gives a task's recording."""
    return f"{LANGUAGE[task][0]}_demo.hdf5"


def write(path: Path, request: Request, options: LiberoOptions) -> Path:
    """Write a recording; returns its path."""
    task: Task = request.task or "place"
    total = 0
    with h5py.File(path, "w") as handle:
        data = handle.create_group(names.GROUP_DATA)
        for name, rollout in zip(request.demo_names(), request.rollouts(task, tabletop=True), strict=True):
            states = mjcf.states(rollout, fixtures=True)
            demo = data.create_group(name)
            write_tree(demo, _demo(rollout, states))
            _write_images(demo, rollout, request, options)
            write_attributes(
                demo,
                {
                    names.ATTR_NUM_SAMPLES: rollout.length,
                    names.ATTR_MODEL_FILE: mjcf.tabletop_model(rollout.scene),
                    "init_state": states[0],
                },
            )
            total += rollout.length
        write_attributes(data, _attributes(task, request, options) | {names.ATTR_TOTAL: total})
    return path


def _demo(rollout: Rollout, states: Array) -> dict[str, Any]:
    after = slice(1, None)
    last = np.eye(1, rollout.length, rollout.length - 1, dtype=np.uint8)[0]
    position = rollout.eef_pos[after] + mjcf.ROBOT_BASE
    turn = _unrolled(kinematics.rotation_vector(rollout.eef_quat[after]))
    fingers = mjcf.finger_positions(rollout)[after]
    return {
        names.DATASET_ACTIONS: delta_actions(rollout),
        "states": states[:-1],
        "robot_states": np.concatenate((fingers, position, rollout.eef_quat[after]), axis=1),
        "rewards": last,
        "dones": last,
        names.GROUP_OBS: {
            "gripper_states": fingers,
            "joint_states": rollout.joints[after],
            "ee_states": np.concatenate((position, turn), axis=1),
            "ee_pos": position,
            "ee_ori": turn,
        },
    }


def _unrolled(turn: Array) -> Array:
    """Rotation vectors near a half turn jump between v and its mirror image: keep the one with positive x."""
    angle = np.linalg.norm(turn, axis=1, keepdims=True)
    mirrored = turn * (1.0 - 2.0 * np.pi / np.maximum(angle, 1e-9))
    return np.asarray(np.where(turn[:, :1] < 0, mirrored, turn))


def _write_images(demo: h5py.Group, rollout: Rollout, request: Request, options: LiberoOptions) -> None:
    films = request.films(rollout, slice(1, None), CAMERAS, top_first=options.image_convention == "opencv")
    write_tree(demo[names.GROUP_OBS], films, gzip=4 if options.gzip else None)


def _attributes(task: Task, request: Request, options: LiberoOptions) -> dict[str, Any]:
    stem, usual = LANGUAGE[task]
    language = options.language if options.language is not None else usual
    bddl = f"{mjcf.AUTHOR}/libero/libero/bddl_files/libero_goal/{stem}.bddl"
    problem = "libero_tabletop_manipulation"
    size = request.image_size if isinstance(request.image_size, int) else max(request.image_size.values())
    kwargs = {
        "robots": ["Panda"],
        "controller_configs": CONTROLLER,
        "bddl_file_name": bddl,
        "has_renderer": False,
        "has_offscreen_renderer": True,
        "ignore_done": True,
        "use_camera_obs": True,
        "camera_depths": False,
        "camera_names": ["robot0_eye_in_hand", "agentview"],
        "reward_shaping": True,
        "control_freq": request.fps,
        "camera_heights": size,
        "camera_widths": size,
        "camera_segmentations": None,
    }
    env = {
        "type": 1,
        "env_name": "Libero_Tabletop_Manipulation",
        "problem_name": problem,
        "bddl_file": bddl,
        "env_kwargs": kwargs,
    }
    info = {"problem_name": problem, "domain_name": "robosuite", "language_instruction": language}
    attributes: dict[str, Any] = {
        "env_name": env["env_name"],
        "problem_info": json.dumps(info),
        "bddl_file_name": bddl,
        names.ATTR_ENV_ARGS: json.dumps(env),
        "num_demos": request.episodes,
    }
    if options.image_convention is not None:
        attributes[names.ATTR_IMAGE_CONVENTION] = options.image_convention
    if options.released:
        attributes["tag"] = "libero-v1"
    else:
        attributes["bddl_file_content"] = _bddl(language)
    return attributes


def _bddl(language: str) -> str:
    """The task's definition in the planning language, as short as its grammar allows."""
    return f"""(define (problem LIBERO_Tabletop_Manipulation)
  (:domain robosuite)
  (:language {language})
  (:fixtures
    main_table - table
    wooden_cabinet_1 - wooden_cabinet
    flat_stove_1 - flat_stove
  )
  (:objects
    akita_black_bowl_1 - akita_black_bowl
    cream_cheese_1 - cream_cheese
    wine_bottle_1 - wine_bottle
    plate_1 - plate
  )
  (:goal
    (And (On akita_black_bowl_1 plate_1))
  )
)
"""
