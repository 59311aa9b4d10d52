"""The trajectory store: one HDF5 file of named columns over rows, with an episode index.

Usable alone in a training script; the names below are loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from trajpipe.store.columns import ColumnSpec, Compression
    from trajpipe.store.episode_index import EpisodeIndex
    from trajpipe.store.manifest import Manifest
    from trajpipe.store.reader import TrajectoryStore
    from trajpipe.store.writer import TrajectoryStoreWriter

_HOME: Final[dict[str, str]] = {
    "ColumnSpec": "columns",
    "Compression": "columns",
    "EpisodeIndex": "episode_index",
    "Manifest": "manifest",
    "TrajectoryStore": "reader",
    "TrajectoryStoreWriter": "writer",
}

__all__ = [
    "ColumnSpec",
    "Compression",
    "EpisodeIndex",
    "Manifest",
    "TrajectoryStore",
    "TrajectoryStoreWriter",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"trajpipe.store.{_HOME[name]}"), name)
    raise AttributeError(f"module 'trajpipe.store' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
