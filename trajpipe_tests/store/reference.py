"""Scalar references, written one index at a time from noeira's published description.

What is not here: anything vectorised, and anything of trajpipe's.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

MASK = 0xFFFFFFFF


def philox(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """Philox 4x32-10 of one block (Salmon et al. 2011)."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for turn in range(10):
        if turn:
            k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & MASK, (p0 >> 32) ^ c3 ^ k1, p0 & MASK
    return c0, c1, c2, c3


def host(seed: int) -> Iterator[float]:
    """The host stream's numbers, one after another."""
    block = 0
    while True:
        w = philox((block & MASK, block >> 32, 0, 0), (seed & MASK, seed >> 32))
        for high, low in ((w[0], w[1]), (w[2], w[3])):
            yield float(np.float64(high * 2**32 + low) / np.float64(2.0**64))
        block += 1


def device(seed: int, offset: int, lane: int) -> np.float32:
    """One lane's number."""
    key = (seed + lane) % 2**64
    word = philox((offset & MASK, offset >> 32, 0, 0), (key & MASK, key >> 32))[0]
    return np.float32(np.float32(word & 0x7FFFFFFF) * np.float32(4.6566127342e-10))


class Tree:
    """noeira's sum tree and prioritized draw, a loop per index, nodes counted from 0."""

    def __init__(self, capacity: int, alpha: float, beta: float, epsilon: float) -> None:
        self.capacity, self.size = capacity, 0
        self.alpha, self.beta = float(np.float32(alpha)), float(np.float32(beta))
        self.epsilon, self.max_priority = np.float32(epsilon), np.float32(1)
        self.nodes = [np.float32(0)] * (2 * capacity - 1)

    def set(self, row: int, value: np.float32) -> None:
        node = row + self.capacity - 1
        difference = value - self.nodes[node]
        self.nodes[node] = value
        while node > 0:
            node = (node - 1) // 2
            self.nodes[node] = self.nodes[node] + difference

    def power(self, raw: np.float32) -> np.float32:
        return np.float32(np.float64(raw) ** self.alpha)

    def add(self, row: int) -> None:
        self.set(row, self.power(self.max_priority))
        self.size = max(self.size, row + 1)

    def update(self, row: int, td: np.float32) -> None:
        raw = np.float32(abs(td)) + self.epsilon
        self.set(row, self.power(raw))
        self.max_priority = max(self.max_priority, raw)

    def find(self, u: np.float32) -> int:
        node = 0
        while node < self.capacity - 1:
            left = 2 * node + 1
            if u <= self.nodes[left]:
                node = left
            else:
                u = u - self.nodes[left]
                node = left + 1
        return node - (self.capacity - 1)

    def draw(self, numbers: Iterator[float], batch: int) -> tuple[list[int], list[np.float32]]:
        total, rows = self.nodes[0], []
        width = total / np.float32(batch)
        for i in range(batch):
            low, high = np.float32(i) * width, np.float32(i + 1) * width
            u = low + (high - low) * np.float32(next(numbers))
            rows.append(self.find(np.float32(total - np.float32(1e-7)) if u >= total else u))
        chance = [np.float64(self.nodes[r + self.capacity - 1] / total) for r in rows]
        raw = [np.float32((self.size * p) ** -self.beta) for p in chance]
        return rows, [w / max(raw) for w in raw]
