"""One pass over an L2 file with h5py alone: reads every stored byte once and gathers the facts for all rules.

Written without the L2 writer's or reader's code, so that it proves what other tools will find.
What is not here: the rules, see `trajpipe.checks.demos`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import h5py
import numpy as np
from numpy.typing import NDArray

from trajpipe.checks.demos_evidence import Rows, alignment_slices, obs_actions_agree, stale_terms
from trajpipe.checks.demos_facts import DatasetFacts, DemoFacts, FileFacts, MaskFacts
from trajpipe.core import jsontext, names
from trajpipe.core.conventions import QuaternionSite
from trajpipe.core.errors import InputError, TrajpipeError, UnreadableError
from trajpipe.core.order import natural_sorted
from trajpipe.hdf5.attributes import attributes_of, plain
from trajpipe.hdf5.columns import require_written
from trajpipe.hdf5.files import datasets_below, open_hdf5

BLOCK_BYTES: Final = 4 << 20
_VALUES_KEPT: Final = 4
_FILTERS: Final = {
    h5py.h5z.FILTER_DEFLATE: "deflate",
    h5py.h5z.FILTER_SHUFFLE: "shuffle",
    h5py.h5z.FILTER_FLETCHER32: "fletcher32",
}


def scan(path: Path, declared: Sequence[QuaternionSite] = ()) -> FileFacts:
    """Read an L2 file from its first byte to its last.

    Args:
        path: The file.
        declared: Quaternion sites besides those in the file's own recipe.

    Returns:
        The facts; with `error` set when the file cannot be opened.
    """
    facts = FileFacts(path.name)
    try:
        with open_hdf5(path, chunk_cache_bytes=BLOCK_BYTES) as file:
            _scan_file(file, facts, declared)
    except TrajpipeError as error:
        facts.error = error
    except (OSError, RuntimeError, KeyError, ValueError) as error:
        facts.error = UnreadableError("the file's structure cannot be read", place=path, got=error)
    return facts


def _scan_file(file: h5py.File, facts: FileFacts, declared: Sequence[QuaternionSite]) -> None:
    facts.root_attributes = attributes_of(file)
    facts.root_items = tuple(natural_sorted(file))
    data = file.get(names.GROUP_DATA)
    if isinstance(data, h5py.Group):
        facts.data_attributes = attributes_of(data)
        groups = [n for n in natural_sorted(data) if isinstance(data[n], h5py.Group)]
        facts.strange = tuple(n for n in natural_sorted(data) if n not in set(groups))
        sites = (*declared, *sites_of_recipe(facts.data_attributes.get(names.ATTR_TRAJPIPE)))
        previous: dict[str, Rows] = {}
        for name in groups:
            demo, previous = _scan_demo(data[name], name, sites, previous)
            facts.demos.append(demo)
    masks = file.get(names.GROUP_MASK)
    if isinstance(masks, h5py.Group):
        facts.masks = {
            n: _mask(masks[n]) for n in natural_sorted(masks) if isinstance(masks[n], h5py.Dataset)
        }


def _mask(dataset: h5py.Dataset) -> MaskFacts:
    require_written(dataset)
    fixed = dataset.dtype.kind == "S" and dataset.ndim == 1
    values = [] if dataset.shape is None else np.ravel(dataset[()]).tolist()
    stored = f"{dataset.dtype} {dataset.shape}"
    return MaskFacts(fixed, stored, tuple(str(plain(v)) for v in values))


def sites_of_recipe(text: object) -> tuple[QuaternionSite, ...]:
    """Quaternion sites that a file's recipe declares; of a merged file, those of its inputs too."""
    try:
        recipe = jsontext.loads(text) if isinstance(text, str) else {}
    except InputError:
        return ()
    return tuple(_sites_in(recipe))


