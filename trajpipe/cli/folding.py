"""Text that folds long names behind their `_`, `-` and `/`, not within a word.

What is not here: tables and their cells, see `trajpipe.cli.terminal`.
"""

import re
from collections.abc import Iterator
from typing import Final

from rich.cells import cell_len
from rich.console import Console, JustifyMethod, OverflowMethod
from rich.containers import Lines
from rich.text import Text

_WORD: Final = re.compile(r"\S+")
_STEP: Final = re.compile(r"/*[^/]+/*|/+")
_PART: Final = re.compile(r"[_\-]*[^_\-]+[_\-]*|[_\-]+")


class FoldingText(Text):
    """Text whose words, where one is wider than its cell, are parted behind a separator."""

    def wrap(
        self,
        console: Console,
        width: int,
        *,
        justify: JustifyMethod | None = None,
        overflow: OverflowMethod | None = None,
        tab_size: int = 8,
        no_wrap: bool | None = None,
    ) -> Lines:
        """Lines of at most `width` cells."""
        text, breaks = Text.copy(self), breaks_of(self.plain, width)
        if breaks and not no_wrap:
            text = Text("\n").join(self.divide(breaks))
        return text.wrap(
            console,
            width,
            justify=justify or self.justify,
            overflow=overflow or self.overflow,
            tab_size=tab_size,
            no_wrap=no_wrap,
        )


def breaks_of(plain: str, width: int) -> list[int]:
    """Offsets at which words wider than `width` cells are parted; a part wider still is left whole."""
    found = list[int]()
    for word in _WORD.finditer(plain):
        at, used = word.start(), 0
        for part in _parts(word[0], width) if cell_len(word[0]) > width else ():
            wide = cell_len(part)
            if used and used + wide > width:
                found.append(at)
                used = 0
            used, at = used + wide, at + len(part)
    return found


def _parts(word: str, width: int) -> Iterator[str]:
    """The steps of a path; what is wider than `width` parted at `_` and `-` too."""
    for step in _STEP.findall(word):
        yield from [step] if cell_len(step) <= width else _PART.findall(step)
