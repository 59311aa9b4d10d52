"""New versions of a store: `compact` (one unfiltered run a column) and `extending` (more episodes).

A store is never changed in place: a new file takes its name.
What is not here: the writer itself (`writer`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core.errors import SchemaError
from trajpipe.store.codecs import codec_of_dataset
from trajpipe.store.columns import ColumnSpec, Compression
from trajpipe.store.reader import TrajectoryStore
from trajpipe.store.writer import TrajectoryStoreWriter

_BLOCK_BYTES: Final = 8 << 20


def compact(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    compression: Mapping[str, Compression | str] | None = None,
    fletcher32: bool = False,
    overwrite: bool = True,
) -> Path:
    """Write a store again with each column unfiltered in one aligned run, so that it can be mapped.

    A foreign file comes out with a manifest.

    Args:
        source: The store.
        target: The new file; may be the source's own path.
        compression: Column → another storage than `none`.
        fletcher32: Write checksums; such a file cannot be mapped.
        overwrite: False refuses an existing target.

    Returns:
        The target.
    """
    wanted = dict(compression or {})
    with TrajectoryStore(source) as store:
        unknown = sorted(set(wanted) - set(store.columns))
        if unknown:
            known = ", ".join(store.columns)
            raise SchemaError("compression is said of columns", place=source, got=unknown, expected=known)
        columns = [
            ColumnSpec(c.name, c.dtype, c.shape, compression=wanted.get(c.name, Compression.NONE))
            for c in store.columns.values()
        ]
        with _writer(store, Path(target), columns, fletcher32, overwrite) as writer:
            for name in store.columns:
                # one column after the other: its chunks follow each other in the file
                for rows in _blocks(store, name):
                    writer.append(name, rows)
                writer.finish_column(name)
            writer.end_episodes(store.ep_len)
            for name in store.side_tables:
                writer.add_side_table(name, store.side_table(name))
    return Path(target)


@contextmanager
def extending(
    path: str | os.PathLike[str],
    *,
    image_compression: Compression | str | None = None,
    keep_side_tables: bool = True,
) -> Iterator[TrajectoryStoreWriter]:
    """A writer that holds a store's episodes already; more rows make the file's next version at the end.

    Columns keep dtype and shape; task table, side tables and extra keys come along. An exception leaves the
    old version. A side table with a row per episode no longer fits once episodes were added: give the new
    one with `replace_side_table`.

    Args:
        path: The store; read while the new version is written.
        image_compression: Of image columns; None = as they are stored now, like all other columns.
        keep_side_tables: False drops them.

    Raises:
        SchemaError: at the end, when a table `ep_*` still has its old length.
    """
    with TrajectoryStore(path) as store:
        columns = [
            ColumnSpec(c.name, c.dtype, c.shape, compression=_next(store, c, image_compression))
            for c in store.columns.values()
        ]
        checksum = all(store.dataset(name).fletcher32 for name in store.columns)
        with _writer(store, Path(path), columns, checksum, True) as writer:
            for episode in range(store.n_episodes):
                start, stop = store.episodes.rows_of(episode)
                for name in store.columns:
                    for rows in _blocks(store, name, start, stop):
                        writer.append(name, rows)
                writer.end_episode()
            if keep_side_tables:
                for name in store.side_tables:
                    writer.add_side_table(name, store.side_table(name))
            yield writer
            writer.require_episode_tables()


def _next(
    store: TrajectoryStore, column: ColumnSpec, image_compression: Compression | str | None
) -> Compression | None:
    """How a column of the next version is stored: as now, where that is a storage that we write."""
    if column.is_image and image_compression is not None:
        return Compression(image_compression)
    found = codec_of_dataset(store.dataset(column.name), ignore_checksum=True)
    return None if found is None else found.compression


def _writer(
    store: TrajectoryStore,
    target: Path,
    columns: list[ColumnSpec],
    fletcher32: bool,
    overwrite: bool,
) -> TrajectoryStoreWriter:
    return TrajectoryStoreWriter(
        target,
        columns,
        env_id=store.env_id,
        seed=store.seed,
        source_commit=store.source_commit,
        tasks=store.tasks,
        extra=store.extra,
        fletcher32=fletcher32,
        overwrite=overwrite,
        expected_rows=store.n_rows,
    )


def _blocks(
    store: TrajectoryStore, name: str, start: int = 0, stop: int | None = None
) -> Iterator[NDArray[Any]]:
    """Rows [start, stop) of a column in blocks; the array is reused from block to block."""
    column, end = store.columns[name], store.n_rows if stop is None else stop
    step = max(1, _BLOCK_BYTES // column.row_bytes)
    buffer = np.empty((min(step, end - start), *column.shape), column.dtype)
    for a in range(start, end, step):
        b = min(end, a + step)
        yield store.read_range(name, a, b, out=buffer[: b - a])
