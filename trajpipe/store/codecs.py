"""Chunk codecs: bytes as HDF5's filters want them, made and undone outside HDF5 and its lock.

zstd frames are those of filter 32015 (hdf5plugin), deflate streams those of HDF5's own filter 1.
What is not here: which chunk lies where (`chunkmap`), and filters that only HDF5 undoes (Blosc, LZ4, …).
"""

from __future__ import annotations

import threading
import zlib
from dataclasses import dataclass
from typing import Any, Final

import h5py
import hdf5plugin
import numpy as np
import zstandard
from isal import isal_zlib
from numpy.typing import NDArray

from trajpipe.core.errors import UnreadableError
from trajpipe.store.columns import STRIP_ROWS, ColumnSpec, Compression

FILTER_DEFLATE: Final = 1
FILTER_SHUFFLE: Final = 2
FILTER_FLETCHER32: Final = 3
FILTER_ZSTD: Final = 32015
ZSTD_LEVEL: Final = 1
# level 1 that looks at every third byte with a larger table: camera frames are a third faster to write and
# to read, and a tenth larger
_ZSTD: Final = zstandard.ZstdCompressionParameters.from_level(
    ZSTD_LEVEL, hash_log=15, min_match=7, target_length=2
)
DEFLATE_LEVEL: Final = 4
# isal's levels are 0..3; its 1 compresses like zlib's 1-2 at several times the speed
_ISAL_LEVEL: Final = 1
_ISAL_MIN_BYTES: Final = 4096
_THREAD = threading.local()
_DAMAGED: Final[tuple[type[BaseException], ...]] = (  # type: ignore[assignment]  # isal types its error class as an instance
    zstandard.ZstdError,
    isal_zlib.error,
    zlib.error,
    MemoryError,
)


@dataclass(frozen=True, slots=True)
class Codec:
    """What happens to a chunk on its way to the disk.

    Attributes:
        compression: The last filter.
        itemsize: Bytes of one value, for shuffle.
    """

    compression: Compression
    itemsize: int = 1

    @property
    def dataset_options(self) -> dict[str, Any]:
        """Keywords of `create_dataset` that make HDF5 do the same."""
        match self.compression:
            case Compression.ZSTD:
                return dict(hdf5plugin.Zstd(clevel=ZSTD_LEVEL))
            case Compression.DEFLATE:
                return {"compression": "gzip", "compression_opts": DEFLATE_LEVEL}
            case Compression.SHUFFLE_DEFLATE:
                return {"compression": "gzip", "compression_opts": DEFLATE_LEVEL, "shuffle": True}
            case _:
                return {}

    def encode(self, chunk: NDArray[Any]) -> bytes:
        """The stored bytes of a C-contiguous chunk."""
        if self.compression is Compression.ZSTD:
            return _compressor().compress(chunk.data.cast("B"))
        if self.compression is Compression.SHUFFLE_DEFLATE and self.itemsize > 1:
            chunk = np.ascontiguousarray(chunk.reshape(-1).view(np.uint8).reshape(-1, self.itemsize).T)
        return bytes(isal_zlib.compress(chunk.data.cast("B"), _ISAL_LEVEL))

    def decode(self, stored: bytes | memoryview, size: int) -> bytes:
        """The chunk's bytes again.

        Args:
            stored: Bytes as they lie in the file.
            size: Bytes that the chunk must have.

        Raises:
            UnreadableError: damaged, or another size comes out.
        """
        try:
            if self.compression is Compression.ZSTD:
                raw = _decompressor().decompress(stored, max_output_size=size)
            else:
                raw = inflate(stored, size)
        except _DAMAGED as error:
            raise _broken(error) from error
        if len(raw) != size:
            raise _broken(f"{len(raw)} bytes instead of {size}")
        if self.compression is Compression.SHUFFLE_DEFLATE and self.itemsize > 1:
            return np.ascontiguousarray(np.frombuffer(raw, np.uint8).reshape(self.itemsize, -1).T).tobytes()
        return raw


