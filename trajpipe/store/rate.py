"""Rows per second of a store, as the store itself says.

What is not here: whether it is true, see `trajpipe.checks.store_rate`.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

import numpy as np

from trajpipe.core import names
from trajpipe.store.reader import TrajectoryStore

# Written out, so that a text such as 1e999999999 costs nothing.
_RATE: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,12})?)(?:/([0-9]{1,9}))?")
_FASTEST: Final = 1_000_000


def own_rate(store: TrajectoryStore) -> Fraction | None:
    """Rows per second as the manifest says, else as the side table `env_dt`; None when neither is usable."""
    said = store.extra.get(names.MANIFEST_FPS, "")
    if said:
        found = _RATE.fullmatch(said)
        under = Fraction(found[2] or 1) if found else Fraction(0)
        rate = Fraction(found[1]) / under if found and under else Fraction(0)
        return rate if 0 < rate <= _FASTEST else None
    table = store.side_table(names.SIDE_ENV_DT) if names.SIDE_ENV_DT in store.side_tables else np.empty(0)
    step = table.reshape(-1)[0] if table.size == 1 and table.dtype.kind == "f" else np.float64(0)
    return 1 / Fraction(str(step)) if 1 / _FASTEST <= step < _FASTEST else None
