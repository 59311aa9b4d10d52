"""`TrajectoryStoreWriter`: rows in, one whole HDF5 file out, or nothing.

Memory is one chunk a column (and the few chunks being compressed), whatever the length of the recording.
What is not here: how one column is staged (`staging`), the manifest's text (`manifest`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trajpipe.core import atomic, names
from trajpipe.core.errors import (
    DTypeError,
    InputError,
    MissingNameError,
    OutputExistsError,
    SchemaError,
    StateError,
    UsageError,
)
from trajpipe.store.codecs import Codec, chunk_shape, codec_of
from trajpipe.store.columns import ColumnSpec, Compression
from trajpipe.store.manifest import Manifest, check_tasks, extra_key, one_line, to_bytes
from trajpipe.store.staging import EncodeQueue, OutputFile, StagedColumn, corners

_INDEX_BYTES: Final = 16
_SLACK_BYTES: Final = 4 << 20
_META_BYTES: Final = 1 << 20
_SMALL_META_BYTES: Final = 4096
# a half-full B-tree node's share, with room: keys grow with the rank
_META_BYTES_A_CHUNK: Final = 256


class TrajectoryStoreWriter:
    """Writes a trajectory store beside its target and renames it there at `close()`.

    As a context manager it closes at the end of the block; an exception aborts and leaves nothing behind.

    Args:
        path: Target `.h5` file.
        columns: At least one; their order is the manifest's.
        env_id: Environment name, one line.
        seed: Seed of the recording.
        source_commit: Revision of the recording code, one line.
        tasks: Language instructions; more may come by `add_task`.
        extra: Manifest keys of our own (`package`, …): one-line texts.
        image_compression: For image columns that declare none: `zstd` (default), `deflate` in strips (opens
            without a plugin), `shuffle-deflate`, `none`.
        expected_rows: When known, free disk space is checked before the first row.
        fletcher32: A checksum on every chunk, and a file format whose own structure is checksummed.
        overwrite: False refuses an existing target.
        durable: False skips the fsync at `close()`, for scratch files.
        threads: Threads that compress; 0 = none.

    Raises:
        SchemaError: no column, or two of one name.
        InputError: a text cannot stand in the manifest.
        DiskSpaceError: `expected_rows` do not fit.
        OutputExistsError: the target exists and `overwrite` is False.
    """

    def __init__(  # noqa: PLR0913 (keyword-only options of a file format)
        self,
        path: str | os.PathLike[str],
        columns: Iterable[ColumnSpec],
        *,
        env_id: str = "",
        seed: int = 0,
        source_commit: str = "",
        tasks: Iterable[str] = (),
        extra: Mapping[str, str] | None = None,
        image_compression: Compression | str = Compression.ZSTD,
        expected_rows: int | None = None,
        fletcher32: bool = False,
        overwrite: bool = True,
        durable: bool = True,
        threads: int = 2,
    ) -> None:
        self.path = Path(path)
        self.columns = _distinct(columns)
        self._texts = (one_line("env_id", env_id), int(seed), one_line("source_commit", source_commit))
        self._tasks = list(check_tasks(tasks))
        self._task_index = {text: i for i, text in reversed(list(enumerate(self._tasks)))}
        self._extra = {extra_key(k): one_line(k, v) for k, v in (extra or {}).items()}
        self._side: dict[str, NDArray[Any]] = {}
        self._lengths: list[int] = []
        self._in_episodes, self._open = 0, True
        self._overwrite, self._durable, self._checksum = overwrite, durable, fletcher32
        self._refuse_existing()
        self._require_space(expected_rows)
        self._start(Compression(image_compression), threads, expected_rows)

    def _refuse_existing(self) -> None:
        if not self._overwrite and self.path.exists():
            raise OutputExistsError("the output exists", place=self.path, hint="Pass overwrite=True.")

    def _require_space(self, rows: int | None) -> None:
        if rows is not None:
            width = sum(c.row_bytes for c in self.columns) + _INDEX_BYTES
            atomic.require_space(self.path.parent, rows * width + _SLACK_BYTES, what=f"{rows:,} rows")

    def _start(self, image_compression: Compression, threads: int, rows: int | None) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            rule = "the output lies below a file"
            raise UsageError(rule, got=self.path, expected="folders above it") from error
        self._temporary = atomic.temporary_beside(self.path)
        # not made here: truncating a file that exists makes ext4 flush it when it is closed
        codecs = {c.name: codec_of(c, image_compression) for c in self.columns}
        self._output = OutputFile(
            self._temporary, self._metadata_bytes(rows, codecs), checksum=self._checksum
        )
        compressed = any(c.compression is not Compression.NONE for c in codecs.values())
        self._queue = EncodeQueue(threads if compressed and not self._checksum else 0)
        self._staged = {
            c.name: StagedColumn(
                self._output,
                c,
                codecs[c.name],
                n_columns=len(self.columns),
                queue=self._queue,
                checksum=self._checksum,
            )
            for c in self.columns
        }

    def _metadata_bytes(self, rows: int | None, codecs: Mapping[str, Codec]) -> int:
        """Size of HDF5's metadata blocks: what the chunk indices take; 1 MiB when the rows are unknown."""
        if rows is None:
            return _META_BYTES
        shapes = {c.name: chunk_shape(c, codecs[c.name], len(self.columns)) for c in self.columns}
        chunks = sum(
            -(-rows // shapes[c.name][0]) * len(corners(c.shape, shapes[c.name])) for c in self.columns
        )
        return _SMALL_META_BYTES * (4 + chunks * _META_BYTES_A_CHUNK // _SMALL_META_BYTES)

    @property
    def n_rows(self) -> int:
        """Rows inside finished episodes."""
        return self._in_episodes

    @property
    def n_episodes(self) -> int:
        """Finished episodes."""
        return len(self._lengths)

    def append(
        self, name: str | None = None, array: ArrayLike | None = None, /, **columns: ArrayLike
    ) -> None:
        """Add rows: `append("action", rows)` to one column, `append(action=…, qpos=…)` a block of all.

        Nothing is staged unless everything given fits.

        Raises:
            StateError: the writer is closed.
            DTypeError, SchemaError: not the declared dtype or trailing shape; in a block, a column is
                missing or the row counts differ.
            MissingNameError: no such column.
        """
        # one call an episode and column: the common case first, with as few steps as can be
        column = self._staged.get(name)  # type: ignore[arg-type]  # None is no column's name
        if column is not None and array is not None and self._open and not (columns or column.finished):
            rows = column.spec.rows_of(array)
            try:
                column.append(rows)
            except BaseException:
                # rows that were staged in part cannot be taken back
                self.abort()
                raise
            return
        self._require_open()
        if name is not None:
            self._require_unfinished(self._column(name))
            raise SchemaError("append takes one column and its rows, or a block of all columns", place=name)
        missing = [c.name for c in self.columns if c.name not in columns]
        if missing:
            raise SchemaError("a block has every column", place=self.path, got=f"no {missing[0]!r}")
        self._append({k: np.asarray(v) for k, v in columns.items()}, in_step=True)

    def _append(self, arrays: Mapping[str, NDArray[Any]], *, in_step: bool = False) -> None:
        blocks = {name: self._column(name).spec.rows_of(array) for name, array in arrays.items()}
        for name in blocks:
            self._require_unfinished(self._staged[name])
        counts = {name: len(block) for name, block in blocks.items()}
        if in_step and len(set(counts.values())) > 1:
            low, high = min(counts, key=counts.__getitem__), max(counts, key=counts.__getitem__)
            raise SchemaError(
                "the columns of a block have one row count",
                place=self.path,
                got=f"{low!r} {counts[low]}, {high!r} {counts[high]}",
            )
        with self._aborting():
            for name, block in blocks.items():
                self._staged[name].append(block)

    def _column(self, name: str) -> StagedColumn:
        found = self._staged.get(name)
        if found is None:
            known = ", ".join(self._staged)
            raise MissingNameError("no such column", place=self.path, got=name, expected=known)
        return found

    def _require_unfinished(self, column: StagedColumn) -> None:
        if column.finished:
            place = f"{self.path} · {column.spec.name}"
            raise StateError("a finished column takes no more rows", place=place)

    def end_episode(self) -> int:
        """End the episode of the rows appended since the last one.

        Returns:
            Its length, rows.

        Raises:
            StateError: the columns' counts differ, or there are no rows.
        """
        self._require_open()
        rows = self._rows_in_step()
        length = rows - self._in_episodes
        if length == 0:
            raise StateError("an episode has at least one row", place=self.path, got="no rows since the last")
        self._lengths.append(length)
        self._in_episodes = rows
        return length

    def end_episodes(self, lengths: ArrayLike) -> None:
        """End many episodes at once: their rows were all appended, column by column.

        Args:
            lengths: Rows of each, integers (E,).

        Raises:
            StateError: a length below 1, or they are not the rows since the last episode's end.
        """
        self._require_open()
        counts = [int(n) for n in np.asarray(lengths).reshape(-1).tolist()]
        pending = self._rows_in_step() - self._in_episodes
        if sum(counts) != pending or (counts and min(counts) < 1):
            raise StateError(
                "episode lengths are positive and add up to the rows appended",
                place=self.path,
                got=f"{sum(counts)} rows in {len(counts)} episodes",
                expected=f"{pending} rows",
            )
        self._lengths.extend(counts)
        self._in_episodes += pending

    def _rows_in_step(self) -> int:
        columns = self._staged.values()
        first = next(iter(columns)).rows
        # one plain loop: this runs for every episode
        for column in columns:
            if column.rows != first:
                break
        else:
            return first
        counts = {name: column.rows for name, column in self._staged.items()}
        low, high = min(counts, key=counts.__getitem__), max(counts, key=counts.__getitem__)
        raise StateError(
            "columns are appended in step",
            place=self.path,
            got=f"{low!r} has {counts[low]} rows, {high!r} has {counts[high]}",
            hint=f"Append the missing rows to {low!r}.",
        )

    def add_task(self, text: str) -> int:
        """Index of a task's text in the table; a new text is added."""
        self._require_open()
        if text not in self._task_index:
            check_tasks([text])
            self._task_index[text] = len(self._tasks)
            self._tasks.append(text)
        return self._task_index[text]

    def add_side_table(self, name: str, table: ArrayLike) -> None:
        """Keep an array beside the columns (`norm_qpos_mean`, `ep_source`, …), of any dtype and shape.

        Texts become fixed-width UTF-8 (`S`); trailing NUL characters cannot be kept there and are refused.

        Raises:
            SchemaError: the name is a column's, the format's own or taken.
            DTypeError: an object array that is not text, or a dtype that HDF5 has not.
        """
        self._require_open()
        if name in self._staged or name in self._side or name in names.STORE_RESERVED:
            raise SchemaError("a side table has a name of its own", place=self.path, got=name)
        ColumnSpec(name, np.uint8)
        self._side[name] = _table(name, _array(table))

    def finish_column(self, name: str) -> None:
        """Say that a column has all its rows: its last chunk is written now, before other columns' chunks.

        A column that was written alone and finished lies in the file in one run and can be mapped.
        """
        self._require_open()
        column = self._column(name)
        with self._aborting():
            column.finish()

    def replace_side_table(self, name: str, table: ArrayLike) -> None:
        """Put another array in a side table's place, or add it."""
        self._side.pop(name, None)
        self.add_side_table(name, table)

    def require_episode_tables(self) -> None:
        """Check that every side table `ep_*` has a row per episode.

        Raises:
            SchemaError: one has not.
        """
        for name, table in self._side.items():
            if name.startswith("ep_") and table.shape[:1] != (self.n_episodes,):
                raise SchemaError(
                    "a side table `ep_*` has one row per episode",
                    place=f"{self.path} · {name}",
                    got=table.shape,
                    expected=f"({self.n_episodes}, …)",
                    hint="Give it anew with replace_side_table().",
                )

    def set_extra(self, key: str, value: str) -> None:
        """Set a manifest key of our own; it is written after the task lines."""
        self._require_open()
        self._extra[extra_key(key)] = one_line(key, value)

    def close(self) -> Path:
        """Check, finish, fsync and rename the file to its target.

        When a rule is broken the writer stays open: mend it and close again, or `abort()`.

        Raises:
            StateError: no episode, rows outside an episode, uneven columns.
            OutputExistsError: the target appeared meanwhile and `overwrite` is False.
        """
        self._require_open()
        rows = self._rows_in_step()
        if rows != self._in_episodes:
            raise StateError(
                "every row belongs to an episode",
                place=self.path,
                got=f"{rows - self._in_episodes} rows after the last episode's end",
                hint="Call end_episode(), or abort().",
            )
        if not self._lengths:
            raise StateError("a store has at least one episode", place=self.path)
        self._refuse_existing()
        with self._aborting():
            self._finish()
            self._publish()
        return self.path

    def _finish(self) -> None:
        # nothing was written yet: a recording this short needs no large blocks
        self._output.open(_SMALL_META_BYTES)
        for column in self._staged.values():
            column.finish()
        self._queue.drain()
        self._queue.close()
        lengths = np.asarray(self._lengths, np.int64)
        offsets = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)
        self._dataset(names.STORE_EP_LEN, lengths)
        self._dataset(names.STORE_EP_OFFSET, offsets)
        for name, table in self._side.items():
            self._dataset(name, table)
        env_id, seed, commit = self._texts
        manifest = Manifest(
            columns=self.columns,
            n_rows=self._in_episodes,
            n_episodes=len(lengths),
            env_id=env_id,
            seed=seed,
            source_commit=commit,
            tasks=tuple(self._tasks),
            extra=self._extra,
        )
        self._dataset(names.STORE_MANIFEST, np.frombuffer(manifest.encode(), np.uint8))
        self._output.close()

    def _dataset(self, name: str, array: NDArray[Any]) -> None:
        """A dataset written whole; chunked only where a checksum needs it."""
        summed = self._checksum and array.ndim > 0 and array.size > 0
        options: dict[str, Any] = {"fletcher32": True, "chunks": array.shape} if summed else {}
        self._output.open().create_dataset(name, data=array, track_times=False, **options)

    def _publish(self) -> None:
        if self._durable:
            atomic.publish_file(self._temporary, self.path)
        else:
            self._temporary.replace(self.path)
        self._open = False

    def abort(self) -> None:
        """Drop everything: the target stays as it was and no temporary is left. Safe to call twice."""
        if not self._open:
            return
        self._open = False
        self._queue.close()
        # a file that failed half-way (disk full) may fail once more on its way out; it is deleted anyway
        with suppress(OSError, RuntimeError, ValueError):
            self._output.close()
        atomic.remove(self._temporary)

    def _aborting(self) -> _AbortOnError:
        return _AbortOnError(self)

    def _require_open(self) -> None:
        if not self._open:
            raise StateError("the writer is open", place=self.path, got="closed or aborted")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._open:
            return
        try:
            if kind is None:
                self.close()
        finally:
            self.abort()

    def __del__(self) -> None:
        if getattr(self, "_open", False) and hasattr(self, "_temporary") and hasattr(self, "_output"):
            self.abort()


class _AbortOnError:
    """Rows that were staged in part cannot be taken back: a failure there ends the writer."""

    def __init__(self, writer: TrajectoryStoreWriter) -> None:
        self._writer = writer

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._writer.abort()


def _distinct(columns: Iterable[ColumnSpec]) -> tuple[ColumnSpec, ...]:
    out = tuple(columns)
    found = [c.name for c in out]
    if not out or len(set(found)) != len(found):
        raise SchemaError("a store has columns, each name once", got=", ".join(found) or "none")
    return out


def _array(table: ArrayLike) -> NDArray[Any]:
    """An array of anything; texts stay objects, since numpy's own text dtypes drop trailing NULs."""
    array = np.asarray(table)
    texts = array.dtype.kind in "US" and not isinstance(table, np.ndarray)
    return np.array(table, dtype=object) if texts else array


def _table(name: str, array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.kind in "UO":
        texts = [_text(name, item) for item in array.ravel().tolist()]
        width = max([1, *(len(t) for t in texts)])
        return np.asarray(texts, f"S{width}").reshape(array.shape)
    if array.dtype.kind not in "buifcS":
        raise DTypeError("a side table is numbers or text", place=name, got=array.dtype)
    return np.array(array)


def _text(name: str, item: object) -> bytes:
    if not isinstance(item, (str, bytes)):
        raise DTypeError("a side table is numbers or text", place=name, got=type(item).__name__)
    data = to_bytes(item) if isinstance(item, str) else item
    if data.endswith(b"\0"):
        raise InputError("fixed-width text cannot keep a trailing NUL", place=name, got=repr(item))
    return data
