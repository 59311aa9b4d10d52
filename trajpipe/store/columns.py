"""`ColumnSpec`: name, dtype, trailing shape and storage of one column of a trajectory store.

What is not here: the manifest's text (`manifest`), and how chunks are compressed (`codecs`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import gcd
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from trajpipe.core import names
from trajpipe.core.errors import DTypeError, SchemaError

DTYPES: Final = tuple(
    "float32 float64 uint8 int8 int16 uint16 int32 uint32 int64 uint64".split()  # noqa: SIM905
)
CHUNK_BYTES: Final = 1 << 20
CHUNK_BYTES_OF_MANY: Final = 1 << 18
# chunks start at multiples of this; whose size is one too, they follow each other without a gap
ALIGNMENT: Final = 64
IMAGE_CHUNK_FRAMES: Final = 16
IMAGE_CHUNK_MAX_BYTES: Final = 16 << 20
STRIP_ROWS: Final = 16


class Compression(StrEnum):
    """How a column's chunks are stored."""

    NONE = "none"
    ZSTD = "zstd"
    DEFLATE = "deflate"
    SHUFFLE_DEFLATE = "shuffle-deflate"


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """One column: what its rows are and how they are stored.

    `bool` is stored as uint8 (the format has no bool); such a column takes bool arrays too.

    Attributes:
        name: Dataset name.
        dtype: One of `DTYPES`, or `bool`.
        shape: Trailing shape of a row; () for one value a row.
        compression: None = the writer's choice: zstd for images (uint8, trailing rank ≥ 2), else none.
        chunk_rows: Rows of a chunk; None = sized in bytes (images: 16 frames).
        takes_bool: True when the column was declared `bool`.

    Raises:
        SchemaError: the name is reserved or cannot stand in a manifest, or a dimension is below 1.
        DTypeError: the dtype is not one of the format's.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...] = ()
    compression: Compression | None = None
    chunk_rows: int | None = None
    takes_bool: bool = False

    def __init__(
        self,
        name: str,
        dtype: DTypeLike,
        shape: tuple[int, ...] | int = (),
        *,
        compression: Compression | str | None = None,
        chunk_rows: int | None = None,
    ) -> None:
        _check_name(name)
        kind = np.dtype(dtype)
        is_bool = kind == np.bool_
        kind = np.dtype(np.uint8) if is_bool else kind.newbyteorder("=")
        if kind.name not in DTYPES:
            raise DTypeError(
                "a store column has one of the format's dtypes",
                place=name,
                got=kind,
                expected=", ".join(DTYPES),
            )
        trailing = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
        if any(int(d) < 1 for d in trailing):
            raise SchemaError("trailing dimensions are at least 1", place=name, got=trailing)
        if chunk_rows is not None and chunk_rows < 1:
            raise SchemaError("a chunk has at least one row", place=name, got=chunk_rows)
        put = object.__setattr__
        put(self, "name", name)
        put(self, "dtype", kind)
        put(self, "shape", tuple(int(d) for d in trailing))
        put(self, "compression", None if compression is None else Compression(compression))
        put(self, "chunk_rows", chunk_rows)
        put(self, "takes_bool", is_bool)

    @property
    def row_items(self) -> int:
        """Values in a row."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.row_items * self.dtype.itemsize

    @property
    def is_image(self) -> bool:
        """uint8 with trailing rank ≥ 2."""
        return self.dtype == np.uint8 and len(self.shape) >= 2

    def same_values(self, other: ColumnSpec) -> bool:
        """True when name, dtype and trailing shape agree; storage may differ."""
        return (self.name, self.dtype, self.shape) == (other.name, other.dtype, other.shape)

    def chunk_rows_for(self, n_columns: int) -> int:
        """Rows of a chunk: as declared, 16 frames for images (at most 16 MiB), else sized in bytes.

        Args:
            n_columns: Columns of the store: one column alone gets chunks of 1 MiB, many get 256 KiB each.
        """
        if self.chunk_rows is not None:
            return self.chunk_rows
        if self.is_image:
            return max(1, min(IMAGE_CHUNK_FRAMES, IMAGE_CHUNK_MAX_BYTES // self.row_bytes))
        target = CHUNK_BYTES if n_columns == 1 else CHUNK_BYTES_OF_MANY
        rows, step = target // self.row_bytes, ALIGNMENT // gcd(ALIGNMENT, self.row_bytes)
        return max(1, rows - rows % step if rows >= step else rows)

    def rows_of(self, array: ArrayLike) -> NDArray[Any]:
        """The array as rows of this column: native, C-contiguous, (n, *shape); nothing is cast.

        Args:
            array: (n, *shape) of this dtype in any byte order and memory layout; for a scalar column
                also (n, 1), and for shape (1,) also (n,).

        Raises:
            DTypeError: another dtype.
            SchemaError: another trailing shape.
        """
        # the common case, one call an episode and column: no more than these checks
        if isinstance(array, np.ndarray) and array.dtype is self.dtype and array.flags.c_contiguous:  # noqa: SIM102
            if array.ndim and array.shape[1:] == self.shape:
                return array
        rows = np.asarray(array)
        if rows.dtype == np.bool_ and self.takes_bool:
            rows = rows.view(np.uint8)
        if rows.dtype != self.dtype:
            if rows.dtype.newbyteorder("=") != self.dtype:
                raise DTypeError(
                    "rows have the declared dtype",
                    place=self.name,
                    got=rows.dtype,
                    expected=self.dtype,
                    hint="Cast them yourself; the store never casts.",
                )
            rows = rows.astype(self.dtype)
        if rows.ndim == 0 or rows.shape[1:] != self.shape:
            if rows.ndim == 0 or {rows.shape[1:], self.shape} != {(), (1,)}:
                raise SchemaError(
                    "rows have the declared trailing shape",
                    place=self.name,
                    got=rows.shape,
                    expected=f"(rows, {', '.join(map(str, self.shape))})" if self.shape else "(rows,)",
                )
            rows = rows.reshape(len(rows), *self.shape)
        return np.ascontiguousarray(rows)


def _check_name(name: str) -> None:
    if name in names.STORE_RESERVED:
        raise SchemaError("the name is the format's own", place=name, expected="another column name")
    wrong = not name or name != name.strip() or any(c in name for c in ":/\0") or len(name.splitlines()) > 1
    if wrong or name == ".":
        raise SchemaError(
            "a column name is not empty and holds no `:`, `/`, line break or outer space", got=repr(name)
        )
