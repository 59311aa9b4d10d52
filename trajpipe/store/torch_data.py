"""Torch datasets over a store: `RowDataset` (map-style) and `SampledDataset` (iterable, drawn by a sampler).

Both hold the store's path alone and open it in each process that reads, so they pickle small and are safe
under `DataLoader` workers, forked or spawned. This module imports torch; nothing else imports this module at
import time. What is not here: the samplers, and the store's reader.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core.errors import MissingExtraError, RowIndexError, UsageError
from trajpipe.store.reader import MAX_BYTES, TrajectoryStore
from trajpipe.store.residency import ResidentColumn
from trajpipe.store.samplers import IndexBatch, SequenceWindowSampler

try:
    import torch
    from torch.utils.data import Dataset, IterableDataset, get_worker_info
except ImportError as error:
    raise MissingExtraError("torch is not installed", hint="Run `pip install torch`.") from error

IS_FIRST: Final = "is_first"
WEIGHTS: Final = "weights"
INDEX: Final = "index"


class _PerProcess:
    """The store, opened by each process for itself."""

    def __init__(self, path: str | os.PathLike[str], columns: Sequence[str] | None) -> None:
        self.path = str(path)
        with TrajectoryStore(path) as store:
            self.columns = tuple(store.columns) if columns is None else tuple(columns)
            for name in self.columns:
                store.reader(name)
            self.n_rows = store.n_rows
        self._pid, self._store = 0, None

    @property
    def store(self) -> TrajectoryStore:
        """Open in this process."""
        if self._store is None or self._pid != os.getpid():
            self._store, self._pid = TrajectoryStore(self.path), os.getpid()  # type: ignore[assignment]  # None first
        return self._store  # type: ignore[return-value]  # opened above

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_store": None, "_pid": 0}


class RowDataset(Dataset):  # type: ignore[misc]  # torch is not typed here
    """Map-style: item i is row i, or the i-th window that lies in one episode.

    An item is a dict: column → tensor of shape (*shape), or (window, *shape). Rows come from the mapped file
    where a column can be mapped (`trajpipe.store.compact` makes such files), else from a slab read.

    Args:
        path: The store.
        columns: Their names; None = all.
        window: Rows of a window; None = single rows.
        transform: Applied to each item.

    Raises:
        UsageError: no window fits into any episode.
        MissingNameError: no such column.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        columns: Sequence[str] | None = None,
        *,
        window: int | None = None,
        transform: Callable[[dict[str, Any]], Any] | None = None,
    ) -> None:
        self._open = _PerProcess(path, columns)
        self.window, self.transform = window, transform
        self._starts: NDArray[np.int64] | None = None
        self._starts_pid = 0
        self._length = self._open.n_rows if window is None else self._count(window)

    def _count(self, window: int) -> int:
        if window < 1:
            raise UsageError("a window has at least one row", got=window)
        with TrajectoryStore(self._open.path) as store:
            count = int(np.maximum(store.ep_len - (window - 1), 0).sum())
            if not count:
                got = f"{window} rows, longest episode {int(store.ep_len.max())}"
                raise UsageError("a window fits into an episode", place=store.path, got=got)
        return count

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of an item."""
        return self._open.columns

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Any:
        start, count = self._rows_of(int(index))
        store, item = self._open.store, dict[str, Any]()
        for name in self.columns:
            rows = store.read_range(name, start, start + count)
            item[name] = torch.from_numpy(rows if self.window is not None else rows[0, ...])
        return item if self.transform is None else self.transform(item)

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Many items at once, as `DataLoader` asks for a batch."""
        return [self[i] for i in indices]

    def _rows_of(self, index: int) -> tuple[int, int]:
        if index < 0:
            index += self._length
        if not 0 <= index < self._length:
            raise RowIndexError("an item of the dataset", got=index, expected=f"[0, {self._length})")
        if self.window is None:
            return index, 1
        ends = self._window_ends(self.window)
        episode = int(np.searchsorted(ends, index, side="right"))
        within = index - (int(ends[episode - 1]) if episode else 0)
        return int(self._open.store.ep_offset[episode]) + within, self.window

    def _window_ends(self, window: int) -> NDArray[np.int64]:
        """Windows of all episodes up to each, counted in the process that needs them."""
        if self._starts is None:
            self._starts = np.cumsum(np.maximum(self._open.store.ep_len - (window - 1), 0))
        return self._starts

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_starts": None}


