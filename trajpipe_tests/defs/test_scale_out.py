"""Postgres and Ray by docs/deploy/several-machines.dagster.yaml: 24 recordings, one broken, a worker killed.

The file is used as it stands, its variables filled by the environment. Absent programs skip it with a
reason; `.ci/run` installs them (TRAJPIPE_REQUIRE_SCALE=1).
What is not here: several machines; all of it runs on loopback.
"""

import json
import os
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import pytest

from trajpipe.core import names
from trajpipe.core.names import Stage
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.run import RunOptions, run
from trajpipe.testing import write_recording
from trajpipe_tests.conftest import REPOSITORY
from trajpipe_tests.defs.scale_services import (
    Programs,
    find_programs,
    free_port,
    marked_processes,
    postgres,
    ray_head,
)

NUMBER, BROKEN, LONG = 24, "r07", "r03"
LONG_EPISODES = 12
CATALOGUE = """\
version: 1
datasets:
  lift: {raw: [{kind: isaaclab, glob: "raw/lift/*.hdf5", conventions: {fps: 20}}]}
  gone: {raw: [{kind: isaaclab, glob: "raw/gone/*.hdf5", conventions: {fps: 20}}]}
"""
SCAN = """
import dagster as dg
from pathlib import Path
from trajpipe.defs.scan import scan
from trajpipe.pipeline.project import Project
with dg.DagsterInstance.get() as instance:
    for name in ("lift", "gone"):
        for event in scan(instance, Project.open(Path("data/datasets.yaml")), name).events:
            instance.report_runless_asset_event(event)
"""
BACKFILL = """
mutation($params: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $params) {
    __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message }
  }
}
"""
LAUNCH = """
mutation($params: ExecutionParams!) {
  launchRun(executionParams: $params) {
    __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message }
  }
}
"""


@pytest.fixture(scope="module")
def programs() -> Programs:
    found = find_programs()
    if isinstance(found, str):
        if os.environ.get("TRAJPIPE_REQUIRE_SCALE") == "1":
            pytest.fail(f"required: {found}")
        pytest.skip(found)
    return found


