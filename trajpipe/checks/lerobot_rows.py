"""Rules about the rows: schema, indices, timestamps, finite values, task indices; all found in one pass.

What is not here: statistics of the rows (`lerobot_stats`) and equality with L2 (`lerobot_l2`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from trajpipe.checks import lerobot_folder as files
from trajpipe.checks.lerobot_folder import EpisodeLine, LeRobotFolder, episode_tables, folder_of
from trajpipe.checks.lerobot_meta import STAGE, error
from trajpipe.checks.lerobot_moments import Moments
from trajpipe.checks.registry import Subject, check
from trajpipe.core.errors import UnreadableError
from trajpipe.core.findings import Finding, Findings, Place, Severity

# LeRobot's own tolerance between neighbouring timestamps, seconds.
TOLERANCE_S: Final = 1e-4
_ARROW: Final = {
    "bool": pa.bool_(),
    "float16": pa.float16(),
    "float32": pa.float32(),
    "float64": pa.float64(),
}
_IMAGE_FIELDS: Final = {"bytes", "path"}


@dataclass(slots=True)
class RowScan:
    """What one pass over all rows found.

    Attributes:
        findings: Code → findings.
        episodes: Indices of the episodes whose rows were read.
        rows: Rows read.
        tasks: Task indices that rows use.
        moments: Feature → statistics of all rows, recomputed.
        per_episode: Episode → feature → statistics, recomputed.
    """

    findings: dict[str, Findings] = field(default_factory=dict)
    episodes: set[int] = field(default_factory=set)
    rows: int = 0
    tasks: set[int] = field(default_factory=set)
    moments: dict[str, Moments] = field(default_factory=dict)
    per_episode: dict[int, dict[str, Moments]] = field(default_factory=dict)

    def add(self, finding: Finding) -> None:
        """Keep a finding under its code."""
        self.findings.setdefault(finding.code, Findings()).add(finding)

    def extend(self, found: Iterator[Finding]) -> None:
        """Keep many."""
        for finding in found:
            self.add(finding)


def scan_of(subject: Subject) -> RowScan:
    """The pass over the subject's rows, made once."""
    scan: RowScan = subject.fact("lerobot-rows", lambda: _scan(folder_of(subject)))
    return scan


def _scan(folder: LeRobotFolder) -> RowScan:
    scan = RowScan()
    by_index = {e.index: e for e in folder.episodes}
    first_rows = dict(zip([e.index for e in folder.episodes], _offsets(folder), strict=True))
    by_file = (
        {folder.relative(folder.data_file(e)): e for e in folder.episodes} if folder.layout == "v2" else {}
    )
    checked: set[Path] = set()
    try:
        for path, index, table in episode_tables(folder):
            name = folder.relative(path)
            if path not in checked:
                checked.add(path)
                scan.extend(schema_findings(folder, table.schema, name))
            episode = (
                by_file.get(name) if folder.layout == "v2" else by_index.get(-1 if index is None else index)
            )
            if episode is None:
                message = "rows of an episode that the metadata do not list"
                scan.add(error("lerobot-index", message, Place(name, f"episode {index}")))
                continue
            _scan_episode(scan, folder, episode, _Rows(table, name, first_rows[episode.index], path))
    except UnreadableError as problem:
        scan.add(error("lerobot-schema", "the rows cannot be read", Place(str(problem.place)), problem))
    for episode in folder.episodes:
        if episode.index not in scan.episodes:
            place = Place("data", f"episode {episode.index}")
            scan.add(error("lerobot-index", "the episode has no rows", place, 0, f"{episode.length} rows"))
    return scan


