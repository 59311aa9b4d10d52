"""How a report is made: its bound, its frames, its episodes.

What is not here: making it, see `report.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from trajpipe.core.errors import UsageError
from trajpipe.report import html_budget


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """How a report is made.

    Attributes:
        max_bytes: Most bytes of the file, 1 MiB at least.
        frames: Most frames of a camera of an episode; 0 = none.
        episodes: Names, patterns or ranges of positions (`0:20`); empty = all.
        run_rules: Run the rules of an output whose results are not stored.
    """

    max_bytes: int = html_budget.DEFAULT_BYTES
    frames: int = html_budget.MAX_FRAMES
    episodes: tuple[str, ...] = ()
    run_rules: bool = True

    def __post_init__(self) -> None:
        if self.max_bytes < html_budget.LEAST_BYTES:
            raise UsageError(
                "a report needs 1 MiB at least", got=self.max_bytes, expected=html_budget.LEAST_BYTES
            )
        if not 0 <= self.frames <= html_budget.MAX_FRAMES:
            raise UsageError("frames of a camera", got=self.frames, expected=f"0 to {html_budget.MAX_FRAMES}")
