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
    frames = "2000" if full else "240"
    done = subprocess.run(
        [sys.executable, "bench/memory.py", "--frames", frames, "--demos", "1", "4", "--json"],
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
    assert [row["demos"] for row in found["several"]] == [1, 4]
    assert done.returncode == 0
