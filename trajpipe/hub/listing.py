"""Names of files as a server lists them: untrusted, checked before any of them touches the disk.

What is not here: fetching them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from trajpipe.core import names
from trajpipe.core.errors import UntrustedError

_DRIVE: Final = re.compile(r"^[A-Za-z]:")
_MAX_PART: Final = 255
_MAX_PATH: Final = 1024
_RESERVED: Final = (names.HUB_RECEIPT,)
_FORBIDDEN_PARTS: Final = ("", ".", "..", ".git", names.SUFFIX_PART)


def why_unsafe(path: str) -> str | None:
    """Why a listed path must not be written below a folder; None when it may."""
    if path.startswith(("/", "~")) or _DRIVE.match(path):
        return "it is absolute"
    if "\\" in path or any(ord(c) < 32 or ord(c) == 127 for c in path):
        return "it holds a backslash or a control character"
    parts = path.split("/")
    forbidden = [p for p in parts if p in _FORBIDDEN_PARTS]
    if forbidden:
        return f"a part of it is {forbidden[0]!r}" if forbidden[0] else "a part of it is empty"
    try:
        sizes = [len(p.encode()) for p in parts]
    except UnicodeEncodeError:
        return "it is not UTF-8"
    if max(sizes) > _MAX_PART or sum(sizes) + len(parts) > _MAX_PATH:
        return "it is too long"
    return "the name is ours" if path in _RESERVED else None


def require_safe(paths: Iterable[str], *, place: object) -> None:
    """Refuse a listing that could write outside its folder or over itself.

    Args:
        paths: Listed paths, `/` between parts.
        place: The repository or manifest, named in the error.

    Raises:
        UntrustedError: a path is absolute, climbs, comes twice, or is another one's folder.
    """
    seen: set[str] = set()
    folders: set[str] = set()
    for path in paths:
        why = why_unsafe(path)
        if why is None and path in seen:
            why = "it is listed twice"
        if why is not None:
            raise _refusal(path, why, place)
        seen.add(path)
        parts = path.split("/")
        folders.update("/".join(parts[:n]) for n in range(1, len(parts)))
    both = sorted(seen & folders)
    if both:
        raise _refusal(both[0], "it is a file and a folder", place)


def local_path(root: Path, path: str) -> Path:
    """Where a listed path lies below a folder.

    Raises:
        UntrustedError: a link on the way leads out of the folder, or the path itself is unsafe.
    """
    why = why_unsafe(path)
    if why is not None:
        raise _refusal(path, why, root)
    target = root.joinpath(*path.split("/"))
    if target.is_symlink() or not target.parent.resolve().is_relative_to(root.resolve()):
        raise _refusal(path, "a symbolic link is in its place", root)
    return target


def _refusal(path: str, why: str, place: object) -> UntrustedError:
    return UntrustedError(
        "a listed file name is refused",
        place=place,
        got=f"{path!r}: {why}",
        hint="Nothing was written; tell the owner of the repository.",
        code="unsafe-name",
    )
