"""`doctor`: each ailment is seen, safe ones are mended, and a live process's things are left alone."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections import namedtuple

import h5py
import pytest

from trajpipe.core.names import TEMPORARY_MARK
from trajpipe.core.temporaries import start_of, temporary_beside
from trajpipe.pipeline.doctor import Diagnosis, Grade, examine, versions_agree
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.run import run
from trajpipe_tests.pipeline.conftest import MakeProject


def about(project: Project, what: str, *, fix: bool = False) -> list[Diagnosis]:
    """The diagnoses of one matter."""
    return [d for d in examine(project, fix=fix) if d.what == what]


def dead_process() -> tuple[int, int]:
    """Pid and start time of a process that ended."""
    done = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    start = start_of(done.pid)
    done.communicate(b"\n")
    return done.pid, start


def test_a_healthy_project_has_nothing_wrong(make_project: MakeProject) -> None:
    found = examine(make_project(1))
    assert [d for d in found if d.grade is Grade.WRONG] == []
    assert {d.what for d in found} == {"temporaries", "locks", "disk", "libraries", "versions", "outputs"}


def test_temporaries_of_dead_writers_are_seen_and_mended_live_ones_left(make_project: MakeProject) -> None:
    project = make_project(0)
    folder = project.root / "demos"
    folder.mkdir()
    live = temporary_beside(folder / "a.hdf5")
    live.write_bytes(b"being written")
    pid, start = dead_process()
    host = live.name.split(TEMPORARY_MARK)[1].split("-")[0]
    dead = folder / f".b.hdf5{TEMPORARY_MARK}{host}-{pid}-{start}-0123abcd"
    dead.write_bytes(b"half")
    (seen,) = about(project, "temporaries")
    assert (seen.grade, dead.exists()) == (Grade.WRONG, True)
    assert seen.text.startswith("1 of dead writers, 4 bytes: .b.hdf5")
    (mended,) = about(project, "temporaries", fix=True)
    assert (mended.grade, dead.exists(), live.exists()) == (Grade.FIXED, False, True)
    assert about(project, "temporaries")[0].grade is Grade.FINE


def test_locks_of_dead_processes_are_seen_and_mended_live_ones_left(make_project: MakeProject) -> None:
    project = make_project(0)
    (project.root / "stores").mkdir()
    pid, start = dead_process()
    host = socket.gethostname()
    holders = {
        "dead": {"pid": pid, "start": start, "host": host},
        "live": {"pid": os.getpid(), "start": start_of(os.getpid()), "host": host},
        "elsewhere": {"pid": pid, "start": start, "host": "another-host"},
    }
    locks = {name: project.root / f"stores/.{name}.h5.lock" for name in holders}
    for name, lock in locks.items():
        lock.write_text(json.dumps(holders[name]))
    seen = about(project, "locks")
    assert [d.text for d in seen if d.grade is Grade.WRONG] == ["of dead processes: .dead.h5.lock"]
    assert sorted(d.text for d in seen if d.grade is Grade.NOTE) == [
        f".elsewhere.h5.lock is held by pid {pid} on another-host",
        f".live.h5.lock is held by pid {os.getpid()} on {host}",
    ]
    about(project, "locks", fix=True)
    assert {name for name, lock in locks.items() if lock.exists()} == {"live", "elsewhere"}


def test_low_disk_space_is_wrong(make_project: MakeProject, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**12, 10**12 - 10**6, 10**6))
    (seen,) = about(make_project(0), "disk")
    assert (seen.grade, "trajpipe gc" in seen.advice) == (Grade.WRONG, True)


@pytest.mark.parametrize(
    ("versions", "grade"),
    [
        ({"dagster": "1.13.27", "dagster-webserver": "1.13.27", "dagster-postgres": "0.29.27"}, Grade.FINE),
        ({"dagster": "1.13.27", "dagster-ray": "0.4.8"}, Grade.FINE),
        ({"dagster": "1.13.27", "dagster-webserver": "1.13.26"}, Grade.WRONG),
        ({"dagster": "1.13.27", "dagster-postgres": "0.29.26"}, Grade.WRONG),
        ({"dagster-webserver": "1.13.27"}, Grade.WRONG),
    ],
)
def test_dagster_packages_are_of_one_release(versions: dict[str, str], grade: Grade) -> None:
    (seen,) = versions_agree(versions)
    assert seen.grade is grade


def test_an_output_that_somebody_wrote_into_is_wrong(make_project: MakeProject) -> None:
    project = make_project(1)
    run(project)
    assert about(project, "outputs")[0].grade is Grade.FINE
    target = project.demos_path(project.recordings("lift")[0])
    os.utime(target)
    assert about(project, "outputs")[0].grade is Grade.FINE
    with h5py.File(target, "r+") as file:
        file["data"].attrs["mine"] = 1
    (seen,) = about(project, "outputs")
    assert (seen.grade, seen.advice) == (Grade.WRONG, "`trajpipe run lift` makes them anew")
    assert target.name in seen.text
