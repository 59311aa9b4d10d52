"""Mutations of a good L2 file, and what a rule says of each: shared by the tests of L2's rules.

What is not here: the cases, which lie in the tests of each group of rules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import h5py
import numpy as np

from trajpipe.checks.demos import validate
from trajpipe.checks.registry import CheckReport, CheckResult
from trajpipe.core.findings import Finding, Place, Severity

Change = Callable[[h5py.File], object]
CONTEXT: Final = {"conventions": {}, "filters": {"min_length": 5, "only_success": True}}


def finding(
    message: str,
    where: tuple[str | None, str | None, int | None] = (None, None, None),
    *,
    got: str | None = None,
    expected: str | None = None,
    severity: Severity = Severity.ERROR,
) -> Finding:
    """A finding in `a.hdf5` of the case's rule; `where` is (demo, column, row)."""
    return Finding("", severity, message, Place("a.hdf5", *where), got, expected)


@dataclass(frozen=True)
class Case:
    """A mutation of the good file and what one rule says of it.

    Attributes:
        code: The rule.
        change: The mutation.
        findings: All that the rule says then.
        context: What the rules are told.
    """

    code: str
    change: Change
    findings: list[Finding]
    context: dict[str, Any] = field(default_factory=lambda: dict(CONTEXT))

    def assert_holds(self, path: Path) -> None:
        """Change the file; the rule must say exactly these findings, and fail when one is an ERROR."""
        with h5py.File(path, "r+") as file:
            self.change(file)
        result = result_of(validate(path, self.context), self.code)
        assert list(result.findings) == with_code(self.code, self.findings)
        assert result.passed != any(f.severity is Severity.ERROR for f in self.findings)


def with_code(code: str, findings: list[Finding]) -> list[Finding]:
    """The findings as that rule's."""
    return [replace(f, code=code) for f in findings]


def result_of(report: CheckReport, code: str) -> CheckResult:
    """The result of one check."""
    return next(r for r in report.results if r.code == code)


def attribute(demo: str | None, name: str, value: object) -> Change:
    """Set an attribute of a demo, of /data (`demo` is `data`) or of the root (None); None deletes it."""

    def change(file: h5py.File) -> None:
        item = file if demo is None else file["data"] if demo == "data" else file[f"data/{demo}"]
        if name in item.attrs:
            del item.attrs[name]
        if value is not None:
            item.attrs[name] = value

    return change


def dataset(path: str, values: object, **options: Any) -> Change:
    """Replace or add a dataset."""

    def change(file: h5py.File) -> None:
        if path in file:
            del file[path]
        file.create_dataset(path, data=values, **options)

    return change


def value(path: str, index: object, number: float) -> Change:
    """Change one value in place."""

    def change(file: h5py.File) -> None:
        file[path][index] = number

    return change


def together(*changes: Change) -> Change:
    """Several changes."""

    def change(file: h5py.File) -> None:
        for one in changes:
            one(file)

    return change


def renamed(old: str, new: str) -> Change:
    """Move an item."""
    return lambda file: file.move(old, new)


def removed(path: str) -> Change:
    """Delete an item."""
    return lambda file: file.__delitem__(path)


def copied(old: str, new: str) -> Change:
    """Copy an item."""
    return lambda file: file.copy(old, new)


def frames(shape: tuple[int, ...]) -> Any:
    """Random frames."""
    return np.random.default_rng(0).integers(0, 255, shape).astype(np.uint8)


def chunk_of(path: Path, name: str) -> tuple[int, int]:
    """(offset, size) of a dataset's first chunk, or of its contiguous bytes."""
    with h5py.File(path) as file:
        stored = file[name]
        if stored.chunks is None:
            return int(stored.id.get_offset()), int(stored.id.get_storage_size())
        info = stored.id.get_chunk_info(0)
        return int(info.byte_offset), int(info.size)


def overwrite(path: Path, offset: int, data: bytes) -> None:
    """Change bytes of a file in place."""
    with path.open("r+b") as handle:
        handle.seek(offset)
        handle.write(data)
