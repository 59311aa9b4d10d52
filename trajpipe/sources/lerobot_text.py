"""JSON and JSON-lines files of a LeRobot folder, read forgivingly: what was forgiven is a finding.

What is not here: what the values mean, see `trajpipe.sources.lerobot_folder`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from trajpipe.core import jsontext
from trajpipe.core.errors import InputError, UnreadableError
from trajpipe.core.findings import Finding, Place, Severity

MAX_BYTES: Final = 1 << 30
_BOM: Final = b"\xef\xbb\xbf"
Report = Callable[[Finding], None]


def read_object(root: Path, name: str, report: Report) -> dict[str, Any] | None:
    """The object of a JSON file; None when the file is absent.

    Raises:
        InputError: it is not a JSON object (`bad-json`).
        UnreadableError: it cannot be read, or is larger than 1 GiB.
    """
    if not (root / name).is_file():
        return None
    value = _parsed(_text(root, name, report), Place(name))
    if not isinstance(value, dict):
        raise InputError(
            "the file must hold a JSON object", place=name, got=type(value).__name__, code="bad-json"
        )
    return value


def read_lines(root: Path, name: str, report: Report) -> list[dict[str, Any]]:
    """The objects of a JSON-lines file; a byte order mark, CRLF and blank lines are passed over.

    Raises:
        InputError: the file is missing (`missing-file`), or a line is not a JSON object (`bad-json`).
        UnreadableError: it cannot be read, or is larger than 1 GiB.
    """
    if not (root / name).is_file():
        raise InputError(
            "the file is missing", place=name, expected="one JSON object a line", code="missing-file"
        )
    rows: list[dict[str, Any]] = []
    blank = 0
    # split, not splitlines: a task text may hold U+2028, which is no line end of JSON lines.
    for number, line in enumerate(_text(root, name, report).removesuffix("\n").split("\n")):
        if not line.strip():
            blank += 1
            continue
        value = _parsed(line, Place(name, row=number))
        if not isinstance(value, dict):
            place = Place(name, row=number)
            raise InputError("a line holds a JSON object", place=place, got=line[:60], code="bad-json")
        rows.append(value)
    if blank:
        report(_forgiven(name, "blank lines were passed over", f"{blank} blank lines"))
    return rows


def _text(root: Path, name: str, report: Report) -> str:
    path = root / name
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UnreadableError(
                "the file is too large", place=name, got=path.stat().st_size, expected=MAX_BYTES
            )
        data = path.read_bytes()
    except OSError as error:
        raise UnreadableError("the file cannot be read", place=name, got=error) from error
    if data.startswith(_BOM):
        report(_forgiven(name, "a byte order mark was passed over", "BOM"))
        data = data[len(_BOM) :]
    if b"\r\n" in data:
        report(_forgiven(name, "CRLF line ends were read as LF", "CRLF"))
        data = data.replace(b"\r\n", b"\n")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError("the file must be UTF-8", place=name, got=error, code="bad-json") from error


def _forgiven(name: str, message: str, got: str) -> Finding:
    return Finding("json-text", Severity.INFO, message, Place(name), got, "UTF-8, LF, no BOM, no blank line")


def _parsed(text: str, place: Place) -> Any:
    half = jsontext.lone_surrogate(text) if "\\u" in text else None
    if half is not None:
        rule, expected = "the text holds half a character, which no UTF-8 text can", "whole characters"
        raise InputError(rule, place=place, got=half, expected=expected, code="bad-json")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        rule = "the text is not JSON"
        raise InputError(rule, place=place, got=f"{error}: {text[:60]!r}", code="bad-json") from error
