"""The small pictures: what they count is right, and what they draw is where it must be, pixel by pixel.

What is not here: gathering the data, see `trajpipe_tests.pipeline.test_pictures`.
"""

from __future__ import annotations

import io
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from trajpipe.core.ledger import Ledger, Rejection, entry
from trajpipe.report.axes import Axes, number, padded, ticks
from trajpipe.report.canvas import BAND, BLUE, GREEN, RED, SERIES, Canvas, fitted, text_width
from trajpipe.report.contact_sheet import SheetRow, contact_sheet
from trajpipe.report.distributions import BINS, MAX_DIMENSIONS, distribution, histogram
from trajpipe.report.funnel import funnel, funnel_steps
from trajpipe.report.lengths import MAX_BINS, episode_lengths, length_histogram
from trajpipe.report.picture import MAX_BYTES, Picture
from trajpipe.report.trajectories import Curve, trajectories


def pixels(picture: Picture | bytes | None) -> NDArray[np.uint8]:
    """(H, W, 3) of a picture that is small enough."""
    assert picture is not None
    data = picture if isinstance(picture, bytes) else picture.data
    assert len(data) <= MAX_BYTES
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


def rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def painted(image: NDArray[np.uint8], colour: str) -> NDArray[np.bool_]:
    """Where a colour is, exactly."""
    return np.asarray((image == rgb(colour)).all(axis=-1))


def tinted(image: NDArray[np.uint8], colour: str) -> NDArray[np.bool_]:
    """Where a thin line of a colour is: the colour mixed with at most as much white."""
    ink, drawn = 255.0 - np.array(rgb(colour)), 255.0 - image
    share = drawn @ ink / (ink @ ink)
    return np.asarray((share > 0.45) & (np.abs(drawn - share[..., None] * ink).max(axis=-1) < 8))


def ledger(read: int, **reasons: int) -> Ledger:
    """A ledger with so many episodes rejected for each reason."""
    rejected = [Rejection("a", f"{r}{i}", r.replace("_", "-")) for r, n in reasons.items() for i in range(n)]
    return Ledger([entry("a", "demos", read - len(rejected), rejected)])


# --- the canvas


def test_a_box_fills_its_pixels_and_no_others() -> None:
    canvas = Canvas(40, 30)
    canvas.box((10, 5, 20, 25), BLUE)
    blue = painted(pixels(canvas.png()), BLUE)
    assert blue[5:25, 10:20].all()
    assert blue.sum() == 20 * 10


def test_a_thin_box_is_still_a_pixel_wide() -> None:
    canvas = Canvas(20, 20)
    canvas.box((10, 5, 10, 15), RED)
    assert painted(pixels(canvas.png()), RED).sum() == 10


def test_a_line_is_interrupted_where_a_value_is_not_finite() -> None:
    canvas = Canvas(60, 20)
    line = np.array([[5, 10], [20, 10], [30, np.nan], [40, 10], [55, 10]], float)
    canvas.line(line, BLUE, 2)
    dark = pixels(canvas.png()).min(axis=-1) < 200
    assert dark[:, 5:20].any(axis=0).all()
    assert dark[:, 40:55].any(axis=0).all()
    assert not dark[:, 23:38].any()


def test_a_single_finite_point_is_a_dot() -> None:
    canvas = Canvas(20, 20)
    canvas.line(np.array([[np.nan, 1], [10, 10], [np.inf, 2]], float), BLUE, 2)
    assert (pixels(canvas.png())[10, 10] == rgb(BLUE)).all()


def test_a_picture_that_is_too_large_is_scaled_down() -> None:
    canvas = Canvas(400, 300)
    generator = np.random.default_rng(0)
    for _ in range(4000):
        x, y, w, h = generator.integers(0, 390, 4)
        shade = f"#{int(generator.integers(0, 1 << 24)):06x}"
        canvas.box((x, y % 300, x + w % 9 + 1, y % 300 + h % 9 + 1), shade)
    small = canvas.png(max_bytes=8_000)
    assert len(small) <= 8_000
    assert pixels(small).shape[1] < 400


def test_the_same_drawing_gives_the_same_bytes() -> None:
    def draw() -> bytes:
        canvas = Canvas(100, 50)
        canvas.box((3, 3, 50, 20), GREEN)
        canvas.text(50, 40, "joint_pos[0]")
        return canvas.png()

    assert draw() == draw()


