"""A store described as plain data: columns, episodes, tasks, chunk layout, compression ratio.

What is not here: printing it (the command line's), and judging it (`trajpipe.checks.store`).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import h5py
import numpy as np

from trajpipe.store.column_reader import reading
from trajpipe.store.columns import ColumnSpec
from trajpipe.store.reader import TrajectoryStore

_FILTERS: Final = {
    1: "deflate",
    2: "shuffle",
    3: "fletcher32",
    4: "szip",
    32001: "blosc",
    32004: "lz4",
    32008: "bitshuffle",
    32015: "zstd",
    32026: "blosc2",
}


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a store holds, as JSON values; reads no rows.

    Args:
        path: The store.

    Returns:
        `path` (base name), `bytes`, `foreign`, `env_id`, `seed`, `source_commit`, `extra`, `rows`,
        `episodes` (`count`, `min`, `mean`, `max` rows), `tasks`, `columns` (one each: `name`, `dtype`,
        `shape`, `disk_shape`, `chunks`, `chunk_count`, `filters`, `bytes`, `stored_bytes`, `ratio`,
        `zero_copy`), `side_tables` (`name`, `dtype`, `shape`).

    Raises:
        UnreadableError, InputError: as `TrajectoryStore`.
    """
    with TrajectoryStore(path) as store:
        lengths = store.ep_len
        spread = {"min": int(lengths.min()), "mean": float(lengths.mean()), "max": int(lengths.max())}
        return {
            "path": Path(path).name,
            "bytes": Path(path).stat().st_size,
            "foreign": store.is_foreign,
            "env_id": store.env_id,
            "seed": store.seed,
            "source_commit": store.source_commit,
            "extra": dict(store.extra),
            "rows": store.n_rows,
            "episodes": {"count": store.n_episodes, **(spread if len(lengths) else {})},
            "tasks": list(store.tasks),
            "columns": [_column(store, column) for column in store.columns.values()],
            "side_tables": [_side(store, name) for name in store.side_tables],
        }


def _column(store: TrajectoryStore, column: ColumnSpec) -> dict[str, Any]:
    with reading(f"{store.path.name} · {column.name}"):
        dataset = store.dataset(column.name)
        size, stored = store.n_rows * column.row_bytes, int(dataset.id.get_storage_size())
        chunks = dataset.chunks
        grid = [-(-n // c) for n, c in zip(dataset.shape, chunks, strict=True)] if chunks else []
        return {
            "name": column.name,
            "dtype": column.dtype.name,
            "shape": list(column.shape),
            "disk_shape": [int(n) for n in dataset.shape],
            "chunks": None if chunks is None else [int(n) for n in chunks],
            "chunk_count": int(np.prod(grid, dtype=np.int64)) if chunks else 0,
            "filters": filters_of(dataset),
            "bytes": size,
            "stored_bytes": stored,
            "ratio": size / stored if stored else None,
            "zero_copy": store.reader(column.name).view is not None,
        }


def filters_of(dataset: h5py.Dataset) -> list[str]:
    """Names of a dataset's filters in order; an unknown one by its number."""
    plist = dataset.id.get_create_plist()
    numbers = [int(plist.get_filter(i)[0]) for i in range(plist.get_nfilters())]
    return [_FILTERS.get(number, str(number)) for number in numbers]


def _side(store: TrajectoryStore, name: str) -> dict[str, Any]:
    dataset = store.dataset(name)
    return {"name": name, "dtype": str(dataset.dtype), "shape": [int(n) for n in dataset.shape or ()]}
