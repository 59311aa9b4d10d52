"""Columns held in memory: whole (`ResidentColumn`) or one window at a time (`WindowedColumn`).

A gather by index only ever reads memory; out of range raises before anything is read.
What is not here: which indices (`samplers`), and torch datasets (`torch_data`).
"""

from __future__ import annotations

from typing import Any, Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trajpipe.core.errors import MissingExtraError, RowIndexError, SchemaError, UsageError
from trajpipe.store.columns import ColumnSpec
from trajpipe.store.reader import MAX_BYTES, TrajectoryStore
from trajpipe.store.samplers import IndexBatch

Indices = ArrayLike | IndexBatch
_SIGNED: Final = np.dtype(np.int64)


def indices_of(indices: Indices) -> NDArray[np.int64]:
    """Indices as an int64 array of any rank, a view where they are one already.

    Raises:
        RowIndexError: not integers.
    """
    found = indices.rows if isinstance(indices, IndexBatch) else np.asarray(indices)
    if found.dtype != _SIGNED:
        if found.dtype.kind not in "iu" and found.size:
            raise RowIndexError("row indices are integers", got=found.dtype)
        found = found.astype(np.int64)
    return found


def gather(
    rows: NDArray[Any], indices: NDArray[np.int64], name: str, out: NDArray[Any] | None, first: int = 0
) -> NDArray[Any]:
    """`rows[indices - first]`, checked with one pass over the indices.

    Args:
        rows: (N, *shape).
        indices: int64 of any shape.
        name: Column, named in errors.
        out: Filled when given: C-contiguous (*indices.shape, *shape) of the dtype.
        first: Index of `rows[0]`.

    Raises:
        RowIndexError: an index lies outside; nothing was read.
        SchemaError: `out` does not fit.
    """
    at = indices - first if first else indices
    # negative indices are huge as unsigned: one maximum checks both ends
    unsigned = at.view(np.uint64)
    if at.size and unsigned.max() >= len(rows):
        wrong = indices.reshape(-1)[int(np.argmax(unsigned))]
        limits = f"within [{first}, {first + len(rows)})"
        raise RowIndexError("a row that is held in memory", place=name, got=int(wrong), expected=limits)
    shape = (*indices.shape, *rows.shape[1:])
    if out is None:
        out = np.empty(shape, rows.dtype)
    elif out.shape != shape or out.dtype != rows.dtype or not out.flags.c_contiguous:
        raise SchemaError(
            "`out` is C-contiguous and fits the batch",
            place=name,
            got=f"{out.dtype} {out.shape}",
            expected=f"{rows.dtype} {shape}",
        )
    # "raise" with out= goes through a buffer, 2.3 times slower; the range was checked above
    return np.take(rows, at, 0, out, "clip")