def test_long_text_loses_its_middle() -> None:
    text = "observation.robot0_joint_position[12]"
    short = fitted(text, 120)
    assert text_width(short) <= 120
    assert short.startswith("obs")
    assert short.endswith("[12]")
    assert fitted("x", 120) == "x"
    assert fitted(text, 1) == "…"


# --- axes


@pytest.mark.parametrize(
    ("low", "high", "count", "expected"),
    [
        (0, 10, 5, [0, 2, 4, 6, 8, 10]),
        (-1.04, 1.04, 4, [-1, 0, 1]),
        (0.0, 1.05, 2, [0, 1]),
        (3, 3, 4, []),
        (0, 1e-5, 2, [0, 5e-6, 1e-5]),
        (0, 5, 0, []),
    ],
)
def test_ticks_are_round(low: float, high: float, count: int, expected: list[float]) -> None:
    assert ticks(low, high, count) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (1200, "1,200"), (0.05, "0.05"), (-3.0, "-3"), (6.9e-6, "7e-06"), (2.5e7, "25,000,000")],
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert number(value) == text


def test_an_empty_range_is_widened() -> None:
    assert padded(2.0, 2.0) == pytest.approx((1.9, 2.1))
    assert padded(0.0, 0.0) == (-1.0, 1.0)
    assert padded(0.0, 1.0) == pytest.approx((-0.04, 1.04))


def test_values_lie_where_the_axes_say() -> None:
    axes = Axes(Canvas(100, 100), (10, 20, 90, 80), (0.0, 8.0), (-1.0, 1.0))
    assert axes.at_x(4.0) == 50
    assert axes.at_y(np.array([-1.0, 0.0, 1.0])).tolist() == [80, 50, 20]


# --- rejection funnel


def test_the_funnel_takes_away_from_the_right() -> None:
    steps = funnel_steps(ledger(10, nan_action=3, too_short=1))
    assert [step[:3] for step in steps] == [
        ("read", 0, 10),
        ("nan-action", 7, 3),
        ("too-short", 6, 1),
        ("written", 0, 6),
    ]


def test_the_funnels_bars_are_as_long_as_the_counts() -> None:
    image = pixels(funnel(ledger(10, nan_action=3, too_short=1)))
    widths = {name: painted(image, c).sum(axis=1).max() for name, c in (("read", BLUE), ("written", GREEN))}
    assert widths["written"] == pytest.approx(widths["read"] * 0.6, abs=1)
    red = painted(image, RED)
    rows = np.flatnonzero(red.any(axis=1))
    first, last = red[rows[0]], red[rows[-1]]
    assert first.sum() == pytest.approx(widths["read"] * 0.3, abs=1)
    assert np.flatnonzero(first)[0] == pytest.approx(np.flatnonzero(last)[-1] + 1, abs=1)


def test_many_reasons_become_one_bar() -> None:
    reasons = {f"reason_{i:02d}": 20 - i for i in range(12)}
    steps = funnel_steps(ledger(400, **reasons))
    assert len(steps) == 10
    assert steps[-2][0] == "5 other reasons"
    assert steps[-2][2] == sum(20 - i for i in range(7, 12))
    assert steps[-1][2] == 400 - sum(reasons.values())


def test_the_funnels_caption_is_the_summary_and_an_empty_ledger_has_none() -> None:
    made = funnel(ledger(4, nan_action=1))
    assert made is not None
    assert made.caption == "read 4 · written 3 · rejected 1 (1 nan-action)"
    assert funnel(Ledger()) is None


# --- episode lengths


def test_every_length_is_in_one_bin() -> None:
    lengths = np.random.default_rng(1).integers(5, 900, 300)
    counts, edges = length_histogram(lengths)
    assert counts.sum() == 300
    assert len(counts) <= MAX_BINS
    assert np.ptp(np.diff(edges)) == 0
    assert (np.diff(edges) % 1 == 0).all()
    assert length_histogram(np.array([7, 7, 7]))[0].tolist() == [3]
    assert length_histogram(np.array([3, 4, 4, 6]))[0].tolist() == [1, 2, 0, 1]


