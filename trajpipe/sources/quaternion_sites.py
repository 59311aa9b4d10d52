"""Quaternions in recorded columns: where they are declared, converting them once, and asking about the rest.

A norm of one is evidence enough to ask and never enough to convert: it does not tell the order.
What is not here: the arithmetic, see `trajpipe.core.quaternions`; the sites of one environment.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core import names
from trajpipe.core.conventions import QuaternionSite, quaternion_candidates
from trajpipe.core.episode import Column, mapped
from trajpipe.core.errors import InputError, UnreadableError
from trajpipe.core.findings import Finding, Place, Severity
from trajpipe.core.quaternions import QuaternionOrder, to_xyzw_at

_UNIT: Final = 1e-3
_DECLARED_UNIT: Final = 5e-2
_ZERO: Final = 1e-6
_WIDEST: Final = 512
_ROWS_SAMPLED: Final = 48


@dataclass(slots=True)
class QuaternionReading:
    """The declared sites of a recording, and how many quaternions were converted.

    Attributes:
        sites: Declared and built-in sites; the first that matches a path is its site.
        order: The recording's own order, for sites that declare none.
        recording: Base name of the recording, for places.
        converted: Path → how many quaternions were converted so far.
    """

    sites: tuple[QuaternionSite, ...]
    order: QuaternionOrder
    recording: str
    converted: Counter[tuple[str, tuple[int, ...]]] = field(default_factory=Counter)

    def site_of(self, path: str) -> QuaternionSite | None:
        """The site of a dataset path, the first that matches."""
        return next((s for s in self.sites if s.matches(path)), None)

    def order_of(self, site: QuaternionSite) -> QuaternionOrder:
        """The order at a site as recorded."""
        return site.order or self.order

    def as_xyzw(self, path: str, column: Column) -> Column:
        """The column with the quaternions of its site scalar-last; itself when there is nothing to convert.

        Raises:
            InputError: a declared span does not fit the column (`quaternion-outside`).
        """
        site = self.site_of(path)
        if site is None or not site.starts or self.order_of(site) == "xyzw":
            return column
        _refuse_outside(site, path, column, self.recording)
        spans = int(np.prod(column.shape[:-1], dtype=np.int64)) * len(site.starts)
        self.converted[(path, site.starts)] += spans
        return _converted(column, site.starts, self.order_of(site))

    def findings(self) -> list[Finding]:
        """One finding per path: how many quaternions were brought to xyzw."""
        message = "scalar-first (wxyz) quaternions were converted to xyzw"
        return [
            Finding(
                "legacy-quaternions",
                Severity.INFO,
                f"{message} at starts {list(starts)}",
                Place(self.recording, column=path),
                got=f"{count} wxyz",
                expected="xyzw",
            )
            for (path, starts), count in self.converted.items()
        ]


def _converted(column: Column, starts: tuple[int, ...], order: QuaternionOrder) -> Column:
    def convert(rows: NDArray[Any]) -> NDArray[Any]:
        return to_xyzw_at(rows, starts, order)

    return mapped(column, convert)


def _refuse_outside(site: QuaternionSite, path: str, column: Column, recording: str) -> None:
    width = column.shape[-1] if len(column.shape) > 1 else 0
    ordered = sorted(site.starts)
    overlap = any(b - a < 4 for a, b in pairwise(ordered))
    if overlap or ordered[0] < 0 or ordered[-1] + 4 > width:
        raise InputError(
            "declared quaternions must fit the column and not overlap",
            place=Place(recording, column=path),
            got=f"starts {list(site.starts)} in a column {width} wide",
            hint="Correct `starts` in the conventions of the raw entry (--quaternions PATH:STARTS).",
            code="quaternion-outside",
        )


@dataclass(slots=True)
class _Evidence:
    """Sampled rows of one path over several demos, flattened to (N, D)."""

    trailing: tuple[int, ...]
    rows: list[NDArray[Any]] = field(default_factory=list)


def sampled(demos: Iterable[Mapping[str, Column]]) -> dict[str, _Evidence]:
    """Rows of every small floating column of some demos, for `refuse_undeclared`.

    Args:
        demos: Per demo: dataset path → column (or extra) as recorded.
    """
    evidence = dict[str, _Evidence]()
    for columns in demos:
        for path, column in columns.items():
            trailing = column.shape[1:]
            width = int(np.prod(trailing, dtype=np.int64)) if trailing else 1
            if column.dtype.kind != "f" or width < 4 or width > _WIDEST or not column.shape[0]:
                continue
            kept = evidence.setdefault(path, _Evidence(trailing))
            if kept.trailing == trailing:
                kept.rows.append(_some_rows(column).reshape(-1, trailing[-1]))
    return {path: kept for path, kept in evidence.items() if kept.rows}


def _some_rows(column: Column) -> NDArray[np.float64]:
    """First, middle and last rows; none of a demo whose bytes are broken, which its reading will tell."""
    length, part = column.shape[0], _ROWS_SAMPLED // 3
    middle = length // 2
    spans = ((0, part), (middle, middle + part), (length - part, length))
    try:
        parts = [column.read(a, b) for a, b in (spans if length > _ROWS_SAMPLED else ((0, length),))]
    except UnreadableError:
        parts = [np.zeros((0, *column.shape[1:]))]
    return np.concatenate(parts).astype(np.float64)


def refuse_undeclared(evidence: Mapping[str, _Evidence], reading: QuaternionReading) -> None:
    """Ask for a declaration of everything that may hold quaternions and has none.

    Raises:
        InputError: undeclared candidates (`quaternion-undeclared`); its hint is the YAML to add.
    """
    lines = list[str]()
    for path, kept in evidence.items():
        if reading.site_of(path) is not None:
            continue
        starts = candidate_starts(path, kept.trailing, np.concatenate(kept.rows))
        if starts:
            lines.append(f"        - {{path: {_yaml(path)}, starts: [{', '.join(map(str, starts))}]}}")
    if lines:
        paths = [line.split("path: ", 1)[1].split(", starts", 1)[0] for line in lines]
        raise InputError(
            "a legacy recording (wxyz) holds what may be quaternions and is not declared",
            place=Place(reading.recording),
            got=", ".join(paths),
            expected="a declared site for each",
            hint="Add to the raw entry of data/datasets.yaml, with `starts: []` for what is none:\n"
            "    conventions:\n      quaternions:\n"
            + "\n".join(lines)
            + "\nor `quaternion_order: xyzw` when every quaternion of it is scalar-last already. "
            "With convert: --quaternions PATH:STARTS, or --quaternion-order xyzw.",
            code="quaternion-undeclared",
        )


def candidate_starts(path: str, trailing: tuple[int, ...], rows: NDArray[Any]) -> list[int]:
    """Offsets at which 4 values may be a quaternion: by name, or a norm of one in every sampled row.

    Args:
        path: Dataset path below the demo.
        trailing: Its shape without the row axis; 4x4 pose matrices are never candidates.
        rows: (N, D) sampled rows, D the last axis.
    """
    if _are_poses(trailing, rows):
        return []
    width, starts, start = rows.shape[-1], list[int](), 0
    while start + 4 <= width:
        if _looks_unit(rows[:, start : start + 4]):
            starts.append(start)
            start += 4
        else:
            start += 1
    if starts or not quaternion_candidates(path, trailing):
        return starts
    # A 7-wide "pose" without a unit span anywhere is a joint pose: not asked about.
    return list(range(0, width, 4)) if width % 4 == 0 else []


def _are_poses(trailing: tuple[int, ...], rows: NDArray[Any]) -> bool:
    """True for 4x4 pose matrices: their last row is 0 0 0 1, a unit norm that means nothing."""
    return trailing[-2:] == (4, 4) and bool(np.all(rows[3::4] == (0, 0, 0, 1)))


def _looks_unit(spans: NDArray[Any]) -> bool:
    """Unit norm in every row that is not all zero, and no one-hot other than the wxyz identity."""
    norms = np.linalg.norm(spans, axis=-1)
    filled = norms > _ZERO
    if not filled.any() or not np.all(np.abs(norms[filled] - 1.0) < _UNIT):
        return False
    used = (np.abs(spans) > _ZERO).any(axis=0)
    return int(used.sum()) >= 2 or bool(used[0])


def check_declared(evidence: Mapping[str, _Evidence], reading: QuaternionReading) -> list[Finding]:
    """Refuse a declared site whose values are no unit quaternions: a wrong offset would scramble the data.

    Args:
        evidence: What `sampled` gave.
        reading: The declared sites; only those that are converted are looked at.

    Returns:
        A warning for declared action quaternions that are not unit (policies may leave them unnormalised).

    Raises:
        InputError: a declared site is not made of unit quaternions (`quaternion-not-unit`).
    """
    found = list[Finding]()
    for path, kept in evidence.items():
        site = reading.site_of(path)
        if site is None or reading.order_of(site) == "xyzw":
            continue
        rows = np.concatenate(kept.rows)
        for start in site.starts:
            norms = np.linalg.norm(rows[:, start : start + 4], axis=-1)
            off = np.abs(norms[norms > _ZERO] - 1.0)
            if not off.size or off.max() <= _DECLARED_UNIT:
                continue
            place, got = Place(reading.recording, column=path), f"norms up to {off.max():.3g} away from 1"
            if path != names.DATASET_ACTIONS:
                raise InputError(
                    f"what is declared a quaternion at {start} is none",
                    place=place,
                    got=got,
                    expected="norm 1",
                    hint="Correct `starts` in the conventions of the raw entry (--quaternions PATH:STARTS).",
                    code="quaternion-not-unit",
                )
            message = f"declared action quaternions at {start} are not unit"
            found.append(Finding("quaternion-not-unit", Severity.WARN, message, place, got, "norm 1"))
    return found


def _yaml(path: str) -> str:
    return path if re.fullmatch(r"[A-Za-z0-9_/.\-]+", path) else '"' + path.replace('"', '\\"') + '"'
