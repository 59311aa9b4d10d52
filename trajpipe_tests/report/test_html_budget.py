"""Shares: what fits is shown, actions before all else, and what has no room is named.

What is not here: the bound of the whole page.
"""

from __future__ import annotations

import numpy as np
import pytest

from trajpipe.core.episode import ArrayColumn, Column
from trajpipe.report.html_budget import LEAST_DETAIL, MAX_FRAMES, MAX_POINTS, MOST_DETAIL, share_of
from trajpipe.report.html_curves import curve
from trajpipe.report.html_text import data_block


def columns(cameras: int = 2, terms: int = 4, width: int = 7, rows: int = 300) -> dict[str, Column]:
    made: dict[str, Column] = {"actions": ArrayColumn(np.zeros((rows, width), np.float32))}
    for i in range(terms):
        made[f"obs/a_term_{i}"] = ArrayColumn(np.zeros((rows, width), np.float32))
    for i in range(cameras):
        made[f"obs/cam_{i}"] = ArrayColumn(np.zeros((rows, 4, 4, 3), np.uint8))
    return made


def test_with_room_everything_is_shown() -> None:
    share = share_of(columns(), MOST_DETAIL)
    assert share.cameras == ("obs/cam_0", "obs/cam_1")
    assert (share.frames, share.points) == (MAX_FRAMES, MAX_POINTS)
    assert share.columns == ("actions", *(f"obs/a_term_{i}" for i in range(4)))
    assert share.left_out == {}


def test_little_room_means_fewer_frames_and_points_first() -> None:
    share = share_of(columns(), 16_000)
    assert share.cameras == ("obs/cam_0", "obs/cam_1")
    assert len(share.columns) == 5
    assert 2 <= share.frames < MAX_FRAMES
    assert 24 <= share.points < MAX_POINTS


def test_without_room_the_actions_stay_and_the_rest_is_named() -> None:
    share = share_of(columns(cameras=3, terms=6, width=14), LEAST_DETAIL)
    assert share.columns == ("actions",)
    assert len(share.cameras) <= 1
    assert {share.left_out[f"obs/a_term_{i}"] for i in range(6)} == {"no room for its curves"}
    assert share.left_out["obs/cam_2"] == "no room for its frames"


def test_no_frames_are_asked_for() -> None:
    share = share_of(columns(), 50_000, frames=0)
    assert (share.cameras, share.frames, share.strip_bytes) == ((), 0, 0)


def test_states_come_last_and_odd_columns_are_named() -> None:
    made = columns(cameras=0, terms=1) | {
        "states/robot": ArrayColumn(np.zeros((9, 2))),
        "rewards": ArrayColumn(np.zeros(9)),
        "obs/depth": ArrayColumn(np.zeros((9, 64, 64), np.float32)),
        "obs/words": ArrayColumn(np.array(["x"] * 9)),
    }
    share = share_of(made, 50_000)
    assert share.columns == ("actions", "obs/a_term_0", "rewards", "states/robot")
    assert share.left_out["obs/depth"] == "64 by 64 float32 values a row"
    assert "obs/words" in share.left_out


@pytest.mark.parametrize("room", [LEAST_DETAIL, 8_000, 20_000, 90_000])
@pytest.mark.parametrize("width", [1, 7, 40])
def test_curves_take_no_more_than_their_share(room: int, width: int) -> None:
    made = columns(cameras=0, width=width)
    share = share_of(made, room)
    value = [{"n": n, **curve(made[n], share.points)} for n in share.columns]
    least = 24 * 2 * 4 / 3 * min(width, 32) + 800  # the actions are shown whatever the room
    assert len(data_block("d0", value)) <= max(room * 1.25, least)


def test_an_episode_without_numbers_has_no_curves() -> None:
    share = share_of({"obs/cam": ArrayColumn(np.zeros((3, 4, 4, 3), np.uint8))}, 9_000)
    assert (share.columns, share.points) == ((), 0)
    assert share.cameras == ("obs/cam",)
