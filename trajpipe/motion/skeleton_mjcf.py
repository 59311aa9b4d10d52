"""Reading a robot's kinematic tree off an MJCF model: one free root, bodies that turn about one hinge each.

Bodies without a joint are folded into what they carry. What is not here: parsing, see `trajpipe.mjcf`.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core.errors import InputError
from trajpipe.mjcf.document import bodies, numbers, parse
from trajpipe.mjcf.poses import Angles, angles_of, orientation_of, position_of
from trajpipe.motion.rotations import multiply, rotate
from trajpipe.motion.skeleton import BodyFacts, Skeleton, skeleton

_FREE: Final = "free"
_MASS: Final = {"pos": "0 0 0", "mass": "1", "diaginertia": "1 1 1"}


def skeleton_of_file(path: Path) -> Skeleton:
    """The skeleton of an MJCF file.

    Raises:
        InputError: it is not there, not MJCF, or its tree is of another form.
        UntrustedError: it brings in other files.
    """
    if not path.is_file():
        raise InputError("the robot's model is not there", place=path, code="missing-file")
    return skeleton_of(path.read_bytes(), place=path.name)


def skeleton_of(text: str | bytes, *, place: str) -> Skeleton:
    """The skeleton of MJCF text.

    Raises:
        InputError: no one free root body, a body with several joints or one that is no hinge at its origin.
        UntrustedError: it brings in other files.
    """
    root = parse(text, place=place)
    return _Reader(root, place).read()


class _Reader:
    """Walks the bodies below the free root."""

    def __init__(self, root: ET.Element, place: str) -> None:
        self.root, self.place = root, place
        self.angles: Angles = angles_of(root)
        self.defaults = _joint_defaults(root)
        self.classes = {id(body.element): body.childclass for body in bodies(root)}
        self.limited_by_range = all(c.get("autolimits", "true") == "true" for c in root.findall("compiler"))

    def read(self) -> Skeleton:
        """The skeleton."""
        moving = [b for b in bodies(self.root) if b.depth == 1 and self._kinds(b.element) == [_FREE]]
        if len(moving) != 1:
            raise InputError(
                "a robot's model has one body that moves freely",
                place=self.place,
                got=", ".join(b.name for b in moving) or "none",
                code="bad-model",
            )
        pelvis = moving[0]
        facts = list(self._below(pelvis.element, pelvis.name, np.zeros(3), np.array([0.0, 0, 0, 1])))
        return skeleton(self.root.get("model", self.place), pelvis.name, facts)

    def _below(
        self, parent: ET.Element, carrier: str, position: NDArray[np.float64], turn: NDArray[np.float64]
    ) -> Iterator[BodyFacts]:
        """Facts of all bodies below, with poses in the frame of the last body that moves."""
        for element in parent.findall("body"):
            where = f"{self.place} · body {element.get('name')}"
            w, x, y, z = orientation_of(element, self.angles, place=where).tolist()
            at = position + rotate(turn, np.array(position_of(element, place=where)))
            facing = multiply(turn, np.array([x, y, z, w]))
            joints = [e for e in element if e.tag in ("joint", "freejoint")]
            if not joints:
                yield from self._below(element, carrier, at, facing)
                continue
            yield self._facts(element, joints, carrier, at, facing)
            yield from self._below(element, element.get("name", ""), np.zeros(3), np.array([0.0, 0, 0, 1]))
        if parent.find("frame") is not None:
            raise InputError(
                "a robot's model has bodies below bodies, without frames", place=self.place, code="bad-model"
            )

    def _facts(
        self,
        element: ET.Element,
        joints: list[ET.Element],
        carrier: str,
        position: NDArray[np.float64],
        turn: NDArray[np.float64],
    ) -> BodyFacts:
        values = self._values(joints[0], element)
        name = joints[0].get("name", "")
        where = f"{self.place} · joint {name}"
        plain = values.get("type", "hinge") == "hinge" and not any(
            numbers(values.get("pos", "0 0 0"), place=where)
        )
        if len(joints) != 1 or not plain or float(values.get("ref", "0")) != 0:
            raise InputError(
                "each body of the robot turns about one hinge at its origin, from zero",
                place=where,
                got=f"{len(joints)} joints, {values}",
                code="bad-model",
            )
        x, y, z = numbers(values.get("axis", "0 0 1"), place=where)
        px, py, pz = position.tolist()
        qx, qy, qz, qw = turn.tolist()
        limits = self._range(values, where)
        return element.get("name", ""), carrier, name, (px, py, pz), (qw, qx, qy, qz), (x, y, z), limits

    def _range(self, values: Mapping[str, str], where: str) -> tuple[float, float]:
        """Joint limits in radians; infinite where the model has none."""
        limited = values.get("limited", "auto")
        has = "range" in values and (limited == "true" or (limited == "auto" and self.limited_by_range))
        if not has:
            return -math.inf, math.inf
        low, high = numbers(values["range"], place=where)
        return (math.radians(low), math.radians(high)) if self.angles.degrees else (low, high)

    def _values(self, joint: ET.Element, body: ET.Element) -> dict[str, str]:
        """A joint's attributes over those of its default class."""
        chosen = joint.get("class", self.classes.get(id(body)))
        return self.defaults.get(chosen, self.defaults[None]) | dict(joint.attrib)

    def _kinds(self, body: ET.Element) -> list[str]:
        joints = [e for e in body if e.tag in ("joint", "freejoint")]
        return [_FREE if e.tag == "freejoint" else self._values(e, body).get("type", "hinge") for e in joints]


def _joint_defaults(root: ET.Element) -> dict[str | None, dict[str, str]]:
    """Default class → the joint attributes in force; None = the main class."""
    out: dict[str | None, dict[str, str]] = {None: {}}

    def collect(default: ET.Element, inherited: Mapping[str, str], *, main: bool) -> None:
        joint = default.find("joint")
        values = {**inherited, **(joint.attrib if joint is not None else {})}
        out[default.get("class")] = values
        if main:
            out[None] = values
        for inner in default.findall("default"):
            collect(inner, values, main=False)

    for default in root.findall("default"):
        collect(default, {}, main=True)
    return out


def mjcf_of(skeleton: Skeleton) -> str:
    """The skeleton as MJCF text with bodies, joints and limits alone, for MuJoCo to check it by."""
    root = ET.Element("mujoco", {"model": skeleton.name})
    ET.SubElement(root, "compiler", {"angle": "radian"})
    elements = [ET.SubElement(ET.SubElement(root, "worldbody"), "body", {"name": skeleton.bodies[0]})]
    ET.SubElement(elements[0], "inertial", _MASS)
    ET.SubElement(elements[0], "freejoint", {"name": "floating_base_joint"})
    for index, name in enumerate(skeleton.bodies[1:], 1):
        x, y, z, w = skeleton.rotations[index].tolist()
        pose = {"name": name, "pos": _spaced(skeleton.offsets[index].tolist()), "quat": _spaced([w, x, y, z])}
        body = ET.SubElement(elements[skeleton.parents[index]], "body", pose)
        ET.SubElement(body, "inertial", _MASS)
        joint = {"name": skeleton.joints[index - 1], "axis": _spaced(skeleton.axes[index - 1].tolist())}
        limits = skeleton.ranges[index - 1].tolist()
        if all(map(math.isfinite, limits)):
            joint["range"] = _spaced(limits)
        ET.SubElement(body, "joint", joint)
        elements.append(body)
    return ET.tostring(root, encoding="unicode")


def _spaced(values: list[float]) -> str:
    return " ".join(map(repr, values))
