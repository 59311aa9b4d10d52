"""Group splits: seeded, stable under additions, never across a group.

What is not here: writing them as masks, see `test_writer.py`.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajpipe.core.errors import UsageError
from trajpipe.core.names import Split
from trajpipe.demos.splits import assign_splits

GROUPS = st.lists(st.text(max_size=4), min_size=1, max_size=60)
SHARES = st.floats(0, 0.99)


@given(GROUPS, st.integers(), SHARES)
def test_rules_that_always_hold(groups: list[str], seed: int, share: float) -> None:
    splits = assign_splits(groups, seed=seed, valid_fraction=share)
    assert splits == assign_splits(groups, seed=seed, valid_fraction=share)
    by_group = dict(zip(groups, splits, strict=True))
    assert [by_group[g] for g in groups] == splits, "no group lies on both sides"
    valid = sum(split is Split.VALID for split in by_group.values())
    assert valid == min(int(share * len(by_group) + 0.5), len(by_group) - 1)


@given(GROUPS, st.text(max_size=4), st.integers(0, 9), SHARES)
def test_one_more_group_moves_at_most_one_other(groups: list[str], new: str, seed: int, share: float) -> None:
    before = dict(zip(groups, assign_splits(groups, seed=seed, valid_fraction=share), strict=True))
    after = dict(
        zip([*groups, new], assign_splits([*groups, new], seed=seed, valid_fraction=share), strict=True)
    )
    assert sum(before[g] != after[g] for g in before) <= 1


@given(st.permutations([f"r{i}" for i in range(12)]))
def test_order_does_not_matter(groups: list[str]) -> None:
    chosen = dict(zip(groups, assign_splits(groups, seed=1, valid_fraction=0.25), strict=True))
    again = dict(zip(sorted(groups), assign_splits(sorted(groups), seed=1, valid_fraction=0.25), strict=True))
    assert chosen == again


def test_a_known_choice_stays_what_it_was() -> None:
    """The hash is part of the data's version: another choice here would reshuffle every dataset."""
    groups = [f"recording_{i}" for i in range(10)]
    splits = assign_splits(groups, seed=0, valid_fraction=0.2)
    assert [g for g, s in zip(groups, splits, strict=True) if s is Split.VALID] == [
        "recording_5",
        "recording_6",
    ]


def test_seeds_choose_differently() -> None:
    groups = [f"r{i}" for i in range(40)]
    assert len({tuple(assign_splits(groups, seed=s, valid_fraction=0.5)) for s in range(10)}) == 10


@pytest.mark.parametrize("share", [-0.1, 1.0, 2.0, float("nan")])
def test_a_share_outside_its_range_is_refused(share: float) -> None:
    with pytest.raises(UsageError, match="validation share"):
        assign_splits(["a"], seed=0, valid_fraction=share)


def test_no_groups_give_no_splits() -> None:
    assert assign_splits([], seed=0, valid_fraction=0.5) == []
