"""Two frames side by side as a small PNG: what went in, what came out.

What is not here: choosing the frames. Pillow is imported on first use.
"""

from __future__ import annotations

import io
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

MAX_BYTES: Final = 30_000
_GAP: Final = 4
_SHRINK: Final = 0.8
_LEAST: Final = 8


def frame_pair(left: NDArray[np.uint8], right: NDArray[np.uint8], max_bytes: int = MAX_BYTES) -> bytes:
    """A PNG of two frames with a white gap between, shrunk until it fits.

    Args:
        left: (H, W, 1|3|4).
        right: Of any size; scaled to the height of `left`. An empty one is drawn black.
        max_bytes: Most bytes; a picture of 8 rows is not shrunk further.
    """
    from PIL import Image

    one, other = _picture(left), _picture(right if right.size else np.zeros_like(left))
    height = one.height
    while True:
        pair = _joined([_scaled(p, height) for p in (one, other)])
        buffer = io.BytesIO()
        Image.fromarray(pair).save(buffer, "PNG", optimize=True)
        if buffer.tell() <= max_bytes or height <= _LEAST:
            return buffer.getvalue()
        height = max(_LEAST, int(height * _SHRINK))


def _picture(frame: NDArray[np.uint8]) -> Any:
    from PIL import Image

    colour = np.repeat(frame, 3, axis=-1) if frame.shape[-1] == 1 else frame[..., :3]
    return Image.fromarray(np.ascontiguousarray(colour))


def _scaled(picture: Any, height: int) -> NDArray[np.uint8]:
    from PIL import Image

    if picture.height == height:
        return np.asarray(picture, np.uint8)
    width = max(1, round(picture.width * height / picture.height))
    return np.asarray(picture.resize((width, height), Image.Resampling.BOX), np.uint8)


def _joined(frames: list[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    gap = np.full((frames[0].shape[0], _GAP, 3), 255, np.uint8)
    return np.concatenate([frames[0], gap, frames[1]], axis=1)
