"""Faults of values: what is in the arrays.

What is not here: shapes, dtypes and layout (`structure`), images (`pictures`).
"""

from __future__ import annotations

from itertools import pairwise

import h5py
import numpy as np

from trajpipe.core import names
from trajpipe.core.errors import InputError
from trajpipe.core.quaternions import xyzw_to_wxyz
from trajpipe.testing import isaaclab
from trajpipe.testing.defects.registry import Injection, Opened, defect

_WITH_OBS = ("isaaclab", "robomimic", "libero")


@defect("nan-action", "one NaN in the actions of one demo")
def nan_action(opened: Opened) -> Injection:
    """One value of one action becomes NaN."""
    return _poison(opened, opened.a_demo(), names.DATASET_ACTIONS, np.nan)


@defect("inf-action", "one infinity in the actions of one demo")
def inf_action(opened: Opened) -> Injection:
    """One value of one action becomes infinite."""
    return _poison(opened, opened.a_demo(), names.DATASET_ACTIONS, np.inf)


@defect("inf-obs", "one infinity in a float term of one demo (in the states where there is no obs)")
def inf_obs(opened: Opened) -> Injection:
    """One value of one term becomes infinite."""
    demo = opened.a_demo()
    return _poison(opened, demo, _a_term(opened, demo), -np.inf)


@defect("nan-obs", "one NaN in a float term of one demo (in the states where there is no obs)")
def nan_obs(opened: Opened) -> Injection:
    """One value of one term becomes NaN."""
    demo = opened.a_demo()
    return _poison(opened, demo, _a_term(opened, demo), np.nan)


@defect("actions-out-of-range", "every action is 1.5 times what was commanded, beyond [-1, 1]")
def actions_out_of_range(opened: Opened) -> Injection:
    """All actions are scaled; the gripper's ±1 becomes ±1.5."""
    for demo in opened.demos():
        demo[names.DATASET_ACTIONS][...] = demo[names.DATASET_ACTIONS][...] * 1.5
    return opened.hit(path=names.DATASET_ACTIONS, detail="actions * 1.5")


@defect(
    "constant-actions",
    "every action of one demo is the same: the recorder had lost the controller",
)
def constant_actions(opened: Opened) -> Injection:
    """The first action is repeated over the demo."""
    demo = opened.a_demo()
    demo[names.DATASET_ACTIONS][...] = demo[names.DATASET_ACTIONS][:1]
    return opened.hit(demo, names.DATASET_ACTIONS, row=0)


@defect(
    "obs-actions-conflict",
    "`obs/actions` is two wider than the top-level `actions`",
    kinds=_WITH_OBS,
    needs=("obs",),
)
def obs_actions_conflict(opened: Opened) -> Injection:
    """Every demo with an obs group gets a wider `obs/actions`, one step behind."""
    for demo in opened.demos():
        if not isinstance(demo.get(names.GROUP_OBS), h5py.Group):
            raise InputError("the defect needs obs terms", got=opened.name)
        actions = demo[names.DATASET_ACTIONS][...]
        behind = np.concatenate((np.zeros_like(actions[:1]), actions[:-1]))
        wide = np.concatenate((behind, np.zeros((len(actions), 2), dtype=actions.dtype)), axis=1)
        if names.DATASET_ACTIONS in demo[names.GROUP_OBS]:
            del demo[names.GROUP_OBS][names.DATASET_ACTIONS]
        demo[names.GROUP_OBS].create_dataset(names.DATASET_ACTIONS, data=wide)
    return opened.hit(path="obs/actions", detail=f"width {wide.shape[1]} beside {actions.shape[1]}")


@defect(
    "legacy-quaternions",
    "every quaternion is scalar first and `format_version` is missing, as IsaacLab before 3.0 writes",
    kinds=("isaaclab",),
)
def legacy_quaternions(opened: Opened) -> Injection:
    """A file of format version 1 becomes a legacy one, whole."""
    if opened.handle.attrs.get(names.ATTR_FORMAT_VERSION) != 1:
        raise InputError("the defect needs a file of format_version 1", got=opened.name)
    _reorder(opened)
    del opened.handle.attrs[names.ATTR_FORMAT_VERSION]
    return opened.hit(path=f"@{names.ATTR_FORMAT_VERSION}", detail="wxyz")


