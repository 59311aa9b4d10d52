"""Quality facts of L2 demos as measurements: no-op steps, saturation, lengths, known success.

Never a filter, and never an error. What is not here: filtering by them, see `trajpipe.demos.quality`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from trajpipe.checks.demos_facts import FileFacts
from trajpipe.checks.demos_subject import STAGE, facts_of
from trajpipe.checks.registry import Subject, check
from trajpipe.checks.store_reading import opened
from trajpipe.core import names
from trajpipe.core.findings import Finding, Severity

_STILL = 1e-4
_MANY = 0.5


@check("demos-quality", stage=STAGE, title="Quality facts of the demos", blocking=False)
def quality(subject: Subject) -> Iterator[Finding]:
    """No-op steps (arm near zero, gripper as before) and saturation; a WARN where half of a demo is idle."""
    facts = facts_of(subject)
    noops: list[float] = []
    saturated: list[float] = []
    for demo, still, beyond in _measured(subject, facts):
        noops.append(still)
        saturated.append(beyond)
        if still > _MANY:
            place = facts.place(demo, names.DATASET_ACTIONS)
            message = "more than half of the steps do nothing"
            yield Finding("demos-quality", Severity.WARN, message, place, f"{still:.0%} of the steps")
    subject.count(len(noops), len(facts.demos), "demos")
    if noops:
        subject.measures |= {
            "worst_noop_fraction": max(noops),
            "mean_noop_fraction": float(np.mean(noops)),
            "worst_saturated_fraction": max(saturated),
        }


def _measured(subject: Subject, facts: FileFacts) -> Iterator[tuple[str, float, float]]:
    """(demo, share of no-op steps, share of saturated values) of each demo whose actions can be read."""
    with opened(subject.path) as file:
        for demo in facts.demos:
            if demo.actions is None or len(demo.actions.shape or ()) != 2 or not demo.actions.rows:
                continue
            actions = file[names.GROUP_DATA][demo.name][names.DATASET_ACTIONS][()]
            width = actions.shape[1]
            arm = actions[:, : max(1, width - 1)]
            gripper = actions[:, width - 1 :] if width > 1 else np.zeros((len(actions), 1))
            same = np.vstack([np.ones((1, 1), bool), gripper[1:] == gripper[:-1]])
            still = np.all(np.abs(arm) <= _STILL, axis=1) & same[:, 0]
            yield demo.name, float(still.mean()), float(np.mean(np.abs(arm) >= 1))
