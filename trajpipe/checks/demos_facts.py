"""Facts of an L2 file that its rules look at: plain values, gathered by one pass.

What is not here: the pass (`trajpipe.checks.demos_scan`) and the rules (`trajpipe.checks.demos`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core import names
from trajpipe.core.errors import TrajpipeError
from trajpipe.core.findings import Place

FACTS: Final = "demos-facts"
OBS: Final = names.GROUP_OBS + "/"
STATES: Final = "states"
INITIAL_STATE: Final = "initial_state"


@dataclass(slots=True)
class DatasetFacts:
    """One dataset of a demo.

    Attributes:
        dtype: As stored.
        shape: As stored; None for an empty dataspace.
        chunks: Chunk shape; None when contiguous.
        filters: HDF5's names of its filters, in order.
        bytes_read: Uncompressed bytes that were read.
        unreadable_row: First row of the first block that cannot be read.
        bad_row: First row with NaN or infinity.
        bad_rows: How many such rows.
        low: Smallest value: per dimension of actions, one in all of images; None elsewhere. NaN left out.
        high: Largest, likewise.
        norms: Start of a quaternion span → (norm farthest from 1, its row).
        few_values: Distinct values of the last dimension of actions, at most four of them.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...] | None
    chunks: tuple[int, ...] | None = None
    filters: tuple[str, ...] = ()
    bytes_read: int = 0
    unreadable_row: int | None = None
    bad_row: int | None = None
    bad_rows: int = 0
    low: NDArray[Any] | None = None
    high: NDArray[Any] | None = None
    norms: dict[int, tuple[float, int]] = field(default_factory=dict)
    few_values: NDArray[Any] | None = None

    @property
    def rows(self) -> int:
        """Length of the leading axis; 0 for a scalar."""
        return self.shape[0] if self.shape else 0

    @property
    def is_number(self) -> bool:
        """A numeric or bool dtype."""
        return self.dtype.kind in "buif"

    @property
    def is_image(self) -> bool:
        """uint8 rows of rank 3, or of rank 2 when both sides are at least 8: frames of any layout."""
        trailing = (self.shape or ())[1:]
        if self.dtype != np.uint8:
            return False
        return len(trailing) == 3 or (len(trailing) == 2 and min(trailing) >= 8)


@dataclass(frozen=True, slots=True)
class Slice:
    """One obs term that is a run of columns of one state dataset, one row apart.

    Attributes:
        alignment: What that shows.
        term: Path of the term.
        state: Path of the state dataset.
    """

    alignment: names.Alignment
    term: str
    state: str


@dataclass(slots=True)
class DemoFacts:
    """One demo.

    Attributes:
        name: `demo_<i>`, as stored.
        attributes: Plain values.
        datasets: Path below the demo → its facts, in natural order.
        content_sha256: Recomputed; None when a dataset cannot be read.
        obs_is_dataset: `obs` is one dataset and not a group.
        stale: obs paths whose first row is the previous demo's last.
        obs_actions_agree: obs/actions is actions or the row before; None without obs/actions.
        slices: What obs and states show of the alignment.
    """

    name: str
    attributes: dict[str, Any] = field(default_factory=dict)
    datasets: dict[str, DatasetFacts] = field(default_factory=dict)
    content_sha256: str | None = None
    obs_is_dataset: bool = False
    stale: tuple[str, ...] = ()
    obs_actions_agree: bool | None = None
    slices: tuple[Slice, ...] = ()

    @property
    def actions(self) -> DatasetFacts | None:
        """The actions dataset."""
        return self.datasets.get(names.DATASET_ACTIONS)

    @property
    def length(self) -> int:
        """T = len(actions); 0 without actions."""
        return 0 if self.actions is None else self.actions.rows

    def below(self, group: str) -> dict[str, DatasetFacts]:
        """Datasets below a group of the demo, by their path in the demo."""
        return {p: d for p, d in self.datasets.items() if p.startswith(f"{group}/")}


@dataclass(slots=True)
class MaskFacts:
    """One mask.

    Attributes:
        fixed_bytes: One axis of fixed-length byte strings.
        stored: dtype and shape as text.
        demos: The names in it.
    """

    fixed_bytes: bool
    stored: str
    demos: tuple[str, ...]


@dataclass(slots=True)
class FileFacts:
    """One L2 file.

    Attributes:
        file: Base name.
        error: Why nothing could be read; everything else is empty then.
        root_attributes: Plain values.
        root_items: Names below the root.
        data_attributes: Plain values.
        strange: Names below /data that are no groups.
        demos: Groups below /data in natural order.
        masks: Mask name → its facts.
    """

    file: str
    error: TrajpipeError | None = None
    root_attributes: dict[str, Any] = field(default_factory=dict)
    root_items: tuple[str, ...] = ()
    data_attributes: dict[str, Any] = field(default_factory=dict)
    strange: tuple[str, ...] = ()
    demos: list[DemoFacts] = field(default_factory=list)
    masks: dict[str, MaskFacts] = field(default_factory=dict)

    def place(self, demo: str | None = None, column: str | None = None, row: int | None = None) -> Place:
        """A place in this file."""
        return Place(self.file, demo, column, row)

    def datasets(self) -> Iterator[tuple[DemoFacts, str, DatasetFacts]]:
        """Every dataset of every demo, in order."""
        for demo in self.demos:
            for path, dataset in demo.datasets.items():
                yield demo, path, dataset
