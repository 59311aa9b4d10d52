"""Dagster's pages of a running project: graph, pictures, a launched run, a red check, nothing built below it.

What is not here: the HTML report, see `test_report`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from trajpipe.core.names import Stage
from trajpipe_tests.browser.conftest import BAD, GOOD, Dev

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser
Screenshot = Callable[["Page", str], Path]
PICTURES = (
    "rejection funnel",
    "episode lengths",
    "contact sheet",
    "action distribution",
    "state distribution",
    "joint plots",
    "action lag",
)


@pytest.fixture(scope="module")
def ingested(dev: Dev) -> Dev:
    """The project once the folder sensors' own runs of all recordings have ended."""
    dev.until(
        "the sensors' runs end",
        lambda: (
            sorted(dev.runs(f"{GOOD}_demos")) == ["SUCCESS"] * 3 and dev.runs(f"{BAD}_demos") == ["FAILURE"]
        ),
    )
    return dev


def test_an_l2_asset_shows_its_pictures_and_columns(
    ingested: Dev, page: Page, screenshot: Screenshot
) -> None:
    page.goto(f"{ingested.url}/assets/{GOOD}/demos?view=partitions&partition=rl_lift")
    page.get_by_text("read 4 · written 3 · rejected 1 (1 not-successful)").first.wait_for()
    page.get_by_text("trajpipe report").first.wait_for()
    screenshot(page, "demos-asset")
    page.get_by_text("[Show Markdown]").first.click()
    for name in PICTURES:
        picture = page.get_by_role("img", name=name, exact=True)
        picture.wait_for()
        assert picture.evaluate("image => image.complete && image.naturalWidth") >= 400, name
    page.get_by_role("img", name="contact sheet").scroll_into_view_if_needed()
    screenshot(page, "demos-pictures")


def test_a_run_launched_with_the_button_succeeds(ingested: Dev, page: Page, screenshot: Screenshot) -> None:
    job = f"{GOOD}_build"
    before = ingested.runs(job)
    page.goto(f"{ingested.url}/locations/trajpipe/jobs/{job}")
    page.get_by_role("button", name="Materialize all").click()
    ingested.until("the run is launched", lambda: len(ingested.runs(job)) == len(before) + 1)
    ingested.until("the run ends", lambda: ingested.runs(job)[0] in ("SUCCESS", "FAILURE", "CANCELED"))
    page.goto(f"{ingested.url}/runs/{ingested.last_run(job)}")
    page.get_by_text("Success", exact=True).first.wait_for()
    page.get_by_text("ASSET_MATERIALIZATION").or_(page.get_by_text("Materialization")).first.wait_for()
    screenshot(page, "run")
    for stage in (Stage.STORE, Stage.LEROBOT):
        assert ingested.materializations(GOOD, stage.value) >= 1


def test_the_graph_shows_the_four_stages_built(ingested: Dev, page: Page, screenshot: Screenshot) -> None:
    built = partial(ingested.materializations, GOOD)
    ingested.until("both are built", lambda: min(built(Stage.STORE.value), built(Stage.LEROBOT.value)) > 0)
    page.goto(f"{ingested.url}/locations/trajpipe/asset-groups/{GOOD}")
    for stage in Stage:
        page.get_by_text(stage.value, exact=True).first.wait_for()
    page.get_by_text("3 partitions", exact=True).nth(1).wait_for()  # raw and demos
    page.get_by_text("Materialized", exact=True).nth(1).wait_for()  # store and lerobot
    screenshot(page, "asset-graph")


def test_a_store_says_where_its_columns_come_from(ingested: Dev, page: Page, screenshot: Screenshot) -> None:
    ingested.until("the store is built", lambda: ingested.materializations(GOOD, Stage.STORE.value) > 0)
    page.goto(f"{ingested.url}/assets/{GOOD}/store")
    page.get_by_text("from obs/table_cam, obs/wrist_cam").first.wait_for()
    screenshot(page, "store-asset")


def test_a_failing_check_is_red_and_nothing_is_built_below_it(
    ingested: Dev, page: Page, screenshot: Screenshot
) -> None:
    page.goto(f"{ingested.url}/assets/{BAD}/demos?view=checks&checkDetail=stage_builds")
    page.get_by_text("the file is truncated").first.wait_for()
    failed = page.get_by_text("Failed", exact=True).last
    failed.wait_for()
    red, green, blue = (
        int(c) for c in re.findall(r"\d+", failed.evaluate("e => getComputedStyle(e).color"))[:3]
    )
    assert red > 100 > max(green, blue), (red, green, blue)
    screenshot(page, "demos-checks")
    for stage in (Stage.DEMOS, Stage.STORE, Stage.LEROBOT):
        assert ingested.materializations(BAD, stage.value) == 0
        assert not (ingested.root / "stores" / f"{BAD}.h5").exists()
    page.goto(f"{ingested.url}/locations/trajpipe/asset-groups/{BAD}")
    page.get_by_text("1 failed").first.wait_for()
    page.get_by_text("Never materialized", exact=True).nth(1).wait_for()  # store and lerobot
    assert page.get_by_text("Materialized", exact=True).count() == 0
    screenshot(page, "blocked-graph")
