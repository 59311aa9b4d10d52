"""Fixtures that every test may use.

What is not here: fixtures of one area, they live beside their tests.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings

from trajpipe_tests.readers.runner import readers_folder
from trajpipe_tests.readers.runner import run_reader as _run_reader

REPOSITORY = Path(__file__).resolve().parent.parent
MARKER_OF_FIXTURE: Final = {
    "shared": "shared",
    "shared_data": "shared",
    "readers": "readers",
    "run_reader": "readers",
}
FULL: Final = os.environ.get("TRAJPIPE_FULL") == "1"

# A shell's background job ignores Ctrl-C, and so would every server and command that tests start and stop so.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples in every run, more of them in a full one; two busy cores make deadlines meaningless.
settings.register_profile(
    "trajpipe",
    deadline=None,
    derandomize=True,
    max_examples=1000 if FULL else 100,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("trajpipe")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by what they ask for, so that `-m "not readers"` needs no marker by hand."""
    for item in items:
        for name in getattr(item, "fixturenames", ()):
            if name in MARKER_OF_FIXTURE:
                item.add_marker(MARKER_OF_FIXTURE[name])


@pytest.fixture(autouse=True, scope="module")
def _no_instance_stays_entered() -> Iterator[None]:
    """Fails a module that enters a Dagster instance and does not leave it: later ones would see it dead."""
    yield
    states = sys.modules.get("dagster._core.storage.defs_state.base")
    assert states is None or states.DefsStateStorage.get() is None, "leave what Dagster builds: use `with`"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The shared folder with real files; skips when there is none."""
    folder = Path(os.environ.get("TRAJPIPE_SHARED", REPOSITORY.parent / "shared"))
    if not (folder / "data").is_dir():
        if os.environ.get("TRAJPIPE_REQUIRE_SHARED") == "1":
            pytest.fail(f"the shared folder is required and absent: {folder}")
        pytest.skip(f"no shared folder at {folder} (set TRAJPIPE_SHARED)")
    return folder


@pytest.fixture(scope="session")
def shared_data(shared: Path) -> Path:
    """The real sample files of the shared folder."""
    return shared / "data"


@pytest.fixture(scope="session")
def readers() -> Path:
    """The independent readers' environment; skips when it is not built."""
    folder = readers_folder()
    if folder is None:
        if os.environ.get("TRAJPIPE_REQUIRE_READERS") == "1":
            pytest.fail("the independent readers are required and not built (.ci/readers.sh)")
        pytest.skip("the independent readers are not built: run .ci/readers.sh (1.8 GB, once)")
    return folder


@pytest.fixture
def run_reader(readers: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, Any]]:
    """`run_reader(name, *arguments)` → what that reader printed; each call has an empty home of its own.

    Names: robomimic PATH · isaaclab PATH · lerobot-0.3.3 ROOT [--frames 0,5,-1] [--save DIR] ·
    lerobot-0.4.4 ROOT … · lerobot-convert SOURCE TARGET.
    """

    def run(name: str, *arguments: object) -> dict[str, Any]:
        call = partial(_run_reader, folder=readers, scratch=tmp_path_factory.mktemp("home"))
        return call(name, *arguments)

    return run


@pytest.fixture(scope="session")
def full() -> bool:
    """True when long random tests run their full count (TRAJPIPE_FULL=1)."""
    return FULL
