"""Film strips: the right frames in the right order, within their bytes, the same bytes again.

What is not here: which frames a page shows.
"""

from __future__ import annotations

import io
from base64 import b64decode
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from trajpipe.core.episode import FunctionColumn
from trajpipe.report.html_frames import read_frames, sampled_rows, strip


def flat(value: int, height: int = 60, width: int = 80, channels: int = 3) -> NDArray[np.uint8]:
    """A frame of one grey."""
    return np.full((height, width, channels), value, np.uint8)


def noise(count: int, side: int = 200) -> list[NDArray[np.uint8]]:
    """Frames that compress badly."""
    rng = np.random.default_rng(0)
    return [rng.integers(0, 256, (side, side, 3), np.uint8) for _ in range(count)]


def opened(value: dict[str, Any]) -> Image.Image:
    with Image.open(io.BytesIO(b64decode(value["src"]))) as image:
        image.load()
    assert image.format == "JPEG"
    return image.copy()


@pytest.mark.parametrize(
    ("length", "count", "rows"),
    [
        (0, 5, []),
        (1, 5, [0]),
        (3, 5, [0, 1, 2]),
        (100, 2, [0, 99]),
        (101, 5, [0, 25, 50, 75, 100]),
        (9, 1, [0]),
    ],
)
def test_sampled_rows_are_spread_over_the_episode(length: int, count: int, rows: list[int]) -> None:
    assert sampled_rows(length, count) == rows


def test_frames_are_side_by_side_in_order() -> None:
    made = strip([flat(20), flat(120), flat(240)], [0, 7, 30], 20_000)
    image = opened(made)
    assert (made["rows"], made["w"], made["h"], made["full"]) == ([0, 7, 30], 80, 60, [60, 80])
    assert image.size == (240, 60)
    grey = np.asarray(image.convert("L"))
    assert [abs(int(grey[30, 40 + 80 * i]) - v) <= 3 for i, v in enumerate((20, 120, 240))] == [True] * 3


def test_small_frames_are_not_enlarged_and_large_ones_are_scaled() -> None:
    assert strip([flat(9, 16, 16)], [0], 20_000)["h"] == 16
    large = strip([flat(9, 480, 640)], [0], 20_000)
    assert (large["w"], large["h"]) == (149, 112)
    assert strip([flat(9, 100, 4000)], [0], 20_000)["w"] == 224


@pytest.mark.parametrize("budget", [60_000, 12_000, 4_000, 1_200])
def test_a_strip_fits_its_bytes(budget: int) -> None:
    made = strip(noise(12), list(range(12)), budget)
    assert len(b64decode(made["src"])) <= budget
    assert made["rows"][0] == 0
    assert len(made["rows"]) >= 1
    assert opened(made).width == made["w"] * len(made["rows"])


def test_frames_are_left_out_only_when_small_ones_do_not_fit() -> None:
    assert len(strip(noise(12, 32), list(range(12)), 12_000)["rows"]) == 12
    assert len(strip(noise(12, 32), list(range(12)), 2_000)["rows"]) < 12


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_grey_colour_and_alpha(channels: int) -> None:
    image = opened(strip([flat(90, channels=channels)], [0], 9_000))
    assert image.mode == "RGB"
    assert abs(int(np.asarray(image)[30, 40, 2]) - 90) <= 3


def test_the_same_frames_give_the_same_bytes() -> None:
    assert strip(noise(5), range(5), 9_000) == strip(noise(5), range(5), 9_000)


def test_one_row_is_read_at_a_time() -> None:
    calls: list[tuple[int, int]] = []

    def fetch(start: int, stop: int) -> NDArray[Any]:
        calls.append((start, stop))
        return np.full((stop - start, 4, 4, 3), start, np.uint8)

    frames = read_frames(FunctionColumn(np.dtype(np.uint8), (90, 4, 4, 3), fetch), [0, 40, 89])
    assert calls == [(0, 1), (40, 41), (89, 90)]
    assert [int(f[0, 0, 0]) for f in frames] == [0, 40, 89]
