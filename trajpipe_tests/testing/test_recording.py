"""`write_recording`: the same bytes for the same arguments, other bytes for others, and clear refusals."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from trajpipe.core.errors import MissingNameError, UsageError
from trajpipe.testing import KINDS, write_recording
from trajpipe.testing.request import Request

SMALL: dict[str, Any] = {"episodes": 2, "rows": (4, 6), "image_size": 16}


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_decides_the_bytes(kind: str, tmp_path: Path) -> None:
    one, two, other = (
        write_recording(kind, tmp_path / name / "x.hdf5", seed=seed, **SMALL).read_bytes()
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert one == two
    assert one != other


@pytest.mark.parametrize("kind", KINDS)
def test_more_episodes_leave_the_first_ones_as_they_are(kind: str, tmp_path: Path) -> None:
    few = write_recording(kind, tmp_path / "few.hdf5", **SMALL)
    many = write_recording(kind, tmp_path / "many.hdf5", **(SMALL | {"episodes": 4}))
    with h5py.File(few) as a, h5py.File(many) as b:
        assert len(b["data"]) == 4
        for name in a["data"]:
            np.testing.assert_array_equal(a["data"][name]["actions"], b["data"][name]["actions"])


@pytest.mark.parametrize("kind", KINDS)
def test_lengths_rows_and_numbers_are_as_asked(kind: str, tmp_path: Path) -> None:
    path = write_recording(
        kind, tmp_path / "x.hdf5", episodes=3, lengths=(1, 7, 3), numbers=(2, 10, 4), cameras=()
    )
    with h5py.File(path) as handle:
        found = {name: demo["actions"].shape[0] for name, demo in handle["data"].items()}
        assert found == {"demo_2": 1, "demo_10": 7, "demo_4": 3}
    ranged = write_recording(kind, tmp_path / "y.hdf5", episodes=6, rows=(4, 9), cameras=())
    with h5py.File(ranged) as handle:
        lengths = {demo["actions"].shape[0] for demo in handle["data"].values()}
        assert len(lengths) > 1
        assert lengths <= set(range(4, 10))


def test_an_older_file_is_replaced_and_folders_are_made(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "x.hdf5"
    path.parent.mkdir(parents=True)
    path.write_text("old")
    assert write_recording("robosuite", path, **SMALL) == path
    with h5py.File(path) as handle:
        assert len(handle["data"]) == 2


def test_defects_are_injected_in_order(tmp_path: Path) -> None:
    path = write_recording("isaaclab", tmp_path / "x.hdf5", defects=("total-wrong", "no-success"), **SMALL)
    with h5py.File(path) as handle:
        assert handle["data"].attrs["total"] == 999
        assert not any("success" in demo.attrs for demo in handle["data"].values())


def test_an_unknown_kind_names_the_kinds(tmp_path: Path) -> None:
    with pytest.raises(
        MissingNameError, match="got rosbag; expected one of isaaclab, robomimic, robosuite, libero"
    ):
        write_recording("rosbag", tmp_path / "x.hdf5")


def test_an_unknown_option_names_the_options_of_the_kind(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"generated `libero` recording; got gzipp; expected one of .*gzip, .*seed"
    ):
        write_recording("libero", tmp_path / "x.hdf5", gzipp=True)
    assert not (tmp_path / "x.hdf5").exists()


@pytest.mark.parametrize(
    "options",
    [
        {"episodes": 0},
        {"rows": (0, 4)},
        {"rows": (9, 4)},
        {"episodes": 2, "lengths": (4,)},
        {"episodes": 2, "lengths": (4, 0)},
        {"episodes": 2, "numbers": (1, 2, 3)},
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Request(**options)


def test_failures_are_the_asked_ones(tmp_path: Path) -> None:
    path = write_recording("isaaclab", tmp_path / "x.hdf5", episodes=4, failures=(0, 3), cameras=())
    with h5py.File(path) as handle:
        found = [bool(handle[f"data/demo_{i}"].attrs["success"]) for i in range(4)]
        assert found == [False, True, True, False]
        lifted = [handle[f"data/demo_{i}/obs/object_position"][-1, 2] > 0.1 for i in range(4)]
        assert lifted == found


def test_a_camera_with_hand_or_wrist_in_its_name_moves(tmp_path: Path) -> None:
    path = write_recording(
        "isaaclab",
        tmp_path / "x.hdf5",
        episodes=1,
        rows=(30, 30),
        image_size=24,
        cameras=("side", "hand_left"),
    )
    with h5py.File(path) as handle:
        obs = handle["data/demo_0/obs"]
        changed = {name: (obs[name][1:] != obs[name][:-1]).mean() for name in ("side", "hand_left")}
    assert changed["hand_left"] > 1.5 * changed["side"]


def test_a_long_recording_takes_no_more_memory_than_a_block(tmp_path: Path) -> None:
    """Films are drawn and written 32 frames at a time."""
    reads: list[int] = []
    from trajpipe.testing import layout, render

    class Watched(render.Film):
        def read(self, start: int, stop: int) -> Any:
            reads.append(stop - start)
            return super().read(start, stop)

    request = Request(episodes=1, lengths=(100,), image_size=8)
    rollout = next(request.rollouts("lift"))
    film = request.films(rollout, slice(0, 100), ("side",))["side"]
    watched = Watched(film.camera, film.boxes)
    with h5py.File(tmp_path / "x.hdf5", "w") as handle:
        layout.write_tree(handle, {"side": watched, "deep": {"side": watched}}, gzip=1)
        np.testing.assert_array_equal(handle["side"][...], handle["deep/side"][...])
    assert max(reads) == layout.BLOCK_FRAMES
    assert sum(reads) == 200


def test_recordings_are_made_fast(tmp_path: Path) -> None:
    """A low-dimensional recording costs well under a second of processor time."""
    start = time.process_time()
    write_recording("isaaclab", tmp_path / "x.hdf5", cameras=(), episodes=3)
    assert time.process_time() - start < 2.0
