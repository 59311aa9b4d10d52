"""Peak memory of raw → L2 → store → LeRobot in one process, and that more demos need no more.

    python bench/memory.py               2,000 frames, two cameras of 256 by 256; then 2 and 6 demos of 500
    python bench/memory.py --frames 0 --rows 45 --demos 4 12 --smooth --json

The recordings are written by other processes, so that only the conversion is measured. The first demos are a
warm-up (imports, encoders, the allocator's arenas) that levels off; demos kept in memory would not: each that
is added holds its raw bytes, which the growth is told beside. What is not here: speed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

LIMIT_MB: Final = 600
# What may still level off; the demos that are added must hold several times as much, or nothing is shown.
GROWTH_MB: Final = 60
TIMES: Final = 2
CAMERAS: Final = ("table_cam", "wrist_cam")
NAMES: Final = {"demos": "l2", "store": "store", "lerobot": "lerobot"}
CATALOGUE: Final = """\
version: 1
datasets:
  long:
    task: lift the cube
    license: Apache-2.0
    raw:
      - {kind: isaaclab, glob: "raw/*.hdf5", tag: scripted}
"""


def write(root: Path, demos: int, frames: int, size: int, smooth: bool) -> None:
    """One recording of some demos with two cameras, and its catalogue."""
    from trajpipe.testing import write_recording

    path = write_recording(
        "isaaclab",
        root / "raw" / "long.hdf5",
        episodes=demos,
        rows=(frames, frames),
        seed=1,
        cameras=() if smooth else CAMERAS,
        image_size=size,
    )
    if smooth:
        add_smooth_frames(path, frames, size)
    (root / "datasets.yaml").write_text(CATALOGUE)


def add_smooth_frames(path: Path, frames: int, size: int) -> None:
    """Cameras whose frames cost little to render, deflate and encode, and as much memory as any."""
    import h5py
    import numpy as np

    ramp = np.arange(size) * (180 / size)
    picture = np.stack([np.add.outer(ramp, ramp) / 2, np.add.outer(ramp, -ramp) / 2 + 90], axis=-1)
    picture = np.concatenate([picture, picture.mean(axis=-1, keepdims=True)], axis=-1)
    video = (picture + np.linspace(0, 60, frames)[:, None, None, None]).astype(np.uint8)
    with h5py.File(path, "r+") as file:
        for demo in file["data"].values():
            for camera in CAMERAS:
                demo.create_dataset(f"obs/{camera}", data=video)


def convert(root: Path) -> dict[str, float]:
    """Run all stages; peak RSS of this process after each (MB), and the seconds."""
    from trajpipe.pipeline.project import Project
    from trajpipe.pipeline.results import StageResult
    from trajpipe.pipeline.run import run

    peaks = {"imported": peak_mb()}

    def watch(result: StageResult) -> None:
        peaks[NAMES[result.stage.value]] = peak_mb()

    began = time.perf_counter()
    done = run(Project.open(root / "datasets.yaml", root), watch=watch)
    if not done.ok:
        sys.exit("\n".join(str(r.error) for r in done.results))
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return peaks | {"children": children, "seconds": time.perf_counter() - began}


def peak_mb() -> float:
    """Peak resident memory of this process so far, MB (2**20 bytes)."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def apart(function: Callable[..., Any], *arguments: object) -> Any:
    """Run a function in a fresh process and return its value."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def measure(demos: int, frames: int, size: int, *, smooth: bool = False) -> dict[str, float]:
    """Peaks of one conversion."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        apart(write, root, demos, frames, size, smooth)
        found: dict[str, float] = apart(convert, root)
        raw_mb = (root / "raw" / "long.hdf5").stat().st_size / (1 << 20)
    return {"demos": demos, "frames": frames, "raw_mb": raw_mb, **found}


def line(row: dict[str, float]) -> str:
    """One row for people."""
    parts = " · ".join(f"{k} {row[k]:.0f}" for k in ("imported", "l2", "store", "lerobot") if k in row)
    what = f"{row['demos']:.0f} demos of {row['frames']:.0f} frames"
    return f"{what}: peak MB after {parts} · {row['seconds']:.1f} s"


def added_mb(arguments: argparse.Namespace) -> float:
    """Raw bytes of the frames that the most demos hold beyond the fewest."""
    frames = (arguments.demos[-1] - arguments.demos[0]) * arguments.rows * len(CAMERAS)
    return float(frames * 3 * arguments.size**2 / (1 << 20))


def main() -> int:
    """Measure, print, and compare with the limits."""
    parser = argparse.ArgumentParser(description="Peak memory of the whole chain.")
    parser.add_argument("--frames", type=int, default=2000, help="of the one long demo; 0 = none")
    parser.add_argument("--size", type=int, default=256, help="height and width of both cameras")
    parser.add_argument("--rows", type=int, default=500, help="frames of each of several demos")
    parser.add_argument("--demos", type=int, nargs="+", default=[2, 6], help="numbers of demos to compare")
    parser.add_argument("--smooth", action="store_true", help="frames that convert several times faster")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    added = added_mb(arguments)
    if added < TIMES * GROWTH_MB:
        parser.error(
            f"{added:.0f} MB more of frames show no growth beyond {GROWTH_MB} MB: compare more demos"
        )
    size, smooth = arguments.size, arguments.smooth
    long = [measure(1, arguments.frames, size, smooth=smooth)] if arguments.frames else []
    several = [measure(n, arguments.rows, size, smooth=smooth) for n in arguments.demos]
    peak = max(row["lerobot"] for row in [*long, *several])
    growth = several[-1]["lerobot"] - several[0]["lerobot"]
    verdict = {
        "limit_mb": LIMIT_MB,
        "peak_mb": peak,
        "added_mb": added,
        "growth_mb": growth,
        "growth_limit_mb": GROWTH_MB,
    }
    if arguments.json:
        print(json.dumps({"long": long, "several": several, **verdict}))
    else:
        print(*map(line, [*long, *several]), sep="\n")
        print(
            f"peak {peak:.0f} MB (limit {LIMIT_MB}) · growth {growth:.0f} MB (limit {GROWTH_MB}) "
            f"for {added:.0f} MB more of frames"
        )
    return int(peak > LIMIT_MB or growth > GROWTH_MB)


if __name__ == "__main__":
    sys.exit(main())
