"""Text, tables and inert data for a page: everything that comes from data is escaped here.

What is not here: what a page shows, see `html_overview`; its layout, see `html_page`.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any, Final

from trajpipe.core import jsontext

MAX_TEXT: Final = 600
_NOT_SHOWN: Final = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 127), "\N{REPLACEMENT CHARACTER}")
_IN_SCRIPT: Final = {
    ord(c): f"\\u{ord(c):04x}" for c in ("<", ">", "&", "\N{LINE SEPARATOR}", "\N{PARAGRAPH SEPARATOR}")
}


class Markup(str):
    """Text that is HTML already: made by the functions here, never from data."""

    __slots__ = ()


def escaped(value: object, limit: int = MAX_TEXT) -> Markup:
    """A value as HTML text that is safe between tags and in quoted attributes.

    Args:
        value: Anything; `Markup` is kept as it is.
        limit: Most characters; what is longer is cut and says so.
    """
    if isinstance(value, Markup):
        return value
    text = shortened(str(value), limit).translate(_NOT_SHOWN)
    return Markup(html.escape(text.encode("utf-8", "replace").decode("utf-8"), quote=True))


def shortened(text: str, limit: int = MAX_TEXT) -> str:
    """A text of at most so many characters; what is cut off is counted."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit:,} characters more)"


def element(tag: str, *content: object, cls: str = "") -> Markup:
    """`<tag class="…">content</tag>`; content that is no `Markup` is escaped."""
    attribute = f' class="{cls}"' if cls else ""
    return Markup(f"<{tag}{attribute}>{''.join(escaped(c) for c in content)}</{tag}>")


def joined(parts: Sequence[object], between: str = "") -> Markup:
    """Parts one after another; those that are no `Markup` are escaped."""
    return Markup(between.join(escaped(p) for p in parts))


def table(headers: Sequence[str], rows: Sequence[Sequence[object]], *, right: Sequence[str] = ()) -> Markup:
    """A table; columns named in `right` are right-aligned."""
    classes = ["n" if h in right else "" for h in headers]
    head = [element("th", h, cls=c) for h, c in zip(headers, classes, strict=True)]
    body = [
        element("tr", *(element("td", v, cls=c) for v, c in zip(row, classes, strict=True))) for row in rows
    ]
    inner = element("thead", element("tr", *head)), element("tbody", *body)
    return element("div", element("table", *inner), cls="wide")


def picture(data_uri: str, words: str) -> Markup:
    """A picture inside the page.

    Args:
        data_uri: `data:image/…;base64,…`.
        words: What is read aloud for it.
    """
    return Markup(f'<img src="{escaped(data_uri, len(data_uri))}" alt="{escaped(words)}">')


def data_block(name: str, value: Any) -> str:
    """An inert `<script type="application/json">`: no text in it can end it or begin another.

    Args:
        name: The element's id, made of letters, digits and `-`.
        value: Plain JSON values.

    Raises:
        InputError: the value holds a NaN or an infinity.
    """
    text = jsontext.dumps(value).translate(_IN_SCRIPT)
    return f'<script type="application/json" id="{name}">{text}</script>\n'
