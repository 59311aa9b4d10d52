"""Generated recordings that many tests of this folder look at.

What is not here: fixtures of other areas.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from trajpipe.testing import KINDS, write_recording


@pytest.fixture(scope="session")
def good(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One small good recording of every kind, with images where the kind has them; not to be changed."""
    folder = tmp_path_factory.mktemp("good")
    return {
        kind: write_recording(
            kind, folder / kind / "recording_demo.hdf5", episodes=4, rows=(8, 12), image_size=24, seed=5
        )
        for kind in KINDS
    }
