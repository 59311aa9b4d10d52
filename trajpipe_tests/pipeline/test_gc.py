"""`gc`: what nobody makes any more is named, then deleted; nothing else is ever touched."""

from __future__ import annotations

import json
import os
import shutil
import socket
from pathlib import Path

import pytest

from trajpipe.core.temporaries import start_of
from trajpipe.pipeline.gc import collect, garbage
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.run import run
from trajpipe.testing import write_recording
from trajpipe_tests.pipeline.conftest import CATALOGUE


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of a built project of two recordings; copied, never changed."""
    root = tmp_path_factory.mktemp("gc") / "data"
    for number in range(2):
        path = root / f"raw/lift/take_{number}.hdf5"
        write_recording("isaaclab", path, episodes=1, rows=(4, 6), seed=number, cameras=())
    (root / "datasets.yaml").write_text(CATALOGUE)
    assert run(Project.open(root / "datasets.yaml")).ok
    return root


@pytest.fixture
def root(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    shutil.copytree(made, tmp_path / "data")
    return tmp_path / "data"


def project(root: Path) -> Project:
    """The project as it is now."""
    return Project.open(root / "datasets.yaml")


def files(root: Path) -> set[str]:
    """Every file below a folder."""
    return {str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()}


def test_a_built_project_has_no_garbage(root: Path) -> None:
    assert garbage(project(root)) == []


def test_the_output_of_a_removed_recording_is_named_then_deleted_with_what_lies_beside_it(root: Path) -> None:
    (root / "raw/lift/take_1.hdf5").unlink()
    before = files(root)
    # one recording is left, so that its L2 file has the task's plain name: both old files are garbage
    found = garbage(project(root))
    assert [g.path.name for g in found] == ["scripted_lift__take_0.hdf5", "scripted_lift__take_1.hdf5"]
    assert found[1].why == "no recipe makes it any more (dataset lift, made of take_1.hdf5)"
    assert found[1].bytes > found[1].path.stat().st_size
    assert files(root) == before
    assert [g.error for g in collect(project(root))] == ["", ""]
    gone = before - files(root)
    assert gone == {f for f in before if f.startswith("demos/scripted_lift__take_")}
    assert garbage(project(root)) == []


def test_the_outputs_of_a_dropped_dataset_go_its_recordings_stay(root: Path) -> None:
    (root / "datasets.yaml").write_text("version: 1\ndatasets: {}\n")
    found = collect(project(root))
    assert {g.path.name for g in found} == {
        "scripted_lift__take_0.hdf5",
        "scripted_lift__take_1.hdf5",
        "lift.h5",
        "lift",
    }
    left = files(root)
    assert left == {"datasets.yaml", "raw/lift/take_0.hdf5", "raw/lift/take_1.hdf5"}


def test_what_has_no_stamp_of_ours_is_never_touched(root: Path) -> None:
    (root / "datasets.yaml").write_text("version: 1\ndatasets: {}\n")
    (root / "demos/mine.hdf5").write_bytes(b"mine")
    (root / "demos/other.hdf5").write_bytes(b"other")
    (root / "demos/other.hdf5.recipe.json").write_text('{"version": 99}')
    outside = root.parent / "outside.hdf5"
    outside.write_bytes(b"outside")
    shutil.copy(root / "stores/lift.h5.recipe.json", root.parent / "outside.hdf5.recipe.json")
    (root / "demos/link.hdf5.recipe.json").symlink_to(root.parent / "outside.hdf5.recipe.json")
    collect(project(root))
    assert {"demos/mine.hdf5", "demos/other.hdf5"} <= files(root)
    assert outside.exists()
    assert (root.parent / "outside.hdf5.recipe.json").exists()


def test_an_output_that_a_live_run_holds_is_left_and_said(root: Path) -> None:
    (root / "datasets.yaml").write_text("version: 1\ndatasets: {}\n")
    holder = {"pid": os.getpid(), "start": start_of(os.getpid()), "host": socket.gethostname()}
    (root / "stores/.lift.h5.lock").write_text(json.dumps(holder))
    found = {g.path.name: g.error for g in collect(project(root))}
    assert f"lock held by pid {os.getpid()}" in found["lift.h5"]
    assert (root / "stores/lift.h5").exists()
    assert found["lift"] == ""
    assert not (root / "lerobot/lift").exists()


def test_evidence_of_a_failure_goes_with_its_recording(root: Path) -> None:
    (root / "raw/lift/take_2.hdf5").write_bytes(b"broken")
    run(project(root))
    assert garbage(project(root)) == []
    (root / "raw/lift/take_2.hdf5").unlink()
    (found,) = collect(project(root))
    assert found.path.name == "scripted_lift__take_2.hdf5"
    assert not any("take_2" in name for name in files(root))
