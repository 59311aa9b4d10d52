"""`Episode` and its block-wise columns: what sources yield and every writer takes.

A column hands out blocks of rows, so an hour of video never sits in memory.
What is not here: columns that read a file format (those live beside their readers).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np
from numpy.typing import DTypeLike, NDArray

from trajpipe.core.errors import RowIndexError, SchemaError
from trajpipe.core.findings import Finding

BLOCK_BYTES: Final = 4 << 20


@runtime_checkable
class Column(Protocol):
    """Named elsewhere; here: typed, shaped values over rows.

    Attributes:
        dtype: numpy dtype of the values, native byte order.
        shape: (T, *trailing).
    """

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(T, *trailing)."""

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows [start, stop) as an array (stop - start, *trailing); not to be written into."""


@dataclass(frozen=True, slots=True, eq=False)
class ArrayColumn:
    """A column that is an array already.

    Attributes:
        array: (T, *trailing).
    """

    array: NDArray[Any]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""
        return self.array.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """(T, *trailing)."""
        return self.array.shape

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows [start, stop), a view."""
        check_rows(start, stop, self.array.shape[0])
        return self.array[start:stop]


@dataclass(frozen=True, slots=True, eq=False)
class FunctionColumn:
    """A column whose rows come from a function: the lazy form.

    Attributes:
        dtype: Element type of what `fetch` returns.
        shape: (T, *trailing).
        fetch: (start, stop) → array (stop - start, *trailing).
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fetch: Callable[[int, int], NDArray[Any]]

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows [start, stop) from `fetch`."""
        check_rows(start, stop, self.shape[0])
        return self.fetch(start, stop)


def check_rows(start: int, stop: int, length: int) -> None:
    """Raise unless 0 <= start <= stop <= length.

    Raises:
        RowIndexError: it does not hold.
    """
    if not 0 <= start <= stop <= length:
        raise RowIndexError("rows out of range", got=f"[{start}, {stop})", expected=f"within [0, {length})")


def mapped(
    column: Column,
    function: Callable[[NDArray[Any]], NDArray[Any]],
    *,
    dtype: DTypeLike | None = None,
    trailing: tuple[int, ...] | None = None,
) -> FunctionColumn:
    """A column with `function` applied to each block of rows; the function keeps the row count."""
    shape = column.shape if trailing is None else (column.shape[0], *trailing)
    kind = np.dtype(column.dtype if dtype is None else dtype)
    return FunctionColumn(kind, shape, lambda start, stop: function(column.read(start, stop)))


def cast(column: Column, dtype: DTypeLike) -> Column:
    """The declared cast (float64 → float32 is one round-to-nearest); the column itself when equal."""
    kind = np.dtype(dtype)
    return column if column.dtype == kind else mapped(column, lambda rows: rows.astype(kind), dtype=kind)


def sliced(column: Column, start: int, stop: int) -> FunctionColumn:
    """Rows [start, stop) of a column as a column of its own."""
    check_rows(start, stop, column.shape[0])
    shape = (stop - start, *column.shape[1:])
    return FunctionColumn(column.dtype, shape, lambda a, b: column.read(start + a, start + b))


IMAGE_ROWS: Final = 16


