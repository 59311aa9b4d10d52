"""The trajectory store against the machine's own limits, in one run: `python bench/store.py [--quick]`.

Everything runs warm in the page cache; ratios are time / time of the limit, medians of the per-round ratios,
wall and processor time. What is not here: timing (`rounds`), compiled limits (`native`), the data
(`recordings`), and other stages' benchmarks.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from native import Native, build
from numpy.typing import NDArray
from recordings import bounds, motion, scene
from rounds import Row, Stopwatch, Timed, measure, report

from trajpipe.store import (
    ColumnSpec,
    PrioritizedSampler,
    ResidentColumn,
    TrajectoryStore,
    TrajectoryStoreWriter,
)

WIDTH, BATCH, MIB = 26, 4096, 1 << 20
STATE = ColumnSpec("state", np.float32, WIDTH)
FIVE = {"obs": 17, "action": 6, "reward": 1, "done": 1, "value": 1}
LEAVES = 1 << 20
Case = Callable[[Stopwatch], None]


def row(stage: str, limit: str, pair: tuple[Timed, Timed], target: float | None, note: str) -> Row:
    """A row of the report from (case, limit)."""
    case, bound = pair
    return Row(stage, limit, case.ratio(bound), target, note, case.cpu_ratio(bound))


def each(call: Callable[..., object], *arguments: Iterable[Any]) -> Case:
    """A case that calls once for each of the arguments."""
    rounds = list(zip(*arguments, strict=True))

    def run(_: Stopwatch) -> None:
        for given in rounds:
            call(*given)

    return run


class Bench:
    """All measurements; each method yields rows of the report.

    Args:
        folder: Scratch files.
        rows: Rows of the float columns.
        rounds: Counted rounds of each measurement.
        native: Compiled limits; None leaves their rows out.
    """

    def __init__(self, folder: Path, rows: int, rounds: int, native: Native | None) -> None:
        self.folder, self.rows, self.rounds, self.native = folder, rows, rounds, native
        self.many = max(rounds, 21)
        self.path, self.raw = folder / "x.h5", folder / "raw.bin"

    def raw_write(self, data: NDArray[Any]) -> Case:
        """`write` of the bytes in pieces of 1 MiB to a new file."""

        def run(watch: Stopwatch) -> None:
            self.raw.unlink(missing_ok=True)
            view = data.reshape(-1).view(np.uint8).data
            with watch:
                handle = os.open(self.raw, os.O_WRONLY | os.O_CREAT)
                for start in range(0, len(view), MIB):
                    os.write(handle, view[start : start + MIB])
                os.close(handle)

        return run

    def staged_write(self, data: dict[str, NDArray[Any]]) -> Case:
        """The floor of a staging writer: episodes copied to 1 MiB buffers, full ones written, no HDF5."""
        edges = bounds(self.rows)
        buffers = {n: np.zeros((MIB // (4 * a.shape[1]), a.shape[1]), np.float32) for n, a in data.items()}

        def run(watch: Stopwatch) -> None:
            self.raw.unlink(missing_ok=True)
            with watch:
                handle, fill = os.open(self.raw, os.O_WRONLY | os.O_CREAT), dict.fromkeys(data, 0)
                for start, stop in edges:
                    for name, array in data.items():
                        buffer, at = buffers[name], start
                        while at < stop:
                            count = min(stop - at, len(buffer) - fill[name])
                            buffer[fill[name] : fill[name] + count] = array[at : at + count]
                            fill[name], at = fill[name] + count, at + count
                            if fill[name] == len(buffer):
                                os.write(handle, buffer.data)
                                fill[name] = 0
                os.close(handle)

        return run

    def appended(self, columns: list[ColumnSpec], data: dict[str, NDArray[Any]], **options: Any) -> Case:
        """The store written episode by episode, from opening to the closed file; no fsync."""
        edges = bounds(len(next(iter(data.values()))))

        def run(watch: Stopwatch) -> None:
            self.path.unlink(missing_ok=True)
            with watch, TrajectoryStoreWriter(self.path, columns, durable=False, **options) as writer:
                for start, stop in edges:
                    for name, array in data.items():
                        writer.append(name, array[start:stop])
                    writer.end_episode()

        return run

    def call(self, columns: list[ColumnSpec]) -> float:
        """Seconds of Python's part of one episode: one row a column, and its end."""
        rows = {c.name: np.zeros((1, *c.shape), c.dtype) for c in columns}
        self.path.unlink(missing_ok=True)
        writer = TrajectoryStoreWriter(self.path, columns, durable=False)
        start = time.process_time()
        for _ in range(20_000):
            for name, row in rows.items():
                writer.append(name, row)
            writer.end_episode()
        seconds = (time.process_time() - start) / 20_000
        writer.abort()
        return seconds

    def append(self) -> Iterator[Row]:
        """One column, then five."""
        for label, widths, target in (
            ("one column, 26 floats", {"state": WIDTH}, 1.5),
            ("five columns, 17+6+1+1+1 floats", FIVE, 2.3),
        ):
            data = {name: motion(self.rows, width) for name, width in widths.items()}
            columns = [ColumnSpec(name, np.float32, width) for name, width in widths.items()]
            flat = np.concatenate([a.reshape(-1) for a in data.values()])
            cases = {
                "limit": self.raw_write(flat),
                "store": self.appended(columns, data),
                "staged": self.staged_write(data),
            }
            found = measure(cases, self.rounds)
            rate, floor = flat.nbytes / found["store"].median / MIB, found["staged"].ratio(found["limit"])
            note = f"{rate:,.0f} MiB/s, {self.rows:,} rows, {len(bounds(self.rows)):,} episodes"
            calls = self.call(columns) * len(bounds(self.rows)) / found["limit"].median
            note += f"; staging alone, without HDF5 {floor:.2f}, Python's calls {calls:.2f}"
            yield row(f"append, {label}", "raw `write`", (found["store"], found["limit"]), target, note)
        self.raw.unlink(missing_ok=True)

    def read(self) -> Iterator[Row]:
        """A whole column into a warm buffer, as a view; slabs and gathers of it."""
        data = motion(self.rows, WIDTH)
        self.appended([STATE], {"state": data})(Stopwatch())
        data.tofile(self.raw)
        out = np.zeros_like(data)

        def limit(_: Stopwatch) -> None:
            handle, view, done = os.open(self.raw, os.O_RDONLY), out.reshape(-1).view(np.uint8).data, 0
            while done < len(view):
                done += os.preadv(handle, [view[done:]], done)
            os.close(handle)

        def load(_: Stopwatch) -> None:
            with TrajectoryStore(self.path) as store:
                store.load_column("state", out=out)

        def mapped(_: Stopwatch) -> None:
            with TrajectoryStore(self.path) as store:
                assert not store.load_column("state", copy=False).flags.owndata

        def plain(_: Stopwatch) -> None:
            with h5py.File(self.path) as file:
                file["state"].read_direct(out)

        found = measure({"limit": limit, "load": load, "view": mapped, "h5py": plain}, self.rounds)
        name, bound = "one-thread `preadv`", found["limit"]
        note = f"{data.nbytes / found['load'].median / MIB:,.0f} MiB/s with two threads, opening included"
        yield row("whole column into a warm buffer", name, (found["load"], bound), 0.8, note)
        note = f"{found['view'].median * 1e3:.1f} ms, opening and index walk"
        yield row("whole column, no copy", name, (found["view"], bound), 0.03, note)
        yield row("the same by plain h5py", name, (found["h5py"], bound), None, "`read_direct`")
        yield from self.slabs(data)
        yield from self.gather(data)

    def slabs(self, data: NDArray[np.float32]) -> Iterator[Row]:
        """Random slabs out of the mapped view and by `read_range`."""
        rng = np.random.default_rng(3)
        with TrajectoryStore(self.path) as store:
            view = store.load_column("state", copy=False)
            for size, target in ((64, 2.3), (512, 2.0), (4096, 1.5)):
                out = np.zeros((size, WIDTH), np.float32)

                def timed(copy: Callable[[int], object], size: int = size) -> Case:
                    def run(watch: Stopwatch) -> None:
                        starts = rng.integers(0, self.rows - size, 256).tolist()
                        with watch:
                            for start in starts:
                                copy(start)

                    return run

                def slab(rows: NDArray[np.float32], size: int = size, out: NDArray[Any] = out) -> Case:
                    return timed(lambda a: np.copyto(out, rows[a : a + size]), size)

                def ranged(a: int, size: int = size, out: NDArray[Any] = out) -> object:
                    return store.read_range("state", a, a + size, out=out)

                cases = {"limit": slab(data), "view": slab(view), "range": timed(ranged)}
                found = measure(cases, self.many, warm=3)
                ratio = found["range"].ratio(found["limit"])
                note = f"{found['view'].median / 256 * 1e6:.1f} µs; by `read_range(out=)` {ratio:.1f}"
                stage = f"slab of {size} rows of the mapped column"
                yield row(stage, "copy of a RAM slice", (found["view"], found["limit"]), target, note)

    def gather(self, data: NDArray[np.float32]) -> Iterator[Row]:
        """4096 random rows."""
        if self.native is None:
            return
        rng, native = np.random.default_rng(4), self.native
        batches = [rng.integers(0, self.rows, BATCH) for _ in range(64)]
        column, out = ResidentColumn(data, STATE), np.zeros((BATCH, WIDTH), np.float32)
        cases = {
            "limit": each(lambda i: native.gather(data, i, out), batches),
            "store": each(lambda i: column.gather(i, out), batches),
            "fancy": each(lambda i: data[i], batches),
        }
        found = measure(cases, self.many, warm=2)
        fancy = found["fancy"].ratio(found["limit"])
        note = f"{found['store'].median / 64 * 1e3:.3f} ms; `a[idx]` {fancy:.1f}"
        stage = f"{BATCH} random rows of {self.rows:,} by 26"
        yield row(stage, "C loop with prefetch", (found["store"], found["limit"]), 1.2, note)

    def image_batch(self) -> Iterator[Row]:
        """64 random frame pairs out of memory."""
        frames = np.random.default_rng(0).integers(0, 255, (8000, 2, 3, 64, 64), np.uint8)
        column = ResidentColumn(frames, ColumnSpec("images", np.uint8, frames.shape[1:]))
        rng, out = np.random.default_rng(5), np.zeros((64, *frames.shape[1:]), np.uint8)
        batches = [rng.integers(0, 7900, 64) for _ in range(16)]
        cases = {
            "limit": each(lambda i: np.copyto(out, frames[i[0] : i[0] + 64]), batches),
            "store": each(lambda i: column.gather(i, out), batches),
        }
        found = measure(cases, self.many, warm=2)
        note = f"{out.nbytes / (found['store'].median / 16) / MIB:,.0f} MiB/s"
        pair = (found["store"], found["limit"])
        yield row("uint8 image batch of 64", "contiguous copy", pair, 1.1, note)

    def prioritized(self) -> Iterator[Row]:
        """Draws and updates of 4096 among 2**20 rows."""
        if self.native is None:
            return
        native, rng, sampler = self.native, np.random.default_rng(6), PrioritizedSampler(LEAVES)
        sampler.note_added_rows(np.arange(LEAVES))
        sampler.update_priorities(rng.standard_normal(LEAVES), rows=np.arange(LEAVES))
        tree, node = sampler.tree, np.empty(BATCH, np.int64)
        strata = [sampler._strata(tree.total, BATCH) for _ in range(16)]
        wide = [u.astype(np.float64) for u in strata]
        rows = [rng.integers(0, LEAVES, BATCH) for _ in range(16)]
        values = [rng.random(BATCH, dtype=np.float32) for _ in range(16)]
        nodes, sums = tree.nodes.astype(np.float64), tree.nodes.copy()

        def add_upward(sums: NDArray[np.float32], r: NDArray[np.int64], v: NDArray[np.float32]) -> None:
            for level in range(1, LEAVES.bit_length()):
                np.add.at(sums, (r + LEAVES) >> level, v)

        cases = {
            "limit": each(lambda u: native.descend(nodes, u.copy(), node), wide),
            "find": each(tree.find, strata),
            "draw": each(lambda _: sampler.draw(BATCH), strata),
            "set limit": each(lambda r, v: native.update(nodes, r, v.astype(np.float64)), rows, values),
            "set": each(tree.set, rows, values),
            "adds": each(lambda r, v: add_upward(sums, r, v), rows, values),
        }
        found = measure(cases, self.many, warm=2)
        milliseconds = {name: timed.median / 16 * 1e3 for name, timed in found.items()}
        limit = f"compiled level-by-level descent ({milliseconds['limit']:.2f} ms)"
        note = f"{milliseconds['find']:.2f} ms"
        yield row("prioritized descent, 4096 of 1 M", limit, (found["find"], found["limit"]), 1.4, note)
        note = f"{milliseconds['draw']:.2f} ms with the random numbers and the weights"
        yield row("the whole prioritized draw", limit, (found["draw"], found["limit"]), None, note)
        limit = f"compiled ({milliseconds['set limit']:.2f} ms)"
        note = f"{milliseconds['set']:.2f} ms, differences added in noeira's order; "
        note += f"its 20 indexed adds alone {milliseconds['adds']:.2f} ms"
        yield row("priority update, 4096", limit, (found["set"], found["set limit"]), 1.0, note)

    def images(self) -> Iterator[Row]:
        """An image column, zstd-1 against none."""
        frames = scene(min(2000, max(32, self.rows // 1600)))
        out = np.zeros_like(frames)
        spec, zstd = ColumnSpec("images", np.uint8, frames.shape[1:]), self.folder / "zstd.h5"

        def write(kind: str) -> Case:
            return self.appended([spec], {"images": frames}, image_compression=kind)

        write("zstd")(Stopwatch())
        shutil.copy(self.path, zstd)

        def plain(watch: Stopwatch) -> None:
            self.path.unlink()
            with watch, h5py.File(self.path, "w") as file:
                file.create_dataset("images", data=frames, chunks=(16, *spec.shape))

        cases = {"zstd": write("zstd"), "none": write("none"), "limit": plain}
        found = measure(cases, self.rounds)
        write("none")(Stopwatch())
        smaller = frames.nbytes / zstd.stat().st_size
        rate = frames.nbytes / found["zstd"].median / MIB
        note = f"{rate:,.0f} MiB/s, {smaller:.1f} times smaller, two threads"
        note += f"; of our own uncompressed write {found['zstd'].ratio(found['none']):.1f}"
        pair = (found["zstd"], found["limit"])
        yield row("image column, write", "uncompressed, plain h5py", pair, 2.3, note)

        def read(path: Path) -> Case:
            def run(_: Stopwatch) -> None:
                with TrajectoryStore(path) as store:
                    store.load_column("images", out=out)

            return run

        def plainly(_: Stopwatch) -> None:
            with h5py.File(self.path) as file:
                file["images"].read_direct(out)

        found = measure({"zstd": read(zstd), "none": read(self.path), "limit": plainly}, self.rounds)
        assert np.array_equal(out, frames)
        note = f"{frames.nbytes / found['zstd'].median / MIB:,.0f} MiB/s, two threads"
        note += f"; of our own uncompressed read {found['zstd'].ratio(found['none']):.1f}"
        pair = (found["zstd"], found["limit"])
        yield row("image column, read", "uncompressed, plain h5py", pair, 1.3, note)

    def opening(self) -> Iterator[Row]:
        """A store of a million episodes."""
        with TrajectoryStoreWriter(self.path, [ColumnSpec("a", np.uint8)], durable=False) as writer:
            writer.append("a", np.zeros(2_000_000, np.uint8))
            writer.end_episodes(np.full(1_000_000, 2))
        seconds = []
        for _ in range(self.rounds):
            start = time.perf_counter()
            TrajectoryStore(self.path).close()
            seconds.append(time.perf_counter() - start)
        median = float(np.median(seconds))
        yield Row("opening 1,000,000 episodes", "0.3 s", median / 0.3, 1.0, f"{median * 1e3:.0f} ms")

    def memory(self) -> Iterator[Row]:
        """What a writer of five columns holds, in chunks."""
        columns = [ColumnSpec(name, np.float32, width) for name, width in FIVE.items()]
        data = {name: motion(1_000_000, width) for name, width in FIVE.items()}
        tracemalloc.start()
        self.appended(columns, data)(Stopwatch())
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        chunks = sum(c.chunk_rows_for(len(columns)) * c.row_bytes for c in columns)
        yield Row(
            "writer's memory, five columns", "one chunk a column", peak / chunks, 2.0, f"{peak / MIB:.1f} MiB"
        )

    def all(self) -> Iterator[Row]:
        """Every row."""
        yield from self.append()
        yield from self.read()
        yield from self.image_batch()
        yield from self.prioritized()
        yield from self.images()
        yield from self.opening()
        yield from self.memory()


def main() -> int:
    """Run, print the table; exit 0, or 1 with `--strict` when a target was missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the size")
    parser.add_argument("--rows", type=int, help="rows of the float columns (10,000,000)")
    parser.add_argument("--rounds", type=int, default=7, help="counted rounds (7)")
    parser.add_argument("--only", help="one group: append read image_batch prioritized images opening memory")
    parser.add_argument("--json", type=Path, help="write the rows there too")
    parser.add_argument("--strict", action="store_true", help="exit 1 when a target is missed")
    given = parser.parse_args()
    count = given.rows or (1_000_000 if given.quick else 10_000_000)
    folder, found = Path(tempfile.mkdtemp(prefix="bench-store-")), list[Row]()
    try:
        bench = Bench(folder, count, given.rounds, build())
        group = bench.all if given.only is None else getattr(bench, given.only)
        for line in group():
            found.append(line)
            print(f"{line.stage}: {line.ratio:.2f}", file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(folder)
    versions = f"h5py {h5py.__version__}, HDF5 {h5py.version.hdf5_version}, numpy {np.__version__}"
    print(f"{versions}; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n\n{report(found)}")
    if given.json:
        given.json.write_text(json.dumps([asdict(line) for line in found], indent=2))
    return int(given.strict and not all(line.reached for line in found))


if __name__ == "__main__":
    sys.exit(main())
