"""HDF5 files that hold `/data/<episode>`: raw recordings of any kind, and L2.

What is not here: trajectory stores (`inspection.stores`); conventions, which only sources decide.
"""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import h5py
import numpy as np

from trajpipe.cli.formatting import count
from trajpipe.cli.inspection.hdf5_tree import attributes_of, dtype_of, filters_of
from trajpipe.cli.inspection.model import Attribute, Episodes, Inspection, Layout, Node, Ranges, constant_or_t
from trajpipe.core import names
from trajpipe.core.errors import TrajpipeError
from trajpipe.core.progress import Progress
from trajpipe.hdf5.attributes import plain
from trajpipe.hdf5.columns import require_written
from trajpipe.hdf5.files import datasets_below, subgroups

BLOCK_ROWS: Final = 65_536
_Tree = dict[str, h5py.Dataset]


def inspect_episodes(handle: h5py.File, found: Inspection, progress: Progress) -> None:
    """Fill in the layouts, episodes, action ranges and attributes of `/data/<episode>`."""
    data = handle[names.GROUP_DATA]
    demos = subgroups(data)
    trees: dict[str, _Tree] = {}
    actions = Ranges("actions")
    for done, (name, demo) in enumerate(demos.items(), 1):
        trees[name] = datasets_below(demo)
        _add_actions(trees[name].get(names.DATASET_ACTIONS), actions, found)
        progress("episodes", done, len(demos))
    lengths = {name: _length(demos[name], trees[name]) for name in demos}
    found.episodes = Episodes(list(demos), list(lengths.values()))
    _count_marks(demos, found.episodes)
    found.layouts = _layouts(trees, lengths)
    if actions.known:
        found.ranges.append(actions)
    found.facts |= _facts(handle, found)
    found.attributes = [*attributes_of(handle, "/"), *attributes_of(data, "/data")]
    found.attributes += _demo_attributes(demos)
    _note_oddities(demos, trees, found)


def _length(demo: h5py.Group, tree: _Tree) -> int:
    actions = tree.get(names.DATASET_ACTIONS)
    if actions is not None and actions.ndim:
        return int(actions.shape[0])
    recorded = plain(demo.attrs.get(names.ATTR_NUM_SAMPLES, 0))
    return int(recorded) if isinstance(recorded, (int, float)) else 0


def _add_actions(dataset: h5py.Dataset | None, ranges: Ranges, found: Inspection) -> None:
    if dataset is None or dataset.ndim == 0 or dataset.dtype.kind not in "buif":
        return
    try:
        require_written(dataset)
        for start in range(0, dataset.shape[0], BLOCK_ROWS):
            ranges.add(np.asarray(dataset[start : start + BLOCK_ROWS]))
    except OSError as error:
        found.notes.append(f"{dataset.name} cannot be read: {why(error)}")


def why(error: OSError) -> str:
    """What an error says, without its place, which the caller names."""
    if isinstance(error, TrajpipeError):
        return error.rule if error.got is None else f"{error.rule} ({error.got})"
    return str(error)


def _layouts(trees: Mapping[str, _Tree], lengths: Mapping[str, int]) -> list[Layout]:
    """Episodes grouped by names, dtypes and trailing shapes of their datasets; the largest group first."""
    groups: dict[tuple[Any, ...], list[str]] = {}
    for name, tree in trees.items():
        key = tuple((p, dtype_of(d), d.shape[1:] if d.shape else ()) for p, d in tree.items())
        groups.setdefault(key, []).append(name)
    ordered = sorted(groups.values(), key=len, reverse=True)
    return [_layout([(n, trees[n], lengths[n]) for n in members], len(trees)) for members in ordered]


def _layout(members: list[tuple[str, _Tree, int]], total: int) -> Layout:
    rows = [length for _, _, length in members]
    first = members[0][1]
    nodes = [_node(path, [tree[path] for _, tree, _ in members], rows) for path in first]
    alike = "each" if len(members) == total else f"{len(members):,} of"
    return Layout(
        f"{alike} of {count(total, 'episode')}".replace("of of", "of"), nodes, [n for n, _, _ in members]
    )


