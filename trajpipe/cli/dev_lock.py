"""One `trajpipe dev` on one DAGSTER_HOME: the lock that it holds, and who holds it.

Two daemons on one instance ask for every run twice. The kernel drops the lock however its holder ends.
What is not here: daemons that others start, see `trajpipe.defs.daemons`.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from trajpipe.core.errors import StateError

FILE: Final = "trajpipe-dev.lock"


@contextmanager
def only_one(home: Path) -> Iterator[Callable[[str], None]]:
    """Hold a DAGSTER_HOME alone; yields a function that takes the URL, to be told to whom is refused.

    A file system that knows no such locks is no reason not to start.

    Args:
        home: DAGSTER_HOME; the lock lies in it.

    Raises:
        StateError: another `trajpipe dev` holds it.
    """
    with (home / FILE).open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise _refusal(home, file.read()) from None
        except OSError:
            pass

        def tell(url: str) -> None:
            file.truncate(0)
            file.write(f"pid {os.getpid()}\nurl {url}\n")
            file.flush()

        tell("not yet known")
        try:
            yield tell
        finally:
            with suppress(OSError):  # a full disk
                file.truncate(0)


def _refusal(home: Path, text: str) -> StateError:
    told = dict(line.split(" ", 1) for line in text.splitlines() if " " in line)
    pid, url = told.get("pid", "unknown"), told.get("url", "unknown")
    return StateError(
        "another `trajpipe dev` works on this Dagster instance",
        place=home,
        got=f"pid {pid}, url {url}",
        expected="one daemon for an instance",
        hint=f"Use that one, stop it (kill {pid}), or name another instance: --home DIR.",
    )
