"""Finding recordings: globs, keys, order, folders, what is passed over and what is refused.

What is not here: the catalogue's keys.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajpipe.core import names
from trajpipe.core.errors import CatalogueError
from trajpipe.pipeline.catalogue import RawEntry, load_catalogue
from trajpipe.pipeline.catalogue_recordings import find_recordings


def _files(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()


def _entry(*globs: str, kind: str = "isaaclab") -> RawEntry:
    return RawEntry(kind=kind, glob=globs)


def _found(root: Path, *entries: RawEntry) -> dict[str, str]:
    return {r.key: r.path.relative_to(root).as_posix() for r in find_recordings("lift", entries, root)}


def test_keys_are_stems_in_natural_order(tmp_path: Path) -> None:
    _files(tmp_path, "raw/rl_10.hdf5", "raw/rl_2.hdf5", "raw/rl_1.hdf5", "raw/notes.txt", "other/rl_3.hdf5")
    found = _found(tmp_path, _entry("raw/rl_*.hdf5"))
    assert list(found.items()) == [
        ("rl_1", "raw/rl_1.hdf5"),
        ("rl_2", "raw/rl_2.hdf5"),
        ("rl_10", "raw/rl_10.hdf5"),
    ]


def test_a_loaded_dataset_finds_its_own(tmp_path: Path) -> None:
    _files(tmp_path, "raw/a.hdf5")
    options = "raw: [{kind: isaaclab, glob: raw/*.hdf5}], filter: {unknown_success: drop}"
    text = f"version: 1\ndatasets: {{lift: {{{options}}}}}"
    (tmp_path / "datasets.yaml").write_text(text, encoding="utf-8")
    (one,) = load_catalogue(tmp_path / "datasets.yaml").dataset("lift").recordings(tmp_path)
    assert (one.dataset, one.key, one.path, one.entry.kind) == (
        "lift",
        "a",
        tmp_path / "raw/a.hdf5",
        "isaaclab",
    )
    assert one.conventions.unknown_success == "drop"


def test_a_relative_data_root_gives_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _files(tmp_path, "data/raw/a.hdf5")
    monkeypatch.chdir(tmp_path)
    (one,) = find_recordings("lift", [_entry("raw/*.hdf5")], Path("data"))
    assert one.path == tmp_path / "data/raw/a.hdf5"


def test_absolute_patterns_and_parents_are_allowed(tmp_path: Path) -> None:
    _files(tmp_path, "else/a.hdf5", "beside/b.hdf5", "data/raw/c.hdf5")
    entries = [_entry(str(tmp_path / "else/*.hdf5")), _entry("../beside/*.hdf5"), _entry("raw/*.hdf5")]
    found = {r.key: r.path for r in find_recordings("lift", entries, tmp_path / "data")}
    assert found == {
        "beside__b": tmp_path / "beside/b.hdf5",
        "data__raw__c": tmp_path / "data/raw/c.hdf5",
        "else__a": tmp_path / "else/a.hdf5",
    }


def test_files_of_sub_folders_keep_their_folder_in_the_key(tmp_path: Path) -> None:
    _files(tmp_path, "raw/monday/x.hdf5", "raw/tuesday/x.hdf5")
    assert list(_found(tmp_path, _entry("raw/**/*.hdf5"))) == ["monday__x", "tuesday__x"]


def test_a_key_does_not_change_when_files_come(tmp_path: Path) -> None:
    entry = _entry("raw/**/*.hdf5")
    _files(tmp_path, "raw/monday/x.hdf5")
    before = _found(tmp_path, entry)
    _files(tmp_path, "raw/tuesday/x.hdf5", "raw/x.hdf5", "raw/monday/y.hdf5")
    assert before.items() <= _found(tmp_path, entry).items()


def test_equal_stems_are_told_apart_by_their_suffix(tmp_path: Path) -> None:
    _files(tmp_path, "raw/a.hdf5", "raw/a.h5", "raw/b.h5")
    assert list(_found(tmp_path, _entry("raw/*"))) == ["a.h5", "a.hdf5", "b"]


def test_a_name_that_could_be_anothers_path_keeps_a_key_of_its_own(tmp_path: Path) -> None:
    _files(tmp_path, "raw/a__b.hdf5", "raw/a/b.hdf5")
    found = _found(tmp_path, _entry("raw/**/*.hdf5"))
    assert len(found) == 2


@given(st.lists(st.text("ab_. ,ä-", min_size=1, max_size=6), min_size=1, max_size=6, unique=True))
def test_keys_are_unique_and_hold_no_comma(
    tmp_path_factory: pytest.TempPathFactory, stems: list[str]
) -> None:
    root = tmp_path_factory.mktemp("keys")
    _files(root, *(f"raw/x{stem}y.hdf5" for stem in stems))
    found = find_recordings("lift", [_entry("raw/*.hdf5")], root)
    keys = [r.key for r in found]
    assert len(found) == len(stems)
    assert len(set(keys)) == len(keys)
    assert not any(set(",/ ") & set(key) for key in keys)


def test_two_patterns_of_one_entry_may_overlap(tmp_path: Path) -> None:
    _files(tmp_path, "raw/a.hdf5", "raw/b.hdf5")
    assert list(_found(tmp_path, _entry("raw/*.hdf5", "raw/a*"))) == ["a", "b"]


def test_a_recording_of_two_entries_is_refused_and_both_are_named(tmp_path: Path) -> None:
    _files(tmp_path, "raw/a.hdf5")
    with pytest.raises(CatalogueError) as caught:
        find_recordings("lift", [_entry("raw/*.hdf5"), _entry("raw/a*", kind="robomimic")], tmp_path)
    assert str(caught.value) == (
        f"datasets.lift.raw: a recording matches two raw entries; got {tmp_path}/raw/a.hdf5: "
        "isaaclab raw/*.hdf5 and robomimic raw/a*. Narrow one of the globs."
    )


def test_hidden_files_and_our_temporaries_are_passed_over(tmp_path: Path) -> None:
    _files(tmp_path, "raw/.a.hdf5", f"raw/a.hdf5{names.TEMPORARY_MARK}1.hdf5", "raw/b.hdf5")
    assert list(_found(tmp_path, _entry("raw/*.hdf5"))) == ["b"]


def test_a_folder_stands_for_its_recordings(tmp_path: Path) -> None:
    _files(
        tmp_path,
        "raw/lift/a.hdf5",
        "raw/lift/b.h5",
        "raw/lift/c.txt",
        "raw/lift/.d.hdf5",
        "raw/lift/e/f.hdf5",
    )
    assert list(_found(tmp_path, _entry("raw/lift"))) == ["lift__a", "lift__b"]
    assert list(_found(tmp_path, _entry("raw/lift", kind="auto"))) == ["lift__a", "lift__b"]


def test_a_link_keeps_the_name_that_the_user_gave_it(tmp_path: Path) -> None:
    _files(tmp_path, "elsewhere/long name.hdf5")
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/a.hdf5").symlink_to(tmp_path / "elsewhere/long name.hdf5")
    assert _found(tmp_path, _entry("raw/*.hdf5")) == {"a": "raw/a.hdf5"}


def test_nothing_there_is_no_error(tmp_path: Path) -> None:
    assert find_recordings("lift", [_entry("raw/*.hdf5")], tmp_path) == []
