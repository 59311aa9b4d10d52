"""Batched unit quaternions, scalar last, float64: products, turns of vectors, logarithm, slerp, signs.

What is not here: order conversions of recorded data, see `trajpipe.core.quaternions`.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
SMALL_ANGLE: Final = 1e-6
# Below this sine of the half angle the reference takes the plain midpoint.
MIDPOINT_SINE: Final = 1e-3


def normalised(q: Array) -> Array:
    """(…, 4) quaternions over their norms."""
    out: Array = q / np.sqrt(np.einsum("...i,...i->...", q, q))[..., None]
    return out


def conjugate(q: Array) -> Array:
    """(…, 4) inverse of unit quaternions."""
    out: Array = q * np.array([-1.0, -1.0, -1.0, 1.0])
    return out


def multiply(a: Array, b: Array) -> Array:
    """Hamilton product, (…, 4): first turn by b, then by a."""
    ax, ay, az, aw = (a[..., i] for i in range(4))
    bx, by, bz, bw = (b[..., i] for i in range(4))
    out = np.empty(np.broadcast_shapes(a.shape, b.shape))
    out[..., 0] = aw * bx + ax * bw + ay * bz - az * by
    out[..., 1] = aw * by - ax * bz + ay * bw + az * bx
    out[..., 2] = aw * bz + ax * by - ay * bx + az * bw
    out[..., 3] = aw * bw - ax * bx - ay * by - az * bz
    return out


def rotate(q: Array, v: Array) -> Array:
    """(…, 3) vectors turned by unit quaternions (…, 4)."""
    x, y, z, w = (q[..., i] for i in range(4))
    vx, vy, vz = (v[..., i] for i in range(3))
    tx, ty, tz = 2 * (y * vz - z * vy), 2 * (z * vx - x * vz), 2 * (x * vy - y * vx)
    out = np.empty((*np.broadcast_shapes(q.shape[:-1], v.shape[:-1]), 3))
    out[..., 0] = vx + w * tx + y * tz - z * ty
    out[..., 1] = vy + w * ty + z * tx - x * tz
    out[..., 2] = vz + w * tz + x * ty - y * tx
    return out


def of_rotation_vector(v: Array) -> Array:
    """Unit quaternions (…, 4) of rotation vectors (…, 3), radians, by the half-angle formula.

    Below 1e-6 rad the sine's series takes its place.
    """
    angle = np.sqrt(np.einsum("...i,...i->...", v, v))
    small = angle < SMALL_ANGLE
    safe = np.where(small, 1.0, angle)
    factor = np.where(small, 0.5 - angle * angle / 48, np.sin(safe / 2) / safe)
    out = np.empty((*v.shape[:-1], 4))
    out[..., :3] = v * factor[..., None]
    out[..., 3] = np.cos(angle / 2)
    return normalised(out)


def to_rotation_vector(q: Array) -> Array:
    """Rotation vectors (…, 3) of unit quaternions, the shorter way round, radians."""
    positive = np.where(q[..., 3:] < 0, -q, q)
    vector = positive[..., :3]
    sine = np.sqrt(np.einsum("...i,...i->...", vector, vector))
    safe = np.where(sine > 0, sine, 1.0)
    factor = np.where(sine > 0, 2 * np.arctan2(sine, positive[..., 3]) / safe, 2.0)
    out: Array = vector * factor[..., None]
    return out


def signed_by_largest(q: Array) -> Array:
    """Each quaternion (…, 4) with the sign that makes its largest component positive.

    The first of w, x, y, z decides a tie: the four-candidate rule on the rotation matrix.
    """
    order = np.abs(q[..., [3, 0, 1, 2]])
    index = np.array([3, 0, 1, 2])[np.argmax(order, axis=-1)]
    largest = np.take_along_axis(q, index[..., None], axis=-1)
    return np.where(largest < 0, -q, q)


def slerp(a: Array, b: Array, blend: Array) -> Array:
    """Between unit quaternions (…, 4) along the shorter arc; the plain midpoint when they almost agree.

    Args:
        a: Quaternions at blend 0.
        b: Quaternions at blend 1.
        blend: (…) within [0, 1].
    """
    cosine = np.einsum("...i,...i->...", a, b)
    b = np.where(cosine[..., None] < 0, -b, b)
    difference = b - a
    # |b - a| = 2 sin(half angle / 2) keeps the small angles that 1 - cos² loses.
    half = 2 * np.arcsin(np.minimum(1.0, np.sqrt(np.einsum("...i,...i->...", difference, difference)) / 2))
    sine = np.sin(half)
    near = sine < MIDPOINT_SINE
    safe = np.where(near, 1.0, sine)
    first = np.where(near, 0.5, np.sin((1 - blend) * half) / safe)
    second = np.where(near, 0.5, np.sin(blend * half) / safe)
    out: Array = first[..., None] * a + second[..., None] * b
    return out
