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


def figure(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure of so many inches with one pair of axes, drawn without pyplot."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    made = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(made)
    return made, made.add_subplot()


def png_of(drawn: Figure) -> bytes:
    """PNG bytes of at most 30 kB: the resolution falls until they fit."""
    dpi = _DPI
    while True:
        stream = io.BytesIO()
        drawn.savefig(stream, format="png", dpi=dpi, metadata={"Software": None})
        if stream.tell() <= MAX_BYTES or dpi <= _LOWEST_DPI:
            return stream.getvalue()
        dpi = max(_LOWEST_DPI, dpi * 3 // 4)
