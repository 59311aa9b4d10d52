"""The walk of docs/operations.md, as a newcomer does it: every command here stands there.

What is not here: the UI's pages, see the browser tests.
"""

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import h5py
import pytest
import yaml

from trajpipe.testing import write_recording
from trajpipe_tests.cli.conftest import REPOSITORY, Ran, command_line, environment

GUIDE = REPOSITORY / "docs/operations.md"
PATIENCE_S = 240.0


class Newcomer:
    """Somebody in a project folder, with the guide at hand."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.guide = folder, GUIDE.read_text(encoding="utf-8")
        self.environment = environment(TRAJPIPE_SENSOR_INTERVAL="2")
        self.environment.pop("DAGSTER_HOME", None)

    def arguments(self, command: str) -> list[str]:
        """The arguments of a command of the guide."""
        said = re.sub(r"--run-id \S+", "--run-id RUN", command)
        assert said in self.guide, f"docs/operations.md does not say: {said}"
        return command_line(shlex.split(command)[1:])

    def does(self, command: str) -> Ran:
        """Type a command of the guide."""
        done = subprocess.run(
            self.arguments(command),
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    @contextlib.contextmanager
    def dev(self) -> Iterator["subprocess.Popen[str]"]:
        """`trajpipe dev` in a terminal of its own, ready; stopped with Ctrl-C."""
        log = self.folder.parent / "dev.log"
        with log.open("w") as errors:
            process = subprocess.Popen(
                [*self.arguments("trajpipe dev"), "--port", str(30000 + os.getpid() % 10000)],
                cwd=self.folder,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
            try:
                assert process.stdout is not None
                assert process.stdout.readline().startswith("ready: http://127.0.0.1:"), log.read_text()
                yield process
                process.send_signal(signal.SIGINT)
                assert process.wait(90) == 130, log.read_text()[-3000:]
            finally:
                if process.poll() is None:  # the test failed: Dagster's own processes must end too
                    process.send_signal(signal.SIGINT)
                    process.wait(120)
                assert process.stdout is not None
                process.stdout.close()

    def recipe(self) -> Ran:
        """The gate step of the CI recipe, as the runner's shell does it."""
        workflow = yaml.safe_load((self.folder / ".github/workflows/data.yml").read_text())
        (step,) = [s for s in workflow["jobs"]["gate"]["steps"] if s.get("name") == "Gate"]
        bin_folder = self.folder.parent / "bin"
        bin_folder.mkdir(exist_ok=True)
        (bin_folder / "trajpipe").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m trajpipe "$@"\n')
        (bin_folder / "trajpipe").chmod(0o755)
        path = f"{bin_folder}{os.pathsep}{self.environment['PATH']}"
        done = subprocess.run(
            ["bash", "-e", "-c", step["run"]],
            cwd=self.folder,
            env=self.environment | {"PATH": path},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def newcomer(tmp_path: Path) -> Newcomer:
    """Somebody who just made a project with one dataset."""
    (tmp_path / "home").mkdir()
    start = Newcomer(tmp_path)
    assert start.does("trajpipe init my_project --dataset pick_cup").code == 0
    return Newcomer(tmp_path / "my_project")


def until(what: str, holds: Callable[[], bool]) -> None:
    """Wait for something to become so."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"{what}: not within {PATIENCE_S:.0f} s"
        time.sleep(0.5)


def record(path: Path, seed: int) -> Path:
    """A small recording."""
    return write_recording("isaaclab", path, episodes=2, rows=(8, 12), seed=seed, cameras=())


def last_run(home: Path, partition: str) -> str:
    """The id of the last successful run of a partition."""
    with dg.DagsterInstance.from_config(str(home)) as instance:
        filters = dg.RunsFilter(tags={"dagster/partition": partition}, statuses=[dg.DagsterRunStatus.SUCCESS])
        runs = instance.get_runs(filters, limit=1)
    return str(runs[0].run_id) if runs else ""


def is_quiet(home: Path) -> bool:
    """True when no run is queued or goes on, now and in three seconds: a stage's run asks for the next."""
    going = dg.RunsFilter(
        statuses=[
            dg.DagsterRunStatus.QUEUED,
            dg.DagsterRunStatus.NOT_STARTED,
            dg.DagsterRunStatus.STARTING,
            dg.DagsterRunStatus.STARTED,
        ]
    )
    for pause_s in (3.0, 0.0):
        with dg.DagsterInstance.from_config(str(home)) as instance:
            if instance.get_runs(going, limit=1):
                return False
        time.sleep(pause_s)
    return True


def episodes(store: Path) -> int:
    """Episodes in a store; 0 while there is none."""
    if not store.is_file():
        return 0
    with h5py.File(store) as file:
        return len(file["ep_len"])


def test_from_an_empty_folder_to_a_red_gate(newcomer: Newcomer, tmp_path: Path) -> None:
    raw, home = newcomer.folder / "data/raw/pick_cup", newcomer.folder / ".dagster"
    store = newcomer.folder / "data/stores/pick_cup.h5"
    assert newcomer.does("trajpipe gate").code == 3  # nothing is there to be checked

    record(raw / "day1.hdf5", seed=1)
    assert "day1" in newcomer.does("trajpipe inspect data/raw/pick_cup/day1.hdf5").out
    first = newcomer.does("trajpipe gate")
    assert (first.code, episodes(store)) == (0, 2), first.out

    second = record(tmp_path / "day2.hdf5", seed=2)
    with newcomer.dev():
        shutil.copy(second, raw / "day2.hdf5")
        until("the sensor's run of day2 succeeds", lambda: last_run(home, "day2") != "")
        until("the store holds both", lambda: episodes(store) == 4)
        gated = newcomer.does(f"trajpipe gate --run-id {last_run(home, 'day2')} --dagster-home .dagster")
        assert gated.code == 0, gated.out + gated.err
        assert "pass   pick_cup/demos/day2" in gated.out
        until("no run goes on", lambda: is_quiet(home))

    well = newcomer.does("trajpipe doctor")
    assert well.code == 0, well.out
    assert newcomer.recipe().code == 0
    whole = (raw / "day2.hdf5").read_bytes()
    (raw / "day2.hdf5").write_bytes(whole[: len(whole) // 2])
    red = newcomer.does("trajpipe gate")
    assert red.code == 1
    assert "FAILED  pick_cup/demos/day2 · stage-builds" in red.out
    assert "ERROR truncated" in red.out
    failed = newcomer.recipe()
    assert failed.code == 1
    assert (newcomer.folder / "reports/gate.xml").read_text().count("<failure") == 1


@pytest.mark.shared
def test_a_real_recording_asks_for_a_line_passes_and_breaks(newcomer: Newcomer, shared_data: Path) -> None:
    recording = newcomer.folder / "data/raw/pick_cup/day1.hdf5"
    recording.write_bytes((shared_data / "isaaclab/annotated_dataset.hdf5").read_bytes())
    asked = newcomer.does("trajpipe gate")
    assert asked.code == 1
    assert "Add `fps: 20` (your rate) under `conventions:`" in asked.out
    catalogue = newcomer.folder / "data/datasets.yaml"
    commented = "        # conventions:\n        #   fps: 20\n"
    assert commented in catalogue.read_text()
    catalogue.write_text(catalogue.read_text().replace(commented, commented.replace("# ", "")))
    passed = newcomer.does("trajpipe gate")
    assert passed.code == 0, passed.out
    whole = recording.read_bytes()
    recording.write_bytes(whole[: len(whole) // 2])
    assert newcomer.does("trajpipe gate").code == 1
    assert newcomer.recipe().code == 1
