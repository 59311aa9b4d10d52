"""Blocks made one ahead: the next is read and decoded in a thread while this one is encoded and written.

What is not here: the blocks; and work split within one block, which its reader does.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Block = TypeVar("Block")


def ahead(blocks: Iterator[Block]) -> Iterator[Block]:
    """The same blocks in the same order; at most one more than the caller's is in memory.

    An error of the source is raised where its block would have come. A caller that stops early waits for the
    block that is being made.

    Args:
        blocks: Used by one thread at a time, never the caller's.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="ahead") as thread:
        coming = thread.submit(_next, blocks)
        while block := coming.result():
            coming = thread.submit(_next, blocks)
            yield block[0]


def _next(blocks: Iterator[Block]) -> tuple[Block] | None:
    """The next block; None at the end: a `StopIteration` must not cross threads."""
    for block in blocks:
        return (block,)
    return None
