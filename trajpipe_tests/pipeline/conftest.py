"""Projects in a temporary folder, made of generated recordings.

What is not here: the generator, see `trajpipe.testing`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from trajpipe.pipeline.project import Project
from trajpipe.testing import write_recording

CATALOGUE = """\
version: 1
datasets:
  lift:
    task: lift the cube
    raw:
      - kind: isaaclab
        glob: raw/lift/*.hdf5
        tag: scripted
    license: apache-2.0
"""

MakeProject = Callable[..., Project]


@pytest.fixture
def make_project(tmp_path: Path) -> MakeProject:
    """A function that writes `count` small recordings and opens the project over them."""

    def make(
        count: int = 3, *, catalogue: str = CATALOGUE, cameras: tuple[str, ...] = (), size: int = 64
    ) -> Project:
        root = tmp_path / "data"
        for number in range(count):
            write_recording(
                "isaaclab",
                root / "raw" / "lift" / f"take_{number:02d}.hdf5",
                episodes=2,
                rows=(8, 12),
                seed=number,
                cameras=cameras,
                image_size=size,
            )
        root.mkdir(exist_ok=True)
        (root / "datasets.yaml").write_text(catalogue)
        return Project.open(root / "datasets.yaml")

    return make
