"""A trajectory store read by h5py alone, for its checks: written from the contract, not the writer.

What is not here: the rules that judge what was read (`store`, `store_l2`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import h5py
import numpy as np
from numpy.typing import NDArray

from trajpipe.checks.registry import Subject
from trajpipe.hdf5.columns import require_written
from trajpipe.hdf5.files import open_hdf5

KINDS: Final = (
    "float32", "float64", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64"
)  # fmt: skip
OWN: Final = ("__manifest__", "ep_len", "ep_offset")
HEAD: Final = ("schema_version", "env_id", "n_rows", "n_episodes", "seed", "source_commit")
BLOCK_BYTES: Final = 8 << 20
MAX_BOUNDARIES: Final = 64
_CACHE_BYTES: Final = 32 << 20
_COLUMN: Final = re.compile(
    rb"([^:/\x00]+):(" + "|".join(KINDS).encode() + rb")(?::([1-9]\d*(?:,[1-9]\d*)*))?"
)
_TASK: Final = re.compile(rb'(\d+)\t"((?:[^"\\]|\\["\\nrt])*)"', re.DOTALL)
_NUMBER: Final = re.compile(rb"-?\d{1,20}")
_ESCAPED: Final = re.compile(rb"\\(.)", re.DOTALL)
_LITERAL: Final = {b"n": b"\n", b"r": b"\r", b"t": b"\t"}


@dataclass(slots=True)
class Line:
    """One manifest line that breaks the grammar."""

    number: int
    why: str
    text: str


@dataclass(slots=True)
class ManifestText:
    """What the manifest's lines say.

    Attributes:
        values: Head keys → text.
        columns: (name, dtype, trailing shape) in order.
        tasks: Index → text, bytes.
        order: Keys in the order of their lines.
        extra: Further keys → text; the first of a key that is given twice.
        wrong: Lines that break the grammar.
    """

    values: dict[str, bytes] = field(default_factory=dict)
    columns: list[tuple[str, str, tuple[int, ...]]] = field(default_factory=list)
    tasks: dict[int, bytes] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    extra: dict[str, bytes] = field(default_factory=dict)
    wrong: list[Line] = field(default_factory=list)

    def number(self, key: str) -> int | None:
        """A head key as an integer; None when absent or no integer."""
        text = self.values.get(key, b"")
        return int(text) if _NUMBER.fullmatch(text) else None


def manifest_of(data: bytes) -> ManifestText:
    """Read manifest text line by line; nothing raises, wrong lines are collected."""
    out = ManifestText()
    for number, raw in enumerate(data.split(b"\n"), 1):
        line = raw.strip()
        if not line or line.startswith(b"#"):
            continue
        key, equals, value = line.partition(b"=")
        why = _take(out, key.decode("utf-8", "replace"), value) if equals else "no `=`"
        if why:
            out.wrong.append(Line(number, why, raw[:60].decode("utf-8", "replace")))
    return out


def _take(out: ManifestText, key: str, value: bytes) -> str | None:
    out.order.append(key)
    if key == "column":
        found = _COLUMN.fullmatch(value)
        if found is None:
            return "a column is name:dtype[:d0,d1,…]"
        dims = tuple(int(d) for d in found[3].split(b",")) if found[3] else ()
        name = found[1].decode("utf-8", "replace")
        if any(name == n for n, _, _ in out.columns):
            return "a column is declared once"
        out.columns.append((name, found[2].decode(), dims))
    elif key == "task":
        found = _TASK.fullmatch(value)
        if found is None:
            return 'a task is index, tab, quoted text with the escapes \\\\ \\" \\n \\r \\t'
        if int(found[1]) in out.tasks:
            return "a task index is given once"
        out.tasks[int(found[1])] = _ESCAPED.sub(lambda m: _LITERAL.get(m[1], m[1]), found[2])
    elif key in HEAD:
        if key in out.values:
            return "a key is given once"
        out.values[key] = value
    else:
        out.extra.setdefault(key, value)
    return None


@dataclass(slots=True)
class Scan:
    """One pass over all bytes of a column.

    Attributes:
        rows: Rows read.
        bytes: Bytes read.
        error: What stopped the reading.
        boundaries: Chunk boundaries read across.
        torn: First row where a read across a boundary differs from the block read.
        bad_rows: Rows with a value that is not finite.
        first_bad: The first of them.
        low: Smallest value, None without rows.
        high: Largest value.
    """

    rows: int = 0
    bytes: int = 0
    error: str | None = None
    boundaries: int = 0
    torn: int | None = None
    bad_rows: int = 0
    first_bad: int | None = None
    low: float | None = None
    high: float | None = None


@dataclass(slots=True)
class StoreFacts:
    """What a store holds, read once and shared by the rules.

    Attributes:
        manifest: Its text's content; None for a foreign store.
        ep_len: As stored.
        ep_offset: As stored.
        datasets: Name → (dtype, shape, chunks, maxshape).
        side: `ep_*`, `*_tags`, `*_names` side tables → values.
        scans: Column → what the pass over it found.
        small: `task_index` and flag columns whole.
    """

    manifest: ManifestText | None
    ep_len: NDArray[Any] | None
    ep_offset: NDArray[Any] | None
    datasets: dict[str, tuple[np.dtype[Any], tuple[int, ...], tuple[int, ...] | None, tuple[Any, ...]]]
    side: dict[str, NDArray[Any]] = field(default_factory=dict)
    scans: dict[str, Scan] = field(default_factory=dict)
    small: dict[str, NDArray[Any]] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """Rows that the episode index covers."""
        return 0 if self.ep_len is None or self.ep_len.dtype.kind not in "iu" else int(self.ep_len.sum())

    @property
    def n_episodes(self) -> int:
        """Entries of `ep_len`."""
        return 0 if self.ep_len is None else int(self.ep_len.size)

    @property
    def columns(self) -> list[tuple[str, str, tuple[int, ...]]]:
        """Declared columns; of a foreign store the datasets that have the index's rows."""
        if self.manifest is not None:
            return self.manifest.columns
        return [
            (name, "uint8" if kind == np.bool_ else kind.newbyteorder("=").name, shape[1:])
            for name, (kind, shape, _, _) in self.datasets.items()
            if name not in OWN and shape[:1] == (self.n_rows,) and kind.kind in "buif"
        ]


