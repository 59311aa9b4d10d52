"""Frames: the same whatever the block, right way up, objects in them, as hard to pack as real ones."""

from __future__ import annotations

import zlib
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from trajpipe.testing import kinematics, scenes
from trajpipe.testing.motion import Rollout, roll_out
from trajpipe.testing.render import Boxes, Camera, Film

ROWS = slice(0, 40)


@pytest.fixture(scope="module")
def rollout() -> Rollout:
    rng = np.random.default_rng(4)
    return roll_out(rng, scenes.cubes(rng, 1, "lift"), 40, task="lift")


@pytest.fixture(scope="module")
def static(rollout: Rollout) -> Film:
    return Film(scenes.static_camera(64, 64), scenes.boxes_of(rollout, ROWS), seed=3)


@pytest.fixture(scope="module")
def wrist(rollout: Rollout) -> Film:
    return Film(scenes.wrist_camera(rollout, ROWS, 64, 64), scenes.boxes_of(rollout, ROWS), seed=3)


def _red(frames: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Pixels of the first cube."""
    r, g, b = (frames[..., i].astype(int) for i in range(3))
    return np.asarray((r > 60) & (g < r // 2) & (b < r // 2))


@pytest.mark.parametrize("name", ["static", "wrist"])
def test_frames_do_not_depend_on_the_block(name: str, request: pytest.FixtureRequest) -> None:
    film: Film = request.getfixturevalue(name)
    whole = film.read(0, 40)
    assert whole.shape == film.shape == (40, 64, 64, 3)
    assert whole.dtype == np.uint8
    parts = np.concatenate([film.read(0, 7), film.read(7, 8), film.read(8, 40)])
    np.testing.assert_array_equal(whole, parts)


def test_bottom_first_is_the_same_picture_with_its_rows_turned_over(static: Film) -> None:
    turned = replace(static, top_first=False)
    np.testing.assert_array_equal(turned.read(3, 9)[:, ::-1], static.read(3, 9))


def test_the_top_row_is_the_wall_and_the_robot_comes_from_above(static: Film) -> None:
    frames = static.read(0, 40)
    assert _red(frames)[:, :8].sum() < _red(frames)[:, 8:].sum()
    wood = (frames[..., 0].astype(int) - frames[..., 2]) > 30
    assert wood[:, 0].mean() < 0.05
    assert wood[:, 32].mean() > 0.5


def test_the_cube_rises_in_the_static_camera(static: Film) -> None:
    first, last = (np.nonzero(_red(static.read(r, r + 1)[0])) for r in (0, 39))
    assert first[0].size > 5
    assert last[0].mean() < first[0].mean() - 5


def test_the_cube_grows_in_the_wrist_camera(wrist: Film) -> None:
    assert _red(wrist.read(24, 25)).sum() > 3 * max(1, _red(wrist.read(0, 1)).sum())


def test_a_box_in_front_hides_one_behind() -> None:
    upright = np.tile([0.0, 0.0, 0.0, 1.0], (1, 2, 1))
    camera = Camera(np.array([0.0, 0.0, 0.5]), kinematics.about((0, 1, 0), np.pi / 2), 60.0, 32, 32)
    half = np.array([[0.02, 0.1, 0.1], [0.02, 0.2, 0.2]])
    colours = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    for order in ([0, 1], [1, 0]):
        position = np.array([[[0.5, 0.0, 0.5], [0.8, 0.0, 0.5]]])[:, order]
        boxes = Boxes(position, upright, half[order], colours[order])
        centre = Film(camera, boxes, noise=0.0).read(0, 1)[0, 16, 16].astype(int)
        assert centre[1] > 50
        assert centre[0] < 10


def test_what_is_behind_the_camera_is_not_drawn() -> None:
    upright = np.tile([0.0, 0.0, 0.0, 1.0], (1, 1, 1))
    camera = Camera(np.array([0.0, 0.0, 0.5]), kinematics.about((0, 1, 0), np.pi / 2), 60.0, 32, 32)
    half, colours = np.array([[0.05, 0.05, 0.05]]), np.array([[1.0, 0.0, 0.0]])
    behind = Boxes(np.array([[[-0.5, 0.0, 0.5]]]), upright, half, colours)
    assert not _red(Film(camera, behind, noise=0.0).read(0, 1)).any()


def test_noise_touches_the_asked_share_by_one_step(static: Film) -> None:
    clean = replace(static, noise=0.0).read(0, 8).astype(int)
    noisy = replace(static, noise=0.1).read(0, 8).astype(int)
    assert set(np.unique(noisy - clean)) <= {-1, 0, 1}
    assert 0.05 < (noisy != clean).any(axis=-1).mean() < 0.15


def test_two_seeds_differ_in_noise_alone(static: Film) -> None:
    other = replace(static, seed=9)
    assert (other.read(0, 2) != static.read(0, 2)).any()
    np.testing.assert_array_equal(replace(other, noise=0.0).read(0, 2), replace(static, noise=0.0).read(0, 2))


def test_most_of_a_static_camera_stays_as_it_is_from_frame_to_frame(static: Film, wrist: Film) -> None:
    still, moving = (
        float((film.read(1, 40) != film.read(0, 39)).any(axis=-1).mean()) for film in (static, wrist)
    )
    assert 0.02 < still < 0.4
    assert moving > 1.5 * still


def test_frames_pack_as_rendered_ones_do(static: Film) -> None:
    """Between a flat picture (packs 100 times) and noise (does not pack)."""
    frame = static.read(5, 6).tobytes()
    ratio = len(frame) / len(zlib.compress(frame, 4))
    assert 1.5 < ratio < 6.0


def test_static_cameras_stand_in_different_places(rollout: Rollout) -> None:
    boxes = scenes.boxes_of(rollout, slice(0, 1))
    frames = [Film(scenes.static_camera(32, 32, place=p), boxes).read(0, 1) for p in range(3)]
    assert all((frames[i] != frames[j]).mean() > 0.3 for i in range(3) for j in range(i))


def test_the_cabinet_opens_in_the_picture() -> None:
    rng = np.random.default_rng(0)
    pull = roll_out(rng, scenes.tabletop(rng, "pull"), 40, task="pull")
    film = Film(scenes.static_camera(64, 64, cabinet=True), scenes.boxes_of(pull, slice(0, 41)), noise=0.0)
    before, after = film.read(0, 1)[0].astype(int), film.read(40, 41)[0].astype(int)
    assert (np.abs(before - after).max(axis=-1) > 25).sum() > 20
