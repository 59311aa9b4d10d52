"""Episode columns that read HDF5 datasets block by block.

What is not here: writing, and the fast chunk paths of the trajectory store.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import h5py
import numpy as np
from numpy.typing import NDArray

from trajpipe.core.episode import check_rows
from trajpipe.core.errors import SchemaError, UnreadableError
from trajpipe.core.findings import Place
from trajpipe.hdf5.inflate import read_inflated

_MOST_UNWRITTEN: Final = 64 << 20
# Zeros deflate to 230:1 at the least and 1032:1 at the most; rendered frames stay below 100:1.
MOST_INFLATED: Final = 200
_INFLATED_FREELY: Final = 2 << 30


@dataclass(frozen=True, slots=True, eq=False)
class HDF5Column:
    """Rows of one dataset, read when asked for; big-endian becomes native, HDF5 bool becomes numpy bool.

    Attributes:
        dataset: Open dataset of rank ≥ 1 with a numeric or bool dtype.
    """

    dataset: h5py.Dataset

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type in native byte order."""
        kind: np.dtype[Any] = np.dtype(self.dataset.dtype).newbyteorder("=")
        return kind

    @property
    def shape(self) -> tuple[int, ...]:
        """(T, *trailing)."""
        return tuple(int(n) for n in self.dataset.shape)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows [start, stop).

        Raises:
            RowIndexError: out of range.
            UnreadableError: the bytes cannot be read (a broken gzip chunk, …).
        """
        check_rows(start, stop, self.shape[0])
        try:
            rows = read_inflated(self.dataset, start, stop)
            rows = self.dataset[start:stop] if rows is None else rows
        except OSError as error:
            raise UnreadableError(
                "stored bytes cannot be read",
                place=Place(file=_base(self.dataset), column=self.dataset.name, row=start),
                got=error,
                code="broken-chunk",
            ) from error
        return np.asarray(rows, dtype=self.dtype)


def _base(dataset: h5py.Dataset) -> str:
    return str(dataset.file.filename).rsplit("/", 1)[-1]


def column_of(dataset: h5py.Dataset) -> HDF5Column:
    """A column of a dataset.

    Raises:
        SchemaError: it is a scalar, or its dtype is not numeric or bool (strings, references, compounds).
        UnreadableError: it declares many bytes and does not store them, see `require_written`, or stores them
            in absurdly few, see `require_sane_size`.
    """
    kind = dataset.dtype.kind
    if dataset.shape is None or dataset.ndim < 1 or kind not in "buif":
        raise SchemaError(
            "a column is a numeric dataset with rows",
            place=Place(file=_base(dataset), column=dataset.name),
            got=f"shape {dataset.shape}, dtype {dataset.dtype}",
            code="not-a-column",
        )
    require_written(dataset)
    require_sane_size(dataset)
    return HDF5Column(dataset)


def require_sane_size(dataset: h5py.Dataset) -> None:
    """Refuse a dataset of more than 2 GiB that is stored in less than a 200th of its bytes.

    Such a file costs hours to inflate and holds nothing: a blank camera, or a trap.

    Raises:
        UnreadableError: `absurd-size`, with both sizes.
    """
    declared = 0 if dataset.shape is None else dataset.size * dataset.dtype.itemsize
    if declared <= _INFLATED_FREELY:
        return  # asking what is stored walks the index of all chunks
    stored = dataset.id.get_storage_size()
    if declared > MOST_INFLATED * stored:
        raise UnreadableError(
            "a dataset declares far more bytes than it stores",
            place=Place(file=_base(dataset), column=dataset.name),
            got=f"{declared:,} bytes in {stored:,} stored ones",
            expected=f"at most {MOST_INFLATED} for each stored byte, above {_INFLATED_FREELY:,} bytes",
            hint="No recorded values deflate so far: leave the dataset out, or record it again.",
            code="absurd-size",
        )


def require_written(dataset: h5py.Dataset, *, partly: bool = False) -> None:
    """Refuse a dataset of which more than 64 MiB were declared and never stored.

    HDF5 makes up the fill value for them, so that a file of some kilobytes costs hours and all memory.

    Args:
        dataset: It.
        partly: Be content with any stored value: for who reads single rows, wherever they are.

    Raises:
        UnreadableError: it declares many bytes and does not store them (`never-written`).
    """
    item = dataset.dtype.itemsize
    declared = 0 if dataset.shape is None else dataset.size * item
    if declared <= _MOST_UNWRITTEN:
        return
    stored = declared if dataset.id.get_storage_size() else 0
    if stored and dataset.chunks and not partly:
        stored = min(declared, dataset.id.get_num_chunks() * math.prod(dataset.chunks) * item)
    if declared - stored > _MOST_UNWRITTEN:
        raise UnreadableError(
            f"a dataset declares values and stores {'few of them' if stored else 'none'}",
            place=Place(file=_base(dataset), column=dataset.name),
            got=f"{stored:,} of {declared:,} bytes",
            hint="The recorder never wrote them; record it again.",
            code="never-written",
        )
