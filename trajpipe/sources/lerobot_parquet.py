"""Parquet files of a LeRobot folder, opened as untrusted input and read in bounded row groups.

What is not here: what the columns mean. pyarrow is imported on first use: listing sources stays quick.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from trajpipe.core.errors import InputError, UnreadableError

MAX_ROW_GROUP_BYTES: Final = 1 << 30
MAX_ROWS: Final = 1 << 31
_MAGIC: Final = b"PAR1"


def open_parquet(path: Path, name: str) -> Any:
    """A `pyarrow.parquet.ParquetFile`, its declared sizes looked at.

    Args:
        path: The file.
        name: What messages call it: the path below the LeRobot folder.

    Raises:
        UnreadableError: absent; without its footer, that is not finalised (`not-finalised`); or no parquet.
        InputError: it declares row groups larger than 1 GiB.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.is_file():
        raise UnreadableError("the parquet file is missing", place=name, code="missing-file")
    try:
        file = pq.ParquetFile(path)
        groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, name, error) from error
    largest = max((g.total_byte_size for g in groups), default=0)
    if largest > MAX_ROW_GROUP_BYTES or file.metadata.num_rows > MAX_ROWS:
        file.close()
        raise InputError(
            "the parquet file declares more than is read at once",
            place=name,
            got=f"row groups up to {largest:,} bytes, {file.metadata.num_rows:,} rows",
            expected=f"row groups up to {MAX_ROW_GROUP_BYTES:,} bytes",
            hint="Write it again with smaller row groups.",
            code="row-group-too-large",
        )
    return file


def _unreadable(path: Path, name: str, error: Exception) -> UnreadableError:
    """Why a file is no parquet; one that begins as parquet and ends as none was not finalised."""
    with path.open("rb") as handle:
        head = handle.read(4)
        handle.seek(0, 2)
        handle.seek(max(0, handle.tell() - 4))
        tail = handle.read(4)
    if head == _MAGIC and tail != _MAGIC:
        return UnreadableError(
            "the parquet file is not finalised: its footer is missing",
            place=name,
            got=f"last bytes {tail!r}",
            expected=repr(_MAGIC),
            hint="The recorder was stopped before it closed the file, or the copy is cut short.",
            code="not-finalised",
        )
    return UnreadableError("the parquet file cannot be read", place=name, got=error, code="bad-parquet")


@dataclass(slots=True)
class RowReader:
    """Rows of one parquet file; the last row group read stays in memory for the next episode.

    Attributes:
        path: The file.
        name: What messages call it.
    """

    path: Path
    name: str
    _file: Any = None
    _starts: list[int] = field(default_factory=list)
    _kept: tuple[int, tuple[str, ...], Any] | None = None

    def __post_init__(self) -> None:
        self._file = open_parquet(self.path, self.name)
        sizes = [self._file.metadata.row_group(i).num_rows for i in range(self._file.metadata.num_row_groups)]
        self._starts = [0, *np.cumsum(sizes, dtype=np.int64).tolist()]

    @property
    def num_rows(self) -> int:
        """Rows of the file."""
        return self._starts[-1]

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self._file.schema_arrow.names)

    def read(self, columns: Sequence[str], start: int, stop: int) -> Any:
        """Rows [start, stop) of some columns, a `pyarrow.Table`.

        Raises:
            UnreadableError: a page is damaged.
        """
        import pyarrow as pa

        first = max(0, int(np.searchsorted(self._starts, start, side="right")) - 1)
        parts = []
        for group in range(first, len(self._starts) - 1):
            low, high = self._starts[group], self._starts[group + 1]
            if low >= stop:
                break
            a, b = max(start, low), min(stop, high)
            parts.append(self._group(group, tuple(columns)).slice(a - low, b - a))
        return (
            pa.concat_tables(parts) if parts else self._file.schema_arrow.empty_table().select(list(columns))
        )

    def _group(self, group: int, columns: tuple[str, ...]) -> Any:
        if self._kept is None or self._kept[:2] != (group, columns):
            self._kept = None
            self._kept = (group, columns, read_group(self._file, group, columns, self.name))
        return self._kept[2]

    def groups(self, columns: Sequence[str]) -> Iterator[Any]:
        """Some columns, one row group after the other.

        Raises:
            UnreadableError: a page is damaged.
        """
        for group in range(len(self._starts) - 1):
            yield read_group(self._file, group, columns, self.name)

    def close(self) -> None:
        """Close the file."""
        self._kept = None
        self._file.close()


def read_group(file: Any, group: int, columns: Sequence[str], name: str) -> Any:
    """A row group of an open parquet file, a `pyarrow.Table`.

    Raises:
        UnreadableError: a page is damaged.
    """
    import pyarrow as pa

    try:
        return file.read_row_group(group, columns=list(columns))
    except (OSError, pa.ArrowException) as error:
        raise UnreadableError("the rows cannot be read", place=name, got=error, code="bad-parquet") from error
