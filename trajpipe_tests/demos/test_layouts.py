"""Tests of the vote on a recording's layout."""

from __future__ import annotations

import numpy as np
import pytest

from trajpipe.core.episode import ArrayColumn, Episode
from trajpipe.demos.layouts import OTHER_TERMS, layout_of, outvoted


def layout(actions: int = 7, dtype: str = "f4", **obs: tuple[int, ...]) -> tuple[tuple[str, str], ...]:
    """The layout of an episode with float32 terms of these shapes."""
    columns = {"actions": np.zeros((3, actions), dtype)}
    columns |= {f"obs/{term}": np.zeros((3, *shape), "f4") for term, shape in obs.items()}
    columns |= {"states": np.zeros((3, 5)), "obs/group/x": np.zeros((3, 2))}
    return layout_of(Episode("demo_0", 3, {p: ArrayColumn(a) for p, a in columns.items()}))


def test_a_layout_has_the_actions_and_flat_terms_alone() -> None:
    assert layout(eef=(4,)) == (("actions", "float32 (7,)"), ("obs/eef", "float32 (4,)"))
    assert layout(dtype="f8") == layout(dtype="i4"), "actions become float32 whatever they were"


@pytest.mark.parametrize(
    ("odd", "detail"),
    [
        (layout(6, eef=(4,)), "actions is float32 (6,), expected float32 (7,), as in 2 of 3 demos"),
        (layout(eef=(3,)), "obs/eef is float32 (3,), expected float32 (4,), as in 2 of 3 demos"),
        (layout(), "obs/eef is absent, expected float32 (4,), as in 2 of 3 demos"),
        (layout(eef=(4,), more=(1,)), "obs/more is float32 (1,), expected absent, as in 2 of 3 demos"),
        (
            layout(6),
            "actions is float32 (6,) (and 1 more datasets differ), expected float32 (7,), as in 2 of 3",
        ),
    ],
    ids=["actions", "width", "missing", "one more", "two"],
)
def test_the_odd_one_is_rejected_wherever_it_stands(odd: tuple[tuple[str, str], ...], detail: str) -> None:
    good = layout(eef=(4,))
    for place in range(3):
        found = outvoted("x.hdf5", {f"demo_{i}": odd if i == place else good for i in range(3)})
        assert [(r.episode, r.reason) for r in found] == [(f"demo_{place}", OTHER_TERMS)]
        assert found[0].detail.startswith(detail)


def test_without_more_than_half_nobody_is_rejected() -> None:
    a, b, c = layout(), layout(6), layout(5)
    assert outvoted("x", {"0": a, "1": b}) == []
    assert outvoted("x", {"0": a, "1": a, "2": b, "3": c}) == []
    assert outvoted("x", {"0": a, "1": a}) == []
    assert outvoted("x", {}) == []
    assert len(outvoted("x", {"0": a, "1": a, "2": a, "3": b, "4": c})) == 2
