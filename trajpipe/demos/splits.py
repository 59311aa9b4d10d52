"""Seeded splits by group: which groups of a dataset are train and which are valid.

What is not here: what a group is (recording, task, a declared key), the caller says.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from trajpipe.core.errors import UsageError
from trajpipe.core.names import Split


def assign_splits(groups: Sequence[str], *, seed: int, valid_fraction: float) -> list[Split]:
    """Split a dataset by group; all members of a group get one split.

    Groups are ranked by a hash keyed with the seed, and the first `round(valid_fraction · groups)` of them
    are valid. A group's rank does not depend on the others, so one more recording moves at most one older
    group from one split to the other, and never reshuffles them.

    Args:
        groups: Group of each member (recording or episode), in any order.
        seed: Another seed gives another choice.
        valid_fraction: Share of groups for validation, 0 ≤ f < 1; at least one group stays train.

    Returns:
        The split of each member, in the order given.

    Raises:
        UsageError: the fraction is outside [0, 1).
    """
    if not 0.0 <= valid_fraction < 1.0:
        raise UsageError("the validation share lies in [0, 1)", got=valid_fraction, code="bad-split")
    ranked = sorted(set(groups), key=lambda group: (_rank(group, seed), group))
    count = min(int(valid_fraction * len(ranked) + 0.5), max(0, len(ranked) - 1))
    valid = set(ranked[:count])
    return [Split.VALID if group in valid else Split.TRAIN for group in groups]


def _rank(group: str, seed: int) -> bytes:
    key = str(seed).encode("ascii")
    return hashlib.blake2b(group.encode("utf-8", "surrogateescape"), key=key[:64], digest_size=16).digest()
