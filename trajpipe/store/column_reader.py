"""Rows of one dataset by the fastest way that it allows: mapped, read past HDF5, or through HDF5.

What is not here: which datasets are columns, and what the store promises of them (`reader`).
"""

from __future__ import annotations

import mmap
import os
import threading
import weakref
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final

import h5py
import numpy as np
from numpy.typing import NDArray

from trajpipe.core.errors import TrajpipeError, UnreadableError
from trajpipe.store.chunkmap import ChunkMap, chunk_map
from trajpipe.store.codecs import unzstd_into
from trajpipe.store.columns import Compression

THREADS: Final = 2
_PIECE_BYTES: Final = 4 << 20
_THREAD = threading.local()
# what h5py raises on a damaged file, beside OSError
_H5PY_ERRORS: Final = (OSError, RuntimeError, ValueError, KeyError, TypeError, OverflowError, MemoryError)


@contextmanager
def reading(place: object) -> Iterator[None]:
    """Turn what h5py raises on a damaged file into one clear error.

    Raises:
        UnreadableError: the block raised such an error.
    """
    try:
        yield
    except TrajpipeError as error:
        error.place = place if error.place is None else error.place
        raise
    except _H5PY_ERRORS as error:
        got = f"{type(error).__name__}: {error}"
        raise UnreadableError(
            "stored bytes cannot be read", place=place, got=got, code="broken-chunk"
        ) from error


class MappedFile:
    """The open file as plain bytes: by position (`preadv`) or mapped.

    Args:
        handle: The HDF5 file; its own descriptor is duplicated, so that a file renamed over the path
            meanwhile cannot be mixed up with this one.
    """

    def __init__(self, handle: h5py.File) -> None:
        self.fd = os.dup(handle.id.get_vfd_handle())
        self._close = weakref.finalize(self, os.close, self.fd)
        self.size = os.fstat(self.fd).st_size
        self._bytes: NDArray[np.uint8] | None = None

    @property
    def bytes(self) -> NDArray[np.uint8]:
        """The whole file, a read-only uint8 view; it outlives this object."""
        if self._bytes is None:
            self._bytes = np.frombuffer(mmap.mmap(self.fd, self.size, access=mmap.ACCESS_READ), np.uint8)
        return self._bytes

    def read_into(self, target: NDArray[np.uint8], offset: int) -> None:
        """Fill `target` with the bytes from `offset` on.

        Raises:
            UnreadableError: the file ends before.
        """
        view, done = target.data, 0
        while done < len(view):
            count = os.preadv(self.fd, [view[done:]], offset + done)
            if count == 0:
                raise UnreadableError("the file is truncated", got=f"{offset + done} bytes", code="truncated")
            done += count

    def close(self) -> None:
        """Give the descriptor back; mapped views stay valid. Safe to call twice."""
        self._close()


