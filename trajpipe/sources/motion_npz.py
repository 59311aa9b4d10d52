"""Motion clips in npz: named joints, joint angles, and the root by itself or among named bodies.

Members are read without pickle, each no larger than its header and its zip entry agree on.
What is not here: what a clip becomes, see `lafan.py`.
"""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from trajpipe.core.errors import InputError, TrajpipeError, UnreadableError, UntrustedError
from trajpipe.core.findings import Place
from trajpipe.core.quaternions import QuaternionOrder, wxyz_to_xyzw
from trajpipe.motion.g1 import ROOT
from trajpipe.sources.motion_clips import MotionOptions, RawClip, joint_set, rate_from

MAX_MEMBER: Final = 1 << 30
MAX_INFLATION: Final = 1100
_ANGLES: Final = ("dof_positions", "joint_pos", "joint_positions", "dof_pos", "dof")
_NAMES: Final = ("dof_names", "joint_names")
_BODIES: Final = ("body_names",)
_ROOT_POS: Final = ("root_pos", "root_trans_offset", "root_position")
_ROOT_QUAT: Final = ("root_quat", "root_rot", "root_rotation")
_BODY_POS: Final = ("body_positions", "body_pos_w")
_BODY_QUAT: Final = ("body_rotations", "body_quat_w")
_NEEDED: Final = {*_ANGLES, *_NAMES, *_BODIES, *_ROOT_POS, *_ROOT_QUAT, *_BODY_POS, *_BODY_QUAT, "fps"}


def looks_like_clip(path: Path) -> bool:
    """True for an npz with joint angles and a root."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = {n.removesuffix(".npy") for n in archive.namelist()}
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return False
    return bool(names & set(_ANGLES)) and bool(names & {*_ROOT_POS, *_BODY_POS})


def read_npz(path: Path, options: MotionOptions, order: QuaternionOrder | None) -> list[RawClip]:
    """The one clip of an npz; its name is the file's stem.

    Args:
        path: The file.
        options: Names of joints where the file has none.
        order: Declared order of its quaternions; None = scalar first among bodies (IsaacLab's AMP form).

    Raises:
        UnreadableError: it is not a readable npz.
        UntrustedError: a member is a pickle, or inflates beyond its size.
        InputError: an array is missing or of another form.
    """
    place = Place(path.name)
    arrays, others = _members(path)
    angles = _floats(arrays, _ANGLES, 2, place)
    names = _text(arrays, _NAMES, place)
    joints = tuple(names) if names is not None else joint_set(angles.shape[1], options, place)
    if len(joints) != angles.shape[1]:
        got = f"{len(joints)} names, {angles.shape[1]} columns"
        raise InputError("each joint column has a name", place=place, got=got, code="bad-clip")
    position, quaternion = _root(arrays, order, place)
    if not len(position) == len(quaternion) == len(angles):
        got = f"{len(position)}, {len(quaternion)} and {len(angles)} rows"
        raise InputError("a clip's arrays have one length", place=place, got=got, code="ragged")
    fps = rate_from(arrays["fps"], place) if "fps" in arrays else None
    bodies = _bodies(arrays, len(angles), place)
    return [RawClip(path.stem, fps, position, quaternion, joints, angles, (), others, bodies)]


def _bodies(arrays: dict[str, NDArray[Any]], count: int, place: Place) -> dict[str, NDArray[np.float64]]:
    """Recorded world positions of named bodies; none where the file has none or they do not fit."""
    names = _text(arrays, _BODIES, place)
    if names is None or not any(key in arrays for key in _BODY_POS):
        return {}
    positions = _floats(arrays, _BODY_POS, 3, place)
    if positions.shape != (count, len(names), 3):
        return {}
    return {name: positions[:, index] for index, name in enumerate(names)}


def _root(
    arrays: dict[str, NDArray[Any]], order: QuaternionOrder | None, place: Place
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Root position and scalar-last quaternion: own arrays, else the pelvis among the bodies."""
    if any(k in arrays for k in _ROOT_POS):
        position, quaternion = _floats(arrays, _ROOT_POS, 2, place), _floats(arrays, _ROOT_QUAT, 2, place)
        if order is None:
            raise InputError(
                "the order of the root's quaternion must be declared",
                place=place,
                got="no order in the file",
                hint="Add `conventions: {quaternion_order: xyzw}` (or wxyz) to the raw entry, or pass "
                "--quaternion-order xyzw.",
                code="quaternion-order-unknown",
            )
    else:
        bodies = _text(arrays, _BODIES, place)
        if bodies is None or ROOT not in bodies:
            raise InputError("the bodies' names hold the root's", place=place, expected=ROOT, code="bad-clip")
        index, order = bodies.index(ROOT), order or "wxyz"
        position, quaternion = (_floats(arrays, k, 3, place)[:, index] for k in (_BODY_POS, _BODY_QUAT))
    if position.shape[1] != 3 or quaternion.shape[1] != 4:
        raise InputError("a root has 3 + 4 numbers", place=place, got=(position.shape, quaternion.shape))
    return position, wxyz_to_xyzw(quaternion) if order == "wxyz" else quaternion


def _floats(
    arrays: dict[str, NDArray[Any]], keys: tuple[str, ...], rank: int, place: Place
) -> NDArray[np.float64]:
    key = next((k for k in keys if k in arrays), None)
    if key is None or arrays[key].dtype.kind not in "fiu" or arrays[key].ndim != rank:
        got = "none of them" if key is None else f"{key}: {arrays[key].dtype} {arrays[key].shape}"
        expected = f"{' or '.join(keys)}, {rank} axes of numbers"
        raise InputError(
            "an array is missing or of another form", place=place, got=got, expected=expected, code="bad-clip"
        )
    return np.asarray(arrays[key], np.float64)


def _text(arrays: dict[str, NDArray[Any]], keys: tuple[str, ...], place: Place) -> list[str] | None:
    key = next((k for k in keys if k in arrays), None)
    if key is None:
        return None
    if arrays[key].dtype.kind not in "US" or arrays[key].ndim != 1:
        raise InputError(
            "names are one list of text", place=Place(place.file, None, key), got=arrays[key].dtype
        )
    return [v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v) for v in arrays[key].tolist()]