def test_bars_of_lengths_stand_in_order() -> None:
    made = episode_lengths(np.array([10, 11, 11, 11, 13]), fps=20)
    image = pixels(made)
    blue = painted(image, BLUE)
    columns = np.linspace(46, 624, 5)
    heights = [blue[:, int((a + b) / 2)].sum() for a, b in pairwise(columns)]
    assert heights[0] == pytest.approx(heights[1] / 3, abs=2)
    assert heights[2] == 0
    assert heights[3] == heights[0]
    assert made is not None
    assert made.caption == "5 episodes of 10 to 13 rows, median 11; at 20 Hz 0.5 s to 0.65 s"
    assert episode_lengths(np.array([], np.int64)) is None
    same = episode_lengths(np.array([30]), fps=20)
    assert same is not None
    assert same.caption == "1 episode of 30 rows; at 20 Hz 1.5 s"


# --- distributions


def test_a_histogram_counts_what_is_inside_outside_and_not_finite() -> None:
    values = np.array([-1.0, -0.5, 0.0, 0.5, 1.0, 1.5, np.nan, np.inf])
    made = histogram(values, (-1.0, 1.0))
    assert made.counts.sum() == 6
    assert (made.outside, made.not_finite) == (1, 2)
    assert (made.low, made.high) == (-1.0, 1.5)
    assert made.edges[0] < -1
    assert made.edges[-1] > 1.5
    assert len(made.counts) == BINS


def test_rounding_at_a_bound_is_not_outside() -> None:
    assert histogram(np.array([np.float32(0.1), np.float32(-0.1)]), (-0.1, 0.1)).outside == 0
    assert histogram(np.array([0.1001]), (-0.1, 0.1)).outside == 1


def test_values_beyond_the_declared_range_are_red_on_the_side_where_they_are() -> None:
    values = np.concatenate([np.linspace(-1, 1, 200), np.full(40, 1.6)])[:, None]
    made = distribution("actions", values, ["x"], "1 of 1 episodes", declared=(-1.0, 1.0))
    image = pixels(made)
    red, blue, band = (painted(image, c) for c in (RED, BLUE, BAND))
    red[:, 450:] = False  # the figures on the right are red too
    assert red.any()
    assert np.flatnonzero(red.any(axis=0))[0] > np.flatnonzero(blue.any(axis=0))[-1]
    assert band.any()
    assert made is not None
    assert made.caption == "1 of 1 episodes; declared range shaded, 40 values outside"


def test_without_a_declared_range_nothing_is_shaded_or_red() -> None:
    image = pixels(distribution("s", np.linspace(-9, 9, 100)[:, None], ["x"], "all"))
    assert not painted(image, RED).any()
    assert not painted(image, BAND).any()
    assert painted(image, BLUE).any()


def test_dimensions_beyond_48_are_counted_not_drawn() -> None:
    values = np.random.default_rng(0).normal(size=(50, 60))
    values[:, 59] = 7.0
    made = distribution("s", values, [f"d{i}" for i in range(60)], "all", declared=(-6.0, 6.0))
    assert made is not None
    assert f"{MAX_DIMENSIONS} of 60 dimensions shown" in made.caption
    assert "50 values outside" in made.caption
    assert pixels(made).shape[0] == MAX_DIMENSIONS // 2 * 24 + 10


def test_a_constant_and_a_wholly_broken_dimension_are_drawn() -> None:
    values = np.stack([np.full(9, 3.0), np.full(9, np.nan)], axis=1)
    made = distribution("s", values, ["a", "b"], "all")
    assert made is not None
    assert made.caption == "all; 9 values are not finite"
    assert distribution("s", np.empty((0, 3)), ["a", "b", "c"], "none") is None
    assert distribution("s", np.empty((3, 0)), [], "none") is None


# --- trajectories


