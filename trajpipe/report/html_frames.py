"""Film strips: frames of one camera of an episode side by side in one small JPEG.

What is not here: which rows are shown, see `html_budget`. Pillow is imported on first use.
"""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core.episode import Column

# (height, JPEG quality), tried in this order until the strip fits
_SIZES: Final = ((112, 80), (96, 70), (80, 60), (64, 55), (48, 45), (32, 35))
_WIDEST: Final = 2.0


def sampled_rows(length: int, count: int) -> list[int]:
    """At most `count` rows, evenly spread, first and last among them, ascending."""
    if length <= 0:
        return []
    spread = np.linspace(0, length - 1, min(count, length)).round().astype(np.int64)
    return [int(row) for row in np.unique(spread)]


def strip(frames: Sequence[NDArray[np.uint8]], rows: Sequence[int], max_bytes: int) -> dict[str, Any]:
    """Frames as one strip, plain JSON values.

    Args:
        frames: One or more, each (H, W, 1|3|4), of one size.
        rows: The row of each.
        max_bytes: Most bytes of the JPEG: frames are made smaller, then left out, until it fits.

    Returns:
        `rows`, `w` and `h` of each frame in the strip, `full` its recorded (H, W), `src` base64 of the JPEG.
    """
    kept = list(range(len(frames)))
    while True:
        for height, quality in _SIZES:
            size, data = _joined([frames[i] for i in kept], height, quality)
            if len(data) <= max_bytes or (len(kept) == 1 and height == _SIZES[-1][0]):
                return {
                    "rows": [int(rows[i]) for i in kept],
                    "w": size[0],
                    "h": size[1],
                    "full": [int(n) for n in frames[0].shape[:2]],
                    "src": b64encode(data).decode("ascii"),
                }
        kept = kept[::2] if len(kept) > 2 else kept[:1]


def read_frames(column: Column, rows: Sequence[int]) -> list[NDArray[np.uint8]]:
    """Frames of some rows, in order; one row is read at a time."""
    return [np.asarray(column.read(row, row + 1)[0], np.uint8) for row in rows]


def _joined(frames: Sequence[NDArray[np.uint8]], height: int, quality: int) -> tuple[tuple[int, int], bytes]:
    """Size of one frame in the strip, and the strip's JPEG."""
    from PIL import Image

    scale = min(1.0, height / frames[0].shape[0], _WIDEST * height / frames[0].shape[1])
    size = (max(1, round(frames[0].shape[1] * scale)), max(1, round(frames[0].shape[0] * scale)))
    whole = Image.new("RGB", (size[0] * len(frames), size[1]))
    for number, frame in enumerate(frames):
        colour = np.repeat(frame, 3, axis=-1) if frame.shape[-1] == 1 else frame[..., :3]
        own = Image.fromarray(np.ascontiguousarray(colour))
        own = own if own.size == size else own.resize(size, Image.Resampling.BOX)
        whole.paste(own, (number * size[0], 0))
    stream = io.BytesIO()
    whole.save(stream, "JPEG", quality=quality, optimize=True)
    return size, stream.getvalue()
