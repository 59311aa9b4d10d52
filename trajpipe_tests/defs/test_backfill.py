"""Many recordings at once, on SQLite, by a real daemon: no lock error, cost for each, memory that stays flat.

20 recordings; 200 with TRAJPIPE_FULL=1. The figures are printed: run it with `-s`.
"""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from trajpipe.core.names import Stage
from trajpipe.defs.gate_run import gate_of_run
from trajpipe.defs.scan import scan
from trajpipe.pipeline.gate import GateOptions
from trajpipe.pipeline.gate_outcomes import State
from trajpipe.pipeline.init_dagster_home import prepare_home
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.run import RunOptions, run
from trajpipe.testing import write_recording
from trajpipe_tests.conftest import REPOSITORY

BACKFILL = """
mutation($params: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $params) {
    __typename
    ... on LaunchBackfillSuccess { backfillId }
    ... on PythonError { message }
  }
}
"""
PORT = 20000 + os.getpid() % 10000


def ask(query: str, variables: dict[str, Any]) -> dict[str, Any]:
    """A GraphQL request to the running web server."""
    body = json.dumps({"query": query, "variables": variables}).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{PORT}/graphql", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        value: dict[str, Any] = json.load(answer)
    assert "errors" not in value, value
    return value["data"]  # type: ignore[no-any-return]  # GraphQL's answer is a mapping of the query's names


def resident_mb(leader: int) -> float:
    """Resident memory of a session's processes, MB."""
    total = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) == leader:
                total += int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError):
            continue  # it ended while we looked
    return total / 1e6


@contextmanager
def dagster_dev(root: Path, home: Path, log: Path) -> Iterator[int]:
    """`trajpipe dev` over a project; the pid of Dagster's session."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("DAGSTER", "TRAJPIPE"))}
    environment |= {"PYTHONPATH": str(REPOSITORY), "TRAJPIPE_SENSOR_INTERVAL": "86400"}
    command = [sys.executable, "-m", "trajpipe", "dev", "--json", "--port", str(PORT), "--home", str(home)]
    with log.open("w") as errors:
        process = subprocess.Popen(
            command, cwd=root.parent, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        try:
            assert process.stdout is not None
            text = ""
            while not text.endswith("}\n"):
                line = process.stdout.readline()
                assert line, log.read_text()[-3000:]
                text += line
            yield int(json.loads(text)["pid"])
            process.send_signal(signal.SIGINT)
            assert process.wait(120) == 130
        finally:
            if process.poll() is None:  # the test failed: Dagster's own processes must end too
                process.send_signal(signal.SIGINT)
                process.wait(120)
            assert process.stdout is not None
            process.stdout.close()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_backfill_over_many_recordings(tmp_path: Path, full: bool) -> None:
    number = 200 if full else 20
    root, home, log = tmp_path / "data", tmp_path / ".dagster", tmp_path / "dev.log"
    whole = write_recording("isaaclab", tmp_path / "a.hdf5", episodes=1, rows=(4, 6), cameras=())
    (root / "raw").mkdir(parents=True)
    for n in range(number):
        (root / f"raw/r{n:03d}.hdf5").write_bytes(whole.read_bytes())
    (root / f"raw/r{number // 2:03d}.hdf5").write_bytes(b"broken")
    catalogue = (
        "version: 1\ndatasets: {lift: {raw: [{kind: isaaclab, glob: raw/*.hdf5, conventions: {fps: 20}}]}}"
    )
    (root / "datasets.yaml").write_text(catalogue)
    project = Project.open(root / "datasets.yaml")
    run(project, ["lift"], RunOptions(stages=(Stage.DEMOS,), jobs=2))
    prepare_home(home)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        for event in scan(instance, project, "lift").events:
            instance.report_runless_asset_event(event)
    keys = [r.key for r in project.recordings("lift")]
    with dagster_dev(root, home, log) as leader:
        began, before = time.monotonic(), resident_mb(leader)
        params = {"assetSelection": [{"path": ["lift", "demos"]}], "partitionNames": keys}
        answer = ask(BACKFILL, {"params": params})["launchPartitionBackfill"]
        assert answer["__typename"] == "LaunchBackfillSuccess", answer
        report = gate_of_run(answer["backfillId"], home, GateOptions(), timeout_s=60 + 30 * number)
        seconds, after = time.monotonic() - began, resident_mb(leader)
    print(
        f"\n{number} recordings in {seconds:.0f} s: {seconds / number:.2f} s each, {os.cpu_count()} cores, "
        f"memory of Dagster's services {before:.0f} MB before, {after:.0f} MB after"
    )
    assert report.failures == []
    failed = {o.key for o in report.outcomes if o.state is State.FAILED}
    assert (report.code, failed) == (1, {f"r{number // 2:03d}"})
    assert {o.key for o in report.outcomes} == set(keys)
    assert "database is locked" not in log.read_text()
    assert after < before * 1.5 + 100