def _offsets(folder: LeRobotFolder) -> list[int]:
    lengths = [max(0, e.length) for e in folder.episodes]
    return [sum(lengths[:0]), *np.cumsum(lengths)[:-1].tolist()] if lengths else []


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of one episode with where they lie."""

    table: pa.Table
    name: str
    first_row: int
    path: Path

    def integers(self, column: str) -> NDArray[np.int64] | None:
        """A scalar integer column; None when absent or of another kind."""
        if column not in self.table.column_names:
            return None
        values = self.table[column]
        if not pa.types.is_integer(values.type) or values.null_count:
            return None
        out: NDArray[np.int64] = values.to_numpy().astype(np.int64)
        return out


def _scan_episode(scan: RowScan, folder: LeRobotFolder, episode: EpisodeLine, rows: _Rows) -> None:
    if episode.index in scan.episodes:
        place = Place(rows.name, f"episode {episode.index}")
        scan.add(error("lerobot-index", "the rows of an episode stand together, once", place))
    scan.episodes.add(episode.index)
    scan.rows += rows.table.num_rows
    scan.extend(_index_findings(folder, episode, rows))
    scan.extend(_timestamp_findings(folder, episode, rows))
    scan.extend(_task_findings(scan, folder, episode, rows))
    own: dict[str, Moments] = {}
    for name, spec in folder.features.items():
        if spec.get("dtype") in ("video", "image", "string") or name not in rows.table.column_names:
            continue
        values = matrix(rows.table[name])
        if values is None or [values.shape[1]] != spec.get("shape") or not len(values):
            continue
        scan.extend(_finite_findings(name, values, episode, rows.name))
        claimed = (folder.stats or {}).get(name, {})
        own[name] = Moments.of(values)
        scan.moments.setdefault(name, Moments.empty(values.shape[1], claimed)).merge(own[name], values)
    scan.per_episode[episode.index] = own


def matrix(column: pa.ChunkedArray) -> NDArray[Any] | None:
    """A numeric column as (T, n); None when it is ragged, null or not numeric."""
    array = column.combine_chunks()
    if array.null_count:
        return None
    width = 1
    if pa.types.is_fixed_size_list(array.type):
        width, array = array.type.list_size, array.flatten()
    elif pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        lengths = set(pc.list_value_length(array).unique().to_pylist())
        if len(lengths) != 1:
            return None
        width, array = lengths.pop(), array.flatten()
    numeric = (
        pa.types.is_floating(array.type) or pa.types.is_integer(array.type) or pa.types.is_boolean(array.type)
    )
    if not numeric or array.null_count or not width:
        return None
    out: NDArray[Any] = array.to_numpy(zero_copy_only=False).reshape(-1, width)
    return out


def schema_findings(folder: LeRobotFolder, schema: pa.Schema, name: str) -> Iterator[Finding]:
    """The columns of one file against info.json."""
    code = "lerobot-schema"
    wanted = {n: s for n, s in folder.features.items() if s.get("dtype") != "video"}
    for column in sorted(set(wanted) - set(schema.names)):
        yield error(
            code, "a declared feature is missing in the rows", Place(name, column=column), "no column"
        )
    for column in sorted(set(schema.names) - set(wanted)):
        yield error(code, "a column is not declared in info.json", Place(name, column=column), "undeclared")
    for column, spec in wanted.items():
        if column in schema.names:
            yield from _type_findings(folder, schema.field(column).type, spec, Place(name, column=column))


def _type_findings(
    folder: LeRobotFolder, kind: pa.DataType, spec: dict[str, Any], place: Place
) -> Iterator[Finding]:
    code, dtype, shape = "lerobot-schema", str(spec.get("dtype")), spec.get("shape")
    if dtype == "string":
        severity = Severity.ERROR if folder.layout == "v2" else Severity.WARN
        message = "a text column breaks readers that cast every column to numbers"
        yield error(code, message, place, kind, severity=severity)
        return
    if dtype == "image":
        fields = {kind.field(i).name for i in range(kind.num_fields)} if pa.types.is_struct(kind) else set()
        if fields != _IMAGE_FIELDS:
            yield error(code, "an image column holds bytes and path", place, kind, "struct<bytes, path>")
        return
    wanted = _ARROW.get(dtype) or pa.type_for_alias(dtype) if dtype != "None" else None
    element, width = _element(kind)
    if element != wanted:
        yield error(code, "the column's dtype is the declared one", place, element, dtype)
    if shape == [1] and width is not None:
        severity = Severity.WARN if folder.version == "v2.0" else Severity.ERROR
        yield error(code, "a feature of shape [1] is a plain column", place, kind, dtype, severity)
    if isinstance(shape, list) and len(shape) == 1 and shape[0] > 1 and width not in (shape[0], -1):
        yield error(code, "the column's width is the declared one", place, width or 1, shape[0])


def _element(kind: pa.DataType) -> tuple[pa.DataType, int | None]:
    """Element type, and the list width: None for scalars, -1 for lists of any length."""
    if pa.types.is_fixed_size_list(kind):
        return kind.value_type, kind.list_size
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return kind.value_type, -1
    return kind, None


def _index_findings(folder: LeRobotFolder, episode: EpisodeLine, rows: _Rows) -> Iterator[Finding]:
    code, number = "lerobot-index", rows.table.num_rows
    place = Place(rows.name, f"episode {episode.index}")
    if number != episode.length:
        yield error(code, "the episode's rows are as many as its length", place, number, episode.length)
    expected = {
        "episode_index": np.full(number, episode.index),
        "frame_index": np.arange(number),
        "index": np.arange(number) + rows.first_row,
    }
    for column, values in expected.items():
        found = rows.integers(column)
        if found is None:
            continue
        wrong = np.flatnonzero(found != values)
        if wrong.size:
            row = int(wrong[0])
            where = Place(rows.name, f"episode {episode.index}", column, row)
            yield error(code, f"{column} counts without gap or restart", where, found[row], values[row])
    if folder.layout == "v3":
        yield from _range_findings(folder, episode, rows, place)


def _range_findings(
    folder: LeRobotFolder, episode: EpisodeLine, rows: _Rows, place: Place
) -> Iterator[Finding]:
    span = (episode.keys.get("dataset_from_index"), episode.keys.get("dataset_to_index"))
    wanted = (rows.first_row, rows.first_row + episode.length)
    if span != wanted:
        message = "dataset_from_index and dataset_to_index are the episode's rows"
        yield error("lerobot-index", message, place, span, wanted)
    named = folder.relative(folder.data_file(episode))
    if named != rows.name:
        message = "data/file_index names another file (the official converter does so after a rollover)"
        yield error("lerobot-index", message, place, named, rows.name)


def _timestamp_findings(folder: LeRobotFolder, episode: EpisodeLine, rows: _Rows) -> Iterator[Finding]:
    code, fps = "lerobot-timestamps", folder.fps
    if "timestamp" not in rows.table.column_names or fps is None:
        return
    values = matrix(rows.table["timestamp"])
    if values is None or values.dtype.kind != "f" or not len(values):
        return
    times = values[:, 0]
    demo = f"episode {episode.index}"
    steps = np.flatnonzero(~(np.abs(np.diff(times) - float(1 / fps)) <= TOLERANCE_S))
    if steps.size:
        row = int(steps[0]) + 1
        ideal = np.arange(len(times)) * float(1 / fps)
        coarse = np.abs(np.diff(ideal.astype(times.dtype)) - float(1 / fps)).max() > TOLERANCE_S
        why = "; float32 is too coarse for an episode this long" if coarse else ""
        message = f"neighbouring timestamps are 1/fps apart within {TOLERANCE_S} s{why}"
        got = f"{times[row] - times[row - 1]:.6f} s"
        yield error(code, message, Place(rows.name, demo, "timestamp", row), got, f"{float(1 / fps):.6f} s")
    exact = np.arange(len(times)) * (fps.denominator / fps.numerator)
    late = np.flatnonzero(~(np.abs(times - exact) <= np.maximum(TOLERANCE_S, np.spacing(np.float32(exact)))))
    if late.size and not steps.size:
        row = int(late[0])
        severity = Severity.WARN if folder.version == "v2.0" else Severity.ERROR
        where = Place(rows.name, demo, "timestamp", row)
        message = "timestamp is frame_index / fps, from 0"
        yield error(code, message, where, f"{times[row]:.6f}", f"{exact[row]:.6f}", severity)


def _task_findings(
    scan: RowScan, folder: LeRobotFolder, episode: EpisodeLine, rows: _Rows
) -> Iterator[Finding]:
    found = rows.integers("task_index")
    if found is None or not len(found):
        return
    values, first = np.unique(found, return_index=True)
    order = [int(v) for v in values[np.argsort(first, kind="stable")]]
    scan.tasks |= set(order)
    texts = dict(folder.tasks)
    place = Place(rows.name, f"episode {episode.index}", "task_index")
    unknown = [i for i in order if i not in texts]
    if unknown:
        yield error("lerobot-task-rows", "a row's task_index is in the task table", place, unknown[0])
        return
    named = tuple(texts[i] for i in order)
    if set(named) != set(episode.tasks):
        severity = Severity.WARN if folder.version == "v2.0" else Severity.ERROR
        message = "the episode's tasks are those of its rows"
        yield error("lerobot-task-rows", message, place, named, episode.tasks, severity)


def _finite_findings(name: str, values: NDArray[Any], episode: EpisodeLine, file: str) -> Iterator[Finding]:
    if values.dtype.kind != "f":
        return
    bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if bad.size:
        row = int(bad[0])
        place = Place(file, f"episode {episode.index}", name, row)
        yield error("lerobot-finite", "values are finite", place, values[row].tolist())


def _part(subject: Subject, code: str) -> Iterator[Finding]:
    """The findings of one code from the pass; a capped repeat is given again so that it is counted."""
    folder, scan = folder_of(subject), scan_of(subject)
    subject.count(len(scan.episodes), len(folder.episodes), "episodes")
    found = scan.findings.get(code)
    if found is None:
        return
    yield from found
    for _, severity, column, more in found.repeats():
        like = next(f for f in found if f.severity is severity and f.place.column == column)
        yield from (like for _ in range(more))


@check("lerobot-schema", stage=STAGE, title="Columns have the declared names, dtypes and widths")
def schema(subject: Subject) -> Iterator[Finding]:
    """LeRobot 0.3.3 does not notice a feature that the parquet files lack."""
    yield from _part(subject, "lerobot-schema")


@check(
    "lerobot-index", stage=STAGE, title="index, frame_index and episode_index count without gap or restart"
)
def index(subject: Subject) -> Iterator[Finding]:
    """A restarting `index` is silent in the official loaders."""
    yield from _part(subject, "lerobot-index")


@check("lerobot-timestamps", stage=STAGE, title="timestamp is frame_index / fps, within float32's reach")
def timestamps(subject: Subject) -> Iterator[Finding]:
    """From 1024 s on (30, 50, 100, 200 fps) float32 steps break LeRobot's tolerance."""
    yield from _part(subject, "lerobot-timestamps")


@check("lerobot-finite", stage=STAGE, title="No NaN, no infinity in the rows")
def finite(subject: Subject) -> Iterator[Finding]:
    """Training turns NaN at the first batch that holds one."""
    yield from _part(subject, "lerobot-finite")


@check("lerobot-task-rows", stage=STAGE, title="Each row's task is in the table and in its episode's list")
def task_rows(subject: Subject) -> Iterator[Finding]:
    """Also tasks that no row uses."""
    yield from _part(subject, "lerobot-task-rows")
    folder, scan = folder_of(subject), scan_of(subject)
    for index_, value in folder.tasks:
        if scan.tasks and index_ not in scan.tasks:
            place = Place(files.TASKS if folder.layout == "v2" else files.TASKS_V3)
            message = "no row has this task"
            yield error("lerobot-task-rows", message, place, f"{index_}: {value!r}", severity=Severity.WARN)
