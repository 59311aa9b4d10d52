"""Reading a motion store and its L2 motions with h5py alone, one clip at a time, for the checks.

What is not here: what the rows must be, see `motion_reference.py`; the rules, see `store_lafan.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import h5py
import numpy as np
from numpy.typing import NDArray

from trajpipe.checks.registry import Subject
from trajpipe.checks.store_reading import opened
from trajpipe.core import jsontext
from trajpipe.core.errors import InputError
from trajpipe.core.findings import Place
from trajpipe.hdf5.attributes import plain

ACTIONS: Final = "next_joint_pos"
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Motion:
    """A clip of an L2 file.

    Attributes:
        file: L2 file's name.
        demo: Demo name.
        source: (source_file, source_demo).
        fps: Its rate.
        joints: Names of the joint columns.
        root_pos: (n, 3).
        root_quat: (n, 4) scalar last.
        joint_pos: (n, J).
        actions: (n, A).
    """

    file: str
    demo: str
    source: tuple[str, str]
    fps: float
    joints: tuple[str, ...]
    root_pos: Array
    root_quat: Array
    joint_pos: Array
    actions: NDArray[Any]

    def place(self, column: str | None = None, row: int | None = None) -> Place:
        """Where in L2."""
        return Place(self.file, self.demo, column, row)


def env_args_of(data: h5py.Group) -> Mapping[str, Any]:
    """The env_args object of an L2 file; empty when it is not a JSON object."""
    try:
        value = jsontext.loads(str(plain(data.attrs.get("env_args", ""))))
    except InputError:
        return {}
    return value if isinstance(value, Mapping) else {}


def is_motion(data: h5py.Group) -> bool:
    """True for an L2 file whose actions are the next frame's joint angles."""
    return env_args_of(data).get("actions") == ACTIONS


def motions(path: Path) -> Iterator[Motion]:
    """The clips of an L2 file in order, each read when asked for."""
    with opened(path) as file:
        data = file["data"]
        kwargs = env_args_of(data).get("env_kwargs", {})
        joints = tuple(str(n) for n in kwargs.get("joint_names", ()))
        rate = kwargs.get("control_freq")
        for name in sorted(data, key=lambda n: int(n.rpartition("_")[2])):
            demo = data[name]
            marks = {k: plain(v) for k, v in demo.attrs.items()}
            yield Motion(
                file=path.name,
                demo=name,
                source=(str(marks.get("source_file", path.name)), str(marks.get("source_demo", name))),
                fps=float(marks.get("fps", rate)),
                joints=joints,
                root_pos=np.asarray(demo["obs/root_pos"], np.float64),
                root_quat=np.asarray(demo["obs/root_quat"], np.float64),
                joint_pos=np.asarray(demo["obs/joint_pos"], np.float64),
                actions=np.asarray(demo["actions"]),
            )


@dataclass(frozen=True, slots=True, eq=False)
class Episode:
    """An episode of a motion store with the clip that it was made from.

    Attributes:
        number: Index in the store.
        start: First row.
        stop: Row after the last.
        motion: The clip.
        rows: Column → float64 rows.
        ids: Its rows of `motion_id`.
    """

    number: int
    start: int
    stop: int
    motion: Motion
    rows: dict[str, Array]
    ids: NDArray[Any]


def episodes(subject: Subject, columns: Sequence[str] = ()) -> Iterator[Episode]:
    """The store's episodes in order with their clips, one in memory at a time.

    Args:
        subject: A store with the context `lafan`.
        columns: Columns to read.

    Raises:
        InputError: the store has fewer or more episodes than L2 has clips.
    """
    with opened(subject.path) as store:
        lengths, offsets = store["ep_len"][()], store["ep_offset"][()]
        number = 0
        for motion in kept_motions(subject):
            if number >= len(lengths):
                raise InputError(
                    "the store has fewer episodes than L2", got=len(lengths), place=subject.path.name
                )
            start = int(offsets[number])
            stop = start + int(lengths[number])
            rows = {n: np.asarray(store[n][start:stop], np.float64) for n in columns}
            ids = np.asarray(store["motion_id"][start:stop])
            yield Episode(number, start, stop, motion, rows, ids)
            number += 1
        if number != len(lengths):
            got = f"{len(lengths)} episodes"
            raise InputError(
                "the store has more episodes than L2", got=got, expected=number, place=subject.path.name
            )


def kept_motions(subject: Subject) -> Iterator[Motion]:
    """All clips of all L2 files that the store's cap per task lets in."""
    lafan = subject.context["lafan"]
    cap, counts = lafan.get("demos_per_task"), dict[str, int]()
    for path in lafan["l2"]:
        for motion in motions(Path(path)):
            key = motion.source[1]
            counts[key] = counts.get(key, 0) + 1
            if cap is None or counts[key] <= cap:
                yield motion
