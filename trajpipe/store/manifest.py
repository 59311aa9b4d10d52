"""The manifest of a trajectory store: its text grammar, encoded and parsed; encode → parse → encode is fixed.

Grammar: `key=value` lines, `column=<name>:<dtype>[:<d0>,<d1>,…]`, `task=<index><TAB>"<escaped text>"`, as
noeira's schema version 1 has them; keys of our own come after the tasks.
What is not here: where the text lies in a file (`writer`, `reader`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from trajpipe.core.errors import DTypeError, InputError, SchemaError
from trajpipe.core.names import STORE_SCHEMA_VERSION
from trajpipe.store.columns import DTYPES, ColumnSpec

_INT: Final = re.compile(r"[+-]?[0-9]{1,30}")
_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*")
_INTEGERS: Final = ("n_rows", "n_episodes", "seed")
_TEXTS: Final = ("env_id", "source_commit")
_KNOWN: Final = ("schema_version", *_INTEGERS, *_TEXTS, "column", "task")
_ESCAPES: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_UNESCAPES: Final = {"\\": "\\", '"': '"', "n": "\n", "r": "\r", "t": "\t"}
_ESCAPE_TABLE: Final = str.maketrans(_ESCAPES)
# noeira's parser strips ASCII space only: str.strip() would also take U+00A0 and its kin off a value
_SPACE: Final = " \t\r\n\v\f"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a store says of itself.

    Attributes:
        columns: In file order.
        n_rows: Rows of every column.
        n_episodes: Entries of the episode index.
        env_id: Environment name; no line break.
        seed: Of the recording.
        source_commit: Revision of the code that recorded; no line break.
        tasks: Language instructions by index; empty = the store records none.
        extra: Keys beyond the grammar, kept in order.
    """

    columns: tuple[ColumnSpec, ...]
    n_rows: int
    n_episodes: int
    env_id: str = ""
    seed: int = 0
    source_commit: str = ""
    tasks: tuple[str, ...] = ()
    extra: Mapping[str, str] = field(default_factory=dict)

    def encode(self) -> bytes:
        """The text, UTF-8; bytes that were not UTF-8 (surrogate escapes) come out as they were.

        Raises:
            InputError: a value cannot stand on one line, or an extra key is one of the grammar's.
        """
        lines = [
            f"schema_version={STORE_SCHEMA_VERSION}",
            f"env_id={one_line('env_id', self.env_id)}",
            f"n_rows={self.n_rows}",
            f"n_episodes={self.n_episodes}",
            f"seed={self.seed}",
            f"source_commit={one_line('source_commit', self.source_commit)}",
            *(f"column={column_text(c)}" for c in self.columns),
            *(f"task={i}\t{quote(text)}" for i, text in enumerate(self.tasks)),
            *(f"{extra_key(k)}={one_line(k, v)}" for k, v in self.extra.items()),
        ]
        return to_bytes("\n".join(lines) + "\n")

    @classmethod
    def parse(cls, text: bytes, *, place: object | None = None) -> Manifest:
        """The manifest that the text says.

        Args:
            text: Bytes of `__manifest__`.
            place: Named in errors.

        Raises:
            InputError: the text breaks the grammar; says the line.
        """
        values: dict[str, Any] = {}
        columns: list[ColumnSpec] = []
        tasks: dict[int, str] = {}
        extra: dict[str, str] = {}
        for number, raw in enumerate(text.decode("utf-8", "surrogateescape").split("\n"), 1):
            line = raw.strip(_SPACE)
            if line and not line.startswith("#"):
                where = f"{place or 'manifest'} line {number}"
                _take(_key_value(line, where), where, (values, columns, tasks, extra))
        _check_version(values, place)
        for name in ("n_rows", "n_episodes"):
            if values.get(name, -1) < 0:
                got = values.get(name, "nothing")
                raise InputError(
                    f"the manifest gives {name}", place=place, got=got, expected="an integer ≥ 0"
                )
        del values["schema_version"]
        _check_tasks(tasks, place)
        texts = tuple(tasks[i] for i in range(len(tasks)))
        return cls(columns=tuple(columns), tasks=texts, extra=extra, **values)


_Parts = tuple[dict[str, Any], list[ColumnSpec], dict[int, str], dict[str, str]]


def _key_value(line: str, where: str) -> tuple[str, str]:
    key, equals, value = line.partition("=")
    if not equals:
        raise InputError("a manifest line is key=value", place=where, got=repr(line[:80]))
    return key.strip(_SPACE), value.strip(_SPACE)


def _take(pair: tuple[str, str], where: str, parts: _Parts) -> None:
    key, value = pair
    values, columns, tasks, extra = parts
    if key == "column":
        column = parse_column(value, where)
        if any(c.name == column.name for c in columns):
            raise InputError("a column is declared once", place=where, got=column.name)
        columns.append(column)
    elif key == "task":
        index, text = parse_task(value, where)
        if index in tasks:
            raise InputError("a task index is given once", place=where, got=index)
        tasks[index] = text
    elif key in _KNOWN:
        if key in values:
            raise InputError("a manifest key is given once", place=where, got=key)
        values[key] = value if key in _TEXTS else _integer(value, where)
    elif _KEY.fullmatch(key):
        extra[key] = value


