"""Numbers and texts for people."""

import pytest

from trajpipe.cli import formatting


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (1234, "1.2 kB"),
        (9_949, "9.9 kB"),
        (9_951, "10 kB"),
        (34_000_000, "34 MB"),
        (999_499, "999 kB"),
        (999_500, "1.0 MB"),
        (44_000_000_000, "44 GB"),
        (5_000_000_000_000_000_000, "5000 PB"),
    ],
)
def test_sizes_have_two_digits_and_a_decimal_unit(count: int, text: str) -> None:
    assert formatting.size(count) == text


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (0.04, "0.0 s"),
        (3.14, "3.1 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 00 s"),
        (125, "2 min 05 s"),
        (3599.6, "1 h 00 min"),
        (3870, "1 h 04 min"),
    ],
)
def test_durations(duration: float, text: str) -> None:
    assert formatting.seconds(duration) == text


def test_counts_agree_with_their_noun() -> None:
    assert formatting.count(1, "episode") == "1 episode"
    assert formatting.count(0, "episode") == "0 episodes"
    assert formatting.count(2163, "frame") == "2,163 frames"
    assert formatting.count(2, "entry", "entries") == "2 entries"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.5, "0.5"), (-1.0, "-1"), (3.14159e-5, "3.142e-05"), (float("nan"), "nan"), (float("-inf"), "-inf")],
)
def test_measured_values_have_four_digits(value: float, text: str) -> None:
    assert formatting.number(value) == text


def test_shapes_are_written_as_tuples() -> None:
    assert formatting.shape(()) == "()"
    assert formatting.shape(("T",)) == "(T,)"
    assert formatting.shape(("T", 84, 84, 3)) == "(T, 84, 84, 3)"
    assert formatting.shape((None, 7)) == "(∞, 7)"


def test_a_long_text_says_how_long_it_is() -> None:
    text = "x" * 90_000
    short = formatting.shorten(text, 60)
    assert len(short) == 60
    assert short.startswith("xxx")
    assert short.endswith("… (90,000 characters)")


def test_a_short_text_stays_and_line_ends_are_shown_as_escapes() -> None:
    assert formatting.shorten("two\nlines\tand \\", 60) == "two\\nlines\\tand \\\\"


def test_some_of_the_text_is_shown_however_narrow_it_is() -> None:
    assert formatting.shorten("abcdefghijklmnopqrstuvwxyz" * 2, 1).startswith("abcdefgh…")


def test_a_histogram_counts_every_value_once() -> None:
    values = [1, 1, 2, 5, 9, 10]
    assert formatting.histogram(values, 3) == [3, 1, 2]
    assert sum(formatting.histogram(values, 16)) == len(values)
    assert formatting.histogram([4, 4, 4], 16) == [3]
    assert formatting.histogram([], 16) == []


def test_a_sparkline_has_a_bar_per_bin_and_nothing_for_an_empty_one() -> None:
    assert formatting.sparkline([1, 0, 8]) == "▁ █"
    assert formatting.sparkline([8]) == "█"
    assert formatting.sparkline([0, 0]) == ""
    assert len(formatting.sparkline(list(range(16)))) == 16


def test_a_long_list_says_how_many_there_are() -> None:
    assert formatting.listed(["a", "b"]) == "a, b"
    assert formatting.listed([str(i) for i in range(12)], 3) == "0, 1, 2 … (12 in all)"
