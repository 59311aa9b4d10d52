"""The scripts of docs/examples that read our files without trajpipe, run as a user would."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from trajpipe.pipeline.convert import ConvertOptions, convert
from trajpipe.testing import write_recording
from trajpipe_tests.conftest import REPOSITORY

TASK = "put_the_bowl_on_the_plate"


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An L2 file and a store of a generated LIBERO recording."""
    folder = tmp_path_factory.mktemp("examples")
    raw = write_recording("libero", folder / f"{TASK}_demo.hdf5", episodes=2, rows=(6, 6), image_size=64)
    (l2,) = convert([raw], folder / "l2.hdf5", "demos")
    options = ConvertOptions(libero={"suite": "libero_goal"})
    store = convert([raw], folder / "s.h5", "store", options)[-1]
    assert l2.ok
    assert store.ok
    return {"l2": l2.path, "store": store.path}


def script(name: str, path: Path) -> str:
    """Standard output of an example in a process that cannot import trajpipe."""
    block = "import sys; sys.modules['trajpipe'] = None; sys.argv = sys.argv[1:]; import runpy; "
    code = block + "runpy.run_path(sys.argv[0], run_name='__main__')"
    ran = subprocess.run(
        [sys.executable, "-c", code, str(REPOSITORY / "docs" / "examples" / name), str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_l2_is_read_with_h5py_alone(outputs: dict[str, Path]) -> None:
    out = script("read_l2.py", outputs["l2"])
    assert "format_version 1 · rows 12" in out
    assert "demo_1" in out
    assert "(6, 7)" in out
    assert f"recorded by {TASK}_demo.hdf5 demo_1" in out
    assert "initial state (1, 79)" in out


def test_a_store_is_read_with_h5py_alone(outputs: dict[str, Path]) -> None:
    out = script("read_store.py", outputs["store"])
    assert "2 episodes, 12 rows, 10 tasks" in out
    assert "state            float64 (12, 78)" in out
    assert "first frame: (3, 64, 64)" in out
    assert "fixture" in out
