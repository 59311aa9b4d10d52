"""How much of each episode fits into a page of bounded size: frames, points of curves, columns.

What is not here: reading episodes; the bound of the whole file is held by `html_page`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from trajpipe.core import names
from trajpipe.core.episode import Column, is_image
from trajpipe.report.html_curves import MAX_DIMENSIONS, is_drawn, width_of

DEFAULT_BYTES: Final = 16 << 20
LEAST_BYTES: Final = 1 << 20
MAX_FRAMES: Final = 12
MAX_POINTS: Final = 400
LEAST_DETAIL: Final = 3_000
MOST_DETAIL: Final = 300_000
_LEAST_POINTS: Final = 24
_FRAME_BYTES: Final = 2_600
_LEAST_STRIP: Final = 1_200
_CURVES_SHARE: Final = 0.4
_BASE64: Final = 4 / 3
_POINT_BYTES: Final = 2 * _BASE64
_COLUMN_BYTES: Final = 120
_FIRST: Final = (names.DATASET_ACTIONS, names.COLUMN_ACTION)


@dataclass(frozen=True, slots=True)
class Share:
    """What an episode of one stage may take.

    Attributes:
        cameras: Columns of frames that are shown.
        frames: Frames of each, at most.
        strip_bytes: Bytes of each camera's strip, at most, before base64.
        columns: Columns whose curves are drawn, in order.
        points: Points of each curve, at most.
        left_out: Column → why it is not shown.
    """

    cameras: tuple[str, ...]
    frames: int
    strip_bytes: int
    columns: tuple[str, ...]
    points: int
    left_out: Mapping[str, str]


def share_of(columns: Mapping[str, Column], max_bytes: int, frames: int = MAX_FRAMES) -> Share:
    """The share of an episode with these columns.

    Args:
        columns: Of the episode.
        max_bytes: What its frames and curves may take in the page.
        frames: Most frames of a camera; 0 = none.
    """
    left_out = {
        n: f"{' by '.join(map(str, c.shape[1:]))} {c.dtype.name} values a row"
        for n, c in sorted(columns.items())
        if not is_image(c) and not is_drawn(c)
    }
    cameras = tuple(sorted(n for n, c in columns.items() if is_image(c))) if frames else ()
    for_curves = int(max_bytes * (_CURVES_SHARE if cameras else 1))
    drawn, points = _curves(columns, for_curves, left_out)
    fitting = max(0, int((max_bytes - for_curves) / _BASE64 / _LEAST_STRIP))
    left_out |= dict.fromkeys(cameras[fitting:], "no room for its frames")
    cameras = cameras[:fitting]
    strip = int((max_bytes - for_curves) / _BASE64 / len(cameras)) if cameras else 0
    count = min(frames, max(2, strip // _FRAME_BYTES)) if cameras else 0
    return Share(cameras, count, strip, drawn, points, left_out)


def _curves(
    columns: Mapping[str, Column], max_bytes: int, left_out: dict[str, str]
) -> tuple[tuple[str, ...], int]:
    """Columns to draw and points of each; actions come first, what finds no room is noted."""
    order = sorted((n for n, c in columns.items() if is_drawn(c)), key=lambda n: (_rank(n), n))
    chosen, dimensions = list[str](), 0
    for name in order:
        more = min(width_of(columns[name]), MAX_DIMENSIONS)
        needed = (dimensions + more) * _LEAST_POINTS * _POINT_BYTES + (len(chosen) + 1) * _COLUMN_BYTES
        if needed <= max_bytes or not chosen:
            chosen.append(name)
            dimensions += more
        else:
            left_out[name] = "no room for its curves"
    if not chosen:
        return (), 0
    room = max_bytes - len(chosen) * _COLUMN_BYTES
    return tuple(chosen), int(min(MAX_POINTS, max(_LEAST_POINTS, room / dimensions / _POINT_BYTES)))


def _rank(name: str) -> int:
    """Actions, then obs terms, rewards and the like, and simulator states last."""
    if name in _FIRST:
        return 0
    return {names.GROUP_OBS: 1, "states": 3}.get(name.split("/", 1)[0], 2)
