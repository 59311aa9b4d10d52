"""What a look at a project or its machine gives: a matter, how it stands, what to do next.

What is not here: the looks, see `trajpipe.pipeline.doctor`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Grade(StrEnum):
    """How a matter stands."""

    FINE = "fine"
    NOTE = "note"
    WRONG = "wrong"
    FIXED = "fixed"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One matter that was looked at.

    Attributes:
        what: The matter: `locks`, `disk`, `daemons`, …
        grade: How it stands.
        text: What was seen.
        advice: The next thing to do; "" when nothing is.
    """

    what: str
    grade: Grade
    text: str
    advice: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain form."""
        out = {"what": self.what, "grade": self.grade.value, "text": self.text}
        return out | ({"advice": self.advice} if self.advice else {})
