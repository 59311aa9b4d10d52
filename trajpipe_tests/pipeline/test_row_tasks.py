"""Per-row tasks of L2: each demo's own table, one table for an export, and tables that do not fit.

What is not here: round trips through files, see `test_lerobot_chain.py`.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from trajpipe.core.episode import ArrayColumn, Episode, whole
from trajpipe.core.errors import InputError
from trajpipe.pipeline.row_tasks import own_tasks, with_shared_tasks


def episode(rows: list[int] | None, tasks: Any) -> Episode:
    """An episode with these per-row tasks and this attribute `tasks`."""
    columns = {"actions": ArrayColumn(np.zeros((3, 2), np.float32))}
    if rows is not None:
        columns["task_index"] = ArrayColumn(np.array(rows, np.int32))
    attributes = {} if tasks is None else {"tasks": tasks}
    return Episode("demo_0", 3, columns, attributes=attributes, source_file="a.hdf5")


def test_rows_point_into_the_shared_table() -> None:
    given = episode([1, 0, 1], json.dumps(["立方体", "pick "]))
    assert own_tasks(given) == ("立方体", "pick ")
    shared = with_shared_tasks(given, ("pick", "pick ", "立方体"))
    column = shared.columns["task_index"]
    np.testing.assert_array_equal(whole(column), [1, 2, 1])
    assert column.dtype == np.dtype(np.int64)
    assert shared.columns["actions"] is given.columns["actions"]


def test_an_episode_without_such_rows_stays_as_it_is() -> None:
    for given in (episode(None, None), episode([0, 0, 0], None)):
        assert own_tasks(given) is None
        assert with_shared_tasks(given, ("pick",)) is given


def test_a_declared_table_that_lacks_a_text_is_refused() -> None:
    with pytest.raises(InputError, match="got 'push'; expected 'pick'"):
        with_shared_tasks(episode([0, 0, 0], json.dumps(["push"])), ("pick",))


@pytest.mark.parametrize("tasks", ["no json", json.dumps({"a": 1}), json.dumps([1]), 7])
def test_a_table_that_is_none_is_refused(tasks: Any) -> None:
    with pytest.raises(InputError):
        own_tasks(episode([0, 0, 0], tasks))


@pytest.mark.parametrize("rows", [[0, 2, 0], [-1, 0, 0]])
def test_a_row_outside_its_table_is_named(rows: list[int]) -> None:
    shared = with_shared_tasks(episode(rows, json.dumps(["a", "b"])), ("a", "b"))
    with pytest.raises(InputError, match=r"a\.hdf5 · demo_0 · task_index.*expected 0\.\.1"):
        whole(shared.columns["task_index"])
