"""What motions must show: a real clip through every stage, its speed and memory, and hostile files refused.

Speed is told in processor time, which other work on the machine does not change; `bench/lafan.py` has both.
What is not here: the numbers (`motion/test_rows.py`), the chain's options (`test_lafan.py`).
"""

from __future__ import annotations

import os
import pickle
import re
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trajpipe.core.findings import Severity
from trajpipe.motion.g1 import HEAD_HEIGHT, TORSO, default_joint_pos, g1
from trajpipe.motion.rows import Clip, VirtualBody, motion_rows
from trajpipe.pipeline.convert import ConvertOptions, convert
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.run import run
from trajpipe.testing.lafan import library_entry, motion_clip, write_csv, write_pickle

FRAMES = 3945
FPS = 30
HEAD = VirtualBody(TORSO, HEAD_HEIGHT)
# Warnings that are true of the real clip: 209 joint steps above 0.5 rad, no camera for GR00T.
HONEST = {"demos-motion-steps", "lerobot-gr00t"}


def clip_of(frames: int) -> Clip:
    """A walk in memory."""
    made = motion_clip("walk", frames)
    return Clip("walk", float(FPS), made.root_pos, made.root_quat, made.joint_pos)


@pytest.mark.shared
def test_the_real_clip_runs_through_every_stage(shared_data: Path, tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    clip = shared_data / "lafan_g1/dance1_subject2.csv"
    (tmp_path / "raw/dance1_subject2.csv").write_bytes(clip.read_bytes())
    (tmp_path / "datasets.yaml").write_text(
        "version: 1\ndatasets:\n  dance: {license: CC-BY-NC-ND-4.0, raw: [{kind: lafan, glob: raw/*}]}\n"
    )
    results = run(Project.open(tmp_path / "datasets.yaml")).results
    assert [(r.stage.value, r.error) for r in results] == [
        ("demos", None),
        ("store", None),
        ("lerobot", None),
    ]
    found = [f for r in results for f in r.checks.findings() if f.severity is not Severity.INFO]
    assert {f.code for f in found} <= HONEST
    (steps,) = (f for f in found if f.code == "demos-motion-steps")
    assert steps.message.startswith("209 of 114376 joint steps")
    assert [r.facts["rows"] for r in results] == [FRAMES, 6574, FRAMES]


def test_the_conversion_is_two_hundred_times_faster_than_real_time() -> None:
    clip, spent = clip_of(FRAMES), []
    for _ in range(3):
        began = time.process_time()
        rows = motion_rows(clip, g1(), default_joint_pos(), HEAD)
        spent.append(time.process_time() - began)
    assert len(rows["qpos"]) == 6574
    assert min(spent) <= (FRAMES - 1) / FPS / 200


def _peak(frames: int) -> tuple[int, int]:
    """Peak of memory while a clip becomes rows, and the rows' own size, bytes."""
    clip = clip_of(frames)
    tracemalloc.start()
    try:
        rows = motion_rows(clip, g1(), default_joint_pos(), HEAD)
        return tracemalloc.get_traced_memory()[1], sum(r.nbytes for r in rows.values())
    finally:
        tracemalloc.stop()


def test_memory_is_bounded_by_the_clip() -> None:
    _peak(50)
    (small, _), (large, size) = _peak(400), _peak(1600)
    assert large < 4.4 * small  # in proportion: nothing is squared
    assert large < 7 * size


def test_many_clips_need_no_more_memory_than_one(tmp_path: Path) -> None:
    def peak(count: int) -> int:
        folder = tmp_path / f"{count}"
        folder.mkdir()
        entries = {f"clip{n:02d}": library_entry(motion_clip("walk", 300, seed=n)) for n in range(count)}
        raw = write_pickle(folder / "library.pkl", entries)
        (l2,) = convert([raw], folder / "l2.hdf5", "demos", ConvertOptions())
        tracemalloc.start()
        try:
            store = convert([l2.path], folder / "store.h5", "store", ConvertOptions())[-1]
            assert store.ok, store.error
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(1)
    assert peak(8) < 1.6 * peak(2)


class _Calls:
    """Its pickle calls a function."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (self.command,)


def _huge() -> bytes:
    """An array whose header says 10^15 bytes and that has 8."""
    return pickle.dumps(np.zeros(1), 2).replace(b"K\x01\x85", b"\x8a\x07\x00\x80\xc6\xa4\x7e\x8d\x03\x85", 1)


def _cyclic() -> bytes:
    clips: dict[str, Any] = {}
    clips["clip"] = {"dof": [clips]}
    return pickle.dumps(clips)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda trace: pickle.dumps({"clip": _Calls(f"touch {trace}")}), r"\w+\.system"),
        (lambda _: _huge(), "bytes|size|header"),
        (lambda _: _cyclic(), "itself"),
    ],
    ids=["runs code", "huge header", "cyclic"],
)
@pytest.mark.parametrize("suffix", [".pkl", ".joblib"])
def test_a_hostile_file_is_refused_in_under_a_second_and_the_others_are_converted(
    tmp_path: Path, make: Any, match: str, suffix: str
) -> None:
    trace, bad = tmp_path / "ran", tmp_path / f"bad{suffix}"
    bad.write_bytes(make(trace))
    convert([write_csv(tmp_path / "warm.csv", motion_clip("walk", 4))], tmp_path / "warm.hdf5", "demos")
    began = time.process_time()
    (refused,) = convert([bad], tmp_path / "alone.hdf5", "demos", ConvertOptions(kind="lafan"))
    assert time.process_time() - began < 1
    assert not refused.ok
    assert re.search(match, str(refused.error)), refused.error
    good = write_csv(tmp_path / "good.csv", motion_clip("walk", 12))
    *steps, store = convert([good, bad], tmp_path / "out.h5", "store", ConvertOptions(kind="lafan"))
    assert [r.usable for r in steps] == [True, False]
    assert store.usable
    assert bad.name in store.ledger.failed
    assert not trace.exists()
    assert not (tmp_path / "alone.hdf5").exists()
