"""The contact sheet: frames of each camera from a few episodes, as a small JPEG.

    picture = contact_sheet([SheetRow("demo_0", [first, last])], ["table first", "table last"], "8 of 500")

What is not here: reading frames, see `trajpipe.pipeline.pictures`. Pillow is imported on first use.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.report.canvas import INK, MUTED, fitted, text_width
from trajpipe.report.picture import MAX_BYTES, Picture

if TYPE_CHECKING:
    from PIL import Image

NAME: Final = "contact sheet"
_WIDTH: Final = 640
_LABEL: Final = 84
_TOP: Final = 18
_GAP: Final = 3
_BETWEEN: Final = 6
_LARGEST: Final = 128
_QUALITIES: Final = (90, 80, 70, 60, 50)
_SHRINK: Final = 0.8


@dataclass(frozen=True, slots=True, eq=False)
class SheetRow:
    """Frames of one episode.

    Attributes:
        label: Name of the episode.
        frames: uint8 (H, W, 1|3|4) of any size, one for each column of the sheet; None leaves a gap.
    """

    label: str
    frames: Sequence[NDArray[np.uint8] | None]


def contact_sheet(rows: Sequence[SheetRow], headers: Sequence[str], caption: str) -> Picture | None:
    """A table of frames.

    Args:
        rows: Episodes.
        headers: One for each column.
        caption: Which episodes of how many.

    Returns:
        The picture, JPEG of at most 30 kB; None without frames.
    """
    if not any(frame is not None for row in rows for frame in row.frames):
        return None
    side = _LARGEST
    while True:
        sheet = _sheet(rows, headers, side)
        for quality in _QUALITIES:
            stream = io.BytesIO()
            sheet.save(stream, "JPEG", quality=quality, optimize=True)
            if stream.tell() <= MAX_BYTES or (side <= 8 and quality == _QUALITIES[-1]):
                return Picture(NAME, stream.getvalue(), caption, "image/jpeg")
        side = int(side * _SHRINK)


def _sheet(rows: Sequence[SheetRow], headers: Sequence[str], largest: int) -> Image.Image:
    from PIL import Image, ImageDraw, ImageFont

    width = min(largest, (_WIDTH - _LABEL) // len(headers) - _GAP)
    frames = [frame for row in rows for frame in row.frames if frame is not None]
    height = max(1, *(round(f.shape[0] * width / f.shape[1]) for f in frames))
    size = (_LABEL + len(headers) * (width + _GAP), _TOP + len(rows) * (height + _GAP))
    sheet = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(10)
    for index, header in enumerate(headers):
        centre = _LABEL + index * (width + _GAP) + width / 2
        draw.text(
            (centre, _TOP / 2), fitted(header, width - _BETWEEN, 10), fill=MUTED, font=font, anchor="mm"
        )
    for down, row in enumerate(rows):
        top = _TOP + down * (height + _GAP)
        label = fitted(row.label, _LABEL - 8, 10)
        draw.text(
            (_LABEL - 6 - text_width(label, 10), top + height / 2), label, fill=INK, font=font, anchor="lm"
        )
        for across, frame in enumerate(row.frames):
            if frame is not None:
                sheet.paste(_thumbnail(frame, width), (_LABEL + across * (width + _GAP), top))
    return sheet


def _thumbnail(frame: NDArray[np.uint8], width: int) -> Any:
    from PIL import Image

    colour = np.repeat(frame, 3, axis=-1) if frame.shape[-1] == 1 else frame[..., :3]
    picture = Image.fromarray(np.ascontiguousarray(colour))
    size = (width, max(1, round(picture.height * width / picture.width)))
    return picture if picture.size == size else picture.resize(size, Image.Resampling.BOX)