def in_threads(work: Callable[[Any], None], items: Iterable[Any]) -> None:
    """Do `work` on all items, split over two threads; a single item runs in the caller."""
    todo = list(items)
    if len(todo) < THREADS:
        for item in todo:
            work(item)
        return
    half = -(-len(todo) // THREADS)

    def some(part: list[Any]) -> None:
        for item in part:
            work(item)

    first = _pool().submit(some, todo[half:])
    try:
        some(todo[:half])
    finally:
        first.result()


def _pool() -> ThreadPoolExecutor:
    """This process's pool, made when first needed."""
    with _SHARED.lock:
        if _SHARED.pool is None:
            _SHARED.pool = ThreadPoolExecutor(THREADS - 1, "store-read")
        return _SHARED.pool


class _Shared:
    """What all readers of a process share; a forked child starts anew: its pool has no threads."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        self.lock = threading.Lock()
        self.pool: ThreadPoolExecutor | None = None


_SHARED: Final = _Shared()
os.register_at_fork(after_in_child=_SHARED.renew)


class ColumnReader:
    """Rows of one dataset, in its own trailing shape.

    Args:
        dataset: Open dataset of rank ≥ 1.
        file: Its file as bytes.
        dtype: Native dtype of the values handed out.
        trailing: Trailing shape of the rows handed out; the dataset's own may be flattened.
    """

    def __init__(
        self, dataset: h5py.Dataset, file: MappedFile, dtype: np.dtype[Any], trailing: tuple[int, ...]
    ) -> None:
        self.dataset, self.dtype, self.trailing = dataset, dtype, trailing
        self.place = f"{os.path.basename(dataset.file.filename)} · {dataset.name[1:]}"  # noqa: PTH119
        self._file = file
        self._map: ChunkMap | None = None
        self._map_known = False
        self._view: NDArray[Any] | None = None
        self._view_known = False
        self._runs: list[tuple[int, int, int]] | None = None
        self._last: tuple[int, NDArray[Any]] | None = None

    @property
    def map(self) -> ChunkMap | None:
        """The chunk map, walked once when first needed; None when only HDF5 can read the dataset."""
        if not self._map_known:
            with reading(self.place):
                self._map = chunk_map(self.dataset, self._file.size)
            self._map_known = True
        return self._map

    @property
    def view(self) -> NDArray[Any] | None:
        """All rows as a read-only view of the mapped file; None unless they are one aligned plain run."""
        if not self._view_known:
            self._view, self._view_known = self._mapped(), True
        return self._view

    def _mapped(self) -> NDArray[Any] | None:
        found = self.map
        if found is None or not found.is_plain:
            return None
        runs = found.runs()
        if len(runs) != 1 or runs[0][1] % found.dtype.alignment:
            return None
        count, offset = found.shape[0] * found.row_bytes, runs[0][1]
        if offset + count > self._file.size:
            raise UnreadableError("the file is truncated", place=self.place, code="truncated")
        rows = self._file.bytes[offset : offset + count].view(self.dtype)
        return rows.reshape(found.shape[0], *self.trailing)

    def read(self, start: int, stop: int, out: NDArray[Any]) -> None:
        """Read rows [start, stop) into `out`.

        Args:
            start: First row, checked by the caller.
            stop: One past the last.
            out: C-contiguous (stop - start, *trailing) of this dtype.

        Raises:
            UnreadableError: damaged bytes.
        """
        if start == stop:
            return
        found = self.map
        if found is None:
            self._read_hdf5(start, stop, out)
        elif found.is_plain:
            self._read_plain(found, start, stop, out)
        else:
            self._read_encoded(found, start, stop, out)

    def _read_hdf5(self, start: int, stop: int, out: NDArray[Any]) -> None:
        with reading(f"{self.place} · row {start}"):
            rows = self.dataset[start:stop]
            out[...] = np.asarray(rows).reshape(out.shape)

    def _read_plain(self, found: ChunkMap, start: int, stop: int, out: NDArray[Any]) -> None:
        width, target = found.row_bytes, out.reshape(-1).view(np.uint8)
        pieces: list[tuple[int, int, int]] = []
        if self._runs is None:
            self._runs = found.runs()
        begin = bisect_right(self._runs, start, key=lambda run: run[0]) - 1
        end_of_runs = bisect_left(self._runs, stop, key=lambda run: run[0])
        for row, offset, count in self._runs[begin:end_of_runs]:
            first, last = max(start, row), min(stop, row + count)
            at, end = offset + (first - row) * width, offset + (last - row) * width
            for a in range(at, end, _PIECE_BYTES):
                pieces.append(((first - start) * width + a - at, a, min(_PIECE_BYTES, end - a)))  # noqa: PERF401

        def fetch(piece: tuple[int, int, int]) -> None:
            to, at, size = piece
            self._file.read_into(target[to : to + size], at)

        with reading(self.place):
            in_threads(fetch, pieces)

    def _read_encoded(self, found: ChunkMap, start: int, stop: int, out: NDArray[Any]) -> None:
        rows = found.corners[:, 0]
        low = int(np.searchsorted(rows, start - start % found.chunk[0], side="left"))
        high = int(np.searchsorted(rows, stop, side="left"))
        target = out.reshape(stop - start, *found.shape[1:])

        whole_rows = found.chunk[1:] == found.shape[1:] and found.codec.compression is Compression.ZSTD

        def fetch(number: int) -> None:
            row = int(rows[number]) - start
            if whole_rows and row >= 0 and row + found.chunk[0] <= len(target):
                into = target[row : row + found.chunk[0]].reshape(-1).view(np.uint8)
                unzstd_into(self._stored(found, number).data, into.data)
            else:
                _place(self._chunk(found, number), found, number, start, target)

        with reading(self.place):
            in_threads(fetch, range(low, high))

    def _stored(self, found: ChunkMap, number: int) -> NDArray[np.uint8]:
        """A chunk as it lies in the file, in this thread's scratch buffer."""
        stored = _scratch(int(found.sizes[number]))
        self._file.read_into(stored, int(found.offsets[number]))
        return stored

    def _chunk(self, found: ChunkMap, number: int) -> NDArray[Any]:
        """A decoded chunk; the last one is kept, so that frame-by-frame reading decodes each chunk once."""
        last = self._last
        if last is not None and last[0] == number:
            return last[1]
        stored = self._stored(found, number)
        if found.codec.compression is Compression.NONE:
            raw: bytes | NDArray[np.uint8] = stored.copy()
        else:
            raw = found.codec.decode(stored.data, found.chunk_bytes)
        chunk = np.frombuffer(raw, self.dtype).reshape(found.chunk)
        self._last = (number, chunk)
        return chunk


def _scratch(size: int) -> NDArray[np.uint8]:
    """This thread's buffer for stored bytes: a fresh one a chunk costs more in page faults than the read."""
    buffer: NDArray[np.uint8] | None = getattr(_THREAD, "stored", None)
    if buffer is None or len(buffer) < size:
        buffer = _THREAD.stored = np.empty(max(size, 1 << 20), np.uint8)
    return buffer[:size]


def _place(chunk: NDArray[Any], found: ChunkMap, number: int, start: int, target: NDArray[Any]) -> None:
    """Copy the part of a chunk that lies in the target's rows."""
    corner = found.corners[number]
    row = int(corner[0])
    first, last = max(start, row), min(start + len(target), row + found.chunk[0], found.shape[0])
    to: list[slice] = [slice(first - start, last - start)]
    of: list[slice] = [slice(first - row, last - row)]
    for begin, size, limit in zip(corner[1:].tolist(), found.chunk[1:], found.shape[1:], strict=True):
        end = min(begin + size, limit)
        to.append(slice(begin, end))
        of.append(slice(0, end - begin))
    target[tuple(to)] = chunk[tuple(of)]
