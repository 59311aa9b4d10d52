"""Many files at hand, few of them open.

What is not here: opening one, see `test_files`.
"""

from __future__ import annotations

from pathlib import Path

import h5py
import pytest

from trajpipe.core.errors import UnreadableError
from trajpipe.hdf5.open_files import OpenFiles


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    """Five files that each hold their number."""
    found = [tmp_path / f"{n}.hdf5" for n in range(5)]
    for n, path in enumerate(found):
        with h5py.File(path, "w") as file:
            file["number"] = n
    return found


def test_each_file_is_the_one_that_was_asked_for_and_few_are_open(paths: list[Path]) -> None:
    with OpenFiles(most=2) as files:
        for n in (0, 1, 2, 3, 4, 0, 4, 2):
            assert files[paths[n]]["number"][()] == n
            assert len(files) <= 2
    assert len(files) == 0


def test_what_was_asked_for_lately_stays_open(paths: list[Path]) -> None:
    with OpenFiles(most=2) as files:
        first, second = files[paths[0]], files[paths[1]]
        assert files[paths[0]] is first
        third = files[paths[2]]  # closes the second: the first was asked for after it
        assert (bool(first), bool(second), bool(third)) == (True, False, True)
        assert files[paths[1]] is not second
    assert (bool(first), bool(third)) == (False, False)


def test_a_file_that_cannot_be_opened_leaves_the_others_open(paths: list[Path]) -> None:
    with OpenFiles(most=2) as files:
        first = files[paths[0]]
        with pytest.raises(UnreadableError):
            files[paths[0].with_name("absent.hdf5")]
        assert files[paths[0]] is first
        assert files[paths[1]]["number"][()] == 1
