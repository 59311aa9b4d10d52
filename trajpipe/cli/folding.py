"""Text that folds long names behind their `_`, `-` and `/`, not within a word.

What is not here: tables and their cells, see `trajpipe.cli.terminal`.
"""

import re
from typing import Final

from rich.cells import cell_len
from rich.console import Console, JustifyMethod, OverflowMethod
from rich.containers import Lines
from rich.text import Text

_WORD: Final = re.compile(r"\S+")
_PART: Final = re.compile(r"[_\-/.]*[^_\-/.]+[_\-/]*|[_\-/.]+")


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
    found = []
    for word in _WORD.finditer(plain):
        if cell_len(word[0]) <= width:
            continue
        used = 0
        for part in _PART.finditer(word[0]):
            wide = cell_len(part[0])
            if used and used + wide > width:
                found.append(word.start() + part.start())
                used = 0
            used += wide
    return found
