"""Motion clips: how much faster than real time a clip becomes 50 Hz rows, and what a whole command takes.

    python bench/lafan.py [clip.csv] [--rounds 7]

Without a clip a synthetic one of 3,945 frames is made, the length of LAFAN1's `dance1_subject2`. Targets: the
conversion (frames in memory → the store's rows) at least 200 times real time, the command
`convert … --to store` with all checks ≤ 3 s. Processor time stands beside wall time, for busy machines.
What is not here: correctness, which the tests and the checks prove.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import Final

import numpy as np

from trajpipe.motion.g1 import HEAD_HEIGHT, TORSO, default_joint_pos, g1
from trajpipe.motion.rows import Clip, VirtualBody, motion_rows
from trajpipe.testing.lafan import motion_clip, write_csv

FRAMES: Final = 3945
FPS: Final = 30
REAL_TIME: Final = 200
COMMAND_SECONDS: Final = 3.0


def conversion(clip: Clip, rounds: int) -> tuple[list[float], list[float], int]:
    """Wall and processor seconds of each round, and the peak of memory beyond the clip's own, bytes."""
    head, default = VirtualBody(TORSO, HEAD_HEIGHT), default_joint_pos()
    wall: list[float] = []
    cpu: list[float] = []
    for _ in range(rounds + 1):
        began, used = time.perf_counter(), time.process_time()
        motion_rows(clip, g1(), default, head)
        wall.append(time.perf_counter() - began)
        cpu.append(time.process_time() - used)
    tracemalloc.start()
    motion_rows(clip, g1(), default, head)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return wall[1:], cpu[1:], peak


def command(csv: Path, rounds: int) -> tuple[list[float], list[float], str]:
    """Wall and processor seconds of `trajpipe convert CSV out.h5 --to store`, and its last table row."""
    wall: list[float] = []
    cpu: list[float] = []
    said = ""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            out = Path(folder) / f"{number}.h5"
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            began = time.perf_counter()
            arguments = [sys.executable, "-m", "trajpipe", "convert", str(csv), str(out), "--to", "store"]
            done = subprocess.run(arguments, capture_output=True, text=True, check=True)
            wall.append(time.perf_counter() - began)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
            said = next((line for line in done.stdout.splitlines() if " store " in line), "")
    return wall, cpu, said


def line(name: str, wall: list[float], cpu: list[float], target: float) -> bool:
    """Print a row; True when the processor time keeps the target."""
    used = statistics.median(cpu)
    kept = used <= target
    print(
        f"{name:34s} {statistics.median(wall):7.3f} s wall  {used:7.3f} s cpu  target {target:6.3f} s  "
        f"{'ok' if kept else 'MISSED'}"
    )
    return kept


def main() -> int:
    """Measure and print; exit 1 when a target is missed in processor time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("clip", nargs="?", type=Path, help="CSV of 36 columns, no header, 30 fps")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        csv = options.clip or write_csv(Path(folder) / "walk.csv", motion_clip("walk", FRAMES))
        values = np.loadtxt(csv, delimiter=",", ndmin=2)
        clip = Clip(csv.stem, float(FPS), values[:, :3], values[:, 3:7], values[:, 7:])
        seconds = (len(clip) - 1) / FPS
        wall, cpu, peak = conversion(clip, options.rounds)
        print(f"{csv.name}: {len(clip)} frames, {seconds:.1f} s of motion")
        good = line("frames → 50 Hz rows", wall, cpu, seconds / REAL_TIME)
        faster = seconds / statistics.median(cpu)
        print(f"{'':34s} {faster:7.0f} times real time; peak memory {peak / 2**20:.0f} MiB above the clip")
        wall, cpu, said = command(csv, max(1, options.rounds // 2))
        good &= line("the whole command, checks included", wall, cpu, COMMAND_SECONDS)
        print(said)
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
