"""Trajectory stores, ours and foreign ones: columns, side tables, episode index, manifest.

What is not here: HDF5 files of another layout, see `inspection.recordings`.
"""

from typing import Any

import h5py
import numpy as np

from trajpipe.cli.inspection.hdf5_tree import attributes_of, node_of
from trajpipe.cli.inspection.model import Episodes, Inspection, Layout, Ranges
from trajpipe.cli.inspection.recordings import BLOCK_ROWS, why
from trajpipe.core import names
from trajpipe.core.errors import TrajpipeError
from trajpipe.core.order import natural_sorted
from trajpipe.core.progress import Progress
from trajpipe.hdf5.attributes import plain
from trajpipe.hdf5.columns import require_written


def inspect_store(handle: h5py.File, found: Inspection, progress: Progress) -> None:
    """Fill in columns, side tables, episodes, tasks and the ranges of `action`."""
    from trajpipe.store.layout import episode_index

    lengths = handle.get(names.STORE_EP_LEN)
    lengths = [] if lengths is None else [int(n) for n in episode_index(lengths, found.path.name)]
    rows = sum(lengths)
    datasets = {n: handle[n] for n in natural_sorted(handle) if isinstance(handle[n], h5py.Dataset)}
    found.episodes = Episodes([str(i) for i in range(len(lengths))], lengths)
    declared = _read_manifest(datasets, found)
    columns = [n for n, d in datasets.items() if _is_column(n, d, rows, declared)]
    sides = [n for n in datasets if n not in columns]
    for name in sides:
        require_written(datasets[name])
    found.layouts = [
        Layout("columns", [node_of(n, datasets[n]) for n in columns]),
        Layout("episode index and side tables", [node_of(n, datasets[n]) for n in sides]),
    ]
    _count_marks(datasets, found.episodes)
    _measure(datasets, rows, found, progress)
    found.attributes = attributes_of(handle, "/")


def _is_column(name: str, dataset: h5py.Dataset, rows: int, declared: frozenset[str] | None) -> bool:
    if declared is not None:
        return name in declared
    indexed = name not in names.STORE_RESERVED and bool(dataset.shape)
    return indexed and dataset.shape[0] == rows


def _read_manifest(datasets: dict[str, h5py.Dataset], found: Inspection) -> frozenset[str] | None:
    """Facts and tasks of the manifest, and the names of its columns; None when there is none to read."""
    from trajpipe.store.manifest import Manifest

    dataset = datasets.get(names.STORE_MANIFEST)
    if dataset is None:
        found.facts["manifest"] = "none (a foreign file)"
        return None
    try:
        manifest = Manifest.parse(bytes(np.asarray(dataset[:], dtype=np.uint8)), place=found.path.name)
    except (TrajpipeError, OSError, ValueError) as error:
        found.notes.append(f"the manifest cannot be read: {error}")
        return None
    found.facts |= {
        "rows": manifest.n_rows,
        "env_id": manifest.env_id,
        "seed": manifest.seed,
        "source_commit": manifest.source_commit,
        **dict(manifest.extra),
    }
    if found.episodes is not None:
        _count_tasks(datasets, manifest.tasks, found.episodes)
    return frozenset(c.name for c in manifest.columns)


def _count_tasks(datasets: dict[str, h5py.Dataset], tasks: tuple[str, ...], episodes: Episodes) -> None:
    """How many episodes begin with each task."""
    index = next((datasets[n] for n in names.TASK_NUMBERS if n in datasets), None)
    offsets = datasets.get(names.STORE_EP_OFFSET)
    for text in tasks:
        episodes.tasks[text] += 0
    if index is None or offsets is None:
        return
    require_written(index)
    values = index[:].reshape(-1)
    for start in offsets[:].ravel().tolist():
        if start < len(values) and 0 <= int(values[start]) < len(tasks):
            episodes.tasks[tasks[int(values[start])]] += 1


def _count_marks(datasets: dict[str, h5py.Dataset], episodes: Episodes) -> None:
    """Count tags, success and splits of the side tables."""
    pairs = (
        (names.SIDE_EP_SOURCE, names.SIDE_SOURCE_TAGS, episodes.tags),
        (names.SIDE_EP_SPLIT, names.SIDE_SPLIT_NAMES, episodes.splits),
    )
    for index, table, counter in pairs:
        if index in datasets and table in datasets:
            words = [str(plain(w)) for w in datasets[table][:].tolist()]
            for code in datasets[index][:].tolist():
                counter[words[code] if code < len(words) else f"code {code}"] += 1
    if names.SIDE_EP_SUCCESS in datasets:
        for code in datasets[names.SIDE_EP_SUCCESS][:].tolist():
            episodes.success[{0: "no", 1: "yes"}.get(code, "unknown")] += 1


def _measure(datasets: dict[str, h5py.Dataset], rows: int, found: Inspection, progress: Progress) -> None:
    action: Any = datasets.get(names.COLUMN_ACTION)
    if action is None or not action.shape or action.dtype.kind not in "buif":
        return
    ranges = Ranges("action")
    try:
        require_written(action)
        for start in range(0, action.shape[0], BLOCK_ROWS):
            ranges.add(np.asarray(action[start : start + BLOCK_ROWS]))
            progress("rows", min(start + BLOCK_ROWS, rows), rows)
    except OSError as error:
        found.notes.append(f"action cannot be read: {why(error)}")
    if ranges.known:
        found.ranges.append(ranges)
