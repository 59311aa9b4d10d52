"""Writing image columns: deflate outside the HDF5 lock, in chunks that let it see the previous frames.

A frame is larger than deflate's 32 KiB window, so whole-frame chunks cannot use what did not move; strips of
16 frames of 16 rows can, and any HDF5 reads them.
What is not here: other columns, see `trajpipe.demos.writer`.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import product
from typing import Any, Final, Literal

import h5py
import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from trajpipe.core.episode import Column
from trajpipe.demos.content import ContentHash

ImageLayout = Literal["strips", "frames"]
STRIP_FRAMES: Final = 16
STRIP_ROWS: Final = 16
FRAMES_BUFFER_BYTES: Final = 48 << 20
THREADS: Final = 2
# isal's level 3 reaches zlib-1's ratio at twice its speed; its levels 1 and 2 lose repeats of noisy frames.
_LEVEL: Final = 3
# What the file's filter list says; readers need only "deflate".
_DECLARED_LEVEL: Final = 1

_Chunk = tuple[int, int, bytes]  # first frame, first row, deflated bytes


def chunk_shape(shape: tuple[int, ...], layout: ImageLayout) -> tuple[int, ...]:
    """Chunks of an image column.

    Args:
        shape: (T, H, W, C), T ≥ 1.
        layout: `strips` (16 frames of 16 rows) or `frames` (one whole frame).

    Returns:
        The chunk's shape. Strips of very large frames hold fewer than 16, so that a row of strips stays
        within `FRAMES_BUFFER_BYTES` of memory.
    """
    length, height, width, channels = shape
    if layout == "frames":
        return (1, height, width, channels)
    fitting = max(1, FRAMES_BUFFER_BYTES // max(1, height * width * channels))
    return (min(length, STRIP_FRAMES, fitting), min(height, STRIP_ROWS), width, channels)


class ImageWriter:
    """Compresses frames in two threads while the caller's thread reads the next ones.

    The bytes depend on the frames and on isal's version, not on the number of threads.
    """

    def __init__(self, layout: ImageLayout, *, fletcher32: bool) -> None:
        self._layout = layout
        self._fletcher32 = fletcher32
        self._pool: ThreadPoolExecutor | None = None

    def write(self, group: h5py.Group, path: str, column: Column, digest: ContentHash) -> None:
        """Write one image column, feeding its rows to the content hash.

        Args:
            group: The demo.
            path: Below the demo.
            column: uint8 (T, H, W, C), T ≥ 1.
            digest: Told of every block in order; `begin` was called.
        """
        chunks = chunk_shape(column.shape, self._layout)
        dataset = group.create_dataset(
            path,
            shape=column.shape,
            dtype=column.dtype,
            chunks=chunks,
            compression="gzip",
            compression_opts=_DECLARED_LEVEL,
            fletcher32=self._fletcher32,
        )
        # HDF5 puts its checksum behind the compressed bytes; only its own filters write that.
        if self._fletcher32:
            _write_filtered(dataset, column, digest)
        else:
            self._write_direct(dataset, column, digest)

    def _write_direct(self, dataset: h5py.Dataset, column: Column, digest: ContentHash) -> None:
        waiting: list[Future[list[_Chunk]]] = []
        for start, block in _blocks(column, dataset.chunks[0]):
            coming = self._compress(start, block, dataset.chunks)
            digest.rows(block)
            _store(dataset, waiting)
            waiting = coming
        _store(dataset, waiting)

    def _compress(
        self, start: int, block: NDArray[Any], chunks: tuple[int, ...]
    ) -> list[Future[list[_Chunk]]]:
        """Hand the block's chunks to the threads, an equal run of them to each."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="trajpipe-deflate")
        corners = list(product(range(0, block.shape[0], chunks[0]), range(0, block.shape[1], chunks[1])))
        step = -(-len(corners) // THREADS)
        runs = [corners[i : i + step] for i in range(0, len(corners), step)]
        return [self._pool.submit(_deflate, start, block, run, chunks) for run in runs]

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None


def _blocks(column: Column, frames: int) -> Iterator[tuple[int, NDArray[Any]]]:
    """(first frame, frames) of runs that hold whole chunks and fit the buffer."""
    fitting = max(1, FRAMES_BUFFER_BYTES // int(np.prod(column.shape[1:], dtype=np.int64)))
    step = frames * max(1, min(STRIP_FRAMES, fitting) // frames)
    for start in range(0, column.shape[0], step):
        yield start, column.read(start, min(start + step, column.shape[0]))


def _deflate(
    start: int, block: NDArray[Any], corners: list[tuple[int, int]], chunks: tuple[int, ...]
) -> list[_Chunk]:
    """Deflate the chunks at the given (frame, row) corners of a block; edge chunks are padded with zeros."""
    out = []
    for frame, row in corners:
        piece = block[frame : frame + chunks[0], row : row + chunks[1]]
        if piece.shape != chunks:
            padded = np.zeros(chunks, block.dtype)
            padded[: piece.shape[0], : piece.shape[1]] = piece
            piece = padded
        out.append((start + frame, row, isal_zlib.compress(np.ascontiguousarray(piece), _LEVEL)))
    return out


def _store(dataset: h5py.Dataset, waiting: list[Future[list[_Chunk]]]) -> None:
    for future in waiting:
        for frame, row, data in future.result():
            dataset.id.write_direct_chunk((frame, row, 0, 0), data)


def _write_filtered(dataset: h5py.Dataset, column: Column, digest: ContentHash) -> None:
    for start, block in _blocks(column, dataset.chunks[0]):
        digest.rows(block)
        dataset[start : start + block.shape[0]] = block
