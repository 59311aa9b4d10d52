"""None, one, two and just ended daemons of an instance are told apart, by processes and by signs of life.

What is not here: dead runs and partitions, see `test_instance.py`; what `doctor` says, see
`trajpipe_tests.cli.test_doctor`.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pytest
from dagster._daemon.types import DaemonHeartbeat
from dagster_shared.serdes import serialize_value

from trajpipe.defs.daemons import Daemons, daemon_pids, daemons_of, is_daemon
from trajpipe.pipeline.init_dagster_home import prepare_home

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
DAEMON = [sys.executable, "-m", "dagster._daemon", "run", "--empty-workspace"]
STAND_IN = [sys.executable, "-c", "import time; time.sleep(300)", "-m", "dagster._daemon", "run"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A DAGSTER_HOME as `trajpipe dev` makes it."""
    prepare_home(tmp_path / ".dagster")
    return tmp_path / ".dagster"


@contextmanager
def running(command: Sequence[str], home: Path | None) -> Iterator[int]:
    """A process with a DAGSTER_HOME in its environment, or none; its pid."""
    environment = {k: v for k, v in os.environ.items() if k != "DAGSTER_HOME"}
    process = subprocess.Popen(
        command,
        env=environment | ({} if home is None else {"DAGSTER_HOME": str(home)}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 10
        while not Path(f"/proc/{process.pid}/environ").read_bytes():  # the kernel is still loading it
            assert time.monotonic() < deadline
        yield process.pid
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def signs_of_life(home: Path, **ages: float) -> None:
    """Daemons that gave one so many seconds ago, as they note it themselves."""
    kinds = ("SENSOR", "ASSET", "SCHEDULER")
    with dg.DagsterInstance.from_config(str(home)) as instance:
        for kind, (name, age) in zip(kinds, ages.items(), strict=False):
            instance.add_daemon_heartbeat(DaemonHeartbeat(time.time() - age, kind, name, []))


@LINUX
def test_the_instance_in_the_command_line_tells_whose_a_daemon_is(home: Path, tmp_path: Path) -> None:
    with dg.DagsterInstance.from_config(str(home)) as instance:
        reference = serialize_value(instance.get_ref())
    neighbour = reference.replace(".dagster", ".dagster2")
    with (
        running([*STAND_IN, "--instance-ref", reference], None) as ours,
        running([*STAND_IN, "--instance-ref", neighbour], None),
        running(STAND_IN, None),
    ):
        assert daemon_pids(home) == (ours,)
    (tmp_path / "linked").symlink_to(home)
    with running(STAND_IN, home) as ours:
        assert daemon_pids(tmp_path / "linked") == (ours,)


@pytest.mark.parametrize(
    ("line", "runs"),
    [
        ("python -m dagster._daemon run", True),
        ("/venv/bin/python -I -m dagster._daemon run --log-level info", True),
        ("/venv/bin/dagster-daemon run", True),
        ("/venv/bin/python /venv/bin/dagster-daemon run -m package", True),
        ("dagster-daemon liveness-check", False),
        ("python -m dagster._daemon", False),
        ("grep dagster._daemon run", False),
        ("dagster._daemon run", False),
        ("sh -c dagster-daemon_run", False),
        ("", False),
    ],
)
def test_a_command_line_that_runs_a_daemon(line: str, runs: bool) -> None:
    assert is_daemon(line.split(" ")) is runs


def test_signs_that_are_old_do_not_count(home: Path) -> None:
    signs_of_life(home, one=1, two=9, three=600)
    assert set(daemons_of(home).signs) == {"one", "two"}
    assert daemons_of(home).local


@pytest.mark.parametrize(
    ("pids", "signs", "local", "count", "evidence"),
    [
        ((), {}, True, 0, "no process on this machine"),
        ((), {"a": 5.0}, True, 0, "no process on this machine; last signs of life: a 5 s ago"),
        ((7,), {"a": 5.0, "b": 90.0}, True, 1, "process 7"),  # restarted a minute ago
        ((7, 8), {"a": 5.0}, True, 2, "processes 7, 8"),
        (None, {"a": 5.0}, True, 1, "last signs of life: a 5 s ago"),
        (None, {}, True, 0, "no sign of life lately"),
        ((), {"a": 5.0}, False, 1, "no process on this machine; last signs of life: a 5 s ago"),
        ((7,), {"a": 5.0, "b": 6.0}, False, 2, "process 7; last signs of life: a 5 s ago, b 6 s ago"),
        ((), {}, False, 0, "no process on this machine; no sign of life lately"),
    ],
)
def test_what_decides_and_what_is_said_of_it(
    pids: tuple[int, ...] | None, signs: dict[str, float], local: bool, count: int, evidence: str
) -> None:
    daemons = Daemons(pids, signs, local)
    assert (daemons.count, daemons.evidence) == (count, evidence)
