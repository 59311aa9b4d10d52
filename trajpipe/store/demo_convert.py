"""Between `.demo` files and stores: the same transitions, episodes and successes, either way.

What is not here: the `.demo` format itself (`demo_file`).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core import names
from trajpipe.core.errors import InputError, SchemaError
from trajpipe.store.columns import ColumnSpec
from trajpipe.store.demo_file import (
    EPISODE_DTYPE,
    FLAG_HUMAN,
    FLAG_SUCCESS,
    Demo,
    read_demo,
    row_dtype,
    write_demo,
)
from trajpipe.store.reader import TrajectoryStore
from trajpipe.store.writer import TrajectoryStoreWriter

COLUMN_OBS: Final = "obs"
COLUMN_NEXT_OBS: Final = "next_obs"
COLUMN_HUMAN: Final = "human"


def demo_to_store(
    demo: str | os.PathLike[str] | Demo, path: str | os.PathLike[str], *, env_id: str = "", seed: int = 0
) -> Path:
    """Write a store of a `.demo` file's episodes, in the table's order.

    Columns: `obs`, `action`, `next_obs` (float32), `reward` (float32), `done`, `human` (uint8); side table
    `ep_success`.

    Args:
        demo: The file, or what was read from it.
        path: The store.
        env_id: Manifest's.
        seed: Manifest's.

    Raises:
        InputError: rows outside every episode or in two, or a `done` other than 0 and 1.
    """
    read = demo if isinstance(demo, Demo) else read_demo(demo)
    _require_cover(read)
    done = read.rows["done"]
    if not np.isin(done, (0.0, 1.0)).all():
        row = int(np.argmin(np.isin(done, (0.0, 1.0))))
        raise InputError("done is 0 or 1", place=f"row {row}", got=float(done[row]))
    columns = [
        ColumnSpec(COLUMN_OBS, np.float32, read.obs_dim),
        ColumnSpec(names.COLUMN_ACTION, np.float32, read.act_dim),
        ColumnSpec(names.COLUMN_REWARD, np.float32),
        ColumnSpec(COLUMN_NEXT_OBS, np.float32, read.obs_dim),
        ColumnSpec(names.COLUMN_DONE, np.uint8),
        ColumnSpec(COLUMN_HUMAN, np.uint8),
    ]
    with TrajectoryStoreWriter(
        path, columns, env_id=env_id, seed=seed, expected_rows=len(read.rows)
    ) as writer:
        for start, length, _ in read.episodes.tolist():
            rows = read.rows[start : start + length]
            plain = {name: rows[name] for name in (COLUMN_OBS, "action", "reward", COLUMN_NEXT_OBS)}
            flags = (rows["flags"] & FLAG_HUMAN).astype(np.uint8)
            writer.append(**plain, done=rows["done"].astype(np.uint8), human=flags)
            writer.end_episode()
        writer.add_side_table(names.SIDE_EP_SUCCESS, read.episodes["success"].astype(np.uint8))
    return Path(path)


def _require_cover(demo: Demo) -> None:
    """Every row in exactly one episode."""
    order = np.argsort(demo.episodes["start"], kind="stable")
    starts = demo.episodes["start"][order].astype(np.int64)
    ends = starts + demo.episodes["length"][order].astype(np.int64)
    expected = np.concatenate([[0], ends[:-1]]) if len(ends) else np.zeros(1, np.int64)
    covered = int(ends[-1]) if len(ends) else 0
    if covered != len(demo.rows) or not np.array_equal(starts, expected[: len(starts)]):
        raise InputError(
            "every row lies in exactly one episode",
            got=f"{len(demo.rows)} rows, episodes cover {covered} with gaps or overlaps",
            hint="Record the file again, or cut the rows outside episodes.",
        )


def store_to_demo(store: str | os.PathLike[str] | TrajectoryStore, path: str | os.PathLike[str]) -> Path:
    """Write a `.demo` file of a store.

    Needs `obs` and `action`; `reward` is 0 when absent, `next_obs` is the next row's `obs` (the last row of
    an episode repeats its own), `done` and `human` are 0 when absent. An episode succeeded when `ep_success`
    is 1, else when `success` is 1 on its first row.

    Raises:
        SchemaError: no `obs` or `action`, or one is not a flat vector that float32 holds exactly.
    """
    if isinstance(store, TrajectoryStore):
        return write_demo(path, _demo_of(store))
    with TrajectoryStore(store) as opened:
        return write_demo(path, _demo_of(opened))


def _demo_of(store: TrajectoryStore) -> Demo:
    obs, action = _vector(store, COLUMN_OBS), _vector(store, names.COLUMN_ACTION)
    rows = np.zeros(store.n_rows, row_dtype(obs.shape[1], action.shape[1]))
    rows["obs"], rows["action"] = obs, action
    rows["next_obs"] = _next_obs(store, obs)
    for name, column in (("reward", names.COLUMN_REWARD), ("done", names.COLUMN_DONE)):
        if column in store.columns:
            rows[name] = _vector(store, column)[:, 0]
    success = _success(store)
    rows["flags"] = np.repeat(success * FLAG_SUCCESS, store.ep_len)
    if COLUMN_HUMAN in store.columns:
        rows["flags"] |= (store.load_column(COLUMN_HUMAN).reshape(-1) != 0) * np.uint32(FLAG_HUMAN)
    episodes = np.zeros(store.n_episodes, EPISODE_DTYPE)
    episodes["start"], episodes["length"], episodes["success"] = store.ep_offset, store.ep_len, success
    return Demo(rows, episodes)


def _vector(store: TrajectoryStore, name: str) -> NDArray[np.float32]:
    """A column as float32 (N, width), when that loses nothing."""
    if name not in store.columns or len(store.columns[name].shape) > 1:
        got = "none" if name not in store.columns else f"trailing {store.columns[name].shape}"
        raise SchemaError("a .demo file needs flat vectors", place=f"{store.path} · {name}", got=got)
    values = store.load_column(name).reshape(store.n_rows, -1)
    narrow: NDArray[np.float32] = values.astype(np.float32)
    if values.dtype != np.float32 and not np.array_equal(narrow.astype(values.dtype), values, equal_nan=True):
        place = f"{store.path} · {name}"
        raise SchemaError("float32 holds the values exactly", place=place, got=values.dtype)
    return narrow


def _next_obs(store: TrajectoryStore, obs: NDArray[np.float32]) -> NDArray[Any]:
    if COLUMN_NEXT_OBS in store.columns:
        return _vector(store, COLUMN_NEXT_OBS)
    following = np.minimum(np.arange(1, store.n_rows + 1), store.n_rows - 1)
    ends = store.ep_offset + store.ep_len - 1
    following[ends] = ends
    return obs[following]


def _success(store: TrajectoryStore) -> NDArray[np.uint32]:
    if names.SIDE_EP_SUCCESS in store.side_tables:
        return np.asarray(store.side_table(names.SIDE_EP_SUCCESS) == 1, np.uint32)
    if names.COLUMN_SUCCESS in store.columns:
        first = store.load_column(names.COLUMN_SUCCESS).reshape(store.n_rows, -1)[store.ep_offset, 0]
        return np.asarray(first == 1, np.uint32)
    return np.zeros(store.n_episodes, np.uint32)
