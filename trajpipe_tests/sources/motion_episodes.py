"""Reading motion clips through their source, for the tests.

What is not here: tests.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trajpipe.core.conventions import Conventions
from trajpipe.core.episode import Description, Episode, whole
from trajpipe.core.findings import Finding
from trajpipe.sources import base
from trajpipe.sources.base import ReadOptions
from trajpipe.testing.lafan import MotionClip

PLAIN = Conventions()


def read(path: Path, conventions: Conventions = PLAIN, **options: Any) -> tuple[list[Any], list[Finding]]:
    """Episodes and rejections, and what was reported."""
    found: list[Finding] = []
    asked = ReadOptions(conventions, sha256="ab" * 32, report=found.append, options=options)
    return list(base.source("lafan").episodes(path, asked)), found


def one(path: Path, conventions: Conventions = PLAIN, **options: Any) -> Episode:
    (episode,), _ = read(path, conventions, **options)
    assert isinstance(episode, Episode), episode
    return episode


def describe(path: Path, conventions: Conventions = PLAIN, **options: Any) -> Description:
    return base.source("lafan").describe(path, ReadOptions(conventions, options=options))


def term(episode: Episode, name: str) -> NDArray[Any]:
    return whole(episode.columns[f"obs/{name}"])


def require_clip(episode: Episode, clip: MotionClip, tolerance: float) -> None:
    np.testing.assert_allclose(term(episode, "joint_pos"), clip.joint_pos, atol=tolerance)
    np.testing.assert_allclose(term(episode, "root_pos"), clip.root_pos, atol=tolerance)
    signs = np.sign((term(episode, "root_quat") * clip.root_quat).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(term(episode, "root_quat") * signs, clip.root_quat, atol=tolerance)
