"""More recordings than a process may have files open, and than a folder should be looked through for.

What is not here: memory, see `test_memory`; time, see `bench/sizing.py`.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from trajpipe.core.temporaries import marked, temporary_beside
from trajpipe.testing import write_recording

RECORDINGS, FILES = 70, 64
CATALOGUE = """\
version: 1
datasets: {lift: {raw: [{kind: isaaclab, glob: raw/*.hdf5, conventions: {fps: 20}}]}}
"""


def trajpipe(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command in a process that may have few files open."""
    return subprocess.run(
        [sys.executable, "-m", "trajpipe", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES)),
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with more recordings than a process may have files open; all stages are built."""
    root = tmp_path_factory.mktemp("many")
    one = write_recording(
        "isaaclab", root / "one.hdf5", episodes=1, rows=(3, 4), image_size=32, cameras=("table_cam",)
    )
    (root / "data/raw").mkdir(parents=True)
    for n in range(RECORDINGS):
        (root / f"data/raw/r{n:03d}.hdf5").write_bytes(one.read_bytes())
    (root / "data/datasets.yaml").write_text(CATALOGUE)
    ran = trajpipe(root, "run", "--jobs", "1")
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]
    return root


@pytest.mark.parametrize(
    "command",
    [
        ("run",),
        ("gate",),
        ("report", "lift", "-o", "r.html"),
        ("check", "data/lerobot/lift", "data/stores/lift.h5"),
        ("certify", "data/raw", "data/demos", "data/stores/lift.h5", "data/lerobot/lift"),
    ],
    ids=lambda command: command[0],
)
def test_a_dataset_may_have_more_recordings_than_a_process_may_have_files_open(
    project: Path, command: tuple[str, ...]
) -> None:
    done = trajpipe(project, *command)
    assert "Too many open files" not in done.stdout + done.stderr
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def test_temporaries_are_found_among_very_many_outputs(tmp_path: Path) -> None:
    for n in range(3000):
        (tmp_path / f"output_{n}.hdf5").touch()
    temporary = temporary_beside(tmp_path / "output_7.hdf5")
    temporary.touch()
    assert marked(tmp_path) == [temporary]
    assert marked(tmp_path / "absent") == []
