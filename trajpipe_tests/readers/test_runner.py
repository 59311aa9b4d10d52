"""Tests of the readers' runner itself: finding the environment, errors that say what the reader said.

What is not here: what the readers make of our files.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trajpipe_tests.readers.runner import READERS, SCRIPTS, ReaderFailedError, readers_folder

RunReader = Callable[..., dict[str, Any]]


def built(folder: Path) -> Path:
    """A folder that looks like a built environment."""
    (folder / "lerobot" / "bin").mkdir(parents=True)
    (folder / "lerobot" / "bin" / "python").touch()
    (folder / "isaaclab").mkdir()
    return folder


def test_the_environment_is_found_by_name_or_in_the_cache(tmp_path: Path) -> None:
    named, cache = built(tmp_path / "named"), built(tmp_path / "cache" / "trajpipe" / "readers")
    assert (
        readers_folder({"TRAJPIPE_READERS": str(named), "XDG_CACHE_HOME": str(tmp_path / "cache")}) == named
    )
    assert readers_folder({"XDG_CACHE_HOME": str(tmp_path / "cache")}) == cache
    assert readers_folder({"HOME": str(tmp_path)}) is None


def test_the_cache_below_home_is_the_default(tmp_path: Path) -> None:
    folder = built(tmp_path / ".cache" / "trajpipe" / "readers")
    assert readers_folder({"HOME": str(tmp_path)}) == folder


def test_a_half_built_environment_counts_as_none(tmp_path: Path) -> None:
    folder = built(tmp_path / "half")
    (folder / "isaaclab").rmdir()
    assert readers_folder({"TRAJPIPE_READERS": str(folder)}) is None


def test_every_reader_has_its_script_and_every_script_is_a_reader() -> None:
    assert {r.script for r in READERS.values()} == {p.name for p in SCRIPTS.glob("*.py")}


def test_a_reader_that_fails_is_an_error_with_its_own_words(run_reader: RunReader, tmp_path: Path) -> None:
    path = tmp_path / "empty.hdf5"
    path.touch()
    with pytest.raises(ReaderFailedError, match="OSError") as caught:
        run_reader("isaaclab", path)
    assert "file signature not found" in caught.value.said.lower()
