"""LeRobot sets that the tests of the LeRobot rules share: a good one of each version, ways to break it.

What is not here: tests.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from trajpipe.checks import CheckResult, run_checks
from trajpipe.core.findings import Finding
from trajpipe_tests.export import scenes

LENGTHS = (41, 37, 1, 60)
TASKS = ("pick up the cube", "拿起立方体 ")
CAMERA = "observation.images.front"


def episodes() -> list[Any]:
    """Four episodes of two tasks, the last one for validation."""
    return [
        scenes.episode(i, n, task=TASKS[i % 2], split="valid" if i == 3 else "train")
        for i, n in enumerate(LENGTHS)
    ]


def build(root: Path, version: str) -> Path:
    """A good set."""
    scenes.export(root, episodes(), version=version, extras={"next.reward": "rewards"})
    return root


def copied(good: Path, into: Path) -> Path:
    """A copy to break."""
    shutil.copytree(good, into)
    return into


def result(root: Path, code: str, **context: Any) -> CheckResult:
    """What one rule says of a set."""
    report = run_checks("lerobot", root, select=[code], context=context)
    (only,) = report.results
    return only


def finding(root: Path, code: str, **context: Any) -> Finding:
    """The first finding of one rule, which must have one."""
    found = result(root, code, **context).findings.kept
    assert found, f"{code} found nothing"
    return found[0]


def edit_json(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a JSON object in place."""
    value = json.loads(path.read_text(encoding="utf-8"))
    change(value)
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8", newline="\n")


def edit_lines(path: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    """Change the objects of a jsonl file in place."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    change(rows)
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text(text, encoding="utf-8", newline="\n")


def edit_table(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Change a parquet file in place."""
    pq.write_table(change(pq.read_table(path)), path)


def with_column(
    name: str, values: Sequence[Any] | np.ndarray[Any, Any] | pa.Array
) -> Callable[[pa.Table], pa.Table]:
    """A change that replaces a column's values, its type kept unless the values are an arrow array."""

    def change(table: pa.Table) -> pa.Table:
        index = table.column_names.index(name)
        array = values if isinstance(values, pa.Array) else pa.array(values, table.schema.field(name).type)
        return table.set_column(index, name, array)

    return change


def rows_of(root: Path, index: int) -> Path:
    """The parquet file of an episode of a v2 set."""
    return root / f"data/chunk-000/episode_{index:06d}.parquet"


def video_of(root: Path, index: int) -> Path:
    """The video of an episode of a v2 set."""
    return root / f"videos/chunk-000/{CAMERA}/episode_{index:06d}.mp4"
