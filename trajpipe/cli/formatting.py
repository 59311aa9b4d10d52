"""Numbers and texts for people: bytes, seconds, counts, sparklines, long texts cut short.

What is not here: tables and colours, see `trajpipe.cli.terminal`.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Final

_BARS: Final = "▁▂▃▄▅▆▇█"
_UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB")


def size(count: float) -> str:
    """Bytes in decimal units: `34 MB`, `1.2 GB`, `512 B`."""
    value, unit = float(count), 0
    while value >= 999.5 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    digits = 0 if unit == 0 or value >= 9.95 else 1
    return f"{value:.{digits}f} {_UNITS[unit]}"


def seconds(duration: float) -> str:
    """`0.4 s`, `3.1 s`, `2 min 05 s`, `1 h 04 min`."""
    if duration < 59.95:
        return f"{duration:.1f} s"
    whole = round(duration)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """`1 episode`, `2,163 frames`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def number(value: float) -> str:
    """A measured value in at most four significant digits: `0.5`, `-1`, `3.142e-05`, `nan`."""
    if not math.isfinite(value):
        return str(value)
    return f"{value:.4g}"


def shape(dimensions: Iterable[int | str | None]) -> str:
    """`(T, 84, 84, 3)`; a scalar is `()`, an unlimited dimension `∞`."""
    parts = ["∞" if d is None else str(d) for d in dimensions]
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def shorten(text: str, limit: int) -> str:
    """Text on one line, cut in the middle of nothing: its first part, `…` and its full length when cut."""
    line = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    if len(line) <= limit:
        return line
    tail = f"… ({len(text):,} characters)"
    return line[: max(8, limit - len(tail))] + tail


def histogram(values: Sequence[float], bins: int) -> list[int]:
    """Counts of values in equal bins from least to greatest; one bin when all are equal."""
    if not values:
        return []
    low, high = min(values), max(values)
    if low == high:
        return [len(values)]
    counts = [0] * bins
    for value in values:
        counts[min(bins - 1, int((value - low) / (high - low) * bins))] += 1
    return counts


def sparkline(counts: Sequence[int]) -> str:
    """Bars of counts: an empty bin is a space, the fullest the full block."""
    top = max(counts, default=0)
    if top == 0:
        return ""
    return "".join(" " if n == 0 else _BARS[(n * len(_BARS) - 1) // top] for n in counts)


def listed(names: Sequence[str], limit: int = 5) -> str:
    """`a, b, c … (12 in all)`."""
    if len(names) <= limit:
        return ", ".join(names)
    return f"{', '.join(names[:limit])} … ({len(names):,} in all)"