def _node(path: str, datasets: list[h5py.Dataset], rows: list[int]) -> Node:
    first = datasets[0]
    shape: tuple[int | str | None, ...] = ()
    if first.shape:
        leading = constant_or_t([int(d.shape[0]) for d in datasets], rows)
        shape = ("varies" if leading is None else leading, *(int(n) for n in first.shape[1:]))
    filters = {filters_of(d) for d in datasets}
    return Node(
        path=path,
        dtype=dtype_of(first),
        shape=shape,
        chunks=first.chunks,
        compression=filters_of(first) if len(filters) == 1 else "differs",
        stored=sum(int(d.id.get_storage_size()) for d in datasets),
        note="chunks of the first" if len({d.chunks for d in datasets}) > 1 else "",
    )


def _count_marks(demos: Mapping[str, h5py.Group], episodes: Episodes) -> None:
    """Count success, tag and task over the demo attributes."""
    for demo in demos.values():
        marks = demo.attrs
        episodes.success[_success_word(marks)] += 1
        for counter, name in ((episodes.tags, names.ATTR_SOURCE), (episodes.tasks, names.ATTR_TASK)):
            if name in marks and isinstance(text := plain(marks[name]), str):
                counter[text] += 1


def _success_word(marks: Mapping[str, Any]) -> str:
    if names.ATTR_SUCCESS not in marks or not bool(marks.get(names.ATTR_SUCCESS_KNOWN, True)):
        return "unknown"
    return "yes" if bool(marks[names.ATTR_SUCCESS]) else "no"


def _facts(handle: h5py.File, found: Inspection) -> dict[str, Any]:
    """Facts of the whole file; masks are counted into the splits, a whole file's task into the tasks."""
    data, facts = handle[names.GROUP_DATA], dict[str, Any]()
    episodes = found.episodes or Episodes([], [])
    version = plain(handle.attrs.get(names.ATTR_FORMAT_VERSION))
    if version is not None or found.kind in ("isaaclab", "l2"):
        order = "scalar last" if version else "scalar first: legacy"
        facts["format version"] = f"{'absent' if version is None else version} (quaternions {order})"
    instruction = _instruction(data)
    if instruction is not None and not episodes.tasks:
        episodes.tasks[instruction] = len(episodes.lengths)
    recorded = plain(data.attrs.get(names.ATTR_TOTAL))
    if recorded is not None:
        right = recorded == episodes.rows
        facts["total"] = f"{recorded}" + (
            "" if right else f" (recorded; the actions have {episodes.rows} rows)"
        )
    masks = handle.get(names.GROUP_MASK)
    if isinstance(masks, h5py.Group):
        for name in sorted(masks):
            if isinstance(masks[name], h5py.Dataset) and masks[name].ndim == 1:
                episodes.splits[name] = int(masks[name].shape[0])
    return facts


def _instruction(data: h5py.Group) -> str | None:
    """The language instruction in LIBERO's `problem_info`."""
    try:
        value = json.loads(str(plain(data.attrs.get("problem_info", ""))))
    except ValueError:
        return None
    text = value.get("language_instruction") if isinstance(value, dict) else None
    return text if isinstance(text, str) else None


def _demo_attributes(demos: Mapping[str, h5py.Group]) -> list[Attribute]:
    """The first episode's attributes: those of the others have the same names, or a note says so."""
    first = next(iter(demos), None)
    return [] if first is None else attributes_of(demos[first], f"/data/{first}")


def _note_oddities(demos: Mapping[str, h5py.Group], trees: Mapping[str, _Tree], found: Inspection) -> None:
    if not demos:
        found.notes.append("no episodes: the recording ended without one")
    expected = [f"{names.DEMO_PREFIX}{i}" for i in range(len(demos))]
    if demos and list(demos) != expected and len(demos) > 1:
        found.notes.append(f"episode names are not demo_0 … demo_{len(demos) - 1} without gaps")
    lacking = [n for n, tree in trees.items() if names.DATASET_ACTIONS not in tree]
    if lacking:
        found.notes.append(f"{count(len(lacking), 'episode')} without actions: {', '.join(lacking[:3])}")
    written = Counter(tuple(sorted(demo.attrs)) for demo in demos.values())
    if len(written) > 1:
        found.notes.append(
            f"episodes carry {len(written)} different sets of attributes; the first one's are shown"
        )
