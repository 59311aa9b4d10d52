"""Locks of outputs: a file that names its holder, so that a dead holder's lock is recognised.

What is not here: HDF5's own file locks, see `trajpipe.hdf5.files`.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trajpipe.core import names
from trajpipe.core.errors import LockedError
from trajpipe.core.temporaries import is_alive, start_of, temporary_beside


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
    mine: dict[str, int | str] = {
        "pid": os.getpid(),
        "start": start_of(os.getpid()),
        "host": socket.gethostname(),
    }
    deadline = time.monotonic() + wait_s
    while not _try_lock(lock, mine):
        if time.monotonic() >= deadline:
            holder = lock_holder(lock)
            pid, host = holder.get("pid", "unknown"), holder.get("host", "an unknown host")
            raise LockedError(
                "another run is making this output",
                place=target,
                got=f"lock held by pid {pid} on {host}",
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
    try:
        private.write_text(json.dumps(mine))
        return _linked(private, lock) or (_break_if_stale(lock) and _linked(private, lock))
    finally:
        private.unlink(missing_ok=True)


def _linked(private: Path, lock: Path) -> bool:
    try:
        os.link(private, lock)
    except FileExistsError:
        return False
    return True


def _break_if_stale(lock: Path) -> bool:
    """Remove a dead holder's lock; True when it did.

    Breakers take turns on the folder, and each looks again when its turn comes: a lock that a second
    run has meanwhile taken over is live, and stays.
    """
    folder = os.open(lock.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        stale = lock_is_stale(lock_holder(lock))
        if stale:
            lock.unlink(missing_ok=True)
        return stale
    finally:
        os.close(folder)


def lock_holder(lock: Path) -> dict[str, int | str]:
    """Who holds a lock file: pid, start, host; empty when it is gone or unreadable."""
    try:
        value = json.loads(lock.read_text())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def lock_is_stale(holder: dict[str, int | str]) -> bool:
    """True when the holder was a process of this host that is dead."""
    pid, start = holder.get("pid"), holder.get("start")
    if holder.get("host") != socket.gethostname() or not isinstance(pid, int) or not isinstance(start, int):
        return False
    return not is_alive(pid, start)
