"""First rows that are the previous episode's last: found, and dropped on request.

A recorder that reads its buffer before the reset has taken effect writes such rows.
What is not here: the filters of L2, see `trajpipe.demos.select`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core import names
from trajpipe.core.episode import Column, Episode, sliced
from trajpipe.core.errors import SchemaError
from trajpipe.core.findings import Place
from trajpipe.core.order import natural_sorted

_OBS: Final = names.GROUP_OBS + "/"


def last_rows(episode: Episode) -> dict[str, NDArray[Any]]:
    """The last row of every obs column that moved, to compare the next episode's first with.

    A column that ends as it began (a goal, an open gripper) would match any next episode and is left out.
    """
    rows: dict[str, NDArray[Any]] = {}
    for path, column in episode.columns.items():
        # Frames of a lossy video are never equal, and peeking at its end would cost a decoding pass.
        if path.startswith(_OBS) and episode.length > 1 and not getattr(column, "sequential", False):
            last = column.read(episode.length - 1, episode.length)[0].copy()
            if not np.array_equal(last, column.read(0, 1)[0]):
                rows[path] = last
    return rows


def stale_first(episode: Episode, previous: Mapping[str, NDArray[Any]]) -> list[str]:
    """Obs columns whose first row is the previous episode's last row, although the column moves at once.

    A recorder that reads its buffer before the reset has taken effect writes such rows. Columns that stand
    still at the start, and single values, tell nothing and are passed over.

    Args:
        episode: The episode.
        previous: `last_rows` of the episode recorded before it.
    """
    if episode.length < 2:
        return []
    return [p for p in natural_sorted(previous) if _is_stale(episode.columns.get(p), previous[p])]


def _is_stale(column: Column | None, last: NDArray[Any]) -> bool:
    if column is None or column.shape[1:] != last.shape or last.size < 2:
        return False
    first, second = column.read(0, 2)
    return np.array_equal(first, last) and not np.array_equal(first, second)


def without_first_row(episode: Episode) -> Episode:
    """The episode without its first row, in every column.

    Raises:
        SchemaError: it has one row only.
    """
    if episode.length < 2:
        place = Place(file=episode.source_file, demo=episode.name)
        raise SchemaError("an episode keeps at least one row", place=place, got=episode.length)
    columns = {path: sliced(column, 1, episode.length) for path, column in episode.columns.items()}
    return replace(episode, length=episode.length - 1, columns=columns)
