"""Every defect is really in the file, read by plain h5py, and everything else is as it was."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import h5py
import pytest

from trajpipe.core.errors import InputError, MissingNameError
from trajpipe.testing import DEFECTS, KINDS, Injection, inject, write_recording
from trajpipe.testing.defects import defects
from trajpipe_tests.testing import looks_at_layout, looks_at_values
from trajpipe_tests.testing.looks import LOOKS, Case
from trajpipe_tests.testing.looks_at_layout import UNOPENABLE

_REGISTERED_BY = (looks_at_layout.__name__, looks_at_values.__name__)


def _cases() -> list[tuple[str, str]]:
    return [(name, kind) for name, defect in defects().items() for kind in defect.kinds]


def test_every_defect_is_looked_for_and_described() -> None:
    assert set(DEFECTS) == set(LOOKS) | set(UNOPENABLE)
    for name, title in DEFECTS.items():
        assert name == name.lower()
        assert 10 < len(title) < 120
        assert not title.endswith(".")
    assert len(set(DEFECTS.values())) == len(DEFECTS)
    assert all(set(defect.kinds) <= set(KINDS) and defect.kinds for defect in defects().values())


@pytest.mark.parametrize(("name", "kind"), _cases())
def test_the_defect_is_in_the_file(name: str, kind: str, good: dict[str, Path], tmp_path: Path) -> None:
    bad = tmp_path / good[kind].name
    shutil.copy(good[kind], bad)
    where = inject(bad, name)
    assert where.name == name
    if name in UNOPENABLE:
        with pytest.raises(OSError, match=r"[Uu]nable"):
            h5py.File(bad)
        assert UNOPENABLE[name](bad.read_bytes(), good[kind].read_bytes())
        return
    with h5py.File(good[kind]) as before, h5py.File(bad) as after:
        assert LOOKS[name](Case(kind, before, after, where))


@pytest.mark.parametrize(
    "name", ["nan-action", "ragged-lengths", "flipped-byte", "broken-gzip-chunk", "not-hdf5"]
)
def test_a_seed_decides_where_the_defect_goes(name: str, good: dict[str, Path], tmp_path: Path) -> None:
    def spoiled(seed: int, label: str) -> bytes:
        path = tmp_path / f"{label}.hdf5"
        shutil.copy(good["robomimic"], path)
        inject(path, name, seed)
        return path.read_bytes()

    assert spoiled(1, "a") == spoiled(1, "b")
    assert len({spoiled(seed, "c") for seed in range(6)}) > 1


def test_the_good_files_have_none_of_the_defects(good: dict[str, Path]) -> None:
    """A look that every file passes would prove nothing; so the good file must fail it."""
    passing = []
    for name, kind in _cases():
        if name in UNOPENABLE or name in ("broken-gzip-chunk", "string-dataset"):
            continue
        with h5py.File(good[kind]) as before, h5py.File(good[kind]) as same:
            demo = list(before["data"])[-1]
            path = {"zero-quaternion": "obs/eef_quat"}.get(name, "actions")
            path = "obs/robot0_eef_quat" if (name, kind) == ("zero-quaternion", "robomimic") else path
            try:
                found = LOOKS[name](Case(kind, before, same, Injection(name, demo, path, 1)))
            except (LookupError, AttributeError, TypeError, ValueError, pytest.fail.Exception):
                continue
            passing += [(name, kind)] if found else []
    assert passing == []


def test_an_unknown_defect_names_the_defects(good: dict[str, Path]) -> None:
    with pytest.raises(
        MissingNameError, match="no such defect; got nan-actions; expected one of action-width"
    ):
        inject(good["isaaclab"], "nan-actions")


@pytest.mark.parametrize(
    ("name", "kind", "options"),
    [
        ("images-chw", "isaaclab", {"cameras": ()}),
        ("legacy-quaternions", "isaaclab", {"format_version": None}),
        ("numbering-gap", "isaaclab", {"episodes": 2}),
        ("stale-first-frame", "isaaclab", {"episodes": 1}),
        ("xml-entity", "robosuite", {"model": "name"}),
        ("obs-actions-conflict", "robosuite", {}),
    ],
)
def test_a_defect_that_does_not_fit_the_file_is_refused(
    name: str, kind: str, options: dict[str, Any], tmp_path: Path
) -> None:
    given = dict[str, Any]({"episodes": 3, "rows": (4, 4), "image_size": 16}) | options
    path = write_recording(kind, tmp_path / "x.hdf5", **given)
    with pytest.raises(InputError, match="the defect needs"):
        inject(path, name)
