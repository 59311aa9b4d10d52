"""A store as pandas and pyarrow tables: the episodes, and low-dimensional columns by row.

No copy is made where the column can be mapped; pandas and pyarrow are imported when asked for.
What is not here: images (they are read by `TrajectoryStore.read_range`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core import names
from trajpipe.core.errors import SchemaError
from trajpipe.store.reader import TrajectoryStore

if TYPE_CHECKING:
    import pandas as pd

_TEXT_TABLES: Final = {"file": names.SIDE_EP_FILE, "demo": names.SIDE_EP_DEMO}
_CODE_TABLES: Final = {
    "source": (names.SIDE_EP_SOURCE, names.SIDE_SOURCE_TAGS),
    "split": (names.SIDE_EP_SPLIT, names.SIDE_SPLIT_NAMES),
}


def episode_columns(store: TrajectoryStore) -> dict[str, NDArray[Any] | list[Any]]:
    """The episodes table by column: `episode`, `start`, `length`, and what the side tables say.

    `success` is True, False or None (unknown); `task` the text of the first row's `task_index`, of a motion
    store its `motion_id`.
    """
    out: dict[str, NDArray[Any] | list[Any]] = {
        "episode": np.arange(store.n_episodes, dtype=np.int64),
        "start": store.ep_offset,
        "length": store.ep_len,
    }
    have = store.side_tables
    for name, (codes, labels) in _CODE_TABLES.items():
        if codes in have and labels in have:
            words = store.texts(labels)
            out[name] = [words[int(c)] for c in store.side_table(codes)]
    if names.SIDE_EP_SUCCESS in have:
        known = {0: False, 1: True}
        out["success"] = [known.get(int(c)) for c in store.side_table(names.SIDE_EP_SUCCESS)]
    for name, table in _TEXT_TABLES.items():
        if table in have:
            out[name] = list(store.texts(table))
    if names.SIDE_EP_CONTENT in have:
        out["content_sha256"] = [bytes(row).hex() for row in store.side_table(names.SIDE_EP_CONTENT)]
    numbers = task_column(store)
    if numbers is not None and store.n_rows:
        index = store.load_column(numbers, copy=False).reshape(store.n_rows, -1)
        out["task"] = [store.task_text(int(i)) for i in index[store.ep_offset, 0]]
    return out


def task_column(store: TrajectoryStore) -> str | None:
    """The column whose rows number the store's tasks; None without one, or without tasks.

    A motion store has no `task_index`: its tasks are the clips, which `motion_id` numbers.
    """
    found = (name for name in names.TASK_NUMBERS if name in store.columns)
    return next(found, None) if store.tasks else None


def low_dimensional(store: TrajectoryStore, columns: Sequence[str] | None) -> list[str]:
    """Names of columns whose rows are a value or a vector; all such columns when None.

    Raises:
        SchemaError: a named column has rows of higher rank.
        MissingNameError: no such column.
    """
    if columns is None:
        return [c.name for c in store.columns.values() if len(c.shape) <= 1]
    for name in columns:
        store.reader(name)
        if len(store.columns[name].shape) > 1:
            got = store.columns[name].shape
            raise SchemaError(
                "a table holds values and vectors", place=name, got=got, hint="Read it with read_range()."
            )
    return list(columns)


def episodes_to_pandas(store: TrajectoryStore) -> pd.DataFrame:
    """The episodes table as a pandas frame."""
    import pandas as pd

    return pd.DataFrame(episode_columns(store))


def to_pandas(store: TrajectoryStore, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Low-dimensional columns as a frame of N rows; a vector `action` becomes `action.0`, `action.1`, ….

    Mapped columns are not copied: their values must not be written to.
    """
    import pandas as pd

    series: dict[str, NDArray[Any]] = {}
    for name in low_dimensional(store, columns):
        rows = store.load_column(name, copy=False)
        if rows.ndim == 1:
            series[name] = rows
        else:
            series.update({f"{name}.{i}": rows[:, i] for i in range(rows.shape[1])})
    return pd.DataFrame(series, copy=False)


def episodes_to_arrow(store: TrajectoryStore) -> Any:
    """The episodes table as a pyarrow table."""
    import pyarrow as pa

    return pa.table(episode_columns(store))


def to_arrow(store: TrajectoryStore, columns: Sequence[str] | None = None) -> Any:
    """Low-dimensional columns as a pyarrow table; vectors are fixed-size lists over the same memory."""
    import pyarrow as pa

    arrays: dict[str, Any] = {}
    for name in low_dimensional(store, columns):
        rows = store.load_column(name, copy=False)
        flat = pa.array(rows.reshape(-1))
        arrays[name] = flat if rows.ndim == 1 else pa.FixedSizeListArray.from_arrays(flat, rows.shape[1])
    return pa.table(arrays)
