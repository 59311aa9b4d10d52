"""Natural order of names, demo numbers and slugs: the one place that sorts `demo_2` before `demo_10`.

What is not here: names themselves, see `trajpipe.core.names`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

_DIGITS = re.compile(r"([0-9]+)")
_NOT_SLUG = re.compile(r"[^A-Za-z0-9_.\-]+")
_MAX_SLUG = 120


def natural_key(name: str) -> tuple[tuple[int, int, str, str], ...]:
    """Sort key under which digit runs compare as numbers; equal numbers fall back to their text.

    Numbers are compared by length and digits, never converted: a hostile name may hold thousands of digits.
    """
    parts = _DIGITS.split(name)
    return tuple(_number_key(p) if i % 2 else (0, 0, p, p) for i, p in enumerate(parts))


def _number_key(digits: str) -> tuple[int, int, str, str]:
    significant = digits.lstrip("0")
    return 1, len(significant), significant, digits


def natural_sorted(names: Iterable[str]) -> list[str]:
    """Names in natural order."""
    return sorted(names, key=natural_key)


def slug(text: str) -> str:
    """A file- and partition-safe name: letters, digits, `_ . -`; long or changed text keeps a hash apart.

    Two different texts never give the same slug, but for texts that are slugs already.
    """
    plain = _NOT_SLUG.sub("-", text).strip("-.")
    if plain == text and len(text) <= _MAX_SLUG:
        return text
    mark = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{plain[:_MAX_SLUG].strip('-.') or 'recording'}-{mark}"
