"""Drawing small figures into PNG bytes: the same data give the same bytes, no window system is needed.

What is not here: what is drawn.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_BYTES: Final = 30_000
_DPI: Final = 80
_LOWEST_DPI: Final = 12
_COLOURS: Final = (64, 16)


def figure(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure of so many inches with one pair of axes, drawn without pyplot."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    made = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(made)
    return made, made.add_subplot()


def png_of(drawn: Figure) -> bytes:
    """PNG bytes of at most 30 kB: fewer colours first, which is hardly seen, then a lower resolution."""
    dpi = _DPI
    while True:
        stream = io.BytesIO()
        drawn.savefig(stream, format="png", dpi=dpi, metadata={"Software": None})
        best = stream.getvalue()
        for colours in _COLOURS:
            if len(best) <= MAX_BYTES:
                return best
            best = _with_colours(stream, colours)
        if len(best) <= MAX_BYTES or dpi <= _LOWEST_DPI:
            return best
        dpi = max(_LOWEST_DPI, dpi * 3 // 4)


def _with_colours(stream: io.BytesIO, colours: int) -> bytes:
    from PIL import Image

    out = io.BytesIO()
    with Image.open(stream) as image:
        few = image.convert("RGB").quantize(
            colours, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE
        )
    few.save(out, "PNG", compress_level=9)
    return out.getvalue()
