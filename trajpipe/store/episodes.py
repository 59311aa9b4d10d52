"""Episodes of a store for exporters: `action` → `actions`, observations → `obs/<name>`, images per camera.

Images leave as uint8 (T, H, W, C), row 0 on top, whichever of CHW or HWC they are stored in.
What is not here: the way in (the pipeline's store stage).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core import names
from trajpipe.core.episode import Column, Episode, FunctionColumn, mapped
from trajpipe.core.errors import SchemaError
from trajpipe.store.columns import ColumnSpec
from trajpipe.store.reader import TrajectoryStore
from trajpipe.store.views import task_column

EXTRA_CAMERAS: Final = "cameras"
_CHANNELS: Final = (1, 3, 4)
_PATHS: Final = {
    names.COLUMN_ACTION: names.DATASET_ACTIONS,
    names.COLUMN_REWARD: "rewards",
    names.COLUMN_DONE: "dones",
    names.COLUMN_TRUNCATED: "truncated",
}
_PER_EPISODE: Final = (names.COLUMN_TASK_INDEX, names.COLUMN_SUCCESS)


def episodes_of(store: TrajectoryStore) -> Iterator[Episode]:
    """All episodes in order; their columns read the store block by block, while it is open.

    Raises:
        SchemaError: the store has no `action` column, or an image column is neither CHW nor HWC.
    """
    if names.COLUMN_ACTION not in store.columns:
        known = ", ".join(store.columns)
        raise SchemaError(
            "episodes need an action column",
            place=store.path,
            got=known,
            expected="action",
            hint="Convert the recordings or the L2 files: in L2 a motion's actions are its next angles."
            if names.COLUMN_MOTION_ID in store.columns
            else None,
        )
    facts = _Facts.of(store)
    for number in range(store.n_episodes):
        start, stop = store.episodes.rows_of(number)
        columns: dict[str, Column] = {}
        for column in store.columns.values():
            columns.update(_columns(store, column, start, stop))
        yield Episode(
            name=f"{names.DEMO_PREFIX}{number}",
            length=stop - start,
            columns=columns,
            task=facts.task(store, start),
            source_file=facts.text(facts.files, number) or store.path.name,
            source_demo=facts.text(facts.demos, number) or f"{names.DEMO_PREFIX}{number}",
            tag=facts.named(facts.sources, facts.tags, number) or names.Tag.UNKNOWN.value,
            split=facts.split(number),
            success=facts.success_of(number),
            content_sha256=facts.content_of(number),
        )


def camera_names(store: TrajectoryStore, count: int) -> list[str]:
    """Names of the cameras of the `images` column in order: recorded ones, else `camera_0`, ….

    Args:
        store: The store; its manifest may say `cameras=<name>,<name>`.
        count: How many there are.
    """
    said = [n for n in store.extra.get(EXTRA_CAMERAS, "").split(",") if n]
    return said if len(said) == count else [f"camera_{i}" for i in range(count)]


def _columns(
    store: TrajectoryStore, column: ColumnSpec, start: int, stop: int
) -> Iterator[tuple[str, Column]]:
    if column.name in _PER_EPISODE:
        return
    if column.is_image and len(column.shape) >= 3:
        yield from _cameras(store, column, start, stop)
        return
    path = _PATHS.get(column.name, f"{names.GROUP_OBS}/{column.name}")
    shape = (stop - start, *column.shape)
    yield path, FunctionColumn(column.dtype, shape, _reader(store, column.name, start))


def _reader(store: TrajectoryStore, name: str, start: int) -> Callable[[int, int], NDArray[Any]]:
    return lambda a, b: store.read_range(name, start + a, start + b)


def _cameras(
    store: TrajectoryStore, column: ColumnSpec, start: int, stop: int
) -> Iterator[tuple[str, Column]]:
    stacked = len(column.shape) == 4
    frame = column.shape[1:] if stacked else column.shape
    base = FunctionColumn(column.dtype, (stop - start, *column.shape), _reader(store, column.name, start))
    for number in range(column.shape[0] if stacked else 1):
        shape, to_hwc = _hwc(column, frame)
        pick = _Camera(number if stacked else None, to_hwc)
        name = camera_names(store, column.shape[0])[number] if stacked else _camera_of(column.name)
        yield f"{names.GROUP_OBS}/{name}", mapped(base, pick, trailing=shape)


def _camera_of(column: str) -> str:
    return column.removeprefix(f"{names.COLUMN_IMAGES}_")


def _hwc(column: ColumnSpec, frame: tuple[int, ...]) -> tuple[tuple[int, ...], bool]:
    """(H, W, C) of a frame and whether it must be turned from CHW; noeira's layout wins when both fit."""
    if len(frame) == 3 and frame[0] in _CHANNELS:
        return (frame[1], frame[2], frame[0]), True
    if len(frame) == 3 and frame[2] in _CHANNELS:
        return frame, False
    raise SchemaError(
        "an image column holds (C, H, W) or (H, W, C) frames",
        place=column.name,
        got=column.shape,
        expected="C of 1, 3 or 4",
    )


@dataclass(frozen=True, slots=True)
class _Camera:
    number: int | None
    to_hwc: bool

    def __call__(self, rows: NDArray[Any]) -> NDArray[Any]:
        frames = rows if self.number is None else rows[:, self.number]
        return np.ascontiguousarray(frames.transpose(0, 2, 3, 1) if self.to_hwc else frames)


@dataclass(frozen=True, slots=True, eq=False)
class _Facts:
    """Per-episode side tables; None where the store has none."""

    files: list[str] | None
    demos: list[str] | None
    sources: NDArray[Any] | None
    tags: list[str]
    splits: NDArray[Any] | None
    split_names: list[str]
    success: NDArray[Any] | None
    content: NDArray[Any] | None

    @classmethod
    def of(cls, store: TrajectoryStore) -> _Facts:
        have = store.side_tables

        def texts(name: str) -> list[str] | None:
            return store.texts(name) if name in have else None

        def table(name: str) -> NDArray[Any] | None:
            return store.side_table(name) if name in have else None

        return cls(
            texts(names.SIDE_EP_FILE),
            texts(names.SIDE_EP_DEMO),
            table(names.SIDE_EP_SOURCE),
            texts(names.SIDE_SOURCE_TAGS) or [],
            table(names.SIDE_EP_SPLIT),
            texts(names.SIDE_SPLIT_NAMES) or [],
            table(names.SIDE_EP_SUCCESS),
            table(names.SIDE_EP_CONTENT),
        )

    @staticmethod
    def text(values: list[str] | None, episode: int) -> str:
        return values[episode] if values is not None else ""

    @staticmethod
    def named(codes: NDArray[Any] | None, labels: list[str], episode: int) -> str | None:
        code = None if codes is None else int(codes[episode])
        return labels[code] if code is not None and code < len(labels) else None

    def split(self, episode: int) -> str | None:
        found = self.named(self.splits, self.split_names, episode)
        return found if found in set(names.Split) else None

    def success_of(self, episode: int) -> bool | None:
        code = names.SUCCESS_UNKNOWN if self.success is None else int(self.success[episode])
        return None if code == names.SUCCESS_UNKNOWN else bool(code)

    def content_of(self, episode: int) -> str:
        found = "" if self.content is None else bytes(self.content[episode]).hex()
        return found if found.strip("0") else ""

    def task(self, store: TrajectoryStore, row: int) -> str | None:
        column = task_column(store)
        if column is None:
            return None
        index = int(store.read_range(column, row, row + 1).ravel()[0])
        return store.task_text(index) or None
