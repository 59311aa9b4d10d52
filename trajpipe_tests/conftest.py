"""Fixtures that every test may use.

What is not here: fixtures of one area, they live beside their tests.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


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
def full() -> bool:
    """True when long random tests run their full count (TRAJPIPE_FULL=1)."""
    return os.environ.get("TRAJPIPE_FULL") == "1"
