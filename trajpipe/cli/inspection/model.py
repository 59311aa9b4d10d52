"""What an inspection found, as plain values: facts, layouts, episodes, actions, attributes.

What is not here: reading (the modules beside this one) and showing (`inspection.render`).
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.cli.formatting import histogram

HISTOGRAM_BINS: Final = 16
MAX_DIMENSIONS: Final = 256


@dataclass(frozen=True, slots=True)
class Node:
    """One dataset, column or feature.

    Attributes:
        path: Its path below the layout's root.
        dtype: Element type as text; "" when the format has none.
        shape: Dimensions; `T` stands for the episode's rows, `N` for all rows, None for any length.
        chunks: Chunk shape; None = contiguous or not a chunked format.
        compression: Filters as text (`gzip-4 shuffle`); "" when none.
        stored: Bytes on disk over all episodes of the layout; None when not known.
        note: What else there is to say (`unlimited`, codec, names of the dimensions).
    """

    path: str
    dtype: str = ""
    shape: tuple[int | str | None, ...] = ()
    chunks: tuple[int, ...] | None = None
    compression: str = ""
    stored: int | None = None
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain form."""
        return {
            "path": self.path,
            "dtype": self.dtype,
            "shape": list(self.shape),
            "chunks": None if self.chunks is None else list(self.chunks),
            "compression": self.compression,
            "stored_bytes": self.stored,
            "note": self.note,
        }


@dataclass(slots=True)
class Layout:
    """A tree of nodes that a file has, or that some of its episodes have alike.

    Attributes:
        title: What has it: `9 of 10 episodes`, `the file`.
        nodes: In natural order of their paths.
        members: Names of the episodes that have it; empty for a whole file.
    """

    title: str
    nodes: list[Node]
    members: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Plain form."""
        return {
            "title": self.title,
            "members": self.members,
            "nodes": [n.to_json() for n in self.nodes],
        }


@dataclass(slots=True)
class Episodes:
    """Every episode's name and length, and how many carry which success, tag, task and split.

    Attributes:
        names: In order.
        lengths: Rows of each.
        success: `yes`, `no`, `unknown` → how many.
        tags: Source tag → how many.
        tasks: Language instruction → how many.
        splits: Split or mask name → how many.
    """

    names: list[str]
    lengths: list[int]
    success: "Counter[str]" = field(default_factory=Counter)
    tags: "Counter[str]" = field(default_factory=Counter)
    tasks: "Counter[str]" = field(default_factory=Counter)
    splits: "Counter[str]" = field(default_factory=Counter)

    @property
    def rows(self) -> int:
        """Rows of all episodes."""
        return sum(self.lengths)

    def to_json(self) -> dict[str, Any]:
        """Plain form, with min, mean, max and the histogram of lengths."""
        lengths = self.lengths
        return {
            "count": len(lengths),
            "rows": self.rows,
            "length_min": min(lengths, default=0),
            "length_mean": self.rows / len(lengths) if lengths else 0.0,
            "length_max": max(lengths, default=0),
            "length_histogram": histogram(lengths, HISTOGRAM_BINS),
            "names": self.names,
            "lengths": lengths,
            "success": dict(self.success),
            "tags": dict(self.tags),
            "tasks": dict(self.tasks),
            "splits": dict(self.splits),
        }


@dataclass(slots=True)
class Ranges:
    """Least, mean and greatest value of every dimension of a column, gathered block by block.

    Attributes:
        title: Whose: `actions`.
        names: Names of the dimensions; empty when they have none.
        low: Least finite value per dimension.
        high: Greatest finite value per dimension.
        total: Sum of finite values per dimension.
        finite: Number of finite values per dimension.
        broken: Number of NaN and infinite values over all dimensions.
    """

    title: str
    names: list[str] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)
    total: list[float] = field(default_factory=list)
    finite: list[int] = field(default_factory=list)
    broken: int = 0

    def add(self, rows: NDArray[Any]) -> None:
        """Take a block of rows (n, *trailing); other widths than before are passed over.

        Args:
            rows: Numbers or bools; trailing dimensions are flattened.
        """
        if rows.size == 0:
            return
        block = rows.reshape(rows.shape[0], -1).astype(np.float64)
        width = block.shape[1]
        if not self.low:
            self.low, self.high = [math.inf] * width, [-math.inf] * width
            self.total, self.finite = [0.0] * width, [0] * width
        if width != len(self.low) or width > MAX_DIMENSIONS:
            return
        good = np.isfinite(block)
        self.broken += int(block.size - good.sum())
        low = np.where(good, block, np.inf).min(axis=0).tolist()
        high = np.where(good, block, -np.inf).max(axis=0).tolist()
        self.low = [min(a, b) for a, b in zip(self.low, low, strict=True)]
        self.high = [max(a, b) for a, b in zip(self.high, high, strict=True)]
        sums, counts = np.where(good, block, 0.0).sum(axis=0).tolist(), good.sum(axis=0).tolist()
        self.total = [a + b for a, b in zip(self.total, sums, strict=True)]
        self.finite = [a + b for a, b in zip(self.finite, counts, strict=True)]

    @property
    def known(self) -> bool:
        """Some value was seen."""
        return any(self.finite) or self.broken > 0

    def dimensions(self) -> list[tuple[str, float, float, float]]:
        """(name or index, least, mean, greatest) of each dimension that has a finite value."""
        out = []
        for index, count in enumerate(self.finite):
            if count:
                name = self.names[index] if index < len(self.names) else str(index)
                out.append((name, self.low[index], self.total[index] / count, self.high[index]))
        return out

    def to_json(self) -> dict[str, Any]:
        """Plain form."""
        dimensions = [{"name": n, "min": a, "mean": m, "max": b} for n, a, m, b in self.dimensions()]
        return {"title": self.title, "not_finite": self.broken, "dimensions": dimensions}


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute as recorded.

    Attributes:
        place: The group or file that has it.
        name: Its name.
        value: Plain value.
    """

    place: str
    name: str
    value: Any

    def to_json(self) -> dict[str, Any]:
        """Plain form; what JSON has no form for becomes text."""
        return {"place": self.place, "name": self.name, "value": plain_json(self.value)}


