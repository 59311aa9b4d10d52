"""The progress callback that long work calls; who shows it is not decided here.

What is not here: drawing bars, see `trajpipe.cli`.
"""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called with what was just finished.

    Args of the call: `what` (a short noun: `demos`, `frames`), `done` so far, `total` (None = unknown).
    """

    def __call__(self, what: str, done: int, total: int | None) -> None:
        """Report."""


def silent(what: str, done: int, total: int | None) -> None:
    """The progress that nobody watches."""
