"""What an inspection holds: ranges gathered block by block, lengths, plain JSON values."""

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from trajpipe.cli.inspection.model import (
    Attribute,
    Episodes,
    Inspection,
    Layout,
    Node,
    Ranges,
    constant_or_t,
    plain_json,
)


def test_ranges_over_blocks_are_those_over_all_rows() -> None:
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(1000, 7)).astype(np.float32)
    ranges = Ranges("actions")
    for start in range(0, 1000, 137):
        ranges.add(rows[start : start + 137])
    found = ranges.dimensions()
    assert [name for name, *_ in found] == [str(i) for i in range(7)]
    assert [low for _, low, _, _ in found] == rows.min(axis=0).astype(float).tolist()
    assert [high for *_, high in found] == rows.max(axis=0).astype(float).tolist()
    assert [mean for _, _, mean, _ in found] == pytest.approx(rows.astype(float).mean(axis=0).tolist())


def test_values_that_are_not_finite_are_counted_and_left_out() -> None:
    ranges = Ranges("actions", ["x", "y"])
    ranges.add(np.array([[1.0, np.nan], [np.inf, np.nan], [3.0, -np.inf]]))
    assert ranges.broken == 4
    assert ranges.dimensions() == [("x", 1.0, 2.0, 3.0)]
    assert ranges.to_json() == {
        "title": "actions",
        "not_finite": 4,
        "dimensions": [{"name": "x", "min": 1.0, "mean": 2.0, "max": 3.0}],
    }


def test_trailing_dimensions_are_flattened_and_bools_are_numbers() -> None:
    ranges = Ranges("done")
    ranges.add(np.array([[[True], [False]], [[True], [True]]]))
    assert ranges.dimensions() == [("0", 1.0, 1.0, 1.0), ("1", 0.0, 0.5, 1.0)]


def test_nothing_is_known_of_no_rows_and_blocks_of_another_width_are_passed_over() -> None:
    ranges = Ranges("actions")
    ranges.add(np.empty((0, 7)))
    assert not ranges.known
    assert ranges.dimensions() == []
    ranges.add(np.ones((2, 3)))
    ranges.add(np.full((2, 4), 9.0))
    assert [high for *_, high in ranges.dimensions()] == [1.0, 1.0, 1.0]


def test_all_nan_is_known_and_has_no_range() -> None:
    ranges = Ranges("actions")
    ranges.add(np.full((3, 2), math.nan))
    assert ranges.known
    assert (ranges.broken, ranges.dimensions()) == (6, [])


def test_episodes_as_json() -> None:
    episodes = Episodes(["a", "b", "c"], [10, 20, 60], success=Counter(yes=2, unknown=1))
    value = episodes.to_json()
    assert (value["count"], value["rows"]) == (3, 90)
    assert (value["length_min"], value["length_mean"], value["length_max"]) == (10, 30.0, 60)
    assert sum(value["length_histogram"]) == 3
    assert value["success"] == {"yes": 2, "unknown": 1}


def test_no_episodes_as_json() -> None:
    value = Episodes([], []).to_json()
    assert (value["count"], value["length_min"], value["length_mean"], value["length_max"]) == (0, 0, 0.0, 0)


@pytest.mark.parametrize(
    ("sizes", "rows", "leading"),
    [([5, 7], [5, 7], "T"), ([1, 1], [5, 7], 1), ([6, 8], [5, 7], None), ([5, 5], [5, 5], "T")],
)
def test_the_leading_dimension_of_many_episodes(
    sizes: list[int], rows: list[int], leading: int | str | None
) -> None:
    assert constant_or_t(sizes, rows) == leading


def test_plain_json_values() -> None:
    value = {"a": np.float32(0.5), "b": np.array([[1, 2]]), "c": (1, "x", None, True), 3: Path("p")}
    assert plain_json(value) == {"a": 0.5, "b": [[1, 2]], "c": [1, "x", None, True], "3": "p"}


def test_an_inspection_as_json_has_every_part() -> None:
    node = Node("obs/x", "float32", ("T", 3), (16, 3), "gzip-4", 120, "unlimited")
    found = Inspection(
        Path("a.hdf5"),
        "l2",
        "L2 demos",
        stage="demos",
        bytes=5,
        facts={"total": np.int64(3)},
        layouts=[Layout("all", [node], ["demo_0"])],
        episodes=Episodes(["demo_0"], [3]),
        ranges=[Ranges("never filled")],
        attributes=[Attribute("/data", "total", np.int64(3))],
        notes=["a note"],
    )
    value = found.to_json()
    assert value["path"] == "a.hdf5"
    assert value["stage"] == "demos"
    assert value["facts"] == {"total": 3}
    assert value["ranges"] == []
    assert value["attributes"] == [{"place": "/data", "name": "total", "value": 3}]
    assert value["layouts"] == [
        {
            "title": "all",
            "members": ["demo_0"],
            "nodes": [
                {
                    "path": "obs/x",
                    "dtype": "float32",
                    "shape": ["T", 3],
                    "chunks": [16, 3],
                    "compression": "gzip-4",
                    "stored_bytes": 120,
                    "note": "unlimited",
                }
            ],
        }
    ]
    assert Inspection(Path("a"), "csv", "CSV table").to_json()["stage"] is None
