"""Poses of bodies in MJCF text: position and scalar-first unit quaternion, whatever way they are written.

What is not here: forward kinematics.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core.errors import InputError
from trajpipe.mjcf.document import Body, bodies, numbers

_IDENTITY: Final = (1.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Angles:
    """How a model's `<compiler>` reads angles.

    Attributes:
        degrees: True when angles are in degrees (MuJoCo's default).
        sequence: Axes of euler angles (`xyz`).
    """

    degrees: bool = True
    sequence: str = "xyz"


def angles_of(root: ET.Element) -> Angles:
    """What the model's `<compiler>` says of angles."""
    found = Angles()
    for compiler in root.findall("compiler"):
        degrees = compiler.get("angle", "degree" if found.degrees else "radian") == "degree"
        found = Angles(degrees, compiler.get("eulerseq", found.sequence))
    return found


def position_of(element: ET.Element, *, place: object | None = None) -> tuple[float, float, float]:
    """A body's `pos` relative to its parent, metres.

    Raises:
        InputError: not three numbers.
    """
    values = numbers(element.get("pos", "0 0 0"), place=place)
    if len(values) != 3:
        raise InputError("a position has three numbers", place=place, got=element.get("pos"))
    return values[0], values[1], values[2]


def orientation_of(
    element: ET.Element, angles: Angles, *, place: object | None = None
) -> NDArray[np.float64]:
    """A body's orientation relative to its parent, (4,) float64 scalar-first unit quaternion.

    Raises:
        InputError: more than one orientation, or the wrong count of numbers.
    """
    readers: dict[str, tuple[int, Callable[[tuple[float, ...]], NDArray[np.float64]]]] = {
        "quat": (4, lambda v: np.array(v, np.float64)),
        "axisangle": (4, lambda v: _about(np.array(v[:3]), _radians(v[3], angles))),
        "euler": (3, lambda v: _euler(v, angles)),
        "xyaxes": (6, _xyaxes),
        "zaxis": (3, _zaxis),
    }
    given = [key for key in readers if key in element.attrib]
    if len(given) > 1:
        raise InputError("a body has one orientation", place=place, got=", ".join(given))
    if not given:
        return np.array(_IDENTITY)
    count, read = readers[given[0]]
    values = numbers(element.attrib[given[0]], place=place)
    if len(values) != count:
        raise InputError(f"`{given[0]}` has {count} numbers", place=place, got=element.attrib[given[0]])
    quaternion = read(values)
    norm = float(np.linalg.norm(quaternion))
    if not math.isfinite(norm) or norm < 1e-10:
        raise InputError("an orientation cannot be zero", place=place, got=element.attrib[given[0]])
    return quaternion / norm


def _radians(angle: float, angles: Angles) -> float:
    return math.radians(angle) if angles.degrees else angle


def _about(axis: NDArray[np.float64], angle: float) -> NDArray[np.float64]:
    norm = float(np.linalg.norm(axis))
    unit = axis / norm if norm > 0 else np.array([0.0, 0.0, 1.0])
    return np.concatenate([[math.cos(angle / 2)], math.sin(angle / 2) * unit])


def _multiply(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Hamilton product of scalar-first quaternions."""
    w = a[0] * b[0] - a[1:] @ b[1:]
    return np.concatenate([[w], a[0] * b[1:] + b[0] * a[1:] + np.cross(a[1:], b[1:])])


def _euler(values: tuple[float, ...], angles: Angles) -> NDArray[np.float64]:
    """Lower-case axes turn with the body, upper-case ones stand still."""
    out = np.array(_IDENTITY)
    for letter, value in zip(angles.sequence, values, strict=True):
        turn = _about(np.eye(3)["xyz".index(letter.lower())], _radians(value, angles))
        out = _multiply(out, turn) if letter.islower() else _multiply(turn, out)
    return out


def _xyaxes(values: tuple[float, ...]) -> NDArray[np.float64]:
    x = np.asarray(values[:3]) / np.linalg.norm(values[:3])
    y = np.asarray(values[3:]) - x * (x @ np.asarray(values[3:]))
    y = y / np.linalg.norm(y)
    return _of_matrix(np.stack([x, y, np.cross(x, y)], axis=1))


def _zaxis(values: tuple[float, ...]) -> NDArray[np.float64]:
    """The smallest turn that takes z onto the axis."""
    z = np.asarray(values) / np.linalg.norm(values)
    axis = np.cross([0.0, 0.0, 1.0], z)
    return _about(
        axis if np.linalg.norm(axis) > 1e-12 else np.array([1.0, 0, 0]),
        math.atan2(np.linalg.norm(axis), z[2]),
    )


def _of_matrix(m: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scalar-first quaternion of a rotation matrix, by its largest component."""
    trace = float(np.trace(m))
    squares = np.array([trace, m[0, 0], m[1, 1], m[2, 2]])
    best = int(np.argmax(squares))
    size = math.sqrt(max(0.0, 1 + 2 * squares[best] - trace)) if best else math.sqrt(max(0.0, 1 + trace))
    parts = [m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]]
    if best == 0:
        return np.array([size / 2, *(p / (2 * size) for p in parts)])
    i, (j, k) = best - 1, [(1, 2), (2, 0), (0, 1)][best - 1]
    out = np.zeros(4)
    out[0], out[1 + i] = parts[i] / (2 * size), size / 2
    out[1 + j], out[1 + k] = (m[j, i] + m[i, j]) / (2 * size), (m[k, i] + m[i, k]) / (2 * size)
    return out


@dataclass(frozen=True, slots=True)
class Fixture:
    """A body that the model welds to the world: a cabinet, a stove, the table, the robot's base.

    Attributes:
        name: Body name.
        position: World position, metres, (x, y, z).
        quaternion: World orientation, unit, (w, x, y, z).
    """

    name: str
    position: tuple[float, float, float]
    quaternion: tuple[float, float, float, float]


def fixtures(root: ET.Element, *, place: object | None = None) -> list[Fixture]:
    """Poses of all named top-level bodies without a free joint, in the model's order.

    Raises:
        InputError: a pose is not readable.
    """
    angles, out = angles_of(root), []
    for body in bodies(root):
        if body.depth == 1 and body.name and not is_free(body):
            where = f"{place} · body {body.name}" if place else f"body {body.name}"
            w, x, y, z = orientation_of(body.element, angles, place=where).tolist()
            out.append(Fixture(body.name, position_of(body.element, place=where), (w, x, y, z)))
    return out


def is_free(body: Body) -> bool:
    """True when the body moves by a free joint."""
    return any(e.tag == "freejoint" or (e.tag == "joint" and e.get("type") == "free") for e in body.element)
