"""Where a dataset's chunks lie in the file: one index walk, then the bytes are read without HDF5.

What is not here: who asks for rows (`column_reader`), and how a chunk is decoded (`codecs`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import h5py
import numpy as np
from numpy.typing import NDArray

from trajpipe.core.errors import UnreadableError
from trajpipe.store.codecs import Codec, codec_of_dataset
from trajpipe.store.columns import Compression

# beyond this the walk itself (1-2 µs a chunk) costs more than it saves: HDF5 reads such a dataset
MAX_CHUNKS: Final = 400_000


@dataclass(frozen=True, slots=True, eq=False)
class ChunkMap:
    """All chunks of one dataset, in row order.

    Attributes:
        shape: Of the dataset.
        dtype: Of the stored values, little-endian or single bytes.
        chunk: Shape of a chunk; for a contiguous dataset the dataset's own.
        codec: What was done to each chunk.
        corners: int64 (chunks, rank): first index of each chunk.
        offsets: int64 (chunks,): byte offset in the file.
        sizes: int64 (chunks,): stored bytes.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunk: tuple[int, ...]
    codec: Codec
    corners: NDArray[np.int64]
    offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @property
    def row_bytes(self) -> int:
        """Bytes of a row, uncompressed."""
        return int(np.prod(self.shape[1:], dtype=np.int64)) * self.dtype.itemsize

    @property
    def chunk_bytes(self) -> int:
        """Bytes of a whole chunk, uncompressed."""
        return int(np.prod(self.chunk, dtype=np.int64)) * self.dtype.itemsize

    @property
    def is_plain(self) -> bool:
        """Unfiltered chunks of whole rows: rows can be read or mapped as they lie."""
        return self.codec.compression is Compression.NONE and self.chunk[1:] == self.shape[1:]

    def runs(self) -> list[tuple[int, int, int]]:
        """Stretches of rows that lie back to back in the file: (first row, byte offset, rows).

        For plain maps only.
        """
        if not len(self.offsets):
            return []
        breaks = np.flatnonzero(np.diff(self.offsets) != self.chunk_bytes) + 1
        starts = np.concatenate([[0], breaks])
        rows = self.corners[starts, 0]
        ends = np.concatenate([rows[1:], [self.shape[0]]])
        return [
            (int(row), int(offset), int(end - row))
            for row, offset, end in zip(rows, self.offsets[starts], ends, strict=True)
        ]


def chunk_map(dataset: h5py.Dataset, file_size: int) -> ChunkMap | None:
    """The map of a dataset; None when only HDF5 can read it.

    That is: another filter or byte order, chunks that were never written, a user block, too many chunks.

    Args:
        dataset: Open dataset of rank ≥ 1 with rows.
        file_size: Size of the file, bytes.

    Raises:
        UnreadableError: a chunk lies outside the file.
    """
    kind = _stored_dtype(dataset)
    codec = codec_of_dataset(dataset)
    if kind is None or codec is None or dataset.file.userblock_size or 0 in dataset.shape:
        return None
    if dataset.chunks is None:
        return _contiguous(dataset, kind, codec, file_size)
    grid = [-(-n // c) for n, c in zip(dataset.shape, dataset.chunks, strict=True)]
    expected = int(np.prod(grid, dtype=np.int64))
    if expected > MAX_CHUNKS:
        return None
    table = _walk(dataset, expected)
    if table is None:
        return None
    corners, offsets, sizes = table
    found = ChunkMap(tuple(dataset.shape), kind, tuple(dataset.chunks), codec, corners, offsets, sizes)
    _check(found, dataset, file_size, expected)
    return found


def _stored_dtype(dataset: h5py.Dataset) -> np.dtype[Any] | None:
    """Little-endian numbers as they are, HDF5's one-byte bool as uint8; None for the rest."""
    kind = np.dtype(dataset.dtype)
    if kind == np.bool_:
        base = dataset.id.get_type().get_super().get_size()
        return np.dtype(np.uint8) if base == 1 else None
    little = kind.kind in "iuf" and kind.newbyteorder("<") == kind
    return kind if little else None


def _contiguous(dataset: h5py.Dataset, kind: np.dtype[Any], codec: Codec, file_size: int) -> ChunkMap | None:
    offset = dataset.id.get_offset()
    if offset is None:
        return None
    shape = tuple(dataset.shape)
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    corners = np.zeros((1, len(shape)), np.int64)
    found = ChunkMap(shape, kind, shape, codec, corners, np.array([offset]), np.array([size]))
    _check(found, dataset, file_size, 1)
    return found


def _walk(
    dataset: h5py.Dataset, expected: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]] | None:
    """(corners, offsets, sizes) in row order; None when a chunk is missing or skipped a filter."""
    rows: list[tuple[int, ...]] = []

    def visit(info: Any) -> bool | None:
        if info.filter_mask or len(rows) > expected:
            rows.clear()
            return True
        rows.append((*info.chunk_offset, info.byte_offset, info.size))
        return None

    dataset.id.chunk_iter(visit)
    if len(rows) != expected:
        return None
    table = np.asarray(rows, np.int64)
    rank = dataset.ndim
    order = np.lexsort(table[:, rank - 1 :: -1].T) if rank > 1 else np.argsort(table[:, 0], kind="stable")
    table = table[order]
    return np.ascontiguousarray(table[:, :rank]), table[:, rank].copy(), table[:, rank + 1].copy()


def _check(found: ChunkMap, dataset: h5py.Dataset, file_size: int, expected: int) -> None:
    ends = found.offsets + found.sizes
    plain = found.codec.compression is Compression.NONE
    grid = [np.arange(0, n, c) for n, c in zip(found.shape, found.chunk, strict=True)]
    corners = np.stack([g.ravel() for g in np.meshgrid(*grid, indexing="ij")], 1)
    sound = (
        len(found.offsets) == expected
        and bool((found.offsets > 0).all() and (found.sizes > 0).all() and (ends <= file_size).all())
        and np.array_equal(found.corners, corners)
        and (not plain or bool((found.sizes == found.chunk_bytes).all()))
    )
    if not sound:
        raise UnreadableError(
            "the chunks of a column lie within the file, each once",
            place=f"{dataset.file.filename} · {dataset.name}",
            code="broken-chunk",
        )
