"""The prioritized sampler equals a scalar reference to the bit, for any capacity, repeat and order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trajpipe.core.errors import InputError, RowIndexError, StateError, UsageError
from trajpipe.store import PrioritizedSampler
from trajpipe.store.prioritized import SumTree
from trajpipe_tests.store.reference import Tree, host


def nodes(sampler: PrioritizedSampler) -> list[float]:
    """Sums as noeira counts them: from node 0."""
    found: list[float] = sampler.tree.nodes[1:].tolist()
    return found


tds = st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=12)


@settings(max_examples=40)
@given(st.integers(1, 40), st.integers(0, 2**64 - 1), st.lists(tds, max_size=4), st.integers(1, 20))
def test_any_history_equals_the_reference(
    capacity: int, seed: int, history: list[list[float]], batch: int
) -> None:
    reference = Tree(capacity, 0.6, 0.4, 1e-6)
    sampler = PrioritizedSampler(capacity, seed=seed)
    numbers = host(seed)
    rows = np.arange(max(1, capacity * 2 // 3))
    sampler.note_added_rows(rows)
    for row in rows.tolist():
        reference.add(row)
    for td in history:
        expected, weights = reference.draw(numbers, batch)
        drawn = sampler.draw(batch)
        assert drawn.rows.tolist() == [min(r, sampler.size - 1) for r in expected]
        assert drawn.weights is not None
        if drawn.rows.tolist() == expected:
            assert drawn.weights.tolist() == [float(w) for w in weights]
        values = np.resize(np.array(td, np.float32), batch)
        sampler.update_priorities(values)
        for row, value in zip(drawn.rows.tolist(), values, strict=True):
            reference.update(row, value)
        assert nodes(sampler) == [float(n) for n in reference.nodes]
        assert sampler.max_priority == reference.max_priority
        assert sampler.max_priority.dtype == np.float32


def test_a_repeated_row_is_set_one_after_another() -> None:
    reference, tree = Tree(5, 0.6, 0.4, 1e-6), SumTree(5)
    rows = [3, 0, 3, 3, 4, 0]
    values = np.array([0.1, 0.7, 0.3, 1e-4, 5.0, 0.2], np.float32)
    tree.set(np.array(rows), values)
    for row, value in zip(rows, values, strict=True):
        reference.set(row, value)
    assert tree.nodes[1:].tolist() == [float(n) for n in reference.nodes]


@pytest.mark.parametrize("capacity", [1, 2, 3, 5, 64, 65, 100, 1000])
def test_the_tree_finds_what_the_reference_finds(capacity: int) -> None:
    rng = np.random.default_rng(capacity)
    reference, tree = Tree(capacity, 0.6, 0.4, 1e-6), SumTree(capacity)
    values = rng.random(capacity).astype(np.float32)
    values[rng.random(capacity) < 0.3] = 0
    values[0] = 1
    tree.set(np.arange(capacity), values)
    for row, value in enumerate(values):
        reference.set(row, value)
    sums = np.sort(rng.random(200).astype(np.float32)) * tree.total
    assert tree.find(sums).tolist() == [reference.find(u) for u in sums]
    assert tree.leaves(np.arange(capacity)).tolist() == values.tolist()


def test_rows_are_drawn_by_priority() -> None:
    sampler = PrioritizedSampler(8, alpha=1.0, beta=1.0, epsilon=0.0)
    sampler.note_added_rows(range(8))
    sampler.update_priorities(np.arange(8, dtype=np.float32), rows=np.arange(8))
    counts = np.bincount(sampler.draw(28_000).rows, minlength=8)
    assert counts[0] <= 1
    assert np.allclose(counts / 1000, np.arange(8), atol=0.01)


def test_importance_weights_follow_beta() -> None:
    sampler = PrioritizedSampler(2, alpha=1.0, beta=1.0, epsilon=0.0)
    sampler.note_added_rows([0, 1])
    sampler.update_priorities([1.0, 3.0], rows=[0, 1])
    drawn = sampler.draw(400)
    assert drawn.weights is not None
    assert set(drawn.weights[drawn.rows == 0].tolist()) == {1.0}
    assert np.allclose(drawn.weights[drawn.rows == 1], 1 / 3)
    sampler.set_beta(0.0)
    sampler.draw(400)
    assert (sampler.last_weights == 1).all()


def test_new_rows_get_the_largest_priority() -> None:
    sampler = PrioritizedSampler(4, alpha=1.0, epsilon=0.5)
    sampler.note_added(0)
    sampler.update_priorities([9.5], rows=[0])
    sampler.note_added(1)
    assert sampler.tree.leaves(np.array([0, 1, 2])).tolist() == [10.0, 10.0, 0.0]
    assert sampler.size == 2


def test_calls_out_of_order() -> None:
    sampler = PrioritizedSampler(4)
    with pytest.raises(StateError, match="no row to draw"):
        sampler.draw(1)
    with pytest.raises(StateError, match="draw"):
        sampler.update_priorities([1.0])
    with pytest.raises(StateError, match="draw"):
        _ = sampler.last_weights


@pytest.mark.parametrize(
    ("td", "rows", "error"),
    [
        ([1.0], [4], RowIndexError),
        ([1.0], [-1], RowIndexError),
        ([1.0], [0.5], RowIndexError),
        ([1.0, 2.0], [0], UsageError),
        ([np.nan], [0], UsageError),
        ([np.inf], [0], UsageError),
    ],
)
def test_bad_updates_change_nothing(td: Any, rows: Any, error: type[Exception]) -> None:
    sampler = PrioritizedSampler(4)
    sampler.note_added_rows([0, 1])
    before = sampler.tree.nodes.tolist()
    with pytest.raises(error):
        sampler.update_priorities(td, rows=rows)
    assert sampler.tree.nodes.tolist() == before


def test_the_state_holds_a_copy_of_the_tree() -> None:
    sampler = PrioritizedSampler(4)
    sampler.note_added_rows([0, 1])
    state = sampler.state_dict()
    sampler.update_priorities([5.0], rows=[0])
    assert not np.array_equal(state["nodes"], sampler.tree.nodes)
    with pytest.raises(InputError, match="capacity"):
        PrioritizedSampler(5).load_state_dict(state)
