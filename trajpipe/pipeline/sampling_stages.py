"""Opening L2 files, stores and LeRobot folders as `EpisodeSet`s, so that one sample fits all stages.

What is not here: what is sampled, see `sampling`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core import names
from trajpipe.core.conventions import ActionConvention
from trajpipe.core.episode import ArrayColumn, Column, FunctionColumn
from trajpipe.core.names import Stage
from trajpipe.demos.reader import DemosFile
from trajpipe.pipeline.sampling import EpisodeSet, labels
from trajpipe.pipeline.sampling_video import frame_near
from trajpipe.sources.lerobot_folder import LeRobotMeta, read_meta
from trajpipe.sources.lerobot_index import index_rows
from trajpipe.sources.lerobot_parquet import RowReader
from trajpipe.store import TrajectoryStore
from trajpipe.store.rate import own_rate

_OBS: Final = f"{names.GROUP_OBS}/"
_BOOKKEEPING: Final = (
    names.COLUMN_REWARD,
    names.COLUMN_DONE,
    names.COLUMN_TRUNCATED,
    names.COLUMN_TASK_INDEX,
    names.COLUMN_SUCCESS,
    names.COLUMN_MOTION_ID,
    "timestamp",
    "frame_index",
    "episode_index",
    "index",
    "next.reward",
    "next.done",
    "next.success",
)


@contextmanager
def opened(stage: Stage, path: Path) -> Iterator[EpisodeSet]:
    """An output of a stage, open.

    Args:
        stage: `demos`, `store` or `lerobot`.
        path: The output; of a folder of stores the first is taken.

    Raises:
        TrajpipeError: it cannot be opened, or is not of that stage.
    """
    if stage is Stage.DEMOS:
        with DemosFile(path, require_version=False) as demos:
            yield _Demos(demos)
    elif stage is Stage.STORE:
        with TrajectoryStore(first_store(path)) as store:
            yield _Store(store)
    else:
        yield _LeRobot(read_meta(path))


def first_store(path: Path) -> Path:
    """The store itself, or the first of a folder of stores, one per scene family."""
    return min(path.glob("*" + names.SUFFIX_STORE)) if path.is_dir() else path


class _Demos:
    """An L2 file."""

    action = names.DATASET_ACTIONS

    def __init__(self, file: DemosFile) -> None:
        self._file = file
        self.lengths = np.array(file.lengths, np.int64)
        self.fps = None if file.fps is None else float(file.fps)

    def label(self, episode: int) -> str:
        return self._file.demos[episode]

    def columns(self, episode: int) -> Mapping[str, Column]:
        """Actions and obs; of a recording without obs, the simulator's states."""
        found = self._file.episode(self._file.demos[episode]).columns
        obs = {n: c for n, c in found.items() if n == self.action or n.startswith(_OBS)}
        return obs if len(obs) > 1 else {n: c for n, c in found.items() if n.split("/", 1)[0] != "rewards"}

    def dimensions(self, column: str, width: int) -> Sequence[str]:
        return labels(column, width)


class _Store:
    """A trajectory store."""

    action = names.COLUMN_ACTION

    def __init__(self, store: TrajectoryStore) -> None:
        self._store = store
        self.lengths = np.asarray(store.ep_len, np.int64)
        rate = own_rate(store)
        self.fps = None if rate is None else float(rate)

    def label(self, episode: int) -> str:
        return f"episode {episode}"

    def columns(self, episode: int) -> Mapping[str, Column]:
        start, stop = self._store.episodes.rows_of(episode)
        out: dict[str, Column] = {}
        for name, spec in self._store.columns.items():
            shape, dtype = (stop - start, *spec.shape), np.dtype(spec.dtype)
            read = partial(self._read, name, start)
            if dtype == np.uint8 and len(shape) in (4, 5):
                out |= dict(self._cameras(name, read, shape))
            elif name not in _BOOKKEEPING:
                out[name] = FunctionColumn(dtype, shape, read)
        return out

    def dimensions(self, column: str, width: int) -> Sequence[str]:
        return labels(column, width)

    def _read(self, name: str, first: int, start: int, stop: int) -> NDArray[Any]:
        return self._store.read_range(name, first + start, first + stop)

    def _cameras(self, name: str, read: Any, shape: tuple[int, ...]) -> Iterator[tuple[str, Column]]:
        """Frames (T, C, H, W) or (T, n_cam, C, H, W) as columns (T, H, W, C)."""
        if len(shape) == 4:
            turned = (shape[0], shape[2], shape[3], shape[1])
            yield (
                name,
                FunctionColumn(np.dtype(np.uint8), turned, lambda a, b: read(a, b).transpose(0, 2, 3, 1)),
            )
            return
        known = [c for c in self._store.extra.get(names.MANIFEST_CAMERAS, "").split(",") if c]
        turned = (shape[0], shape[3], shape[4], shape[2])
        for camera in range(shape[1]):

            def one(a: int, b: int, camera: int = camera) -> NDArray[Any]:
                return np.asarray(read(a, b)[:, camera].transpose(0, 2, 3, 1))

            label = known[camera] if len(known) == shape[1] else f"{name} {camera}"
            yield label, FunctionColumn(np.dtype(np.uint8), turned, one)


