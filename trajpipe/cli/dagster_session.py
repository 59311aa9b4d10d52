"""Running `dagster dev` in a session of its own, which ends with us however we end.

What is not here: its command and environment, and what is said of it, see `trajpipe.cli.verbs.dev`.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from trajpipe.cli.stopping import STOPPING
from trajpipe.cli.terminal import EXIT_COULD_NOT, EXIT_FINE, Terminal

READY_S: Final = 180.0
STOP_S: Final = 30.0
KILLED_S: Final = 5.0
_PR_SET_PDEATHSIG: Final = 1


def serve(command: list[str], environment: dict[str, str], url: str, terminal: Terminal) -> int:
    """Run Dagster until it ends or we are asked to stop; its own processes end with it.

    It leads a session of its own: a Ctrl-C of the terminal reaches us alone, and we pass it on once.

    Args:
        command: The command line of `dagster dev`.
        environment: Its environment.
        url: Where its web server will answer.
        terminal: Is told when it does.

    Returns:
        The exit code.
    """
    process: subprocess.Popen[bytes] | None = None
    try:
        with STOPPING.held(), _heeded_by_children():
            process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr,
                start_new_session=True,
                preexec_fn=_interrupted_with_us(),  # noqa: PLW1509 - no other thread holds a lock here
            )
            STOPPING.groups.add(process.pid)
        if _wait_until_ready(process, url):
            terminal.print(f"ready: {url}")
            terminal.document({"ready": True, "url": url, "pid": process.pid})
        code = process.wait()
        terminal.note(f"dagster dev ended with code {code}")
        return EXIT_FINE if code == 0 else EXIT_COULD_NOT
    finally:
        if process is not None:
            stop(process)
            STOPPING.groups.discard(process.pid)


def _interrupted_with_us() -> Callable[[], None] | None:
    """What a child does before its program: it asks the kernel for a SIGINT when we die, also by SIGKILL.

    Linux alone knows this; elsewhere a killed parent leaves its session behind.
    """
    if sys.platform != "linux":
        return None
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGINT), 0, 0, 0)
        if os.getppid() != parent:  # we died before it could ask
            os._exit(EXIT_COULD_NOT)

    return ask


@contextmanager
def _heeded_by_children() -> Iterator[None]:
    """Processes started inside heed SIGINT and SIGTERM, also where we were started to ignore them.

    A shell's background job ignores SIGINT, and whatever it starts would: ignoring is inherited, a handler of
    ours becomes the default action.
    """
    numbers = (signal.SIGINT, signal.SIGTERM)
    ignored = [number for number in numbers if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, lambda *_: None)
    try:
        yield
    finally:
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)


def _wait_until_ready(process: "subprocess.Popen[bytes]", url: str) -> bool:
    """Wait until the web server answers; False when it ended or took too long."""
    deadline = time.monotonic() + READY_S
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(OSError), urllib.request.urlopen(f"{url}/server_info", timeout=5):  # noqa: S310 - ours
            return True
        time.sleep(0.25)
    return False


def stop(process: "subprocess.Popen[bytes]") -> None:
    """Stop `dagster dev` and everything it started: SIGINT, then SIGTERM, then SIGKILL to its session.

    Args:
        process: Leads a session.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        if process.poll() is not None:
            break
        process.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # its session: what it left behind, a run among it
    process.wait()
    deadline = time.monotonic() + KILLED_S
    while _is_alive(process.pid) and time.monotonic() < deadline:  # they are not our children to wait for
        time.sleep(0.02)


def _is_alive(group: int) -> bool:
    """True while a process of the group runs; one that nobody collects does not."""
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    if not Path("/proc/self/stat").exists():
        return True
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended while we looked
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
            if int(fields[2]) == group and fields[0] not in "ZX":
                return True
    return False
