"""Episodes of an output of any stage as `Episode`s with lazy columns, for looking at.

What is not here: what is made of them, see `report.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core import names
from trajpipe.core.episode import Column, Episode, FunctionColumn
from trajpipe.core.errors import InputError
from trajpipe.core.ledger import Rejection
from trajpipe.core.names import Stage
from trajpipe.demos.reader import DemosFile
from trajpipe.pipeline.report_subject import Reported, Subject
from trajpipe.sources.base import ReadOptions, detect, source
from trajpipe.store.columns import ColumnSpec
from trajpipe.store.reader import TrajectoryStore
from trajpipe.store.views import episode_columns

_CHANNELS: Final = (1, 3, 4)
_UNDECLARED: Final = "quaternion-undeclared"


@dataclass(frozen=True, slots=True)
class Opened:
    """An output opened for looking at.

    Attributes:
        count: Episodes in it, those that cannot be used included.
        episodes: Yields them once, in order; columns are valid until the next one.
        note: What to know of the reading; "" = nothing.
    """

    count: int
    episodes: Callable[[], Iterator[Episode | Rejection]]
    note: str = ""


@contextmanager
def opened(subject: Subject, one: Reported) -> Iterator[Opened]:
    """An output's episodes.

    Raises:
        UnreadableError: it cannot be opened.
        InputError: it breaks a rule of its format as a whole.
    """
    with ExitStack() as stack:
        if one.stage is Stage.DEMOS:
            demos = stack.enter_context(DemosFile(one.path, require_version=False))
            yield Opened(len(demos), demos.episodes)
        elif one.stage is Stage.STORE:
            store = stack.enter_context(TrajectoryStore(one.path))
            yield Opened(store.n_episodes, partial(_of_store, store))
        elif one.stage is Stage.LEROBOT:
            yield _of_source(one.path, "lerobot", ReadOptions())
        else:
            yield _raw(subject, one.path, stack)


def _of_source(path: Path, kind: str, options: ReadOptions) -> Opened:
    reader = source(kind)
    count = len(reader.describe(path, options).episodes)
    return Opened(count, partial(reader.episodes, path, options))


def _raw(subject: Subject, path: Path, stack: ExitStack) -> Opened:
    """A recording through its source; one with undeclared quaternions is shown as it is recorded."""
    kind = subject.kind or detect(path).kind
    try:
        made = _of_source(path, kind, ReadOptions(subject.conventions))
        first = next(made.episodes(), None)
        if not isinstance(first, Rejection) or first.reason != _UNDECLARED:
            return made
    except InputError as error:
        if error.code != _UNDECLARED:
            raise
    demos = stack.enter_context(DemosFile(path, require_version=False))
    note = "quaternions are shown as recorded: their order is not declared (--quaternions)"
    return Opened(len(demos), demos.episodes, note)


def _of_store(store: TrajectoryStore) -> Iterator[Episode]:
    table = episode_columns(store)
    columns = _store_columns(store)

    def said(name: str, episode: int, default: Any) -> Any:
        return table[name][episode] if name in table else default

    for episode in range(store.n_episodes):
        start, length = int(store.ep_offset[episode]), int(store.ep_len[episode])
        name = f"episode {episode}"
        yield Episode(
            name=name,
            length=length,
            columns={n: make(start, length) for n, make in columns.items()},
            success=said("success", episode, None),
            task=said("task", episode, None),
            tag=said("source", episode, "unknown"),
            source_file=said("file", episode, "") or store.path.name,
            source_demo=said("demo", episode, "") or name,
            split=said("split", episode, None),
        )


_Make = Callable[[int, int], Column]


def _store_columns(store: TrajectoryStore) -> dict[str, _Make]:
    """Name → (first row, rows) → column; each camera of `images` becomes a column of its own, HWC."""
    out: dict[str, _Make] = {}
    for name, spec in store.columns.items():
        shape = spec.shape
        if spec.dtype == np.uint8 and len(shape) == 4 and shape[1] in _CHANNELS:
            cameras = _camera_names(store, shape[0])
            for number, camera in enumerate(cameras):
                out[f"{name}/{camera}"] = partial(_frames, store, name, shape[1:], number)
        elif (
            spec.dtype == np.uint8 and len(shape) == 3 and shape[0] in _CHANNELS and shape[2] not in _CHANNELS
        ):
            out[name] = partial(_frames, store, name, shape, None)
        else:
            out[name] = partial(_rows, store, spec)
    return out


def _camera_names(store: TrajectoryStore, count: int) -> list[str]:
    """Names of the cameras of `images`, as the manifest has them."""
    said = [n.rsplit("/", 1)[-1] for n in store.extra.get(names.MANIFEST_CAMERAS, "").split(",") if n]
    return said if len(said) == count == len(set(said)) else [f"camera {i}" for i in range(count)]


def _rows(store: TrajectoryStore, spec: ColumnSpec, start: int, length: int) -> Column:
    def fetch(a: int, b: int) -> NDArray[Any]:
        return store.read_range(spec.name, start + a, start + b)

    return FunctionColumn(spec.dtype, (length, *spec.shape), fetch)


def _frames(
    store: TrajectoryStore, name: str, shape: tuple[int, ...], camera: int | None, start: int, length: int
) -> Column:
    """Frames of one camera, channels last."""

    def fetch(a: int, b: int) -> NDArray[Any]:
        rows = store.read_range(name, start + a, start + b)
        return (rows if camera is None else rows[:, camera]).transpose(0, 2, 3, 1)

    return FunctionColumn(np.dtype(np.uint8), (length, shape[1], shape[2], shape[0]), fetch)
