"""What a recording costs in a backfill: `trajpipe dev` on SQLite, so many recordings a run and slots as told.

    python bench/backfill.py                        20 recordings, 1 slot and 2; more by --recordings 200
    python bench/backfill.py --slots 2 --json       one measurement as JSON
    python bench/backfill.py --per-run 1            a run for each recording; else the catalogue's default

All L2 files but one are made before, so that a run costs what starting and reporting it costs; that one is
broken and must fail alone. Processor time, of each kind of process, is the steadier figure on a busy machine.
What is not here: conversion itself, see `memory.py`; larger numbers than run here, see `sizing.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

REPOSITORY: Final = Path(__file__).resolve().parent.parent
TICKS: Final = os.sysconf("SC_CLK_TCK")
BACKFILL: Final = """
mutation($params: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $params) {
    __typename
    ... on LaunchBackfillSuccess { backfillId }
    ... on PythonError { message }
  }
}
"""
CATALOGUE: Final = """\
version: 1
datasets: {lift: {raw: [{kind: isaaclab, glob: raw/*.hdf5, conventions: {fps: 20}}]}}
"""
# What a process of Dagster's session is, by a word of its command line.
SERVICES: Final = {
    "dagster_webserver": "web server",
    "_daemon": "daemon",
    "grpc": "code server",
    "spawn_main": "runs",
}


def prepare(root: Path, number: int, per_run: int) -> None:
    """A project with so many recordings of one short episode, one of them broken, and all L2 files."""
    from trajpipe.core.names import Stage
    from trajpipe.pipeline.project import Project
    from trajpipe.pipeline.run import RunOptions, run
    from trajpipe.testing import write_recording

    (root / "raw").mkdir(parents=True)
    (root / "datasets.yaml").write_text(f"{CATALOGUE}defaults: {{recordings_per_run: {per_run}}}\n")
    whole = write_recording("isaaclab", root / "one.hdf5", episodes=1, rows=(4, 6), cameras=())
    for n in range(number):
        (root / f"raw/r{n:06d}.hdf5").write_bytes(whole.read_bytes())
    broken_recording(root, number).write_bytes(b"broken")
    run(Project.open(root / "datasets.yaml"), ["lift"], RunOptions(stages=(Stage.DEMOS,), jobs=2))


def broken_recording(root: Path, number: int) -> Path:
    """The recording that is no HDF5 file."""
    return root / f"raw/r{number // 2:06d}.hdf5"


def prepare_instance(home: Path, root: Path, slots: int) -> list[str]:
    """The instance as `trajpipe dev` makes it, with so many slots; its partition keys."""
    import dagster as dg
    import yaml

    from trajpipe.defs.scan import scan
    from trajpipe.pipeline.init_dagster_home import prepare_home
    from trajpipe.pipeline.project import Project

    prepare_home(home)
    path = home / "dagster.yaml"
    config = yaml.safe_load(path.read_text())
    config["concurrency"]["runs"]["max_concurrent_runs"] = slots
    path.write_text(yaml.safe_dump(config))
    project = Project.open(root / "datasets.yaml")
    with dg.DagsterInstance.from_config(str(home)) as instance:
        for event in scan(instance, project, "lift").events:
            instance.report_runless_asset_event(event)
    return [r.key for r in project.recordings("lift")]


@contextmanager
def services(root: Path, home: Path, log: Path) -> Iterator[tuple[str, int]]:
    """`trajpipe dev` over the project: its address and the pid that leads Dagster's session."""
    dropped = ("DAGSTER", "TRAJPIPE", "PYTHONDONTWRITEBYTECODE")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(dropped)}
    environment = kept | {"PYTHONPATH": str(REPOSITORY), "TRAJPIPE_SENSOR_INTERVAL": "86400"}
    port = str(20000 + os.getpid() % 10000)
    command = [sys.executable, "-m", "trajpipe", "dev", "--json", "--port", port, "--home", str(home)]
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command,
            cwd=root.parent,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        try:
            text = ""
            while not text.endswith("\n}\n"):  # one indented document: that it is ready, or why not
                line = process.stdout.readline()
                if not line:
                    break
                text += line
            ready = json.loads(text or "{}")
            if "url" not in ready:
                sys.exit(f"trajpipe dev did not start:\n{text}\n{log.read_text()[-3000:]}")
            yield ready["url"], int(ready["pid"])
        finally:
            process.terminate()  # heeded in a background job too, where SIGINT is ignored
            process.wait(120)


def launch(url: str, keys: list[str]) -> str:
    """Start a backfill of the dataset's L2 over GraphQL, as the UI does; its id."""
    params = {"assetSelection": [{"path": ["lift", "demos"]}], "partitionNames": keys}
    body = json.dumps({"query": BACKFILL, "variables": {"params": params}}).encode()
    request = urllib.request.Request(f"{url}/graphql", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        value = json.load(answer)
    started = value.get("data", {}).get("launchPartitionBackfill", {})
    if "backfillId" not in started:
        sys.exit(f"the backfill did not start: {value}")
    return str(started["backfillId"])


@dataclass(slots=True)
class Watch:
    """Processor time and memory of a session's processes, looked at twice a second.

    Attributes:
        leader: Pid of the session's leader.
        memory_mb: Resident memory of the services (runs not counted) at each look.
        cpu: Kind of process → seconds of processor time, those of runs by their parent's account.
    """

    leader: int
    memory_mb: list[float] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _first: dict[str, float] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)

    def __enter__(self) -> Watch:
        self._first = self.look()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        assert self._thread is not None
        self._thread.join()
        self.cpu = {k: v - self._first.get(k, 0.0) for k, v in self.look().items()}

    def _watch(self) -> None:
        while not self._stop.wait(0.5):
            self.look()

    def look(self) -> dict[str, float]:
        """Processor time so far, by kind; adds one sample of memory."""
        cpu: defaultdict[str, float] = defaultdict(float)
        resident = 0.0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
                if int(fields[3]) != self.leader:
                    continue
                line = stat.with_name("cmdline").read_text()
            except OSError:
                continue  # it ended while we looked
            kind = next((k for word, k in SERVICES.items() if word in line), "others")
            user, system, waited_user, waited_system = (int(f) / TICKS for f in fields[11:15])
            cpu[kind] += user + system
            cpu["runs" if kind == "code server" else "others"] += waited_user + waited_system
            if kind != "runs":
                resident += int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / 1e6
        self.memory_mb.append(resident)
        return cpu


def measure(root: Path, home: Path, slots: int) -> dict[str, Any]:
    """One backfill over all recordings."""
    from trajpipe.defs.gate_run import gate_of_run
    from trajpipe.pipeline.gate import GateOptions
    from trajpipe.pipeline.gate_outcomes import State

    keys, log = prepare_instance(home, root, slots), home / "dev.log"
    empty = sqlite_bytes(home)
    began = time.monotonic()
    with services(root, home, log) as (url, leader):
        ready = time.monotonic() - began
        with Watch(leader) as watch:
            began, launched = time.monotonic(), time.time()
            report = gate_of_run(
                launch(url, keys), home, GateOptions(), timeout_s=120 + 30 * len(keys), poll_s=0.5
            )
            seconds = time.monotonic() - began
    first, last = (moment - launched for moment in span(home))
    quarter = max(1, len(watch.memory_mb) // 4)
    return {
        "recordings": len(keys),
        "slots": slots,
        "runs": runs(home),
        "cores": os.cpu_count(),
        "ready_s": round(ready, 1),
        "seconds": round(seconds, 1),
        "first_run_s": round(first, 1),
        "last_run_s": round(last, 1),
        "each_s": round((last - first) / len(keys), 3),
        "cpu_each_s": {k: round(v / len(keys), 3) for k, v in sorted(watch.cpu.items())},
        "memory_mb": [round(max(part)) for part in (watch.memory_mb[:quarter], watch.memory_mb[-quarter:])],
        "events_each": round(rows(home) / len(keys), 1),
        "bytes_each": round((sqlite_bytes(home) - empty) / len(keys)),
        "gate": report.code,
        "failed": sorted({o.key for o in report.outcomes if o.state is State.FAILED}),
        "seen": len({o.key for o in report.outcomes}),
        "run_failures": [f.message for f in report.failures],
        "locked": log.read_text().count("database is locked"),
    }


def sqlite_bytes(home: Path) -> int:
    """Bytes of the instance's folder."""
    return sum(p.stat().st_size for p in home.rglob("*") if p.is_file())


def runs(home: Path) -> int:
    """Runs of the backfill."""
    with sqlite3.connect(home / "history/runs.db") as database:
        return int(database.execute("SELECT COUNT(*) FROM runs").fetchone()[0])


def span(home: Path) -> tuple[float, float]:
    """When the first run was made and the last one ended, seconds since the epoch."""
    with sqlite3.connect(home / "history/runs.db") as database:
        query = "SELECT MIN(strftime('%s', create_timestamp)), MAX(end_time) FROM runs"
        first, last = database.execute(query).fetchone()
    return float(first), float(last)


def rows(home: Path) -> int:
    """Events of all runs."""
    total = 0
    for path in (home / "history/runs").glob("*-*.db"):
        with sqlite3.connect(path) as database:
            total += database.execute("SELECT COUNT(*) FROM event_logs").fetchone()[0]
    return total


def line(found: dict[str, Any]) -> str:
    """One measurement for people."""
    cpu = found["cpu_each_s"]
    each = " + ".join(f"{k} {v:.2f}" for k, v in cpu.items() if v >= 0.005)
    before, after = found["memory_mb"]
    return (
        f"{found['recordings']} recordings in {found['runs']} runs, {found['slots']} slots, "
        f"{found['cores']} cores: "
        f"{found['each_s']:.2f} s each (first run after {found['first_run_s']:.0f} s, last one's end after "
        f"{found['last_run_s']:.0f} s, told after {found['seconds']:.0f} s); "
        f"processor time each {sum(cpu.values()):.2f} s ({each}); "
        f"{found['events_each']:.0f} events and {found['bytes_each'] / 1000:.0f} kB each; "
        f"memory of the services {before} MB at first, {after} MB at last; "
        f"lock errors {found['locked']}; ready after {found['ready_s']:.0f} s"
    )


def is_right(found: dict[str, Any]) -> bool:
    """Every recording was looked at, the broken one failed alone, nobody was locked out."""
    broken = broken_recording(Path(), found["recordings"]).stem
    alone = (found["gate"], found["failed"], found["run_failures"]) == (1, [broken], [])
    return alone and found["seen"] == found["recordings"] and found["locked"] == 0


def main() -> int:
    """Measure and print; exit code 1 when a backfill did not end as it must."""
    from trajpipe.pipeline.catalogue_model import DatasetOptions

    parser = argparse.ArgumentParser(description="Cost of a recording in a backfill.")
    parser.add_argument("--recordings", type=int, default=20)
    parser.add_argument("--slots", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--per-run", type=int, default=DatasetOptions().recordings_per_run)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    right = True
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "data"
        prepare(root, options.recordings, options.per_run)
        for slots in options.slots:
            found = measure(root, Path(name) / f"home{slots}", slots)
            print(json.dumps(found) if options.json else line(found), flush=True)
            right &= is_right(found)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
