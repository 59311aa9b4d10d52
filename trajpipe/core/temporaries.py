"""Temporary names that tell their writer, and whether that writer still lives.

A name holds the writer's host, pid and start time, so a dead writer's temporary is recognised.
What is not here: publishing and removing, see `trajpipe.core.atomic`.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import uuid
from pathlib import Path
from typing import Final

from trajpipe.core import names

OLD_MARK: Final = names.TEMPORARY_MARK + "old-"
_MADE: Final[set[Path]] = set()
_MAX_MADE: Final = 4096
_MARKED: Final = (
    rf"{re.escape(names.TEMPORARY_MARK)}(?:old-)?"
    r"(?P<host>[0-9a-f]{8})-(?P<pid>\d+)-(?P<start>\d+)-[0-9a-f]{8}"
)
_TAIL: Final = re.compile(_MARKED + "$")
_IN_TEXT: Final = re.compile(r"""(?<![^/\s'"`])\.(?P<name>[^/\n]*?)""" + _MARKED)


def temporary_beside(target: Path) -> Path:
    """A fresh temporary name in the target's own folder: `.<name><mark><host>-<pid>-<start>-<random>`."""
    tail = f"{_host_mark()}-{os.getpid()}-{start_of(os.getpid())}-{uuid.uuid4().hex[:8]}"
    made = target.parent / f".{target.name}{names.TEMPORARY_MARK}{tail}"
    if len(_MADE) >= _MAX_MADE:
        _MADE.intersection_update([path for path in _MADE if path.exists()])
    _MADE.add(made.absolute())
    return made


def targets_named(text: str) -> str:
    """A message with the targets in place of their temporaries, which are gone when somebody reads it."""
    return _IN_TEXT.sub(lambda found: found["name"], text)


def own_temporaries() -> list[Path]:
    """Temporaries of this process that exist now: while it works, what it works on; after it, what was left.

    A signal that raises between two bytecodes can skip any cleanup, so who catches it asks here.
    A folder whose older one was moved aside is not among them: `remove_stale` completes that exchange.
    """
    found = sorted(path for path in _MADE if path.exists())
    return [path for path in found if not path.with_name(_aside(path.name)).exists()]


def _aside(name: str) -> str:
    """The name under which the older folder waits while this temporary takes its place."""
    head, mark, tail = name.rpartition(names.TEMPORARY_MARK)
    return f"{head}{mark}old-{tail}"


def _host_mark() -> str:
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]


def _stat_of(pid: int) -> tuple[str, int] | None:
    """Kernel state letter and start time (clock ticks); None where /proc is absent or the process is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return fields[0], int(fields[19])


def start_of(pid: int) -> int:
    """Kernel start time of a process, clock ticks; 0 when it cannot be told."""
    stat = _stat_of(pid)
    return 0 if stat is None else stat[1]


def is_alive(pid: int, start: int) -> bool:
    """True when the process that had this pid and start time still runs; a zombie does not.

    Args:
        pid: Process id on this host.
        start: Its kernel start time; 0 when the writer could not tell, then the pid alone decides.
    """
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    stat = _stat_of(pid)
    return stat is None or (stat[0] not in "ZX" and start in (0, stat[1]))


def stale_temporaries(folder: Path) -> list[Path]:
    """Temporaries in this folder (not below it) whose writer was a process of this host that is dead."""
    return [path for path in marked(folder) if writer_is_dead(path)]


def marked(folder: Path) -> list[Path]:
    """What looks like a temporary in this folder, sorted; none where there is no folder.

    Asked for before every output, of which a folder may hold very many: names are looked at before paths.
    """
    try:
        listed = os.listdir(folder)  # noqa: PTH208 - a path for each name is what takes long
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [folder / name for name in sorted(name for name in listed if names.TEMPORARY_MARK in name)]


def writer_is_dead(path: Path) -> bool:
    """False also for what is no temporary of ours, and for other hosts' (their processes cannot be seen)."""
    found = _TAIL.search(path.name)
    if found is None or found["host"] != _host_mark():
        return False
    return not is_alive(int(found["pid"]), int(found["start"]))
