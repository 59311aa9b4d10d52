"""HTML reports in a real chromium: offline, no script of data runs, 1,000 episodes stay lazy, keys.

What is not here: what the page holds, see `trajpipe_tests/pipeline/test_report.py`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import h5py
import pytest

from trajpipe.core.names import Stage
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.report import write_report
from trajpipe.pipeline.report_options import ReportOptions
from trajpipe.pipeline.report_subject import subject_of_dataset, subject_of_path
from trajpipe.pipeline.run import run
from trajpipe.report.html_model import EpisodeFacts, Output, Report
from trajpipe.report.html_page import details, write_page
from trajpipe.testing import write_recording
from trajpipe_tests.browser.conftest import GOOD, SIZE, write_project

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HOSTILE: Final = (
    '</script><img src=x onerror="document.title=\'owned\'"><script>document.title="owned"</script>'
)
EPISODES: Final = 1000
# far above what it takes (under 1 s on two busy cores), far below a page that builds everything at once
PATIENCE_S: Final = 20.0


class _Watched:
    """What a page asks for beyond itself, and what it complains of."""

    def __init__(self, page: Page) -> None:
        self.requests: list[str] = []
        self.complaints: list[str] = []
        page.on("request", lambda r: self.requests.append(r.url))
        page.on("console", lambda m: self.complaints.append(m.text))
        page.on("pageerror", lambda e: self.complaints.append(str(e)))

    def is_quiet(self, path: Path) -> bool:
        """Nothing but the file was asked for, and nobody complained."""
        others = [url for url in self.requests if not url.startswith(("data:", path.as_uri()))]
        return not others and not self.complaints


def opened(page: Page, path: Path, fragment: str = "") -> _Watched:
    """Open a report and wait until its script is done."""
    watched = _Watched(page)
    page.goto(path.as_uri() + fragment)
    page.wait_for_selector("html[data-ready='1']")
    return watched


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the sample's mixed dataset, all stages built."""
    root = write_project(tmp_path_factory.mktemp("mixed"))
    project = Project.open(root / "datasets.yaml")
    assert run(project, [GOOD]).ok
    return write_report(subject_of_dataset(project, GOOD), root / "lift.html").path


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of 1,000 episodes at the bound of its size; its blocks are those of one real episode."""
    folder = tmp_path_factory.mktemp("large")
    raw = folder / "one.hdf5"
    write_recording("isaaclab", raw, episodes=1, rows=(40, 40), cameras=("table_cam",), image_size=64)
    one = write_report(
        subject_of_path(raw, Stage.RAW), folder / "one.html", ReportOptions(frames=5, run_rules=False)
    )
    value = _block(one.path.read_text("utf-8"), "d0")
    value["c"] = value["c"][:7]
    report = Report(
        "large", "1,000 episodes", [Output("demos", "large.hdf5", episodes=EPISODES)], known=EPISODES
    )
    with details(folder, 15 << 20) as added:
        for number in range(EPISODES):
            part = (0, added.add(value), f"demo_{number}", 40)
            report.episodes.append(
                EpisodeFacts(part[2], "large.hdf5", part[2], 40, f"task {number % 7}", parts=[part])
            )
        assert added.number == EPISODES
        write_page(report, added, folder / "large.html")
    return folder / "large.html"


def _block(text: str, name: str) -> Any:
    return json.loads(text.partition(f'id="{name}">')[2].partition("</script>")[0])


def test_a_thousand_episodes_open_lazily(page: Page, large: Path) -> None:
    assert large.stat().st_size > 7 << 20
    began = time.perf_counter()
    watched = opened(page, large)
    took = time.perf_counter() - began
    assert took < PATIENCE_S
    assert page.locator("#list tbody tr").count() == 100
    assert page.locator("canvas").count() == 0, "nothing of an episode is drawn before it is asked for"
    elements = page.evaluate("document.getElementsByTagName('*').length")
    scripts = page.locator('script[type="application/json"]').count()
    assert scripts == EPISODES + 1
    assert elements - scripts < 1500
    page.keyboard.press("j")
    page.wait_for_selector("#viewer canvas")
    assert page.locator("#viewer h3 span").inner_text() == "demo_0"
    assert watched.is_quiet(large), (watched.requests, watched.complaints)
    print(f"1,000 episodes, {large.stat().st_size / 1e6:.1f} MB: ready after {took:.2f} s")


def test_filter_pages_and_keys(page: Page, large: Path) -> None:
    opened(page, large)
    page.keyboard.press("/")
    page.keyboard.type("demo_99 task")
    assert page.locator("#count").inner_text() == "1\N{EN DASH}11 of 11 that match, of 1,000 episodes"
    page.keyboard.press("Enter")
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert page.locator("#viewer h3 span").inner_text() == "demo_990"
    page.keyboard.press("k")
    assert page.locator("#viewer h3 span").inner_text() == "demo_99"
    assert page.evaluate("location.hash") == "#e=99"
    page.keyboard.press("Escape")
    assert page.locator("#viewer").is_hidden()
    page.locator("#filter").fill("")
    page.locator("#later").click()
    assert page.locator("#list tbody tr td").first.inner_text() == "100"


def test_frames_of_all_stages_side_by_side_follow_the_row(
    page: Page, mixed: Path, screenshot: Callable[[Page, str], Path]
) -> None:
    watched = opened(page, mixed, "#e=3")
    captions = page.locator("#viewer .big figcaption")
    page.wait_for_function("document.querySelector('#viewer .big figcaption').textContent.includes('row 0')")
    told = [c for c in captions.all_inner_texts() if "table_cam" in c]
    assert told == [f"{stage} · table_cam · row 0" for stage in ("demos", "store", "lerobot")]
    large = page.locator("#viewer .big canvas").first
    before = large.screenshot()
    for _ in range(20):
        page.keyboard.press("ArrowRight")
    assert "row 0" not in captions.first.inner_text()
    assert large.screenshot() != before
    page.locator("#viewer").scroll_into_view_if_needed()
    page.evaluate("document.getElementById('viewer').scrollIntoView()")
    screenshot(page, "report-episode")
    assert watched.is_quiet(mixed), (watched.requests, watched.complaints)


def test_curves_are_drawn_with_the_recorded_values(page: Page, mixed: Path) -> None:
    opened(page, mixed, "#e=0")
    name = page.locator("#viewer .curve .label span").first.inner_text()
    assert name.startswith("actions")
    recording = next((mixed.parent / "demos").glob("rl_*.hdf5"))
    with h5py.File(recording) as file:
        wanted = file["data/demo_0/actions"][0].tolist()
    shown = page.locator("#viewer .curve .values").first.inner_text().removeprefix("row 0: ").split()
    assert [float(v) for v in shown] == pytest.approx(wanted, abs=2e-4)
    script = """() => {const c = document.querySelector('#viewer .curve canvas');
        return c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some((v) => v > 0);}"""
    assert page.evaluate(script) is True


def test_hostile_names_neither_run_nor_break_the_page(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "l2.hdf5"
    write_recording("isaaclab", path, episodes=2, rows=(8, 8), cameras=("table_cam",), image_size=16)
    with h5py.File(path, "r+") as file:
        for demo in file["data"].values():
            demo.attrs["task"] = HOSTILE
            demo.attrs["source_file"] = HOSTILE
            demo.move("obs/eef_pos", "obs/" + HOSTILE.replace("/", "|"))
    made = write_report(subject_of_path(path, Stage.DEMOS), tmp_path / "a.html")
    watched = opened(page, made.path, "#e=1")
    page.wait_for_selector("#viewer .curve")
    assert page.locator("#list tbody tr td:nth-child(3)").first.inner_text() == HOSTILE
    assert any("onerror" in t for t in page.locator("#viewer .curve .label").all_inner_texts())
    assert page.title() == "l2.hdf5 · trajpipe report"
    assert watched.is_quiet(made.path), (watched.requests, watched.complaints)


def test_the_policy_stops_a_script_that_got_in(page: Page, mixed: Path, tmp_path: Path) -> None:
    worse = tmp_path / "worse.html"
    inside = '<img src="x" onerror="document.title=\'owned\'"><script>document.title="owned"</script></main>'
    worse.write_text(mixed.read_text("utf-8").replace("</main>", inside), "utf-8")
    watched = opened(page, worse)
    assert page.title() == f"{GOOD} · trajpipe report"
    assert any("Content Security Policy" in text for text in watched.complaints)


def test_without_javascript_the_overview_is_there(
    chromium: Browser, mixed: Path, screenshot: Callable[[Page, str], Path]
) -> None:
    context = chromium.new_context(viewport=SIZE, java_script_enabled=False)  # type: ignore[arg-type]  # a TypedDict of playwright's own
    page = context.new_page()
    page.goto(mixed.as_uri())
    text = page.locator("body").inner_text()
    for words in (
        "Proven: raw = L2 = store = LeRobot",
        "nan-action",
        "Rejected episodes",
        "Without JavaScript",
    ):
        assert words in text
    assert page.locator("#list tbody tr").count() == 8
    assert page.locator("#pictures img").count() >= 8
    screenshot(page, "report")
    context.close()
