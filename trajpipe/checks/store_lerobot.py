"""Rules of a store in a LeRobot set's columns: names and widths, state, tasks, resized frames, norms.

h5py and Pillow alone; nothing of the code that wrote it. What is not here: what any store is (`store`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import h5py
import numpy as np
from numpy.typing import NDArray

from trajpipe.checks.registry import Subject, check
from trajpipe.checks.store_episodes import StoredEpisode, episodes_of, origins
from trajpipe.checks.store_reading import facts_of, opened, step_of
from trajpipe.core import jsontext
from trajpipe.core.findings import Finding, Place, Severity
from trajpipe.hdf5.attributes import attributes_of

NEEDS: Final = ("l2", "lerobot")
LEAST_STD: Final = 1e-2
_TOLERANCE: Final = 1e-5
_FRAMES: Final = 3
_NORMED: Final = ("qpos", "action")
_OWN: Final = re.compile(r"norm_(qpos|action)_(mean|std)")


def _error(code: str, message: str, place: Place, got: object, expected: object = None) -> Finding:
    shown = None if expected is None else str(expected)[:160]
    return Finding(code, Severity.ERROR, message, place, str(got)[:160], shown)


@check(
    "store-lerobot-columns",
    stage="store",
    title="Columns are qpos, action, task_index and images",
    needs=NEEDS,
)
def columns(subject: Subject) -> Iterator[Finding]:
    """Exactly these, of these dtypes; `images` as many as there are cameras, of the declared size."""
    code, wanted = "store-lerobot-columns", subject.context["lerobot"]
    facts = facts_of(subject)
    found = {name: (dtype, trailing) for name, dtype, trailing in facts.columns}
    cameras, size = wanted["cameras"], wanted["size"]
    expected: dict[str, tuple[str, tuple[int, ...] | None]] = {
        "qpos": ("float32", None),
        "action": ("float32", None),
        "task_index": ("int32", (1,)),
    }
    if cameras:
        expected["images"] = ("uint8", (len(cameras), 3, *size))
    for name, (dtype, trailing) in expected.items():
        got = found.get(name)
        if got is None or got[0] != dtype or (trailing is not None and got[1] != trailing):
            place = Place(subject.path.name, column=name)
            yield _error(code, "the column has this dtype and shape", place, got, (dtype, trailing))
    strange = sorted(set(found) - set(expected))
    if strange:
        yield _error(code, "no other column", Place(subject.path.name), ", ".join(strange))
    subject.count(len(expected), len(expected), "columns")


@check(
    "store-lerobot-rows",
    stage="store",
    title="qpos is the state's terms in order, tasks are L2's",
    needs=NEEDS,
)
def rows(subject: Subject) -> Iterator[Finding]:
    """`qpos` bit for bit after the cast to float32, and the text of every row's task."""
    code, terms = "store-lerobot-rows", subject.context["lerobot"]["state"]
    compared = 0
    texts = facts_of(subject).manifest
    with opened(subject.path) as store:
        for episode, demo in _pairs(subject, store):
            place = Place(subject.path.name, episode.name, "qpos")
            got = np.asarray(store["qpos"][episode.start : episode.stop])
            parts = [np.asarray(demo[t][()]).reshape(len(got), -1) for t in terms]
            with np.errstate(over="ignore"):
                expected = np.concatenate(parts, axis=1).astype(np.float32)
            compared += len(got)
            found = _difference(code, got, expected, place)
            if found is not None:
                yield found
            said = np.asarray(store["task_index"][episode.start : episode.stop]).reshape(-1)
            known = {} if texts is None else texts.tasks
            read = [known.get(int(i), b"").decode("utf-8", "surrogateescape") for i in said]
            yield from _tasks(code, read, _own_tasks(demo, len(read)), place)
        total = facts_of(subject).n_rows
    subject.count(compared, total, "rows")


def _difference(code: str, got: NDArray[Any], expected: NDArray[Any], place: Place) -> Finding | None:
    if got.shape != expected.shape or got.dtype != expected.dtype:
        wanted = (expected.dtype, expected.shape)
        return _error(code, "rows have the terms' width", place, (got.dtype, got.shape), wanted)
    differs = np.ascontiguousarray(got).view(np.uint32) != np.ascontiguousarray(expected).view(np.uint32)
    if not differs.any():
        return None
    row, column = (int(i) for i in np.argwhere(differs)[0])
    where = Place(place.file, place.demo, place.column, row)
    message = f"{int(differs.sum())} values differ from L2; the first in dimension {column}"
    return _error(code, message, where, repr(got[row, column].item()), repr(expected[row, column].item()))


def _own_tasks(demo: h5py.Group, length: int) -> list[str]:
    """The task of each row of an L2 demo."""
    attributes = attributes_of(demo)
    if "task_index" not in demo or "tasks" not in attributes:
        return [str(attributes.get("task", ""))] * length
    texts = jsontext.loads(str(attributes["tasks"]).encode(), place=str(demo.name))
    return [texts[int(i)] for i in np.asarray(demo["task_index"][()]).reshape(-1)]