class SampledDataset(IterableDataset):  # type: ignore[misc]  # torch is not typed here
    """Iterable: whole batches, drawn by a sampler, gathered from memory.

    Under n workers, worker w yields the batches w, w + n, …: all workers draw the whole sequence and the
    loader hands out the batches in the sampler's own order, whatever the number of workers. Use it with
    `DataLoader(dataset, batch_size=None)`. Workers draw from copies of the sampler: before another pass
    call `dataset.sampler.reseed(…)`, or the pass repeats the one before.

    A batch is a dict: column → tensor (B, *shape), or (B, span + 1, *shape) for a `SequenceWindowSampler`;
    `index` (int64), and `is_first` and `weights` where the sampler gives them.

    Args:
        path: The store.
        sampler: Anything with `draw(batch) -> IndexBatch`, or a `SequenceWindowSampler`.
        batch_size: Rows (or windows) of a batch.
        columns: Names; None = all.
        batches: Batches of one pass; None = without end.
        max_bytes: Residency guard for each column; a mapped column takes no memory of its own.
        transform: Applied to each batch.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        sampler: Any,
        batch_size: int,
        columns: Sequence[str] | None = None,
        *,
        batches: int | None = None,
        max_bytes: int = MAX_BYTES,
        transform: Callable[[dict[str, Any]], Any] | None = None,
    ) -> None:
        if batch_size < 1:
            raise UsageError("a batch has at least one row", got=batch_size)
        self._open = _PerProcess(path, columns)
        self.sampler, self.batch_size, self.batches = sampler, int(batch_size), batches
        self.max_bytes, self.transform = max_bytes, transform
        self._resident: dict[str, ResidentColumn] = {}
        self._resident_pid = 0

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of a batch."""
        return self._open.columns

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
        number = 0
        while self.batches is None or number < self.batches:
            drawn = self._draw()
            if number % workers == worker:
                batch = self._gather(drawn)
                yield batch if self.transform is None else self.transform(batch)
            number += 1

    def _draw(self) -> IndexBatch:
        if not isinstance(self.sampler, SequenceWindowSampler):
            drawn: IndexBatch = self.sampler.draw(self.batch_size)
            return drawn
        episodes = self._open.store.episodes
        if self.sampler.within_episode:
            starts = self.sampler.draw_starts_in_episodes(episodes, self.batch_size)
        else:
            starts = self.sampler.draw_starts(self.batch_size)
        return self.sampler.expand_window(starts, episodes)

    def _gather(self, drawn: IndexBatch) -> dict[str, Any]:
        batch = {name: torch.from_numpy(self._column(name).gather(drawn)) for name in self.columns}
        batch[INDEX] = torch.from_numpy(drawn.rows)
        for key, values in ((IS_FIRST, drawn.is_first), (WEIGHTS, drawn.weights)):
            if values is not None:
                batch[key] = torch.from_numpy(values)
        return batch

    def _column(self, name: str) -> ResidentColumn:
        if self._resident_pid != os.getpid():
            self._resident, self._resident_pid = {}, os.getpid()
        if name not in self._resident:
            store = self._open.store
            self._resident[name] = ResidentColumn.load(store, name, max_bytes=self.max_bytes, copy=False)
        return self._resident[name]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_resident": {}, "_resident_pid": 0}


def torch_dataset(
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    *,
    window: int | None = None,
    sampler: Any = None,
    batch_size: int | None = None,
    **options: Any,
) -> RowDataset | SampledDataset:
    """A map-style dataset of rows or windows, or with a sampler an iterable one of batches.

    Args:
        path: The store.
        columns: Names; None = all.
        window: Rows of a window, for the map-style dataset.
        sampler: Makes the iterable dataset.
        batch_size: Of the sampler's batches.
        **options: Further options of `RowDataset` or `SampledDataset`.

    Raises:
        UsageError: a sampler without `batch_size`, or together with `window`.
    """
    if sampler is None:
        return RowDataset(Path(path), columns, window=window, **options)
    if batch_size is None or window is not None:
        raise UsageError(
            "a sampler draws batches",
            got=f"batch_size {batch_size}, window {window}",
            hint="Give batch_size; for windows use a SequenceWindowSampler.",
        )
    return SampledDataset(Path(path), sampler, batch_size, columns, **options)
