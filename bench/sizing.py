"""What grows with the number of recordings, measured at numbers that can be run: listing, sensor, UI, queue.

    python bench/sizing.py                        1,000 and 10,000 recordings; others by --recordings
    python bench/sizing.py --no-ui                without web server

Recordings are files of one byte: what is measured does not depend on their size, but for hashing. Seconds are
of processor time, but for the web server's answers. What is not here: runs, see `backfill.py`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from backfill import CATALOGUE, services, sqlite_bytes

Value = TypeVar("Value")
PAGE: Final = """
query($key: AssetKeyInput!) {
  assetNodeOrError(assetKey: $key) {
    ... on AssetNode {
      partitionStats { numMaterialized numPartitions numFailed }
      partitionKeysByDimension { partitionKeys }
      assetPartitionStatuses { ... on DefaultPartitionStatuses { materializedPartitions failedPartitions } }
    }
  }
}
"""


def cpu(figures: dict[str, Any], name: str, act: Callable[[], Value]) -> Value:
    """Run something and note its processor time."""
    began = time.process_time()
    value = act()
    figures[name] = round(time.process_time() - began, 3)
    return value


def write(root: Path, number: int) -> None:
    """A project with so many recordings of one byte, written long ago."""
    (root / "raw").mkdir(parents=True)
    for n in range(number):
        (root / f"raw/r{n:06d}.hdf5").write_bytes(b"x")
    (root / "datasets.yaml").write_text(CATALOGUE)


def folder(root: Path) -> dict[str, Any]:
    """Listing, the sensor's first look at all (in fact 500 a tick), and a tick when nothing changed."""
    from trajpipe.pipeline import watched_folder
    from trajpipe.pipeline.project import Project

    figures: dict[str, Any] = {}
    project = Project.open(root / "datasets.yaml")
    cpu(figures, "list_s", lambda: project.recordings("lift"))
    cpu(figures, "names_s", lambda: project.demos_path(project.recordings("lift")[0]))
    number = len(project.recordings("lift"))
    changes = cpu(
        figures,
        "first_look_s",
        lambda: watched_folder.look(project, "lift", {}, settle_s=0, budget_s=1e9, most=number),
    )
    assert len(changes.added) == number
    digest = cpu(figures, "save_s", lambda: watched_folder.save(root, "lift", changes.state))

    def unchanged() -> None:
        kept = watched_folder.load(root, "lift", digest)
        assert kept is not None
        again = watched_folder.look(Project.open(root / "datasets.yaml"), "lift", kept)
        assert watched_folder.save(root, "lift", again.state) == digest

    cpu(figures, "unchanged_tick_s", unchanged)
    figures["state_bytes"] = watched_folder.state_path(root, "lift", digest).stat().st_size
    return figures


def instance(root: Path, home: Path, number: int) -> dict[str, Any]:
    """Partitions and events of so many ingested recordings."""
    import dagster as dg

    from trajpipe.pipeline.init_dagster_home import prepare_home

    figures: dict[str, Any] = {}
    prepare_home(home)
    keys = [p.stem for p in sorted((root / "raw").iterdir())]
    demos = dg.AssetKey(["lift", "demos"])
    with dg.DagsterInstance.from_config(str(home)) as held:
        cpu(figures, "add_partitions_s", lambda: held.add_dynamic_partitions("lift_recordings", keys))
        cpu(figures, "get_partitions_s", lambda: held.get_dynamic_partitions("lift_recordings"))
        empty, began = sqlite_bytes(home), time.process_time()
        for key in keys:
            held.report_runless_asset_event(dg.AssetMaterialization(demos, partition=key))
        figures["event_s"] = round((time.process_time() - began) / number, 5)
        figures["event_bytes"] = round((sqlite_bytes(home) - empty) / number)
    return figures


def queue(home: Path, number: int) -> dict[str, Any]:
    """A pass over so many queued runs, in an instance of their own: nobody is to launch them.

    A queued run needs the code location it came from; reading them costs the same without.
    """
    import dagster as dg

    from trajpipe.pipeline.init_dagster_home import prepare_home

    figures: dict[str, Any] = {}
    prepare_home(home)
    with dg.DagsterInstance.from_config(str(home)) as held:
        queued = dg.RunsFilter(statuses=[dg.DagsterRunStatus.NOT_STARTED])
        empty = sqlite_bytes(home)
        for n in range(number):
            tags = {"dagster/partition": f"r{n:06d}", "dagster/backfill": "abcdefgh"}
            held.add_run(
                dg.DagsterRun(
                    "__ASSET_JOB", run_id=str(uuid.uuid4()), status=dg.DagsterRunStatus.NOT_STARTED, tags=tags
                )
            )
        figures["run_bytes"] = round((sqlite_bytes(home) - empty) / number)
        found = cpu(figures, "dequeue_pass_s", lambda: held.get_runs(queued))
        assert len(found) == number
    return figures


def page(root: Path, home: Path) -> dict[str, Any]:
    """Seconds until the web server has told the state of all partitions: first, and once it is cached."""
    figures: dict[str, Any] = {}
    body = json.dumps({"query": PAGE, "variables": {"key": {"path": ["lift", "demos"]}}}).encode()
    with services(root, home, home / "dev.log") as (url, _):
        for name in ("page_first_s", "page_s"):
            request = urllib.request.Request(f"{url}/graphql", body, {"Content-Type": "application/json"})
            began = time.monotonic()
            with urllib.request.urlopen(request, timeout=600) as answer:
                text = answer.read()
            figures[name] = round(time.monotonic() - began, 3)
        figures["page_bytes"] = len(text)
        node = json.loads(text)["data"]["assetNodeOrError"]
        figures["materialized"] = node["partitionStats"]["numMaterialized"]
    return figures


def main() -> int:
    """Measure and print one line of JSON for each number."""
    parser = argparse.ArgumentParser(description="What grows with the number of recordings.")
    parser.add_argument("--recordings", type=int, nargs="+", default=[1000, 10000])
    parser.add_argument("--no-instance", action="store_true", help="neither events nor web server")
    parser.add_argument("--no-ui", action="store_true", help="no web server")
    options = parser.parse_args()
    for number in options.recordings:
        with tempfile.TemporaryDirectory() as name:
            root, home = Path(name) / "data", Path(name) / "home"
            write(root, number)
            figures = {"recordings": number} | folder(root)
            if not options.no_instance:
                figures |= instance(root, home, number) | queue(Path(name) / "queue", number)
            if not (options.no_instance or options.no_ui):
                figures |= page(root, home)
        print(json.dumps(figures), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
