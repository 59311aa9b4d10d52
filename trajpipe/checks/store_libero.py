"""Rules of a LIBERO suite's store: columns, qpos, motion, images against the raw files, tasks, numbering.

h5py alone. What is not here: the state column's proof with MuJoCo, see `store_libero_physics.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import h5py
import numpy as np
from numpy.typing import NDArray

from trajpipe.checks.registry import Subject, check
from trajpipe.checks.store_reading import opened
from trajpipe.core import jsontext
from trajpipe.core.errors import InputError
from trajpipe.core.findings import Finding, Place, Severity
from trajpipe.hdf5.attributes import plain
from trajpipe.hdf5.open_files import OpenFiles

NEEDS: Final = ("l2", "libero")
_ROWS: Final = 64
_PROPRIOCEPTION: Final = 9
_CAMERAS: Final = ("agentview_rgb", "eye_in_hand_rgb")
_ESCAPED: Final = {"n": "\n", "r": "\r", "t": "\t"}
_DIGITS: Final = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True)
class EpisodeOfStore:
    """One episode of the store and where it came from.

    Attributes:
        number: Index in the store.
        start: First row.
        stop: Row after the last.
        file: Base name of its recording.
        demo: Its name in the recording.
        l2: The L2 file that holds it.
        l2_demo: Its name there.
    """

    number: int
    start: int
    stop: int
    file: str
    demo: str
    l2: Path
    l2_demo: str

    def place(self, store: Path, column: str | None = None, row: int | None = None) -> Place:
        """Where in the store: `row` counts from the store's first."""
        return Place(store.name, f"{self.file}:{self.demo}", column, row)


def episodes_of(subject: Subject) -> list[EpisodeOfStore]:
    """All episodes of the store with their L2 demos, read once per run.

    Raises:
        InputError: an episode's recording and demo are in none of the L2 files.
    """
    found: list[EpisodeOfStore] = subject.fact("libero-episodes", lambda: _episodes(subject))
    return found


def _episodes(subject: Subject) -> list[EpisodeOfStore]:
    origins: dict[tuple[str, str], tuple[Path, str]] = {}
    for path in subject.context["l2"]:
        with opened(Path(path)) as file:
            for name in file["data"]:
                attributes = file["data"][name].attrs
                key = (str(plain(attributes["source_file"])), str(plain(attributes["source_demo"])))
                origins[key] = (Path(path), name)
    out: list[EpisodeOfStore] = []
    with opened(subject.path) as store:
        lengths, offsets = store["ep_len"][()], store["ep_offset"][()]
        files, demos = ([plain(v) for v in store[t][()].tolist()] for t in ("ep_file", "ep_demo"))
    for number, key in enumerate(zip(files, demos, strict=True)):
        if key not in origins:
            raise InputError(
                "an episode is in none of the L2 files", place=subject.path.name, got=":".join(key)
            )
        start = int(offsets[number])
        out.append(EpisodeOfStore(number, start, start + int(lengths[number]), *key, *origins[key]))
    return out


def error(code: str, message: str, place: Place, got: object = None, expected: object = None) -> Finding:
    """An ERROR finding."""
    return Finding(
        code,
        Severity.ERROR,
        message,
        place,
        None if got is None else str(got)[:160],
        None if expected is None else str(expected)[:160],
    )


@check("libero-columns", stage="store", title="Columns, dtypes and widths are the suite's", needs=NEEDS)
def libero_columns(subject: Subject) -> Iterator[Finding]:
    """Exactly `action [state] joint_states gripper_states qpos task_index [images]`."""
    libero = subject.context["libero"]
    wanted: dict[str, tuple[str, tuple[int, ...] | None]] = {
        "action": ("float32", (7,)),
        "joint_states": ("float32", (7,)),
        "gripper_states": ("float32", (2,)),
        "qpos": ("float32", (2 * _PROPRIOCEPTION + len(libero["tasks"]),)),
        "task_index": ("int32", (1,)),
    }
    if libero["state"]:
        wanted["state"] = ("float64", None)
    with opened(subject.path) as store:
        declared = _declared_columns(store)
        wanted |= {"images": ("uint8", None)} if "images" in declared else {}
        place = Place(file=subject.path.name)
        if set(declared) != set(wanted):
            yield error(
                "libero-columns", "other columns than the suite's", place, sorted(declared), sorted(wanted)
            )
        for name, (dtype, trailing) in wanted.items():
            if name not in store:
                continue
            data, where = store[name], Place(subject.path.name, None, name)
            if data.dtype != np.dtype(dtype) or (trailing is not None and data.shape[1:] != trailing):
                got = f"{data.dtype} {data.shape[1:]}"
                yield error("libero-columns", "another dtype or width", where, got, f"{dtype} {trailing}")
        if "images" in store and store["images"].shape[1:3] != (2, 3):
            yield error("libero-columns", "images are (2, 3, H, W)", place, store["images"].shape)
    subject.count(len(declared), len(declared), "columns")


