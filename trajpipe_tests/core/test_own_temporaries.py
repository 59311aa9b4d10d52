"""What an interrupted process left is found and removed; nobody else's temporary is touched."""

from __future__ import annotations

import os
from pathlib import Path

from trajpipe.core import atomic, names
from trajpipe.core.temporaries import own_temporaries, temporary_beside


def test_only_what_exists_and_is_ours_is_removed(tmp_path: Path) -> None:
    file, folder, absent = (temporary_beside(tmp_path / n) for n in ("a.h5", "b", "c"))
    file.write_text("half")
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "x").write_text("half")
    host, pid, start, random = file.name.rpartition(names.TEMPORARY_MARK)[2].split("-")
    foreign = tmp_path / f".d{names.TEMPORARY_MARK}{host}-{int(pid) + 1}-{start}-{random}"
    foreign.write_text("somebody's")
    assert set(own_temporaries()) >= {file, folder}
    assert absent not in own_temporaries()
    assert set(atomic.remove_own()) >= {file, folder}
    assert list(tmp_path.iterdir()) == [foreign]
    assert [p for p in own_temporaries() if p.parent == tmp_path] == []


def test_a_folder_whose_older_one_was_moved_aside_stays_for_recovery(tmp_path: Path) -> None:
    new = temporary_beside(tmp_path / "set")
    new.mkdir()
    aside = new.with_name(new.name.replace(names.TEMPORARY_MARK, f"{names.TEMPORARY_MARK}old-"))
    aside.mkdir()
    assert new not in own_temporaries()
    aside.rmdir()
    assert new in own_temporaries()
    new.rmdir()


def test_relative_names_are_found_after_the_folder_changed(tmp_path: Path) -> None:
    before = Path.cwd()
    os.chdir(tmp_path)
    try:
        temporary_beside(Path("x.h5")).write_text("half")
    finally:
        os.chdir(before)
    assert [p.parent for p in atomic.remove_own() if p.name.startswith(".x.h5")] == [tmp_path]


def test_published_and_removed_ones_are_not_ours_any_more(tmp_path: Path) -> None:
    with atomic.atomic_file(tmp_path / "a.txt") as temporary:
        temporary.write_text("whole")
        assert temporary in own_temporaries()
    assert [p for p in own_temporaries() if p.parent == tmp_path] == []
    assert (tmp_path / "a.txt").read_text() == "whole"
    for number in range(5000):
        temporary_beside(tmp_path / str(number))
    assert [p for p in own_temporaries() if p.parent == tmp_path] == []
