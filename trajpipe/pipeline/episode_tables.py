"""Per-episode side tables of a store: source tags, success, split, file, demo, content hash.

What is not here: columns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core import names
from trajpipe.core.episode import Episode
from trajpipe.core.names import Split

_NO_SPLIT: Final = "none"
_SPLIT_NAMES: Final = [*(split.value for split in Split), _NO_SPLIT]


@dataclass(slots=True)
class EpisodeTables:
    """Gathers one row per episode."""

    sources: list[str] = field(default_factory=list)
    success: list[int] = field(default_factory=list)
    splits: list[int] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    demos: list[str] = field(default_factory=list)
    content: list[bytes] = field(default_factory=list)
    rows: int = 0

    def add(self, episode: Episode) -> None:
        """Note an episode's facts."""
        known = episode.success is not None
        self.sources.append(episode.tag)
        self.success.append(int(bool(episode.success)) if known else names.SUCCESS_UNKNOWN)
        self.splits.append(_SPLIT_NAMES.index(episode.split or _NO_SPLIT))
        self.files.append(episode.source_file)
        self.demos.append(episode.source_demo)
        self.content.append(bytes.fromhex(episode.content_sha256 or "00" * 32))
        self.rows += episode.length

    def tables(self) -> dict[str, NDArray[Any] | list[str]]:
        """Side table name → one row per episode, and the lists of names that codes point into."""
        tags = sorted(set(self.sources))
        return {
            names.SIDE_EP_SOURCE: np.array([tags.index(t) for t in self.sources], np.uint8),
            names.SIDE_SOURCE_TAGS: tags,
            names.SIDE_EP_SUCCESS: np.array(self.success, np.uint8),
            names.SIDE_EP_SPLIT: np.array(self.splits, np.uint8),
            names.SIDE_SPLIT_NAMES: list(_SPLIT_NAMES),
            names.SIDE_EP_FILE: list(self.files),
            names.SIDE_EP_DEMO: list(self.demos),
            names.SIDE_EP_CONTENT: np.frombuffer(b"".join(self.content), np.uint8).reshape(-1, 32),
        }
