"""Peak memory of raw → L2 → store → LeRobot in one process, and that more demos need no more.

    python bench/memory.py               2,000 frames, two cameras of 256 by 256; then 1, 2 and 4 demos of 500
    python bench/memory.py --frames 300 --demos 1 3 --json

The recordings are written by other processes, so that only the conversion is measured.
What is not here: speed.
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
GROWTH_MB: Final = 40
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


def write(root: Path, demos: int, frames: int, size: int) -> None:
    """One recording of some demos with two cameras, and its catalogue."""
    from trajpipe.testing import write_recording

    write_recording(
        "isaaclab",
        root / "raw" / "long.hdf5",
        episodes=demos,
        rows=(frames, frames),
        seed=1,
        cameras=("table_cam", "wrist_cam"),
        image_size=size,
    )
    (root / "datasets.yaml").write_text(CATALOGUE)


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


def measure(demos: int, frames: int, size: int) -> dict[str, float]:
    """Peaks of one conversion."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        apart(write, root, demos, frames, size)
        found: dict[str, float] = apart(convert, root)
        raw_mb = (root / "raw" / "long.hdf5").stat().st_size / (1 << 20)
    return {"demos": demos, "frames": frames, "raw_mb": raw_mb, **found}


def line(row: dict[str, float]) -> str:
    """One row for people."""
    parts = " · ".join(f"{k} {row[k]:.0f}" for k in ("imported", "l2", "store", "lerobot") if k in row)
    what = f"{row['demos']:.0f} demos of {row['frames']:.0f} frames"
    return f"{what}: peak MB after {parts} · {row['seconds']:.1f} s"


def main() -> int:
    """Measure, print, and compare with the limits."""
    parser = argparse.ArgumentParser(description="Peak memory of the whole chain.")
    parser.add_argument("--frames", type=int, default=2000, help="of the one long demo")
    parser.add_argument("--size", type=int, default=256, help="height and width of both cameras")
    parser.add_argument("--demos", type=int, nargs="+", default=[1, 2, 4], help="numbers of demos to compare")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    long = measure(1, arguments.frames, arguments.size)
    several = [measure(n, max(1, arguments.frames // 4), arguments.size) for n in arguments.demos]
    peaks = [row["lerobot"] for row in several]
    growth = max(peaks) - min(peaks)
    verdict = {
        "limit_mb": LIMIT_MB,
        "peak_mb": long["lerobot"],
        "growth_mb": growth,
        "growth_limit_mb": GROWTH_MB,
    }
    if arguments.json:
        print(json.dumps({"long": long, "several": several, **verdict}))
    else:
        print(line(long), *map(line, several), sep="\n")
        print(
            f"peak {long['lerobot']:.0f} MB (limit {LIMIT_MB}) · growth {growth:.0f} MB (limit {GROWTH_MB})"
        )
    return int(long["lerobot"] > LIMIT_MB or growth > GROWTH_MB)


if __name__ == "__main__":
    sys.exit(main())
