"""Ctrl-C, SIGTERM and SIGHUP: the first unwinds the stack, temporaries are removed; no request is lost.

An exception raised in a C callback (h5py's visitors) comes out as another one, or not at all: hence a flag.
What is not here: worker processes, see `trajpipe.pipeline.workers`.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

from trajpipe.cli.terminal import EXIT_HUNG_UP, EXIT_INTERRUPTED, EXIT_TERMINATED

_CODES: Final = {
    signal.SIGINT: EXIT_INTERRUPTED,
    signal.SIGTERM: EXIT_TERMINATED,
    signal.SIGHUP: EXIT_HUNG_UP,
}
_WORDS: Final = {
    EXIT_INTERRUPTED: "interrupted",
    EXIT_TERMINATED: "terminated",
    EXIT_HUNG_UP: "the terminal hung up",
}


class Stop(KeyboardInterrupt):
    """The user or the system asked the command to stop."""


class Stopping:
    """Which signals came, since the command began.

    Attributes:
        code: Exit code of the first signal; None when none came.
        groups: Process groups to kill when a third signal ends this process at once.
    """

    def __init__(self) -> None:
        self.code: int | None = None
        self.groups: set[int] = set()
        self._count = 0
        self._held = False

    def forget(self) -> None:
        """Begin anew: one process may run several commands, as tests do."""
        self.code, self._count, self._held = None, 0, False
        self.groups.clear()

    def ask(self, number: int, _frame: FrameType | None) -> None:
        """Handle a signal: unwind on the first, clean up in peace on the second, end at once on the third.

        Raises:
            Stop: on the first signal.
        """
        self._count += 1
        if self._count == 1:
            self.code = _CODES[signal.Signals(number)]
            if self._held:
                return
            raise Stop
        if self._count == 2:
            with suppress(OSError):  # the terminal may be gone
                sys.stderr.write("\nremoving what is half-written; once more ends at once\n")
            return
        for group in self.groups:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        os._exit(_CODES[signal.Signals(number)])

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep a first signal until the end, so that what is begun inside is known to who must end it.

        Raises:
            Stop: a signal came, now or before.
        """
        self._held = True
        try:
            yield
        finally:
            self._held = False
        self.check()

    def check(self) -> None:
        """Raise again when a request to stop was swallowed on its way.

        Raises:
            Stop: a signal came.
        """
        if self.code is not None:
            raise Stop


STOPPING: Final = Stopping()


def word_of(code: int) -> str:
    """`interrupted`, `terminated` or `the terminal hung up`."""
    return _WORDS[code]


@contextmanager
def signals_handled() -> Iterator[Stopping]:
    """Handle the signals while a command runs; the former handlers come back after it."""
    STOPPING.forget()
    if threading.current_thread() is not threading.main_thread():
        yield STOPPING
        return
    former, hook = {number: signal.getsignal(number) for number in _CODES}, sys.unraisablehook
    sys.unraisablehook = lambda lost: None if isinstance(lost.exc_value, Stop) else hook(lost)
    for number in _CODES:
        if former[number] is not signal.SIG_IGN:
            signal.signal(number, STOPPING.ask)
    try:
        yield STOPPING
    finally:
        sys.unraisablehook = hook
        for number, handler in former.items():
            signal.signal(number, handler)
