"""Shape, dtype and SHA-256 of HDF5 datasets, in the form in which the reader scripts print them.

What is not here: any of trajpipe's own reading.
"""

from __future__ import annotations

import hashlib
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

Digest = dict[str, object]


def digest_of(rows: NDArray[Any]) -> Digest:
    """The digest of one array."""
    rows = np.ascontiguousarray(rows)
    sha256 = hashlib.sha256(rows.tobytes()).hexdigest()
    return {"shape": list(rows.shape), "dtype": str(rows.dtype), "sha256": sha256}


def digests_below(group: h5py.Group) -> dict[str, Digest]:
    """Path → digest of every dataset below a group."""
    return {path: digest_of(rows) for path, rows in arrays_below(group).items()}


def arrays_below(group: h5py.Group) -> dict[str, NDArray[Any]]:
    """Path → every dataset below a group, in memory."""
    out: dict[str, NDArray[Any]] = {}

    def visit(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            out[name] = item[()]

    group.visititems(visit)
    return out
