"""Atomic files and folders: whole or not at all; free-space checks, removal of stale temporaries.

A temporary lies beside its target (same file system), is fsynced, then renamed.
What is not here: what goes into the files; locks, see `trajpipe.core.locks`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from trajpipe.core import jsontext, names
from trajpipe.core.errors import DiskSpaceError, OutputExistsError
from trajpipe.core.locks import lock_holder, lock_is_stale, output_lock
from trajpipe.core.temporaries import (
    OLD_MARK,
    is_alive,
    marked,
    own_temporaries,
    stale_temporaries,
    temporary_beside,
    writer_is_dead,
)

__all__ = [
    "atomic_file",
    "atomic_folder",
    "fsync_path",
    "is_alive",
    "lock_holder",
    "lock_is_stale",
    "named_temporary",
    "output_lock",
    "publish",
    "publish_file",
    "publish_folder",
    "remove",
    "remove_own",
    "remove_stale",
    "require_space",
    "stale_temporaries",
    "temporary_beside",
    "write_json",
    "write_text",
]

_RENAME_EXCHANGE: Final = 2
_AT_FDCWD: Final = -100


def remove_stale(folder: Path) -> list[Path]:
    """Delete dead writers' temporaries in this folder, finishing a half-done folder exchange first."""
    _recover_exchanges(folder)
    gone = stale_temporaries(folder)
    for path in gone:
        remove(path)
    return gone


def remove_own() -> list[Path]:
    """Delete this process's own temporaries: for who ends it early, when nothing works on them any more.

    What cannot be deleted stays for the next run's `remove_stale`.
    """
    left = own_temporaries()
    for path in left:
        with suppress(OSError):
            remove(path)
    return left


def remove(path: Path) -> None:
    """Delete a file or a whole folder; nothing happens when it is absent. Links are not followed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def fsync_path(path: Path) -> None:
    """Fsync a file or a folder entry."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def publish_file(temporary: Path, target: Path) -> None:
    """Fsync a finished temporary file and rename it onto its target, then fsync the folder."""
    fsync_path(temporary)
    temporary.replace(target)
    fsync_path(target.parent)


def publish_folder(temporary: Path, target: Path) -> None:
    """Put a finished temporary folder in the target's place; the older one disappears.

    One step where the system exchanges names (`renameat2`), else two renames that
    `remove_stale` completes after a kill between them.
    """
    for path in [*sorted(temporary.rglob("*")), temporary]:
        if not path.is_symlink():
            fsync_path(path)
    if not target.exists():
        temporary.rename(target)
    elif _exchange(temporary, target):
        remove(temporary)
    else:
        _two_step(temporary, target)
    fsync_path(target.parent)


def _exchange(a: Path, b: Path) -> bool:
    """Swap two names in one step; False where the system cannot."""
    if sys.platform != "linux":
        return False
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    done = rename(_AT_FDCWD, os.fsencode(a), _AT_FDCWD, os.fsencode(b), _RENAME_EXCHANGE)
    if done == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.EPERM, errno.ENOTSUP):
        return False
    raise OSError(code, os.strerror(code), str(b))


def _two_step(temporary: Path, target: Path) -> None:
    """Rename the old one aside and the new one into place, under names that `_recover_exchanges` pairs."""
    new = temporary_beside(target)
    tail = new.name.rpartition(names.TEMPORARY_MARK)[2]
    old = target.parent / f".{target.name}{OLD_MARK}{tail}"
    temporary.rename(new)
    target.rename(old)
    new.rename(target)
    remove(old)


def _recover_exchanges(folder: Path) -> None:
    """Finish two-step exchanges of dead writers: the new folder takes the missing target's name."""
    for old in marked(folder):
        if OLD_MARK not in old.name or not writer_is_dead(old):
            continue
        name, _, tail = old.name[1:].rpartition(OLD_MARK)
        target, new = folder / name, folder / f".{name}{names.TEMPORARY_MARK}{tail}"
        if not target.exists():
            (new if new.exists() else old).rename(target)


@contextmanager
def atomic_file(target: Path, *, overwrite: bool = True) -> Iterator[Path]:
    """Yield a temporary path beside `target`; publish it when the block ends well, delete it otherwise.

    Raises:
        OutputExistsError: the target exists and `overwrite` is False.
    """
    with _temporary(target, overwrite) as temporary:
        yield temporary
        publish_file(temporary, target)


@contextmanager
def atomic_folder(target: Path, *, overwrite: bool = True) -> Iterator[Path]:
    """Yield an empty temporary folder beside `target`; publish it whole when the block ends well.

    Raises:
        OutputExistsError: the target exists and `overwrite` is False.
    """
    with _temporary(target, overwrite) as temporary:
        temporary.mkdir()
        yield temporary
        publish_folder(temporary, target)


@contextmanager
def _temporary(target: Path, overwrite: bool) -> Iterator[Path]:
    if target.exists() and not overwrite:
        raise OutputExistsError("the output exists", place=target, hint="Use --force to replace it.")
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_beside(target)
    try:
        yield temporary
    finally:
        remove(temporary)


@contextmanager
def named_temporary(target: Path) -> Iterator[Path]:
    """Yield a free path with the target's own name inside a temporary folder beside it.

    For outputs that are checked before they are published (messages then name the target). Nothing is
    published here: call `publish`; whatever is left is deleted at the end of the block.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = temporary_beside(target)
    folder.mkdir()
    try:
        yield folder / target.name
    finally:
        remove(folder)


def publish(temporary: Path, target: Path) -> None:
    """Publish a finished temporary file or folder onto its target."""
    put = publish_folder if temporary.is_dir() else publish_file
    put(temporary, target)


def write_text(target: Path, text: str) -> None:
    """Write a UTF-8 file atomically, line ends as given."""
    with atomic_file(target) as temporary:
        temporary.write_bytes(text.encode("utf-8"))


def write_json(target: Path, value: object) -> None:
    """Write strict, sorted, indented JSON atomically."""
    write_text(target, jsontext.dumps(value, indent=2) + "\n")


def require_space(folder: Path, needed: int, *, what: str) -> None:
    """Check that the file system of `folder` (or its nearest existing parent) has room.

    Args:
        folder: Where the output goes.
        needed: Bytes the output will take at most.
        what: Named in the error.

    Raises:
        DiskSpaceError: less than `needed` bytes are free.
    """
    existing = folder.absolute()
    while not existing.exists():
        existing = existing.parent
    free = shutil.disk_usage(existing).free
    if free < needed:
        raise DiskSpaceError(
            "not enough free disk space",
            place=folder,
            got=f"{free:,} bytes free",
            expected=f"{needed:,} bytes for {what}",
            hint="Free some space or choose another data root.",
        )
