"""`trajpipe dev` is stopped whole by every signal that stops a process: nothing of Dagster goes on running.

What is not here: Ctrl-C, see `test_walk.py`; its port and options, see `test_doctor.py`.
"""

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from trajpipe.testing import write_recording
from trajpipe_tests.cli.conftest import command_line, environment
from trajpipe_tests.cli.test_interrupt import alive_in_group

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

CATALOGUE = "version: 1\ndatasets:\n  lift:\n    raw: [{kind: isaaclab, glob: raw/*.hdf5, tag: rl}]\n"
STUBBORN = (
    "import os, signal, subprocess, sys, time\n"
    "for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, signal.SIG_IGN)\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)'])\n"
    "print(os.getpid(), flush=True); time.sleep(300)"
)
SERVE = """\
import os, sys
from trajpipe.cli.stopping import signals_handled
from trajpipe.cli.terminal import Terminal
from trajpipe.cli.dagster_session import serve
with signals_handled():
    serve([sys.executable, "-c", sys.argv[1]], dict(os.environ), "http://127.0.0.1:9", Terminal())
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A data folder with one recording."""
    write_recording("isaaclab", tmp_path / "raw" / "a.hdf5", episodes=1, rows=(4, 6), cameras=())
    (tmp_path / "datasets.yaml").write_text(CATALOGUE)
    return tmp_path


def dev_of(project: Path) -> list[str]:
    """The command over a project."""
    port = 50000 + os.getpid() % 10000
    return command_line(["dev", "--json", "--root", project, "--home", project / ".dagster", "--port", port])


def leader_of(process: "subprocess.Popen[str]", log: Path) -> int:
    """Wait until `trajpipe dev` is ready; the pid that leads Dagster's session."""
    assert process.stdout is not None
    text = ""
    while not text.endswith("\n}\n"):  # one indented document
        line = process.stdout.readline()
        assert line, log.read_text()[-3000:]
        text += line
    return int(json.loads(text)["pid"])


@contextmanager
def ended(process: "subprocess.Popen[str]") -> Iterator[None]:
    """Leave nothing running, also when the test fails."""
    try:
        yield
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(120)
        assert process.stdout is not None
        process.stdout.close()


def in_session(leader: int) -> list[str]:
    """The live processes of a session: their command lines."""
    out = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) == leader and fields[0] != "Z":
                out.append((stat.parent / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue  # it ended while we looked
    return out


def ignored(pid: int) -> set[int]:
    """The signals that a process ignores."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (mask,) = [int(line.split()[1], 16) for line in lines if line.startswith("SigIgn:")]
    return {number for number in range(1, 65) if mask >> (number - 1) & 1}


@contextmanager
def sigint_ignored() -> Iterator[None]:
    """What is started inside ignores SIGINT, as a script's background job does."""
    former = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)


def test_sigterm_stops_the_whole_session_also_of_a_background_job(project: Path) -> None:
    log = project / "dev.log"
    with log.open("w") as errors, sigint_ignored():
        process = subprocess.Popen(
            dev_of(project),
            cwd=project,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    with ended(process):
        leader = leader_of(process, log)
        assert signal.SIGINT in ignored(process.pid)
        assert not {signal.SIGINT, signal.SIGTERM} & ignored(leader)
        assert len(in_session(leader)) >= 4  # itself, web server, daemon, code server
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 143
        assert in_session(leader) == []
    assert "Dagster services shut down" in log.read_text()  # asked, not killed
    assert "superseded" not in log.read_text()


def test_a_closed_terminal_stops_the_whole_session(project: Path) -> None:
    ours, theirs = os.openpty()
    # The terminal that a session's leader opens first is the session's.
    shell = ["sh", "-c", 'exec "$@" <"$0" 2>"$0"', os.ttyname(theirs)]
    process = subprocess.Popen(
        [*shell, *dev_of(project)],
        cwd=project,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    shown, closing = project / "dev.log", threading.Event()
    shown.touch()

    def show() -> None:
        while not closing.is_set():
            if select.select([ours], [], [], 0.1)[0]:
                with shown.open("ab") as file:
                    file.write(os.read(ours, 1 << 16))

    terminal = threading.Thread(target=show)
    terminal.start()
    with ended(process):
        try:
            leader = leader_of(process, shown)
            assert len(in_session(leader)) >= 4
        finally:
            closing.set()
            terminal.join()
            os.close(theirs)
            os.close(ours)  # the kernel tells the session's leader
        assert process.wait(120) == 129
        assert in_session(leader) == []


def test_whoever_cannot_wait_leaves_nothing_behind_either() -> None:
    """The third signal ends at once what ignores the first ones, and what that started."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, STUBBORN],
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with ended(process):
        assert process.stdout is not None
        leader = int(process.stdout.readline())
        assert len(in_session(leader)) == 2
        deadline = time.monotonic() + 20
        while process.poll() is None and time.monotonic() < deadline:
            process.send_signal(signal.SIGTERM)
            time.sleep(0.2)
        assert process.poll() == 143
        assert "once more ends at once" in process.stdout.read()
        assert not alive_in_group(leader)
