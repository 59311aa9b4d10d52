"""Looks at a folder: what is hashed and when, what waits, what a state keeps; folders as recordings too.

What is not here: ticks of the sensor, see `trajpipe_tests.defs.test_sensors`.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from trajpipe.core import provenance
from trajpipe.pipeline import watched_folder
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.watched_folder import Changes, Seen, State, load, look, save

CATALOGUE = "version: 1\ndatasets: {lift: {raw: [{kind: isaaclab, glob: raw/*.hdf5}]}}\n"


class Folder:
    """A data folder that is looked at again and again."""

    def __init__(self, root: Path) -> None:
        self.root, self.state = root, State()
        (root / "raw").mkdir()
        (root / "datasets.yaml").write_text(CATALOGUE)

    def put(self, name: str, content: bytes, *, age_s: float = 60) -> Path:
        """Write a recording that was last touched some time ago."""
        path = self.root / f"raw/{name}.hdf5"
        path.write_bytes(content)
        then = time.time_ns() - int(age_s * 1e9)
        os.utime(path, ns=(then, then))
        return path

    def look(self, **options: Any) -> Changes:
        """Look, and keep what was found."""
        changes = look(Project.open(self.root / "datasets.yaml"), "lift", self.state, **options)
        self.state = changes.state
        return changes


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """An empty one."""
    return Folder(tmp_path)


def test_only_what_was_touched_is_hashed(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []
    real = provenance.sha256_path

    def noting(path: Path) -> str:
        hashed.append(path.name)
        return real(path)

    monkeypatch.setattr(provenance, "sha256_path", noting)
    for name in ("a", "b", "c"):
        folder.put(name, name.encode())
    assert folder.look().added == ["a", "b", "c"]
    assert folder.look().summary() == "nothing changed"
    folder.put("b", b"other", age_s=30)
    assert folder.look().changed == ["b"]
    assert hashed == ["a.hdf5", "b.hdf5", "c.hdf5", "b.hdf5"]


def test_a_fresh_file_must_be_found_unmoved_by_a_second_look(folder: Folder) -> None:
    folder.put("a", b"1", age_s=0)
    assert (folder.look().writing, folder.state["a"].sha256) == (["a"], "")
    folder.put("a", b"12", age_s=0)
    assert folder.look().writing == ["a"]
    assert folder.look().added == ["a"]
    assert folder.look().summary() == "nothing changed"


def test_a_changed_file_is_not_taken_for_known_while_it_is_written(folder: Folder) -> None:
    folder.put("a", b"1")
    folder.look()
    folder.put("a", b"other", age_s=0)
    assert (folder.look().writing, folder.state["a"].writing) == (["a"], True)
    assert folder.state["a"].sha256 == provenance.sha256_bytes(b"1")
    assert folder.look().changed == ["a"]


def test_a_file_that_moves_while_it_is_hashed_waits(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder.put("a", b"1")
    real = provenance.sha256_path

    def growing(of: Path) -> str:
        digest = real(of)
        with of.open("ab") as file:
            file.write(b"more")
        return digest

    monkeypatch.setattr(provenance, "sha256_path", growing)
    assert (folder.look().writing, folder.state["a"].sha256) == (["a"], "")
    monkeypatch.setattr(provenance, "sha256_path", real)
    assert folder.look().added == ["a"]
    assert folder.state["a"].sha256 == provenance.sha256_file(path)


def test_a_removed_recording_is_told_once_and_its_return_too(folder: Folder) -> None:
    path = folder.put("a", b"1")
    folder.put("b", b"2")
    folder.look()
    path.unlink()
    assert folder.look().removed == ["a"]
    assert folder.look().removed == []
    folder.put("a", b"1", age_s=40)
    assert folder.look().returned == ["a"]
    path.unlink()
    folder.look()
    folder.put("a", b"another", age_s=40)
    assert folder.look().changed == ["a"]


def test_what_never_became_whole_is_no_removal(folder: Folder) -> None:
    path = folder.put("a", b"1", age_s=0)
    folder.look()
    path.unlink()
    changes = folder.look()
    assert (changes.removed, changes.state["a"].removed) == ([], True)


def test_another_recording_renames_the_l2_file_of_the_first(folder: Folder) -> None:
    folder.put("a", b"1")
    folder.look()
    folder.put("b", b"2")
    changes = folder.look()
    assert (changes.added, changes.renamed) == (["b"], ["a"])
    assert folder.state["a"].output == "unknown_lift__a.hdf5"
    folder.put("c", b"3")
    assert folder.look().renamed == []


def test_what_cannot_be_read_is_named_and_tried_again(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.put("a", b"1")
    folder.put("b", b"2")
    real = provenance.sha256_path

    def refuses(path: Path) -> str:
        if path.name == "a.hdf5":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(provenance, "sha256_path", refuses)
    changes = folder.look()
    assert (changes.added, list(changes.unreadable)) == (["b"], ["a"])
    assert "Permission denied" in changes.unreadable["a"]
    monkeypatch.undo()
    assert folder.look().added == ["a"]


def test_the_time_of_a_look_is_bounded(folder: Folder) -> None:
    for name in ("a", "b"):
        folder.put(name, name.encode())
    changes = folder.look(budget_s=-1)
    assert (changes.added, changes.later, changes.summary()) == ([], 2, "2 left for the next look")
    assert folder.look().added == ["a", "b"]


def test_so_many_recordings_are_told_at_once_and_the_rest_later(folder: Folder) -> None:
    for name in ("a", "b", "c"):
        folder.put(name, name.encode())
    changes = folder.look(most=2)
    assert (changes.added, changes.later) == (["a", "b"], 1)
    assert folder.look(most=2).added == ["c"]
    assert folder.look(most=2).summary() == "nothing changed"


def test_a_state_is_read_back_by_its_digest_alone(tmp_path: Path) -> None:
    state = {
        "a": Seen((1, 2, 3), "ab", writing=True, output="x.hdf5"),
        "b": Seen((4, 5, 6), "cd", removed=True),
    }
    digest = save(tmp_path, "lift", state)
    assert load(tmp_path, "lift", digest) == state
    assert save(tmp_path, "lift", dict(reversed(state.items()))) == digest
    path = watched_folder.state_path(tmp_path, "lift", digest)
    path.write_text(path.read_text().replace('"ab"', '"ac"'))
    assert load(tmp_path, "lift", digest) is None
    path.write_text("{")
    assert load(tmp_path, "lift", digest) is None
    assert load(tmp_path, "lift", "0" * 64) is None


def test_states_that_nobody_keeps_are_deleted(tmp_path: Path) -> None:
    digests = [save(tmp_path, "lift", {"a": Seen((n,), str(n))}) for n in range(3)]
    other = save(tmp_path, "stack", {})
    watched_folder.forget_others(tmp_path, "lift", {digests[1]})
    assert [load(tmp_path, "lift", d) is not None for d in digests] == [False, True, False]
    assert load(tmp_path, "stack", other) == {}


def test_a_look_at_many_unchanged_recordings_is_quick(folder: Folder) -> None:
    for number in range(1000):
        folder.put(f"r{number}", str(number).encode())
    assert len(folder.look(most=1000).added) == 1000
    began = time.process_time()
    assert folder.look().summary() == "nothing changed"
    assert time.process_time() - began < 2
