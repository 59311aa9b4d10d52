"""Reading the catalogue's YAML into plain values, with the line of every key.

What is not here: which keys exist, see `trajpipe.pipeline.catalogue_model`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from trajpipe.pipeline.catalogue_problems import Problem, invalid

MAX_BYTES: Final = 4 << 20
MAX_VALUES: Final = 100_000
MAX_DEPTH: Final = 50

# YAML 1.2's core schema: `yes`, `on`, `1:30` and dates stay text, unlike in YAML 1.1.
_NULL: Final = re.compile(r"~|null|Null|NULL|")
_BOOL: Final = re.compile(r"(true|True|TRUE)|(false|False|FALSE)")
_INT: Final = re.compile(r"[-+]?[0-9]+")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_PLAIN_TAG: Final = "tag:yaml.org,2002:str"

KeyPath = tuple[str | int, ...]


class _Loader(yaml.SafeLoader):
    """Composes nodes with their marks and resolves no scalar by itself."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML reads it from the class


@dataclass(slots=True)
class Document:
    """A catalogue's plain values.

    Attributes:
        path: The file.
        value: Mappings, lists, str, int, float, bool and None.
        lines: Key path → line number, counted from 1.
    """

    path: Path
    value: Any
    lines: dict[KeyPath, int] = field(default_factory=dict)

    def line(self, path: KeyPath) -> int:
        """Line of a key path, or of the nearest part above it that the file holds."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def read_document(path: Path) -> Document:
    """Parse a YAML file safely.

    Raises:
        CatalogueError: the file is absent, not UTF-8, not YAML, too large, or it holds duplicate keys, tags,
            merge keys, keys that are not text, or aliases that expand without end.
    """
    try:
        size = path.stat().st_size
        data = path.read_bytes() if size <= MAX_BYTES else b""
    except OSError as error:
        hint = "`trajpipe demo` writes a sample catalogue; --data names another folder."
        raise invalid(
            path, [Problem(0, "", "the catalogue cannot be read", error.strerror, hint=hint)]
        ) from error
    if size > MAX_BYTES:
        raise invalid(
            path, [Problem(0, "", "the file is too large", f"{size} bytes", f"at most {MAX_BYTES}")]
        )
    reader = _Reader(Document(path, {}))
    reader.read(_compose(path, data))
    if reader.problems:
        raise invalid(path, reader.problems)
    return reader.document


def _compose(path: Path, data: bytes) -> yaml.Node | None:
    try:
        # a bound method of PyYAML without annotations
        return yaml.compose(data.decode("utf-8-sig"), Loader=_Loader)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise invalid(
            path, [Problem(line, "", "the file is not UTF-8 text", f"byte {data[error.start]:#x}")]
        ) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        text = " ".join(part for part in (error.context, error.problem) if part)
        raise invalid(
            path, [Problem(mark.line + 1 if mark else 1, "", "the file is not YAML", text)]
        ) from error
    except yaml.YAMLError as error:
        raise invalid(path, [Problem(1, "", "the file is not YAML", " ".join(str(error).split()))]) from error
    except RecursionError as error:
        raise invalid(
            path, [Problem(1, "", "the file is nested too deeply", None, f"{MAX_DEPTH} levels")]
        ) from error


class _Reader:
    """Turns nodes into plain values, noting lines and problems; stops at the limits."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.problems: list[Problem] = []
        self.count = 0

    def read(self, node: yaml.Node | None) -> None:
        if node is not None:
            self.document.value = self._value(node, ())
        if self.count > MAX_VALUES:
            text = f"more than {MAX_VALUES} once aliases are followed"
            self.problems = [Problem(1, "", "the catalogue holds too many values", text)]

    def _problem(
        self, node: yaml.Node, path: KeyPath, rule: str, got: str | None, hint: str | None = None
    ) -> None:
        self.problems.append(Problem(node.start_mark.line + 1, dotted(path), rule, got, hint=hint))

    def _value(self, node: yaml.Node, path: KeyPath) -> Any:
        self.count += 1
        self.document.lines.setdefault(path, node.start_mark.line + 1)
        if self.count > MAX_VALUES:
            return None
        if len(path) > MAX_DEPTH:
            self._problem(node, path[:3], "the file is nested too deeply", f"more than {MAX_DEPTH} levels")
            return None
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self._value(item, (*path, index)) for index, item in enumerate(node.value)]
        if node.tag != _PLAIN_TAG:
            self._problem(node, path, "tags are not used in a catalogue", node.tag)
        return plain(node.value) if getattr(node, "style", None) is None else node.value

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key, value in node.value:
            if not _is_text(key):
                shown = key.value if isinstance(key, yaml.ScalarNode) else "a list or mapping"
                self._problem(key, path, "a key must be text", shown, "Put it in quotes.")
                continue
            if key.value == "<<" and key.style is None:
                self._problem(key, path, "merge keys are not used in a catalogue", "<<", "Use `defaults:`.")
                continue
            here = (*path, key.value)
            if key.value in out:
                first = f"also on line {self.document.lines[here]}"
                self._problem(key, here, "the key is there twice", first, "Remove one of them.")
                continue
            self.document.lines[here] = key.start_mark.line + 1
            out[key.value] = self._value(value, here)
        return out


def _is_text(key: yaml.Node) -> bool:
    quoted = isinstance(key, yaml.ScalarNode) and key.style is not None
    return quoted or (isinstance(key, yaml.ScalarNode) and isinstance(plain(key.value), str))


def plain(text: str) -> Any:
    """Value of an unquoted YAML scalar under the 1.2 core schema."""
    if _NULL.fullmatch(text):
        return None
    if (match := _BOOL.fullmatch(text)) is not None:
        return match.group(1) is not None
    if _INT.fullmatch(text) and len(text) <= 300:
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def dotted(path: KeyPath) -> str:
    """`datasets.lift.raw[0].kind` of a key path."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
