"""Where each episode's rows of a LeRobot folder are, told by their own `episode_index`, and their tasks.

The metadata's file numbers are wrong after a rollover in every set that lerobot 0.4's converter made, so they
are not used. What is not here: the values of features, see `lerobot_features`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core.errors import InputError, TrajpipeError
from trajpipe.core.findings import Finding, Place, Severity
from trajpipe.core.ledger import Rejection
from trajpipe.core.names import Reason
from trajpipe.sources.lerobot_folder import EpisodeMeta, LeRobotMeta
from trajpipe.sources.lerobot_parquet import RowReader

EPISODE: Final = "episode_index"
INDEX: Final = "index"
TASK: Final = "task_index"


@dataclass(frozen=True, slots=True)
class Span:
    """Rows of one episode.

    Attributes:
        path: The parquet file.
        start: First row in the file.
        stop: One past the last.
        first_index: `index` of the first row; None when the file has no such column.
        tasks: Task indices of the rows in order of first appearance; empty without the column.
    """

    path: Path
    start: int
    stop: int
    first_index: int | None
    tasks: tuple[int, ...]


@dataclass(slots=True)
class RowIndex:
    """The rows of all episodes.

    Attributes:
        spans: Episode index → its rows.
        broken: Episode index → (reason, why) for those whose rows cannot be used.
        findings: Rows that belong to no episode, files that nobody mentions.
        columns: Columns that every file has, in the first one's order.
    """

    spans: dict[int, Span] = field(default_factory=dict)
    broken: dict[int, tuple[str, str]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)

    def rejection(self, recording: str, episode: EpisodeMeta) -> Rejection | None:
        """Why an episode's rows cannot be used; None when they can."""
        found = self.broken.get(episode.index)
        if found is None and episode.index not in self.spans:
            found = (Reason.UNREADABLE.value, "no row has its episode_index")
        return None if found is None else Rejection(recording, episode.name, *found)


def index_rows(meta: LeRobotMeta) -> RowIndex:
    """Look through the index columns of all data files, a row group at a time.

    Raises:
        UnreadableError: a v3 file is not finalised or damaged (a v2 file breaks its own episode alone).
        InputError: a v3 file has no `episode_index`, or there is no data file.
    """
    out = RowIndex()
    if meta.layout == "v2":
        _index_v2(meta, out)
    else:
        _index_v3(meta, out)
    for episode in meta.episodes:
        span = out.spans.get(episode.index)
        why = None if span is None else _disagreement(episode, span)
        if why is not None and episode.index not in out.broken:
            out.broken[episode.index] = why
    return out


def _index_v2(meta: LeRobotMeta, out: RowIndex) -> None:
    known: set[Path] = set()
    for episode in meta.episodes:
        path = meta.data_file(episode)
        known.add(path)
        try:
            runs = _runs(meta, path, out, fallback=episode.index)
        except TrajpipeError as error:
            out.broken[episode.index] = (Reason.UNREADABLE.value, str(error))
            continue
        foreign = sorted(index for index, _ in runs if index != episode.index)
        if foreign or len(runs) != 1:
            said = ", ".join(str(i) for i in foreign[:3]) or f"{len(runs)} runs"
            why = f"{meta.relative(path)}: every row has the file's episode_index; got {said}"
            out.broken[episode.index] = (Reason.BAD_EPISODE.value, why)
        else:
            out.spans[episode.index] = runs[0][1]
    orphans = sorted(set((meta.root / "data").rglob("*.parquet")) - known)
    if orphans:
        message = "data files of no episode are not read"
        got = f"{len(orphans)}, the first {meta.relative(orphans[0])}"
        out.findings.append(Finding("orphan-file", Severity.WARN, message, Place("data"), got))


