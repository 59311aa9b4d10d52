"""Tests of strict JSON text.

What is not here: files, see test_atomic.
"""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajpipe.core import jsontext
from trajpipe.core.errors import InputError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_what_is_written_is_read_back(value: Any) -> None:
    assert jsontext.loads(jsontext.dumps(value)) == value
    assert jsontext.loads(jsontext.dumps(value, indent=2).encode()) == value


@given(st.binary())
def test_undecodable_bytes_of_a_recording_are_encodable_and_come_back(raw: bytes) -> None:
    text = raw.decode("utf-8", "surrogateescape")
    written = jsontext.dumps({"text": text}).encode("utf-8")
    assert jsontext.loads(written)["text"].encode("utf-8", "surrogateescape") == raw


def test_keys_are_sorted_and_unicode_is_not_escaped() -> None:
    assert jsontext.dumps({"b": "立方体", "a": 1}) == '{"a":1,"b":"立方体"}'
    assert jsontext.dumps({"b": 1, "a": 2}, sort_keys=False) == '{"b":1,"a":2}'
    assert jsontext.dumps({"a": [1]}, indent=2) == '{\n  "a": [\n    1\n  ]\n}'


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_lacks_are_refused(number: float) -> None:
    with pytest.raises(InputError, match="finite"):
        jsontext.dumps({"deep": [{"x": number}]})


def test_a_value_that_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(InputError, match="no value holds itself"):
        jsontext.dumps(loop)


@pytest.mark.parametrize("token", ["NaN", "Infinity", "-Infinity"])
def test_bare_tokens_are_refused_with_the_place(token: str) -> None:
    with pytest.raises(InputError, match=f"data@env_args.*got {token}"):
        jsontext.loads(f'{{"x": {token}}}', place="data@env_args")


@pytest.mark.parametrize(
    "text",
    ["", "{'env_name': 'Lift'}", '{"a": 1,}', b"\xff\xfe{", "[" * 100_000, "9" * 5000, "\ufeff{}"],
    ids=["empty", "python-repr", "trailing-comma", "not-utf8", "deep", "digits", "bom"],
)
def test_what_is_no_json_is_an_input_error(text: str | bytes) -> None:
    with pytest.raises(InputError, match="text is not JSON"):
        jsontext.loads(text, place="x")


def test_it_is_the_json_that_others_read() -> None:
    value = {"env_kwargs": {}, "type": 2, "env_name": "Isaac-Stack-Cube"}
    assert json.loads(jsontext.dumps(value)) == value


@pytest.mark.parametrize(
    ("text", "half"),
    [
        (r'"\ud83d"', r"\ud83d"),
        (r'"\ude00\ud83d"', r"\ude00"),
        (r'"\ud83d\ude00 \uD83Dx"', r"\uD83D"),
        (r'"\ud83d\ude00"', None),
        (r'"\\ud83d"', None),
        (r'"\\\ud83d"', r"\ud83d"),
        (r'"\udcff"', None),
        (r'"\u00e9 \n \""', None),
        ("plain", None),
    ],
)
def test_half_a_character(text: str, half: str | None) -> None:
    assert jsontext.lone_surrogate(text) == half