def rows_per_block(column: Column, max_bytes: int = BLOCK_BYTES) -> int:
    """How many rows of this column fit in a block, at least one."""
    width = int(np.prod(column.shape[1:], dtype=np.int64)) * column.dtype.itemsize
    return whole_chunks(max(1, max_bytes // max(1, width)))


def whole_chunks(rows: int) -> int:
    """The largest multiple of 16 rows, the chunks of image columns, in so many rows; `rows` below 16."""
    return rows - rows % IMAGE_ROWS if rows > IMAGE_ROWS else rows


def blocks(column: Column, max_bytes: int = BLOCK_BYTES) -> Iterator[NDArray[Any]]:
    """All rows in order, block by block, each at most `max_bytes` (one row at least)."""
    step, length = rows_per_block(column, max_bytes), column.shape[0]
    for start in range(0, length, step):
        yield column.read(start, min(start + step, length))


def whole(column: Column) -> NDArray[Any]:
    """All rows in memory: for small columns only."""
    return column.read(0, column.shape[0])


def to_channels_first(frames: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
    """Copy frames (n, H, W, C) into `out` (n, C, H, W), a view whose last two axes are contiguous.

    Height and width are copied as one axis: several times as fast as a four-axis transpose.
    """
    count, height, width, channels = frames.shape
    flat = out.reshape(count, channels, height * width, copy=False)
    flat[...] = frames.reshape(count, height * width, channels).transpose(0, 2, 1)


def is_image(column: Column) -> bool:
    """True for uint8 (T, H, W, 1|3|4): frames, rows top first, channels last."""
    return column.dtype == np.uint8 and len(column.shape) == 4 and column.shape[-1] in (1, 3, 4)


@dataclass(frozen=True, slots=True, eq=False)
class Episode:
    """One demonstration on its way through the house.

    Attributes:
        name: Its name in the recording (`demo_3`).
        length: T, rows.
        columns: Path in L2 (`actions`, `obs/joint_pos`, `states/…`) → column with T rows.
        extras: Path in L2 → column whose leading axis is not T (`initial_state/…`), kept as recorded.
        attributes: Attributes kept as recorded (`model_file`, …): str, int, float, bool or array.
        success: None when the source did not say.
        success_as: What an unknown success is written as.
        seed: When known.
        task: Language instruction, byte-exact; None when the source has none.
        tag: `names.Tag` value.
        alignment: `names.Alignment` value; None when unknown.
        source_file: Base name of the recording.
        source_demo: Name in the recording; survives renumbering and merging.
        source_sha256: Hex SHA-256 of the recording.
        split: `train`, `valid` or None.
        content_sha256: Hex SHA-256 of the demo's content in L2; "" before it is written.
    """

    name: str
    length: int
    columns: Mapping[str, Column]
    extras: Mapping[str, Column] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    success: bool | None = None
    success_as: bool = True
    seed: int | None = None
    task: str | None = None
    tag: str = "unknown"
    alignment: str | None = None
    source_file: str = ""
    source_demo: str = ""
    source_sha256: str = ""
    split: str | None = None
    content_sha256: str = ""

    def __post_init__(self) -> None:
        for path, column in self.columns.items():
            if column.shape[0] != self.length:
                raise SchemaError(
                    "every column of an episode has its row count",
                    place=f"{self.source_file} · {self.name} · {path}",
                    got=f"{column.shape[0]} rows",
                    expected=f"{self.length} rows",
                    code="ragged",
                )

    def with_columns(self, columns: Mapping[str, Column]) -> Episode:
        """The same episode with other columns."""
        return replace(self, columns=columns)


@dataclass(frozen=True, slots=True)
class Description:
    """What a source says of a recording before its episodes are read.

    Attributes:
        kind: The source's registered name.
        episodes: Names of the episodes in natural order.
        env_args: `env_name`, `type`, `env_kwargs` as L2 wants them; None when the recording has none.
        fps: The format's own rate, frames per second; None when it has none.
        masks: Mask name → episode names, as recorded.
        attributes: Dataset-level attributes to keep (`bddl_file_name`, `problem_info`, …), str or number.
        tag: Tag that the recording itself declares; None when it declares none.
        conventions: Facts read or defaulted, plain JSON values, for the recipe (`images: opengl`, …).
        findings: Repairs and oddities found (`total-wrong` INFO, …).
    """

    kind: str
    episodes: tuple[str, ...]
    env_args: Mapping[str, Any] | None = None
    fps: Fraction | None = None
    masks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    tag: str | None = None
    conventions: Mapping[str, Any] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
