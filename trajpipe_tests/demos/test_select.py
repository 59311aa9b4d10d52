"""Filters and screening: which rejection, with which detail.

What is not here: the ledger that keeps them, see `trajpipe_tests/core`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trajpipe.core.episode import Episode, FunctionColumn
from trajpipe.core.ledger import Rejection
from trajpipe.demos import select
from trajpipe.demos.select import Filters
from trajpipe_tests.demos.builders import episode, replaced


def _rejection(reason: str, detail: str) -> Rejection:
    return Rejection("recorded.hdf5", "demo_0", reason, detail)


def _with(path: str, row: int, value: float, dtype: str = "f4") -> Episode:
    rows = np.zeros((20, 3), dtype)
    rows[row, 1] = value
    return replaced(episode(), {path: rows})


@pytest.mark.parametrize(
    ("one", "filters", "expected"),
    [
        (episode(), Filters(), None),
        (episode(), Filters(min_length=20, only_success=True), None),
        (episode(), Filters(min_length=21), _rejection("too-short", "20 rows, at least 21 asked")),
        (episode(success=False), Filters(), None),
        (
            episode(success=False),
            Filters(only_success=True),
            _rejection("not-successful", "success is false"),
        ),
        (episode(success=None), Filters(), None),
        (episode(success=None), Filters(only_success=True), None),
        (episode(success=None), Filters(unknown_success="fail"), None),
        (
            episode(success=None),
            Filters(only_success=True, unknown_success="fail"),
            _rejection("not-successful", "success is unknown and counts as failure"),
        ),
        (
            episode(success=None),
            Filters(unknown_success="drop"),
            _rejection("unknown-success", "the recording does not say whether it succeeded"),
        ),
        (episode(success=True), Filters(unknown_success="drop"), None),
        (
            _with("actions", 4, np.nan),
            Filters(),
            _rejection("nan-action", "actions row 4 is not finite"),
        ),
        (
            _with("actions", 0, 1e200, "f8"),
            Filters(),
            _rejection("nan-action", "actions row 0 is not finite"),
        ),
        (_with("obs/x", 19, np.inf), Filters(), _rejection("nan-obs", "obs/x row 19 is not finite")),
        (_with("obs/x", 19, 1e200, "f8"), Filters(), None),
        (_with("states/q", 3, np.nan), Filters(), _rejection("nan-obs", "states/q row 3 is not finite")),
    ],
)
def test_screen(one: Episode, filters: Filters, expected: Rejection | None) -> None:
    assert select.screen(one, filters) == expected


def test_the_first_bad_row_is_found_across_blocks() -> None:
    def fetch(start: int, stop: int) -> Any:
        rows = np.zeros((stop - start, 100_000), np.float32)
        if start <= 777 < stop:
            rows[777 - start, -1] = np.nan
        return rows

    assert select.first_bad_row(FunctionColumn(np.dtype("f4"), (1000, 100_000), fetch)) == 777


def test_actions_are_screened_before_obs() -> None:
    one = replaced(_with("obs/a", 0, np.nan), {"actions": np.full((20, 2), np.nan)})
    found = select.not_finite(one)
    assert found is not None
    assert found.reason == "nan-action"


def test_nothing_kept_lists_the_reasons_of_each_demo_in_natural_order() -> None:
    ten = Rejection("r.hdf5", "demo_10", "too-short", "3 rows")
    error = select.nothing_kept("r.hdf5", [ten, Rejection("r.hdf5", "demo_2", "nan-action")])
    assert str(error) == (
        "r.hdf5: no demo of 2 is left; got demo_2: nan-action; demo_10: too-short (3 rows). "
        "Loosen the filters (too-short), or leave the recording out."
    )
    assert error.code == "nothing-kept"


@pytest.mark.parametrize(
    ("reasons", "hint"),
    [
        (["ragged", "unreadable"], "No filter is involved: mend what is listed"),
        (["excluded"], "All were excluded by hand"),
        (["saturated", "not-successful", "ragged"], "Loosen the filters (not-successful, saturated)"),
    ],
)
def test_the_hint_names_filters_only_where_one_is_involved(reasons: list[str], hint: str) -> None:
    rejected = [Rejection("r.hdf5", f"demo_{i}", reason) for i, reason in enumerate(reasons)]
    assert str(select.nothing_kept("r.hdf5", rejected).hint).startswith(hint)
    few = select.too_few_kept("r.hdf5", 1, rejected, Filters(min_kept=1.0))
    assert few is not None
    assert str(few.hint).startswith(hint)
    assert "Or lower `filter: min_kept`" in str(few.hint)


def test_nothing_kept_of_many_is_capped_and_counted() -> None:
    error = select.nothing_kept("r.hdf5", [Rejection("r.hdf5", f"demo_{i}", "too-short") for i in range(50)])
    assert "demo_19: too-short; and 30 more" in str(error)


def test_a_recording_without_demos_is_no_empty_success() -> None:
    error = select.nothing_kept("r.hdf5", [])
    assert (error.code, error.rule) == ("no-demos", "the recording has no demos")


def test_filters_in_the_recipe() -> None:
    assert Filters(min_length=3).to_json() == {
        "only_success": False,
        "min_length": 3,
        "unknown_success": "keep",
        "limits": {"max_noop_fraction": None, "max_saturated": None, "max_length": None},
        "min_kept": 0.0,
    }
