"""Task texts in order of first appearance, byte-exact, and the task index of every row.

What is not here: where a task text comes from; the source and the catalogue say.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trajpipe.core import names
from trajpipe.core.episode import Episode, whole
from trajpipe.core.errors import InputError
from trajpipe.core.findings import Place


class TaskTable:
    """Indices of task texts; two texts are one task only when all their bytes are equal.

    Args:
        fallback: Text of an episode without a task.
        declared: Texts that a per-row `task_index` column of an episode points into.
    """

    def __init__(self, fallback: str, declared: tuple[str, ...]) -> None:
        self._fallback = fallback
        self._declared = declared
        self._index: dict[str, int] = {}
        self.filled = 0

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts by index."""
        return tuple(self._index)

    def rows(self, episode: Episode) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """Task index of every row (T,) int64, and the episode's texts in order of first appearance.

        Raises:
            InputError: the episode's `task_index` points outside the declared texts.
        """
        if names.COLUMN_TASK_INDEX in episode.columns and self._declared:
            return self._per_row(episode)
        if episode.task is None:
            self.filled += 1
        text = self._fallback if episode.task is None else episode.task
        return np.full(episode.length, self._of(text), np.int64), (text,)

    def _per_row(self, episode: Episode) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        given: NDArray[Any] = whole(episode.columns[names.COLUMN_TASK_INDEX]).reshape(-1).astype(np.int64)
        bad = np.flatnonzero((given < 0) | (given >= len(self._declared)))
        if bad.size:
            raise InputError(
                "a row's task_index must point into the declared tasks",
                place=Place(episode.source_file, episode.name, names.COLUMN_TASK_INDEX, int(bad[0])),
                got=int(given[bad[0]]),
                expected=f"0..{len(self._declared) - 1}",
                code="task-index",
            )
        values, first = np.unique(given, return_index=True)
        order = values[np.argsort(first, kind="stable")]
        texts = tuple(dict.fromkeys(self._declared[int(v)] for v in order))
        lookup = np.zeros(len(self._declared), np.int64)
        for value in order:
            lookup[value] = self._of(self._declared[int(value)])
        return lookup[given], texts

    def _of(self, text: str) -> int:
        return self._index.setdefault(text, len(self._index))