def _sites_in(value: Any) -> Iterator[QuaternionSite]:
    """Sites wherever a recipe keeps them: under `quaternions` or `quaternion_sites`, at any depth."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key in ("quaternions", "quaternion_sites") and isinstance(item, list):
                yield from sites_from(item)
            else:
                yield from _sites_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from _sites_in(item)


def sites_from(items: Sequence[Any]) -> Iterator[QuaternionSite]:
    """Sites of their plain form; what is not one is passed over."""
    for item in items:
        if isinstance(item, Mapping) and isinstance(item.get("path"), str):
            starts = item.get("starts", (0,))
            yield QuaternionSite(item["path"], tuple(int(s) for s in starts))


def _scan_demo(
    group: h5py.Group, name: str, sites: Sequence[QuaternionSite], previous: Mapping[str, Rows]
) -> tuple[DemoFacts, dict[str, Rows]]:
    """The facts of a demo, and its rows for the next one to be compared with."""
    demo = DemoFacts(name, attributes_of(group))
    demo.obs_is_dataset = isinstance(group.get(names.GROUP_OBS), h5py.Dataset)
    digest, rows = hashlib.sha256(), dict[str, Rows]()
    for path, dataset in datasets_below(group).items():
        one = _Scan(dataset, path, _starts_of(path, dataset, sites), digest)
        demo.datasets[path] = one.run()
        if one.facts.unreadable_row is None and one.facts.is_number:
            rows[path] = one.rows
    whole = len(rows) == len(demo.datasets)
    demo.content_sha256 = digest.hexdigest() if whole else None
    demo.stale = stale_terms(rows, previous)
    demo.obs_actions_agree = obs_actions_agree(rows)
    demo.slices = tuple(alignment_slices(rows))
    return demo, rows


def _starts_of(path: str, dataset: h5py.Dataset, sites: Sequence[QuaternionSite]) -> tuple[int, ...]:
    """Offsets of the quaternions in the last axis: declared ones, else plain names that mean one quaternion.

    The empty tuple when a site says that the path holds none, or when a span would not fit.
    """
    width = dataset.shape[-1] if dataset.shape and dataset.ndim > 1 else 0
    site = next((s for s in sites if s.matches(path)), None)
    leaf = path.rsplit("/", 1)[-1]
    if site is not None:
        starts = site.starts
    elif width == 4 and leaf.endswith("quat"):
        starts = (0,)
    elif width == 7 and leaf in ("root_pose", "root_link_pose"):
        starts = (3,)
    else:
        starts = ()
    return tuple(s for s in starts if dataset.dtype.kind == "f" and 0 <= s <= width - 4)


class _Scan:
    """Reads one dataset block by block."""

    def __init__(self, dataset: h5py.Dataset, path: str, starts: tuple[int, ...], digest: Any) -> None:
        shape = None if dataset.shape is None else tuple(int(n) for n in dataset.shape)
        self.facts = DatasetFacts(dataset.dtype, shape, dataset.chunks, _filters(dataset))
        self.rows = Rows(self.facts.is_image, dataset.dtype.kind == "f")
        self._dataset, self._path, self._starts, self._digest = dataset, path, starts, digest

    def run(self) -> DatasetFacts:
        """All facts of the dataset."""
        facts, row = self.facts, 0
        if facts.is_number and facts.shape is not None:
            text = f"{self._path}\0{facts.dtype.newbyteorder('<').str}\0{','.join(map(str, facts.shape))}\0"
            self._digest.update(text.encode("utf-8", "surrogateescape"))
        try:
            require_written(self._dataset)
            for row in self._starts_of_blocks():
                self._look(row, self._read(row))
        except OSError:
            facts.unreadable_row = row
        return facts

    def _starts_of_blocks(self) -> range:
        """First rows of blocks of whole chunks, so that none is inflated twice."""
        shape = self.facts.shape
        if not shape:
            self._step = 1
            return range(0 if shape is None else 1)
        row_bytes = max(1, int(np.prod(shape[1:], dtype=np.int64)) * self.facts.dtype.itemsize)
        unit = self.facts.chunks[0] if self.facts.chunks else 1
        self._step = unit * max(1, BLOCK_BYTES // (row_bytes * unit))
        return range(0, shape[0], self._step)

    def _read(self, start: int) -> NDArray[Any]:
        if not self.facts.shape:
            return np.atleast_1d(np.asarray(self._dataset[()]))
        return np.asarray(self._dataset[start : start + self._step])

    def _look(self, start: int, rows: NDArray[Any]) -> None:
        self.facts.bytes_read += rows.nbytes
        if not self.facts.is_number:
            return
        little = np.ascontiguousarray(rows, dtype=rows.dtype.newbyteorder("<"))
        self._digest.update(little.reshape(-1).view(np.uint8).data)
        if rows.size:
            flat = rows.reshape(rows.shape[0], -1)
            self._look_for_bad_rows(start, flat)
            self._look_at_range(flat)
            self.rows.keep(self._path, start, rows)
            for first in self._starts:
                self._look_at_norms(start, rows[..., first : first + 4], first)

    def _look_for_bad_rows(self, start: int, flat: NDArray[Any]) -> None:
        if flat.dtype.kind != "f":
            return
        bad = ~np.isfinite(flat).all(axis=1)
        if bad.any():
            self.facts.bad_rows += int(bad.sum())
            if self.facts.bad_row is None:
                self.facts.bad_row = start + int(np.argmax(bad))

    def _look_at_range(self, flat: NDArray[Any]) -> None:
        facts, is_actions = self.facts, self._path == names.DATASET_ACTIONS
        if not (is_actions or facts.is_image) or flat.dtype.kind == "b":
            return
        values = flat if is_actions else flat.reshape(-1, 1)
        low, high = np.fmin.reduce(values, axis=0), np.fmax.reduce(values, axis=0)
        facts.low = low if facts.low is None else np.fmin(facts.low, low)
        facts.high = high if facts.high is None else np.fmax(facts.high, high)
        if is_actions:
            seen, before = np.unique(flat[:, -1])[:_VALUES_KEPT], facts.few_values
            facts.few_values = seen if before is None else np.union1d(before, seen)[:_VALUES_KEPT]

    def _look_at_norms(self, start: int, quaternions: NDArray[Any], first: int) -> None:
        with np.errstate(invalid="ignore", over="ignore"):
            norms = np.linalg.norm(quaternions.astype(np.float64), axis=-1).reshape(len(quaternions), -1)
        error = np.where(np.isfinite(norms), np.abs(norms - 1), -1)
        row, column = np.unravel_index(int(np.argmax(error)), error.shape)
        worst = float(norms[row, column])
        known = self.facts.norms.get(first)
        if error[row, column] >= 0 and (known is None or abs(worst - 1) > abs(known[0] - 1)):
            self.facts.norms[first] = (worst, start + int(row))


def _filters(dataset: h5py.Dataset) -> tuple[str, ...]:
    if dataset.chunks is None:
        return ()
    plist = dataset.id.get_create_plist()
    codes = [plist.get_filter(i)[0] for i in range(plist.get_nfilters())]
    return tuple(_FILTERS.get(code, f"filter {code}") for code in codes)
