"""Kinematic models: an MJCF reduced to bodies and joints, so that MuJoCo compiles it without any file.

What is not here: compiling it, the checks do.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from copy import deepcopy
from typing import Final

from trajpipe.core.errors import InputError
from trajpipe.mjcf.document import top_level

_KEPT_POSE: Final = ("pos", "quat", "axisangle", "euler", "xyaxes", "zaxis")
_KEPT_JOINT: Final = ("name", "type", "pos", "axis", "class", "ref")
_KEPT_COMPILER: Final = ("angle", "eulerseq", "autolimits", "coordinate")
_MASS: Final = {"pos": "0 0 0", "mass": "1", "diaginertia": "1 1 1"}


def kinematic_model(root: ET.Element, order: Sequence[str] | None = None) -> str:
    """MJCF text with bodies and joints alone: no mesh, texture, geom, sensor, actuator or custom element.

    Every moving body gets a unit mass, since MuJoCo wants one; poses do not depend on it.

    Args:
        root: A parsed model.
        order: Names of the top-level bodies in another order; None keeps the model's.

    Raises:
        InputError: `order` is not exactly the top-level bodies.
    """
    out = ET.Element("mujoco", {"model": "kinematic"})
    for compiler in root.findall("compiler"):
        ET.SubElement(out, "compiler", {k: v for k, v in compiler.attrib.items() if k in _KEPT_COMPILER})
    for default in root.findall("default"):
        out.append(_default(default))
    world = ET.SubElement(out, "worldbody")
    for source in root.findall("worldbody"):
        if "childclass" in source.attrib:
            world.set("childclass", source.attrib["childclass"])
        _copy(source, world)
    if order is not None:
        _reorder(out, world, order)
    return ET.tostring(out, encoding="unicode")


def _default(default: ET.Element) -> ET.Element:
    out = ET.Element("default", {k: v for k, v in default.attrib.items() if k == "class"})
    for element in default:
        if element.tag == "joint":
            ET.SubElement(out, "joint", {k: v for k, v in element.attrib.items() if k in _KEPT_JOINT})
        elif element.tag == "default":
            out.append(_default(element))
    return out


def _copy(source: ET.Element, target: ET.Element) -> None:
    for element in source:
        if element.tag in ("body", "frame"):
            kept = (*_KEPT_POSE, "name", "childclass")
            inner = ET.SubElement(target, element.tag, {k: v for k, v in element.attrib.items() if k in kept})
            if element.tag == "body":
                ET.SubElement(inner, "inertial", _MASS)
            _copy(element, inner)
        elif element.tag == "joint":
            ET.SubElement(target, "joint", {k: v for k, v in element.attrib.items() if k in _KEPT_JOINT})
        elif element.tag == "freejoint":
            ET.SubElement(target, "freejoint", {k: v for k, v in element.attrib.items() if k == "name"})


def _reorder(root: ET.Element, world: ET.Element, order: Sequence[str]) -> None:
    by_name = {body.name: body.element for body in top_level(root)}
    if sorted(order) != sorted(by_name):
        raise InputError(
            "an order of bodies names each top-level body once", got=list(order), expected=sorted(by_name)
        )
    elements = [deepcopy(by_name[name]) for name in order]
    for element in list(world):
        world.remove(element)
    world.extend(elements)
