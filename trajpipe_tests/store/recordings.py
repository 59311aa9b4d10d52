"""Small recordings for the store's tests: arrays, and the store written from them.

What is not here: tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trajpipe.store import ColumnSpec, TrajectoryStoreWriter

Arrays = dict[str, NDArray[Any]]
LENGTHS = (7, 1, 12, 30)


def random_rows(spec: ColumnSpec, rows: int, seed: int = 0) -> NDArray[Any]:
    """Rows over the whole range of a column's dtype, NaN and infinities among the floats."""
    rng = np.random.default_rng([seed, rows, spec.row_items])
    shape = (rows, *spec.shape)
    if spec.dtype.kind == "f":
        out = rng.standard_normal(shape).astype(spec.dtype)
        flat = out.reshape(-1)
        flat[:: max(1, len(flat) // 3)] = [np.nan, np.inf, -0.0, 1e-40][seed % 4]
        return out
    limits = np.iinfo(spec.dtype)
    return rng.integers(limits.min, limits.max, shape, dtype=spec.dtype, endpoint=True)


def columns() -> list[ColumnSpec]:
    """An ordinary store: action, two observations, two cameras, a scalar, a flag, the task."""
    return [
        ColumnSpec("action", "float32", 7),
        ColumnSpec("joint_pos", "float64", 9),
        ColumnSpec("images", "uint8", (2, 3, 20, 24)),
        ColumnSpec("reward", "float32"),
        ColumnSpec("done", "bool"),
        ColumnSpec("task_index", "int32", 1),
    ]


def arrays(lengths: Sequence[int] = LENGTHS, seed: int = 0) -> Arrays:
    """Rows of `columns()` for episodes of these lengths."""
    rows = sum(lengths)
    rng = np.random.default_rng(seed)
    done = np.zeros(rows, np.bool_)
    done[np.cumsum(lengths) - 1] = True
    return {
        "action": rng.standard_normal((rows, 7)).astype(np.float32),
        "joint_pos": rng.standard_normal((rows, 9)),
        "images": rng.integers(0, 255, (rows, 2, 3, 20, 24), np.uint8) // 32,
        "reward": rng.standard_normal(rows).astype(np.float32),
        "done": done,
        "task_index": np.repeat(np.arange(len(lengths)) % 2, lengths).astype(np.int32)[:, None],
    }


def write(
    path: Path,
    specs: Sequence[ColumnSpec] | None = None,
    rows: Arrays | None = None,
    lengths: Sequence[int] = LENGTHS,
    **options: Any,
) -> Arrays:
    """Write a store of `columns()` (or others) and return its rows."""
    given = arrays(lengths) if rows is None else rows
    options = {"env_id": "Lift", "seed": 7, "tasks": ("lift the cube", "stack"), **options}
    with TrajectoryStoreWriter(path, columns() if specs is None else specs, **options) as writer:
        start = 0
        for length in lengths:
            writer.append(**{name: array[start : start + length] for name, array in given.items()})
            writer.end_episode()
            start += length
    return given


def leftovers(folder: Path) -> list[str]:
    """Names in a folder that are no stores."""
    return sorted(p.name for p in folder.iterdir() if p.suffix not in (".h5", ".demo"))
