"""Escaping: no text of data becomes markup, ends a data block, or is cut without a word.

What is not here: what pages show.
"""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajpipe.core.errors import InputError
from trajpipe.report.html_text import Markup, data_block, element, escaped, joined, picture, table

HOSTILE = '</script><img src=x onerror="alert(1)">'


class _Reader(HTMLParser):
    """What a browser would see: tags, texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def test_data_is_escaped_and_markup_is_kept() -> None:
    assert element("p", "a < b & c", element("b", "d")) == "<p>a &lt; b &amp; c<b>d</b></p>"
    assert joined(["<", Markup("<br>")]) == "&lt;<br>"
    assert escaped("\"quoted' ") == "&quot;quoted&#x27; "


@given(st.text(max_size=80))
def test_any_text_is_one_text_between_tags(text: str) -> None:
    seen = _Reader(element("p", text))
    assert seen.tags == ["p"]
    assert not seen.attributes


def test_hostile_text_is_shown_as_it_is() -> None:
    seen = _Reader(table(("task", "n"), [(HOSTILE, 3)], right=("n",)))
    assert seen.text == f"taskn{HOSTILE}3"
    assert "img" not in seen.tags
    assert seen.attributes == [("class", "wide"), ("class", "n"), ("class", "n")]


def test_what_cannot_be_shown_is_replaced() -> None:
    assert escaped("a\0b\x1bc\x7f") == "a\ufffdb\ufffdc\ufffd"
    assert escaped("tab\tline\n") == "tab\tline\n"
    assert escaped("lone \udc80 surrogate").encode("utf-8") == b"lone ? surrogate"


def test_long_text_is_cut_and_says_so() -> None:
    assert escaped("x" * 1000, 10) == f"{'x' * 10}… (990 characters more)"


def test_a_data_block_holds_what_was_given() -> None:
    value = {"task": HOSTILE, "more": ["\u2028\u2029", "<!--", "&amp;", 1.5, None]}
    block = data_block("d0", value)
    head, tail = '<script type="application/json" id="d0">', "</script>\n"
    assert block.startswith(head)
    assert block.endswith(tail)
    inner = block[len(head) : -len(tail)]
    assert not set(inner) & set("<>&\u2028\u2029")
    assert json.loads(inner) == value


@given(st.recursive(st.text() | st.integers() | st.booleans(), st.lists, max_leaves=8))
def test_any_value_survives_a_data_block(value: object) -> None:
    block = data_block("x", value)
    assert block.count("<") == 2
    assert json.loads(block.partition(">")[2].rpartition("</script>")[0]) == value


def test_a_data_block_has_no_nan() -> None:
    with pytest.raises(InputError, match="finite"):
        data_block("x", [float("nan")])


def test_a_picture_is_whole_and_its_words_are_escaped() -> None:
    uri = "data:image/png;base64," + "A" * 5000
    seen = _Reader(picture(uri, HOSTILE))
    assert seen.tags == ["img"]
    assert dict(seen.attributes) == {"src": uri, "alt": HOSTILE}
