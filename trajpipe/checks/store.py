"""Rules of the stage `store`: manifest, index, columns, side tables, flags, values, all read by h5py alone.

What is not here: reading (`store_reading`), and the comparison with L2 (`store_l2`, registered from here).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.checks import store_l2
from trajpipe.checks.registry import Subject, check
from trajpipe.checks.store_reading import HEAD, KINDS, OWN, StoreFacts, facts_of
from trajpipe.core import names
from trajpipe.core.findings import Finding, Place, Severity

STAGE: Final = "store"
EQUALS_L2: Final = store_l2.CODE
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_FLAGS: Final = ("done", "truncated", "success")
_ERROR, _WARN, _INFO = Severity.ERROR, Severity.WARN, Severity.INFO


def _place(subject: Subject, column: str | None = None, row: int | None = None) -> Place:
    return Place(file=subject.path.name, column=column, row=row)


@check("store-manifest", stage=STAGE, title="The manifest keeps its grammar and agrees with the datasets")
def manifest(subject: Subject) -> Iterator[Finding]:
    """Grammar, counts, and a dataset of the declared dtype and shape for each column."""
    facts, code = facts_of(subject), "store-manifest"
    place, text = _place(subject, "__manifest__"), facts.manifest
    if text is None:
        yield Finding(code, _INFO, "a foreign store without a manifest; its columns are inferred", place)
        return
    for line in text.wrong:
        yield Finding(code, _ERROR, f"line {line.number}: {line.why}", place, got=line.text)
    yield from _head(facts, place)
    if sorted(text.tasks) != list(range(len(text.tasks))):
        yield Finding(
            code, _ERROR, "task indices run from 0 without a gap", place, got=str(sorted(text.tasks))
        )
    wanted = [*HEAD, *["column"] * len(text.columns), *["task"] * len(text.tasks)]
    if not text.wrong and text.order[: len(wanted)] != wanted:
        message = "the lines come as head, columns, tasks, further keys"
        yield Finding(code, _WARN, message, place, got=", ".join(dict.fromkeys(text.order)))
    for name, kind, trailing in text.columns:
        yield from _declared(facts, name, kind, trailing, _place(subject, name))
    subject.count(len(text.columns), len(text.columns), "columns")


def _head(facts: StoreFacts, place: Place) -> Iterator[Finding]:
    text, code = facts.manifest, "store-manifest"
    assert text is not None
    if text.number("schema_version") != 1:
        got = text.values.get("schema_version", b"nothing").decode("utf-8", "replace")
        yield Finding(code, _ERROR, "schema_version is 1", place, got=got, expected="1")
    for key, found in (("n_rows", facts.n_rows), ("n_episodes", facts.n_episodes)):
        said = text.number(key)
        if said != found:
            message = f"{key} is what the episode index says"
            yield Finding(code, _ERROR, message, place, got=str(said), expected=str(found))
    for key in ("env_id", "source_commit", "seed"):
        if key not in text.values:
            yield Finding(code, _WARN, f"the manifest says {key}", place, got="nothing")


def _declared(
    facts: StoreFacts, name: str, kind: str, trailing: tuple[int, ...], place: Place
) -> Iterator[Finding]:
    code = "store-manifest"
    if name not in facts.datasets:
        yield Finding(code, _ERROR, "a declared column has a dataset", place, got="none")
        return
    dtype, shape, _, _ = facts.datasets[name]
    if dtype.newbyteorder("=").name != kind:
        yield Finding(
            code, _ERROR, "the dataset has the declared dtype", place, got=str(dtype), expected=kind
        )
    rows, width = facts.n_rows, int(np.prod(trailing, dtype=np.int64))
    fits = {(rows, *trailing), (rows, width), *([(rows,), (rows, 1)] if width == 1 else [])}
    if shape not in fits:
        expected = str((rows, *trailing))
        yield Finding(
            code, _ERROR, "the dataset has the declared shape", place, got=str(shape), expected=expected
        )


@check(
    "store-episode-index",
    stage=STAGE,
    title="Episodes follow each other without a gap and cover all rows",
)
def episode_index(subject: Subject) -> Iterator[Finding]:
    """`ep_len` and `ep_offset` as int64, covering the rows of every column."""
    facts, code = facts_of(subject), "store-episode-index"
    lengths, offsets = facts.ep_len, facts.ep_offset
    if lengths is None or offsets is None or lengths.dtype.kind not in "iu" or offsets.dtype.kind not in "iu":
        yield Finding(code, _ERROR, "ep_len and ep_offset are rows of integers", _place(subject))
        return
    subject.count(len(lengths), len(lengths), "episodes")
    if lengths.dtype != np.int64 or offsets.dtype != np.int64:
        severity = _ERROR if facts.manifest is not None else _INFO
        got = f"{lengths.dtype}, {offsets.dtype}"
        yield Finding(code, severity, "the index is int64", _place(subject), got=got, expected="int64")
    if len(lengths) != len(offsets):
        got = f"{len(lengths)} and {len(offsets)}"
        yield Finding(code, _ERROR, "ep_len and ep_offset have one length", _place(subject), got=got)
        return
    total = 0
    for episode, (length, offset) in enumerate(zip(lengths.tolist(), offsets.tolist(), strict=True)):
        place = Place(file=subject.path.name, demo=f"episode {episode}")
        if length <= 0:
            yield Finding(code, _ERROR, "an episode has at least one row", place, got=str(length))
        if offset != total:
            message = "an episode begins where the one before ends"
            yield Finding(code, _ERROR, message, place, got=str(offset), expected=str(total))
            return
        total += length
    for name, _, _ in facts.columns:
        shape = facts.datasets[name][1] if name in facts.datasets else ()
        if shape and shape[0] != total:
            message = "the episodes cover all rows of a column"
            got = f"{shape[0]} rows"
            yield Finding(code, _ERROR, message, _place(subject, name), got=got, expected=f"{total} rows")


@check(
    "store-names",
    stage=STAGE,
    title="Column names are plain, and reserved ones mean what they say",
)
def column_names(subject: Subject) -> Iterator[Finding]:
    """Reserved dataset names, plain names, and one value a row for reward, done, truncated."""
    facts, code = facts_of(subject), "store-names"
    subject.count(len(facts.columns), len(facts.columns), "columns")
    for name, kind, trailing in facts.columns:
        place = _place(subject, name)
        if name in OWN:
            yield Finding(code, _ERROR, "the name is the format's own", place, got=name)
        elif not _NAME.fullmatch(name):
            message = "a column name is letters, digits, _ and ."
            yield Finding(code, _WARN, message, place, got=name)
        if name in ("reward", "done", "truncated") and int(np.prod(trailing, dtype=np.int64)) != 1:
            yield Finding(code, _ERROR, f"{name} is one value a row", place, got=str(trailing))
        if kind not in KINDS:
            yield Finding(code, _ERROR, "a column has one of the format's dtypes", place, got=kind)
    told_by = {"action", names.COLUMN_INIT_STATE, names.COLUMN_MOTION_ID}
    if not told_by & {name for name, _, _ in facts.columns}:
        message = "a store of demonstrations has an action column"
        yield Finding(code, _WARN, message, _place(subject), got=", ".join(n for n, _, _ in facts.columns))


@check("store-cross-read", stage=STAGE, title="h5py alone reads every byte, chunk edges included")
def cross_read(subject: Subject) -> Iterator[Finding]:
    """All rows read, across chunk boundaries too; chunked and growable as the format has it."""
    facts, code = facts_of(subject), "store-cross-read"
    read = 0
    for name, _, _ in facts.columns:
        place, scan = _place(subject, name), facts.scans.get(name)
        if scan is None:
            continue
        if scan.error is not None:
            message = f"row {scan.rows} and after cannot be read; make the store again"
            yield Finding(code, _ERROR, message, place, got=scan.error)
        if scan.torn is not None:
            message = "rows read across a chunk boundary are the same as read in blocks"
            yield Finding(code, _ERROR, message, _place(subject, name, scan.torn))
        if facts.manifest is not None:
            yield from _growable(facts, name, place)
        read += scan.rows
        subject.measures[f"mib_{name}"] = round(scan.bytes / 2**20, 3)
    subject.measures["boundaries"] = float(sum(s.boundaries for s in facts.scans.values()))
    subject.count(read, facts.n_rows * len(facts.columns), "rows of all columns")


def _growable(facts: StoreFacts, name: str, place: Place) -> Iterator[Finding]:
    _, shape, chunks, maxshape = facts.datasets[name]
    if chunks is None or not maxshape or maxshape[0] is not None:
        got = f"chunks {chunks}, maxshape {maxshape}"
        message = "a column is chunked with an unlimited row axis"
        yield Finding("store-cross-read", _WARN, message, place, got=got, expected="(None, …)")
    elif tuple(maxshape[1:]) != shape[1:] or any(c > n for c, n in zip(chunks[1:], shape[1:], strict=True)):
        got = f"chunks {chunks}, maxshape {maxshape}"
        yield Finding(
            "store-cross-read", _ERROR, "trailing axes are fixed", place, got=got, expected=str(shape)
        )


@check(
    "store-side-tables",
    stage=STAGE,
    title="Side tables have a row per episode and codes with a label",
)
def side_tables(subject: Subject) -> Iterator[Finding]:
    """`ep_*` tables, and the codes of `ep_source`, `ep_split`, `ep_success`."""
    facts, code = facts_of(subject), "store-side-tables"
    episodes = facts.n_episodes
    for name, table in facts.side.items():
        if name.startswith("ep_") and table.shape[:1] != (episodes,):
            message = "a table `ep_*` has one row per episode"
            got = str(table.shape)
            yield Finding(code, _ERROR, message, _place(subject, name), got=got, expected=f"({episodes}, …)")
    for codes, labels in (("ep_source", "source_tags"), ("ep_split", "split_names")):
        if codes in facts.side:
            known = facts.side.get(labels)
            yield from _codes(subject, codes, facts.side[codes], 0 if known is None else len(known))
    if "ep_success" in facts.side:
        yield from _codes(subject, "ep_success", facts.side["ep_success"], 3)
    if facts.side:
        subject.count(len(facts.side), len(facts.side), "side tables")


def _codes(subject: Subject, name: str, codes: NDArray[Any], labels: int) -> Iterator[Finding]:
    fits = codes.dtype.kind in "iu" and codes.ndim == 1
    wrong = np.flatnonzero((codes >= labels) | (codes < 0)) if fits else np.arange(len(codes))
    if len(wrong):
        place = Place(file=subject.path.name, demo=f"episode {int(wrong[0])}", column=name)
        expected = f"a code below {labels}"
        got = str(codes[wrong[0]])
        yield Finding("store-side-tables", _ERROR, "a code names a label", place, got=got, expected=expected)


@check("store-tasks", stage=STAGE, title="Every task_index names a task, the same in a whole episode")
def tasks(subject: Subject) -> Iterator[Finding]:
    """`task_index` lies in the task table; an episode has one task."""
    facts, code = facts_of(subject), "store-tasks"
    index = facts.small.get("task_index")
    if index is None:
        return
    subject.count(len(index), facts.n_rows, "rows")
    known = len(facts.manifest.tasks) if facts.manifest is not None else 0
    bad = np.flatnonzero((index < 0).any(axis=1) | (index >= known).any(axis=1))
    if len(bad):
        row, expected = int(bad[0]), f"an index below {known} ({len(bad)} rows are not)"
        place = _place(subject, "task_index", row)
        yield Finding(code, _ERROR, "task_index names a task of the table", place, str(index[row]), expected)
    changes = np.flatnonzero((index[1:] != index[:-1]).any(axis=1)) + 1
    starts = np.asarray(facts.ep_offset if facts.ep_offset is not None else [], np.int64)
    inside = np.setdiff1d(changes, starts)
    if len(inside):
        message = "an episode has one task"
        yield Finding(code, _WARN, message, _place(subject, "task_index", int(inside[0])))


@check("store-flags", stage=STAGE, title="done, truncated and success are 0 or 1, and agree with ep_success")
def flags(subject: Subject) -> Iterator[Finding]:
    """Values of the flag columns; `success` agrees with `ep_success` where that is known."""
    facts, code = facts_of(subject), "store-flags"
    found = {name: facts.small[name] for name in _FLAGS if name in facts.small}
    if found:
        subject.count(sum(map(len, found.values())), facts.n_rows * len(found), "rows of flag columns")
    for name, values in found.items():
        bad = np.flatnonzero(~np.isin(values, (0, 1)).all(axis=1))
        if len(bad):
            place, got = _place(subject, name, int(bad[0])), str(values[bad[0]])
            yield Finding(code, _ERROR, f"{name} is 0 or 1", place, got=got, expected="0 or 1")
    yield from _success(subject, facts)


def _success(subject: Subject, facts: StoreFacts) -> Iterator[Finding]:
    values, known = facts.small.get("success"), facts.side.get("ep_success")
    starts = facts.ep_offset
    if values is None or known is None or starts is None or len(known) != len(starts):
        return
    inside = starts[(starts >= 0) & (starts < len(values))]
    if len(inside) != len(known):
        return
    wrong = np.flatnonzero((values[inside, 0] != known) & (known != 2))
    if len(wrong):
        place = Place(file=subject.path.name, demo=f"episode {int(wrong[0])}", column="success")
        got, expected = str(values[inside[wrong[0]], 0]), str(known[wrong[0]])
        yield Finding("store-flags", _ERROR, "success agrees with ep_success", place, got, expected)


@check("store-finite", stage=STAGE, title="Values are finite: an error in action, a warning elsewhere")
def finite(subject: Subject) -> Iterable[Finding]:
    """Float columns hold finite values."""
    facts, found = facts_of(subject), list[Finding]()
    floats = [n for n, kind, _ in facts.columns if kind.startswith("float") and n in facts.scans]
    if floats:
        total = facts.n_rows * len(floats)
        subject.count(sum(facts.scans[n].rows for n in floats), total, "rows of float columns")
    for name in floats:
        scan = facts.scans[name]
        if scan.bad_rows:
            severity = _ERROR if name == "action" else _WARN
            got = f"{scan.bad_rows} of {scan.rows} rows are not"
            place = _place(subject, name, scan.first_bad)
            found.append(Finding("store-finite", severity, "values are finite", place, got, "finite"))
    return found
