"""The LeRobot exporter against lerobot's own writer, in one run: `python bench/export.py [--quick]`.

    python bench/export.py --reference lerobot_reference_writer.py --readers ~/.cache/trajpipe/readers

Twenty episodes of 200 frames, state 8, action 8, one camera of 128 by 128; each export in a process of its
own, so that its peak memory is its own. `--reference` times lerobot 0.3.3 on the same episodes, in shuffled
rounds with ours. What is not here: encoding alone, see `video.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np

from trajpipe.core.episode import ArrayColumn, Episode
from trajpipe.demos.reader import DemosFile
from trajpipe.demos.writer import DemosWriter
from trajpipe.export import ExportOptions, export_lerobot

FPS: Final = Fraction(30)
EPISODES: Final = 20
FRAMES: Final = 200
SIZE: Final = 128
# What is timed → (options, most CPU milliseconds per frame).
CASES: Final[dict[str, tuple[dict[str, Any], float]]] = {
    "v2.1 h264": ({}, 1.6),
    "v2.1 AV1, preset 12": ({"codec": "av1"}, 2.0),
    "v2.1 AV1, preset 8": ({"codec": "av1", "preset": "8"}, 2.6),
    "v3.0 h264": ({"version": "v3.0"}, 1.6),
}
REFERENCE: Final = "lerobot 0.3.3"
RSS_MB: Final = 250
GROWTH_MB: Final = 20
FASTER: Final = 5.0


@dataclass(frozen=True, slots=True)
class Run:
    """One export.

    Attributes:
        seconds: Wall time without imports.
        cpu: Processor time of all threads without imports, seconds.
        frames: Frames written.
        peak_mb: Peak resident memory of the process.
        megabytes: Size of the result.
    """

    seconds: float
    cpu: float
    frames: int
    peak_mb: float
    megabytes: float

    @property
    def rate(self) -> float:
        """Frames per second."""
        return self.frames / self.seconds

    @property
    def cpu_ms(self) -> float:
        """Processor milliseconds per frame."""
        return 1000 * self.cpu / self.frames


def episode(index: int) -> Episode:
    """A smooth background, a moving block, sensor noise; smooth state and action."""
    rng = np.random.default_rng([11, index])
    rows = np.arange(FRAMES)
    motion = np.sin(rows[:, None] / 30 * (1 + np.arange(8)) * 0.7 + rng.uniform(0, 6, 8)).astype(np.float32)
    vertical, horizontal = np.mgrid[0:SIZE, 0:SIZE]
    ground = np.stack([80 + horizontal / 2, 90 + vertical / 3, 120 - horizontal / 4], axis=-1)
    frames = np.repeat(ground[None], FRAMES, axis=0) + rng.integers(-2, 3, (FRAMES, SIZE, SIZE, 3))
    for row in rows:
        y, x = (int(54 + 48 * f(0.05 * row + index)) for f in (np.sin, np.cos))
        frames[row, y : y + 20, x : x + 20] = (200, 60, 40)
    columns = {
        "actions": ArrayColumn(np.roll(motion, -1, axis=0)),
        "obs/joint_pos": ArrayColumn(motion),
        "obs/cam0": ArrayColumn(frames.clip(0, 255).astype(np.uint8)),
    }
    return Episode(f"demo_{index}", FRAMES, columns, success=True, task="pick up the block")


def write_input(path: Path) -> None:
    """The episodes as L2."""
    with DemosWriter(path, env_args={"env_name": "Bench-v0"}, recipe={}) as writer:
        for index in range(EPISODES):
            writer.write(episode(index))


def episodes(path: Path, times: int) -> Iterator[Episode]:
    """The episodes of a file, so many times over."""
    for _ in range(times):
        with DemosFile(path, require_version=False) as demos:
            yield from demos.episodes()


def export_here(path: Path, options: dict[str, Any], times: int) -> Run:
    """Export in this process."""
    with tempfile.TemporaryDirectory() as folder:
        start, cpu = time.perf_counter(), time.process_time()
        done = export_lerobot(episodes(path, times), Path(folder) / "ds", ExportOptions(fps=FPS, **options))
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        size = sum(p.stat().st_size for p in Path(folder).rglob("*") if p.is_file())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Run(seconds, cpu, done.frames, peak, size / 2**20)


def export_apart(path: Path, options: dict[str, Any], times: int = 1) -> Run:
    """Export in a fresh process."""
    command = [sys.executable, __file__, "--child", json.dumps([str(path), options, times])]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return Run(**json.loads(done.stdout))


def reference_run(script: Path, readers: Path) -> Run:
    """Lerobot's own writer on the same kind of episodes, as the script measures it."""
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "PYTHONPATH": str(readers / "lerobot/lr033"), "HF_HOME": home}
        command = [str(readers / "lerobot/bin/python"), str(script)]
        command += ["--episodes", str(EPISODES), "--frames", str(FRAMES), "--vcodec", "h264"]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    found = json.loads(done.stdout)
    return Run(
        found["wall_s"], found["cpu_s"], EPISODES * FRAMES, found["peak_rss_mb"], found["bytes"] / 2**20
    )


