"""`.demo`: the flat transition file of noeira's recorder (magic `MRLDEMO1`): reading, recording, inspecting.

Little-endian: magic, u32 version, u32 obs_dim, u32 act_dim, u64 n, u32 n_episodes; n rows; the episode table.
What is not here: conversion to and from a store (`demo_convert`).
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trajpipe.core import atomic
from trajpipe.core.errors import InputError, SchemaError, StateError, UnreadableError, UsageError

MAGIC: Final = b"MRLDEMO1"
VERSION: Final = 1
FLAG_HUMAN: Final = 1
FLAG_SUCCESS: Final = 2
_HEADER: Final = struct.Struct("<8sIIIQI")
EPISODE_DTYPE: Final = np.dtype([("start", "<u8"), ("length", "<u8"), ("success", "<u4")])
_MAX_DIM: Final = 1 << 20


def row_dtype(obs_dim: int, act_dim: int) -> np.dtype[Any]:
    """One transition as it lies in the file, packed.

    Raises:
        UsageError: a dimension outside 1..2**20.
    """
    for name, dim in (("obs_dim", obs_dim), ("act_dim", act_dim)):
        if not 1 <= dim <= _MAX_DIM:
            raise UsageError(f"{name} is a positive width", got=dim, expected=f"1..{_MAX_DIM}")
    return np.dtype(
        [
            ("obs", "<f4", (obs_dim,)),
            ("action", "<f4", (act_dim,)),
            ("reward", "<f4"),
            ("next_obs", "<f4", (obs_dim,)),
            ("done", "<f4"),
            ("flags", "<u4"),
        ]
    )


@dataclass(frozen=True, slots=True, eq=False)
class Demo:
    """A `.demo` file in memory.

    Attributes:
        rows: Structured (n,): obs, action, reward, next_obs, done (terminal, not "episode ended"), flags.
        episodes: Structured (E,): start, length, success.
    """

    rows: NDArray[Any]
    episodes: NDArray[Any]

    @property
    def obs_dim(self) -> int:
        """Width of an observation."""
        return int(self.rows.dtype["obs"].shape[0])

    @property
    def act_dim(self) -> int:
        """Width of an action."""
        return int(self.rows.dtype["action"].shape[0])

    @property
    def human(self) -> NDArray[np.bool_]:
        """(n,): a human intervened in that row."""
        flags: NDArray[np.bool_] = (self.rows["flags"] & FLAG_HUMAN) != 0
        return flags

    def replay_prefix(
        self, max_rows: int | None = None, *, successful_only: bool = False
    ) -> dict[str, NDArray[Any]]:
        """The arrays of a replay buffer's pinned prefix: whole episodes in order, as many as fit.

        Args:
            max_rows: Room for the prefix; None = all.
            successful_only: Leave out episodes that failed.

        Returns:
            Contiguous `obs`, `action`, `reward`, `next_obs`, `done` (float32), `human` (bool).
        """
        chosen: list[NDArray[np.int64]] = []
        room = len(self.rows) if max_rows is None else max_rows
        for start, length, success in self.episodes.tolist():
            if successful_only and not success:
                continue
            if length > room:
                break
            room -= length
            chosen.append(np.arange(start, start + length))
        index = np.concatenate(chosen) if chosen else np.empty(0, np.int64)
        picked = self.rows[index]
        fields = ("obs", "action", "reward", "next_obs", "done")
        return {name: np.ascontiguousarray(picked[name]) for name in fields} | {"human": self.human[index]}


def _header(path: Path, data: bytes, size: int) -> tuple[np.dtype[Any], int, int]:
    if len(data) < _HEADER.size or data[:8] != MAGIC:
        raise UnreadableError("the file is not a .demo file", place=path, got=f"first bytes {data[:8]!r}")
    _, version, obs_dim, act_dim, count, episodes = _HEADER.unpack(data)
    if version != VERSION:
        raise InputError("the .demo version is known", place=path, got=version, expected=VERSION)
    try:
        dtype = row_dtype(obs_dim, act_dim)
    except UsageError as error:
        raise InputError(error.rule, place=path, got=error.got, expected=error.expected) from error
    expected = _HEADER.size + count * dtype.itemsize + episodes * EPISODE_DTYPE.itemsize
    if size != expected:
        raise InputError(
            "the file's size is what its header says",
            place=path,
            got=f"{size} bytes",
            expected=f"{expected} bytes for {count} rows and {episodes} episodes",
            code="truncated" if size < expected else "bad-input",
        )
    return dtype, count, episodes


def read_demo(path: str | os.PathLike[str]) -> Demo:
    """Read a `.demo` file whole.

    Raises:
        UnreadableError: no such file, or not the format.
        InputError: another version, the size is not the header's, an episode lies outside the rows.
    """
    where = Path(path)
    try:
        with where.open("rb") as handle:
            size = os.fstat(handle.fileno()).st_size
            dtype, count, n_episodes = _header(where, handle.read(_HEADER.size), size)
            rows = np.fromfile(handle, dtype, count)
            episodes = np.fromfile(handle, EPISODE_DTYPE, n_episodes)
    except OSError as error:
        if isinstance(error, UnreadableError):
            raise
        raise UnreadableError("the file cannot be read", place=where, got=error) from error
    for number, (start, length, success) in enumerate(episodes.tolist()):
        if length < 1 or start + length > count or success > 1:
            raise InputError(
                "an episode lies within the rows, with success 0 or 1",
                place=f"{where} · episode {number}",
                got=f"start {start}, length {length}, success {success}",
                expected=f"within [0, {count})",
            )
    return Demo(rows, episodes)


def write_demo(path: str | os.PathLike[str], demo: Demo) -> Path:
    """Write a `.demo` file atomically."""
    target = Path(path)
    with atomic.atomic_file(target) as temporary, temporary.open("wb") as handle:
        _write(handle, demo.rows, demo.episodes)
    return target


def _write(handle: BinaryIO, rows: NDArray[Any], episodes: NDArray[Any]) -> None:
    handle.write(_head(rows.dtype, len(rows), len(episodes)))
    rows.tofile(handle)
    episodes.astype(EPISODE_DTYPE).tofile(handle)


def _head(dtype: np.dtype[Any], rows: int, episodes: int) -> bytes:
    obs, act = dtype["obs"].shape[0], dtype["action"].shape[0]
    return _HEADER.pack(MAGIC, VERSION, obs, act, rows, episodes)


def inspect_demo(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a `.demo` file holds, as JSON values: widths, rows, episodes, successes, interventions, return."""
    demo = read_demo(path)
    lengths = demo.episodes["length"].astype(np.int64)
    returns = [
        float(demo.rows["reward"][start : start + length].sum(dtype=np.float64))
        for start, length, _ in demo.episodes.tolist()
    ]
    return {
        "path": Path(path).name,
        "version": VERSION,
        "obs_dim": demo.obs_dim,
        "act_dim": demo.act_dim,
        "rows": len(demo.rows),
        "episodes": len(demo.episodes),
        "successes": int(demo.episodes["success"].sum()),
        "human_rows": int(demo.human.sum()),
        "terminal_rows": int((demo.rows["done"] != 0).sum()),
        "length": {"min": int(lengths.min()), "max": int(lengths.max())} if len(lengths) else None,
        "return": {"min": min(returns), "max": max(returns)} if returns else None,
    }


