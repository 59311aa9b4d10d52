"""What is wrong with a catalogue: one problem per place, all of them in one error.

What is not here: finding the problems, see `catalogue_text` and `catalogue_diagnosis` beside this.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trajpipe.core.errors import CatalogueError


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong in a catalogue.

    Attributes:
        line: Line in the file, counted from 1; 0 = the file as a whole.
        key: Key path (`datasets.lift.raw[0].kind`), empty when it is not about a key.
        rule: The rule that is broken, in one clause.
        got: What is there.
        expected: What the rule wants.
        hint: The next thing to do, a full sentence.
    """

    line: int
    key: str
    rule: str
    got: str | None = None
    expected: str | None = None
    hint: str | None = None

    def __str__(self) -> str:
        place = " · ".join(part for part in (f"line {self.line}" if self.line else "", self.key) if part)
        text = f"{place}: {self.rule}" if place else self.rule
        if self.got is not None:
            text += f"; got {self.got}"
        if self.expected is not None:
            text += f"; expected {self.expected}"
        return f"{text}. {self.hint}" if self.hint else text

    def to_json(self) -> dict[str, Any]:
        """Plain form, without what is not known."""
        parts = {"line": self.line, "key": self.key, "rule": self.rule, "got": self.got}
        parts |= {"expected": self.expected, "hint": self.hint}
        return {name: value for name, value in parts.items() if value}


class InvalidCatalogueError(CatalogueError):
    """A catalogue with problems; `problems` holds them all (empty after pickling, the text stays)."""

    problems: tuple[Problem, ...] = ()


def invalid(path: Path, problems: Iterable[Problem]) -> InvalidCatalogueError:
    """The error that lists all problems of a catalogue in the order of their lines, each once."""
    found = sorted(dict.fromkeys(problems), key=lambda p: (p.line, p.key))
    if len(found) == 1:
        error = InvalidCatalogueError(str(found[0]), place=path)
    else:
        lines = "".join(f"\n  {problem}" for problem in found)
        error = InvalidCatalogueError(f"the catalogue has {len(found)} problems:{lines}", place=path)
    error.problems = tuple(found)
    return error


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """A sentence that offers the nearest known word; None when none is near."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"Did you mean `{near[0]}`?" if near else None
