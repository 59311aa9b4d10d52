"""Telling the four HDF5 kinds of the `/data/demo_<i>` family apart, so that exactly one source claims a file.

What is not here: reading any of them, see the module of each kind.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import h5py

from trajpipe.core import names
from trajpipe.core.errors import TrajpipeError
from trajpipe.core.signatures import looks_like_hdf5
from trajpipe.hdf5 import attributes
from trajpipe.hdf5.files import open_hdf5
from trajpipe.sources.recording import OLD_LAYOUT, demo_names

ISAACLAB: Final = "isaaclab"
ROBOMIMIC: Final = "robomimic"
ROBOSUITE: Final = "robosuite"
LIBERO: Final = "libero"
LAFAN: Final = "lafan"


def kind_of(path: Path) -> str | None:
    """The kind of a recording; None when it is none of ours or cannot be opened.

    A file without any demo is `isaaclab`'s unless its attributes say otherwise (its recorder leaves such
    files), so that the reason, and not "unknown kind", reaches the user.
    """
    try:
        status = path.stat()
        return _kind_of(path, status.st_mtime_ns, status.st_size, status.st_ino)
    except OSError:
        return None


@lru_cache(maxsize=64)
def _kind_of(path: Path, _modified_ns: int, _size: int, _inode: int) -> str | None:
    if not path.is_file() or not looks_like_hdf5(path):
        return None
    try:
        with open_hdf5(path) as handle:
            return _kind(handle)
    except (TrajpipeError, OSError, RuntimeError, KeyError, ValueError, TypeError):
        return None


def _kind(handle: h5py.File) -> str | None:
    if names.GROUP_DATA not in handle:
        return ISAACLAB if OLD_LAYOUT in handle else None
    data = handle[names.GROUP_DATA]
    if not isinstance(data, h5py.Group):
        return None
    demos = demo_names(data)
    first = data[demos[0]] if demos else None
    if names.ATTR_TRAJPIPE in data.attrs:
        return ISAACLAB
    if _is_libero(data, first):
        return LIBERO
    if _is_raw_robosuite(data, first):
        return ROBOSUITE
    if first is None:
        return ROBOMIMIC if _env_args(data).get("type") in (1, 3) else ISAACLAB
    if _is_isaaclab(handle, data, first):
        return ISAACLAB
    return ROBOMIMIC if names.DATASET_ACTIONS in first or names.GROUP_OBS in first else None


def _is_libero(data: h5py.Group, first: h5py.Group | None) -> bool:
    told = "bddl_file_name" in data.attrs or "problem_info" in data.attrs
    raw_teleoperation = "env_info" in data.attrs and (first is None or names.GROUP_OBS not in first)
    return told and not raw_teleoperation


def _is_raw_robosuite(data: h5py.Group, first: h5py.Group | None) -> bool:
    """Raw collections have `env_info` or `env`; robomimic's converter adds `env_args` to them in place."""
    if names.ATTR_ENV_ARGS in data.attrs:
        return False
    if "env_info" in data.attrs:
        return True
    if first is None or names.GROUP_OBS in first:
        return False
    return "env" in data.attrs or names.ATTR_MODEL_FILE in first.attrs


def _is_isaaclab(handle: h5py.File, data: h5py.Group, first: h5py.Group) -> bool:
    if names.ATTR_FORMAT_VERSION in handle.attrs or "initial_state" in first:
        return True
    if isinstance(first.get("states"), h5py.Group):
        return True
    # IsaacLab's recorder writes none of these; robomimic's form has them.
    if names.ATTR_MODEL_FILE in first.attrs or any(
        n in first for n in ("states", "rewards", "dones", "next_obs")
    ):
        return False
    args = _env_args(data)
    gym = args.get("type") == names.ENV_TYPE_GYM or str(args.get("env_name", "")).startswith("Isaac-")
    return gym or (not args and names.ATTR_SUCCESS in first.attrs)


def _env_args(data: h5py.Group) -> Mapping[str, Any]:
    """Whatever can be read of env_args; empty when it is not a JSON object."""
    text = attributes.text(data, names.ATTR_ENV_ARGS)
    try:
        value = json.loads(text or "")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
