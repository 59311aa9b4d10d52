"""Damaged files: whatever bytes are wrong, an error that names the file, a rejection, or a good reading.

What is not here: files that are no HDF5 at all, see the hdf5 layer's tests.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from trajpipe.core.errors import TrajpipeError, UnreadableError
from trajpipe.core.names import Reason
from trajpipe.sources.base import ReadOptions, source
from trajpipe.testing import KINDS, write_recording
from trajpipe_tests.hdf5.test_columns import bomb
from trajpipe_tests.sources.builders import isaac_demo, isaac_file, read


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_random_damage_never_leaves_the_error_tree(tmp_path: Path, kind: str, full: bool) -> None:
    good = write_recording(kind, tmp_path / "good.hdf5", episodes=2, rows=(4, 6), cameras=(), task="stack")
    content, rng, outcomes = good.read_bytes(), random.Random(kind), set[str]()
    path = tmp_path / "bad.hdf5"
    for _ in range(600 if full else 40):
        bad = bytearray(content)
        for _ in range(rng.choice((1, 3, 10, 40))):
            # Half of the damage goes where the structure is.
            bad[rng.randrange(len(bad) if rng.random() < 0.5 else min(len(bad), 12_000))] = rng.randrange(256)
        path.unlink(missing_ok=True)
        path.write_bytes(bad)
        try:
            read(path, kind=kind)
            outcomes.add("read")
        except TrajpipeError as error:
            outcomes.add(error.code)
    assert "read" in outcomes
    assert len(outcomes) > 1


def damaged_link_name(path: Path, name: bytes) -> Path:
    """A file in which one link's name is no text any more."""
    content = path.read_bytes()
    assert content.count(name) == 1
    path.write_bytes(content.replace(name, b"\xff\xfe" + name[2:]))
    return path


def test_a_name_that_is_no_text_in_one_demo_rejects_that_demo(tmp_path: Path) -> None:
    demos = {"demo_0": isaac_demo(), "demo_1": isaac_demo(obs__peculiar_term=np.zeros((6, 2), "f4"))}
    path = damaged_link_name(isaac_file(tmp_path / "x.hdf5", demos), b"peculiar_term")
    found = read(path, kind="isaaclab")
    assert [e.name for e in found.episodes] == ["demo_0"]
    (rejection,) = found.rejections
    assert (rejection.episode, rejection.reason) == ("demo_1", Reason.UNREADABLE)
    assert "structure cannot be read" in rejection.detail


def test_damage_at_the_top_makes_the_recording_unreadable(tmp_path: Path) -> None:
    path = isaac_file(tmp_path / "x.hdf5")
    with h5py.File(path, "a") as handle:
        handle["data/peculiar_group/x"] = np.zeros(2)
    damaged_link_name(path, b"peculiar_group")
    for call in (source("isaaclab").describe, lambda p, o: list(source("isaaclab").episodes(p, o))):
        with pytest.raises(UnreadableError, match=r"x\.hdf5") as caught:
            call(path, ReadOptions())
        assert caught.value.code == "broken-structure"


def test_a_truncation_at_any_place_is_told(tmp_path: Path) -> None:
    path = isaac_file(tmp_path / "x.hdf5", {f"demo_{n}": isaac_demo(20, seed=n) for n in range(3)})
    content = path.read_bytes()
    for share in (0.02, 0.2, 0.5, 0.9, 0.999):
        path.write_bytes(content[: int(len(content) * share)])
        with pytest.raises(UnreadableError, match=r"x\.hdf5"):
            read(path)


@pytest.mark.parametrize(
    ("actions", "got"),
    [
        (np.array(["left", "right"] * 3, dtype=h5py.string_dtype()), "text"),
        (np.zeros((6, 2), "c16"), "dtype complex128"),
    ],
)
def test_actions_that_are_no_numbers_are_not_called_damage(
    tmp_path: Path, actions: np.ndarray[Any, Any], got: str
) -> None:
    path = isaac_file(tmp_path / "x.hdf5", {"demo_0": isaac_demo(), "demo_1": isaac_demo()})
    with h5py.File(path, "a") as handle:
        del handle["data/demo_1/actions"]
        handle["data/demo_1/actions"] = actions
    found = read(path, kind="isaaclab")
    assert [e.name for e in found.episodes] == ["demo_0"]
    (rejection,) = found.rejections
    assert (rejection.episode, rejection.reason) == ("demo_1", Reason.BAD_EPISODE)
    assert f"actions are numbers; got {got}; expected a float, integer or bool dtype" in rejection.detail
    assert "structure" not in rejection.detail
    assert "Copy" not in rejection.detail


def test_a_deflate_bomb_loses_its_demo_alone(tmp_path: Path) -> None:
    path = isaac_file(tmp_path / "x.hdf5", {f"demo_{i}": isaac_demo(64 * 40) for i in range(2)})
    with h5py.File(path, "r+") as handle:
        bomb(handle, "data/demo_1/obs/front", 40)
    found = read(path)
    assert [e.name for e in found.episodes] == ["demo_0"]
    (rejection,) = found.rejections
    assert (rejection.episode, rejection.reason) == ("demo_1", Reason.UNREADABLE)
    assert "far more bytes than it stores" in rejection.detail
