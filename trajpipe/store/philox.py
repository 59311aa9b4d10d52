"""Philox 4x32-10, the counter-based generator of every sampler (numpy's own `Philox` is the 4x64 variant).

Two streams, as noeira draws them: the host stream, float64 from one key, and device lanes, float32 from one
key a lane. What is not here: what the numbers choose (`samplers`, `prioritized`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_M0: Final = np.uint64(0xD2511F53)
_M1: Final = np.uint64(0xCD9E8D57)
_W0: Final = np.uint64(0x9E3779B9)
_W1: Final = np.uint64(0xBB67AE85)
_LOW: Final = np.uint64(0xFFFFFFFF)
_SHIFT: Final = np.uint64(32)
_MASK32: Final = 0xFFFFFFFF
_MASK64: Final = 0xFFFFFFFFFFFFFFFF
DEVICE_SCALE: Final = np.float32(4.6566127342e-10)

Words = tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64]]
Key = NDArray[np.uint64] | np.uint64


def philox_4x32_10(counter: NDArray[np.uint64], key_low: Key, key_high: Key) -> Words:
    """The four 32-bit words of each block, held in uint64 (n,).

    Args:
        counter: uint64 (n,): the counter's low 64 bits; its high 64 are zero.
        key_low: uint64 scalar or (n,): low 32 bits of the key.
        key_high: Its high 32 bits.
    """
    x0, x1 = counter & _LOW, counter >> _SHIFT
    x2, x3 = np.zeros_like(counter), np.zeros_like(counter)
    p0, p1 = np.empty_like(counter), np.empty_like(counter)
    multiply, shift = np.multiply, np.right_shift
    xor, mask = np.bitwise_xor, np.bitwise_and
    # ten plain operations a round, all in place: a draw of 4096 is bound by their number
    for turn in range(10):
        if turn:
            key_low, key_high = (key_low + _W0) & _LOW, (key_high + _W1) & _LOW
        multiply(x0, _M0, p0)
        multiply(x2, _M1, p1)
        shift(p1, _SHIFT, x0)
        xor(x0, x1, x0)
        xor(x0, key_low, x0)
        shift(p0, _SHIFT, x2)
        xor(x2, x3, x2)
        xor(x2, key_high, x2)
        mask(p1, _LOW, x1)
        mask(p0, _LOW, x3)
    return x0, x1, x2, x3


def seed64(seed: int) -> int:
    """A seed as 64 bits; a negative one as its two's complement."""
    return int(seed) & _MASK64


@dataclass(slots=True)
class HostStream:
    """float64 numbers in [0, 1]: number k is words (0, 1) or (2, 3) of block k // 2.

    Attributes:
        seed: 64-bit key.
        position: Index of the next number.
    """

    seed: int
    position: int = 0

    def take(self, count: int) -> NDArray[np.float64]:
        """The next `count` numbers; 1.0 occurs (rounding), so indices are clamped by their users."""
        first, last = self.position // 2, (self.position + count + 1) // 2
        counter = np.arange(first, last, dtype=np.uint64)
        low, high = np.uint64(self.seed & _MASK32), np.uint64(self.seed >> 32)
        w0, w1, w2, w3 = philox_4x32_10(counter, low, high)
        pairs = np.empty((last - first, 2), np.uint64)
        np.bitwise_or(w0 << _SHIFT, w1, out=pairs[:, 0])
        np.bitwise_or(w2 << _SHIFT, w3, out=pairs[:, 1])
        numbers: NDArray[np.float64] = pairs.reshape(-1)[self.position % 2 :][:count] / np.float64(2.0**64)
        self.position += count
        return numbers


def device_uniform(seed: int, offset: int, lanes: int) -> NDArray[np.float32]:
    """One float32 in [0, 1] a lane: lane i has key `seed + i` and counter `offset`."""
    keys = np.arange(lanes, dtype=np.uint64) + np.uint64(seed)
    counter = np.full(lanes, np.uint64(offset & _MASK64))
    word = philox_4x32_10(counter, keys & _LOW, keys >> _SHIFT)[0]
    numbers: NDArray[np.float32] = (word & np.uint64(0x7FFFFFFF)).astype(np.float32) * DEVICE_SCALE
    return numbers


def device_uniform_torch(seed: int, offset: int, lanes: int, device: Any) -> Any:
    """`device_uniform` computed on a torch device, the same bits; int64 arithmetic wraps as uint64 does.

    Args:
        seed: 64-bit key of lane 0.
        offset: Counter.
        lanes: How many.
        device: torch device.

    Returns:
        float32 tensor (lanes,) there.
    """
    import torch

    signed = seed64(seed) - (1 << 64) if seed64(seed) >> 63 else seed64(seed)
    keys = torch.arange(lanes, dtype=torch.int64, device=device) + signed
    k0, k1 = keys & _MASK32, (keys >> 32) & _MASK32
    x0 = torch.full((lanes,), offset & _MASK32, dtype=torch.int64, device=device)
    x1 = torch.full((lanes,), (offset >> 32) & _MASK32, dtype=torch.int64, device=device)
    x2, x3 = torch.zeros_like(x0), torch.zeros_like(x0)
    for turn in range(10):
        if turn:
            k0, k1 = (k0 + int(_W0)) & _MASK32, (k1 + int(_W1)) & _MASK32
        p0, p1 = x0 * int(_M0), x2 * int(_M1)
        x0, x2 = ((p1 >> 32) & _MASK32) ^ x1 ^ k0, ((p0 >> 32) & _MASK32) ^ x3 ^ k1
        x1, x3 = p1 & _MASK32, p0 & _MASK32
    return (x0 & 0x7FFFFFFF).to(torch.float32) * torch.tensor(
        float(DEVICE_SCALE), dtype=torch.float32, device=device
    )
