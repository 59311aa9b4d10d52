"""L2 files and stores of synthetic motions, built once, copied and damaged by the tests of their rules.

What is not here: tests.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py

from trajpipe.checks.registry import CheckResult, run_checks
from trajpipe.core.names import Stage
from trajpipe.pipeline.build_store import build_store
from trajpipe.pipeline.convert import ConvertOptions, convert
from trajpipe.pipeline.store_plan import LafanOptions, StorePlan
from trajpipe.testing.lafan import MotionClip, library_entry, motion_clip, write_pickle


@dataclass(frozen=True, slots=True)
class MotionFiles:
    """A good L2 file of three clips and its store.

    Attributes:
        l2: The L2 file.
        store: The store.
    """

    l2: Path
    store: Path

    def result(
        self, code: str, path: Path, stage: Stage = Stage.STORE, context: Mapping[str, Any] | None = None
    ) -> CheckResult:
        """One rule's result on a file."""
        lafan = {"lafan": {"l2": [self.l2], "model": None, "demos_per_task": None}}
        report = run_checks(stage, path, context=lafan if context is None else context, select=[code])
        (result,) = report.results
        return result

    def damaged(self, folder: Path, change: Callable[[h5py.File], None], of: str = "store") -> Path:
        """A copy of the store (or the L2 file) with something changed in it."""
        source = self.store if of == "store" else self.l2
        path = folder / source.name
        shutil.copy(source, path)
        with h5py.File(path, "r+") as file:
            change(file)
        return path


def made_in(folder: Path) -> MotionFiles:
    """Three clips: walking, turning fast, lying still."""
    return made_of(
        folder,
        {
            "a_walk": motion_clip("walk", 24),
            "b_fast": motion_clip("fast", 20),
            "c_lie": motion_clip("lie", 9),
        },
    )


def made_of(folder: Path, clips: Mapping[str, MotionClip]) -> MotionFiles:
    """An L2 file and a store of these clips; every rule holds."""
    raw = write_pickle(folder / "motions.pkl", {name: library_entry(clip) for name, clip in clips.items()})
    (l2,) = convert([raw], folder / "motions.hdf5", "demos", ConvertOptions())
    assert l2.ok, l2.error
    plan = StorePlan("motions", (l2.path,), folder / "motions.h5", lafan=LafanOptions())
    store = build_store(plan)
    assert store.ok, [str(f) for f in store.checks.findings()]
    return MotionFiles(l2.path, store.path)
