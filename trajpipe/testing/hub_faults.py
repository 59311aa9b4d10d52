"""Trouble that the test Hub makes on demand.

What is not here: making it, see `trajpipe.testing.hub_server`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FAULTS: Final = ("status", "cut", "reset", "flip", "lose-answer", "stall", "whole")


@dataclass(slots=True)
class Fault:
    """Trouble for the requests that fit.

    Attributes:
        kind: `status` (answer it and do nothing), `cut` and `reset` (close after `after` bytes of the body),
            `flip` (change one bit at file offset `offset`, of an upload in its first byte), `lose-answer` (do
            it, then close), `stall` (wait `seconds` first), `whole` (ignore Range).
        match: Regular expression for "METHOD path".
        times: How many requests it hits still.
        status: Status of `status`.
        retry_after: `Retry-After` of `status`, seconds; None = none.
        after: Bytes before `cut` and `reset`.
        offset: File offset of `flip`.
        seconds: Wait of `stall`.
    """

    kind: str
    match: str
    times: int = 1
    status: int = 503
    retry_after: int | None = None
    after: int = 0
    offset: int = 0
    seconds: float = 0.2

    def __post_init__(self) -> None:
        if self.kind not in FAULTS:
            raise ValueError(f"{self.kind!r} is none of {FAULTS}")


def flipped(block: bytes, at: int) -> bytes:
    """The block with one bit of a byte changed."""
    return block[:at] + bytes([block[at] ^ 1]) + block[at + 1 :]