@contextmanager
def opened(path: Path) -> Iterator[h5py.File]:
    """The file through h5py, refused when it leads out of itself."""
    with open_hdf5(path, chunk_cache_bytes=_CACHE_BYTES) as file:
        yield file


def facts_of(subject: Subject) -> StoreFacts:
    """The facts of a subject's store, read on first use."""
    found = subject.fact("store", lambda: _read(subject.path))
    assert isinstance(found, StoreFacts)
    return found


def _read(path: Path) -> StoreFacts:
    with opened(path) as file:
        datasets = {n: file[n] for n in sorted(file) if isinstance(file[n], h5py.Dataset)}
        text = datasets.get("__manifest__")
        facts = StoreFacts(
            manifest=None if text is None else manifest_of(_whole(text).astype(np.uint8).tobytes()),
            ep_len=_vector(datasets.get("ep_len")),
            ep_offset=_vector(datasets.get("ep_offset")),
            datasets={n: (d.dtype, tuple(d.shape or ()), d.chunks, d.maxshape) for n, d in datasets.items()},
        )
        declared = {name for name, _, _ in facts.columns}
        for name, dataset in datasets.items():
            if name in declared:
                facts.scans[name] = scan(dataset)
            elif name not in OWN and (name.startswith("ep_") or name.endswith(("_tags", "_names"))):
                facts.side[name] = _whole(dataset)
        for name in ("task_index", "done", "truncated", "success"):
            if name in declared and name in datasets and facts.scans[name].error is None:
                facts.small[name] = np.asarray(datasets[name][()]).reshape(datasets[name].shape[0], -1)
    return facts


def _vector(dataset: h5py.Dataset | None) -> NDArray[Any] | None:
    return None if dataset is None or dataset.ndim != 1 else _whole(dataset)


def _whole(dataset: h5py.Dataset) -> NDArray[Any]:
    """A small dataset at once; not one that only claims to be large."""
    require_written(dataset)
    return np.asarray(dataset[()])


def step_of(dataset: h5py.Dataset) -> int:
    """Rows of a reading block: whole chunks, about `BLOCK_BYTES`."""
    width = max(1, int(np.prod(dataset.shape[1:], dtype=np.int64)) * dataset.dtype.itemsize)
    rows, chunk = max(1, BLOCK_BYTES // width), int(dataset.chunks[0]) if dataset.chunks else 1
    return int(max(chunk, rows - rows % chunk))


def scan(dataset: h5py.Dataset) -> Scan:
    """Read every byte of a column, then again across chunk boundaries; damage is noted, not raised."""
    out = Scan()
    if dataset.shape is None or dataset.ndim == 0:
        out.error = "the dataset has no rows"
        return out
    try:
        require_written(dataset)
        step, total = step_of(dataset), int(dataset.shape[0])
        edges = _edges(dataset)
        previous: NDArray[Any] | None = None
        for start in range(0, total, step):
            rows = np.asarray(dataset[start : start + step])
            _values(out, rows, start)
            _across(out, dataset, edges, (start, rows, previous))
            previous = rows[-1:]
    except (OSError, RuntimeError, ValueError, MemoryError) as error:
        out.error = f"{type(error).__name__}: {error}"
    return out


def _edges(dataset: h5py.Dataset) -> set[int]:
    """First rows of chunks that have one before, spread over the column when there are many."""
    if not dataset.chunks:
        return set()
    inner = range(dataset.chunks[0], dataset.shape[0], dataset.chunks[0])
    return set(inner[:: max(1, len(inner) // MAX_BOUNDARIES)])


def _values(out: Scan, rows: NDArray[Any], start: int) -> None:
    out.rows += len(rows)
    out.bytes += rows.nbytes
    if rows.size == 0 or rows.dtype.kind not in "buif":
        return
    if rows.dtype.kind == "f":
        finite = np.isfinite(rows).reshape(len(rows), -1).all(axis=1)
        if not finite.all():
            out.bad_rows += int((~finite).sum())
            out.first_bad = start + int(np.argmin(finite)) if out.first_bad is None else out.first_bad
            rows = rows[finite]
    if rows.size:
        low, high = float(rows.min()), float(rows.max())
        out.low = low if out.low is None else min(out.low, low)
        out.high = high if out.high is None else max(out.high, high)


def _across(
    out: Scan,
    dataset: h5py.Dataset,
    edges: set[int],
    block: tuple[int, NDArray[Any], NDArray[Any] | None],
) -> None:
    """Two rows read across each chunk boundary must be the block's own."""
    start, rows, previous = block
    for row in sorted(e for e in edges if start <= e < start + len(rows)):
        at = row - start
        before = rows[at - 1 : at] if at else previous
        assert before is not None
        pair = np.asarray(dataset[row - 1 : row + 1])
        out.boundaries += 1
        if pair.tobytes() != before.tobytes() + rows[at : at + 1].tobytes() and out.torn is None:
            out.torn = row
