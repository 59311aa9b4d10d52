"""A small project with two good recordings and a broken one, and real Dagster instances.

What is not here: the tests.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from trajpipe.defs import build_defs
from trajpipe.testing import write_recording

CATALOGUE = """
version: 1
defaults:
  license: apache-2.0
  owners: ["team:data"]
datasets:
  lift:
    description: A cube is lifted.
    task: lift the cube
    raw:
      - {kind: isaaclab, glob: raw/scripted_*.hdf5, tag: scripted, conventions: {fps: 20}}
"""
BROKEN = "scripted_9"
QUIET: dict[str, Any] = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
GOOD = ("scripted_0", "scripted_1")


@dataclass(frozen=True)
class Built:
    """A project with every job run once.

    Attributes:
        runner: Runs more of it.
        scan: The run of `scan_job`.
        demos: Partition key → its run of `lift_demos`.
        build: The run of `lift_build`.
    """

    runner: "Runner"
    scan: dg.ExecuteInProcessResult
    demos: dict[str, dg.ExecuteInProcessResult]
    build: dg.ExecuteInProcessResult


def write_project(root: Path, *, good: int = 2, broken: bool = True) -> Path:
    """A data root with a catalogue and generated recordings; returns the catalogue."""
    for number in range(good):
        write_recording(
            "isaaclab",
            root / f"raw/scripted_{number}.hdf5",
            episodes=2,
            rows=(12, 16),
            seed=number,
            image_size=64,
            cameras=("table_cam",),
        )
    if broken:
        (root / f"raw/{BROKEN}.hdf5").write_bytes(b"this is not HDF5")
    (root / "datasets.yaml").write_text(CATALOGUE, encoding="utf-8")
    return root / "datasets.yaml"


class Runner:
    """Runs jobs of a project on an instance, in process, without raising."""

    def __init__(self, catalogue: Path, instance: dg.DagsterInstance) -> None:
        self.root, self.instance = catalogue.parent, instance
        self.defs = build_defs(catalogue=catalogue)

    def run(self, job: str, partition: str | None = None, force: bool = False) -> dg.ExecuteInProcessResult:
        """One run of a job."""
        definition = self.defs.resolve_job_def(job)
        ops = [] if job == "scan_job" else [node.name for node in definition.nodes]  # the scan has no force
        return definition.execute_in_process(
            instance=self.instance,
            partition_key=partition,
            run_config=QUIET | {"ops": {op: {"config": {"force": force}} for op in ops}},
            raise_on_error=False,
        )


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's data root before anything ran; copied, never used."""
    return write_project(tmp_path_factory.mktemp("pristine")).parent


@pytest.fixture
def catalogue(pristine: Path, tmp_path: Path) -> Path:
    """The project's catalogue, fresh for each test."""
    shutil.copytree(pristine, tmp_path / "data")
    return tmp_path / "data/datasets.yaml"


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """A real instance in memory."""
    with dg.DagsterInstance.ephemeral() as one:
        yield one


@pytest.fixture
def runner(catalogue: Path, instance: dg.DagsterInstance) -> Runner:
    """The project on the instance, nothing run yet."""
    return Runner(catalogue, instance)


@pytest.fixture(scope="session")
def built(pristine: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    """The project with every job run once; for tests that change no file."""
    root = tmp_path_factory.mktemp("built")
    shutil.copytree(pristine, root / "data")
    with dg.DagsterInstance.ephemeral() as one:
        runner = Runner(root / "data/datasets.yaml", one)
        scanned = runner.run("scan_job")
        demos = {key: runner.run("lift_demos", key) for key in (*GOOD, BROKEN)}
        yield Built(runner, scanned, demos, runner.run("lift_build"))
