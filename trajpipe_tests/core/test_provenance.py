"""Tests of provenance: hashes of files and folders, the recipe's key, the stamp, "unchanged".

What is not here: which options a stage puts into its recipe.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trajpipe
from trajpipe.core import atomic, jsontext, names, provenance
from trajpipe.core.errors import InputError
from trajpipe.core.provenance import Recipe

RECIPE = Recipe("demos", {"a.hdf5": "1" * 64}, {"gzip": 4, "terms": {"b": 1, "a": 2}}, "1")


def made(path: Path, text: str = "content") -> Path:
    """A file with its stamp."""
    path.write_text(text)
    provenance.stamp(path, RECIPE)
    return path


def made_folder(path: Path) -> Path:
    """A folder of two files with its stamp."""
    (path / "meta").mkdir(parents=True)
    (path / "meta" / "info.json").write_text("{}")
    (path / "data").write_text("rows")
    provenance.stamp(path, RECIPE)
    return path


def hashed_again(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The paths that are hashed from now on."""
    seen: list[Path] = []
    real = provenance.sha256_path

    def recording(path: Path) -> str:
        seen.append(path)
        return real(path)

    monkeypatch.setattr(provenance, "sha256_path", recording)
    return seen


@pytest.mark.parametrize("size", [0, 1, 4096, (1 << 20) + 1])
def test_a_file_s_hash_is_sha256_of_its_bytes(tmp_path: Path, size: int) -> None:
    path = tmp_path / "x"
    path.write_bytes(os.urandom(size))
    assert provenance.sha256_file(path) == hashlib.sha256(path.read_bytes()).hexdigest()
    assert provenance.sha256_path(path) == provenance.sha256_bytes(path.read_bytes())


def test_a_folder_s_hash_does_not_depend_on_where_it_is_or_on_times(tmp_path: Path) -> None:
    first = made_folder(tmp_path / "a")
    second = Path(shutil.copytree(first, tmp_path / "elsewhere" / "b"))
    os.utime(second / "data", (1, 1))
    assert provenance.sha256_path(first) == provenance.sha256_path(second)


@pytest.mark.parametrize("change", ["content", "name", "added", "moved"])
def test_a_folder_s_hash_changes_with_content_and_names(tmp_path: Path, change: str) -> None:
    folder = made_folder(tmp_path / "a")
    before = provenance.sha256_folder(folder)
    if change == "content":
        (folder / "data").write_text("rowz")
    elif change == "name":
        (folder / "data").rename(folder / "date")
    elif change == "added":
        (folder / "more").touch()
    else:
        (folder / "data").rename(folder / "meta" / "data")
    assert provenance.sha256_folder(folder) != before


def test_a_link_out_of_a_folder_is_refused_and_one_inside_is_followed(tmp_path: Path) -> None:
    folder = made_folder(tmp_path / "a")
    (folder / "inside").symlink_to("data")
    provenance.sha256_folder(folder)
    (folder / "outside").symlink_to("/etc/hostname")
    with pytest.raises(InputError, match="a link leaves the folder"):
        provenance.sha256_folder(folder)


def test_file_names_that_are_not_utf8_are_no_error(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"a\xff")).touch()
    assert len(provenance.sha256_folder(tmp_path)) == 64


def test_sizes_are_of_files_below(tmp_path: Path) -> None:
    folder = made_folder(tmp_path / "a")
    assert provenance.size_of(folder) == 6
    assert provenance.size_of(folder / "data") == 4
    assert provenance.size_of(tmp_path / "absent") == 0


def test_a_recipe_carries_the_package_s_version_and_the_key_ignores_it() -> None:
    assert RECIPE.package == trajpipe.__version__
    assert replace(RECIPE, package="99").key() == RECIPE.key()


@pytest.mark.parametrize(
    "change",
    [
        {"stage": "store"},
        {"inputs": {"a.hdf5": "2" * 64}},
        {"inputs": {"b.hdf5": "1" * 64}},
        {"options": {"gzip": 5}},
        {"code": "2"},
    ],
)
def test_the_key_changes_with_everything_that_decides(change: dict[str, Any]) -> None:
    assert replace(RECIPE, **change).key() != RECIPE.key()


@given(st.dictionaries(st.text(), st.integers()), st.randoms())
def test_the_key_does_not_depend_on_the_order_of_keys(options: dict[str, int], shuffle: Any) -> None:
    pairs = list(options.items())
    shuffle.shuffle(pairs)
    assert replace(RECIPE, options=dict(pairs)).key() == replace(RECIPE, options=options).key()


