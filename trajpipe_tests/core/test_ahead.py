"""Blocks made one ahead: order, errors, how far ahead, and stopping early.

What is not here: the columns that are read so.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from trajpipe.core.ahead import ahead


def test_the_same_blocks_in_order_made_in_another_thread() -> None:
    makers: set[int] = set()

    def blocks() -> Iterator[int]:
        for number in range(5):
            makers.add(threading.get_ident())
            yield number

    assert list(ahead(blocks())) == [0, 1, 2, 3, 4]
    assert len(makers) == 1
    assert threading.get_ident() not in makers


def test_no_block_is_no_block() -> None:
    assert list(ahead(iter(()))) == []


def test_a_block_that_is_false_is_a_block() -> None:
    assert list(ahead(iter([0, None, ""]))) == [0, None, ""]


def test_the_next_block_is_made_while_this_one_is_used() -> None:
    second = threading.Event()

    def blocks() -> Iterator[int]:
        yield 1
        second.set()
        yield 2

    for _ in ahead(blocks()):
        assert second.wait(5), "made without being asked for"


def test_one_block_ahead_and_no_more() -> None:
    made: list[int] = []

    def blocks() -> Iterator[int]:
        for number in range(10):
            made.append(number)
            yield number

    for number in ahead(blocks()):
        assert len(made) <= number + 2


def test_an_error_comes_in_its_blocks_place() -> None:
    def blocks() -> Iterator[int]:
        yield 1
        raise ValueError("broken")

    found: list[int] = []
    with pytest.raises(ValueError, match="broken"):
        found.extend(ahead(blocks()))
    assert found == [1]


def test_stopping_early_leaves_no_thread() -> None:
    blocks = ahead(iter(range(100)))
    assert next(blocks) == 0
    blocks.close()  # type: ignore[attr-defined]  # an iterator by its type, a generator in fact
    assert not [t for t in threading.enumerate() if t.name.startswith("ahead")]