def _check_version(values: dict[str, Any], place: object | None) -> None:
    version = values.get("schema_version")
    if version is None:
        raise InputError("the manifest gives schema_version", place=place, got="nothing")
    if not 1 <= version <= STORE_SCHEMA_VERSION:
        raise InputError(
            "the store's schema version is one that this reader knows",
            place=place,
            got=version,
            expected=f"≤ {STORE_SCHEMA_VERSION}",
            hint="Install a newer trajpipe.",
        )


def _check_tasks(tasks: dict[int, str], place: object | None) -> None:
    if sorted(tasks) != list(range(len(tasks))):
        raise InputError(
            "task indices run from 0 without a gap",
            place=place,
            got=sorted(tasks)[:8],
            expected=f"0..{len(tasks) - 1}",
        )


def _integer(text: str, where: str) -> int:
    if not _INT.fullmatch(text):
        raise InputError("the value is an integer", place=where, got=repr(text[:40]))
    return int(text)


def column_text(column: ColumnSpec) -> str:
    """`name:dtype[:d0,d1,…]`."""
    dims = ",".join(map(str, column.shape))
    return f"{column.name}:{column.dtype.name}" + (f":{dims}" if dims else "")


def parse_column(text: str, where: str = "column") -> ColumnSpec:
    """The column that `column_text` wrote; spaces around the parts are allowed.

    Raises:
        InputError: not of the grammar.
    """
    parts = [p.strip(_SPACE) for p in text.split(":")]
    if len(parts) not in (2, 3) or parts[1] not in DTYPES:
        raise InputError(
            "a column line is name:dtype[:d0,d1,…]",
            place=where,
            got=repr(text[:80]),
            expected=f"a dtype of {', '.join(DTYPES)}",
        )
    dims = [_integer(d.strip(_SPACE), where) for d in parts[2].split(",")] if parts[2:] and parts[2] else []
    try:
        return ColumnSpec(parts[0], parts[1], tuple(dims))
    except (SchemaError, DTypeError) as error:
        raise InputError(error.rule, place=where, got=error.got, expected=error.expected) from error


def quote(text: str) -> str:
    """A task's text in quotes with the grammar's five escapes, all else literal."""
    return f'"{text.translate(_ESCAPE_TABLE)}"'


def parse_task(value: str, where: str = "task") -> tuple[int, str]:
    """(index, text) of `<index><TAB>"<escaped text>"`.

    Raises:
        InputError: no tab, no quotes, an unknown escape, a dangling backslash.
    """
    index, tab, quoted = value.partition("\t")
    quoted = quoted.strip(_SPACE)
    if not tab or len(quoted) < 2 or quoted[0] != '"' or quoted[-1] != '"':
        raise InputError("a task line is index, tab, quoted text", place=where, got=repr(value[:80]))
    number = _integer(index.strip(_SPACE), where)
    return number, _unescape(quoted[1:-1], where)


def _unescape(text: str, where: str) -> str:
    if "\\" not in text and '"' not in text:
        return text
    out, i = [], 0
    while i < len(text):
        c = text[i]
        if c == '"':
            raise InputError("a quote inside a task's text is escaped", place=where, got=repr(text[:80]))
        if c == "\\":
            i += 1
            c = text[i : i + 1]
            if c not in _UNESCAPES or not c:
                what = f"\\{c}" if c else "a backslash at the end"
                raise InputError(
                    "a task's text has the five escapes only",
                    place=where,
                    got=what,
                    expected=r"\\ \" \n \r \t",
                )
            c = _UNESCAPES[c]
        out.append(c)
        i += 1
    return "".join(out)


def one_line(name: str, text: str) -> str:
    """The text itself, when it can stand on a line and come back unchanged.

    Raises:
        InputError: it holds a line break, or space at its ends that reading would strip.
    """
    if len(text.splitlines()) > 1 or text != text.strip():
        raise InputError(
            f"{name} stands on one line of the manifest",
            got=repr(text[:80]),
            expected="no line break, no space at either end",
        )
    return text


def extra_key(key: str) -> str:
    """The key itself, when the grammar has none like it.

    Raises:
        InputError: it is one of the grammar's, or not a plain name.
    """
    if key in _KNOWN or not _KEY.fullmatch(key):
        raise InputError("an extra key is a name that the grammar does not use", got=repr(key))
    return key


def to_bytes(text: str) -> bytes:
    """UTF-8 with surrogate escapes undone.

    Raises:
        InputError: a lone surrogate that stands for no byte.
    """
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise InputError(
            "the text can be written as UTF-8", got=repr(text[error.start : error.end])
        ) from error


def check_tasks(tasks: Iterable[str]) -> tuple[str, ...]:
    """The task texts, each writable.

    Raises:
        InputError: one cannot be written as UTF-8.
    """
    texts = tuple(tasks)
    for text in texts:
        to_bytes(text)
    return texts
