"""Motion clips in CSV: root position, root quaternion (x y z w), joint angles, one line per frame.

The retargeting data set's form has 36 columns and no header; a header or declared names may reorder them.
What is not here: what a clip becomes, see `lafan.py`.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core.errors import InputError, UnreadableError
from trajpipe.core.findings import Place
from trajpipe.motion.g1 import JOINTS
from trajpipe.sources.motion_clips import MotionOptions, RawClip, joint_set

MAX_BYTES: Final = 1 << 30
ROOT_WIDTH: Final = 7
_HEAD_BYTES: Final = 1 << 16
_POSITION: Final = ("", "root_", "root_pos_", "root_position_", "base_", "pos_", "pelvis_")
_TURN: Final = ("q", "quat_", "root_q", "root_quat_", "root_rot_", "root_rotation_", "base_q", "rot_")


def looks_like_clip(path: Path) -> bool:
    """True for a motion clip's first lines: by its header, else by width and a unit quaternion."""
    try:
        with path.open("rb") as stream:
            text = stream.read(_HEAD_BYTES).decode("utf-8-sig", "replace")
    except OSError:
        return False
    lines = [line for line in text.splitlines()[:8] if line.strip()]
    if not lines:
        return False
    named = _cells(lines[0])
    if _numbers(named) is None:
        joints = {j.removesuffix("_joint") for j in JOINTS}
        return (
            len(joints & {c.removesuffix("_joint") for c in named}) >= 2 and _root_columns(named) is not None
        )
    row = _numbers(named)
    if row is None or len(row) not in (36, 30):
        return False
    return abs(float(np.linalg.norm(row[3:7])) - 1) < 0.1


def read_csv(path: Path, options: MotionOptions) -> list[RawClip]:
    """The one clip of a CSV; its name is the file's stem.

    Raises:
        UnreadableError: it cannot be read, is too large or not text.
        InputError: a line is not numbers or of another width, or columns cannot be told.
    """
    place = Place(path.name)
    text = _text(path)
    header, names = _header(text, options, place)
    values = _values(text, header, place)
    joints, root, columns = _assigned(values.shape[1], names, options, place)
    return [
        RawClip(
            path.stem,
            None,
            np.ascontiguousarray(values[:, root[:3]]),
            np.ascontiguousarray(values[:, root[3:]]),
            joints,
            values[:, columns],
        )
    ]


def _text(path: Path) -> str:
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise UnreadableError(
                "the CSV is too large", place=path.name, got=size, expected=f"≤ {MAX_BYTES} bytes"
            )
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableError("a CSV is UTF-8 text", place=path.name, got=error) from error
    except OSError as error:
        if isinstance(error, UnreadableError):
            raise
        raise UnreadableError("the file cannot be read", place=path.name, got=error) from error


def _header(text: str, options: MotionOptions, place: Place) -> tuple[int, Sequence[str] | None]:
    """Lines before the numbers, and the columns' names where known."""
    names: Sequence[str] | None = options.columns
    count = options.header_rows
    lines = text[:_HEAD_BYTES].splitlines()
    if count is None:
        count = 0
        while count < min(len(lines), 8) and _numbers(_cells(lines[count])) is None:
            count += 1
    if names is None and count > 0 and len(lines) >= count:
        cells = _cells(lines[count - 1])
        names = cells if _numbers(cells) is None else None
    if len(lines) <= count:
        raise InputError("a clip has frames", place=place, got=f"{len(lines)} lines", code="no-demos")
    return count, names


def _cells(line: str) -> list[str]:
    return [cell.strip().strip('"') for cell in line.split(",")]


def _numbers(cells: Sequence[str]) -> list[float] | None:
    try:
        return [float(cell) for cell in cells]
    except ValueError:
        return None


def _values(text: str, header: int, place: Place) -> NDArray[np.float64]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return np.loadtxt(io.StringIO(text), delimiter=",", skiprows=header, ndmin=2, comments=None)
    except (ValueError, UserWarning) as error:
        raise InputError(
            "every line of a clip has the same count of numbers",
            place=place,
            got=str(error).replace("\n", " ")[:200],
            hint="`header_rows` and `columns` declare what is above the numbers.",
            code="bad-csv",
        ) from error


def _assigned(
    width: int, names: Sequence[str] | None, options: MotionOptions, place: Place
) -> tuple[tuple[str, ...], list[int], list[int]]:
    """Joint names, the seven root columns (x y z, qx qy qz qw), and the joint columns."""
    if names is None:
        joints = joint_set(width - ROOT_WIDTH, options, place)
        return joints, list(range(ROOT_WIDTH)), list(range(ROOT_WIDTH, width))
    if len(names) != width:
        raise InputError(
            "every column has a name", place=place, got=f"{len(names)} names", expected=f"{width} columns"
        )
    root = _root_columns(names)
    if root is None:
        raise InputError(
            "the root's columns are named x y z and qx qy qz qw",
            place=place,
            got=", ".join(names[:10]),
            hint="Name them in `options: {columns: [x, y, z, qx, qy, qz, qw, …]}` (--option 'columns=[…]').",
            code="root-unnamed",
        )
    others = [i for i, name in enumerate(names) if i not in root and not _is_index(name)]
    return tuple(names[i] for i in others), root, others


def _is_index(name: str) -> bool:
    """A column that counts frames or seconds is no joint."""
    return name.strip().lower() in ("", "frame", "frame_index", "index", "time", "timestamp", "t")


def _root_columns(names: Sequence[str]) -> list[int] | None:
    lower = [name.lower() for name in names]
    for position in _POSITION:
        for turn in _TURN:
            wanted = [f"{position}{axis}" for axis in "xyz"] + [f"{turn}{axis}" for axis in "xyzw"]
            if all(lower.count(name) == 1 for name in wanted):
                return [lower.index(name) for name in wanted]
    return None
