"""Which demos of a recording have other terms, widths or dtypes than the others: they are rejected alone.

The layout that more than half of the demos have is the recording's. Without such a layout nobody is rejected:
the file is refused whole by the check `demos-same-terms`.
What is not here: datasets that are kept as recorded and may differ (nested groups, states, extras).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

import numpy as np

from trajpipe.core import names
from trajpipe.core.episode import Column, Episode
from trajpipe.core.ledger import Rejection
from trajpipe.core.order import natural_sorted

OTHER_TERMS: Final = "other-terms"
Layout = tuple[tuple[str, str], ...]
_OBS: Final = names.GROUP_OBS + "/"
_ABSENT: Final = "absent"


def layout_of(episode: Episode) -> Layout:
    """(path, dtype and shape of a row) of the actions and of each flat obs term, in natural order."""
    columns = episode.columns
    terms = [p for p in columns if p == names.DATASET_ACTIONS or (p.startswith(_OBS) and p.count("/") == 1)]
    return tuple((path, _row(path, columns[path])) for path in natural_sorted(terms))


def _row(path: str, column: Column) -> str:
    # Actions become float32 in L2, whatever they were recorded as.
    dtype = np.dtype(np.float32) if path == names.DATASET_ACTIONS else column.dtype
    return f"{dtype} {column.shape[1:]}"


def outvoted(recording: str, layouts: Mapping[str, Layout]) -> list[Rejection]:
    """A rejection for each demo whose layout is not the one that more than half of the demos have.

    Args:
        recording: Base name of the recording.
        layouts: Demo → its layout.

    Returns:
        In the order of `layouts`; empty when all are alike, and when no layout has more than half.
    """
    votes = Counter(layouts.values())
    if len(votes) < 2:
        return []
    usual, count = votes.most_common(1)[0]
    if 2 * count <= len(layouts):
        return []
    said = f"as in {count} of {len(layouts)} demos"
    return [
        Rejection(recording, demo, OTHER_TERMS, f"{_difference(layout, usual)}, {said}")
        for demo, layout in layouts.items()
        if layout != usual
    ]


def _difference(layout: Layout, usual: Layout) -> str:
    """`obs/eef is float32 (3,), expected float32 (4,)` of the first path that differs, and how many more."""
    got, wanted = dict(layout), dict(usual)
    paths = [p for p in natural_sorted({*got, *wanted}) if got.get(p) != wanted.get(p)]
    more = f" (and {len(paths) - 1} more datasets differ)" if len(paths) > 1 else ""
    first = paths[0]
    return f"{first} is {got.get(first, _ABSENT)}{more}, expected {wanted.get(first, _ABSENT)}"
