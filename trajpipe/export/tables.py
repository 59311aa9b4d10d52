"""Arrow tables of an episode's rows, without copies, and the parquet files they go into.

What is not here: which features there are, see `trajpipe.export.features`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from trajpipe.core.errors import InputError

# LeRobot's loaders compare the distance of neighbouring timestamps with 1/fps to this, seconds.
TOLERANCE_S: Final = 1e-4
COMPRESSION: Final = "snappy"


def timestamps(length: int, fps: Fraction, place: object) -> NDArray[np.float32]:
    """Row i's time, i / fps in seconds, rounded once to float32; (T,).

    Raises:
        InputError: float32 cannot hold the episode's times closely enough (from 1024 s on at many rates).
    """
    exact = np.arange(length, dtype=np.float64) * fps.denominator / fps.numerator
    rounded = exact.astype(np.float32)
    late = np.flatnonzero(np.abs(np.diff(rounded) - float(1 / fps)) > TOLERANCE_S)
    if late.size:
        raise InputError(
            "the episode is too long for LeRobot's float32 timestamps",
            place=place,
            got=f"{length} rows at {float(fps):g} fps; steps are off by more than {TOLERANCE_S} s from row "
            f"{int(late[0]) + 1} ({exact[late[0] + 1]:.1f} s) on",
            expected=f"at most {int(late[0]) + 1} rows",
            hint="Split the recording into shorter episodes, or lower its rate with `resample`.",
            code="episode-too-long",
        )
    return rounded


def bookkeeping(
    episode_index: int, first_row: int, times: NDArray[np.float32], tasks: NDArray[np.int64]
) -> dict[str, NDArray[Any]]:
    """LeRobot's own columns of an episode, each (T, 1), in the order of info.json."""
    frames = np.arange(len(times), dtype=np.int64)
    columns: dict[str, NDArray[Any]] = {
        "timestamp": times,
        "frame_index": frames,
        "episode_index": np.full(len(times), episode_index, np.int64),
        "index": frames + first_row,
        "task_index": tasks,
    }
    return {name: values.reshape(-1, 1) for name, values in columns.items()}


def arrow(rows: NDArray[Any]) -> pa.Array:
    """An arrow array of rows (T, n): plain for n = 1, fixed-size lists otherwise; no copy but for bools.

    Numbers are taken as a buffer: `pa.array` would import pandas to ask whether they are a series of it.
    """
    values = np.ascontiguousarray(rows).reshape(-1)
    if values.dtype.kind in "iuf" and values.dtype.isnative:
        kind = pa.from_numpy_dtype(values.dtype)
        flat = pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])
    else:
        flat = pa.array(values)
    return flat if rows.shape[1] == 1 else pa.FixedSizeListArray.from_arrays(flat, rows.shape[1])


def table_of(rows: Mapping[str, NDArray[Any]]) -> pa.Table:
    """The table of an episode's rows, columns in the given order."""
    return pa.table({name: arrow(values) for name, values in rows.items()})


def write_parquet(path: Path, tables: Iterable[pa.Table]) -> int:
    """Write tables of one schema as the row groups of a parquet file.

    Returns:
        The file's size in bytes.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    writer: pq.ParquetWriter | None = None
    try:
        for table in tables:
            if writer is None:
                writer = pq.ParquetWriter(path, table.schema, compression=COMPRESSION, use_dictionary=False)
            writer.write_table(table, row_group_size=max(1, table.num_rows))
    finally:
        if writer is not None:
            writer.close()
    return path.stat().st_size
