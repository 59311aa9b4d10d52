"""Motion libraries in pickle or joblib files: clip → root_trans_offset, pose_aa, dof, root_rot, fps.

Read by `trajpipe.core.pickles`, which runs nothing. What is not here: what a clip becomes, see `lafan.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core.errors import InputError
from trajpipe.core.findings import Finding, Place, Severity
from trajpipe.core.order import natural_sorted
from trajpipe.core.pickles import read_pickle
from trajpipe.motion.g1 import JOINTS, JOINTS_23, g1
from trajpipe.motion.rotations import conjugate, multiply, normalised, of_rotation_vector, to_rotation_vector
from trajpipe.sources.motion_clips import MotionOptions, RawClip, joint_set, rate_from

_POSITION: Final = "root_trans_offset"
_POSE: Final = "pose_aa"
_USED: Final = (_POSITION, _POSE, "dof", "root_rot", "fps")
# Rows of pose_aa: the root, 29 joints; the root, 23 joints, with or without hands and head.
_POSE_JOINTS: Final = {30: len(JOINTS), 24: len(JOINTS_23), 27: len(JOINTS_23)}
_AGREEMENT: Final = 1e-4


def is_library(value: Any) -> bool:
    """True for a mapping of clips."""
    return (
        isinstance(value, dict)
        and bool(value)
        and all(isinstance(c, dict) and _POSITION in c and (_POSE in c or "dof" in c) for c in value.values())
    )


def read_library(path: Path, options: MotionOptions) -> list[RawClip]:
    """All clips in natural order of their names.

    Raises:
        UnreadableError: it cannot be read.
        UntrustedError: it names anything but arrays and containers.
        InputError: it is no motion library, or a clip's arrays do not fit together.
    """
    value = read_pickle(path)
    if not is_library(value):
        raise InputError(
            "a motion library maps clip names to root_trans_offset and pose_aa",
            place=path.name,
            got=_shape_of(value),
            code="not-a-motion-library",
        )
    return [
        _clip(str(name), value[name], options, Place(path.name, str(name))) for name in natural_sorted(value)
    ]


def _shape_of(value: Any) -> str:
    if isinstance(value, dict):
        return f"a dict of {', '.join(str(k) for k in list(value)[:6])}"
    return type(value).__name__


def _clip(name: str, clip: Mapping[str, Any], options: MotionOptions, place: Place) -> RawClip:
    position = _array(clip, _POSITION, (3,), place)
    count = len(position)
    pose = _pose(clip, count, place)
    dof = _array(clip, "dof", None, place) if "dof" in clip else None
    width = _width(pose, dof, options, place)
    joints = joint_set(width, options, place)
    findings = _disagreements(clip, pose, dof, joints, place)
    if pose is not None:
        quaternion = of_rotation_vector(pose[:, 0])
        angles = pose[:, 1 : 1 + width].sum(axis=2)
    else:
        quaternion = _array(clip, "root_rot", (4,), place)
        angles = dof if dof is not None else np.empty((count, 0))
    lengths = {"root_trans_offset": count, "root_rot": len(quaternion), "dof": len(angles)}
    if len(set(lengths.values())) != 1:
        raise InputError("a clip's arrays have one length", place=place, got=lengths, code="ragged")
    left_out = tuple(natural_sorted(str(k) for k in set(clip) - set(_USED)))
    fps = rate_from(clip["fps"], place) if "fps" in clip else None
    return RawClip(name, fps, position, quaternion, joints, angles, tuple(findings), left_out)


def _array(
    clip: Mapping[str, Any], key: str, trailing: tuple[int, ...] | None, place: Place
) -> NDArray[np.float64]:
    """A float array (n, *trailing) of a clip."""
    value = clip.get(key)
    fits = isinstance(value, np.ndarray) and value.dtype.kind in "fiu"
    if fits and value is not None:
        fits = value.ndim == 2 if trailing is None else value.shape[1:] == trailing
    if not fits:
        got = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
        expected = "(n, joints)" if trailing is None else f"(n, {', '.join(map(str, trailing))})"
        where = Place(place.file, place.demo, key)
        raise InputError(
            "a clip's array has another form", place=where, got=got, expected=expected, code="bad-clip"
        )
    return np.asarray(value, np.float64)


def _pose(clip: Mapping[str, Any], count: int, place: Place) -> NDArray[np.float64] | None:
    value = clip.get(_POSE)
    if value is None:
        return None
    good = (
        isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.ndim == 3 and value.shape[2] == 3
    )
    if not good or len(value) != count:
        got = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
        where = Place(place.file, place.demo, _POSE)
        raise InputError(
            "pose_aa is axis-angle of root and bodies",
            place=where,
            got=got,
            expected=f"({count}, bodies, 3)",
            code="bad-clip",
        )
    return np.asarray(value, np.float64)


def _width(
    pose: NDArray[np.float64] | None, dof: NDArray[np.float64] | None, options: MotionOptions, place: Place
) -> int:
    """How many joints a clip has: dof's columns, else declared, else known by pose_aa's rows."""
    if dof is not None:
        width = int(dof.shape[1])
    elif options.joints is not None:
        width = len(options.joints)
    else:
        rows = 0 if pose is None else pose.shape[1]
        width = _POSE_JOINTS.get(rows, max(0, rows - 1))
    if pose is not None and pose.shape[1] < 1 + width:
        got = f"{pose.shape[1]} rows"
        raise InputError(
            "pose_aa has a row for the root and each joint", place=place, got=got, expected=1 + width
        )
    return width


def _disagreements(
    clip: Mapping[str, Any],
    pose: NDArray[np.float64] | None,
    dof: NDArray[np.float64] | None,
    joints: tuple[str, ...],
    place: Place,
) -> list[Finding]:
    """Where two records of one thing differ, and turns about another axis than the joint's."""
    if pose is None:
        return []
    out: list[Finding] = []
    turns = pose[:, 1 : 1 + len(joints)]
    if dof is not None:
        _differs(out, "dof", np.abs(turns.sum(axis=2) - dof).max(initial=0.0), place)
    if "root_rot" in clip:
        recorded = normalised(_array(clip, "root_rot", (4,), place))
        apart = to_rotation_vector(multiply(of_rotation_vector(pose[:, 0]), conjugate(recorded)))
        _differs(out, "root_rot", np.abs(apart).max(initial=0.0), place)
    axes = dict(zip(g1().joints, np.abs(g1().axes), strict=True))
    known = [(i, axes[j]) for i, j in enumerate(joints) if j in axes]
    off = [joints[i] for i, axis in known if np.abs(turns[:, i] * (1 - axis)).max(initial=0.0) > _AGREEMENT]
    if off:
        message = "axis-angles turn about other axes than their joints': another joint order?"
        where = Place(place.file, place.demo, _POSE)
        out.append(Finding("joint-axis-off", Severity.WARN, message, where, ", ".join(off[:6])))
    return out


def _differs(out: list[Finding], key: str, worst: float, place: Place) -> None:
    if worst > _AGREEMENT:
        message = f"pose_aa and {key} say different things; pose_aa was taken"
        where = Place(place.file, place.demo, key)
        out.append(Finding("clip-disagrees", Severity.WARN, message, where, f"{worst:.3g} rad apart"))