class DemoRecorder:
    """Records transitions into a `.demo` file: `begin`, `add`, `end(success)` or `discard`.

    One episode is held in memory; the file appears whole at `close()`. As a context manager an exception
    leaves nothing behind.

    Args:
        path: Target.
        obs_dim: Width of an observation.
        act_dim: Width of an action.
    """

    def __init__(self, path: str | os.PathLike[str], obs_dim: int, act_dim: int) -> None:
        self.path, self._dtype = Path(path), row_dtype(obs_dim, act_dim)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._temporary = atomic.temporary_beside(self.path)
        self._handle: BinaryIO | None = self._temporary.open("wb")
        self._handle.write(_head(self._dtype, 0, 0))
        self._episode: list[NDArray[Any]] | None = None
        self._episodes: list[tuple[int, int, int]] = []
        self._rows = 0

    def begin(self) -> None:
        """Start an episode.

        Raises:
            StateError: one is running, or the recorder is closed.
        """
        self._require(running=False)
        self._episode = []

    def add(
        self,
        obs: ArrayLike,
        action: ArrayLike,
        reward: float,
        next_obs: ArrayLike,
        done: bool,
        *,
        human: bool = False,
    ) -> None:
        """Add a transition.

        Args:
            obs: (obs_dim,) before the action.
            action: (act_dim,).
            reward: Of this step.
            next_obs: (obs_dim,) after it.
            done: The episode reached a terminal state; False when it was merely cut.
            human: A human intervened.

        Raises:
            StateError: no episode is running.
            SchemaError: another width.
        """
        episode = self._require(running=True)
        row = np.zeros((), self._dtype)
        for name, value in (("obs", obs), ("action", action), ("next_obs", next_obs)):
            array, shape = np.asarray(value), self._dtype[name].shape
            if array.shape != shape:
                raise SchemaError(
                    "a transition has the file's widths", place=name, got=array.shape, expected=shape
                )
            row[name] = array
        row["reward"], row["done"], row["flags"] = reward, float(done), FLAG_HUMAN if human else 0
        episode.append(row)

    def end(self, success: bool) -> int:
        """End the episode and keep it.

        Returns:
            Its length.

        Raises:
            StateError: no episode is running, or it is empty.
        """
        episode = self._require(running=True)
        if not episode:
            raise StateError("an episode has at least one row", place=self.path, hint="Call discard().")
        rows = np.stack(episode)
        if success:
            rows["flags"] |= FLAG_SUCCESS
        assert self._handle is not None
        self._handle.write(rows.tobytes())
        self._episodes.append((self._rows, len(rows), int(success)))
        self._rows += len(rows)
        self._episode = None
        return len(rows)

    def discard(self) -> None:
        """Drop the running episode."""
        self._require(running=True)
        self._episode = None

    def close(self) -> Path:
        """Write the episode table and publish the file.

        Raises:
            StateError: an episode is still running.
        """
        self._require(running=False)
        assert self._handle is not None
        self._handle.write(np.array(self._episodes, EPISODE_DTYPE).tobytes())
        self._handle.seek(0)
        self._handle.write(_head(self._dtype, self._rows, len(self._episodes)))
        self._handle.close()
        self._handle = None
        atomic.publish_file(self._temporary, self.path)
        return self.path

    def abort(self) -> None:
        """Drop everything; safe to call twice."""
        if self._handle is not None:
            self._handle.close()
            self._handle = None
            atomic.remove(self._temporary)

    def _require(self, *, running: bool) -> list[NDArray[Any]]:
        if self._handle is None:
            raise StateError("the recorder is open", place=self.path, got="closed")
        if (self._episode is not None) != running:
            state = "running" if self._episode is not None else "not running"
            hint = "Call begin() first." if running else "Call end(success) or discard() first."
            raise StateError(
                "episodes begin, then end", place=self.path, got=f"an episode is {state}", hint=hint
            )
        return self._episode if self._episode is not None else []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and self._handle is not None:
                self.close()
        finally:
            self.abort()