def _tasks(code: str, got: list[str], expected: list[str], place: Place) -> Iterator[Finding]:
    wrong = [i for i, (a, b) in enumerate(zip(got, expected, strict=True)) if a != b]
    if wrong:
        where = Place(place.file, place.demo, "task_index", wrong[0])
        message = f"{len(wrong)} rows have another task than in L2"
        yield _error(code, message, where, repr(got[wrong[0]]), repr(expected[wrong[0]]))


def _pairs(subject: Subject, store: h5py.File) -> Iterator[tuple[StoredEpisode, h5py.Group]]:
    """Episodes with their L2 demos, which are open until the next pair; unmatched ones are not yielded."""
    known = subject.fact("l2-origins", lambda: origins([Path(p) for p in subject.context["l2"]]))
    episodes = subject.fact("stored-episodes", lambda: episodes_of(store, subject.path.name))
    by_file: dict[Path, list[tuple[StoredEpisode, str]]] = {}
    for episode in episodes:
        if episode.key in known:
            path, name = known[episode.key]
            by_file.setdefault(path, []).append((episode, name))
    for path, found in by_file.items():
        with opened(path) as demos:
            for episode, name in found:
                yield episode, demos["data"][name]


@check("store-lerobot-images", stage="store", title="Frames are L2's, resized as Pillow does", needs=NEEDS)
def images(subject: Subject) -> Iterator[Finding]:
    """First, middle and last frame of every episode and camera, every pixel."""
    code, wanted = "store-lerobot-images", subject.context["lerobot"]
    cameras = wanted["cameras"]
    if not cameras:
        return
    compared = 0
    with opened(subject.path) as store:
        for episode, demo in _pairs(subject, store):
            length = episode.stop - episode.start
            for row in sorted({int(i) for i in np.linspace(0, length - 1, _FRAMES)}):
                stored = np.asarray(store["images"][episode.start + row])
                for number, camera in enumerate(cameras):
                    expected = _resized(np.asarray(demo[camera][row]), wanted["size"])
                    compared += 1
                    if not np.array_equal(stored[number], expected):
                        place = Place(subject.path.name, episode.name, camera, row)
                        off = int(np.abs(stored[number].astype(int) - expected).max())
                        yield _error(code, "the frame differs from L2's", place, f"off by up to {off}", "0")
    subject.count(compared, compared or facts_of(subject).n_rows, "frames")


def _resized(frame: NDArray[np.uint8], size: Sequence[int]) -> NDArray[np.uint8]:
    """(H, W, C) → (3, height, width)."""
    from PIL import Image

    colour = np.repeat(frame, 3, axis=-1) if frame.shape[-1] == 1 else frame[..., :3]
    picture = Image.fromarray(np.ascontiguousarray(colour))
    if colour.shape[:2] != tuple(size):
        picture = picture.resize((int(size[1]), int(size[0])), Image.Resampling.BILINEAR)
    return np.moveaxis(np.asarray(picture), 2, 0)


@check(
    "store-lerobot-norms",
    stage="store",
    title="norm_* tables are mean and deviation of the rows",
    needs=NEEDS,
)
def norms(subject: Subject) -> Iterator[Finding]:
    """Two passes in float64; the deviation is the sample's, at least 0.01."""
    code = "store-lerobot-norms"
    with opened(subject.path) as store:
        for column in _NORMED:
            mean, std = _moments(store[column])
            expected = {"mean": mean, "std": np.maximum(std, LEAST_STD)}
            for kind, values in expected.items():
                name = f"norm_{column}_{kind}"
                place = Place(subject.path.name, column=name)
                if name not in store:
                    yield _error(code, "the side table is there", place, "missing", values.shape)
                    continue
                got = np.asarray(store[name][()], np.float64)
                scale = np.maximum(np.abs(values), std)
                if got.shape != values.shape or not (np.abs(got - values) <= _TOLERANCE * scale + 1e-7).all():
                    yield _error(code, "the side table is what the rows give", place, got[:3], values[:3])
        strange = [n for n in sorted(store) if n.startswith("norm_") and not _OWN.fullmatch(n)]
    if strange:
        yield _error(code, "no other norm tables", Place(subject.path.name), ", ".join(strange))
    subject.count(4, 4, "tables")


def _moments(dataset: h5py.Dataset) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    step, total = step_of(dataset), int(dataset.shape[0])
    mean = np.zeros(dataset.shape[1], np.float64)
    squares = np.zeros_like(mean)
    for start in range(0, total, step):
        mean += np.asarray(dataset[start : start + step], np.float64).sum(axis=0)
    mean /= max(1, total)
    for start in range(0, total, step):
        squares += ((np.asarray(dataset[start : start + step], np.float64) - mean) ** 2).sum(axis=0)
    return mean, np.sqrt(squares / max(1, total - 1))
