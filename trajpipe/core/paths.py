"""Absolute paths inside recorded text: finding them, and reducing them to base names.

What is not here: paths of our own outputs. USD prim paths (`/World/Robot`) and URLs are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

_ROOTS: Final = frozenset(
    (
        "home", "Users", "root", "tmp", "mnt", "opt", "usr", "var", "media", "scratch", "srv", "work",
        "workspace", "workspaces", "private", "Volumes", "nfs", "net", "lustre", "gpfs", "storage",
        "projects", "etc", "isaac-sim", "isaaclab", "app", "content", "kaggle", "ssd", "hdd", "data1",
        "data2",
    )
)  # fmt: skip
_EXTENSION: Final = re.compile(r"\.[A-Za-z][A-Za-z0-9_]{0,11}$")
_DRIVE: Final = re.compile(r"^(?:[A-Za-z]:[\\/]|\\\\[^\\])")
_QUOTED: Final = re.compile(r"([\"'])((?:file://)?/[^\"'<>\n]*|[A-Za-z]:[\\/][^\"'<>\n]*|\\\\[^\"'<>\n]+)\1")
_BARE: Final = re.compile(
    r"(?<![\w.:/<~\\-])(?:file://)?(?:/[^\s/\"'<>|:;,*?\\()\[\]{}]+){2,}/?"
    r"|(?<![\w\\])[A-Za-z]:(?:\\[^\s\\\"'<>|:*?]+)+"
)
_SEPARATOR: Final = re.compile(r"[\\/]")


def is_absolute_path(text: str) -> bool:
    """True when a whole string is a path on somebody's disk: POSIX, Windows or `file://`.

    A POSIX path counts when its first folder is a usual root (`/home`, `/opt`, …) or its last part has a
    suffix; `/World/envs/env_0/Robot` is a USD prim path and does not.
    """
    if _DRIVE.match(text):
        return True
    bare = text.removeprefix("file://")
    if not bare.startswith("/"):
        return False
    parts = [p for p in bare.split("/") if p]
    if len(parts) < 2:
        return text.startswith("file://") and bool(parts)
    return parts[0] in _ROOTS or bool(_EXTENSION.search(parts[-1]))


def absolute_paths(text: str) -> Iterator[str]:
    """Every absolute path in a text, whole strings and quoted ones with spaces included."""
    if is_absolute_path(text) and "\n" not in text:
        yield text
        return
    for match in _QUOTED.finditer(text):
        if is_absolute_path(match[2]):
            yield match[2]
    for match in _BARE.finditer(_QUOTED.sub(_blank, text)):
        if is_absolute_path(match[0]):
            yield match[0]


def without_absolute_paths(text: str) -> str:
    """The text with every absolute path reduced to its base name; unchanged when it holds none."""
    if is_absolute_path(text) and "\n" not in text:
        return base_name(text)
    text = _QUOTED.sub(lambda m: m[1] + _reduced(m[2]) + m[1], text)
    return _BARE.sub(lambda m: _reduced(m[0]), text)


def without_absolute_paths_in(value: Any) -> Any:
    """A plain JSON value with every string in it (keys excepted) reduced the same way."""
    if isinstance(value, str):
        return without_absolute_paths(value)
    if isinstance(value, dict):
        return {key: without_absolute_paths_in(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_absolute_paths_in(item) for item in value]
    return value


def base_name(path: str) -> str:
    """Last part of a POSIX or Windows path, `.` when there is none."""
    parts = [p for p in _SEPARATOR.split(path.removeprefix("file://")) if p]
    return parts[-1] if parts else "."


def _reduced(path: str) -> str:
    return base_name(path) if is_absolute_path(path) else path


def _blank(match: re.Match[str]) -> str:
    return match[0] if not is_absolute_path(match[2]) else match[1] * 2
