"""The episode index of a store: `ep_len` and `ep_offset`, validated whole when a store is opened.

What is not here: what an episode holds besides its rows (side tables, see `reader`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trajpipe.core.errors import InputError, RowIndexError


@dataclass(frozen=True, slots=True, eq=False)
class EpisodeIndex:
    """Which rows are which episode's.

    Attributes:
        ep_len: int64 (E,), rows of each episode, all positive.
        ep_offset: int64 (E,), first row of each; contiguous, in order, from 0.
    """

    ep_len: NDArray[np.int64]
    ep_offset: NDArray[np.int64]

    @classmethod
    def validated(
        cls, ep_len: NDArray[Any], ep_offset: NDArray[Any], *, place: object = None
    ) -> EpisodeIndex:
        """The index of two integer arrays of any width.

        Raises:
            InputError: not rank-1 integers of one length, all positive, contiguous; names the episode.
        """
        for name, array in (("ep_len", ep_len), ("ep_offset", ep_offset)):
            if array.ndim != 1 or array.dtype.kind not in "iu":
                got = f"{array.dtype} {array.shape}"
                raise InputError(f"{name} is one row of integers", place=place, got=got)
        if len(ep_len) != len(ep_offset):
            got = f"{len(ep_len)} and {len(ep_offset)}"
            raise InputError("ep_len and ep_offset have one length", place=place, got=got)
        lengths, offsets = _int64(ep_len, place), _int64(ep_offset, place)
        _require(lengths > 0, "every episode has at least one row", lengths, place)
        ends = np.cumsum(lengths)
        _require(ends > 0, "the rows of all episodes can be counted in 64 bits", ends, place)
        starts = np.concatenate([np.zeros(1, np.int64), ends])[:-1]
        _require(offsets == starts, "each episode begins where the one before ends", offsets, place)
        lengths.flags.writeable = offsets.flags.writeable = False
        return cls(lengths, offsets)

    @property
    def n_episodes(self) -> int:
        """E."""
        return len(self.ep_len)

    @property
    def n_rows(self) -> int:
        """Rows of all episodes together."""
        return int(self.ep_offset[-1] + self.ep_len[-1]) if len(self.ep_len) else 0

    def rows_of(self, episode: int) -> tuple[int, int]:
        """(start, stop) of an episode's rows.

        Raises:
            RowIndexError: no such episode.
        """
        if not 0 <= episode < len(self.ep_len):
            raise RowIndexError("no such episode", got=episode, expected=f"0..{len(self.ep_len) - 1}")
        start = int(self.ep_offset[episode])
        return start, start + int(self.ep_len[episode])

    def episode_of(self, rows: ArrayLike) -> NDArray[np.int64]:
        """Episode of each row.

        Args:
            rows: Row numbers, integers of any shape within [0, n_rows).

        Raises:
            RowIndexError: a row lies outside.
        """
        wanted = np.asarray(rows, np.int64)
        if wanted.size and (wanted.min() < 0 or wanted.max() >= self.n_rows):
            raise RowIndexError("a row of the store", got=wanted, expected=f"within [0, {self.n_rows})")
        found: NDArray[np.int64] = np.searchsorted(self.ep_offset, wanted, side="right") - 1
        return found

    def is_first(self, rows: ArrayLike) -> NDArray[np.bool_]:
        """True where a row is its episode's first."""
        wanted = np.asarray(rows, np.int64)
        flags: NDArray[np.bool_] = self.ep_offset[self.episode_of(wanted)] == wanted
        return flags


def _int64(array: NDArray[Any], place: object) -> NDArray[np.int64]:
    if array.dtype == np.uint64 and array.size and int(array.max()) > np.iinfo(np.int64).max:
        raise InputError("the episode index fits int64", place=place, got=array.max())
    return np.array(array, np.int64)


def _require(holds: NDArray[np.bool_], rule: str, values: NDArray[np.int64], place: object) -> None:
    if not holds.all():
        episode = int(np.argmin(holds))
        raise InputError(
            rule, place=f"{place} · episode {episode}", got=int(values[episode]), code="bad-index"
        )
