"""Tests of output locks with real processes: exclusion, waiting, dead holders, other hosts.

What is not here: HDF5's own locks.
"""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path

import pytest

from trajpipe.core.atomic import lock_holder, lock_is_stale, output_lock
from trajpipe.core.errors import LockedError
from trajpipe.core.temporaries import start_of
from trajpipe_tests.core.processes import dead_pid, end, kill, line_of, start

HOLD = """
import sys
from pathlib import Path
from trajpipe.core.locks import output_lock
with output_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
print("released", flush=True)
"""
COUNT = """
import sys, time
from pathlib import Path
from trajpipe.core.locks import output_lock
target, counter = Path(sys.argv[1]), Path(sys.argv[2])
for _ in range(int(sys.argv[3])):
    with output_lock(target, wait_s=60):
        value = int(counter.read_text())
        time.sleep(0.001)
        counter.write_text(str(value + 1))
"""


def lock_of(target: Path) -> Path:
    """Where the lock of an output lies."""
    return target.with_name(f".{target.name}.lock")


def left_lock(target: Path, **changes: object) -> Path:
    """A lock that somebody left behind: this host, a dead process, unless changed."""
    holder = {"pid": dead_pid(), "start": 1, "host": socket.gethostname()} | changes
    lock_of(target).write_text(json.dumps(holder))
    return lock_of(target)


def test_the_lock_names_its_holder_and_goes_with_the_block(tmp_path: Path) -> None:
    target = tmp_path / "x.hdf5"
    with output_lock(target):
        assert lock_holder(lock_of(target)) == {
            "pid": os.getpid(),
            "start": start_of(os.getpid()),
            "host": socket.gethostname(),
        }
    assert list(tmp_path.iterdir()) == []


def test_the_lock_goes_when_the_block_fails(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), output_lock(tmp_path / "x"):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_the_folder_is_made(tmp_path: Path) -> None:
    with output_lock(tmp_path / "a" / "b" / "x"):
        assert lock_of(tmp_path / "a" / "b" / "x").exists()


def test_a_second_process_is_told_who_holds_it(tmp_path: Path) -> None:
    target = tmp_path / "x.hdf5"
    child = start(HOLD, target)
    assert line_of(child) == "held"
    said = f"lock held by pid {child.pid} on {socket.gethostname()}"
    with pytest.raises(LockedError, match=said), output_lock(target):
        pytest.fail("two processes in one lock")
    assert lock_holder(lock_of(target))["pid"] == child.pid
    assert end(child) == 0


def test_waiting_takes_the_lock_when_the_holder_lets_go(tmp_path: Path) -> None:
    target = tmp_path / "x.hdf5"
    child = start(HOLD, target)
    assert line_of(child) == "held"
    assert child.stdin is not None
    child.stdin.write("\n")
    child.stdin.flush()
    with output_lock(target, wait_s=30):
        assert lock_holder(lock_of(target))["pid"] == os.getpid()
    assert end(child) == 0


def test_waiting_ends_after_the_time_given(tmp_path: Path) -> None:
    target = tmp_path / "x.hdf5"
    with output_lock(target):
        began = time.monotonic()
        with pytest.raises(LockedError), output_lock(target, wait_s=0.2):
            pytest.fail("taken twice")
        assert time.monotonic() - began >= 0.2


def test_a_killed_holder_s_lock_is_taken_over_without_waiting(tmp_path: Path) -> None:
    target = tmp_path / "x.hdf5"
    child = start(HOLD, target)
    assert line_of(child) == "held"
    kill(child)
    assert lock_of(target).exists()
    with output_lock(target):
        assert lock_holder(lock_of(target))["pid"] == os.getpid()
    assert list(tmp_path.iterdir()) == []


def test_a_killed_holder_that_nobody_waited_for_is_dead(tmp_path: Path) -> None:
    target = tmp_path / "x.hdf5"
    child = start(HOLD, target)
    assert line_of(child) == "held"
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    with output_lock(target):
        assert lock_holder(lock_of(target))["pid"] == os.getpid()
    kill(child)


def test_a_lock_of_another_host_is_never_taken_over(tmp_path: Path) -> None:
    target = tmp_path / "x.hdf5"
    lock = left_lock(target, host="another-host")
    with pytest.raises(LockedError, match="on another-host"), output_lock(target):
        pytest.fail("took another host's lock")
    assert lock.exists()


def test_a_pid_used_again_does_not_keep_a_dead_lock_alive(tmp_path: Path) -> None:
    target = tmp_path / "x.hdf5"
    left_lock(target, pid=os.getpid(), start=start_of(os.getpid()) + 1)
    with output_lock(target):
        assert lock_holder(lock_of(target))["start"] == start_of(os.getpid())


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"pid": "12", "start": 1, "host": "x"}'])
def test_an_unreadable_lock_is_kept_and_the_hint_names_it(tmp_path: Path, text: str) -> None:
    target = tmp_path / "x.hdf5"
    lock_of(target).write_text(text)
    with pytest.raises(LockedError, match=r"delete .*\.x\.hdf5\.lock"), output_lock(target):
        pytest.fail("took an unreadable lock")


def test_staleness_is_told_by_host_pid_and_start() -> None:
    mine: dict[str, int | str] = {
        "pid": os.getpid(),
        "start": start_of(os.getpid()),
        "host": socket.gethostname(),
    }
    assert not lock_is_stale(mine)
    assert lock_is_stale(mine | {"pid": dead_pid()})
    assert not lock_is_stale(mine | {"host": "another-host", "pid": dead_pid()})
    assert not lock_is_stale({})


def test_no_two_processes_are_ever_inside_even_when_all_find_a_dead_lock(
    tmp_path: Path, *, full: bool
) -> None:
    target, counter, each = tmp_path / "x.hdf5", tmp_path / "counter", 100 if full else 15
    counter.write_text("0")
    left_lock(target)
    children = [start(COUNT, target, counter, each) for _ in range(4)]
    assert [end(child) for child in children] == [0] * 4
    assert int(counter.read_text()) == 4 * each
    assert sorted(p.name for p in tmp_path.iterdir()) == ["counter"]
