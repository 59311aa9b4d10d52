"""Motion clips of the Unitree G1 (LAFAN1, motion libraries): CSV, pickle or npz, one episode per clip.

A motion has no recorded actions: `actions` are the next frame's joint angles, and env_args says so.
What is not here: the file formats (`motion_csv.py` …) and the 50 Hz store (`trajpipe.motion`).
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core import names
from trajpipe.core.episode import ArrayColumn, Description, Episode
from trajpipe.core.errors import InputError, TrajpipeError
from trajpipe.core.findings import Finding, Place, Severity
from trajpipe.core.ledger import Rejection
from trajpipe.core.names import Reason
from trajpipe.core.pickles import read_pickle
from trajpipe.motion.g1 import JOINTS, ROBOT
from trajpipe.motion.rows import MIN_FRAMES
from trajpipe.sources import motion_csv, motion_npz, motion_pickle
from trajpipe.sources.base import ReadOptions, Source, register
from trajpipe.sources.detection import LAFAN
from trajpipe.sources.motion_clips import (
    MotionOptions,
    RawClip,
    checked_quaternions,
    mapped_joints,
    misplaced_bodies,
    motion_options,
    one_rate,
)

KIND: Final = LAFAN
DEFAULT_FPS: Final = Fraction(30)
ENV_NAME: Final = f"{ROBOT}_motion"
_PICKLES: Final = (".pkl", ".pickle", ".joblib")


class LafanSource(Source):
    """Motion clips, one episode each."""

    kind = KIND
    title = "Motion clips of the Unitree G1 (LAFAN1 CSV, motion-library pickle, npz)"
    tag = names.Tag.MOCAP.value
    globs = ("*.csv", "*.pkl", "*.pickle", "*.joblib", "*.npz")

    def detect(self, path: Path) -> bool:
        """True for a motion clip by content, and for a pickle that cannot be read: its reason is told."""
        suffix = path.suffix.lower()
        if not path.is_file():
            return False
        if suffix == ".csv":
            return motion_csv.looks_like_clip(path)
        if suffix == ".npz":
            return motion_npz.looks_like_clip(path)
        return suffix in _PICKLES and _is_library(path)

    def describe(self, path: Path, options: ReadOptions) -> Description:
        """Clips, their one rate, and what `actions` mean.

        Raises:
            UnreadableError: it cannot be read.
            UntrustedError: it tries what untrusted input may not do.
            InputError: it is no motion clip, or an option is unknown.
        """
        clips = read_clips(path, options)
        fps = options.conventions.fps or one_rate(clips, DEFAULT_FPS)
        return Description(
            kind=KIND,
            episodes=tuple(clip.name for clip in clips),
            env_args=options.conventions.env_args or _env_args(options.conventions.env_name, fps),
            fps=fps,
            tag=names.Tag.MOCAP.value,
            conventions={
                "quaternions": [{"path": "obs/root_quat", "starts": [0], "order": "xyzw"}],
                "action": {"meaning": "absolute", "frame": "joint", "units": "rad"},
                "alignment": names.Alignment.BEFORE_ACTION.value,
                "joints": list(clips[0].joints) if clips else [],
            },
            findings=_left_out(clips, path),
        )

    def episodes(self, path: Path, options: ReadOptions) -> Iterator[Episode | Rejection]:
        """One episode per clip; a clip of fewer than 3 frames, or whose joints do not fit, is rejected.

        Raises:
            UnreadableError: it cannot be read.
            UntrustedError: it tries what untrusted input may not do.
            InputError: it is no motion clip, or an option is unknown.
        """
        declared = motion_options(options.options)
        for clip in read_clips(path, options):
            place = Place(path.name, clip.name)
            if len(clip) < MIN_FRAMES:
                detail = f"{len(clip)} frames; a clip needs {MIN_FRAMES}"
                yield Rejection(path.name, clip.name, Reason.TOO_SHORT.value, detail)
                continue
            try:
                yield _episode(clip, declared, options, place)
            except InputError as error:
                yield Rejection(path.name, clip.name, error.code, str(error))


def _episode(clip: RawClip, declared: MotionOptions, options: ReadOptions, place: Place) -> Episode:
    joint_pos, filled = mapped_joints(clip, declared, place)
    quaternion, off = checked_quaternions(clip, declared, place)
    misplaced = misplaced_bodies(clip, joint_pos, place)
    for finding in (*clip.findings, *filled, *off, *misplaced):
        options.report(finding)
    columns: dict[str, NDArray[Any]] = {
        names.DATASET_ACTIONS: next_rows(joint_pos).astype(np.float32),
        "obs/joint_pos": joint_pos,
        "obs/root_pos": clip.root_pos,
        "obs/root_quat": quaternion,
    }
    fps = options.conventions.fps or clip.fps or DEFAULT_FPS
    return Episode(
        name=clip.name,
        length=len(clip),
        columns={path: ArrayColumn(rows) for path, rows in columns.items()},
        attributes={names.ATTR_FPS: float(fps)},
        task=clip.name,
        tag=names.Tag.MOCAP.value,
        alignment=names.Alignment.BEFORE_ACTION.value,
        source_file=place.file or "",
        source_demo=clip.name,
        source_sha256=options.sha256,
    )


def next_rows(rows: NDArray[Any]) -> NDArray[Any]:
    """Each row's successor; the last row repeats."""
    return np.concatenate([rows[1:], rows[-1:]])


def _env_args(env_name: str | None, fps: Fraction | None) -> dict[str, Any]:
    kwargs: dict[str, Any] = {"joint_names": list(JOINTS), "robot": ROBOT}
    if fps is not None:
        kwargs["control_freq"] = int(fps) if fps.denominator == 1 else float(fps)
    return {
        "env_name": env_name or ENV_NAME,
        "type": names.ENV_TYPE_GYM,
        "env_kwargs": kwargs,
        "actions": names.ACTIONS_ARE_NEXT_JOINT_POS,
    }


def _left_out(clips: list[RawClip], path: Path) -> tuple[Finding, ...]:
    others = sorted({name for clip in clips for name in clip.left_out})
    if not others:
        return ()
    message = "arrays that follow from the motion, or are not the robot's, are not carried over"
    return (Finding("arrays-left-out", Severity.INFO, message, Place(path.name), ", ".join(others)),)


def read_clips(path: Path, options: ReadOptions) -> list[RawClip]:
    """The clips as the file has them, joints unmapped.

    Raises:
        UnreadableError: it cannot be read.
        UntrustedError: it tries what untrusted input may not do.
        InputError: it is no motion clip, or an option is unknown.
    """
    declared = motion_options(options.options)
    suffix = path.suffix.lower()
    if suffix == ".csv":
        return motion_csv.read_csv(path, declared)
    if suffix == ".npz":
        return motion_npz.read_npz(path, declared, options.conventions.quaternion_order)
    return motion_pickle.read_library(path, declared)


def _is_library(path: Path) -> bool:
    status = path.stat()
    return _told(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=64)
def _told(path: Path, _modified_ns: int, _size: int) -> bool:
    try:
        return motion_pickle.is_library(read_pickle(path))
    except TrajpipeError:
        return True


register(LafanSource())
