"""Timing for the benchmarks: every round runs every case once, in shuffled order, and ratios are per round.

What is not here: the cases.
"""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

Case = Callable[[], None]


@dataclass(slots=True)
class Timed:
    """Seconds of a case, one entry a round.

    Attributes:
        seconds: Wall time.
        cpu: Processor time of all threads; the steadier figure on a busy machine, for one thread.
    """

    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """Median over the rounds, seconds."""
        return statistics.median(self.seconds)

    def ratio(self, limit: Timed) -> float:
        """Median of the per-round ratios to the limit's time of the same round."""
        return statistics.median(a / b for a, b in zip(self.seconds, limit.seconds, strict=True))

    def cpu_ratio(self, limit: Timed) -> float:
        """The same of processor time."""
        return statistics.median(a / b for a, b in zip(self.cpu, limit.cpu, strict=True))


class Stopwatch:
    """A case that times only a part of itself enters this around it."""

    def __init__(self) -> None:
        self.total = self.cpu = 0.0

    def __enter__(self) -> None:
        self._start, self._cpu = time.perf_counter(), time.process_time()

    def __exit__(self, *_: object) -> None:
        self.total += time.perf_counter() - self._start
        self.cpu += time.process_time() - self._cpu


def measure(
    cases: Mapping[str, Callable[[Stopwatch], None]], rounds: int, *, warm: int = 1, seed: int = 1
) -> dict[str, Timed]:
    """Time the cases.

    Args:
        cases: Name → case; one that never enters the stopwatch is timed whole.
        rounds: Counted rounds.
        warm: Rounds before them.
        seed: Of the shuffling.
    """
    found, order, shuffler = {name: Timed() for name in cases}, list(cases), random.Random(seed)
    gc.collect()
    gc.disable()
    try:
        for number in range(-warm, rounds):
            shuffler.shuffle(order)
            for name in order:
                watch, whole = Stopwatch(), Stopwatch()
                with whole:
                    cases[name](watch)
                spent = watch if watch.total else whole
                if number >= 0:
                    found[name].seconds.append(spent.total)
                    found[name].cpu.append(max(spent.cpu, 1e-9))
    finally:
        gc.enable()
    return found


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the report.

    Attributes:
        stage: What was timed.
        limit: What it is compared with.
        ratio: Its wall time in times of the limit's.
        target: The ratio wanted; None = told only.
        note: Absolute figures.
        cpu: Its processor time in times of the limit's; None where threads share the work.
    """

    stage: str
    limit: str
    ratio: float
    target: float | None
    note: str
    cpu: float | None = None

    @property
    def reached(self) -> bool:
        """The target is met, or there is none."""
        return self.target is None or self.ratio <= self.target


def report(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table."""
    lines = ["| stage | limit | wall | cpu | target | | note |", "|---|---|--:|--:|--:|---|---|"]
    for row in rows:
        target = "" if row.target is None else f"≤ {row.target:g}"
        mark = "" if row.target is None else "ok" if row.reached else "missed"
        cpu = "" if row.cpu is None else f"{row.cpu:.2f}"
        lines.append(
            f"| {row.stage} | {row.limit} | {row.ratio:.2f} | {cpu} | {target} | {mark} | {row.note} |"
        )
    return "\n".join(lines)