def _declared_columns(store: h5py.File) -> list[str]:
    text = bytes(store["__manifest__"][()]).decode("utf-8")
    lines = [line.strip() for line in text.split("\n")]
    return [line.removeprefix("column=").split(":", 1)[0] for line in lines if line.startswith("column=")]


@check("libero-qpos", stage="store", title="qpos is exactly the concatenation of its parts", needs=NEEDS)
def libero_qpos(subject: Subject) -> Iterator[Finding]:
    """Proprioception, its float32 difference within the episode (zero on the first row), one hot word."""
    rows = 0
    with opened(subject.path) as store:
        for one in episodes_of(subject):
            span = slice(one.start, one.stop)
            qpos, task = store["qpos"][span], store["task_index"][span].reshape(-1)
            now = np.hstack([store["joint_states"][span], store["gripper_states"][span]])
            step = np.vstack([np.zeros((1, _PROPRIOCEPTION), np.float32), np.diff(now, axis=0)])
            hot = np.eye(qpos.shape[1] - 2 * _PROPRIOCEPTION, dtype=np.float32)
            inside = (task >= 0) & (task < len(hot))
            expected = np.hstack([now, step, hot[np.where(inside, task, 0)]])
            bad = np.flatnonzero(~inside | (qpos != expected).any(axis=1))
            rows += len(qpos)
            if len(bad):
                row, word = int(bad[0]), int(np.argmax(qpos[bad[0]] != expected[bad[0]]))
                place = one.place(subject.path, "qpos", one.start + row)
                message = f"word {word} is not the one that its parts give"
                yield error("libero-qpos", message, place, qpos[row, word], expected[row, word])
    subject.count(rows, rows, "rows")


@check("libero-moves", stage="store", title="Something moves in every episode", needs=NEEDS)
def libero_moves(subject: Subject) -> Iterator[Finding]:
    """The arm's joints, and the state where it is stored, change over every episode of two rows or more."""
    checked = 0
    with opened(subject.path) as store:
        columns = [c for c in ("joint_states", "state") if c in store]
        found = episodes_of(subject)
        for one in found:
            if one.stop - one.start < 2:
                continue
            checked += 1
            for column in columns:
                values = store[column][one.start : one.stop]
                if not (values[1:] != values[:-1]).any():
                    place = one.place(subject.path, column)
                    yield error("libero-moves", "nothing moves: every row is the same", place)
    if found and not checked:
        hint = "set `filter: min_length: 2` (or --min-length 2), and record again what is left out"
        message = f"every episode has one row, so nothing can move: {hint}"
        yield error("libero-moves", message, Place(subject.path.name), "1 row in each", "2 rows or more")
    subject.count(checked, len(found), "episodes")


@check("libero-tasks", stage="store", title="The task table says what the recordings say", needs=NEEDS)
def libero_tasks(subject: Subject) -> Iterator[Finding]:
    """Each task's text is the `language_instruction` of `problem_info`, and its index is its name's."""
    tasks, seen = subject.context["libero"]["tasks"], 0
    with opened(subject.path) as store:
        texts = _task_texts(store)
        for path in subject.context["l2"]:
            with opened(Path(path)) as file:
                said = _instruction(file)
                if said is None:
                    continue
                for one in (e for e in episodes_of(subject) if e.l2 == Path(path)):
                    seen += 1
                    index = tasks.index(Path(one.file).stem.removesuffix("_demo"))
                    stored = set(store["task_index"][one.start : one.stop].reshape(-1).tolist())
                    place = one.place(subject.path, "task_index")
                    if stored != {index}:
                        yield error(
                            "libero-tasks", "another task index than the suite's", place, stored, index
                        )
                    if texts.get(index) != said:
                        got = repr(texts.get(index))
                        yield error("libero-tasks", "another text than problem_info", place, got, repr(said))
    subject.count(seen, len(episodes_of(subject)), "episodes")


