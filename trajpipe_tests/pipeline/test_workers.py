"""Worker processes: results, errors and deaths stay with their call; stopping is quick, clean and quiet."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest

from trajpipe.pipeline.workers import in_workers


def double(number: int, *, plus: int = 0) -> int:
    """A call that works."""
    return 2 * number + plus


def refuse(number: int) -> int:
    """A call that raises on odd numbers."""
    if number % 2:
        raise ValueError(f"{number} is odd")
    return number


def die(number: int) -> int:
    """A call whose process disappears."""
    os._exit(number)


def hold(folder: str) -> None:
    """A call that holds a temporary file for a long time and removes it when it is stopped."""
    temporary = Path(folder) / f"{os.getpid()}.part"
    temporary.write_text("half")
    try:
        time.sleep(120)
    finally:
        temporary.unlink()


def test_results_come_in_the_order_of_the_calls() -> None:
    with in_workers(2, double, [((n,), {"plus": 1}) for n in range(5)]) as futures:
        assert [f.result() for f in futures] == [1, 3, 5, 7, 9]


def test_an_error_stays_with_its_own_call() -> None:
    with in_workers(2, refuse, [((n,), {}) for n in range(4)]) as futures:
        errors = [f.exception() for f in futures]
    assert [str(e) if e else None for e in errors] == [None, "1 is odd", None, "3 is odd"]


def test_a_death_is_an_error_of_the_call() -> None:
    with in_workers(1, die, [((7,), {})]) as futures:
        assert isinstance(futures[0].exception(), BrokenProcessPool)


def hold_until_both_began(folder: Path) -> None:
    """Start calls that hold a temporary each, wait for two of them, then fail."""
    began = time.monotonic()
    with in_workers(2, hold, [((str(folder),), {})] * 4):
        while len(list(folder.iterdir())) < 2:
            assert time.monotonic() - began < 60
            time.sleep(0.02)
        raise KeyError("stop")


def test_leaving_the_block_with_an_error_stops_the_workers_at_once(tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(KeyError):
        hold_until_both_began(tmp_path)
    assert time.monotonic() - began < 60
    assert list(tmp_path.iterdir()) == []


SCRIPT = """
import sys
from trajpipe.pipeline.workers import in_workers
from trajpipe_tests.pipeline.test_workers import hold
if __name__ == "__main__":
    try:
        with in_workers(2, hold, [((sys.argv[1],), {})] * 4) as futures:
            futures[0].result()
    except KeyboardInterrupt:
        sys.exit(130)
"""


@pytest.mark.parametrize("whole_group", [True, False], ids=["terminal", "parent-alone"])
def test_an_interrupt_ends_all_processes_without_a_word(tmp_path: Path, whole_group: bool) -> None:
    folder = tmp_path / "held"
    folder.mkdir()
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    process = subprocess.Popen(
        [sys.executable, str(script), str(folder)],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while len(list(folder.iterdir())) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    if whole_group:
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "")
    assert list(folder.iterdir()) == []
