"""One column on its way to the disk: rows staged to whole chunks, each written past HDF5's slow paths.

A plain append costs calls, not bytes (resize 17 µs, slice write 60 to 100 µs); `set_extent` and
`write_direct_chunk` cost 2 and 5, and a staged row nothing.
What is not here: the file, episodes and the manifest (`writer`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any, Final

import h5py
import numpy as np
from numpy.typing import NDArray

from trajpipe.store.codecs import Codec, chunk_shape
from trajpipe.store.columns import ALIGNMENT, ColumnSpec, Compression

# fewer chunks than this would leave a worker idle while the caller waits
_LENT_CHUNKS: Final = 4


class OutputFile:
    """The HDF5 file being written, made when the first chunk is.

    Metadata in large blocks of its own keeps a column's chunks in one run; alignment lets them be mapped.

    Args:
        path: The file.
        metadata_bytes: Size of the metadata blocks.
        checksum: Use the v110 format, which checksums HDF5's own structures too.
    """

    def __init__(self, path: Path, metadata_bytes: int, *, checksum: bool) -> None:
        self._path, self._metadata_bytes, self._checksum = path, metadata_bytes, checksum
        self._file: h5py.File | None = None

    def open(self, metadata_bytes: int | None = None) -> h5py.File:
        """The open file; another metadata size counts only when it is not made yet."""
        if self._file is None:
            self._file = h5py.File(
                self._path,
                "w",
                libver=("v110", "v110") if self._checksum else ("earliest", "latest"),
                meta_block_size=metadata_bytes or self._metadata_bytes,
                alignment_threshold=4096,
                alignment_interval=ALIGNMENT,
            )
        return self._file

    def close(self) -> None:
        """Close it when it was made."""
        if self._file is not None:
            self._file.close()


class EncodeQueue:
    """Chunks being compressed by worker threads, written in the order in which they were handed in.

    The queue is drained by length alone, never by what is ready or by how many threads there are: the same
    input gives the same file.

    Args:
        threads: Worker threads; 0 compresses in the caller.
        depth: Chunks in flight before the oldest is waited for.
    """

    def __init__(self, threads: int = 2, depth: int = 3) -> None:
        self._pool = ThreadPoolExecutor(threads, "store-encode") if threads else None
        self._depth = depth
        self._flying: deque[tuple[Callable[[], list[bytes]], Callable[[list[bytes]], None]]] = deque()

    def put(self, encode: Callable[[], list[bytes]], write: Callable[[list[bytes]], None]) -> None:
        """Encode in a worker, write in the caller's thread once it is its turn."""
        self._flying.append((encode if self._pool is None else self._pool.submit(encode).result, write))
        while len(self._flying) > self._depth:
            self._take()

    def drain(self) -> None:
        """Write all that is in flight."""
        while self._flying:
            self._take()

    def _take(self) -> None:
        encoded, write = self._flying.popleft()
        write(encoded())

    def close(self) -> None:
        """Forget what is in flight and end the workers."""
        self._flying.clear()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)


