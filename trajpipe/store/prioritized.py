"""Prioritized sampling from a float32 sum tree, in the one arithmetic that gives noeira's draws to the bit.

A leaf update adds its float32 difference to every parent, in order of arrival: sums drift as noeira's do,
so they are never rebuilt. All queries and updates go level by level, without a loop per index.
What is not here: the other samplers (`samplers`).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trajpipe.core.errors import InputError, RowIndexError, StateError, UsageError
from trajpipe.store.samplers import IndexBatch, Sampler, require_batch, require_rows

_BELOW_TOTAL: Final = np.float32(1e-7)
# float32 tells this many updates of a call apart
_MAX_UPDATES: Final = 1 << 24


class SumTree:
    """Leaves and their sums in one heap-ordered float32 array.

    Args:
        capacity: Leaves; they lie at [capacity, 2·capacity).

    Attributes:
        nodes: float32 (2·capacity,); the root is node 1, node i has the children 2i and 2i + 1. noeira
            counts from 0: its node i is our i + 1.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.nodes = np.zeros(2 * capacity, np.float32)
        # the leaves of a capacity that is no power of two lie on two levels
        self._full_levels = capacity.bit_length() - 1
        self._ragged = capacity != 1 << self._full_levels
        self._scratch: dict[int, tuple[NDArray[Any], ...]] = {}

    @property
    def total(self) -> np.float32:
        """Sum of all leaves."""
        return np.float32(self.nodes[1])

    def leaves(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Values of leaves."""
        return self.nodes[rows + self.capacity]

    def set(self, rows: NDArray[np.int64], values: NDArray[np.float32]) -> None:
        """Set leaves one after another; a row may occur more than once.

        Args:
            rows: int64 (n,), within the capacity.
            values: float32 (n,).
        """
        for start in range(0, len(rows), _MAX_UPDATES):
            part = slice(start, start + _MAX_UPDATES)
            self._set(rows[part], values[part])

    def _set(self, rows: NDArray[np.int64], values: NDArray[np.float32]) -> None:
        node = rows + self.capacity
        difference = values - self._before(rows, values, node)
        self.nodes[node] = values
        if self._ragged:
            # deeper leaves come up to the others' level first: every sum then gets its additions in order
            deep = node >> (self._full_levels + 1) != 0
            node = np.where(deep, node >> 1, node)
            np.add.at(self.nodes, node[deep], difference[deep])
        for _ in range(self._full_levels):
            node = node >> 1
            np.add.at(self.nodes, node, difference)

    def _before(
        self, rows: NDArray[np.int64], values: NDArray[np.float32], node: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """What each leaf holds just before its update: the update before it counts when a row repeats."""
        old: NDArray[np.float32] = self.nodes.take(node)
        # each update's number goes into its leaf: where another one stands afterwards, the row repeats;
        # the caller sets the leaves next
        number = np.arange(len(rows), dtype=np.float32)
        self.nodes[node] = number
        overtaken = np.flatnonzero(self.nodes.take(node) != number)
        if len(overtaken):
            self.nodes[node[overtaken]] = np.nan
            again = np.flatnonzero(np.isnan(self.nodes.take(node)))
            order = again[np.argsort(rows[again], kind="stable")]
            repeats = np.flatnonzero(np.diff(rows[order]) == 0)
            old[order[repeats + 1]] = values[order[repeats]]
        return old

    def find(self, sums: NDArray[np.float32]) -> NDArray[np.int64]:
        """The row in which each running sum falls: left when it is at most the left child's sum.

        Args:
            sums: float32 (n,), within [0, total].
        """
        node, left, goes_right, rest, step, factor = self._scratch_of(len(sums))
        node.fill(1)
        np.copyto(rest, sums)
        # the flag is copied to both dtypes: a ufunc that casts runs through buffers, twice as slow
        for _ in range(self._full_levels):
            np.left_shift(node, 1, out=node)
            self.nodes.take(node, 0, left, "clip")
            np.greater(rest, left, out=goes_right)
            np.copyto(step, goes_right)
            np.copyto(factor, goes_right)
            np.multiply(left, factor, out=left)
            np.subtract(rest, left, out=rest)
            np.bitwise_or(node, step, out=node)
        if self._ragged:
            self._last_level(node, rest)
        found: NDArray[np.int64] = node - self.capacity
        return found

    def _last_level(self, node: NDArray[np.int64], rest: NDArray[np.float32]) -> None:
        inner = np.flatnonzero(node < self.capacity)
        child = 2 * node[inner]
        node[inner] = child + (rest[inner] > self.nodes[child])

    def _scratch_of(self, count: int) -> tuple[NDArray[Any], ...]:
        if count not in self._scratch:
            self._scratch = {
                count: (
                    np.empty(count, np.int64),
                    np.empty(count, np.float32),
                    np.empty(count, np.bool_),
                    np.empty(count, np.float32),
                    np.empty(count, np.int64),
                    np.empty(count, np.float32),
                )
            }
        return self._scratch[count]


class PrioritizedSampler(Sampler):
    """Rows with probability by priority, stratified, with importance weights.

    Args:
        capacity: Rows that can be held.
        alpha: Exponent of priorities, rounded to float32 as noeira holds it.
        beta: Exponent of importance weights, likewise.
        epsilon: Added to |td| in float32, so that no row's priority is 0.
        seed: Seed of the host stream.

    Attributes:
        size: Rows added so far (the highest row plus one).
        max_priority: Largest |td| + epsilon seen, before the exponent; new rows get it.
    """

    def __init__(
        self,
        capacity: int,
        alpha: float = 0.6,
        beta: float = 0.4,
        epsilon: float = 1e-6,
        seed: int = 0,
    ) -> None:
        super().__init__(seed)
        self.capacity = require_rows(capacity, "capacity")
        self.alpha, self.epsilon = float(np.float32(alpha)), np.float32(epsilon)
        self.set_beta(beta)
        self.tree = SumTree(self.capacity)
        self.size, self.max_priority = 0, np.float32(1.0)
        self._drawn: NDArray[np.int64] | None = None
        self._weights: NDArray[np.float32] | None = None

    def set_beta(self, beta: float) -> None:
        """Set the exponent of the importance weights, usually annealed to 1.

        Raises:
            UsageError: negative.
        """
        if not beta >= 0:
            raise UsageError("beta is at least 0", got=beta)
        self.beta = float(np.float32(beta))

    def note_added(self, row: int) -> None:
        """A row was written: it gets the largest priority seen, so that it is drawn soon.

        Raises:
            RowIndexError: outside the capacity.
        """
        self.note_added_rows(np.array([row]))

    def note_added_rows(self, rows: ArrayLike) -> None:
        """`note_added` for each row in order.

        Args:
            rows: Integers (n,).
        """
        added = self._rows(rows)
        if added.size:
            priority = np.float32(np.float64(self.max_priority) ** self.alpha)
            self.tree.set(added, np.full(len(added), priority, np.float32))
            self.size = max(self.size, int(added.max()) + 1)

    def _rows(self, rows: ArrayLike) -> NDArray[np.int64]:
        given = np.asarray(rows)
        if given.size and given.dtype.kind not in "iu":
            raise RowIndexError("rows are integers", got=given.dtype)
        out = given.reshape(-1).astype(np.int64)
        if out.size and (out.min() < 0 or out.max() >= self.capacity):
            raise RowIndexError("rows lie within the capacity", got=out, expected=f"[0, {self.capacity})")
        return out

    def draw(self, batch: int) -> IndexBatch:
        """`batch` rows, one from each of `batch` equal strata of the priorities' sum, with their weights.

        Raises:
            StateError: no row was added.
        """
        require_batch(batch)
        total = self.tree.total
        if not self.size or not total > 0:
            raise StateError("there is no row to draw: add rows first", got=f"{self.size} rows, sum {total}")
        rows = self.tree.find(self._strata(total, batch))
        np.minimum(rows, self.size - 1, out=rows)
        self._drawn, self._weights = rows, self._weights_of(rows, total)
        return IndexBatch(rows, weights=self._weights)

    def _strata(self, total: np.float32, batch: int) -> NDArray[np.float32]:
        """One running sum in each stratum, all in float32."""
        numbers = self._stream.take(batch).astype(np.float32)
        width = total / np.float32(batch)
        edges = np.arange(batch + 1, dtype=np.float32) * width
        low, high = edges[:-1], edges[1:]
        sums = (low + (high - low) * numbers).astype(np.float32, copy=False)
        sums[sums >= total] = total - _BELOW_TOTAL
        return sums

    def _weights_of(self, rows: NDArray[np.int64], total: np.float32) -> NDArray[np.float32]:
        chance = (self.tree.leaves(rows) / total).astype(np.float64)
        raw = ((self.size * chance) ** -self.beta).astype(np.float32)
        weights: NDArray[np.float32] = raw / raw.max()
        return weights

    @property
    def last_weights(self) -> NDArray[np.float32]:
        """float32 (B,): importance weights of the last draw; the largest is 1.

        Raises:
            StateError: nothing was drawn.
        """
        if self._weights is None:
            raise StateError("weights belong to a draw", hint="Call draw(batch) first.")
        return self._weights

    def update_priorities(self, td: ArrayLike, rows: ArrayLike | IndexBatch | None = None) -> None:
        """Set priorities (|td| + epsilon)**alpha, in the batch's order.

        Args:
            td: Temporal differences (n,).
            rows: Their rows; the last draw's when None.

        Raises:
            StateError: neither rows nor a draw.
            UsageError: another count than the rows', or not finite.
            RowIndexError: a row outside the capacity.
        """
        given = self._drawn if rows is None else np.asarray(rows)
        if given is None:
            raise StateError("priorities belong to drawn rows", hint="Call draw(batch) first.")
        where = self._rows(given)
        errors = np.abs(np.asarray(td).reshape(-1).astype(np.float32))
        if len(errors) != len(where):
            raise UsageError("one td a row", got=len(errors), expected=len(where))
        if not np.isfinite(errors).all():
            raise UsageError("td values are finite", got=errors[~np.isfinite(errors)][0])
        if len(errors):
            raw = errors + self.epsilon
            self.tree.set(where, (raw.astype(np.float64) ** self.alpha).astype(np.float32))
            self.max_priority = np.float32(max(self.max_priority, raw.max()))

    def state_dict(self) -> dict[str, Any]:
        """As `Sampler.state_dict`, with a copy of the tree."""
        return {
            **super().state_dict(),
            "beta": self.beta,
            "size": self.size,
            "max_priority": float(self.max_priority),
            "nodes": self.tree.nodes.copy(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """As `Sampler.load_state_dict`.

        Raises:
            InputError: the state is another kind's, or of other parameters.
        """
        nodes = np.asarray(state.get("nodes", ()), np.float32)
        if nodes.shape != self.tree.nodes.shape:
            raise InputError(
                "the saved tree is of this capacity", got=nodes.shape, expected=self.tree.nodes.shape
            )
        super().load_state_dict(state)
        self.tree.nodes[...] = nodes
        self.size, self.max_priority = int(state["size"]), np.float32(state["max_priority"])
        self.set_beta(float(state["beta"]))
        self._drawn = self._weights = None

    def _parameters(self) -> dict[str, Any]:
        return {"capacity": self.capacity, "alpha": self.alpha, "epsilon": float(self.epsilon)}