def _members(path: Path) -> tuple[dict[str, NDArray[Any]], tuple[str, ...]]:
    """The arrays that a clip needs, and names of the others."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = {m.filename.removesuffix(".npy"): m for m in archive.infolist()}
            found = {n: _member(archive, m, path.name) for n, m in entries.items() if n in _NEEDED}
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, EOFError, zlib.error) as error:
        if isinstance(error, TrajpipeError):
            raise
        raise UnreadableError("not a readable npz", place=path.name, got=error) from error
    return found, tuple(sorted(set(entries) - set(found)))


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, file: str) -> NDArray[Any]:
    place = Place(file, None, member.filename)
    if member.file_size > min(MAX_MEMBER, max(1 << 20, member.compress_size * MAX_INFLATION)):
        got = f"{member.compress_size} bytes that become {member.file_size}"
        raise UntrustedError("an array inflates too much", place=place, got=got, code="inflates-too-much")
    with archive.open(member) as stream:
        try:
            version = npy.read_magic(stream)
            read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[version]
            shape, fortran, dtype = read(stream)
        except (ValueError, KeyError) as error:
            raise InputError(
                "a member is not an npy array", place=place, got=error, code="bad-npz"
            ) from error
        if dtype.hasobject:
            raise UntrustedError("an array is a pickle", place=place, code="pickle-calls-code")
        size = (
            int(np.prod([int(n) for n in shape], dtype=object)) * dtype.itemsize if shape else dtype.itemsize
        )
        data = stream.read(member.file_size + 1)
    if size != len(data):
        raise InputError(
            "an array has as many bytes as its header says",
            place=place,
            got=f"{len(data)} bytes",
            expected=f"{size} for {shape} {dtype}",
            code="bad-array-header",
        )
    return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")