@dataclass(slots=True)
class Inspection:
    """All that was found in one file or folder.

    Attributes:
        path: As given.
        kind: Machine word: `l2`, `store`, `lerobot`, a source's kind, `hdf5`, `parquet`, …
        title: One line for people.
        stage: `raw`, `demos`, `store`, `lerobot`, or "" when it belongs to none.
        bytes: Size on disk.
        facts: Single facts in order of telling.
        layouts: Trees.
        episodes: None when the format has none.
        ranges: Of actions, or of the columns of a table.
        attributes: As recorded.
        notes: What a reader should know: oddities met, next commands.
    """

    path: Path
    kind: str
    title: str
    stage: str = ""
    bytes: int = 0
    facts: dict[str, Any] = field(default_factory=dict)
    layouts: list[Layout] = field(default_factory=list)
    episodes: Episodes | None = None
    ranges: list[Ranges] = field(default_factory=list)
    attributes: list[Attribute] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Plain form for `--json`."""
        return {
            "path": str(self.path),
            "kind": self.kind,
            "title": self.title,
            "stage": self.stage or None,
            "bytes": self.bytes,
            "facts": {key: plain_json(value) for key, value in self.facts.items()},
            "layouts": [layout.to_json() for layout in self.layouts],
            "episodes": None if self.episodes is None else self.episodes.to_json(),
            "ranges": [r.to_json() for r in self.ranges if r.known],
            "attributes": [a.to_json() for a in self.attributes],
            "notes": self.notes,
        }


def plain_json(value: Any) -> Any:
    """A value as JSON has it: arrays become lists, other objects text."""
    if isinstance(value, np.ndarray):
        return plain_json(value.tolist())
    if isinstance(value, np.generic):
        return plain_json(value.item())
    if isinstance(value, dict):
        return {str(k): plain_json(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_json(v) for v in value]
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)


def tally(words: Iterable[str]) -> "Counter[str]":
    """How often each word occurs, in order of first appearance."""
    return Counter(words)


def constant_or_t(sizes: Sequence[int], rows: Sequence[int]) -> int | str | None:
    """The leading dimension of one dataset over many episodes: `T` when it is each one's rows, else its size.

    None stands for "differs".
    """
    if list(sizes) == list(rows):
        return "T"
    return sizes[0] if len(set(sizes)) == 1 else None