@defect(
    "mislabelled-quaternions",
    "quaternions are scalar first although `format_version` is 1: a conversion was forgotten",
    kinds=("isaaclab",),
)
def mislabelled_quaternions(opened: Opened) -> Injection:
    """Only the data change, the label stays."""
    _reorder(opened)
    return opened.hit(detail="wxyz under format_version 1")


@defect(
    "zero-quaternion",
    "one end-effector quaternion is all zeros",
    kinds=("isaaclab", "robomimic"),
    needs=("obs",),
)
def zero_quaternion(opened: Opened) -> Injection:
    """A quaternion without a direction, as a lost tracker gives."""
    demo = opened.a_demo()
    path = next(p for p in ("obs/eef_quat", "obs/robot0_eef_quat") if p in demo)
    row = opened.a_row(demo[path])
    demo[path][row] = 0.0
    return opened.hit(demo, path, row=row)


@defect(
    "stale-first-frame",
    "the first obs row of every demo but the first is the previous demo's last",
    kinds=_WITH_OBS,
    needs=("obs",),
)
def stale_first_frame(opened: Opened) -> Injection:
    """A recorder that reads its buffer before the reset has gone through."""
    demos = opened.demos()
    for before, demo in pairwise(demos):
        paths = opened.float_terms(demo) + opened.image_terms(demo)
        for path in (p for p in paths if p.startswith(names.GROUP_OBS)):
            demo[path][0] = before[path][-1]
    if len(demos) < 2 or names.GROUP_OBS not in demos[1]:
        raise InputError("the defect needs two demos with obs", got=opened.name)
    return opened.hit(demos[1], names.GROUP_OBS, row=0)


@defect("duplicate-demo", "the last demo repeats the first, value for value")
def duplicate_demo(opened: Opened) -> Injection:
    """An episode that was saved twice."""
    demos = opened.demos()
    first, last = demos[0], demos[-1]
    name = str(last.name)
    del opened.handle[name]
    opened.handle.copy(first, name)
    _recount(opened)
    return opened.hit(opened.handle[name], detail=f"copy of {str(first.name).rsplit('/', 1)[-1]}")


@defect("shifted-obs", "joint observations of every demo lie one row late", kinds=("libero",), needs=("obs",))
def shifted_obs(opened: Opened) -> Injection:
    """The pairing of obs and states that the format promises no longer holds."""
    for demo in opened.demos():
        joints = demo["obs/joint_states"][...]
        demo["obs/joint_states"][...] = np.concatenate((joints[:1], joints[:-1]))
    return opened.hit(path="obs/joint_states", detail="one row late")


def _poison(opened: Opened, demo: h5py.Group, path: str, value: float) -> Injection:
    dataset = demo[path]
    row = opened.a_row(dataset)
    rows = dataset[row]
    rows[int(opened.rng.integers(rows.size))] = value
    dataset[row] = rows
    return opened.hit(demo, path, row=row, detail=str(value))


def _a_term(opened: Opened, demo: h5py.Group) -> str:
    terms = opened.float_terms(demo)
    return terms[int(opened.rng.integers(len(terms)))]


def _reorder(opened: Opened) -> None:
    for demo in opened.demos():
        for path, starts in isaaclab.quaternion_spans(demo).items():
            values = demo[path][...]
            for start in starts:
                values[..., start : start + 4] = xyzw_to_wxyz(values[..., start : start + 4])
            demo[path][...] = values


def _recount(opened: Opened) -> None:
    if names.ATTR_TOTAL in opened.data.attrs:
        total = sum(int(demo[names.DATASET_ACTIONS].shape[0]) for demo in opened.demos())
        opened.data.attrs[names.ATTR_TOTAL] = total
