"""Which columns the generic store of a dataset has, and their rows from L2 episodes.

What is not here: writing the store, see `build_store.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core import names
from trajpipe.core.episode import Column, Episode, is_image, to_channels_first, whole_chunks
from trajpipe.core.errors import SchemaError
from trajpipe.core.findings import Place
from trajpipe.demos.reader import DemosFile
from trajpipe.pipeline.store_plan import StorePlan

_OBS: Final = names.GROUP_OBS + "/"
_BLOCK_BYTES: Final = 5 << 20
_THREADS: Final = 2
_COLUMN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_TAKEN: Final = frozenset(
    {
        names.COLUMN_ACTION,
        names.COLUMN_REWARD,
        names.COLUMN_DONE,
        names.COLUMN_TRUNCATED,
        names.COLUMN_TASK_INDEX,
        names.COLUMN_SUCCESS,
        names.COLUMN_IMAGES,
        *names.STORE_RESERVED,
    }
)
_RECORDED: Final = {
    "rewards": names.COLUMN_REWARD,
    "dones": names.COLUMN_DONE,
    "truncated": names.COLUMN_TRUNCATED,
}


@dataclass(frozen=True, slots=True)
class ColumnSource:
    """Where a store column comes from.

    Attributes:
        name: Column name.
        paths: L2 paths; several for `images` (one per camera, sorted by name).
        dtype: Element type in the store.
        trailing: Shape without the row axis; images are (n_cam, C, H, W) or (C, H, W).
        image: True for cameras (HWC → CHW).
    """

    name: str
    paths: tuple[str, ...]
    dtype: np.dtype[Any]
    trailing: tuple[int, ...]
    image: bool = False


def columns_of(plan: StorePlan) -> list[ColumnSource]:
    """The columns of a plan, from the first episode of the first L2 file; all others must agree.

    Raises:
        SchemaError: a column's name is not allowed, or two get one name.
    """
    with DemosFile(plan.inputs[0]) as first:
        episode = next(iter(first.episodes()))
        found = [_action(episode), *_terms(episode, plan), *_cameras(episode, plan), *_recorded(episode)]
    _require_matches(episode, plan)
    seen: set[str] = set()
    for column in found:
        if column.name in seen or not _COLUMN_NAME.fullmatch(column.name):
            raise SchemaError(
                "a store column needs a name of its own",
                place=Place(file=plan.inputs[0].name, column=", ".join(column.paths)),
                got=column.name,
                expected="letters, digits, _ and . (no leading digit), used once",
                hint="Rename the term with `terms:` in the catalogue, or pass --rename KEY=TERM.",
            )
        seen.add(column.name)
    return found


def _require_matches(episode: Episode, plan: StorePlan) -> None:
    """Every name or pattern of `terms` and `cameras` is that of a term that is there."""
    flat = {p.removeprefix(_OBS): c for p, c in episode.columns.items() if p.startswith(_OBS)}
    for chosen, image in ((plan.terms, False), (plan.cameras if plan.images else None, True)):
        there = sorted(t for t, c in flat.items() if "/" not in t and is_image(c) is image)
        lost = [pattern for pattern in chosen or () if not any(fnmatchcase(t, pattern) for t in there)]
        if lost:
            raise SchemaError(
                f"no {'camera' if image else 'term'} of this name",
                place=plan.inputs[0].name,
                got=", ".join(lost),
                expected=f"one of {', '.join(there)}" if there else "none is recorded",
                code="no-such-term",
            )


def _action(episode: Episode) -> ColumnSource:
    actions = episode.columns[names.DATASET_ACTIONS]
    return ColumnSource(
        names.COLUMN_ACTION, (names.DATASET_ACTIONS,), np.dtype(np.float32), actions.shape[1:]
    )


def _terms(episode: Episode, plan: StorePlan) -> Iterator[ColumnSource]:
    """Flat low-dimensional obs terms; the flat `states` where a recording has no obs at all."""
    chosen = [p for p in sorted(episode.columns) if plan.wants(p, episode.columns[p])]
    if not any(p.startswith(_OBS) for p in episode.columns) and "states" in episode.columns:
        chosen = ["states"]
    for path in chosen:
        column, term = episode.columns[path], path.removeprefix(_OBS)
        if not is_image(column):
            name = term if term not in _TAKEN else f"obs_{term}"
            yield ColumnSource(name, (path,), _store_dtype(column, name, plan), column.shape[1:])


def _store_dtype(column: Column, name: str, plan: StorePlan) -> np.dtype[Any]:
    if column.dtype == np.bool_:
        return np.dtype(np.uint8)
    narrow = column.dtype == np.float64 and any(fnmatchcase(name, pattern) for pattern in plan.float32)
    return np.dtype(np.float32) if narrow or column.dtype == np.float16 else column.dtype


def _cameras(episode: Episode, plan: StorePlan) -> Iterator[ColumnSource]:
    """Cameras of one size as one `images` column sorted by name; of different sizes one column each."""
    cameras = [p for p, c in sorted(episode.columns.items()) if is_image(c) and plan.wants(p, c)]
    sizes = {p: (s[3], s[1], s[2]) for p in cameras for s in [episode.columns[p].shape]}
    kind = np.dtype(np.uint8)
    if cameras and len(set(sizes.values())) == 1:
        shape = (len(cameras), *sizes[cameras[0]])
        yield ColumnSource(names.COLUMN_IMAGES, tuple(cameras), kind, shape, image=True)
        return
    for path in cameras:
        name = f"{names.COLUMN_IMAGES}_{path.removeprefix(_OBS)}"
        yield ColumnSource(name, (path,), kind, sizes[path], image=True)


def _recorded(episode: Episode) -> Iterator[ColumnSource]:
    for path, name in _RECORDED.items():
        if path in episode.columns and len(episode.columns[path].shape) == 1:
            kind = np.float32 if name == names.COLUMN_REWARD else np.uint8
            yield ColumnSource(name, (path,), np.dtype(kind), ())


def agree(episode: Episode, columns: list[ColumnSource], plan: StorePlan, file: str) -> None:
    """Every episode has the first one's columns, no wanted term more, and the same widths.

    Raises:
        SchemaError: it has not; the message names both files.
    """
    wanted, first = {p for c in columns for p in c.paths}, plan.inputs[0].name
    present = {p for p, c in episode.columns.items() if plan.wants(p, c)}
    missing, extra = sorted(wanted - set(episode.columns)), sorted(present - wanted)
    if missing or extra:
        lacks = f"{file} lacks {', '.join(missing)}" if missing else f"{first} lacks {', '.join(extra)}"
        raise SchemaError(
            "all L2 files of a dataset have the same terms",
            place=Place(file=file, demo=episode.name),
            got=lacks,
            expected=f"the terms of {first}",
            hint="Rename with `terms:` of the raw entry (--rename KEY=TERM), or choose with `store: terms:`.",
            code="term-missing",
        )
    for column in columns:
        for path in column.paths:
            _same_width(episode, column, path, file)


def _same_width(episode: Episode, column: ColumnSource, path: str, file: str) -> None:
    shape = episode.columns[path].shape[1:]
    wanted = column.trailing
    if column.image:
        channels, height, width = wanted[-3:]
        wanted = (height, width, channels)
    if shape != wanted:
        raise SchemaError(
            "a term has one shape in all episodes",
            place=Place(file=file, demo=episode.name, column=path),
            got=shape,
            expected=wanted,
        )


def rows_of(episode: Episode, column: ColumnSource) -> Iterator[NDArray[Any]]:
    """Blocks of a column's rows in the store's dtype and layout."""
    row_bytes = int(np.prod(column.trailing, dtype=np.int64)) * column.dtype.itemsize
    step = whole_chunks(max(1, _BLOCK_BYTES // max(1, row_bytes)))
    for start in range(0, episode.length, step):
        stop = min(start + step, episode.length)
        parts = [episode.columns[p] for p in column.paths]
        if column.image:
            yield stacked(parts, (start, stop), column.trailing)
        else:
            yield _cast(parts[0].read(start, stop), column.dtype)


def _cast(rows: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    return rows if rows.dtype == dtype else rows.astype(dtype)


def stacked(cameras: Sequence[Column], rows: tuple[int, int], trailing: tuple[int, ...]) -> NDArray[np.uint8]:
    """Frames (n, H, W, C) of each camera as (n, [n_cam,] C, H, W), contiguous; a thread a camera.

    Args:
        cameras: All of one size.
        rows: First row, and one behind the last.
        trailing: Shape of a row in the store.
    """
    out = np.empty((rows[1] - rows[0], *trailing), np.uint8)

    def fill(number: int) -> None:
        to_channels_first(cameras[number].read(*rows), out[:, number] if len(trailing) == 4 else out)

    with ThreadPoolExecutor(_THREADS, thread_name_prefix="stack") as threads:
        list(threads.map(fill, range(len(cameras))))
    return out
