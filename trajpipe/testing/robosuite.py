"""Raw robosuite collections (`collect_human_demonstrations`): states and actions from `demo_1`, no obs.

What is not here: what robomimic makes of them, see `trajpipe.testing.robomimic`.
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
from trajpipe.testing import mjcf
from trajpipe.testing.layout import write_attributes, write_tree
from trajpipe.testing.request import Request
from trajpipe.testing.robomimic import CONTROLLER, delta_actions

ENVIRONMENTS: Final = {"lift": "Lift", "stack": "Stack", "place": "PickPlace", "pull": "Door"}
_OBJECTS: Final = {"lift": 1, "stack": 2, "place": 2, "pull": 2}
MODELS: Final = "models"


@dataclass(frozen=True, slots=True, kw_only=True)
class RobosuiteOptions:
    """Options of a generated `robosuite` recording.

    Attributes:
        model: `inline` (the XML in the attribute, since 1.3), `name` (a file name in it, the file beside the
            recording in `models/`, 2020 style) or `none`.
        joint_torques: Add `joint_torques`, as old collections have.
        env_info: Write `env_info`.
    """

    model: Literal["inline", "name", "none"] = "inline"
    joint_torques: bool = False
    env_info: bool = True


def write(path: Path, request: Request, options: RobosuiteOptions) -> Path:
    """Write a collection; returns its path."""
    task = request.task or "lift"
    with h5py.File(path, "w") as handle:
        data = handle.create_group(names.GROUP_DATA)
        rollouts = request.rollouts(task, objects=_OBJECTS[task])
        for name, rollout in zip(request.demo_names(first=1), rollouts, strict=True):
            demo = data.create_group(name)
            model = mjcf.cubes_model(rollout.scene)
            if options.model == "name":
                file_name = f"model_{name.removeprefix(names.DEMO_PREFIX)}.xml"
                (path.parent / MODELS).mkdir(exist_ok=True)
                (path.parent / MODELS / file_name).write_text(model)
                model = file_name
            if options.model != "none":
                demo.attrs[names.ATTR_MODEL_FILE] = model
            tree: dict[str, Any] = {names.DATASET_ACTIONS: delta_actions(rollout)}
            if options.joint_torques:
                tree["joint_torques"] = _torques(rollout.joints[:-1])
            tree["states"] = mjcf.states(rollout)[:-1]
            write_tree(demo, tree)
        write_attributes(
            data,
            {
                "date": "11-16-2022",
                "time": "14:13:58",
                "repository_version": "1.4.0" if options.model == "inline" else "1.0.0",
                "env": ENVIRONMENTS[task],
            },
        )
        if options.env_info:
            info = {"env_name": ENVIRONMENTS[task], "robots": "Panda", "controller_configs": CONTROLLER}
            data.attrs["env_info"] = json.dumps(info)
    return path


def _torques(joints: NDArray[Any]) -> NDArray[Any]:
    """(T, 7) Nm that hold the arm up: largest at the shoulder."""
    load = np.array([0.0, -28.0, 0.0, 18.0, 0.0, 2.0, 0.0])
    return np.asarray(load * np.cos(joints))
