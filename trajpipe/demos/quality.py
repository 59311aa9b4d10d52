"""Quality facts of a demo: length, idle steps, saturated actions; filters over them, off by default.

Measurements, never silent filters. What is not here: success, length and finite values, see `select.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from trajpipe.core import names
from trajpipe.core.episode import Episode, whole
from trajpipe.core.ledger import Rejection

NOOP_THRESHOLD: Final = 1e-4
SATURATED: Final = 1.0


@dataclass(frozen=True, slots=True)
class Quality:
    """What was measured of a demo.

    Attributes:
        rows: Its length.
        noop_steps: Steps whose action is near zero but for the last (gripper) value, which stays as it was.
        saturated: Share of action values at or beyond ±1, the gripper's left out.
    """

    rows: int
    noop_steps: int
    saturated: float

    @property
    def noop_fraction(self) -> float:
        """Share of the steps that do nothing."""
        return self.noop_steps / self.rows


@dataclass(frozen=True, slots=True)
class QualityLimits:
    """Limits on quality facts; None = no limit.

    Attributes:
        max_noop_fraction: Largest share of steps that do nothing.
        max_saturated: Largest share of saturated action values.
        max_length: Most rows.
    """

    max_noop_fraction: float | None = None
    max_saturated: float | None = None
    max_length: int | None = None


NO_LIMITS: Final = QualityLimits()


def quality_of(episode: Episode) -> Quality:
    """Measure a demo's actions, (T, A); a one-wide action is all arm and no gripper."""
    actions = whole(episode.columns[names.DATASET_ACTIONS])
    arm = actions[:, :-1] if actions.shape[1] > 1 else actions
    still = (np.abs(arm) <= NOOP_THRESHOLD).all(axis=1)
    held = np.ones(len(actions), bool)
    if actions.shape[1] > 1:
        held[1:] = actions[1:, -1] == actions[:-1, -1]
    saturated = float((np.abs(arm) >= SATURATED).mean()) if arm.size else 0.0
    return Quality(len(actions), int((still & held).sum()), saturated)


def beyond(episode: Episode, limits: QualityLimits) -> Rejection | None:
    """The first limit that a demo is beyond: `too-long`, `no-ops` or `saturated`; None when within all."""
    if limits == NO_LIMITS:
        return None
    found = quality_of(episode)
    rules = (
        (names.Reason.TOO_LONG, found.rows, limits.max_length),
        (names.Reason.NO_OPS, found.noop_fraction, limits.max_noop_fraction),
        (names.Reason.SATURATED, found.saturated, limits.max_saturated),
    )
    for reason, value, limit in rules:
        if limit is not None and value > limit:
            demo = episode.source_demo or episode.name
            return Rejection(episode.source_file, demo, reason.value, f"{value:.4g}, at most {limit:g} asked")
    return None
