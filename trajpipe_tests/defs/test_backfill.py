"""Many recordings at once, on SQLite, by a real daemon: no lock error, cost for each, memory that stays flat.

20 recordings on two slots; 200 with TRAJPIPE_FULL=1. The figures are printed: run it with `-s`. It is
`bench/backfill.py` that runs, so what the page on scaling tells is what is tested.
What is not here: several machines, see `test_scale_out`.
"""

import json
import os
import subprocess
import sys

import pytest

from trajpipe_tests.conftest import REPOSITORY


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_backfill_over_many_recordings(full: bool) -> None:
    number = 200 if full else 20
    done = subprocess.run(
        [sys.executable, "bench/backfill.py", "--recordings", str(number), "--slots", "2", "--json"],
        check=False,
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    assert done.stdout, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    before, after = found["memory_mb"]
    print(f"\n{json.dumps(found)}")
    assert (found["recordings"], found["seen"], found["slots"]) == (number, number, 2)
    assert found["failed"] == [f"r{number // 2:06d}"]
    assert (found["gate"], found["run_failures"], found["locked"]) == (1, [], 0)
    assert found["runs"] == number // 4  # the catalogue's default
    # A recording reports each of its rules: that is what its rows and much of its cost come from.
    assert 40 < found["events_each"] < 120
    # Services keep what they load with their first runs; 200 runs must not need more than 20.
    assert after < before * 1.25 + 60
    assert done.returncode == 0, done.stderr[-3000:]
