"""Writing nested arrays, films and attributes into an HDF5 group, in a fixed order.

What is not here: which arrays a format has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import h5py
import numpy as np
from numpy.typing import NDArray

from trajpipe.testing.render import Film

Tree: TypeAlias = "Mapping[str, NDArray[Any] | Film | Tree]"

BLOCK_FRAMES: Final = 32


def write_tree(group: h5py.Group, tree: Tree, *, gzip: int | None = None) -> None:
    """Write a nested mapping of arrays and films below a group, keys in the mapping's order.

    Args:
        group: Where.
        tree: Name → array, film or another mapping.
        gzip: Deflate level of every dataset; None = contiguous, as most recorders write. Frames are
            chunked one by one when compressed.
    """
    for name, value in tree.items():
        if isinstance(value, Film):
            _write_film(group, name, value, gzip)
        elif isinstance(value, Mapping):
            write_tree(group.create_group(name), value, gzip=gzip)
        elif gzip is None:
            group.create_dataset(name, data=value)
        else:
            group.create_dataset(name, data=value, compression="gzip", compression_opts=gzip)


def _write_film(group: h5py.Group, name: str, film: Film, gzip: int | None) -> None:
    packed = (
        {}
        if gzip is None
        else {"compression": "gzip", "compression_opts": gzip, "chunks": (1, *film.shape[1:])}
    )
    dataset = group.create_dataset(name, shape=film.shape, dtype=np.uint8, **packed)
    for start in range(0, film.shape[0], BLOCK_FRAMES):
        stop = min(start + BLOCK_FRAMES, film.shape[0])
        dataset[start:stop] = film.read(start, stop)


def write_attributes(item: h5py.Group, attributes: Mapping[str, Any]) -> None:
    """Write attributes in the mapping's order: str as variable-length UTF-8, int as int64, bool as enum."""
    for name, value in attributes.items():
        item.attrs[name] = value