def unzstd_into(stored: memoryview, target: memoryview) -> None:
    """Decompress a zstd frame into memory of exactly its size, without a copy in between.

    Args:
        stored: The frame.
        target: Writable bytes.

    Raises:
        UnreadableError: damaged, or another size.
    """
    try:
        size = zstandard.frame_content_size(stored)
        if size == len(target):
            size = _decompressor().stream_reader(stored).readinto(target)
    except _DAMAGED as error:
        raise _broken(error) from error
    if size != len(target):
        raise _broken(f"{size} bytes instead of {len(target)}")


def inflate(stored: bytes | memoryview, size: int) -> bytes:
    """Undo a zlib stream that must give `size` bytes: isal where it pays; never more than `size` bytes."""
    stream = isal_zlib.decompressobj() if size >= _ISAL_MIN_BYTES else zlib.decompressobj()
    raw: bytes = stream.decompress(stored, size + 1)
    if not stream.eof and len(raw) <= size:
        raise _broken("the stream ends early")
    return raw


def _broken(why: object) -> UnreadableError:
    return UnreadableError("stored bytes cannot be read", got=why, code="broken-chunk")


def _compressor() -> zstandard.ZstdCompressor:
    """One compressor a thread: they are not thread-safe, and making one costs more than a small chunk."""
    if not hasattr(_THREAD, "compressor"):
        _THREAD.compressor = zstandard.ZstdCompressor(compression_params=_ZSTD)
    return _THREAD.compressor  # type: ignore[no-any-return]  # thread-local attributes have no type


def _decompressor() -> zstandard.ZstdDecompressor:
    if not hasattr(_THREAD, "decompressor"):
        _THREAD.decompressor = zstandard.ZstdDecompressor()
    return _THREAD.decompressor  # type: ignore[no-any-return]  # thread-local attributes have no type


def codec_of(column: ColumnSpec, image_compression: Compression) -> Codec:
    """The codec that a column is written with: its own, else the store's for images, else none."""
    chosen = column.compression
    if chosen is None:
        chosen = image_compression if column.is_image else Compression.NONE
    return Codec(chosen, column.dtype.itemsize)


def codec_of_dataset(dataset: h5py.Dataset, *, ignore_checksum: bool = False) -> Codec | None:
    """The codec of an open dataset; None when its filters are not ours to undo (fletcher32, Blosc, …).

    Args:
        dataset: Open dataset.
        ignore_checksum: Look past fletcher32, to learn how the chunks are compressed.
    """
    plist = dataset.id.get_create_plist()
    filters = tuple(int(plist.get_filter(i)[0]) for i in range(plist.get_nfilters()))
    if ignore_checksum:
        filters = tuple(f for f in filters if f != FILTER_FLETCHER32)
    size = int(dataset.dtype.itemsize)
    kinds = {
        (): Compression.NONE,
        (FILTER_ZSTD,): Compression.ZSTD,
        (FILTER_DEFLATE,): Compression.DEFLATE,
        (FILTER_SHUFFLE, FILTER_DEFLATE): Compression.SHUFFLE_DEFLATE,
    }
    return Codec(kinds[filters], size) if filters in kinds else None


def chunk_shape(column: ColumnSpec, codec: Codec, n_columns: int) -> tuple[int, ...]:
    """Shape of a chunk: whole rows, but for deflated images, which are cut into strips of 16 image rows.

    A strip keeps the previous frames within deflate's 32 KiB window, so that a still camera compresses as
    well as with zstd; leading axes before the image (cameras) get chunks of their own.
    """
    rows = column.chunk_rows_for(n_columns)
    deflated = codec.compression in (Compression.DEFLATE, Compression.SHUFFLE_DEFLATE)
    if not (column.is_image and deflated and column.chunk_rows is None):
        return (rows, *column.shape)
    shape = list(column.shape)
    height = len(shape) - (3 if len(shape) >= 3 and shape[-1] in (1, 3, 4) else 2)
    image_start = max(0, height - 1) if height == len(shape) - 2 else height
    shape[height] = min(STRIP_ROWS, shape[height])
    return (rows, *[1] * image_start, *shape[image_start:])
