"""Episodes with every kind of column, and a small L2 file of them, for the tests of L2.

What is not here: realistic motion, see `trajpipe.testing`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core.episode import ArrayColumn, Column, Episode
from trajpipe.demos.writer import DemosWriter

ENV_ARGS: Final = {"env_name": "Lift", "type": 2, "env_kwargs": {"control_freq": 20}}
RECIPE: Final = {
    "dataset": "lift",
    "options": {"conventions": {"quaternions": [{"path": "*_quat", "starts": [0], "order": None}]}},
}
SHA: Final = "ab" * 32
ROOT_POSE: Final = np.array([[1, 2, 3, 0, 0, 0, 1]], np.float32)


def column(array: NDArray[Any]) -> Column:
    """A column over an array."""
    return ArrayColumn(array)


def unit_quaternions(rng: np.random.Generator, rows: int) -> NDArray[np.float32]:
    """(rows, 4) random unit quaternions."""
    q = rng.normal(size=(rows, 4))
    return np.asarray(q / np.linalg.norm(q, axis=1, keepdims=True), dtype=np.float32)


def episode(index: int = 0, length: int = 20, **changes: Any) -> Episode:
    """A whole episode `demo_<index>`; keyword arguments replace its fields."""
    rng = np.random.default_rng(index)
    columns: dict[str, NDArray[Any]] = {
        "actions": rng.uniform(-1, 1, (length, 7)).astype(np.float32),
        "obs/joint_pos": rng.normal(size=(length, 9)).astype(np.float32),
        "obs/eef_quat": unit_quaternions(rng, length),
        "obs/front_rgb": rng.integers(0, 60, (length, 24, 20, 3)).astype(np.uint8),
        "obs/datagen_info/grasp": rng.random(length) > 0.5,
        "states/articulation/robot/joint_position": rng.normal(size=(length, 9)).astype(np.float32),
        "rewards": rng.random(length),
    }
    fields: dict[str, Any] = {
        "name": f"demo_{index}",
        "length": length,
        "columns": {path: ArrayColumn(a) for path, a in columns.items()},
        "extras": {"initial_state/articulation/robot/root_pose": ArrayColumn(ROOT_POSE)},
        "attributes": {"model_file": "<mujoco/>", "init_state": np.arange(5.0)},
        "success": True,
        "seed": 7,
        "task": "lift the cube",
        "tag": "teleop",
        "alignment": "before_action",
        "source_file": "recorded.hdf5",
        "source_demo": f"demo_{index}",
        "source_sha256": SHA,
        "split": "valid" if index == 1 else "train",
    }
    return Episode(**(fields | changes))


def replaced(one: Episode, arrays: Mapping[str, NDArray[Any]]) -> Episode:
    """The episode with some columns replaced or added."""
    return one.with_columns({**one.columns, **{p: ArrayColumn(a) for p, a in arrays.items()}})


def written(path: Path, *episodes: Episode, **options: Any) -> Path:
    """An L2 file of the episodes (three by default); keyword arguments go to the writer."""
    arguments: dict[str, Any] = {"env_args": ENV_ARGS, "recipe": RECIPE} | options
    with DemosWriter(path, **arguments) as writer:
        for one in episodes or tuple(episode(i, 12 + 7 * i) for i in range(3)):
            writer.write(one)
    return path
