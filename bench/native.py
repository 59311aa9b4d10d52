"""Compiled limits for the benchmarks: C loops built with the system's compiler when there is one.

What is not here: the cases that are compared with them.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SOURCE = r"""
#include <stdint.h>
#include <string.h>
/* rows by index, the rows ahead asked for early: memory latency hidden */
void gather(const float *rows, const int64_t *index, int64_t count, int64_t width, float *out,
            int64_t ahead) {
    for (int64_t i = 0; i < count; i++) {
        if (i + ahead < count) {
            const char *next = (const char *)(rows + index[i + ahead] * width);
            for (int64_t b = 0; b < width * 4; b += 64) __builtin_prefetch(next + b, 0, 0);
            __builtin_prefetch(next + width * 4 - 1, 0, 0);
        }
        memcpy(out + i * width, rows + index[i] * width, width * 4);
    }
}
/* all queries one level at a time: their cache misses overlap */
void descend(const double *nodes, double *u, int64_t *node, int64_t count, int64_t levels) {
    for (int64_t k = 0; k < count; k++) node[k] = 1;
    for (int64_t level = 0; level < levels; level++)
        for (int64_t k = 0; k < count; k++) {
            int64_t left = 2 * node[k];
            double sum = nodes[left];
            int right = u[k] >= sum;
            u[k] -= sum * right;
            node[k] = left + right;
        }
}
/* one leaf after another, every parent summed again from its children */
void update(double *nodes, const int64_t *row, const double *value, int64_t count, int64_t capacity) {
    for (int64_t k = 0; k < count; k++) {
        int64_t node = row[k] + capacity;
        nodes[node] = value[k];
        for (node >>= 1; node > 0; node >>= 1) nodes[node] = nodes[2 * node] + nodes[2 * node + 1];
    }
}
"""


def _pointer(array: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


class Native:
    """The compiled loops.

    Args:
        library: As built by `build`.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def gather(self, rows: NDArray[np.float32], index: NDArray[np.int64], out: NDArray[np.float32]) -> None:
        """`out[i] = rows[index[i]]` with a prefetch 16 rows ahead."""
        count, width = ctypes.c_int64(len(index)), ctypes.c_int64(rows.shape[1])
        self._library.gather(_pointer(rows), _pointer(index), count, width, _pointer(out), ctypes.c_int64(16))

    def descend(self, nodes: NDArray[np.float64], sums: NDArray[np.float64], node: NDArray[np.int64]) -> None:
        """Leaves of running sums in a full tree with its root at node 1; `sums` is used up."""
        levels = ctypes.c_int64((len(nodes) // 2).bit_length() - 1)
        count = ctypes.c_int64(len(sums))
        self._library.descend(_pointer(nodes), _pointer(sums), _pointer(node), count, levels)

    def update(self, nodes: NDArray[np.float64], row: NDArray[np.int64], value: NDArray[np.float64]) -> None:
        """Set leaves and sum their parents again."""
        count, capacity = ctypes.c_int64(len(row)), ctypes.c_int64(len(nodes) // 2)
        self._library.update(_pointer(nodes), _pointer(row), _pointer(value), count, capacity)


def build() -> Native | None:
    """Compile the loops; None without a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "limits.c", Path(folder) / "limits.so"
        source.write_text(SOURCE)
        command = [compiler, "-O3", "-shared", "-fPIC", "-o", str(library), str(source)]
        subprocess.run(command, check=True)
        return Native(ctypes.CDLL(str(library)))