def _instruction(file: h5py.File) -> str | None:
    text = plain(file["data"].attrs.get("problem_info", ""))
    said = jsontext.loads(text).get("language_instruction") if text else None
    return "".join(said) if isinstance(said, list) else said


def _task_texts(store: h5py.File) -> dict[int, str]:
    """Task index → text, read off the manifest by the five escapes."""
    out: dict[int, str] = {}
    for line in bytes(store["__manifest__"][()]).decode("utf-8").split("\n"):
        if line.startswith("task="):
            index, _, quoted = line.removeprefix("task=").partition("\t")
            plain_text = re.sub(
                r"\\(.)", lambda m: {"n": "\n", "r": "\r", "t": "\t"}.get(m[1], m[1]), quoted[1:-1]
            )
            out[int(index)] = plain_text
    return out


@check("libero-numbering", stage="store", title="Demos of a recording stand in numeric order", needs=NEEDS)
def libero_numbering(subject: Subject) -> Iterator[Finding]:
    """`demo_2` stands before `demo_10`; the demos of one recording are together."""
    last: dict[str, int] = {}
    previous = ""
    found = episodes_of(subject)
    for one in found:
        number = int((_DIGITS.findall(one.demo) or ["0"])[-1])
        place = one.place(subject.path)
        if one.file in last and one.file != previous:
            yield error("libero-numbering", "the demos of a recording are apart", place, one.file)
        if number <= last.get(one.file, -1):
            got, want = number, f"> {last[one.file]}"
            yield error("libero-numbering", "demos are not in numeric order", place, got, want)
        last[one.file], previous = number, one.file
    subject.count(len(found), len(found), "episodes")


@check("libero-images", stage="store", title="Images are the raw frames, top row first", needs=NEEDS)
def libero_images(subject: Subject) -> Iterator[Finding]:
    """Channel plane means equal the raw file's exactly; the first row is the raw's last (opengl).

    Episodes whose raw file is not at hand are counted and left out.
    """
    raw: Mapping[str, str] = subject.context["libero"]["raw"]
    with opened(subject.path) as store, OpenFiles(opened) as files:
        if "images" not in store:
            return
        there = {name: Path(path) for name, path in raw.items() if Path(path).is_file()}
        found, checked = episodes_of(subject), 0
        for one in found:
            if one.file in there:
                checked += 1
                yield from _frames(subject.path, store, files[there[one.file]], one)
        if raw:
            subject.count(checked, len(found), "episodes")


def _frames(path: Path, store: h5py.File, raw: h5py.File, one: EpisodeOfStore) -> Iterator[Finding]:
    data = raw["data"]
    flipped = str(plain(data.attrs.get("macros_image_convention", "opengl"))) == "opengl"
    for camera, name in enumerate(_CAMERAS):
        frames = data[one.demo]["obs"][name]
        for start in range(one.start, one.stop, _ROWS):
            stop = min(start + _ROWS, one.stop)
            stored = store["images"][start:stop, camera]
            recorded = frames[start - one.start : stop - one.start]
            bad = _first_bad_frame(stored, recorded, flipped)
            if bad is not None:
                row, what, got, want = bad
                place = one.place(path, "images", start + row)
                yield error("libero-images", f"camera {name}: {what}", place, got, want)
                break


def _first_bad_frame(
    stored: NDArray[np.uint8], recorded: NDArray[np.uint8], flipped: bool
) -> tuple[int, str, Any, Any] | None:
    """(row, what, got, expected) of the first frame that differs; None when none does."""
    if len(recorded) != len(stored):
        return 0, "the raw file has other rows", len(stored), len(recorded)
    ours = stored.sum(axis=(2, 3), dtype=np.int64)
    theirs = recorded.sum(axis=(1, 2), dtype=np.int64)
    for row in np.flatnonzero((ours != theirs).any(axis=1)):
        pixels = stored.shape[2] * stored.shape[3]
        return (
            int(row),
            "channel means differ",
            (ours[row] / pixels).tolist(),
            (theirs[row] / pixels).tolist(),
        )
    top = recorded[:, -1] if flipped else recorded[:, 0]
    for row in np.flatnonzero((stored[:, :, 0].transpose(0, 2, 1) != top).any(axis=(1, 2))):
        return int(row), "the first row is not the recorded top row", "another row", "the raw file's"
    return None
