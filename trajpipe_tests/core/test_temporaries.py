"""Tests of temporary names: whose they are, and whether that writer still lives.

What is not here: publishing, see test_atomic.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trajpipe.core import names
from trajpipe.core.temporaries import (
    is_alive,
    stale_temporaries,
    start_of,
    targets_named,
    temporary_beside,
    writer_is_dead,
)
from trajpipe_tests.core.processes import dead_pid, end, kill, line_of, start

MAKE_ONE = """
import sys
from pathlib import Path
from trajpipe.core.temporaries import temporary_beside
path = temporary_beside(Path(sys.argv[1]))
path.write_text("half")
print(path, flush=True)
sys.stdin.read()
"""


def test_a_temporary_lies_beside_its_target_and_is_hidden(tmp_path: Path) -> None:
    path = temporary_beside(tmp_path / "x.hdf5")
    assert path.parent == tmp_path
    assert path.name.startswith(f".x.hdf5{names.TEMPORARY_MARK}")
    assert path != temporary_beside(tmp_path / "x.hdf5")


def test_a_message_names_the_target_of_a_temporary(tmp_path: Path) -> None:
    one, two = temporary_beside(tmp_path / "x y.h5"), temporary_beside(Path("out"))
    old = two.name.replace(names.TEMPORARY_MARK, f"{names.TEMPORARY_MARK}old-")
    assert (
        targets_named(f"{one}: no. Not '{two}/meta/a.b', {old}!")
        == f"{tmp_path}/x y.h5: no. Not 'out/meta/a.b', out!"
    )
    assert targets_named("a.b .c.trajpipe-tmp-x") == "a.b .c.trajpipe-tmp-x"


def test_our_own_temporaries_are_not_stale(tmp_path: Path) -> None:
    temporary_beside(tmp_path / "x.hdf5").touch()
    assert stale_temporaries(tmp_path) == []


def test_a_killed_writer_s_temporary_is_stale_and_a_live_one_s_is_not(tmp_path: Path) -> None:
    child = start(MAKE_ONE, tmp_path / "x.hdf5")
    path = Path(line_of(child))
    assert path.exists()
    assert stale_temporaries(tmp_path) == []
    kill(child)
    assert stale_temporaries(tmp_path) == [path]


def test_a_zombie_is_dead(tmp_path: Path) -> None:
    child = start(MAKE_ONE, tmp_path / "x.hdf5")
    path = Path(line_of(child))
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert writer_is_dead(path)
    kill(child)


def test_a_pid_used_again_by_another_process_is_not_the_writer(tmp_path: Path) -> None:
    assert is_alive(os.getpid(), start_of(os.getpid()))
    assert not is_alive(os.getpid(), start_of(os.getpid()) + 1)


def test_without_a_start_time_the_pid_alone_decides() -> None:
    assert is_alive(os.getpid(), 0)
    assert not is_alive(dead_pid(), 0)


@pytest.mark.parametrize("pid", [0, -1, 2**40])
def test_numbers_that_are_no_process_are_not_alive(pid: int) -> None:
    assert not is_alive(pid, 0)


def test_a_process_of_another_user_is_alive() -> None:
    assert is_alive(1, start_of(1))


@pytest.mark.parametrize(
    "name",
    [
        "x.hdf5",
        ".x.trajpipe-tmp-",
        ".x.trajpipe-tmp-notes.txt",
        ".x.trajpipe-tmp-1-2",
        "report about .trajpipe-tmp- names.md",
    ],
)
def test_files_that_are_not_ours_are_never_stale(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    assert stale_temporaries(tmp_path) == []


def test_a_writer_on_another_host_is_never_called_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "another-host")
    child_name = temporary_beside(tmp_path / "x.hdf5").name
    monkeypatch.undo()
    dead = child_name.replace(f"-{os.getpid()}-", f"-{dead_pid()}-")
    (tmp_path / dead).touch()
    assert stale_temporaries(tmp_path) == []


def test_a_dead_writer_s_folder_is_stale_too(tmp_path: Path) -> None:
    name = temporary_beside(tmp_path / "set").name.replace(f"-{os.getpid()}-", f"-{dead_pid()}-")
    (tmp_path / name).mkdir()
    assert stale_temporaries(tmp_path) == [tmp_path / name]


def test_a_folder_that_is_not_there_has_none(tmp_path: Path) -> None:
    assert stale_temporaries(tmp_path / "absent") == []


def test_names_of_programs_with_brackets_and_spaces_are_parsed(tmp_path: Path) -> None:
    odd = tmp_path / "a) S 1 (b"
    odd.symlink_to(Path(sys.executable).resolve())
    child = subprocess.Popen(
        [str(odd), "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, text=True
    )
    time.sleep(0.2)
    assert is_alive(child.pid, start_of(child.pid))
    assert start_of(child.pid) >= start_of(os.getpid())
    assert end(child) == 0