def _index_v3(meta: LeRobotMeta, out: RowIndex) -> None:
    files, known = sorted((meta.root / "data").rglob("*.parquet")), {e.index for e in meta.episodes}
    if not files:
        raise InputError(
            "the folder has no rows", place=meta.root.name, got="no data/**/*.parquet", code="missing-file"
        )
    for path in files:
        for index, span in _runs(meta, path, out, fallback=None):
            if index not in known:
                message, got = (
                    "rows of an episode that the metadata do not list are not read",
                    f"episode {index}",
                )
                place = Place(meta.relative(path), row=span.start)
                out.findings.append(Finding("orphan-rows", Severity.WARN, message, place, got))
            elif index in out.spans:
                where = f"{meta.relative(span.path)} row {span.start}"
                first = f"{meta.relative(out.spans[index].path)} row {out.spans[index].start}"
                out.broken[index] = (Reason.BAD_EPISODE.value, f"its rows are apart: {first} and {where}")
            else:
                out.spans[index] = span


def _runs(meta: LeRobotMeta, path: Path, out: RowIndex, fallback: int | None) -> list[tuple[int, Span]]:
    """(episode index, rows) of each run of a file; a v2 file without the column is one run."""
    reader = RowReader(path, meta.relative(path))
    try:
        _note_columns(reader, out)
        if EPISODE not in reader.columns and fallback is None:
            raise InputError("rows need episode_index", place=reader.name, got=", ".join(reader.columns))
        arrays = {c: _integers(reader, c) for c in (EPISODE, INDEX, TASK) if c in reader.columns}
        total = reader.num_rows
    finally:
        reader.close()
    episodes = arrays.get(EPISODE, np.full(total, fallback if fallback is not None else 0, np.int64))
    cuts = [0, *(np.flatnonzero(episodes[1:] != episodes[:-1]) + 1).tolist(), total] if total else []
    runs = []
    for start, stop in pairwise(cuts):
        tasks = arrays[TASK][start:stop] if TASK in arrays else np.empty(0, np.int64)
        index = int(arrays[INDEX][start]) if INDEX in arrays else None
        runs.append((int(episodes[start]), Span(path, start, stop, index, _in_order(tasks))))
    return runs


def _note_columns(reader: RowReader, out: RowIndex) -> None:
    """Keep the columns that all files have; one that a file lacks is reported."""
    if not out.columns:
        out.columns = list(reader.columns)
        return
    lost = [c for c in out.columns if c not in reader.columns]
    if lost:
        message = "a column that some data files lack is left out"
        out.findings.append(
            Finding("column-missing", Severity.WARN, message, Place(reader.name), ", ".join(lost))
        )
        out.columns = [c for c in out.columns if c not in lost]


def _integers(reader: RowReader, column: str) -> NDArray[np.int64]:
    parts = [_whole(table[column], reader.name, column) for table in reader.groups([column])]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _whole(values: Any, name: str, column: str) -> NDArray[np.int64]:
    if values.null_count or values.type.bit_width > 64 or str(values.type)[:3] not in ("int", "uin"):
        raise InputError("an index column holds integers", place=Place(name, column=column), got=values.type)
    return np.asarray(values.to_numpy(), np.int64)


def _in_order(tasks: NDArray[np.int64]) -> tuple[int, ...]:
    values, first = np.unique(tasks, return_index=True)
    return tuple(int(v) for v in values[np.argsort(first, kind="stable")])


def _disagreement(episode: EpisodeMeta, span: Span) -> tuple[str, str] | None:
    rows = span.stop - span.start
    if rows != episode.length:
        return Reason.RAGGED.value, f"{rows} rows, the metadata say {episode.length}"
    begin, end = episode.keys.get("dataset_from_index"), episode.keys.get("dataset_to_index")
    if isinstance(begin, int) and isinstance(end, int) and end - begin != rows:
        return Reason.RAGGED.value, f"{rows} rows, dataset_from_index..dataset_to_index are {end - begin}"
    if isinstance(begin, int) and span.first_index is not None and span.first_index != begin:
        why = f"its rows begin at index {span.first_index}, dataset_from_index says {begin}"
        return Reason.BAD_EPISODE.value, why
    return None
