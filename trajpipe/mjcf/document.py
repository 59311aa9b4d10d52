"""Parsing MJCF text safely, and walking its bodies in MuJoCo's own order.

No document type, entity or include is ever resolved; elements that make joints from elsewhere are refused.
What is not here: joints (`joints.py`), poses (`poses.py`).
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from xml.parsers import expat

from trajpipe.core.errors import InputError, UntrustedError

MAX_BYTES: Final = 32 << 20
MAX_DEPTH: Final = 500
# Elements that bring joints in from elsewhere or make them by rule: they cannot be read off the text.
REFUSED: Final = frozenset({"include", "attach", "replicate", "composite", "flexcomp", "plugin"})


@dataclass(frozen=True, slots=True)
class Body:
    """A body of the kinematic tree.

    Attributes:
        name: Its name; "" when it has none.
        element: The XML element.
        depth: 1 for a child of the world.
        childclass: Default class in force for its elements; None = the main class.
    """

    name: str
    element: ET.Element
    depth: int
    childclass: str | None


def parse(text: str | bytes, *, place: object | None = None) -> ET.Element:
    """The root `<mujoco>` element of MJCF text.

    Args:
        text: The XML.
        place: Named in errors.

    Raises:
        UntrustedError: a document type or entity, or an element that brings in other files.
        InputError: not XML, not MJCF, too large or too deep.
    """
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    if len(data) > MAX_BYTES:
        raise InputError(
            "the model is too large", place=place, got=len(data), expected=f"≤ {MAX_BYTES} bytes"
        )
    _refuse_doctype(data, place)
    try:
        root = ET.fromstring(data)  # noqa: S314 - document types were refused above
    except ET.ParseError as error:
        raise InputError("the model is not XML", place=place, got=error, code="bad-model") from error
    if root.tag != "mujoco":
        raise InputError(
            "the model is not MJCF", place=place, got=f"<{root.tag}>", expected="<mujoco>", code="bad-model"
        )
    for element in root.iter():
        if element.tag in REFUSED:
            raise UntrustedError(
                "the model's joints cannot be told from its own text",
                place=place,
                got=f"<{element.tag}>",
                expected="a model that stands alone",
                code="model-not-alone",
            )
    return root


def _refuse_doctype(data: bytes, place: object | None) -> None:
    parser, depth = expat.ParserCreate(), [0]

    def refuse(*_: object) -> None:
        raise UntrustedError("a model with a document type is refused", place=place, code="model-doctype")

    def begin(*_: object) -> None:
        depth[0] += 1
        if depth[0] > MAX_DEPTH:
            raise InputError("the model is nested too deeply", place=place, expected=f"≤ {MAX_DEPTH} levels")

    def end(*_: object) -> None:
        depth[0] -= 1

    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    parser.StartElementHandler = begin
    parser.EndElementHandler = end
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise InputError("the model is not XML", place=place, got=error, code="bad-model") from error


def bodies(root: ET.Element) -> Iterator[Body]:
    """All bodies below the world, depth first: MuJoCo's numbering. `<frame>` elements are transparent."""
    for world in root.findall("worldbody"):
        yield from _below(world, 1, world.get("childclass"))


def _below(parent: ET.Element, depth: int, childclass: str | None) -> Iterator[Body]:
    for element in parent:
        inner = element.get("childclass", childclass)
        if element.tag == "frame":
            yield from _below(element, depth, inner)
        elif element.tag == "body":
            yield Body(element.get("name", ""), element, depth, inner)
            yield from _below(element, depth + 1, inner)


def top_level(root: ET.Element) -> list[Body]:
    """The world's direct children, in order."""
    return [body for body in bodies(root) if body.depth == 1]


def numbers(text: str, *, place: object | None = None) -> tuple[float, ...]:
    """The numbers of an attribute.

    Raises:
        InputError: something else is there.
    """
    try:
        return tuple(float(part) for part in text.split())
    except ValueError as error:
        raise InputError("the model needs numbers here", place=place, got=repr(text[:80])) from error
