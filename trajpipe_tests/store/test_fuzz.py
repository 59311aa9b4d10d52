"""Damaged stores give a clear error or an unchanged read: no crash, no hang, no wrong checksummed row."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trajpipe.core.errors import TrajpipeError
from trajpipe.store import ColumnSpec, Compression, TrajectoryStoreWriter
from trajpipe_tests.store import fuzzing
from trajpipe_tests.store.recordings import random_rows

BATCH = 50


def store(path: Path, **options: Any) -> None:
    """A small store of every kind of column, without NaN."""
    specs = [
        ColumnSpec("action", "float32", 3, chunk_rows=8),
        ColumnSpec("images", "uint8", (2, 3, 6, 5), chunk_rows=4),
        ColumnSpec("deflated", "int16", 4, compression=Compression.SHUFFLE_DEFLATE, chunk_rows=8),
        ColumnSpec("done", "bool"),
    ]
    with TrajectoryStoreWriter(path, specs, env_id="Lift", tasks=["lift", "stack"], **options) as writer:
        for episode, length in enumerate((9, 4, 17)):
            rows = {s.name: random_rows(s, length, seed=episode) for s in specs}
            writer.append(**{**rows, "done": rows["done"] % 2})
            writer.end_episode()
        writer.add_side_table("ep_success", np.array([1, 0, 2], np.uint8))
        writer.add_side_table("ep_file", ["a.hdf5", "b.hdf5", "c.hdf5"])


def outcomes(path: Path, cases: int) -> Counter[str]:
    """What the cases did; a worker that dies fails the test with the case that killed it."""
    found: Counter[str] = Counter()
    for first in range(0, cases, BATCH):
        last = min(cases, first + BATCH)
        ran = subprocess.run(
            [sys.executable, "-m", fuzzing.__name__, str(path), str(first), str(last)],
            capture_output=True,
            text=True,
            timeout=5 * BATCH,
            check=False,
        )
        lines = ran.stdout.splitlines()
        assert ran.returncode == 0, f"case {first + len(lines)} ended the process: {ran.stderr[-2000:]}"
        assert len(lines) == last - first
        for line in lines:
            number, _, word = line.partition(" ")
            assert not word.startswith(("bug", "slow")), f"case {number}: {word}"
            found[word] += 1
    return found


@pytest.mark.slow
@pytest.mark.parametrize("fletcher32", [False, True])
def test_damage_is_an_error_or_harmless(tmp_path: Path, full: bool, fletcher32: bool) -> None:
    path = tmp_path / "good.h5"
    store(path, fletcher32=fletcher32)
    found = outcomes(path, 1000 if full else 100)
    errors = sum(n for word, n in found.items() if word.startswith("error"))
    assert errors > 10, "the damage was real"
    assert found["same"] > 0
    if fletcher32:
        assert found["other"] == 0, "a checksummed store never gives wrong rows"


def test_the_fuzzer_sees_wrong_rows(tmp_path: Path) -> None:
    """A changed value is told from an unchanged read; the same file is the same."""
    store(tmp_path / "a.h5")
    a = fuzzing.content(tmp_path / "a.h5")
    b = {**a, "action": a["action"] + 1}
    assert fuzzing.same(a, a)
    assert not fuzzing.same(a, b)
    assert not fuzzing.same(a, {k: v for k, v in a.items() if k != "done"})


def test_a_flipped_bit_in_a_checksummed_chunk_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "good.h5"
    store(path, fletcher32=True, image_compression="none")
    data = path.read_bytes()
    needle = fuzzing.content(path)["action"][:8].tobytes()
    at = data.index(needle) + 5
    bad = bytearray(data)
    bad[at] ^= 4
    path.write_bytes(bytes(bad))
    with pytest.raises(TrajpipeError, match="action"):
        fuzzing.content(path)