def test_a_stamp_holds_recipe_key_and_output(tmp_path: Path) -> None:
    output = made(tmp_path / "x.hdf5")
    value = jsontext.loads((tmp_path / "x.hdf5.recipe.json").read_bytes())
    assert value == provenance.read_stamp(output)
    assert value["inputs"] == {"a.hdf5": "1" * 64}
    assert value["key"] == RECIPE.key()
    assert value["output"]["sha256"] == hashlib.sha256(b"content").hexdigest()
    assert value["output"]["size"] == 7


def test_a_stamp_keeps_extra_facts(tmp_path: Path) -> None:
    output = tmp_path / "x"
    output.touch()
    provenance.stamp(output, RECIPE, {"facts": {"rows": 3}})
    stamp = provenance.read_stamp(output)
    assert stamp is not None
    assert stamp["facts"] == {"rows": 3}


def test_what_was_just_made_is_unchanged(tmp_path: Path) -> None:
    assert provenance.unchanged(made(tmp_path / "x"), RECIPE)
    assert provenance.unchanged(made_folder(tmp_path / "set"), RECIPE)


def test_another_recipe_is_a_change(tmp_path: Path) -> None:
    assert not provenance.unchanged(made(tmp_path / "x"), replace(RECIPE, code="2"))


def test_an_output_without_stamp_or_a_stamp_without_output_is_a_change(tmp_path: Path) -> None:
    output = made(tmp_path / "x")
    output.unlink()
    assert not provenance.unchanged(output, RECIPE)
    output.write_text("content")
    provenance.beside(output, names.SUFFIX_RECIPE).unlink()
    assert not provenance.unchanged(output, RECIPE)


def test_untouched_outputs_are_not_hashed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = [made(tmp_path / "x"), made_folder(tmp_path / "set")]
    seen = hashed_again(monkeypatch)
    assert all(provenance.unchanged(output, RECIPE) for output in outputs)
    assert seen == []


def test_a_touched_output_of_the_same_bytes_is_unchanged_by_its_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output, folder = made(tmp_path / "x"), made_folder(tmp_path / "set")
    os.utime(output, (1, 1))
    os.utime(folder / "data", (1, 1))
    seen = hashed_again(monkeypatch)
    assert provenance.unchanged(output, RECIPE)
    assert provenance.unchanged(folder, RECIPE)
    assert seen == [output, folder]


def test_a_copy_elsewhere_with_its_stamp_is_unchanged(tmp_path: Path) -> None:
    made(tmp_path / "x")
    other = tmp_path / "other"
    other.mkdir()
    for name in ("x", "x.recipe.json"):
        shutil.copy(tmp_path / name, other / name)
    assert provenance.unchanged(other / "x", RECIPE)


@pytest.mark.parametrize("text", ["contenT", "", "content and more"])
def test_changed_bytes_are_a_change(tmp_path: Path, text: str) -> None:
    output = made(tmp_path / "x")
    output.write_text(text)
    assert not provenance.unchanged(output, RECIPE)


def test_a_truncated_output_with_its_old_time_is_a_change(tmp_path: Path) -> None:
    output = made(tmp_path / "x")
    before = output.stat()
    output.write_text("cont")
    os.utime(output, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not provenance.unchanged(output, RECIPE)


def test_a_file_swapped_inside_a_folder_with_its_old_time_is_a_change(tmp_path: Path) -> None:
    folder = made_folder(tmp_path / "set")
    before = (folder / "data").stat()
    (folder / "new").write_text("rowz")
    (folder / "new").replace(folder / "data")
    os.utime(folder / "data", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not provenance.unchanged(folder, RECIPE)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "{}", '{"version": 1}', '{"version": 1, "output": 3}', '{"version": 99}']
)
def test_a_damaged_stamp_is_none(tmp_path: Path, text: str) -> None:
    output = made(tmp_path / "x")
    provenance.beside(output, names.SUFFIX_RECIPE).write_text(text)
    assert provenance.read_stamp(output) is None
    assert not provenance.unchanged(output, RECIPE)


def test_a_stamp_written_before_a_kill_does_not_vouch_for_the_next_output(tmp_path: Path) -> None:
    output = made(tmp_path / "x")
    atomic.write_text(output, "published, and killed before its stamp")
    assert not provenance.unchanged(output, RECIPE)
