"""Peak memory of the whole chain is bounded, and does not grow with the number of demos (`bench/memory.py`).

What is not here: the full measurement of 2,000 frames, which runs with TRAJPIPE_FULL=1.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_peak_memory_stays_below_600_mb_whatever_the_number_of_demos(*, full: bool) -> None:
    frames = ["--frames", "2000"] if full else ["--frames", "0", "--rows", "45", "--smooth"]
    demos = ["2", "6"] if full else ["4", "12"]
    done = subprocess.run(
        [sys.executable, "bench/memory.py", *frames, "--demos", *demos, "--json"],
        check=False,
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    assert done.stdout, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["peak_mb"] < 600
    assert found["growth_mb"] < found["growth_limit_mb"]
    assert found["added_mb"] > 2 * found["growth_limit_mb"]  # demos kept in memory would be seen
    assert [row["demos"] for row in found["several"]] == [int(n) for n in demos]
    assert done.returncode == 0


def test_too_few_demos_are_refused_as_they_would_show_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "bench/memory.py", "--rows", "60", "--demos", "1", "4"],
        check=False,
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    assert done.returncode == 2
    assert "68 MB more of frames show no growth beyond 60 MB" in done.stderr
