"""The store's benchmark runs at a small size, prints its table, and says what was missed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from trajpipe_tests.conftest import REPOSITORY

STAGES = [
    "append, one column, 26 floats",
    "append, five columns, 17+6+1+1+1 floats",
    "whole column into a warm buffer",
    "whole column, no copy",
    "the same by plain h5py",
    "slab of 64 rows of the mapped column",
    "slab of 512 rows of the mapped column",
    "slab of 4096 rows of the mapped column",
    "4096 random rows of 60,000 by 26",
    "uint8 image batch of 64",
    "prioritized descent, 4096 of 1 M",
    "the whole prioritized draw",
    "priority update, 4096",
    "image column, write",
    "image column, read",
    "opening 1,000,000 episodes",
    "writer's memory, five columns",
]


@pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler")
def test_the_benchmark_covers_every_stage(tmp_path: Path) -> None:
    ran = subprocess.run(
        [
            sys.executable,
            "bench/store.py",
            "--rows",
            "60000",
            "--rounds",
            "1",
            "--json",
            str(tmp_path / "x.json"),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads((tmp_path / "x.json").read_text())
    assert [row["stage"] for row in found] == STAGES
    assert all(row["ratio"] > 0 for row in found)
    assert sum(line.startswith("| ") for line in ran.stdout.splitlines()) == len(STAGES) + 1
    by_stage = {row["stage"]: row for row in found}
    assert by_stage["opening 1,000,000 episodes"]["ratio"] < 1, "0.3 s, on any machine"
    assert by_stage["writer's memory, five columns"]["ratio"] < 2
