"""A demo with other terms than the rest is rejected alone; without a majority the recording is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from trajpipe.hdf5.attributes import attributes_of
from trajpipe.pipeline.check_raw import check_raw
from trajpipe.pipeline.convert import convert
from trajpipe.testing import write_recording

Change = Callable[[h5py.Group], None]


def replaced(path: str, change: Callable[[Any], Any]) -> Change:
    """A change of one dataset of a demo."""

    def apply(demo: h5py.Group) -> None:
        values = demo[path][()]
        del demo[path]
        demo[path] = change(values)

    return apply


def without(path: str) -> Change:
    """A change that deletes one dataset of a demo."""

    def apply(demo: h5py.Group) -> None:
        del demo[path]

    return apply


CHANGES = {
    "actions of width 6": replaced("actions", lambda a: a[:, :6]),
    "actions with one axis": replaced("actions", lambda a: a[:, 0]),
    "float images": replaced("obs/front", lambda a: a.astype("f4") / 255),
    "another image size": replaced("obs/front", lambda a: a[:, :32, :32]),
    "no such term": without("obs/front"),
    "actions with three axes": replaced("actions", lambda a: np.stack([a, a], axis=2)),
    "actions of no width": replaced("actions", lambda a: a[:, :0]),
}


def recording(path: Path, episodes: int) -> Path:
    """A recording with a camera."""
    return write_recording(
        "isaaclab", path, episodes=episodes, rows=(6, 9), cameras=("front",), image_size=64
    )


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("name", CHANGES)
def test_the_odd_demo_alone_is_rejected(tmp_path: Path, name: str, at: int) -> None:
    path = recording(tmp_path / "x.hdf5", 3)
    with h5py.File(path, "r+") as file:
        CHANGES[name](file[f"data/demo_{at}"])
    (result,) = convert([path], tmp_path / "out.hdf5", "demos")
    assert result.ok, result.error
    (rejected,) = result.ledger.rejected
    assert rejected.episode == f"demo_{at}"
    assert rejected.reason in ("other-terms", "bad-episode")
    assert "expected" in rejected.detail
    assert (result.ledger.read, result.ledger.written) == (3, 2)
    with h5py.File(tmp_path / "out.hdf5") as file:
        kept = [attributes_of(file["data"][d])["source_demo"] for d in ("demo_0", "demo_1")]
        assert len(file["data"]) == 2
    assert kept == [f"demo_{i}" for i in range(3) if i != at]
    found = [f for r in check_raw(path).results for f in r.findings if f.code == rejected.reason]
    assert [(f.place.demo, f.severity.value) for f in found] == [(f"demo_{at}", "warn")]


def test_a_tie_is_refused_as_a_whole(tmp_path: Path) -> None:
    path = recording(tmp_path / "x.hdf5", 2)
    with h5py.File(path, "r+") as file:
        CHANGES["actions of width 6"](file["data/demo_1"])
    (result,) = convert([path], tmp_path / "out.hdf5", "demos")
    assert not result.ok
    assert [r.code for r in result.checks.results if not r.passed] == ["demos-same-terms"]
    assert not (tmp_path / "out.hdf5").exists()
