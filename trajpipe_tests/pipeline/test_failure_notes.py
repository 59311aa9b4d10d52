"""Notes of failed attempts: gone once the output is current again, and no failure of their own.

What is not here: what a note holds, see `test_trust.py`.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from trajpipe.core import atomic, names, provenance
from trajpipe.pipeline.results import Status
from trajpipe.pipeline.run import run
from trajpipe_tests.pipeline.conftest import MakeProject


def test_a_recording_that_is_whole_again_leaves_no_note(make_project: MakeProject) -> None:
    """A, B, A: the third run finds the first one's output unchanged and takes the second one's note away."""
    project = make_project(1)
    (recording,) = project.recordings("lift")
    note = provenance.beside(project.demos_path(recording), names.SUFFIX_FAILURE)
    assert run(project).ok
    whole = recording.path.read_bytes()
    recording.path.write_bytes(whole[: len(whole) // 2])
    assert not run(project).ok
    assert note.is_file()
    recording.path.write_bytes(whole)
    again = run(project)
    assert again.ok
    assert again.results[0].status is Status.UNCHANGED
    assert not note.exists()


def test_where_nothing_can_be_written_each_output_fails_and_says_where(
    make_project: MakeProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Notes can't be written either: that is no error of its own, and other outputs are still tried."""
    project = make_project(2)

    def refuse(path: Path, *_: Any, **__: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(atomic, "output_lock", refuse)
    monkeypatch.setattr(atomic, "write_json", refuse)
    ran = run(project)
    assert not ran.ok
    demos = [r for r in ran.results if r.key]
    assert [r.status for r in demos] == [Status.FAILED, Status.FAILED]
    for recording, result in zip(project.recordings("lift"), demos, strict=True):
        assert str(project.demos_path(recording)) in str(result.error)
        assert "failure.json" not in str(result.error)
