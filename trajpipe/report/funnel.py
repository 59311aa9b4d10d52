"""The rejection funnel: episodes read, rejected for each reason, written.

    picture = funnel(ledger)          # None when nothing was read

What is not here: making the ledger, see `trajpipe.core.ledger`.
"""

from __future__ import annotations

from typing import Final

from trajpipe.core.ledger import Ledger
from trajpipe.report.canvas import BLUE, GREEN, INK, MUTED, RED, Canvas, fitted
from trajpipe.report.picture import Picture

NAME: Final = "rejection funnel"
MAX_REASONS: Final = 8
_WIDTH: Final = 640
_LEFT: Final = 150
_RIGHT: Final = 560
_ROW: Final = 24


def funnel(ledger: Ledger) -> Picture | None:
    """Bars of the same scale: all that was read, what each reason took away, what is left.

    Args:
        ledger: Of one output.

    Returns:
        The picture; None when no episode was read.
    """
    if ledger.read == 0:
        return None
    steps = funnel_steps(ledger)
    canvas = Canvas(_WIDTH, _ROW * len(steps) + 16)
    for index, (label, start, count, colour) in enumerate(steps):
        top, middle = 8 + _ROW * index, 8 + _ROW * index + _ROW / 2
        left, right = (_LEFT + (_RIGHT - _LEFT) * n / ledger.read for n in (start, start + count))
        canvas.text(_LEFT - 8, middle, fitted(label, _LEFT - 12), anchor="rm")
        if count:
            canvas.box((left, top + 3, right, top + _ROW - 3), colour)
        share = f"{count:,}" if count == ledger.read else f"{count:,} ({count / ledger.read:.1%})"
        canvas.text(right + 6, middle, share, colour=INK if count else MUTED)
    return Picture(NAME, canvas.png(), ledger.summary())


def funnel_steps(ledger: Ledger) -> list[tuple[str, int, int, str]]:
    """The bars from top to bottom: label, where it begins, its length, colour; both in episodes.

    Reasons come with the most frequent first; those beyond 8 are one bar.
    """
    left = ledger.read
    steps = [("read", 0, left, BLUE)]
    reasons = sorted(ledger.reasons().items(), key=lambda item: (-item[1], item[0]))
    if len(reasons) > MAX_REASONS:
        rest = reasons[MAX_REASONS - 1 :]
        reasons = [*reasons[: MAX_REASONS - 1], (f"{len(rest)} other reasons", sum(n for _, n in rest))]
    for reason, count in reasons:
        left -= count
        steps.append((reason, left, count, RED))
    return [*steps, ("written", 0, ledger.written, GREEN)]
