"""The rule that a store equals the L2 files it was made from, row for row, both read by h5py alone.

"Equal" is after the declared cast: float64 to float32 is one round-to-nearest, every other cast must be
lossless, cameras go from HWC to CHW. What is not here: what a store is by itself (`store`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import h5py
import numpy as np
from numpy.typing import NDArray

from trajpipe.checks.registry import Subject, check
from trajpipe.checks.store_reading import BLOCK_BYTES, StoreFacts, facts_of, opened
from trajpipe.core.findings import Finding, Findings, Place, Severity
from trajpipe.hdf5.attributes import plain

CODE: Final = "store-equals-l2"
_PLAIN: Final = {"action": "actions", "reward": "rewards", "done": "dones", "truncated": "truncated"}
_DIGITS: Final = re.compile(r"(\d+)")


@dataclass(slots=True)
class _Comparison:
    """State of one run.

    Attributes:
        facts: The store's.
        store: The store, open.
        paths: Column → L2 paths.
        row: Rows compared so far.
        episode: Episodes compared so far.
        values: Values compared.
        differing: Values that differ.
        findings: Collected.
        cap: Declared most demos per task.
        cap_attribute: Demo attribute that tells the task.
        of_task: Demos met of each task.
    """

    facts: StoreFacts
    store: h5py.File
    paths: dict[str, list[str]]
    row: int = 0
    episode: int = 0
    values: int = 0
    differing: int = 0
    findings: Findings = field(default_factory=Findings)
    cap: int | None = None
    cap_attribute: str = "task"
    of_task: Counter[str] = field(default_factory=Counter)

    def say(self, message: str, place: Place, got: object, expected: object) -> None:
        """Note an ERROR."""
        found = Finding(CODE, Severity.ERROR, message, place, str(got)[:120], str(expected)[:120])
        self.findings.add(found)


@check(
    CODE,
    stage="store",
    title="Every row equals its L2 row after the declared cast",
    needs=("l2",),
)
def equals_l2(subject: Subject) -> Iterator[Finding]:
    """Compare all episodes of all L2 files, in order, with the store's rows.

    Context: `l2`: L2 files in the order of the store; `columns` (optional): column → L2 path, or the paths
    of its cameras in order; columns it leaves out are derived ones and are not compared. Without it the
    generic store's naming holds.
    """
    facts = facts_of(subject)
    with opened(subject.path) as store:
        cap = subject.context.get("demos_per_task")
        run = _Comparison(facts, store, _paths(facts, subject.context.get("columns")), cap=cap)
        run.cap_attribute = str(subject.context.get("cap_attribute", run.cap_attribute))
        for path in subject.context["l2"]:
            with opened(Path(path)) as demos:
                _file(run, demos, Path(path).name)
    place = Place(file=subject.path.name)
    if run.row != facts.n_rows or run.episode != facts.n_episodes:
        got = f"{facts.n_episodes} episodes, {facts.n_rows} rows"
        run.say("the store has L2's episodes, no more", place, got, f"{run.episode} episodes, {run.row} rows")
    unmatched = [n for n, _, _ in facts.columns if n not in run.paths and n not in ("task_index", "success")]
    if unmatched:
        message = "columns that no L2 path was declared for were not compared"
        run.findings.add(Finding(CODE, Severity.INFO, message, place, got=", ".join(unmatched)))
    subject.measures["differing_values"] = float(run.differing)
    subject.count(run.values, run.values or facts.n_rows, "values")
    yield from run.findings.kept
    for code, severity, column, count in run.findings.repeats():
        message = f"{count} more findings like the ones above"
        yield Finding(code, severity, message, Place(file=subject.path.name, column=column))


def _paths(facts: StoreFacts, declared: Mapping[str, str | Sequence[str]] | None) -> dict[str, list[str]]:
    """L2 paths of each column: as declared, else by the generic store's naming."""
    if declared is not None:
        return {n: [p] if isinstance(p, str) else [str(x) for x in p] for n, p in declared.items() if p}
    out: dict[str, list[str]] = {}
    for name, _, _ in facts.columns:
        if name in _PLAIN:
            out[name] = [_PLAIN[name]]
        elif name not in ("task_index", "success", "images"):
            out[name] = [f"obs/{name}"]
    return out


def _file(run: _Comparison, demos: h5py.File, file: str) -> None:
    data = demos["data"]
    for name in sorted(data, key=lambda n: [int(p) if p.isdigit() else p for p in _DIGITS.split(n)]):
        demo = data[name]
        length = int(demo["actions"].shape[0])
        if run.cap is not None and _over_cap(run, demo):
            continue
        if run.row + length > run.facts.n_rows:
            run.row, run.episode = run.row + length, run.episode + 1
            continue
        _boundary(run, length, Place(file=file, demo=name))
        for column, paths in run.paths.items():
            _column(run, demo, column, paths, Place(file=file, demo=name, column=column))
        _facts(run, demo, length, Place(file=file, demo=name))
        run.row, run.episode = run.row + length, run.episode + 1


def _over_cap(run: _Comparison, demo: h5py.Group) -> bool:
    """Count a demo of its task; True when the store's declared cap leaves it out."""
    task = str(plain(demo.attrs.get(run.cap_attribute, "")))
    run.of_task[task] += 1
    return run.cap is not None and run.of_task[task] > run.cap


def _boundary(run: _Comparison, length: int, place: Place) -> None:
    lengths = run.facts.ep_len
    said = None if lengths is None or run.episode >= len(lengths) else int(lengths[run.episode])
    if said != length:
        run.say("an episode has the rows of its demo", place, said, length)


