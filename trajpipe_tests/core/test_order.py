"""Tests of natural order and slugs.

What is not here: where demo names come from.
"""

from __future__ import annotations

import random
import re

from hypothesis import given
from hypothesis import strategies as st

from trajpipe.core.order import natural_key, natural_sorted, slug

NAMES = st.text(alphabet="ab_01289.٣é ", max_size=12)


def test_demo_numbers_sort_as_numbers() -> None:
    given_names = ["demo_0", "demo_1", "demo_10", "demo_100", "demo_2"]
    assert natural_sorted(given_names) == ["demo_0", "demo_1", "demo_2", "demo_10", "demo_100"]


@given(st.lists(st.integers(0, 10**30), unique=True))
def test_one_prefix_sorts_by_number(numbers: list[int]) -> None:
    assert natural_sorted(f"demo_{n}" for n in numbers) == [f"demo_{n}" for n in sorted(numbers)]


@given(st.lists(NAMES, unique=True))
def test_the_order_is_total_and_does_not_depend_on_arrival(names: list[str]) -> None:
    shuffled = list(names)
    random.Random(1).shuffle(shuffled)
    assert natural_sorted(shuffled) == natural_sorted(names)


@given(NAMES, NAMES)
def test_keys_are_equal_only_for_equal_names(a: str, b: str) -> None:
    assert (natural_key(a) == natural_key(b)) == (a == b)


def test_equal_numbers_fall_back_to_their_text() -> None:
    assert natural_sorted(["demo_1", "demo_01", "demo_001"]) == ["demo_001", "demo_01", "demo_1"]


def test_names_without_digits_and_with_them_compare() -> None:
    assert natural_sorted(["b", "a2", "10", "a", "a10", "2", ""]) == ["", "2", "10", "a", "a2", "a10", "b"]


def test_a_hostile_name_of_many_digits_is_no_error() -> None:
    long = "demo_" + "9" * 10_000
    assert natural_sorted([long, "demo_10", "demo_9"]) == ["demo_9", "demo_10", long]


def test_digits_of_other_scripts_are_text() -> None:
    assert natural_sorted(["x٣", "x2"]) == ["x2", "x٣"]


def test_a_slug_that_is_one_already_is_kept() -> None:
    for text in ("KITCHEN_SCENE10_close_the_top_drawer", "a.b-c_1", "x" * 120):
        assert slug(text) == text


def test_commas_spaces_and_slashes_leave_with_a_hash() -> None:
    assert re.fullmatch(r"pick-place-v1-[0-9a-f]{8}", slug("pick, place/v1"))
    assert slug("pick, place/v1") != slug("pick; place/v1")


@given(st.text())
def test_a_slug_is_safe_as_a_file_name_and_a_partition_key(text: str) -> None:
    found = slug(text)
    assert re.fullmatch(r"[A-Za-z0-9_.\-]+", found) or text == found == ""
    assert found.strip(".") or text == found
    assert len(found) <= 129


@given(st.lists(st.text(alphabet="a ,é立", min_size=1, max_size=4), unique=True, max_size=30))
def test_texts_that_are_no_slugs_never_share_one(texts: list[str]) -> None:
    changed = [t for t in texts if slug(t) != t]
    assert len({slug(t) for t in changed}) == len(changed)


def test_lone_surrogates_of_undecodable_names_are_no_error() -> None:
    assert slug("demo\udcff") != slug("demo\udcfe")
    assert slug("demo\ud800").startswith("demo-")


def test_dots_alone_never_name_a_folder_above() -> None:
    assert re.fullmatch(r"recording-[0-9a-f]{8}", slug(".."))
    assert not slug("../../etc").startswith(".")
