"""Joint tables of MJCF models: names, types, qpos and dof addresses, as MuJoCo's compiler gives them.

What is not here: mapping one table to another, see `remap.py`.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from trajpipe.core.errors import InputError, MissingNameError
from trajpipe.mjcf.document import Body, bodies


class JointType(StrEnum):
    """MuJoCo's joint types."""

    FREE = "free"
    BALL = "ball"
    SLIDE = "slide"
    HINGE = "hinge"


_WIDTHS: Final = {
    JointType.FREE: (7, 6),
    JointType.BALL: (4, 3),
    JointType.SLIDE: (1, 1),
    JointType.HINGE: (1, 1),
}


@dataclass(frozen=True, slots=True)
class Joint:
    """One joint and its addresses.

    Attributes:
        name: Its name.
        type: `free`, `ball`, `slide` or `hinge`.
        qpos: First address in qpos.
        dof: First address in qvel.
        body: Name of its body.
        root: Name of the body's ancestor below the world.
    """

    name: str
    type: JointType
    qpos: int
    dof: int
    body: str = ""
    root: str = ""

    @property
    def nq(self) -> int:
        """Width in qpos."""
        return _WIDTHS[self.type][0]

    @property
    def nv(self) -> int:
        """Width in qvel."""
        return _WIDTHS[self.type][1]


@dataclass(frozen=True, slots=True)
class JointTable:
    """All joints of a model in address order.

    Attributes:
        joints: The joints.
    """

    joints: tuple[Joint, ...]

    @property
    def nq(self) -> int:
        """Width of qpos."""
        return sum(j.nq for j in self.joints)

    @property
    def nv(self) -> int:
        """Width of qvel."""
        return sum(j.nv for j in self.joints)

    @property
    def names(self) -> tuple[str, ...]:
        """Joint names in address order."""
        return tuple(j.name for j in self.joints)

    def joint(self, name: str) -> Joint:
        """The joint of a name.

        Raises:
            MissingNameError: there is none.
        """
        for one in self.joints:
            if one.name == name:
                return one
        raise MissingNameError("no joint of this name", got=name, expected=", ".join(self.names))

    def reordered(self, names: Sequence[str]) -> JointTable:
        """The same joints in another order, with the addresses of that order.

        Raises:
            InputError: the names are not exactly this table's; lists the differences.
        """
        if Counter(names) != Counter(self.names):
            missing, strange = sorted(set(self.names) - set(names)), sorted(set(names) - set(self.names))
            raise InputError(
                "a joint order names each joint once",
                got=f"missing {missing}, unknown {strange}, {len(names)} names",
                expected=f"the {len(self.names)} joints of the model",
                code="joint-sets-differ",
            )
        return placed((self.joint(n).name, self.joint(n).type, self.joint(n)) for n in names)


def placed(parts: Iterator[tuple[str, JointType, Joint | None]]) -> JointTable:
    """A table of joints in order: addresses follow from the widths.

    Args:
        parts: (name, type, the joint whose body and root are kept, or None).
    """
    joints: list[Joint] = []
    qpos = dof = 0
    for name, kind, old in parts:
        joints.append(Joint(name, kind, qpos, dof, old.body if old else "", old.root if old else ""))
        qpos, dof = qpos + joints[-1].nq, dof + joints[-1].nv
    return JointTable(tuple(joints))


def joint_table(root: ET.Element, *, place: object | None = None) -> JointTable:
    """The joint table of a parsed model.

    Raises:
        InputError: a joint without a name or of an unknown type, or two of one name.
    """
    defaults = _Defaults(root)
    parts: list[tuple[str, JointType, Joint | None]] = []
    top = ""
    for body in bodies(root):
        top = body.name if body.depth == 1 else top
        for element in _joint_elements(body.element):
            kind = defaults.type_of(element, body, place)
            name = element.get("name", "")
            if not name:
                raise InputError(
                    "a joint without a name cannot be mapped", place=place, got=f"body {body.name!r}"
                )
            parts.append((name, kind, Joint(name, kind, 0, 0, body.name, top)))
    twice = [n for n, c in Counter(p[0] for p in parts).items() if c > 1]
    if twice:
        raise InputError("a joint's name is used twice", place=place, got=twice[0])
    return placed(iter(parts))


def _joint_elements(body: ET.Element) -> Iterator[ET.Element]:
    for element in body:
        if element.tag in ("joint", "freejoint"):
            yield element
        elif element.tag == "frame":
            yield from _joint_elements(element)


class _Defaults:
    """The `type` that default classes give to joints."""

    def __init__(self, root: ET.Element) -> None:
        self._types: dict[str | None, str] = {}
        for default in root.findall("default"):
            self._collect(default, "hinge", main=True)

    def _collect(self, default: ET.Element, inherited: str, *, main: bool = False) -> None:
        joint = default.find("joint")
        kind = joint.get("type", inherited) if joint is not None else inherited
        self._types[default.get("class")] = kind
        if main:
            self._types[None] = kind
        for inner in default.findall("default"):
            self._collect(inner, kind)

    def type_of(self, element: ET.Element, body: Body, place: object | None) -> JointType:
        """The type of a joint element: its own, else its class's, else the body's class's."""
        if element.tag == "freejoint":
            return JointType.FREE
        by_class = self._types.get(element.get("class", body.childclass), self._types.get(None, "hinge"))
        kind = element.get("type", by_class)
        try:
            return JointType(kind)
        except ValueError as error:
            raise InputError(
                "no such joint type", place=place, got=kind, expected=", ".join(JointType)
            ) from error
