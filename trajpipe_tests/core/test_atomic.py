"""Tests of atomic outputs: whole or not at all, whenever the writer fails or is killed.

What is not here: locks and temporary names, see test_locks and test_temporaries.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import time
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path

import pytest

from trajpipe.core import atomic
from trajpipe.core.errors import DiskSpaceError, InputError, OutputExistsError
from trajpipe_tests.core.processes import end, kill, line_of, start

Usage = namedtuple("Usage", "total used free")

WRITE_FILES = """
import hashlib, sys
from pathlib import Path
from trajpipe.core.atomic import atomic_file
target, number = Path(sys.argv[1]), int(sys.argv[2])
print("ready", flush=True)
while True:
    number += 1
    body = str(number).encode() * 50_000
    with atomic_file(target) as temporary, temporary.open("wb") as handle:
        handle.write(hashlib.sha256(body).hexdigest().encode())
        for at in range(0, len(body), 4096):
            handle.write(body[at:at + 4096])
"""
WRITE_FOLDERS = """
import sys
from pathlib import Path
from trajpipe.core import atomic
target, number, exchange = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "exchange"
if not exchange:
    atomic._exchange = lambda a, b: False
print("ready", flush=True)
while True:
    number += 1
    with atomic.atomic_folder(target) as temporary:
        for name in "abcde":
            (temporary / name).write_text(str(number) * 1000)
"""
DIE_AT_RENAME = """
import os, sys
from pathlib import Path
from trajpipe.core import atomic
target, nested, at = Path(sys.argv[1]), sys.argv[2] == "nested", int(sys.argv[3])
atomic._exchange = lambda a, b: False
seen, rename = 0, Path.rename
def dying(self, other):
    global seen
    if seen == at:
        os._exit(9)
    seen += 1
    return rename(self, other)
Path.rename = dying
if nested:
    with atomic.named_temporary(target) as temporary:
        temporary.mkdir()
        (temporary / "a").write_text("new")
        atomic.publish(temporary, target)
else:
    with atomic.atomic_folder(target) as temporary:
        (temporary / "a").write_text("new")
"""


def folder_of(path: Path, text: str) -> Path:
    """A folder with one file `a`."""
    path.mkdir()
    (path / "a").write_text(text)
    return path


def fail_half_way(path: Path, error: BaseException) -> None:
    """Write something and raise."""
    path.write_text("half")
    raise error


def assert_whole_file(path: Path) -> None:
    """The file's first line of hash fits what follows."""
    data = path.read_bytes()
    assert hashlib.sha256(data[64:]).hexdigest().encode() == data[:64]


def assert_whole_folder(path: Path) -> None:
    """All five files are there and of one generation."""
    texts = {p.read_text() for p in path.iterdir()}
    assert sorted(p.name for p in path.iterdir()) == list("abcde")
    assert len(texts) == 1
    assert len(texts.pop()) >= 1000


def killed_at_random(
    code: str, target: Path, *arguments: str, full: bool, look: Callable[[Path], None]
) -> None:
    """Kill a writer many times at seeded random moments and look at the target after each."""
    moments = random.Random(20)
    for generation in range(40 if full else 8):
        child = start(code, target, generation * 1000, *arguments)
        assert line_of(child) == "ready"
        time.sleep(moments.uniform(0.001, 0.08))
        kill(child)
        atomic.remove_stale(target.parent)
        if target.exists():
            look(target)
        assert [p.name for p in target.parent.iterdir()] in ([], [target.name])
    assert target.exists()


def test_a_file_is_published_when_the_block_ends_well(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "x.bin"
    with atomic.atomic_file(target) as temporary:
        temporary.write_bytes(b"new")
        assert not target.exists()
    assert target.read_bytes() == b"new"
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_failure_keeps_the_old_file_and_leaves_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    target = tmp_path / "x.bin"
    target.write_bytes(b"old")
    with pytest.raises(error), atomic.atomic_file(target) as temporary:
        fail_half_way(temporary, error())
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_overwriting_can_be_refused(tmp_path: Path) -> None:
    target = tmp_path / "x.bin"
    target.touch()
    with pytest.raises(OutputExistsError, match="--force"), atomic.atomic_file(target, overwrite=False):
        pytest.fail("entered")
    with pytest.raises(OutputExistsError), atomic.atomic_folder(target, overwrite=False):
        pytest.fail("entered")


def test_a_block_that_writes_nothing_publishes_nothing(tmp_path: Path) -> None:
    target = tmp_path / "x.bin"
    target.write_bytes(b"old")
    with pytest.raises(FileNotFoundError), atomic.atomic_file(target):
        pass
    assert target.read_bytes() == b"old"


def test_a_folder_takes_the_place_of_an_older_one(tmp_path: Path) -> None:
    target = folder_of(tmp_path / "set", "old")
    (target / "left over").touch()
    with atomic.atomic_folder(target) as temporary:
        (temporary / "meta").mkdir()
        (temporary / "meta" / "info.json").write_text("{}")
    assert sorted(p.relative_to(target).as_posix() for p in target.rglob("*")) == ["meta", "meta/info.json"]
    assert list(tmp_path.iterdir()) == [target]


def test_a_failed_folder_keeps_the_old_one(tmp_path: Path) -> None:
    target = folder_of(tmp_path / "set", "old")
    with pytest.raises(ValueError, match="half"), atomic.atomic_folder(target) as temporary:
        fail_half_way(temporary / "a", ValueError("half"))
    assert (target / "a").read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("exchange", [True, False])
def test_both_ways_of_taking_a_folder_s_place_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, exchange: bool
) -> None:
    if not exchange:
        monkeypatch.setattr(atomic, "_exchange", lambda a, b: False)
    target = folder_of(tmp_path / "set", "old")
    with atomic.named_temporary(target) as temporary:
        folder_of(temporary, "new")
        assert temporary.name == target.name
        atomic.publish(temporary, target)
    assert (target / "a").read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def test_names_are_exchanged_in_one_step_here(tmp_path: Path) -> None:
    a, b = folder_of(tmp_path / "a", "1"), folder_of(tmp_path / "b", "2")
    inode = a.stat().st_ino
    assert atomic._exchange(a, b)
    assert (b.stat().st_ino, (b / "a").read_text(), (a / "a").read_text()) == (inode, "1", "2")


