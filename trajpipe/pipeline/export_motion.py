"""What a LeRobot export of motions is called: joints by their names, the robot by its own.

What is not here: the export, see `export_lerobot.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from trajpipe.core import names
from trajpipe.demos.reader import DemosFile

STATE: Final = ("joint_pos", "root_pos", "root_quat")
_UNKNOWN: Final = "unknown"
_ROOT: Final = {
    "root_pos": ("root_pos_x", "root_pos_y", "root_pos_z"),
    "root_quat": ("root_quat_x", "root_quat_y", "root_quat_z", "root_quat_w"),
}


def with_motion_names(options: Mapping[str, Any], inputs: Sequence[Path]) -> dict[str, Any]:
    """Export options with a motion's state, dimension names and robot type where nothing is declared.

    L2 files that are not all motions of one robot leave the options as they are. The state of a motion is
    joint angles and root pose.

    Args:
        options: Keyword arguments of `trajpipe.export.ExportOptions`.
        inputs: L2 files.
    """
    first = _motion_of(inputs[0]) if inputs else None
    if first is None or any(_motion_of(path) != first for path in inputs[1:]):
        return dict(options)
    joints, robot = first
    named = {"joint_pos": joints, names.DATASET_ACTIONS: joints, **_ROOT, **options.get("names", {})}
    declared, state = options.get("robot_type", _UNKNOWN), options.get("state")
    return {
        **options,
        "names": named,
        "state": STATE if state is None else state,
        "robot_type": robot if declared == _UNKNOWN else declared,
    }


def _motion_of(path: Path) -> tuple[tuple[str, ...], str] | None:
    """(joint names, robot) of an L2 file of motions; None of any other."""
    with DemosFile(path) as demos:
        env_args = demos.env_args
        terms = next((set(episode.columns) for episode in demos.episodes()), set())
    named = {f"{names.GROUP_OBS}/{term}" for term in STATE} <= terms
    if env_args.get("actions") != names.ACTIONS_ARE_NEXT_JOINT_POS or not named:
        return None
    kwargs = env_args.get("env_kwargs", {})
    joints = kwargs.get("joint_names")
    if not isinstance(joints, list) or not all(isinstance(n, str) for n in joints):
        return None
    return tuple(joints), str(kwargs.get("robot", _UNKNOWN))
