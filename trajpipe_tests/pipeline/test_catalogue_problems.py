"""Problems of a catalogue: their text, order, and the error that holds them.

What is not here: which problems there are.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from trajpipe.core.errors import CatalogueError
from trajpipe.pipeline.catalogue_problems import Problem, did_you_mean, invalid

FILE = Path("data/datasets.yaml")


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (Problem(3, "a.b", "wrong", "1", "2", "Fix it."), "line 3 · a.b: wrong; got 1; expected 2. Fix it."),
        (Problem(3, "", "wrong"), "line 3: wrong"),
        (Problem(0, "", "wrong", hint="Fix it."), "wrong. Fix it."),
        (Problem(0, "a", "wrong", expected="2"), "a: wrong; expected 2"),
    ],
)
def test_the_text_of_a_problem(problem: Problem, text: str) -> None:
    assert str(problem) == text


def test_one_problem_is_told_on_one_line() -> None:
    error = invalid(FILE, [Problem(3, "a", "wrong")])
    assert isinstance(error, CatalogueError)
    assert str(error) == "data/datasets.yaml: line 3 · a: wrong"
    assert error.code == "bad-catalogue"


def test_problems_come_in_the_order_of_lines_and_each_once() -> None:
    twice = Problem(9, "b", "wrong")
    error = invalid(
        FILE, [twice, Problem(2, "z", "wrong"), twice, Problem(2, "a", "wrong"), Problem(0, "", "x")]
    )
    assert [(p.line, p.key) for p in error.problems] == [(0, ""), (2, "a"), (2, "z"), (9, "b")]
    assert str(error).splitlines() == [
        "data/datasets.yaml: the catalogue has 4 problems:",
        "  x",
        "  line 2 · a: wrong",
        "  line 2 · z: wrong",
        "  line 9 · b: wrong",
    ]


def test_the_plain_form_leaves_out_what_is_not_known() -> None:
    assert Problem(3, "a", "wrong").to_json() == {"line": 3, "key": "a", "rule": "wrong"}
    assert Problem(0, "", "wrong", "1", "2", "Fix it.").to_json() == {
        "rule": "wrong",
        "got": "1",
        "expected": "2",
        "hint": "Fix it.",
    }


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("filtre", "Did you mean `filter`?"),
        ("shedule", "Did you mean `schedule`?"),
        ("zzz", None),
        ("", None),
    ],
)
def test_the_nearest_word_is_offered(word: str, sentence: str | None) -> None:
    assert did_you_mean(word, ["filter", "splits", "schedule"]) == sentence