def test_an_exchange_with_what_is_not_there_is_an_error_not_a_fallback(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        atomic._exchange(folder_of(tmp_path / "a", "1"), tmp_path / "absent")


@pytest.mark.parametrize("error", [ValueError, None])
def test_a_named_temporary_leaves_nothing_unless_published(
    tmp_path: Path, error: type[Exception] | None
) -> None:
    target = tmp_path / "x.hdf5"
    target.write_bytes(b"old")
    try:
        with atomic.named_temporary(target) as temporary:
            temporary.write_bytes(b"half")
            if error is not None:
                raise error
    except ValueError:
        assert error is not None
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_file_killed_in_mid_write_is_whole_or_old(tmp_path: Path, *, full: bool) -> None:
    killed_at_random(WRITE_FILES, tmp_path / "x.bin", full=full, look=assert_whole_file)


@pytest.mark.parametrize("way", ["exchange", "two-step"])
def test_a_folder_killed_in_mid_write_is_whole_or_old(tmp_path: Path, way: str, *, full: bool) -> None:
    killed_at_random(WRITE_FOLDERS, tmp_path / "set", way, full=full, look=assert_whole_folder)


@pytest.mark.parametrize("way", ["plain", "nested"])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_two_step_exchange_killed_at_any_rename_is_completed_by_the_next_run(
    tmp_path: Path, way: str, at: int
) -> None:
    target = folder_of(tmp_path / "set", "old")
    assert end(start(DIE_AT_RENAME, target, way, at)) == 9
    atomic.remove_stale(tmp_path)
    assert (target / "a").read_text() == ("new" if at == 2 else "old")
    assert list(tmp_path.iterdir()) == [target]


def test_live_writers_temporaries_are_left_alone(tmp_path: Path) -> None:
    with atomic.atomic_file(tmp_path / "x.bin") as temporary:
        temporary.write_bytes(b"in work")
        assert atomic.remove_stale(tmp_path) == []
        assert temporary.exists()


def test_remove_takes_files_folders_and_nothing_and_never_follows_links(tmp_path: Path) -> None:
    kept = folder_of(tmp_path / "kept", "1")
    (tmp_path / "link").symlink_to(kept)
    folder_of(tmp_path / "folder", "2")
    (tmp_path / "file").touch()
    for name in ("link", "folder", "file", "absent"):
        atomic.remove(tmp_path / name)
    assert list(tmp_path.iterdir()) == [kept]
    assert (kept / "a").read_text() == "1"


def test_text_and_json_are_written_as_they_are(tmp_path: Path) -> None:
    atomic.write_text(tmp_path / "t", "a\r\n立\n")
    atomic.write_json(tmp_path / "j", {"b": 1, "a": "\udcff"})
    assert (tmp_path / "t").read_bytes() == "a\r\n立\n".encode()
    assert (tmp_path / "j").read_text() == '{\n  "a": "\\udcff",\n  "b": 1\n}\n'


def test_json_that_is_not_strict_touches_nothing(tmp_path: Path) -> None:
    atomic.write_json(tmp_path / "j", {})
    with pytest.raises(InputError):
        atomic.write_json(tmp_path / "j", {"x": float("nan")})
    assert (tmp_path / "j").read_text() == "{}\n"


def test_too_little_space_is_said_with_both_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(10_000, 9_000, 1_000))
    atomic.require_space(tmp_path / "not" / "yet", 1_000, what="the store")
    with pytest.raises(DiskSpaceError, match="got 1,000 bytes free; expected 1,001 bytes for the store"):
        atomic.require_space(tmp_path / "not" / "yet", 1_001, what="the store")


def test_space_is_asked_of_the_nearest_folder_that_exists(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    with pytest.raises(DiskSpaceError):
        atomic.require_space(tmp_path / "a" / "b", free * 2, what="everything")
    assert not (tmp_path / "a").exists()


def test_files_and_their_folder_are_fsynced_before_and_after_the_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def recording(handle: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{handle}").readlink()))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", recording)
    with atomic.atomic_folder(tmp_path / "set") as temporary:
        (temporary / "a").write_text("1")
    assert synced == [str(temporary / "a"), str(temporary), str(tmp_path)]
