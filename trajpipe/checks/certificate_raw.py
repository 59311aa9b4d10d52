"""One recording, as its source reads it, against its L2 file, read by h5py alone: value for value.

Transforms that L2 declares have been applied to the recording already; what is compared is equal after one
cast, actions to float32. What is not here: the rule itself, see `trajpipe.checks.certificate`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import h5py
import numpy as np
from numpy.typing import NDArray

from trajpipe.checks.certificate_chain import Count, RawSide
from trajpipe.checks.store_reading import opened
from trajpipe.core import names
from trajpipe.core.episode import Column, Episode, is_image, rows_per_block
from trajpipe.core.errors import TrajpipeError
from trajpipe.core.findings import Finding, Place, Severity
from trajpipe.core.ledger import Rejection
from trajpipe.core.order import natural_sorted
from trajpipe.hdf5.attributes import attributes_of
from trajpipe.hdf5.files import datasets_below

_SAMPLES: Final = 3
Told = tuple[Finding | None, int]


def compare_recording(code: str, side: RawSide, count: Count) -> Iterator[Told]:
    """Findings (None for none), each with the rows compared.

    Args:
        code: Code of the findings.
        side: The recording and its L2 file.
        count: Episodes that the ledger does not reject are counted in it.
    """
    with opened(side.l2) as file:
        demos = _demos(file)
        left = dict(demos)
        for item in _read(code, side):
            if isinstance(item, Finding):
                yield item, 0
                continue
            if isinstance(item, Rejection):
                yield _in_ledger(code, side, item.episode, item.reason), 0
                continue
            if not {item.name, item.source_demo} & set(side.rejected):
                count.add(item.length, item.task, None)
            own = item.source_file in ("", side.name)
            recorded = (side.recorded_name or side.name) if own else item.source_file
            key = (recorded, item.source_demo or item.name)
            demo = demos.get(key)
            left.pop(key, None)
            if demo is None:
                yield _in_ledger(code, side, item.source_demo or item.name, "absent from L2", item.name), 0
                continue
            yield from _compare(code, side, item, demo)
        for key, demo in left.items():
            message = "an L2 demo comes from no episode of the recording"
            place = Place(side.l2.name, str(demo.name).rpartition("/")[2])
            yield Finding(code, Severity.ERROR, message, place, ":".join(key), side.name), 0


def _read(code: str, side: RawSide) -> Iterator[Episode | Rejection | Finding]:
    """The recording's episodes; an error of the source is a finding."""
    try:
        yield from side.episodes()
    except (TrajpipeError, OSError) as error:
        yield Finding(code, Severity.ERROR, f"the recording cannot be read: {error}", Place(side.name))


def _demos(file: h5py.File) -> dict[tuple[str, str], h5py.Group]:
    out: dict[tuple[str, str], h5py.Group] = {}
    for name in natural_sorted(file[names.GROUP_DATA]):
        demo = file[names.GROUP_DATA][name]
        attributes = attributes_of(demo)
        own = (attributes.get(names.ATTR_SOURCE_FILE), attributes.get(names.ATTR_SOURCE_DEMO, name))
        out[(str(own[0]), str(own[1]))] = demo
    return out


def _in_ledger(code: str, side: RawSide, episode: str, why: str, other: str = "") -> Finding | None:
    """None when the ledger rejects an episode; else the finding that it is lost."""
    if episode in side.rejected or other in side.rejected:
        return None
    message = "an episode is neither in L2 nor in its ledger"
    return Finding(code, Severity.ERROR, message, Place(side.name, episode), why, "written or rejected")


def _compare(code: str, side: RawSide, episode: Episode, demo: h5py.Group) -> Iterator[Told]:
    place = Place(side.name, episode.source_demo or episode.name)
    found, expected = datasets_below(demo), {**episode.columns, **episode.extras}
    for path in natural_sorted(set(found) ^ set(expected)):
        where = Place(place.file, place.demo, path)
        there = ("missing", "in the recording") if path in expected else ("in L2", "not in the recording")
        yield Finding(code, Severity.ERROR, "L2 has the recording's columns", where, *there), 0
    for path in natural_sorted(set(found) & set(expected)):
        where = Place(place.file, place.demo, path)
        try:
            yield _column(code, expected[path], found[path], where), 0
        except (TrajpipeError, OSError) as error:
            yield Finding(code, Severity.ERROR, f"the column cannot be read: {error}", where), 0
    yield from ((f, 0) for f in _facts(code, episode, attributes_of(demo), place))
    yield None, episode.length


def _column(code: str, column: Column, dataset: h5py.Dataset, place: Place) -> Finding | None:
    kind = dataset.dtype.newbyteorder("=")
    declared = (
        np.dtype(np.float32) if place.column == names.DATASET_ACTIONS else column.dtype.newbyteorder("=")
    )
    if tuple(dataset.shape) != tuple(column.shape) or kind != declared:
        got, wanted = f"{dataset.shape} {kind}", f"{column.shape} {declared}"
        return Finding(code, Severity.ERROR, "L2 keeps shape and dtype", place, got, wanted)
    for start, stop in _spans(column):
        rows = column.read(start, stop)
        with np.errstate(over="ignore"):
            wanted_rows = np.ascontiguousarray(rows.astype(kind))
        found = _difference(
            code, np.ascontiguousarray(dataset[start:stop].astype(kind)), wanted_rows, place, start
        )
        if found is not None:
            return found
    return None


def _spans(column: Column) -> Iterator[tuple[int, int]]:
    """All rows in blocks; of frames the first, the middle and the last."""
    length = column.shape[0]
    if is_image(column):
        for row in sorted({int(i) for i in np.linspace(0, max(0, length - 1), _SAMPLES)}) if length else ():
            yield row, row + 1
        return
    step = rows_per_block(column)
    for start in range(0, length, step):
        yield start, min(start + step, length)


def _difference(
    code: str, got: NDArray[Any], expected: NDArray[Any], place: Place, start: int
) -> Finding | None:
    """The first value whose bits differ."""
    width = f"V{got.dtype.itemsize}"
    differs = got.reshape(-1).view(width) != expected.reshape(-1).view(width)
    if not differs.any():
        return None
    at = int(np.flatnonzero(differs)[0])
    row = at // max(1, got[0].size)
    where = Place(place.file, place.demo, place.column, start + row)
    message = f"{int(differs.sum())} values of a block differ from the recording; the first"
    values = repr(got.reshape(-1)[at].item()), repr(expected.reshape(-1)[at].item())
    return Finding(code, Severity.ERROR, message, where, *values)


def _facts(code: str, episode: Episode, attributes: Mapping[str, Any], place: Place) -> Iterator[Finding]:
    """What the recording itself says of the episode; what it leaves open the catalogue may fill."""
    known = attributes.get(names.ATTR_SUCCESS_KNOWN)
    pairs = [
        (names.ATTR_TASK, attributes.get(names.ATTR_TASK), episode.task or None),
        (names.ATTR_SUCCESS_KNOWN, known, episode.success is not None),
        (names.ATTR_SUCCESS, attributes.get(names.ATTR_SUCCESS), episode.success),
    ]
    for name, got, expected in pairs:
        if expected is not None and got != expected:
            where = Place(place.file, place.demo, f"@{name}")
            message = "an attribute says what the recording says"
            yield Finding(code, Severity.ERROR, message, where, repr(got), repr(expected))
