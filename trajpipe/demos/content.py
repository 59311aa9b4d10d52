"""The content hash of a demo: SHA-256 over its datasets, independent of chunks, filters and HDF5 versions.

The byte rule, so that anyone can recompute it with h5py alone. Take every dataset below the demo's group,
paths relative to the group (`actions`, `obs/joint_pos`, …), in natural path order (the path as text, digit
runs compared as numbers). For each, feed to one SHA-256:

1. the path in UTF-8, then one zero byte;
2. numpy's little-endian dtype text (`<f4`, `|u1`, `|b1`), then one zero byte;
3. the shape, decimal numbers joined by commas (`236,7`), then one zero byte;
4. all values in C order, little-endian, uncompressed (an HDF5 bool is one byte, 0 or 1).

What is not here: attributes, which the hash does not cover.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray


class ContentHash:
    """Feeds datasets, in natural path order, to one SHA-256."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def begin(self, path: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        """Start a dataset.

        Args:
            path: Relative to the demo's group.
            dtype: Element type, any byte order.
            shape: All axes.
        """
        text = f"{path}\0{dtype.newbyteorder('<').str}\0{','.join(map(str, shape))}\0"
        self._digest.update(text.encode("utf-8", "surrogateescape"))

    def rows(self, block: NDArray[Any]) -> None:
        """Feed the next rows of the dataset begun last."""
        little = np.ascontiguousarray(block, dtype=block.dtype.newbyteorder("<"))
        self._digest.update(little.reshape(-1).view(np.uint8).data)

    def hexdigest(self) -> str:
        """The hash so far, hex."""
        return self._digest.hexdigest()
