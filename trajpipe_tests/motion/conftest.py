"""Models and clips that the tests of motions share.

What is not here: tests.
"""

from __future__ import annotations

from typing import Any

import mujoco
import pytest

from trajpipe.motion.g1 import g1
from trajpipe.motion.skeleton_mjcf import mjcf_of


@pytest.fixture(scope="session")
def g1_model() -> Any:
    """The built-in facts, compiled by MuJoCo."""
    return mujoco.MjModel.from_xml_string(mjcf_of(g1()))
