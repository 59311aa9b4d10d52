"""Whether obs[t] precedes or follows actions[t], told by the data where both streams, obs and states, exist.

What is not here: shifting rows; an Episode keeps the recorded ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trajpipe.core.findings import Finding, Severity
from trajpipe.core.names import Alignment
from trajpipe.sources.recording import Recording


@dataclass(slots=True)
class AlignmentEvidence:
    """Row counts over all demos looked at.

    Attributes:
        compared: Rows compared.
        before: Rows that agree with obs before the action.
        after: Rows that agree with obs after the action.
    """

    compared: int = 0
    before: int = 0
    after: int = 0

    def add(self, obs: NDArray[Any], states: NDArray[Any], *, states_follow: bool) -> None:
        """Compare two streams of one quantity, exactly.

        Args:
            obs: (T, D) as observed.
            states: (T, D) as in the state stream.
            states_follow: states[t] follows actions[t] (IsaacLab) and does not precede it (MuJoCo recorders).
        """
        same, early = slice(1, None), slice(None, -1)
        if states_follow:
            before, after = obs[same] == states[early], obs[same] == states[same]
        else:
            before, after = obs[early] == states[early], obs[early] == states[same]
        self.compared += len(before)
        self.before += int(np.all(before, axis=-1).sum())
        self.after += int(np.all(after, axis=-1).sum())

    def findings(self, recording: Recording, declared: Alignment | None) -> list[Finding]:
        """What the data says of the declared alignment; nothing when nothing was compared."""
        if declared is None or not self.compared:
            return []
        agree, other = self.before, self.after
        if declared is Alignment.AFTER_ACTION:
            agree, other = other, agree
        got = f"{agree} of {self.compared} rows agree with {declared.value}"
        place = recording.place(None, "obs")
        if agree < self.compared and other > agree:
            message = "observations and states say another alignment than the one taken"
            got = f"{got}, {other} with the other"
            return [
                recording.finding("alignment-conflict", message, severity=Severity.WARN, place=place, got=got)
            ]
        message = "observations were compared with the state stream"
        return [recording.finding("alignment", message, place=place, got=got)]
