"""Checks of raw recordings: every byte can be read, episodes are there, and what reading them found.

A source's reading is handed in as a fact, since checks do not import sources.
What is not here: rules of L2, which hold only after the conversion.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import h5py

from trajpipe.checks.registry import Subject, check
from trajpipe.core.errors import UnreadableError
from trajpipe.core.findings import Finding, Findings, Place, Severity
from trajpipe.core.ledger import Rejection
from trajpipe.core.signatures import looks_like_hdf5
from trajpipe.hdf5.columns import require_written
from trajpipe.hdf5.files import datasets_below, open_hdf5

READING: Final = "reading"
_BLOCK_BYTES: Final = 8 << 20


@dataclass(slots=True)
class RawReading:
    """What a source made of a recording.

    Attributes:
        kind: The source's kind.
        episodes: (name, rows) of each episode that can be used.
        rejected: Episodes that cannot.
        findings: Repairs and oddities.
        error: (code, text) when the recording breaks a rule as a whole; None otherwise.
    """

    kind: str
    episodes: list[tuple[str, int]] = field(default_factory=list)
    rejected: list[Rejection] = field(default_factory=list)
    findings: Findings = field(default_factory=Findings)
    error: tuple[str, str] | None = None


@check("raw-readable", stage="raw", title="Every stored byte can be read")
def raw_readable(subject: Subject) -> Iterator[Finding]:
    """Read every dataset block by block; a broken chunk names its dataset and row.

    What is no HDF5 file was read whole by its source; `raw-episodes` tells how that went.
    """
    reading: RawReading | None = subject.context.get(READING)
    other = subject.path.is_dir() or (reading is not None and bool(reading.kind))
    if not looks_like_hdf5(subject.path) and other:
        return
    with open_hdf5(subject.path) as file:
        datasets = datasets_below(file)
        good = 0
        for path, dataset in datasets.items():
            place = Place(file=subject.path.name, column=path)
            try:
                require_written(dataset)
            except UnreadableError as error:
                message = f"{error.rule}. {error.hint}"
                yield Finding(error.code, Severity.ERROR, message, place, str(error.got))
                continue
            row = _first_unreadable(dataset)
            if row is None:
                good += 1
                continue
            place = replace(place, row=row)
            yield Finding(
                "raw-readable", Severity.ERROR, "stored bytes cannot be read; copy the file again", place
            )
        subject.count(len(datasets), len(datasets), "datasets")
        subject.measures["unreadable_datasets"] = len(datasets) - good


def _first_unreadable(dataset: h5py.Dataset) -> int | None:
    """The first row of the first block that cannot be read; None when all can."""
    if not dataset.shape:
        dataset[()]
        return None
    row_bytes = max(1, dataset.size // max(1, dataset.shape[0])) * dataset.dtype.itemsize
    step = max(1, _BLOCK_BYTES // row_bytes)
    for start in range(0, dataset.shape[0], step):
        try:
            dataset[start : start + step]
        except OSError:
            return start
    return None


@check("raw-episodes", stage="raw", title="Episodes are there and can be used", needs=(READING,))
def raw_episodes(subject: Subject) -> Iterator[Finding]:
    """An ERROR when the whole recording cannot be used; a WARN for each episode that would be rejected."""
    reading: RawReading = subject.context[READING]
    place = Place(file=subject.path.name)
    if reading.error is not None:
        code, text = reading.error
        yield Finding(code, Severity.ERROR, text, place)
        return
    total = len(reading.episodes) + len(reading.rejected)
    if not reading.episodes:
        yield Finding("raw-episodes", Severity.ERROR, "no episode can be used", place, got=f"0 of {total}")
    for rejection in reading.rejected:
        where = Place(file=subject.path.name, demo=rejection.episode)
        yield Finding(rejection.reason, Severity.WARN, f"would be rejected: {rejection.detail}", where)
    if total:
        subject.count(total, total, "episodes")
    subject.measures["rows"] = sum(rows for _, rows in reading.episodes)


@check("raw-reading", stage="raw", title="What reading it found", blocking=False, needs=(READING,))
def raw_reading(subject: Subject) -> Iterator[Finding]:
    """Repairs and oddities that the source reports."""
    reading: RawReading = subject.context[READING]
    yield from reading.findings
