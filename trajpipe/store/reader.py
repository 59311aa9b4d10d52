"""`TrajectoryStore`: opens a store, with a manifest or without one, and hands out its columns.

Everything that a store promises of itself is checked when it is opened.
What is not here: gathers by index (`residency`; there is deliberately none from disk), views for pandas and
pyarrow (`views`), torch datasets (`torch_data`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import h5py
import numpy as np
from numpy.typing import NDArray

from trajpipe.core.errors import MissingNameError, RowIndexError, SchemaError, UsageError
from trajpipe.hdf5.columns import require_written
from trajpipe.hdf5.files import open_hdf5
from trajpipe.store import layout
from trajpipe.store.column_reader import ColumnReader, MappedFile, reading
from trajpipe.store.columns import ColumnSpec
from trajpipe.store.episode_index import EpisodeIndex
from trajpipe.store.manifest import Manifest

if TYPE_CHECKING:
    import pandas as pd

MAX_BYTES: Final = 8 << 30


class TrajectoryStore:
    """One store, open for reading; a context manager; pickles as its path (reopened where it lands).

    Args:
        path: The `.h5` file.

    Raises:
        UnreadableError: not there, not HDF5, damaged.
        UntrustedError: the file leads out of itself.
        InputError: manifest, episode index and datasets do not fit together; says where.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._open()

    def _open(self) -> None:
        self._pid = os.getpid()
        self._stack = ExitStack()
        try:
            with reading(self.path):
                # the store reads chunks itself: HDF5's own cache would only hold copies
                self._file = self._stack.enter_context(open_hdf5(self.path, chunk_cache_bytes=0))
                self._bytes = MappedFile(self._file)
                self._stack.callback(self._bytes.close)
                self._layout = layout.layout_of(self._file, self.path.name)
        except BaseException:
            self._stack.close()
            raise
        self._readers: dict[str, ColumnReader] = {}
        self._columns = MappingProxyType({c.name: c for c in self._layout.manifest.columns})

    # --- what the store says of itself

    @property
    def manifest(self) -> Manifest:
        """As parsed; inferred for a file without one."""
        return self._layout.manifest

    @property
    def is_foreign(self) -> bool:
        """True when the file has no manifest."""
        return self._layout.foreign

    @property
    def columns(self) -> Mapping[str, ColumnSpec]:
        """Name → column, in file order."""
        return self._columns

    @property
    def n_rows(self) -> int:
        """Rows of every column."""
        return self._layout.manifest.n_rows

    @property
    def n_episodes(self) -> int:
        """Entries of the episode index."""
        return self._layout.manifest.n_episodes

    @property
    def episodes(self) -> EpisodeIndex:
        """The episode index."""
        return self._layout.episodes

    @property
    def ep_len(self) -> NDArray[np.int64]:
        """int64 (E,), read-only: rows of each episode."""
        return self._layout.episodes.ep_len

    @property
    def ep_offset(self) -> NDArray[np.int64]:
        """int64 (E,), read-only: first row of each episode."""
        return self._layout.episodes.ep_offset

    @property
    def env_id(self) -> str:
        """Environment name; empty when the file does not say."""
        return self._layout.manifest.env_id

    @property
    def seed(self) -> int:
        """Seed of the recording; 0 when the file does not say."""
        return self._layout.manifest.seed

    @property
    def source_commit(self) -> str:
        """Revision of the recording code; empty when the file does not say."""
        return self._layout.manifest.source_commit

    @property
    def tasks(self) -> tuple[str, ...]:
        """The task table; empty = the store records none."""
        return self._layout.manifest.tasks

    @property
    def extra(self) -> Mapping[str, str]:
        """Manifest keys beyond the grammar."""
        return self._layout.manifest.extra

    def task_text(self, index: int) -> str:
        """A task's text, byte-exact.

        Raises:
            MissingNameError: the store records no tasks, or none of that index.
        """
        tasks = self.tasks
        if not tasks:
            raise MissingNameError("the store records no tasks", place=self.path, got=index)
        if not 0 <= index < len(tasks):
            raise MissingNameError(
                "no such task", place=self.path, got=index, expected=f"0..{len(tasks) - 1}"
            )
        return tasks[int(index)]

    # --- side tables

    @property
    def side_tables(self) -> tuple[str, ...]:
        """Names of the datasets that are no columns, sorted; scalars of a foreign file among them."""
        return self._layout.side_tables

    def side_table(self, name: str, max_bytes: int = MAX_BYTES) -> NDArray[Any]:
        """A side table whole; fixed-width texts as `S`, variable ones as objects.

        Raises:
            MissingNameError: no such side table.
            UsageError: larger than `max_bytes`.
        """
        if name not in self.side_tables:
            known = ", ".join(self.side_tables) or "none"
            raise MissingNameError("no such side table", place=self.path, got=name, expected=known)
        self._reopen_after_fork()
        with reading(f"{self.path.name} · {name}"):
            dataset = self._file[name]
            size = int(dataset.size or 0) * int(dataset.dtype.itemsize)
            if size > max_bytes:
                raise UsageError(
                    "the side table is larger than max_bytes", place=name, got=size, expected=max_bytes
                )
            return np.asarray(dataset[()])

    def texts(self, name: str) -> list[str]:
        """A rank-1 side table of texts (`ep_file`, `source_tags`), decoded as UTF-8."""
        flat = self.side_table(name).ravel().tolist()
        return [t.decode("utf-8", "surrogateescape") if isinstance(t, bytes) else str(t) for t in flat]

    # --- rows

    def read_range(
        self, name: str, start: int, stop: int, *, out: NDArray[Any] | None = None
    ) -> NDArray[Any]:
        """Rows [start, stop) of a column: the contiguous slab.

        Args:
            name: Column.
            start: First row.
            stop: One past the last.
            out: Filled and returned when given: C-contiguous (stop - start, *shape) of the column's dtype.

        Raises:
            MissingNameError: no such column.
            RowIndexError: the rows lie outside.
            SchemaError: `out` does not fit.
            UnreadableError: the bytes are damaged.
        """
        reader = self._reader(name)
        if not 0 <= start <= stop <= self._layout.manifest.n_rows:
            got = f"[{start}, {stop})"
            raise RowIndexError(
                "rows of the store", place=name, got=got, expected=f"within [0, {self.n_rows})"
            )
        shape = (stop - start, *reader.trailing)
        if out is None:
            out = np.empty(shape, reader.dtype)
        elif out.shape != shape or out.dtype != reader.dtype or not out.flags.c_contiguous:
            raise SchemaError(
                "`out` is C-contiguous and fits the rows",
                place=name,
                got=f"{out.dtype} {out.shape}",
                expected=f"{reader.dtype} {shape}",
            )
        view = reader.view
        if view is not None and out.nbytes < _SMALL_BYTES:
            out[...] = view[start:stop]
        else:
            reader.read(start, stop, out)
        return out

    def load_column(
        self, name: str, max_bytes: int = MAX_BYTES, *, copy: bool = True, out: NDArray[Any] | None = None
    ) -> NDArray[Any]:
        """A whole column, (N, *shape).

        Args:
            name: Column.
            max_bytes: A larger column is refused.
            copy: False = a zero-copy read-only view of the file where the column is one aligned unfiltered
                run (`compact` makes such files), else a read-only copy.
            out: Filled and returned when given.

        Raises:
            UsageError: the column is larger than `max_bytes`.
            MissingNameError, SchemaError, UnreadableError: as in `read_range`.
        """
        reader = self._reader(name)
        if not copy and out is None and reader.view is not None:
            return reader.view
        column = self.columns[name]
        size = self.n_rows * column.row_bytes
        if size > max_bytes:
            raise UsageError(
                "the column is larger than max_bytes",
                place=f"{self.path.name} · {name}",
                got=f"{size:,} bytes",
                expected=f"≤ {max_bytes:,}",
                hint="Read it in parts with read_range(name, start, stop).",
            )
        rows = self.read_range(name, 0, self.n_rows, out=out)
        if not copy and out is None:
            rows.flags.writeable = False
        return rows

    def read_episode(self, name: str, episode: int) -> NDArray[Any]:
        """All rows of one episode of a column."""
        return self.read_range(name, *self.episodes.rows_of(episode))

    def reader(self, name: str) -> ColumnReader:
        """The column's low-level reader (chunk map, mapped view)."""
        return self._reader(name)

    def _reader(self, name: str) -> ColumnReader:
        if os.getpid() != self._pid:
            self._reopen_after_fork()
        found = self._readers.get(name)
        if found is None:
            column = self._columns.get(name)
            if column is None:
                known = ", ".join(self._columns)
                raise MissingNameError("no such column", place=self.path, got=name, expected=known)
            with reading(f"{self.path.name} · {name}"):
                require_written(self.dataset(name), partly=True)
                found = ColumnReader(self.dataset(name), self._bytes, column.dtype, column.shape)
            self._readers[name] = found
        return found

    def dataset(self, name: str) -> h5py.Dataset:
        """The open HDF5 dataset of a column, for its storage properties."""
        return self._file[name]

    # --- other forms

    def to_pandas(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Low-dimensional columns as a pandas frame, not copied where mapped; see `views.to_pandas`."""
        from trajpipe.store import views

        return views.to_pandas(self, columns)

    def to_arrow(self, columns: Sequence[str] | None = None) -> Any:
        """Low-dimensional columns as a pyarrow table, not copied where mapped; see `views.to_arrow`."""
        from trajpipe.store import views

        return views.to_arrow(self, columns)

    def episodes_to_pandas(self) -> pd.DataFrame:
        """The episodes table as a pandas frame: start, length, source, success, split, task, …."""
        from trajpipe.store import views

        return views.episodes_to_pandas(self)

    def episodes_to_arrow(self) -> Any:
        """The episodes table as a pyarrow table."""
        from trajpipe.store import views

        return views.episodes_to_arrow(self)

    def torch_dataset(self, columns: Sequence[str] | None = None, **options: Any) -> Any:
        """A torch dataset over this file; see `torch_data.torch_dataset`.

        Args:
            columns: Names; None = all.
            **options: `window=` for the map-style dataset, `sampler=` and `batch_size=` for the iterable one.

        Raises:
            MissingExtraError: torch is not installed.
        """
        from trajpipe.store import torch_data

        return torch_data.torch_dataset(self.path, columns, **options)

    # --- life

    def _reopen_after_fork(self) -> None:
        """A forked process must not share HDF5 state with its parent: it opens the file for itself."""
        if os.getpid() != self._pid:
            self._open()

    def close(self) -> None:
        """Close the file; views that were handed out stay valid. Safe to call twice."""
        self._readers = {}
        if os.getpid() == self._pid:
            self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[type[TrajectoryStore], tuple[str]]:
        return type(self), (str(self.path),)

    def __repr__(self) -> str:
        return f"TrajectoryStore({str(self.path)!r}, rows={self.n_rows}, episodes={self.n_episodes})"


# below this a slab is copied out of the mapped file; above, two threads read it past the page tables
_SMALL_BYTES: Final = 8 << 20