@dataclass(frozen=True, slots=True)
class Cluster:
    """A project whose Dagster runs on Postgres and Ray.

    Attributes:
        python: Interpreter with Ray.
        work: Holds the data folder and DAGSTER_HOME.
        environment: Of every process.
        url: Dagster's web server.
    """

    python: Path
    work: Path
    environment: dict[str, str]
    url: str

    def ask(self, query: str, params: dict[str, Any]) -> dict[str, Any]:
        """The answer to a GraphQL mutation of one field."""
        body = json.dumps({"query": query, "variables": {"params": params}}).encode()
        request = urllib.request.Request(f"{self.url}/graphql", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as answer:
            value = json.load(answer)
        assert "errors" not in value, value
        (found,) = value["data"].values()
        assert found["__typename"].endswith("Success"), found
        return dict(found)

    def backfill(self, keys: list[str]) -> str:
        """Start a backfill of `lift/demos`; its id."""
        params = {"assetSelection": [{"path": ["lift", "demos"]}], "partitionNames": keys}
        return str(self.ask(BACKFILL, params)["backfillId"])

    def build(self, dataset: str) -> str:
        """Start a run that builds and exports a dataset's store; its id."""
        selector = {
            "repositoryLocationName": "trajpipe.definitions",
            "repositoryName": "__repository__",
            "jobName": f"{dataset}_build",
        }
        answer = self.ask(LAUNCH, {"selector": selector, "runConfigData": {}})
        return str(answer["run"]["runId"])

    def gate(self, run_id: str) -> dict[str, Any]:
        """Wait for a run or backfill by `trajpipe gate`, on the same Postgres."""
        command = [str(self.python), "-m", "trajpipe", "gate", "--run-id", run_id, "--format", "json"]
        done = subprocess.run(
            command,
            cwd=self.work,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert done.returncode in (0, 1), done.stdout[-3000:] + done.stderr[-3000:]
        return dict(json.loads(done.stdout))


@contextmanager
def dagster(python: Path, work: Path, environment: dict[str, str]) -> Iterator[Cluster]:
    """Daemon, web server and code location over the project."""
    home = work / "home"
    home.mkdir()
    shutil.copy(REPOSITORY / "docs/deploy/several-machines.dagster.yaml", home / "dagster.yaml")
    environment = environment | {
        "DAGSTER_HOME": str(home),
        "TRAJPIPE_DATA": str(work / "data"),
        "TRAJPIPE_SENSOR_INTERVAL": "86400",
        "PYTHONPATH": str(REPOSITORY),
    }
    subprocess.run([python, "-c", SCAN], cwd=work, env=environment, check=True)
    command = [str(python), "-m", "trajpipe", "dev", "--json", "--port", str(free_port())]
    log = work / "dev.log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command,
            cwd=work,
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
            while not text.endswith("\n}\n"):  # one indented document
                line = process.stdout.readline()
                assert line, log.read_text()[-3000:]
                text += line
            ready = json.loads(text)
            assert ready.get("ready"), f"{text}\n{log.read_text()[-3000:]}"
            yield Cluster(python, work, environment, ready["url"])
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def write_project(root: Path) -> Project:
    """24 recordings of `lift`, one broken, one long enough to be killed at; `gone` has a broken one."""
    for name in ("lift", "gone"):
        (root / "raw" / name).mkdir(parents=True)
    for n in range(NUMBER):
        path = root / f"raw/lift/r{n:02d}.hdf5"
        long = (
            {"episodes": LONG_EPISODES, "rows": (300, 300)}
            if path.stem == LONG
            else {"episodes": 1, "rows": (4, 6)}
        )
        write_recording("isaaclab", path, seed=n, cameras=(), **long)  # type: ignore[arg-type]  # by name
    (root / f"raw/lift/{BROKEN}.hdf5").write_bytes(b"broken")
    (root / "raw/gone/r00.hdf5").write_bytes(b"broken")
    (root / "datasets.yaml").write_text(CATALOGUE)
    return Project.open(root / "datasets.yaml")


def contents(project: Project) -> dict[str, list[str]]:
    """Recording → content hash of each demo of its L2 file, for the files that are there."""
    found = {}
    for recording in project.recordings("lift"):
        path = project.demos_path(recording)
        if path.exists():
            with h5py.File(path) as file:
                demos = file["data"]
                found[recording.key] = [str(demos[name].attrs["content_sha256"]) for name in sorted(demos)]
    return found


def kill_writer(folder: Path, key: str, timeout_s: float = 200.0) -> int:
    """Kill the process that is writing a recording's L2 file; its pid, which its temporary's name tells."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        for path in folder.glob(f".*{key}*{names.TEMPORARY_MARK}*"):
            pid = int(path.name.rpartition(names.TEMPORARY_MARK)[2].split("-")[1])
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                return pid
        time.sleep(0.01)
    raise AssertionError(f"nobody wrote {key}")


def failed(report: dict[str, Any]) -> dict[str, set[str]]:
    """Path → codes of what was found, of outcomes that failed."""
    out: dict[str, set[str]] = {}
    for one in report["outcomes"]:
        if one["state"] == "failed":
            out.setdefault(one["path"], set()).update(f["code"] for f in one["findings"])
    return out


def steps(built: dict[str, Any], stage: Stage) -> set[str]:
    """The states that the checks of a stage are in."""
    return {one["state"] for one in built["outcomes"] if one["stage"] == stage.value}


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_backfill_on_postgres_and_ray(programs: Programs, tmp_path: Path) -> None:
    began = time.monotonic()

    def tell(what: str) -> None:
        print(f"\n{time.monotonic() - began:.0f} s: {what}", end="", flush=True)

    project = write_project(tmp_path / "data")
    keys = [r.key for r in project.recordings("lift")]
    assert len(keys) == NUMBER
    shutil.copytree(project.root, tmp_path / "local")
    local = Project.open(tmp_path / "local/datasets.yaml")
    run(local, ["lift"], RunOptions(stages=(Stage.DEMOS,)))
    expected = contents(local)
    assert len(expected) == NUMBER - 1
    alone = {f"lift/demos/{BROKEN}": {"unreadable"}}
    with marked_processes() as environment:
        environment["PYTHONPATH"] = str(REPOSITORY)
        environment["PATH"] = f"{programs.python.parent}:{environment['PATH']}"
        with (
            postgres(programs, environment, tmp_path / "postgres.log") as database,
            ray_head(programs, environment, tmp_path / "ray.log") as ray,
            dagster(programs.python, tmp_path, environment | database | ray) as cluster,
        ):
            tell("ready")
            first = cluster.backfill(keys)
            kill_writer(project.root / "demos", LONG)
            tell("killed a worker")
            report = cluster.gate(first)
            tell("backfill ended")
            assert failed(report) == alone
            assert {one["key"] for one in report["outcomes"]} == set(keys)
            done = contents(project)
            assert done == {key: expected[key] for key in done}
            assert set(expected) - set(done) <= {LONG}

            again = cluster.gate(cluster.backfill([BROKEN, LONG, "r00"]))
            tell("repeated")
            assert (failed(again), again["failures"]) == (alone, [])
            assert contents(project) == expected

            runs = {name: cluster.build(name) for name in ("lift", "gone")}
            built, blocked = cluster.gate(runs["lift"]), cluster.gate(runs["gone"])
            tell("stores built and blocked")
    assert built["code"] == 0, built
    with h5py.File(project.store_path("lift")) as store:
        assert len(store["ep_len"]) == sum(len(demos) for demos in expected.values())
    assert (project.lerobot_path("lift") / "meta/info.json").is_file()
    # The blocking check of a store without recordings: red, nothing published, its export never began.
    assert failed(blocked) == {"gone/store": {"stage-builds"}}
    assert steps(blocked, Stage.LEROBOT) == {"never-ran"}
    assert not project.store_path("gone").exists()
    assert not project.lerobot_path("gone").exists()
    tell("all stopped")
