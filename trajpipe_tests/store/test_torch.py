"""Torch mirrors and datasets, run by an interpreter that has torch; without it the error says so."""

from __future__ import annotations

import importlib.util
import os
import site
import subprocess
import sys
from pathlib import Path

import pytest

from trajpipe.core.errors import MissingExtraError
from trajpipe.store import ResidentColumn, TrajectoryStore
from trajpipe_tests.conftest import REPOSITORY
from trajpipe_tests.store.recordings import write

HAS_TORCH = importlib.util.find_spec("torch") is not None


def interpreter() -> str:
    """This interpreter when it has torch, else the independent readers' one."""
    if HAS_TORCH:
        return sys.executable
    found = Path(os.environ.get("TRAJPIPE_READERS", "/opt/readers")) / "lerobot" / "bin" / "python"
    if not found.is_file():
        pytest.skip(f"no interpreter with torch: neither this one nor {found} (set TRAJPIPE_READERS)")
    return str(found)


@pytest.mark.readers
def test_mirrors_and_datasets(tmp_path: Path) -> None:
    write(tmp_path / "x.h5")
    # the readers' environment has torch, numpy and h5py; codecs come from this one, after its own packages
    code = (
        "import runpy, sys; sys.path += sys.argv.pop(1).split('|'); "
        "runpy.run_module('trajpipe_tests.store.torch_cases', run_name='__main__', alter_sys=True)"
    )
    ran = subprocess.run(
        [interpreter(), "-c", code, "|".join(site.getsitepackages()), str(tmp_path / "x.h5")],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert "torch cases passed on cpu" in ran.stdout


@pytest.mark.skipif(HAS_TORCH, reason="torch is installed here")
def test_without_torch_the_error_names_it(tmp_path: Path) -> None:
    write(tmp_path / "x.h5")
    with TrajectoryStore(tmp_path / "x.h5") as store:
        for call in (store.torch_dataset, ResidentColumn.load(store, "action").to_device):
            with pytest.raises(MissingExtraError, match="pip install torch"):
                call()


def test_the_store_alone_imports_neither_torch_nor_dagster() -> None:
    code = (
        "import sys\n"
        "from trajpipe.store import TrajectoryStore, TrajectoryStoreWriter, ColumnSpec, UniformSampler\n"
        "heavy = {'torch', 'dagster', 'pandas', 'pyarrow', 'av', 'matplotlib', 'mujoco'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=REPOSITORY
    )
    assert ran.returncode == 0, ran.stderr
