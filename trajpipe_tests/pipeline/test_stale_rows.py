"""First rows that are the previous episode's last."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from trajpipe.core.episode import ArrayColumn, Episode, whole
from trajpipe.core.errors import SchemaError
from trajpipe.core.names import Stage
from trajpipe.pipeline.run import RunOptions, run
from trajpipe.pipeline.stale_rows import last_rows, stale_first, without_first_row
from trajpipe_tests.pipeline.conftest import CATALOGUE, MakeProject


def moving(first: int, *, length: int = 6) -> Episode:
    """An episode in which `pos` and `rgb` move every row, and `goal` and `gripper` stand still."""
    steps = np.arange(first, first + length)
    return Episode(
        name=f"demo_{first}",
        length=length,
        columns={
            "actions": ArrayColumn(np.zeros((length, 2), np.float32)),
            "obs/pos": ArrayColumn(np.stack([steps, steps + 0.5], axis=1)),
            "obs/goal": ArrayColumn(np.ones((length, 3))),
            "obs/gripper": ArrayColumn(steps.astype(np.float64)),
            "obs/rgb": ArrayColumn(np.repeat(steps.astype(np.uint8), 12).reshape(length, 2, 2, 3)),
        },
    )


def with_first(episode: Episode, path: str, row: np.ndarray) -> Episode:
    """The episode with another first row in one column."""
    rows = whole(episode.columns[path]).copy()
    rows[0] = row
    return episode.with_columns({**episode.columns, path: ArrayColumn(rows)})


def test_a_stale_row_is_found_in_the_columns_that_hold_it() -> None:
    last = last_rows(moving(0))
    assert stale_first(moving(100), last) == []
    stale = with_first(moving(100), "obs/rgb", last["obs/rgb"])
    assert stale_first(stale, last) == ["obs/rgb"]
    assert stale_first(with_first(stale, "obs/pos", last["obs/pos"]), last) == ["obs/pos", "obs/rgb"]


def test_what_stands_still_or_is_one_number_tells_nothing() -> None:
    last = last_rows(moving(0))
    assert sorted(last) == ["obs/gripper", "obs/pos", "obs/rgb"]
    assert stale_first(with_first(moving(100), "obs/gripper", last["obs/gripper"]), last) == []


def test_an_episode_of_one_row_leaves_nothing_to_compare_with() -> None:
    assert last_rows(moving(0, length=1)) == {}


def test_one_row_or_another_width_is_never_called_stale() -> None:
    last = last_rows(moving(0))
    assert stale_first(moving(5, length=1), last) == []
    assert stale_first(moving(100), {"obs/pos": np.zeros(5)}) == []


def test_dropping_takes_the_first_row_of_every_column() -> None:
    shorter = without_first_row(moving(0))
    assert shorter.length == 5
    for path, column in moving(0).columns.items():
        np.testing.assert_array_equal(whole(shorter.columns[path]), whole(column)[1:])
    with pytest.raises(SchemaError, match="at least one row"):
        without_first_row(moving(0, length=1))


def make_stale(raw: Path) -> int:
    """Write demo_0's last obs row over demo_1's first; the length of demo_1."""
    with h5py.File(raw, "r+") as file:
        first, second = file["data/demo_0/obs"], file["data/demo_1/obs"]
        for name in first:
            if isinstance(first[name], h5py.Dataset):
                second[name][0] = first[name][-1]
        return len(file["data/demo_1/actions"])


@pytest.mark.parametrize("drop", [False, True])
def test_the_ingest_reports_it_and_drops_it_only_when_told(make_project: MakeProject, drop: bool) -> None:
    extra = "    filter: {drop_stale_first_row: true}\n" if drop else ""
    project = make_project(1, catalogue=CATALOGUE + extra)
    length = make_stale(project.root / "raw/lift/take_00.hdf5")
    (result,) = run(project, options=RunOptions(stages=(Stage.DEMOS,))).results
    found = [f for f in result.checks.results[0].findings if f.code == "first-row-stale"]
    assert len(found) == 1
    assert found[0].place.demo == "demo_1"
    assert ("dropped" in found[0].message) is drop
    with h5py.File(result.path) as file:
        assert len(file["data/demo_1/actions"]) == length - drop