class StagedColumn:
    """A column's rows, gathered to whole chunks.

    The dataset is made at the first full chunk, or at the end with a chunk that is no larger than the rows:
    a short recording makes a small file.

    Attributes:
        spec: The column.
        rows: Rows given so far.
        finished: True once the last chunk was written.
    """

    def __init__(
        self,
        output: OutputFile,
        spec: ColumnSpec,
        codec: Codec,
        *,
        n_columns: int,
        queue: EncodeQueue,
        checksum: bool,
    ) -> None:
        self.spec, self.codec, self.rows = spec, codec, 0
        self._output, self._queue, self._checksum = output, queue, checksum
        self._chunk = chunk_shape(spec, codec, n_columns)
        self._size = self._chunk[0]
        self._dataset: h5py.Dataset | None = None
        self._buffer: NDArray[Any] | None = None
        self._staged = 0
        self._written = 0
        self.finished = False
        # buffers that were compressed and can be filled again: fresh ones cost page faults
        self._spare: list[NDArray[Any]] = []

    def append(self, block: NDArray[Any]) -> None:
        """Stage rows; full chunks go out.

        Args:
            block: C-contiguous (n, *shape) of the column's dtype, as `ColumnSpec.rows_of` gives it.
        """
        count, staged, buffer = len(block), self._staged, self._buffer
        end, size = staged + count, self._size
        # one call an episode and column: the common case first, with as few steps as can be
        if end < size and buffer is not None:
            buffer[staged:end] = block
            self._staged = end
            self.rows += count
            return
        done = 0
        # enough chunks to keep the workers busy: compressed where they lie, and waited for before returning
        lent = count >= _LENT_CHUNKS * size
        while done < count:
            if self._staged == 0 and count - done >= size:
                self._put(block[done : done + size], lent=lent)
                done += size
            else:
                done += self._stage(block[done:])
        if lent:
            self._queue.drain()
        self.rows += count

    def _stage(self, block: NDArray[Any]) -> int:
        if self._buffer is None:
            self._buffer = self._fresh()
        count = min(len(block), len(self._buffer) - self._staged)
        self._buffer[self._staged : self._staged + count] = block[:count]
        self._staged += count
        if self._staged == len(self._buffer):
            full, self._staged = self._buffer, 0
            self._put(full)
        return count

    def _fresh(self) -> NDArray[Any]:
        if self._spare:
            return self._spare.pop()
        return np.empty((self._chunk[0], *self.spec.shape), self.spec.dtype)

    def finish(self) -> None:
        """Write the last, partial chunk and set the dataset's length to the rows; once."""
        if self.finished:
            return
        if self._dataset is None:
            self._chunk = (max(1, min(self._chunk[0], self.rows)), *self._chunk[1:])
        if self._staged and self._buffer is not None:
            tail = np.zeros((self._chunk[0], *self.spec.shape), self.spec.dtype)
            tail[: self._staged] = self._buffer[: self._staged]
            self._put(tail, extent=self.rows)
        self._buffer, self._staged, self.finished = None, 0, True
        self._spare.clear()
        self._open()

    def _open(self) -> h5py.Dataset:
        if self._dataset is None:
            options = self.codec.dataset_options
            if self._checksum:
                options = {**options, "fletcher32": True}
            self._dataset = self._output.open().create_dataset(
                self.spec.name,
                (0, *self.spec.shape),
                self.spec.dtype.newbyteorder("<"),
                chunks=self._chunk,
                maxshape=(None, *self.spec.shape),
                fill_time="never",
                **options,
            )
        return self._dataset

    def _put(self, chunk: NDArray[Any], *, lent: bool | None = None, extent: int | None = None) -> None:
        """Send a whole chunk out.

        Args:
            chunk: Rows of one chunk.
            lent: None = a buffer of this column's own; else the caller's memory: True = done with when the
                queue is drained, False = on return.
            extent: Rows of the dataset after it; None = all of the chunk's.
        """
        dataset, start = self._open(), self._written
        self._written = start + len(chunk) if extent is None else extent
        if self._checksum:
            # HDF5's own filters, so that its checksum is over exactly the bytes it stores
            dataset.id.set_extent((self._written, *self.spec.shape))
            dataset[start : self._written] = chunk[: self._written - start]
        elif self.codec.compression is Compression.NONE:
            dataset.id.set_extent((self._written, *self.spec.shape))
            dataset.id.write_direct_chunk((start, *[0] * len(self.spec.shape)), chunk)
        else:
            if lent is False:
                given, chunk = chunk, self._fresh()
                np.copyto(chunk, given)
            self._encode(dataset, chunk, start, own=not lent)

    def _encode(self, dataset: h5py.Dataset, chunk: NDArray[Any], start: int, *, own: bool) -> None:
        if chunk is self._buffer:
            self._buffer = None
        shape, extent, trailing = self._chunk, self._written, self.spec.shape
        codec = self.codec

        def encode() -> list[bytes]:
            return [codec.encode(_piece(chunk, corner, shape)) for corner in corners(trailing, shape)]

        def write(encoded: list[bytes]) -> None:
            dataset.id.set_extent((extent, *trailing))
            for corner, data in zip(corners(trailing, shape), encoded, strict=True):
                dataset.id.write_direct_chunk((start, *corner), data)
            if own:
                self._spare.append(chunk)

        self._queue.put(encode, write)


def corners(trailing: tuple[int, ...], chunk: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Trailing offsets of the chunks that cover one block of rows."""
    return list(product(*(range(0, n, step) for n, step in zip(trailing, chunk[1:], strict=True))))


def _piece(rows: NDArray[Any], corner: tuple[int, ...], chunk: tuple[int, ...]) -> NDArray[Any]:
    """The chunk at a corner of a block of rows, C-contiguous; zeros beyond the edge."""
    cut = rows[(slice(None), *(slice(o, o + n) for o, n in zip(corner, chunk[1:], strict=True)))]
    if cut.shape == chunk:
        return np.ascontiguousarray(cut)
    out = np.zeros(chunk, rows.dtype)
    out[tuple(slice(0, n) for n in cut.shape)] = cut
    return out
