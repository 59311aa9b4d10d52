"""Fixtures of the checks' tests.

What is not here: fixtures of all tests, see the `conftest.py` above.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from trajpipe_tests.demos.builders import written


@pytest.fixture
def good_demos(tmp_path: Path) -> Path:
    """An L2 file `a.hdf5` in which every rule passes."""
    return written(tmp_path / "a.hdf5")
