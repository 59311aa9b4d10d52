"""Quaternion order conversions and rotations, batched; nothing here guesses an order.

What is not here: which columns hold quaternions, see `trajpipe.core.conventions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from trajpipe.core.errors import SchemaError

QuaternionOrder = Literal["wxyz", "xyzw"]


def wxyz_to_xyzw(q: NDArray[Any]) -> NDArray[Any]:
    """Reorder (…, 4) scalar-first quaternions to scalar-last; a copy, same dtype."""
    return _rolled(q, -1)


def xyzw_to_wxyz(q: NDArray[Any]) -> NDArray[Any]:
    """Reorder (…, 4) scalar-last quaternions to scalar-first; a copy, same dtype."""
    return _rolled(q, 1)


def _rolled(q: NDArray[Any], shift: int) -> NDArray[Any]:
    if q.ndim < 1 or q.shape[-1] != 4:
        raise SchemaError("a quaternion's last axis has 4 values", got=q.shape, expected="(…, 4)")
    return np.roll(q, shift, axis=-1)


def to_xyzw_at(rows: NDArray[Any], starts: Sequence[int], order: QuaternionOrder) -> NDArray[Any]:
    """Convert the quaternions that begin at the given offsets of the last axis to scalar-last.

    Args:
        rows: (…, D) array, not changed.
        starts: Offsets of the 4-value spans, e.g. `(3, 10, 17)` of a 39-wide observation.
        order: The order found in `rows`.

    Returns:
        (…, D) array of the same dtype; `rows` itself when it is `xyzw` already.

    Raises:
        SchemaError: a span does not fit in D, two spans overlap, or the order is no order.
    """
    if order == "xyzw":
        return rows
    if order != "wxyz":
        raise SchemaError("no such quaternion order", got=order, expected="wxyz or xyzw")
    spans = sorted(starts)
    if any(b - a < 4 for a, b in pairwise(spans)):
        raise SchemaError("declared quaternions overlap", got=spans)
    out = rows.copy()
    for start in starts:
        if start < 0 or start + 4 > rows.shape[-1]:
            raise SchemaError(
                "a declared quaternion lies outside the column",
                got=f"{start}:{start + 4} of width {rows.shape[-1]}",
            )
        out[..., start : start + 3] = rows[..., start + 1 : start + 4]
        out[..., start + 3] = rows[..., start]
    return out


def multiply_xyzw(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Hamilton product of (…, 4) scalar-last quaternions."""
    ax, ay, az, aw = np.moveaxis(a, -1, 0)
    bx, by, bz, bw = np.moveaxis(b, -1, 0)
    return np.stack(
        (
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
            aw * bw - ax * bx - ay * by - az * bz,
        ),
        axis=-1,
    )


def conjugate_xyzw(q: NDArray[Any]) -> NDArray[Any]:
    """Conjugate of (…, 4) scalar-last quaternions."""
    out: NDArray[Any] = q * np.array([-1, -1, -1, 1], dtype=q.dtype)
    return out


def rotate_xyzw(q: NDArray[Any], v: NDArray[Any]) -> NDArray[Any]:
    """Rotate (…, 3) vectors by (…, 4) scalar-last unit quaternions."""
    u, w = q[..., :3], q[..., 3:]
    t = 2.0 * np.cross(u, v)
    return np.asarray(v + w * t + np.cross(u, t))