def test_each_episode_has_its_colour_and_each_dimension_its_panel() -> None:
    curves = [Curve(f"demo_{i}", np.full((20, 4), float(i))) for i in range(2)]
    image = pixels(trajectories("joints", curves, ["a", "b", "c", "d"], "2 of 9 episodes", step_s=0.05))
    panels = image[24:]  # below the legend
    for colour in SERIES[:2]:
        rows, columns = np.nonzero(tinted(panels, colour))
        assert len(set((rows // 104).tolist())) == 2  # three panels in a row, then one
        assert columns.min() < 213 < columns.max()
    assert not tinted(panels, SERIES[2]).any()


def test_a_rising_curve_rises() -> None:
    image = pixels(trajectories("joints", [Curve("demo_0", np.arange(50.0)[:, None])], ["q"], "1 of 1"))
    rows, columns = np.nonzero(tinted(image[24:], SERIES[0]))
    assert rows[columns == columns.min()].min() > rows[columns == columns.max()].max() + 30


def test_a_window_of_an_episode_lies_at_its_rows() -> None:
    whole, part = Curve("a", np.zeros((100, 1))), Curve("b", np.ones((10, 1)), start=90)
    image = pixels(trajectories("joints", [whole, part], ["q"], "2 of 2"))
    first, second = (np.nonzero(tinted(image[24:], c))[1] for c in SERIES[:2])
    assert second.min() > first.min() + 0.8 * np.ptp(first)
    assert second.max() == pytest.approx(first.max(), abs=2)


def test_dimensions_and_curves_beyond_the_bound_are_told() -> None:
    curves = [Curve(f"demo_{i}", np.random.default_rng(i).normal(size=(30, 14))) for i in range(9)]
    made = trajectories("joints", curves, [f"q{i}" for i in range(14)], "9 of 9 episodes")
    assert made is not None
    assert made.caption == "9 of 9 episodes; 12 of 14 dimensions shown"
    pixels(made)
    assert trajectories("joints", [], [], "none") is None
    assert trajectories("joints", [Curve("a", np.empty((0, 2)))], ["x", "y"], "none") is None


# --- contact sheet


def frame(colour: tuple[int, int, int], size: int = 64) -> NDArray[np.uint8]:
    return np.broadcast_to(np.array(colour, np.uint8), (size, size, 3)).copy()


def test_frames_lie_in_rows_of_episodes_and_columns_of_cameras() -> None:
    colours = [[(250, 10, 10), (10, 250, 10)], [(10, 10, 250), (240, 240, 10)]]
    rows = [SheetRow(f"demo_{i}", [frame(c) for c in row]) for i, row in enumerate(colours)]
    made = contact_sheet(rows, ["table first", "wrist first"], "2 of 9 episodes")
    assert made is not None
    assert (made.media_type, made.caption) == ("image/jpeg", "2 of 9 episodes")
    image = pixels(made)
    side = (image.shape[1] - 84) // 2 - 3
    for down, row in enumerate(colours):
        for across, colour in enumerate(row):
            y, x = 18 + down * (side + 3) + side // 2, 84 + across * (side + 3) + side // 2
            assert image[y, x].astype(int) == pytest.approx(np.array(colour), abs=12)


def test_the_top_row_of_a_frame_stays_on_top() -> None:
    half = frame((0, 0, 0))
    half[:32] = 255
    image = pixels(contact_sheet([SheetRow("demo_0", [half])], ["cam"], "1 of 1")).astype(int)
    inside = image[18:-3, 90:-3]
    assert inside[: len(inside) // 3].mean() > 240
    assert inside[-len(inside) // 3 :].mean() < 15


def test_grey_frames_other_sizes_and_gaps_are_drawn() -> None:
    grey = np.full((20, 40, 1), 90, np.uint8)
    rgba = np.full((50, 50, 4), 200, np.uint8)
    image = pixels(contact_sheet([SheetRow("a", [grey, None]), SheetRow("b", [rgba, None])], ["x", "y"], ""))
    left, right = np.split(image[18:, 84:], 2, axis=1)
    assert (np.abs(left.astype(int) - 90) < 6).mean() > 0.1
    assert (right > 245).all()
    assert contact_sheet([SheetRow("a", [None])], ["x"], "") is None
    assert contact_sheet([], [], "") is None


def test_a_sheet_of_noise_is_made_smaller_until_it_fits() -> None:
    generator = np.random.default_rng(2)
    noise = [generator.integers(0, 256, (128, 128, 3), np.uint8) for _ in range(6)]
    rows = [SheetRow(f"demo_{i}", noise) for i in range(6)]
    made = contact_sheet(rows, ["a"] * 6, "6 of 6")
    assert made is not None
    assert pixels(made).shape[1] < 84 + 6 * 89
    assert contact_sheet(rows, ["a"] * 6, "6 of 6") == made


def test_a_picture_as_markdown_holds_itself() -> None:
    made = Picture("action lag", b"\x00\x01", "8 of 9 episodes")
    assert made.markdown == "![action lag](data:image/png;base64,AAE=)\n\n8 of 9 episodes"


def test_names_with_line_ends_are_drawn_on_one_line() -> None:
    def drawn(text: str) -> bytes:
        canvas = Canvas(120, 40)
        canvas.text(4, 20, text)
        return canvas.png()

    assert drawn("one\ntwo\x1b") == drawn("one two ")
    assert fitted("one\ntwo", 200) == "one two"
    assert "\n" not in fitted("a name\n" * 40, 60)