class ResidentColumn:
    """A whole column in memory.

    Args:
        rows: (N, *shape).
        column: Its spec.

    Attributes:
        rows: As given; read-only when it is a view of the file.
        column: As given.
    """

    def __init__(self, rows: NDArray[Any], column: ColumnSpec) -> None:
        self.rows, self.column = rows, column

    @classmethod
    def load(
        cls, store: TrajectoryStore, name: str, *, max_bytes: int = MAX_BYTES, copy: bool = True
    ) -> Self:
        """Load a column.

        Args:
            store: Open store.
            name: Column.
            max_bytes: The residency guard: a larger column is refused.
            copy: False maps the file where the column is one aligned run: no memory of its own, page faults
                on first use.

        Raises:
            UsageError: larger than `max_bytes`.
            MissingNameError: no such column.
        """
        rows = store.load_column(name, max_bytes, copy=copy)
        return cls(rows, store.columns[name])

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def nbytes(self) -> int:
        """Bytes of the rows."""
        return self.rows.nbytes

    def gather(self, indices: Indices, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Rows by index.

        Args:
            indices: Integers of any shape, or an `IndexBatch`.
            out: Filled when given: C-contiguous (*indices.shape, *shape) of the column's dtype.

        Raises:
            RowIndexError: an index outside [0, N); nothing was read.
            SchemaError: `out` does not fit.
        """
        return gather(self.rows, indices_of(indices), self.column.name, out)

    def to_device(self, device: Any = "cpu") -> DeviceColumn:
        """A mirror of the column on a torch device.

        Raises:
            MissingExtraError: torch is not installed.
            SchemaError: the dtype has no torch kernels (uint16, uint32, uint64).
        """
        return DeviceColumn(self, device)


class DeviceColumn:
    """A column mirrored on a torch device; its gathers equal the host's bit for bit.

    Args:
        host: The column.
        device: torch device.

    Attributes:
        tensor: (N, *shape) there.
    """

    def __init__(self, host: ResidentColumn, device: Any) -> None:
        torch = import_torch()
        if host.rows.dtype in (np.uint16, np.uint32, np.uint64):
            raise SchemaError(
                "the column's dtype can be gathered by torch", place=host.column.name, got=host.rows.dtype
            )
        self.column = host.column
        rows = host.rows if host.rows.flags.writeable else host.rows.copy()
        self.tensor = torch.from_numpy(rows).to(device)

    def __len__(self) -> int:
        return int(self.tensor.shape[0])

    def gather(self, indices: Any) -> Any:
        """Rows by index, on the device.

        Args:
            indices: int64 tensor, integers of any shape, or an `IndexBatch`.

        Raises:
            RowIndexError: an index outside [0, N); nothing was read.
        """
        torch = import_torch()
        if isinstance(indices, torch.Tensor):
            at = indices.to(device=self.tensor.device, dtype=torch.int64)
        else:
            at = torch.from_numpy(np.ascontiguousarray(indices_of(indices))).to(self.tensor.device)
        if at.numel() and not (int(at.min()) >= 0 and int(at.max()) < len(self)):
            got = f"{int(at.min())}..{int(at.max())}"
            expected = f"within [0, {len(self)})"
            raise RowIndexError("a row of the column", place=self.column.name, got=got, expected=expected)
        return self.tensor[at]


class WindowedColumn:
    """One window of a column in memory, moved by slab reads.

    Args:
        store: Open store.
        name: Column.
        window_rows: Rows of a window; clamped to the store's.

    Attributes:
        start: First row of the window.
        refills: Slab reads so far.

    Raises:
        UsageError: no rows in a window.
        MissingNameError: no such column.
    """

    def __init__(self, store: TrajectoryStore, name: str, window_rows: int) -> None:
        if window_rows < 1:
            raise UsageError("a window has at least one row", place=name, got=window_rows)
        self._store, self._name = store, name
        self.window_rows = min(int(window_rows), store.n_rows)
        column = store.reader(name)
        self._buffer = np.empty((self.window_rows, *column.trailing), column.dtype)
        self.refills = 0
        # rows that have had their turn: the last window overlaps the one before when it is clamped
        self._done = 0
        self.seek(0)

    @property
    def stop(self) -> int:
        """One past the window's last row."""
        return self.start + self.window_rows

    @property
    def new_rows(self) -> tuple[int, int]:
        """Rows [start, stop) of the window that no window before it held, in a walk by `advance`."""
        return self._done, self.stop

    @property
    def rows(self) -> NDArray[Any]:
        """The window's rows, a read-only view that the next move overwrites."""
        view = self._buffer.view()
        view.flags.writeable = False
        return view

    def seek(self, start: int) -> int:
        """Move the window; one slab read.

        Args:
            start: Wanted first row; clamped to the last full window.

        Returns:
            The first row it got.

        Raises:
            RowIndexError: negative, or not below the row count.
        """
        total = self._store.n_rows
        if not 0 <= start < total:
            raise RowIndexError(
                "a window starts at a row", place=self._name, got=start, expected=f"[0, {total})"
            )
        self.start = min(int(start), total - self.window_rows)
        self._done = self.start
        self._fill()
        return self.start

    def advance(self) -> bool:
        """Move to the next window; False, without moving, when every row has had its turn.

        Windows do not overlap, but for the last: when fewer rows are left than a window holds it ends
        exactly at the last row, and `new_rows` says which are new.
        """
        total = self._store.n_rows
        if self.stop >= total:
            return False
        self._done = self.stop
        self.start = min(self.stop, total - self.window_rows)
        self._fill()
        return True

    def _fill(self) -> None:
        self._store.read_range(self._name, self.start, self.stop, out=self._buffer)
        self.refills += 1

    def gather(self, indices: Indices, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Rows by their index in the store.

        Raises:
            RowIndexError: an index outside the window; there is no refill on a miss.
            SchemaError: `out` does not fit.
        """
        return gather(self._buffer, indices_of(indices), self._name, out, self.start)


def import_torch() -> Any:
    """The torch module.

    Raises:
        MissingExtraError: not installed.
    """
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError("torch is not installed", hint="Run `pip install torch`.") from error
    return torch
