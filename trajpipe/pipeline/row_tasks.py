"""Tasks that change inside an episode: L2's per-row `task_index` and each demo's own table of texts.

A demo's `task_index` numbers the texts of its attribute `tasks` (JSON), so that merged files stay right; an
export wants one table for all. What is not here: where the rows come from (`trajpipe.sources.lerobot`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core import jsontext, names
from trajpipe.core.episode import Episode, mapped
from trajpipe.core.errors import InputError
from trajpipe.core.findings import Place
from trajpipe.demos.reader import DemosFile

ATTR_TASKS: Final = "tasks"


def own_tasks(episode: Episode) -> tuple[str, ...] | None:
    """Texts that the episode's `task_index` rows number; None without such rows or without a table.

    Raises:
        InputError: the table is not a JSON list of texts.
    """
    if names.COLUMN_TASK_INDEX not in episode.columns or ATTR_TASKS not in episode.attributes:
        return None
    place = Place(episode.source_file, episode.name, f"@{ATTR_TASKS}")
    value = episode.attributes.get(ATTR_TASKS)
    texts = jsontext.loads(value.encode(), place=place) if isinstance(value, str) else None
    if not isinstance(texts, list) or not all(isinstance(t, str) for t in texts):
        rule = "per-row task_index needs the demo's table of texts"
        raise InputError(rule, place=place, got=repr(value)[:60], expected="a JSON list", code="task-index")
    return tuple(texts)


def all_tasks(inputs: Iterable[Path]) -> tuple[str, ...]:
    """Texts of all episodes of L2 files with per-row tasks, in order of first appearance; () without any."""
    found: dict[str, None] = {}
    for path in inputs:
        with DemosFile(path) as demos:
            for episode in demos.episodes():
                texts = own_tasks(episode)
                if texts is None:
                    break  # all demos of a file have the same columns
                found.update(dict.fromkeys(texts))
    return tuple(found)


def with_shared_tasks(episode: Episode, tasks: Sequence[str]) -> Episode:
    """The episode with its `task_index` pointing into the shared table.

    Raises:
        InputError: a row points outside the episode's own table, or a text is not in the shared one.
    """
    own = own_tasks(episode)
    if own is None or not tasks:
        return episode
    lost = [text for text in own if text not in tasks]
    if lost:
        place = Place(episode.source_file, episode.name, f"@{ATTR_TASKS}")
        rule, listed = "the export's declared tasks hold those of every episode", ", ".join(map(repr, tasks))
        raise InputError(rule, place=place, got=repr(lost[0]), expected=listed, code="task-index")
    lookup = np.array([tasks.index(text) for text in own], np.int64)
    place = Place(episode.source_file, episode.name, names.COLUMN_TASK_INDEX)

    def shared(rows: NDArray[Any]) -> NDArray[np.int64]:
        if rows.size and not 0 <= int(rows.min()) <= int(rows.max()) < len(lookup):
            got = f"{rows.min()}..{rows.max()}"
            rule = "a row's task_index points into the demo's tasks"
            raise InputError(rule, place=place, got=got, expected=f"0..{len(lookup) - 1}", code="task-index")
        return lookup[rows.astype(np.int64)]

    column = mapped(episode.columns[names.COLUMN_TASK_INDEX], shared, dtype=np.int64)
    return episode.with_columns({**episode.columns, names.COLUMN_TASK_INDEX: column})
