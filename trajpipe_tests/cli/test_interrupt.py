"""Stopping a run: a clean message, the right exit code, whole outputs only, and a next run that finishes."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from trajpipe.cli import terminal
from trajpipe.core.names import TEMPORARY_MARK
from trajpipe.testing import write_recording
from trajpipe_tests.cli.conftest import REPOSITORY, Command, command_line, environment

INTERRUPTED = "\ninterrupted: nothing half-written was left; run the same command to go on\n"
TERMINATED = INTERRUPTED.replace("interrupted", "terminated")
HUNG_UP = INTERRUPTED.replace("interrupted", "the terminal hung up")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a `data` of three recordings that take some seconds to build."""
    folder = tmp_path_factory.mktemp("interrupt")
    raw = folder / "data" / "raw"
    first = write_recording(
        "isaaclab", raw / "a.hdf5", episodes=8, rows=(90, 100), image_size=64, cameras=("table_cam",)
    )
    for name in ("b.hdf5", "c.hdf5"):
        (raw / name).write_bytes(first.read_bytes())
    (folder / "data" / "datasets.yaml").write_text(
        "version: 1\ndatasets:\n  lift:\n    raw: [{kind: isaaclab, glob: raw/*.hdf5, tag: rl}]\n"
    )
    return folder


def temporaries(folder: Path) -> list[Path]:
    """Everything half-written below a folder."""
    return [p for p in folder.rglob("*") if TEMPORARY_MARK in p.name]


def start(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    """Start a command as the leader of its own process group, as a shell does."""
    return subprocess.Popen(
        command_line(arguments),
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for_work(folder: Path, process: "subprocess.Popen[str]", stage: str) -> None:
    """Wait until a temporary of a stage exists: the run is in the middle of it."""
    deadline = time.monotonic() + 120
    while not any(".lock." not in p.name for p in temporaries(folder / "data" / stage)):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def stop(process: "subprocess.Popen[str]", number: signal.Signals, *, group: bool) -> tuple[int, str, str]:
    """Send a signal to the process or, as a terminal does, to its whole group; what it left."""
    if group:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


@pytest.mark.parametrize("stage", ["demos", "stores", "lerobot"])
def test_an_interrupt_in_the_middle_of_a_stage(
    project: Path, invoke: Command, stage: str, tmp_path: Path
) -> None:
    process = start(project, "run", "--force")
    wait_for_work(project, process, stage)
    assert stop(process, signal.SIGINT, group=True) == (130, "", INTERRUPTED)
    assert temporaries(project) == []
    for folder in ("demos", "stores", "lerobot"):
        if any((project / "data" / folder).glob("*")):
            assert invoke("check", project / "data" / folder).code == 0


@pytest.mark.parametrize(
    ("number", "group", "code", "message"),
    [
        (signal.SIGINT, True, 130, INTERRUPTED),
        (signal.SIGINT, False, 130, INTERRUPTED),
        (signal.SIGTERM, False, 143, TERMINATED),
        (signal.SIGHUP, True, 129, HUNG_UP),
    ],
)
def test_worker_processes_stop_too(
    project: Path, number: signal.Signals, group: bool, code: int, message: str
) -> None:
    process = start(project, "run", "--force", "--stage", "demos", "--jobs", "2")
    wait_for_work(project, process, "demos")
    assert stop(process, number, group=group) == (code, "", message)
    assert temporaries(project) == []
    assert sys.platform != "linux" or not alive_in_group(process.pid)


def alive_in_group(group: int) -> bool:
    """True when a process of the group still runs after a second; one that is dead and unreaped does not."""
    for _ in range(100):
        states = [status.rpartition(")")[2].split() for status in map(_status, Path("/proc").glob("[0-9]*"))]
        if not any(fields[2] == str(group) and fields[0] != "Z" for fields in states if len(fields) > 2):
            return False
        time.sleep(0.01)
    return True


def _status(process: Path) -> str:
    try:
        return (process / "stat").read_text()
    except OSError:
        return ""


def test_an_interrupted_conversion_leaves_nothing(project: Path, tmp_path: Path) -> None:
    source = project / "data" / "raw" / "a.hdf5"
    process = start(tmp_path, "convert", str(source), "o.h5", "--to", "store")
    deadline = time.monotonic() + 120
    while not temporaries(tmp_path):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert stop(process, signal.SIGINT, group=True) == (130, "", INTERRUPTED)
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


def test_under_json_too_stdout_stays_empty(project: Path) -> None:
    process = start(project, "run", "--force", "--json", "--stage", "demos")
    wait_for_work(project, process, "demos")
    assert stop(process, signal.SIGINT, group=True) == (130, "", INTERRUPTED)


def kill_at(folder: Path, delays: Sequence[float]) -> None:
    """SIGKILL a forced run after each of these delays."""
    for delay in delays:
        process = start(folder, "run", "--force", "--jobs", "2")
        time.sleep(delay)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)


def test_after_kills_every_visible_output_is_whole_and_the_next_run_finishes(
    project: Path, invoke: Command, full: bool
) -> None:
    moments = random.Random(7)
    for _ in range(15 if full else 2):
        kill_at(project, [moments.uniform(0.3, 6.0)])
        for folder in ("demos", "stores", "lerobot"):
            visible = [p for p in (project / "data" / folder).glob("[!.]*") if not p.name.endswith(".json")]
            for path in visible:
                assert invoke("check", path).code == 0
    ran = invoke("run", cwd=project)
    assert ran.code == 0, ran.out
    assert temporaries(project) == []


def test_the_exit_codes_are_in_the_documents() -> None:
    text = (REPOSITORY / "docs" / "running.md").read_text()
    assert (
        f"| {terminal.EXIT_INTERRUPTED} | interrupted (Ctrl-C); {terminal.EXIT_TERMINATED}: terminated |"
        in text
    )
    assert f"| {terminal.EXIT_HUNG_UP} | the terminal was closed; " in text