def _column(run: _Comparison, demo: h5py.Group, column: str, paths: list[str], place: Place) -> None:
    missing = [p for p in paths if p not in demo or not isinstance(demo[p], h5py.Dataset)]
    if missing:
        run.say("the L2 demo has the column's datasets", place, "missing", ", ".join(missing))
        return
    if column not in run.store:
        run.say("the store has the column's dataset", place, "missing", column)
        return
    target, sources = run.store[column], [demo[p] for p in paths]
    trailing = next((t for n, _, t in run.facts.columns if n == column), tuple(target.shape[1:]))
    images = target.dtype == np.uint8 and all(s.ndim == 4 for s in sources) and len(trailing) >= 3
    length = int(demo["actions"].shape[0])
    width = max(1, int(np.prod(trailing, dtype=np.int64)) * 8)
    step = max(1, BLOCK_BYTES // width)
    for start in range(0, length, step):
        stop = min(length, start + step)
        blocks = [np.asarray(s[start:stop]) for s in sources]
        rows = np.asarray(target[run.row + start : run.row + stop])
        expected = _chw(blocks, trailing) if images else blocks[0]
        _rows(run, rows, expected, Place(place.file, place.demo, column, start))


def _chw(cameras: list[NDArray[Any]], trailing: tuple[int, ...]) -> NDArray[Any]:
    """What the store must hold of (n, H, W, C) frames: each camera's planes, stacked when it stacks them."""
    planes = [np.moveaxis(frames, 3, 1) for frames in cameras]
    return np.stack(planes, axis=1) if len(trailing) == 4 else planes[0]


def _rows(run: _Comparison, rows: NDArray[Any], source: NDArray[Any], place: Place) -> None:
    kind = rows.dtype.newbyteorder("=")
    if rows.size != source.size or len(rows) != len(source):
        run.say("a row has the width of its L2 row", place, rows.shape, source.shape)
        return
    with np.errstate(over="ignore", invalid="ignore"):
        expected = np.ascontiguousarray(source.reshape(rows.shape).astype(kind))
    if not _cast_is_declared(source, expected):
        run.say("a cast is float64 to float32, or loses nothing", place, kind, source.dtype)
        return
    got = np.ascontiguousarray(rows.astype(kind, copy=False))
    width = f"u{kind.itemsize}"
    differs = got.view(width) != expected.view(width)
    run.values += rows.size
    count = int(np.count_nonzero(differs))
    if count:
        run.differing += count
        first = int(np.flatnonzero(differs.reshape(len(rows), -1).any(axis=1))[0])
        at = np.flatnonzero(differs[first].reshape(-1))[0]
        row = (place.row or 0) + first
        where = Place(place.file, place.demo, place.column, row)
        values = got[first].reshape(-1)[at], expected[first].reshape(-1)[at]
        run.say(f"a row equals its L2 row ({count} values differ in this block)", where, *values)


def _cast_is_declared(source: NDArray[Any], cast: NDArray[Any]) -> bool:
    """True for float64 → float32, and for casts that lose nothing of these values."""
    if np.can_cast(source.dtype, cast.dtype, "safe") or source.dtype == np.bool_:
        return True
    if source.dtype.kind == "f" and cast.dtype == np.float32:
        return True
    back = cast.astype(source.dtype)
    return bool(np.array_equal(back, source.reshape(back.shape)))


def _facts(run: _Comparison, demo: h5py.Group, length: int, place: Place) -> None:
    """Task, success and provenance of an episode against the demo's attributes."""
    attributes = {name: plain(demo.attrs[name]) for name in demo.attrs}
    side, at = run.facts.side, run.episode
    for table, name in (("ep_file", "source_file"), ("ep_demo", "source_demo")):
        if table in side and at < len(side[table]) and isinstance(attributes.get(name), str):
            got = bytes(side[table][at]).decode("utf-8", "surrogateescape")
            _same(run, got, attributes[name], Place(place.file, place.demo, table))
    if "ep_content" in side and isinstance(attributes.get("content_sha256"), str):
        got = bytes(side["ep_content"][at]).hex()
        _same(run, got, attributes["content_sha256"], Place(place.file, place.demo, "ep_content"))
    if "ep_source" in side and "source_tags" in side and isinstance(attributes.get("source"), str):
        tag = side["source_tags"][int(side["ep_source"][at])]
        got = bytes(tag).decode("utf-8", "surrogateescape")
        _same(run, got, attributes["source"], Place(place.file, place.demo, "ep_source"))
    _success(run, attributes, Place(place.file, place.demo, "ep_success"))
    place = Place(place.file, place.demo, "task_index")
    _task(run, attributes, length, place, per_row="task_index" in demo)


def _success(run: _Comparison, attributes: Mapping[str, Any], place: Place) -> None:
    table, success = run.facts.side.get("ep_success"), attributes.get("success")
    if table is None or success is None:
        return
    known = bool(attributes.get("success_known", True))
    _same(run, int(table[run.episode]), int(bool(success)) if known else 2, place)


def _task(
    run: _Comparison, attributes: Mapping[str, Any], length: int, place: Place, *, per_row: bool
) -> None:
    """The task of an episode; tasks per row are compared by the rule of the layout that stores them."""
    index, manifest = run.facts.small.get("task_index"), run.facts.manifest
    task = attributes.get("task")
    if index is None or manifest is None or not isinstance(task, str):
        return
    numbers = set(index[run.row : run.row + length].ravel().tolist())
    if per_row and len(numbers) > 1:
        return
    texts = {manifest.tasks.get(int(n), b"").decode("utf-8", "surrogateescape") for n in numbers}
    _same(run, sorted(texts), [task], place)


def _same(run: _Comparison, got: object, expected: object, place: Place) -> None:
    run.values += 1
    if got != expected:
        run.differing += 1
        run.say("an episode's fact equals its demo's attribute", place, got, expected)
