"""Drawing lines, boxes and text into small PNGs with Pillow: fast, and the same bytes for the same data.

Pillow brings its own font, so that neither the machine's fonts nor a first-run cache matter; matplotlib
takes a second to import and half a second to draw what takes 50 ms here, too much for each run of a small
recording.
What is not here: scales and ticks, see `axes`.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.report.picture import MAX_BYTES

if TYPE_CHECKING:
    from PIL import Image, ImageFont

INK: Final = "#24292f"
MUTED: Final = "#6a737d"
GRID: Final = "#e4e7eb"
BAND: Final = "#dfe9f5"
BLUE: Final = "#2f6fb0"
GREEN: Final = "#2e8b57"
RED: Final = "#c8372d"
SERIES: Final = (BLUE, "#d9822b", GREEN, "#8a5bb5", RED, "#1f9aa8", "#9c6b30", "#d45d9c")
_FINE: Final = 2
_COLOURS: Final = 256
_FEW_BYTES: Final = 16_000
_SHRINK: Final = 0.85

Box = tuple[float, float, float, float]


class Canvas:
    """A white picture of so many pixels; shapes are drawn twice as fine and averaged, text on top of them."""

    def __init__(self, width: int, height: int) -> None:
        from PIL import Image, ImageDraw

        self.width, self.height = width, height
        self._shapes = Image.new("RGB", (width * _FINE, height * _FINE), "white")
        self._draw = ImageDraw.Draw(self._shapes)
        self._texts: list[tuple[float, float, str, str, int, str]] = []

    def box(self, box: Box, colour: str) -> None:
        """A filled rectangle (left, top, right, bottom); a pixel wide at least."""
        left, top, right, bottom = (v * _FINE for v in box)
        right, bottom = max(right, left + _FINE), max(bottom, top + _FINE)
        self._draw.rectangle((round(left), round(top), round(right) - 1, round(bottom) - 1), fill=colour)

    def line(self, points: NDArray[np.float64], colour: str, width: float = 1.0) -> None:
        """A line through points (N, 2); it is interrupted where a coordinate isn't finite."""
        fine = max(1, round(width * _FINE))
        for part in _finite_runs(points):
            flat = [float(v) for v in (part * _FINE).ravel()]
            if len(part) == 1:
                x, y = flat
                self._draw.ellipse((x - fine, y - fine, x + fine, y + fine), fill=colour)
            else:
                self._draw.line(flat, fill=colour, width=fine, joint="curve")

    def text(
        self, x: float, y: float, text: str, *, anchor: str = "lm", size: int = 11, colour: str = INK
    ) -> None:
        """Text at a point; `anchor` as Pillow's: l|m|r and a|m|s."""
        self._texts.append((x, y, one_line(text), anchor, size, colour))

    def png(self, max_bytes: int = MAX_BYTES) -> bytes:
        """The picture as PNG; scaled down until it fits."""
        from PIL import Image, ImageDraw

        done = self._shapes.resize((self.width, self.height), Image.Resampling.BOX)
        draw = ImageDraw.Draw(done)
        for x, y, text, anchor, size, colour in self._texts:
            draw.text((x, y), text, fill=colour, font=_font(size), anchor=anchor)
        while True:
            encoded = _encoded(done)
            if len(encoded) <= max_bytes or min(done.size) < 16:
                return encoded
            smaller = (max(1, int(done.width * _SHRINK)), max(1, int(done.height * _SHRINK)))
            done = done.resize(smaller, Image.Resampling.BOX)


def text_width(text: str, size: int = 11) -> float:
    """Pixels that a text takes."""
    return float(_font(size).getlength(text))


def one_line(text: str) -> str:
    """The text with a blank for each line end and control character: names of recordings hold anything."""
    return "".join(c if c.isprintable() else " " for c in text)


def fitted(text: str, width: float, size: int = 11) -> str:
    """The text on one line, its middle left out where it is wider than so many pixels."""
    text = one_line(text)
    if text_width(text, size) <= width:
        return text
    for keep in range(len(text) - 1, 1, -1):
        short = f"{text[: keep - keep // 2]}…{text[len(text) - keep // 2 :]}"
        if text_width(short, size) <= width:
            return short
    return "…"


@cache
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    from PIL import ImageFont

    return ImageFont.load_default(size)


def _encoded(image: Image.Image) -> bytes:
    """All colours where the bytes are few; else the 256 nearest, without specks."""
    from PIL import Image

    exact = _saved(image)
    if len(exact) <= _FEW_BYTES:
        return exact
    return _saved(image.quantize(_COLOURS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE))


def _saved(image: Image.Image) -> bytes:
    stream = io.BytesIO()
    image.save(stream, "PNG", compress_level=6)
    return stream.getvalue()


def _finite_runs(points: NDArray[np.float64]) -> Sequence[NDArray[np.float64]]:
    finite = np.isfinite(points).all(axis=1)
    cuts = np.flatnonzero(np.diff(finite.astype(np.int8))) + 1
    parts = np.split(points, cuts)
    return [part for part in parts if len(part) and np.isfinite(part).all()]
