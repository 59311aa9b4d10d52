"""`trajpipe dev` ends in the middle of a run, is killed outright, or is one of two: what is left, and said.

What is not here: the signals that stop it, see `test_dev.py`.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pytest

from trajpipe.cli.dev_lock import FILE, only_one
from trajpipe.core.errors import StateError
from trajpipe.core.names import SUFFIX_LOCK, TEMPORARY_MARK
from trajpipe.testing import write_recording
from trajpipe_tests.cli.conftest import Command, command_line, environment
from trajpipe_tests.cli.test_dev import CATALOGUE, in_session

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

HOLD = """\
import sys
from pathlib import Path
from trajpipe.cli.dev_lock import only_one
with only_one(Path(sys.argv[1])) as tell:
    tell("http://127.0.0.1:3000")
    print("held", flush=True)
    sys.stdin.read()
"""


def until(what: str, holds: Callable[[], bool], patience_s: float = 90.0) -> None:
    """Wait for something to become so."""
    deadline = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < deadline, f"{what}: not within {patience_s:.0f} s"
        time.sleep(0.01)


def child_of(parent: int) -> int:
    """The pid of a process's only child."""
    stats = {int(s.parent.name): s for s in Path("/proc").glob("[0-9]*/stat")}
    found = []
    for pid, stat in stats.items():
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended while we looked
        if int(fields[1]) == parent:
            found.append(pid)
    (only,) = found
    return only


def free() -> int:
    """A port that nobody listens on, nor on the next one."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            try:
                second.bind(("127.0.0.1", port + 1))
            except (OSError, OverflowError):
                continue
            return port


class Dev:
    """A running `trajpipe dev`.

    Attributes:
        process: It.
        leader: Pid of `dagster dev`, which leads its session.
        ready: What it said when it was ready.
        log: Its stderr.
    """

    def __init__(self, process: "subprocess.Popen[str]", ready: str, log: Path) -> None:
        self.process, self.ready, self.log = process, ready, log
        self.leader = child_of(process.pid)


@contextmanager
def dev(project: Path, *more: object) -> Iterator[Dev]:
    """`trajpipe dev` over a project, ready; ended with all it started when the block ends."""
    log = project / "dev.log"
    arguments = ["dev", "--root", project, "--home", project / ".dagster", *more]
    with log.open("w") as errors:
        process = subprocess.Popen(
            command_line(arguments),
            cwd=project,
            env=environment(TRAJPIPE_SENSOR_INTERVAL="1"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    running = None
    try:
        assert process.stdout is not None
        ready = process.stdout.readline()
        assert ready.startswith("ready: "), log.read_text()[-3000:]
        running = Dev(process, ready.strip(), log)
        yield running
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(120)
        if running is not None and in_session(running.leader):
            os.killpg(running.leader, signal.SIGKILL)
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A data folder without a recording."""
    (tmp_path / "raw").mkdir()
    (tmp_path / "datasets.yaml").write_text(CATALOGUE)
    return tmp_path


def half_written(project: Path) -> list[str]:
    """Names of temporaries and locks in the output folders."""
    folders = (project / "demos", project / "stores", project / "lerobot")
    found = [p.name for f in folders for p in f.rglob("*")]
    return [name for name in found if TEMPORARY_MARK in name or name.endswith(SUFFIX_LOCK)]


def writers(project: Path) -> list[int]:
    """Pids of who writes an L2 file now, as its temporary names them."""
    made = [name.partition(TEMPORARY_MARK) for name in half_written(project)]
    return [int(tail.split("-")[1]) for name, _, tail in made if tail and not name.endswith(SUFFIX_LOCK)]


def test_a_run_that_is_cut_off_is_ended_told_of_and_leaves_nothing(project: Path) -> None:
    recording = write_recording(
        "isaaclab", project / "big.hdf5", episodes=8, rows=(90, 100), image_size=96, cameras=("table_cam",)
    )
    with dev(project, "--port", free()) as running:
        recording.rename(project / "raw" / "big.hdf5")
        until("a run writes", lambda: bool(writers(project)))
        os.kill(writers(project)[0], signal.SIGSTOP)  # else it might end while Dagster's services do
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(120) == 143
        assert in_session(running.leader) == []
    assert half_written(project) == []
    with dg.DagsterInstance.from_config(str(project / ".dagster")) as instance:
        (run,) = instance.get_runs()
    assert run.status is dg.DagsterRunStatus.FAILURE
    said = running.log.read_text()
    name = f"run {run.run_id} of lift_demos [big]"
    assert f"{name} was cut off; the folder sensor asks for it again at the next start\n" in said
    assert "temporaries: deleted 1 of dead writers" in said
    assert "locks: deleted .rl_lift.hdf5.lock\n" in said
    assert said.endswith("terminated: nothing half-written was left; run the same command to go on\n")


def test_a_killed_one_takes_its_session_along_and_two_are_one_too_many(
    project: Path, trajpipe: Command
) -> None:
    port = free()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        with dev(project, "--port", port) as running:
            url = f"http://127.0.0.1:{port + 1}"
            assert running.ready == f"ready: {url}"
            assert f"port {port} is taken: {port + 1} instead\n" in running.log.read_text()
            second = trajpipe("dev", "--root", project, "--home", project / ".dagster")
            assert second.code == 2
            assert f"pid {running.process.pid}, url {url}" in second.err
            assert f"kill {running.process.pid}" in second.err
            assert len(in_session(running.leader)) >= 4  # itself, web server, daemon, code server
            running.process.kill()
            until("the session ends", lambda: in_session(running.leader) == [])
    assert "Dagster services shut down" in running.log.read_text()  # asked, not killed
    with only_one(project / ".dagster"):
        pass  # the kernel dropped the killed one's lock


def test_the_lock_names_its_holder_and_ends_with_it(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StateError, match=rf"pid {holder.pid}, url http://127\.0\.0\.1:3000"):
            only_one(tmp_path).__enter__()
    finally:
        holder.kill()
        holder.wait()
        holder.stdin.close()
        holder.stdout.close()
    with only_one(tmp_path) as tell:
        tell("http://127.0.0.1:3001")
        assert (tmp_path / FILE).read_text() == f"pid {os.getpid()}\nurl http://127.0.0.1:3001\n"
    assert (tmp_path / FILE).read_text() == ""
