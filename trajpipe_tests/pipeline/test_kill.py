"""`trajpipe run` killed with SIGKILL in the midst of each stage: outputs stay whole, the next run finishes.

What is not here: the atomic writes below it (test_atomic) and failures without a kill (test_run).
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from trajpipe.checks.registry import run_checks
from trajpipe.core import jsontext, provenance
from trajpipe.core.names import Stage
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.results import Status
from trajpipe.pipeline.run import RunOptions, run
from trajpipe.testing import write_recording

STAGES: Final = (Stage.DEMOS, Stage.STORE, Stage.LEROBOT)
FOLDERS: Final = {Stage.DEMOS: "demos", Stage.STORE: "stores", Stage.LEROBOT: "lerobot"}
BEFORE, AFTER = "lift the cube", "lift the red cube off the table"
CATALOGUE = """\
version: 1
datasets:
  lift:
    task: {task}
    license: Apache-2.0
    raw:
      - {{kind: isaaclab, glob: "raw/lift/*.hdf5", tag: scripted}}
"""


@dataclass(frozen=True, slots=True)
class Bench:
    """Two generations of one small project, built to the end.

    Attributes:
        old: Data folder of the first generation.
        new: Data folder of the second: the same recordings, another task text, so every output differs.
        seconds: How long each stage of the second generation works, from its lock to its end.
    """

    old: Path
    new: Path
    seconds: dict[Stage, float]


def command(root: Path, stage: Stage) -> list[str]:
    """The real command line."""
    return [sys.executable, "-m", "trajpipe", "run", "--root", str(root), "--stage", stage.value, "-q"]


def started(root: Path, stage: Stage) -> subprocess.Popen[bytes]:
    """A run of one stage, returned when it holds its first lock: from here on it works on outputs."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    process = subprocess.Popen(
        command(root, stage), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment
    )
    folder = root / FOLDERS[stage]
    while process.poll() is None and not any(folder.glob(".*.lock")):
        time.sleep(0.001)
    return process


def visible(root: Path, stage: Stage) -> dict[str, str]:
    """Outputs that a user sees → SHA-256; what lies beside them is left out."""
    folder = root / FOLDERS[stage]
    found = [p for p in sorted(folder.glob("*")) if not p.name.startswith(".")]
    outputs = [p for p in found if p.is_dir() or p.suffix in (".hdf5", ".h5")]
    return {p.name: provenance.sha256_path(p) for p in outputs}


def write_catalogue(root: Path, task: str) -> None:
    """The catalogue of a generation."""
    (root / "datasets.yaml").write_text(CATALOGUE.format(task=task))


def finish(root: Path, stages: tuple[Stage, ...] = ()) -> list[Status]:
    """The next run, to the end; every stage good."""
    result = run(Project.open(root / "datasets.yaml", root), options=RunOptions(stages=stages))
    assert result.ok, [r.error for r in result.results]
    return [r.status for r in result.results]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Both generations, and how long the stages take."""
    base = tmp_path_factory.mktemp("kill")
    old, new, seconds = base / "old", base / "new", {}
    for number in range(2):
        path = old / "raw" / "lift" / f"take_{number}.hdf5"
        write_recording("isaaclab", path, episodes=3, rows=(30, 40), seed=number, image_size=64)
    write_catalogue(old, BEFORE)
    finish(old)
    shutil.copytree(old, new)
    write_catalogue(new, AFTER)
    for stage in STAGES:
        process = started(new, stage)
        began = time.perf_counter()
        _, said = process.communicate(timeout=120)
        seconds[stage] = time.perf_counter() - began
        assert process.returncode == 0, said.decode()
    for stage in STAGES:
        before, after = visible(old, stage), visible(new, stage)
        assert before.keys() == after.keys()
        assert all(before[name] != after[name] for name in after)
    return Bench(old, new, seconds)


def generation(bench: Bench, root: Path, stage: Stage) -> None:
    """A copy in which the stage is the old one and everything before it is new: a run rebuilds the stage."""
    shutil.copytree(bench.new, root)
    for later in STAGES[STAGES.index(stage) :]:
        shutil.rmtree(root / FOLDERS[later])
        shutil.copytree(bench.old / FOLDERS[later], root / FOLDERS[later])


def companions(root: Path, stage: Stage) -> Iterator[Path]:
    """The JSON files beside a stage's outputs."""
    yield from sorted((root / FOLDERS[stage]).glob("*.json"))


def assert_whole(bench: Bench, root: Path, stage: Stage) -> None:
    """Every visible output is one of the two generations, byte for byte, and valid by its own checks."""
    old, new = visible(bench.old, stage), visible(bench.new, stage)
    for name, sha256 in visible(root, stage).items():
        assert sha256 in (old[name], new[name]), f"{name} is neither generation"
        report = run_checks(stage.value, root / FOLDERS[stage] / name)
        assert report.passed, [str(f) for f in report.findings()]
    for path in companions(root, stage):
        jsontext.loads(path.read_bytes(), place=path)


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES, ids=[s.value for s in STAGES])
def test_killed_at_random_moments_everything_visible_is_whole_and_the_next_run_finishes(
    bench: Bench, tmp_path: Path, stage: Stage, *, full: bool
) -> None:
    moments = random.Random(f"kill {stage.value}")
    killed = 0
    for number in range(30 if full else 3):
        root = tmp_path / str(number)
        generation(bench, root, stage)
        process = started(root, stage)
        time.sleep(moments.uniform(0, bench.seconds[stage] * 0.9))
        process.kill()
        process.communicate(timeout=60)
        killed += process.returncode == -9
        assert_whole(bench, root, stage)
        finish(root)
        for each in STAGES:
            assert visible(root, each) == visible(bench.new, each)
            assert [p.name for p in (root / FOLDERS[each]).glob(".*")] == []
        assert set(finish(root)) == {Status.UNCHANGED}
        shutil.rmtree(root)
    assert killed, "every run was over before it was killed"


def test_what_a_killed_run_left_is_not_taken_for_the_output(bench: Bench, tmp_path: Path) -> None:
    root = tmp_path / "data"
    generation(bench, root, Stage.STORE)
    store = root / "stores" / "lift.h5"
    store.write_bytes((bench.new / "stores" / "lift.h5").read_bytes()[:-100])
    assert finish(root, (Stage.STORE,)) == [Status.BUILT]
    assert visible(root, Stage.STORE) == visible(bench.new, Stage.STORE)