class _LeRobot:
    """A LeRobot folder; a v2 episode's rows are its file's, a v3 episode's are looked up."""

    action = "action"

    def __init__(self, meta: LeRobotMeta) -> None:
        self._meta = meta
        self.lengths = np.array([e.length for e in meta.episodes], np.int64)
        self.fps = float(meta.fps)
        self._spans = index_rows(meta).spans if meta.layout == "v3" else {}
        # a camera may be declared without any file, of which the checks tell
        self._filmed = {
            name
            for name, feature in meta.features.items()
            if feature.get("dtype") == "video"
            and any(meta.video_file(name, episode).is_file() for episode in meta.episodes)
        }

    def label(self, episode: int) -> str:
        return f"episode {self._meta.episodes[episode].index}"

    def columns(self, episode: int) -> Mapping[str, Column]:
        one = self._meta.episodes[episode]
        out: dict[str, Column] = {}
        wanted = []
        for name, feature in self._meta.features.items():
            if feature.get("dtype") == "video":
                if name not in self._filmed:
                    continue
                height, width = _size(feature)
                read = partial(self._frames, name, episode)
                out[name] = FunctionColumn(np.dtype(np.uint8), (one.length, height, width, 3), read)
            elif str(feature.get("dtype")).startswith("float") and name not in _BOOKKEEPING:
                wanted.append(name)
        span = self._spans.get(one.index)
        path, start = (self._meta.data_file(one), 0) if span is None else (span.path, span.start)
        reader = RowReader(path, self._meta.relative(path))
        try:
            table = reader.read(wanted, start, start + one.length)
            for name in wanted:
                rows = np.array(table[name].to_pylist(), np.float32)
                out[name] = ArrayColumn(rows)
        finally:
            reader.close()
        return out

    def _frames(self, camera: str, episode: int, start: int, stop: int) -> NDArray[np.uint8]:
        one = self._meta.episodes[episode]
        path, first = self._meta.video_file(camera, one), self._meta.first_frame(camera, one)
        return np.stack([frame_near(path, first + row, self._meta.fps) for row in range(start, stop)])

    def dimensions(self, column: str, width: int) -> Sequence[str]:
        said = self._meta.features.get(column, {}).get("names")
        if isinstance(said, list) and len(said) == width and all(isinstance(n, str) for n in said):
            return said
        return labels(column, width)


def _size(feature: Mapping[str, Any]) -> tuple[int, int]:
    """Height and width that info.json declares; frames are drawn as they are."""
    shape, said = feature.get("shape"), feature.get("names")
    if isinstance(shape, list) and len(shape) == 3:
        return (
            (shape[1], shape[2])
            if isinstance(said, list) and said[:1] == ["channels"]
            else (shape[0], shape[1])
        )
    return (1, 1)


def declared_action(demos: Path) -> ActionConvention:
    """What an L2 file's recipe declares of its actions; nothing declared in a file of others.

    Raises:
        TrajpipeError: it cannot be opened.
    """
    with DemosFile(demos, require_version=False) as file:
        options = file.recipe.get("options")
    conventions = options.get("conventions") if isinstance(options, Mapping) else None
    action = conventions.get("action") if isinstance(conventions, Mapping) else None
    if not isinstance(action, Mapping):
        return ActionConvention()
    low, high = (_bounds(action.get(side)) for side in ("low", "high"))
    meaning = action.get("meaning")
    return ActionConvention(meaning=meaning if meaning in ("delta", "absolute") else None, low=low, high=high)


def _bounds(value: Any) -> tuple[float, ...] | None:
    numbers = isinstance(value, list) and value and all(isinstance(v, (int, float)) for v in value)
    return tuple(float(v) for v in value) if numbers else None