def rounds(path: Path, number: int, reference: tuple[Path, Path] | None) -> dict[str, list[Run]]:
    """Every case once a round, in shuffled order."""
    names = [*CASES, *([REFERENCE] if reference else [])]
    found: dict[str, list[Run]] = {name: [] for name in names}
    shuffler = random.Random(1)
    for _ in range(number):
        shuffler.shuffle(names)
        for name in names:
            if name == REFERENCE and reference:
                found[name].append(reference_run(*reference))
            else:
                found[name].append(export_apart(path, CASES[name][0]))
    return found


def judge(found: dict[str, list[Run]], memory: tuple[Run, Run]) -> tuple[list[str], bool]:
    """The report's lines, and whether every target is met."""
    lines = [
        "| case | CPU ms/frame | target | frames/s | peak MB | size MB | |",
        "|---|--:|--:|--:|--:|--:|---|",
    ]
    fine = True
    for name, runs in found.items():
        cpu, rate = (statistics.median(getattr(r, a) for r in runs) for a in ("cpu_ms", "rate"))
        peak = max(r.peak_mb for r in runs)
        limit = CASES[name][1] if name in CASES else None
        ok = limit is None or (cpu <= limit and peak <= RSS_MB)
        fine &= ok
        mark = "" if limit is None else "ok" if ok else "missed"
        target = "" if limit is None else f"≤ {limit:g}"
        size = f"{runs[0].megabytes:.1f}"
        lines.append(f"| {name} | {cpu:.2f} | {target} | {rate:,.0f} | {peak:.0f} | {size} | {mark} |")
    if REFERENCE in found:
        pairs = zip(found["v2.1 h264"], found[REFERENCE], strict=True)
        ratio = statistics.median(ours.rate / theirs.rate for ours, theirs in pairs)
        fine &= ratio >= FASTER
        lines.append(f"\nh264: {ratio:.1f} times lerobot 0.3.3's frames per second (target {FASTER:g})")
    few, many = memory
    growth = many.peak_mb - few.peak_mb
    fine &= growth <= GROWTH_MB
    lines.append(
        f"peak memory: {few.peak_mb:.0f} MB with {few.frames // FRAMES} episodes, {many.peak_mb:.0f} MB with "
        f"{many.frames // FRAMES} (growth ≤ {GROWTH_MB} MB)"
    )
    return lines, fine


def main() -> int:
    """Run the benchmark; 1 when a target is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one round, twice the episodes for memory")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--input", type=Path, help="demos.hdf5 of the reference writer (--emit-hdf5)")
    parser.add_argument("--reference", type=Path, help="lerobot_reference_writer.py")
    parser.add_argument("--readers", type=Path, default=os.environ.get("TRAJPIPE_READERS"))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        path, options, times = json.loads(given.child)
        print(json.dumps(asdict(export_here(Path(path), options, times))))
        return 0
    if given.reference and not given.readers:
        parser.error("--reference needs --readers, or TRAJPIPE_READERS (see .ci/readers.sh)")
    reference = (given.reference, Path(given.readers)) if given.reference else None
    with tempfile.TemporaryDirectory() as folder:
        path = given.input or Path(folder) / "demos.hdf5"
        if given.input is None:
            write_input(path)
        found = rounds(path, 1 if given.quick else given.rounds, reference)
        memory = export_apart(path, {}), export_apart(path, {}, 2 if given.quick else 10)
    lines, fine = judge(found, memory)
    if given.json:
        print(json.dumps({name: [asdict(r) for r in runs] for name, runs in found.items()}))
    else:
        print("\n".join(lines))
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
