"""What the stages import: nothing that only another stage needs, because each command pays for it.

What is not here: `import trajpipe` and `--help`, see `test_package.py` and `cli/test_start.py`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from trajpipe.testing.lafan import motion_clip, write_csv

EXPORT = {"av", "pyarrow", "pandas"}
NETWORK = {"huggingface_hub", "httpx2", "tenacity"}
REST = {"mujoco", "matplotlib", "torch", "dagster", "typer", "rich"}
CATALOGUE = {"pydantic", "yaml"}
SHOW = "import sys; print(*sorted({m.partition('.')[0] for m in sys.modules}))"


def loaded(code: str) -> set[str]:
    """Top-level packages that are loaded after some code ran in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{SHOW}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("trajpipe.pipeline.convert", EXPORT | NETWORK | REST | CATALOGUE),
        ("trajpipe.pipeline.ingest", EXPORT | NETWORK | REST | CATALOGUE),
        ("trajpipe.pipeline.build_store", EXPORT | NETWORK | REST | CATALOGUE),
        ("trajpipe.pipeline.export_lerobot", EXPORT | NETWORK | REST | CATALOGUE),
        ("trajpipe.pipeline.run", EXPORT | NETWORK | REST),
        ("trajpipe.export", EXPORT | NETWORK | REST | CATALOGUE),
    ],
)
def test_importing_a_stage_imports_no_other_s_packages(module: str, absent: set[str]) -> None:
    found = loaded(f"import {module}")
    assert "h5py" in found or module == "trajpipe.export"
    assert found & absent == set()


def test_a_store_of_motions_is_built_and_checked_without_the_export_s_packages(tmp_path: Path) -> None:
    csv = write_csv(tmp_path / "walk.csv", motion_clip("walk", 12))
    code = f"""
from pathlib import Path
from trajpipe.pipeline.convert import convert
(l2, store) = convert([Path({str(csv)!r})], Path({str(tmp_path / "walk.h5")!r}), "store")
assert store.ok, store.error
"""
    found = loaded(code)
    assert "mujoco" in found  # the checks ran
    assert found & (EXPORT | NETWORK | CATALOGUE | (REST - {"mujoco"})) == set()


def test_the_export_s_writer_is_loaded_when_it_is_asked_for() -> None:
    assert loaded("from trajpipe.export import export_lerobot") >= {"av", "pyarrow"}
    import trajpipe.export as package

    assert set(package.__all__) <= set(dir(package))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = package.nothing
