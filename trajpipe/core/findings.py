"""Findings: what a check saw, with severity, place, got and expected; repeats capped at 3 and counted.

What is not here: the registry and running of checks, see `trajpipe.checks`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from trajpipe.core.errors import on_one_line, told

MAX_REPEATS: Final = 3


class Severity(StrEnum):
    """How bad: ERROR fails, WARN is counted, INFO tells a repair or a fact."""

    ERROR = "error"
    WARN = "warn"
    INFO = "info"


_RANK = {Severity.INFO: 0, Severity.WARN: 1, Severity.ERROR: 2}


def at_least(severity: Severity, threshold: Severity) -> bool:
    """True when `severity` is `threshold` or worse."""
    return _RANK[severity] >= _RANK[threshold]


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the data: file, demo (episode), column and row; absent parts are None."""

    file: str | None = None
    demo: str | None = None
    column: str | None = None
    row: int | None = None

    def __str__(self) -> str:
        parts = [self.file, self.demo, self.column, None if self.row is None else f"row {self.row}"]
        return on_one_line(" · ".join(p for p in parts if p is not None) or "(whole)")

    def to_json(self) -> dict[str, Any]:
        """The parts that are known."""
        pairs = (("file", self.file), ("demo", self.demo), ("column", self.column), ("row", self.row))
        return {k: v for k, v in pairs if v is not None}


@dataclass(frozen=True, slots=True)
class Finding:
    """One piece of evidence.

    Attributes:
        code: Stable kebab-case code of the rule (`nan-action`).
        severity: ERROR, WARN or INFO.
        message: What is wrong and what to do next, one sentence.
        place: Where.
        got: What was found, as text.
        expected: What the rule wants, as text.
    """

    code: str
    severity: Severity
    message: str
    place: Place = Place()
    got: str | None = None
    expected: str | None = None

    def __str__(self) -> str:
        text = f"{self.severity.upper()} {self.code} {self.place}: {self.message}"
        if self.got is not None:
            text += f"; got {told(self.got)}"
        if self.expected is not None:
            text += f"; expected {told(self.expected)}"
        return text

    def to_json(self) -> dict[str, Any]:
        """Plain form; `from_json` reads it back."""
        out: dict[str, Any] = {
            "code": self.code,
            "severity": self.severity.value,
            "message": self.message,
            "place": self.place.to_json(),
        }
        if self.got is not None:
            out["got"] = self.got
        if self.expected is not None:
            out["expected"] = self.expected
        return out

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Finding:
        """The finding that `to_json` wrote."""
        return cls(
            code=value["code"],
            severity=Severity(value["severity"]),
            message=value["message"],
            place=Place(**value.get("place", {})),
            got=value.get("got"),
            expected=value.get("expected"),
        )


@dataclass(slots=True)
class Findings:
    """A collector: keeps the first 3 of each (code, severity, column), counts the rest.

    Attributes:
        kept: The findings kept, in order of arrival.
        counts: How many of each (code, severity, column) arrived in all.
    """

    kept: list[Finding] = field(default_factory=list)
    counts: Counter[tuple[str, Severity, str | None]] = field(default_factory=Counter)

    def add(self, finding: Finding) -> None:
        """Count a finding, and keep it unless three like it are kept already."""
        key = (finding.code, finding.severity, finding.place.column)
        self.counts[key] += 1
        if self.counts[key] <= MAX_REPEATS:
            self.kept.append(finding)

    def extend(self, findings: Iterable[Finding]) -> None:
        """Add many."""
        for finding in findings:
            self.add(finding)

    def merge(self, other: Findings) -> None:
        """Add another collector, its uncounted repeats included."""
        for finding in other.kept:
            key = (finding.code, finding.severity, finding.place.column)
            if self.counts[key] + 1 <= MAX_REPEATS:
                self.kept.append(finding)
            self.counts[key] += 1
        for key, count in other.counts.items():
            self.counts[key] += count - min(count, MAX_REPEATS)

    def count(self, severity: Severity) -> int:
        """How many findings of exactly this severity arrived."""
        return sum(n for (_, s, _), n in self.counts.items() if s is severity)

    def worst(self) -> Severity | None:
        """The worst severity that arrived, None when nothing did."""
        present = [s for (_, s, _), n in self.counts.items() if n]
        return max(present, key=_RANK.__getitem__) if present else None

    def repeats(self) -> list[tuple[str, Severity, str | None, int]]:
        """(code, severity, column, how many more than the kept ones), for each that was capped."""
        return [(c, s, col, n - MAX_REPEATS) for (c, s, col), n in self.counts.items() if n > MAX_REPEATS]

    def to_json(self) -> dict[str, Any]:
        """Plain form; `from_json` reads it back."""
        counts = [[c, s.value, col, n] for (c, s, col), n in self.counts.items()]
        return {"findings": [f.to_json() for f in self.kept], "counts": counts}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Findings:
        """The collector that `to_json` wrote."""
        out = cls(kept=[Finding.from_json(f) for f in value["findings"]])
        for code, severity, column, count in value["counts"]:
            out.counts[(code, Severity(severity), column)] = count
        return out

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.kept)

    def __len__(self) -> int:
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class Denominator:
    """How much a check looked at: `checked 480 of 500 demos`."""

    checked: int
    total: int
    unit: str

    def __str__(self) -> str:
        return f"checked {self.checked} of {self.total} {self.unit}"
