"""Distance between floats in units in the last place.

What is not here: which arrays are compared, see `trajpipe.checks`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core.errors import DTypeError, SchemaError

_FLOATS: Final = (np.dtype(np.float32), np.dtype(np.float64))


def ulp_distance(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.uint64]:
    """How many representable floats lie between a and b, element by element.

    +0 and -0 are at distance 0; a NaN against a NaN is 0, a NaN against a number is the largest uint64.

    Args:
        a: float32 or float64 array.
        b: Array of the same dtype and shape.

    Returns:
        uint64 distances of the same shape.

    Raises:
        DTypeError: dtypes differ or are not float32/float64.
        SchemaError: shapes differ.
    """
    if a.dtype != b.dtype or a.dtype not in _FLOATS:
        raise DTypeError("ULP distance needs one float dtype", got=f"{a.dtype} and {b.dtype}")
    if a.shape != b.shape:
        raise SchemaError("ULP distance needs one shape", got=f"{a.shape} and {b.shape}")
    ia, ib = _ordered(a), _ordered(b)
    low, high = np.minimum(ia, ib), np.maximum(ia, ib)
    distance = high.view(np.uint64) - low.view(np.uint64)
    nan_a, nan_b = np.isnan(a).ravel(), np.isnan(b).ravel()
    distance[nan_a | nan_b] = np.iinfo(np.uint64).max
    distance[nan_a & nan_b] = 0
    return distance.reshape(a.shape)


def _ordered(x: NDArray[Any]) -> NDArray[np.int64]:
    """Map floats to a flat int64 so that neighbours differ by one; both zeros map to 0."""
    bits = np.ascontiguousarray(x).ravel().view(f"i{x.dtype.itemsize}").astype(np.int64)
    lowest = np.int64(-(2 ** (8 * x.dtype.itemsize - 1)))
    return np.where(bits < 0, lowest - bits, bits)
