"""Atomic files and folders: whole or not at all; locks, free-space checks, stale temporaries.

A temporary lies beside its target (same file system), is fsynced, then renamed. Its name holds the
writer's pid and start time, so a dead writer's temporary is recognised.
What is not here: what goes into the files.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import socket
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from trajpipe.core import jsontext, names
from trajpipe.core.errors import DiskSpaceError, LockedError, OutputExistsError

_RENAME_EXCHANGE: Final = 2
_AT_FDCWD: Final = -100
_OLD_MARK: Final = names.TEMPORARY_MARK + "old-"


def temporary_beside(target: Path) -> Path:
    """A fresh temporary name in the target's own folder: `.<name>.trajpipe-tmp-<pid>-<start>-<random>`."""
    tail = f"{os.getpid()}-{_start_of(os.getpid())}-{uuid.uuid4().hex[:8]}"
    return target.parent / f".{target.name}{names.TEMPORARY_MARK}{tail}"


def _start_of(pid: int) -> int:
    """Kernel start time of a process in clock ticks; 0 where /proc is absent or the process is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[19])


def is_alive(pid: int, start: int) -> bool:
    """True when the process that had this pid and start time still runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return start == 0 or _start_of(pid) in (0, start)


def stale_temporaries(folder: Path) -> list[Path]:
    """Temporaries in this folder (not below it) whose writer is dead."""
    if not folder.is_dir():
        return []
    return [p for p in sorted(folder.iterdir()) if names.TEMPORARY_MARK in p.name and not _writer_lives(p)]


def _writer_lives(path: Path) -> bool:
    parts = path.name.rpartition(names.TEMPORARY_MARK)[2].removeprefix("old-").split("-")
    if len(parts) < 2 or not (parts[0].isdigit() and parts[1].isdigit()):
        return False
    return is_alive(int(parts[0]), int(parts[1]))


def remove_stale(folder: Path) -> list[Path]:
    """Delete dead writers' temporaries in this folder, finishing a half-done folder exchange first."""
    _recover_exchanges(folder)
    gone = stale_temporaries(folder)
    for path in gone:
        remove(path)
    return gone


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
    os.replace(temporary, target)
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
        os.rename(temporary, target)
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
    tail = temporary.name.rpartition(names.TEMPORARY_MARK)[2]
    old = target.parent / f".{target.name}{_OLD_MARK}{tail}"
    os.rename(target, old)
    os.rename(temporary, target)
    remove(old)


def _recover_exchanges(folder: Path) -> None:
    """Finish two-step exchanges of dead writers: the new folder takes the missing target's name."""
    if not folder.is_dir():
        return
    for old in sorted(folder.iterdir()):
        if _OLD_MARK not in old.name or _writer_lives(old):
            continue
        name, _, tail = old.name[1:].rpartition(_OLD_MARK)
        target, new = folder / name, folder / f".{name}{names.TEMPORARY_MARK}{tail}"
        if not target.exists():
            os.rename(new if new.exists() else old, target)


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
    if temporary.is_dir():
        beside = temporary_beside(target)
        temporary.rename(beside)
        publish_folder(beside, target)
    else:
        publish_file(temporary, target)


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


@contextmanager
def output_lock(target: Path, *, wait_s: float = 0.0) -> Iterator[None]:
    """Hold `<target>.lock` (pid, start time, host) while an output is being made.

    A lock whose process on this host is dead is taken over. Locks of other hosts are never taken over.

    Args:
        target: The output.
        wait_s: How long to wait for a live holder, seconds.

    Raises:
        LockedError: a live process still holds the lock after `wait_s`; it names the holder.
    """
    lock = target.parent / f".{target.name}{names.SUFFIX_LOCK}"
    lock.parent.mkdir(parents=True, exist_ok=True)
    mine = {"pid": os.getpid(), "start": _start_of(os.getpid()), "host": socket.gethostname()}
    deadline = time.monotonic() + wait_s
    while not _try_lock(lock, mine):
        if time.monotonic() >= deadline:
            holder = lock_holder(lock)
            raise LockedError(
                "another run is making this output",
                place=target,
                got=f"lock held by pid {holder.get('pid')} on {holder.get('host')}",
                hint=f"Wait for it, or delete {lock} if that process is gone.",
            )
        time.sleep(0.05)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)


def _try_lock(lock: Path, mine: dict[str, int | str]) -> bool:
    """Link a private file into the lock's place: the lock appears with its content or not at all."""
    private = temporary_beside(lock)
    private.write_text(json.dumps(mine))
    try:
        os.link(private, lock)
        return True
    except FileExistsError:
        holder = lock_holder(lock)
        if lock_is_stale(holder):
            _break_lock(lock, holder)
        return False
    finally:
        private.unlink(missing_ok=True)


def _break_lock(lock: Path, holder: dict[str, int | str]) -> None:
    """Remove a dead holder's lock; moved aside first, so that two breakers cannot remove a new one."""
    aside = temporary_beside(lock)
    try:
        os.rename(lock, aside)
    except FileNotFoundError:
        return
    if lock_holder(aside) != holder:
        try:
            os.link(aside, lock)
        except FileExistsError:
            pass
    aside.unlink(missing_ok=True)


def lock_holder(lock: Path) -> dict[str, int | str]:
    """Who holds a lock file: pid, start, host; empty when it is gone or unreadable."""
    try:
        value = json.loads(lock.read_text())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def lock_is_stale(holder: dict[str, int | str]) -> bool:
    """True when the holder was a process of this host that is dead."""
    if holder.get("host") != socket.gethostname():
        return False
    return not is_alive(int(holder.get("pid", 0)), int(holder.get("start", 0)))
