"""The trajectory store: one HDF5 file of named columns over rows, with an episode index.

Usable alone in a training script; the names below are loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from trajpipe.store.columns import ColumnSpec, Compression
    from trajpipe.store.demo_convert import demo_to_store, store_to_demo
    from trajpipe.store.demo_file import Demo, DemoRecorder, inspect_demo, read_demo, write_demo
    from trajpipe.store.episode_index import EpisodeIndex
    from trajpipe.store.episodes import episodes_of
    from trajpipe.store.inspect import describe
    from trajpipe.store.manifest import Manifest
    from trajpipe.store.prioritized import PrioritizedSampler
    from trajpipe.store.reader import TrajectoryStore
    from trajpipe.store.residency import DeviceColumn, ResidentColumn, WindowedColumn
    from trajpipe.store.samplers import (
        IndexBatch,
        SequenceWindowSampler,
        UniformDeviceSampler,
        UniformSampler,
        WindowSampler,
    )
    from trajpipe.store.versions import compact, extending
    from trajpipe.store.writer import TrajectoryStoreWriter

_HOME: Final[dict[str, str]] = {
    "ColumnSpec": "columns",
    "Compression": "columns",
    "Demo": "demo_file",
    "DemoRecorder": "demo_file",
    "DeviceColumn": "residency",
    "EpisodeIndex": "episode_index",
    "IndexBatch": "samplers",
    "Manifest": "manifest",
    "PrioritizedSampler": "prioritized",
    "ResidentColumn": "residency",
    "SequenceWindowSampler": "samplers",
    "TrajectoryStore": "reader",
    "TrajectoryStoreWriter": "writer",
    "UniformDeviceSampler": "samplers",
    "UniformSampler": "samplers",
    "WindowSampler": "samplers",
    "WindowedColumn": "residency",
    "compact": "versions",
    "demo_to_store": "demo_convert",
    "describe": "inspect",
    "episodes_of": "episodes",
    "extending": "versions",
    "inspect_demo": "demo_file",
    "read_demo": "demo_file",
    "store_to_demo": "demo_convert",
    "write_demo": "demo_file",
}

__all__ = [
    "ColumnSpec",
    "Compression",
    "Demo",
    "DemoRecorder",
    "DeviceColumn",
    "EpisodeIndex",
    "IndexBatch",
    "Manifest",
    "PrioritizedSampler",
    "ResidentColumn",
    "SequenceWindowSampler",
    "TrajectoryStore",
    "TrajectoryStoreWriter",
    "UniformDeviceSampler",
    "UniformSampler",
    "WindowSampler",
    "WindowedColumn",
    "compact",
    "demo_to_store",
    "describe",
    "episodes_of",
    "extending",
    "inspect_demo",
    "read_demo",
    "store_to_demo",
    "write_demo",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f"trajpipe.store.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'trajpipe.store' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
