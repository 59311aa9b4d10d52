"""The store of a LeRobot set in noeira's columns: `qpos`, `action`, `task_index`, `images`, and their norms.

Names, dtypes and the image size are those of noeira's importer. What is not here: reading LeRobot folders
(`trajpipe.sources.lerobot`), proof (`trajpipe.checks.store_lerobot`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core import atomic, names
from trajpipe.core.episode import Column, Episode, is_image, whole
from trajpipe.core.errors import SchemaError
from trajpipe.core.findings import Place
from trajpipe.core.order import natural_sorted
from trajpipe.demos.reader import DemosFile
from trajpipe.pipeline.row_tasks import own_tasks
from trajpipe.pipeline.store_plan import LeRobotOptions, StorePlan
from trajpipe.store import ColumnSpec, TrajectoryStoreWriter

LEAST_STD: Final = 1e-2
_OBS: Final = names.GROUP_OBS + "/"
_NORMED: Final = (names.COLUMN_QPOS, names.COLUMN_ACTION)
_BLOCK_BYTES: Final = 8 << 20
_ROOM: Final = 1 << 20


@dataclass(slots=True)
class Moments:
    """Mean and sum of squared distances of rows, merged block by block in float64.

    Attributes:
        count: Rows so far.
        mean: (n,).
        squares: (n,) sum of (row - mean)².
    """

    count: int = 0
    mean: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    squares: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    def add(self, rows: NDArray[Any]) -> None:
        """Take (k, n) rows in."""
        values = rows.astype(np.float64)
        mean = values.mean(axis=0)
        squares = ((values - mean) ** 2).sum(axis=0)
        if not self.count:
            self.count, self.mean, self.squares = len(rows), mean, squares
            return
        total, shift = self.count + len(rows), mean - self.mean
        self.squares = self.squares + squares + shift**2 * (self.count * len(rows) / total)
        self.mean = self.mean + shift * (len(rows) / total)
        self.count = total

    def std(self) -> NDArray[np.float64]:
        """Sample standard deviation (n,), at least 1e-2; a column that never moves would divide by zero."""
        return np.maximum(np.sqrt(self.squares / max(1, self.count - 1)), LEAST_STD)


class LeRobotLayout:
    """Columns of a LeRobot set's store.

    Attributes:
        env_id: The plan's, else the first L2 file's env_name.
        tasks: Empty: tasks are numbered in order of appearance.
        terms: L2 paths that `qpos` concatenates, in order.
        cameras: L2 paths of the cameras, sorted by name.
    """

    tasks: Sequence[str] = ()
    cap_attribute = names.ATTR_TASK
    rate = None

    def __init__(self, plan: StorePlan, options: LeRobotOptions) -> None:
        """Look at the first L2 file, and whether all rows have room on the disk.

        Raises:
            SchemaError: there is no state, or a declared term is absent.
            DiskSpaceError: the store's rows may need more than is free.
        """
        self._plan, self._options = plan, options
        self._moments = {name: Moments() for name in _NORMED}
        with DemosFile(plan.inputs[0]) as first:
            episode = next(iter(first.episodes()))
            self.env_id = plan.env_id or str(first.env_args.get("env_name", plan.dataset))
            self.terms = state_paths(episode, plan, first.recipe)
            self.cameras = _cameras(episode, plan)
            self._widths = {p: _width(episode, p, plan.inputs[0].name) for p in self.terms}
            self._action = int(episode.columns[names.DATASET_ACTIONS].shape[1])
            self._size = options.size or self._own_size(episode)
        self._require_room()

    def _own_size(self, episode: Episode) -> tuple[int, int] | None:
        """The cameras' own size; None without cameras.

        Raises:
            SchemaError: they differ.
        """
        sizes = {tuple(int(n) for n in episode.columns[p].shape[1:3]) for p in self.cameras}
        if len(sizes) > 1:
            hint = "Set `store: image_size: [240, 320]` to resize them."
            raise SchemaError("cameras of one store have one size", got=sorted(sizes), hint=hint)
        return next(((h, w) for h, w in sizes), None)

    def _require_room(self) -> None:
        rows = 0
        for path in self._plan.inputs:
            with DemosFile(path) as demos:
                rows += demos.total
        width = sum(int(np.prod(s.shape, dtype=np.int64)) * s.dtype.itemsize for s in self.specs())
        atomic.require_space(self._plan.target.parent, rows * width + _ROOM, what=self._plan.target.name)

    def specs(self) -> Sequence[ColumnSpec]:
        """The columns, in order."""
        f4 = np.dtype(np.float32)
        out = [
            ColumnSpec(names.COLUMN_QPOS, f4, (sum(self._widths.values()),)),
            ColumnSpec(names.COLUMN_ACTION, f4, (self._action,)),
            ColumnSpec(names.COLUMN_TASK_INDEX, np.dtype(np.int32), (1,)),
        ]
        if self.cameras and self._size is not None:
            own = self._plan.column_compression.get(names.COLUMN_IMAGES, self._plan.compression)
            shape = (len(self.cameras), 3, *self._size)
            out.append(ColumnSpec(names.COLUMN_IMAGES, np.dtype(np.uint8), shape, compression=own))
        return out

    def append(self, writer: TrajectoryStoreWriter, episode: Episode, file: str) -> None:
        """Append all columns of an episode; images block by block.

        Raises:
            SchemaError: a term or camera is absent or of another width; names file and demo.
        """
        for path in (*self.terms, *self.cameras):
            if path not in episode.columns:
                place = Place(file, episode.name, path)
                raise SchemaError("all episodes have the first one's terms", place=place, got="no such term")
        rows = {
            names.COLUMN_QPOS: self._qpos(episode, file),
            names.COLUMN_ACTION: whole(episode.columns[names.DATASET_ACTIONS]).astype(np.float32),
        }
        for name, values in rows.items():
            self._moments[name].add(values)
            writer.append(name, values)
        writer.append(names.COLUMN_TASK_INDEX, _task_rows(writer, episode))
        if self.cameras and self._size is not None:
            for block in self._images(episode, self._size):
                writer.append(names.COLUMN_IMAGES, block)

    def _qpos(self, episode: Episode, file: str) -> NDArray[np.float32]:
        out = np.empty((episode.length, sum(self._widths.values())), np.float32)
        start = 0
        for path, width in self._widths.items():
            if _width(episode, path, file) != width:
                place = Place(file, episode.name, path)
                raise SchemaError("a term has one width", place=place, got=episode.columns[path].shape[1:])
            out[:, start : start + width] = whole(episode.columns[path]).reshape(episode.length, -1)
            start += width
        return out

    def _images(self, episode: Episode, size: tuple[int, int]) -> Iterator[NDArray[np.uint8]]:
        """Blocks (n, n_cameras, 3, H, W), each frame resized by Pillow's bilinear filter."""
        columns = [episode.columns[p] for p in self.cameras]
        step = max(1, _BLOCK_BYTES // (len(columns) * 3 * size[0] * size[1]))
        for start in range(0, episode.length, step):
            stop = min(start + step, episode.length)
            out = np.empty((stop - start, len(columns), 3, *size), np.uint8)
            for number, column in enumerate(columns):
                for row, picture in enumerate(column.read(start, stop)):
                    out[row, number] = resized(picture, size).transpose(2, 0, 1)
            yield out

    def side_tables(self) -> Mapping[str, Any]:
        """Mean and standard deviation of `qpos` and `action`, float32 (n,)."""
        out: dict[str, Any] = {}
        for name, moments in self._moments.items():
            out[f"norm_{name}_mean"] = moments.mean.astype(np.float32)
            out[f"norm_{name}_std"] = moments.std().astype(np.float32)
        return out

    def check_context(self) -> Mapping[str, Any]:
        """Column → L2 paths; `qpos` and `images` are derived, and have rules of their own."""
        return {
            "columns": {names.COLUMN_ACTION: [names.DATASET_ACTIONS]},
            "lerobot": {"state": list(self.terms), "cameras": list(self.cameras), "size": self._size},
        }


def state_paths(episode: Episode, plan: StorePlan, recipe: Mapping[str, Any]) -> tuple[str, ...]:
    """L2 paths of the state, in order: declared, else what `observation.state` was, else every 1-D term.

    Args:
        episode: Any episode.
        plan: `terms` names them in order; patterns choose among the others in natural order.
        recipe: The L2 file's recipe.

    Raises:
        SchemaError: nothing is left, or a declared name is absent.
    """
    read = recipe.get("read")
    recorded = read.get("state") if isinstance(read, Mapping) else None
    flat = [p for p in natural_sorted(episode.columns) if p.startswith(_OBS) and _is_flat(episode.columns[p])]
    if plan.terms is not None:
        found = [p for t in plan.terms for p in flat if fnmatchcase(p.removeprefix(_OBS), t)]
        lost = [t for t in plan.terms if not any(fnmatchcase(p.removeprefix(_OBS), t) for p in flat)]
    else:
        found = [str(p) for p in recorded] if isinstance(recorded, list) and recorded else flat
        lost = [p for p in found if p not in episode.columns]
    if lost or not found:
        raise SchemaError(
            "a LeRobot store needs the state's terms",
            place=Place(plan.inputs[0].name, episode.name),
            got=f"no {', '.join(lost)}" if lost else "no one-dimensional term",
            expected=f"some of {', '.join(p.removeprefix(_OBS) for p in flat)}",
            hint="Name them in order with `store: terms:`.",
            code="term-missing",
        )
    return tuple(dict.fromkeys(found))


def _is_flat(column: Column) -> bool:
    return len(column.shape) <= 2 and column.dtype.kind in "buif"


def _width(episode: Episode, path: str, file: str) -> int:
    column = episode.columns[path]
    if not _is_flat(column):
        place = Place(file, episode.name, path)
        raise SchemaError("a state term is (T,) or (T, n)", place=place, got=column.shape)
    return 1 if len(column.shape) == 1 else int(column.shape[1])


def _cameras(episode: Episode, plan: StorePlan) -> tuple[str, ...]:
    return tuple(sorted(p for p, c in episode.columns.items() if is_image(c) and plan.wants(p, c)))


def _task_rows(writer: TrajectoryStoreWriter, episode: Episode) -> NDArray[np.int32]:
    """(T, 1): the store's number of each row's task."""
    texts = own_tasks(episode)
    if texts is None:
        return np.full((episode.length, 1), writer.add_task(episode.task or ""), np.int32)
    numbers = np.array([writer.add_task(text) for text in texts], np.int32)
    return numbers[whole(episode.columns[names.COLUMN_TASK_INDEX]).astype(np.int64).reshape(-1, 1)]


def resized(picture: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    """A frame (H, W, 1|3|4) as RGB of another size (height, width), exactly as Pillow resizes."""
    from PIL import Image

    if picture.shape[-1] == 1:
        picture = np.repeat(picture, 3, axis=-1)
    picture = picture[..., :3]
    if picture.shape[:2] == size:
        return picture
    image = Image.fromarray(np.ascontiguousarray(picture))
    return np.asarray(image.resize((size[1], size[0]), Image.Resampling.BILINEAR), np.uint8)
