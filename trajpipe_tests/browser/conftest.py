"""A real chromium, and a real `trajpipe dev` over a part of the bundled sample project.

Screenshots go to the test's own folder; with TRAJPIPE_SCREENSHOTS=1 those with a name go to docs/images.
What is not here: the pages that are looked at.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from trajpipe.testing import write_recording
from trajpipe.testing.sample import SAMPLE
from trajpipe_tests.cli.conftest import command_line, environment
from trajpipe_tests.conftest import REPOSITORY

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PATIENCE_S: Final = 400.0
SIZE: Final = {"width": 1400, "height": 900}
IMAGES: Final = REPOSITORY / "docs/images"
FLAGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
GOOD: Final = "lift_mixed"
BAD: Final = "lift_cut"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything that asks for a page needs the browser."""
    for item in items:
        if {"chromium", "page", "dev"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.browser)


def _absent(why: str) -> None:
    if os.environ.get("TRAJPIPE_REQUIRE_BROWSER") == "1":
        pytest.fail(f"the browser is required and absent: {why}")
    pytest.skip(why)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """A headless chromium of the system; skips when it or playwright is absent."""
    program = os.environ.get("TRAJPIPE_CHROMIUM") or shutil.which("chromium")
    if program is None:
        _absent("no chromium (apt-get install chromium, or set TRAJPIPE_CHROMIUM)")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _absent("playwright is not installed (pip install 'trajpipe[test]')")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, headless=True, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """A fresh page, 1400 x 900; what it can't find within 90 s fails the test."""
    context = chromium.new_context(viewport=SIZE)  # type: ignore[arg-type]  # a TypedDict of playwright's own
    context.set_default_timeout(90_000)
    yield context.new_page()
    context.close()


@pytest.fixture
def screenshot(tmp_path: Path) -> Callable[[Page, str], Path]:
    """`screenshot(page, name)` → the PNG, at least 10 kB of it: an empty page has less."""

    def take(page: Page, name: str) -> Path:
        folder = IMAGES if os.environ.get("TRAJPIPE_SCREENSHOTS") == "1" else tmp_path
        path = folder / f"{name}.png"
        page.screenshot(path=path)
        assert path.stat().st_size > 10_000
        return path

    return take


@dataclass(frozen=True)
class Dev:
    """A running `trajpipe dev`.

    Attributes:
        url: Where its pages are.
        root: Data folder of its project.
    """

    url: str
    root: Path

    def ask(self, query: str, **variables: Any) -> Any:
        """What the GraphQL API answers.

        Raises:
            AssertionError: with its errors.
        """
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(f"{self.url}/graphql", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as response:
            answer = json.load(response)
        assert "errors" not in answer, answer
        return answer["data"]

    def runs(self, job: str) -> list[str]:
        """Statuses of a job's runs, the newest first."""
        return [run["status"] for run in self._runs(job)]

    def last_run(self, job: str) -> str:
        """The id of a job's newest run."""
        return str(self._runs(job)[0]["runId"])

    def _runs(self, job: str) -> list[dict[str, Any]]:
        query = """query($job: String!) {runsOrError(filter: {pipelineName: $job}) {
            ... on Runs {results {runId status}}}}"""
        found = self.ask(query, job=job)["runsOrError"]["results"]
        return list(found)

    def materializations(self, *key: str) -> int:
        """How often an asset was materialized."""
        query = """query($path: [String!]!) {assetOrError(assetKey: {path: $path}) {
            ... on Asset {assetMaterializations {timestamp}}}}"""
        return len(self.ask(query, path=list(key))["assetOrError"].get("assetMaterializations", []))

    def until(self, what: str, holds: Callable[[], bool]) -> None:
        """Wait until something is so."""
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, f"{what}: not within {PATIENCE_S:.0f} s"
            time.sleep(0.5)


def write_project(folder: Path) -> Path:
    """The sample's mixed dataset, and one with a recording that is cut off; returns the data folder.

    Recordings get an old time, so that the first tick of a sensor takes them.
    """
    root = folder / "data"
    catalogue = yaml.safe_load((REPOSITORY / "data/datasets.yaml").read_text(encoding="utf-8"))
    lift = catalogue["datasets"][GOOD]
    cut = {k: v for k, v in lift.items() if k not in ("raw", "task_name")} | {
        "description": "A recording whose copy was interrupted: red, and nothing is built from it.",
        "raw": [{"kind": "isaaclab", "glob": f"raw/{BAD}/*.hdf5", "tag": "scripted"}],
    }
    catalogue["datasets"] = {GOOD: lift, BAD: cut}
    for file in SAMPLE:
        if file.path.startswith(f"raw/{GOOD}/"):
            write_recording(file.kind, root / file.path, **file.options)
    whole = (root / f"raw/{GOOD}/rl_lift.hdf5").read_bytes()
    (root / f"raw/{BAD}").mkdir(parents=True)
    (root / f"raw/{BAD}/scripted_cut.hdf5").write_bytes(whole[: len(whole) // 2])
    for path in root.rglob("*.hdf5"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    (root / "datasets.yaml").write_text(yaml.safe_dump(catalogue, sort_keys=False), encoding="utf-8")
    return root


@pytest.fixture(scope="session")
def dev(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    """`trajpipe dev` over that project, ready; stopped with Ctrl-C."""
    folder = tmp_path_factory.mktemp("project")
    shutil.copy(REPOSITORY / "workspace.yaml", folder)
    root = write_project(folder)
    left = environment(DAGSTER_HOME=str(folder / ".dagster"), TRAJPIPE_SENSOR_INTERVAL="5")
    port = 40000 + os.getpid() % 10000
    with (folder / "dev.log").open("w") as log:
        process = subprocess.Popen(
            [*command_line(["dev", "--root", str(root), "--port", str(port)])],
            cwd=folder,
            env=left,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
        try:
            assert process.stdout is not None
            ready = process.stdout.readline()
            assert ready.startswith("ready: http://127.0.0.1:"), (folder / "dev.log").read_text()
            yield Dev(ready.split()[1], root)
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                if process.poll() is None:
                    process.send_signal(number)
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(90)
            assert process.stdout is not None
            process.stdout.close()
            assert process.poll() is not None, "trajpipe dev does not stop"
