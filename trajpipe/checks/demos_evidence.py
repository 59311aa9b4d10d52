"""What rows of a demo tell against each other: stale first rows, obs/actions, alignment of obs and states.

Looks at a few rows while the demo is scanned and keeps words only, so memory does not grow with the demos.
What is not here: the rules that judge it, see `trajpipe.checks.demos_obs` and `trajpipe.checks.demos_values`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.checks.demos_facts import OBS, STATES, Slice
from trajpipe.core import names
from trajpipe.core.names import Alignment
from trajpipe.core.order import natural_sorted

HEAD_ROWS: Final = 64
HEAD_WIDTH: Final = 512
_TERM_WIDTH: Final = 16
_FEWEST_ROWS: Final = 4
_OBS_ACTIONS: Final = OBS + names.DATASET_ACTIONS


@dataclass(slots=True)
class Rows:
    """A few rows of one dataset.

    Attributes:
        is_image: Frames of any layout.
        is_float: A float dtype.
        head: First rows, flattened to (≤ 64, width) float64; None for wide columns.
        first: First row of an obs column.
        second: Second row of it.
        last: Last row of it.
    """

    is_image: bool
    is_float: bool
    head: NDArray[np.float64] | None = None
    first: NDArray[Any] | None = None
    second: NDArray[Any] | None = None
    last: NDArray[Any] | None = None

    def keep(self, path: str, start: int, rows: NDArray[Any]) -> None:
        """Take what is needed of a block that begins at row `start`."""
        flat = rows.reshape(rows.shape[0], -1)
        if start == 0 and flat.shape[1] <= HEAD_WIDTH:
            self.head = flat[:HEAD_ROWS].astype(np.float64)
        if not path.startswith(OBS):
            return
        if start == 0:
            self.first = rows[0].copy()
        if start <= 1 < start + len(rows):
            self.second = rows[1 - start].copy()
        self.last = rows[-1].copy()


def stale_terms(rows: Mapping[str, Rows], previous: Mapping[str, Rows]) -> tuple[str, ...]:
    """Obs columns whose first row is the previous demo's last, although they move at once.

    Cameras one by one; other terms only when every moving one of them is stale, for a value may recur.
    """
    moving = {p: r for p, r in rows.items() if _moves(r)}
    stale = [p for p in moving if p in previous and _equal(moving[p].first, previous[p].last)]
    cameras = [p for p in stale if moving[p].is_image]
    others = [p for p in stale if not moving[p].is_image]
    every = len(others) == sum(not r.is_image for r in moving.values())
    return tuple(natural_sorted(cameras + (others if every else [])))


def _moves(rows: Rows) -> bool:
    """More than one value in a row, and the second row is another than the first."""
    first, second = rows.first, rows.second
    return first is not None and second is not None and first.size > 1 and not _equal(first, second)


def _equal(a: NDArray[Any] | None, b: NDArray[Any] | None) -> bool:
    return a is not None and b is not None and np.array_equal(a, b)


def obs_actions_agree(rows: Mapping[str, Rows]) -> bool | None:
    """True when obs/actions is actions, or the row before (IsaacLab); None when there is no obs/actions.

    Looked at in the first 64 rows; another width never agrees.
    """
    if _OBS_ACTIONS not in rows:
        return None
    top = rows[names.DATASET_ACTIONS].head if names.DATASET_ACTIONS in rows else None
    inner = rows[_OBS_ACTIONS].head
    if top is None or inner is None or top.shape != inner.shape:
        return False
    if len(top) < 2:
        return True
    return np.allclose(inner, top) or np.allclose(inner[1:], top[:-1])


def alignment_slices(rows: Mapping[str, Rows]) -> Iterator[Slice]:
    """Obs terms that are a run of columns of the states one row later or earlier, exactly.

    obs[t + 1] = states[t]: observed before the action, states recorded after it (IsaacLab).
    obs[t] = states[t + 1]: observed after the action, states recorded before it (LIBERO).
    Equal rows at the same t tell nothing, for states may be recorded before or after.
    """
    states = {p: r.head for p, r in rows.items() if p.split("/", 1)[0] == STATES}
    for path, one in rows.items():
        obs = one.head
        if not path.startswith(OBS) or obs is None or not one.is_float:
            continue
        if len(obs) < _FEWEST_ROWS or not 2 <= obs.shape[1] <= _TERM_WIDTH:
            continue
        for state, head in states.items():
            if head is None or len(head) != len(obs):
                continue
            before, after = _is_slice(obs[1:], head[:-1]), _is_slice(obs[:-1], head[1:])
            if before != after:
                yield Slice(Alignment.BEFORE_ACTION if before else Alignment.AFTER_ACTION, path, state)


def _is_slice(term: NDArray[Any], states: NDArray[Any]) -> bool:
    """True when the moving term is a run of columns of the states, in every row."""
    width = term.shape[1]
    if (term == term[0]).all():
        return False
    # The last row's first value finds the few places where the run may begin.
    starts = np.flatnonzero(states[-1, : max(0, states.shape[1] - width + 1)] == term[-1, 0])
    return any(np.array_equal(states[:, s : s + width], term) for s in starts)
