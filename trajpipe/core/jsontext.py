"""Strict JSON text: sorted keys, UTF-8, no NaN token; the form of every JSON that we write.

What is not here: atomic writing, see `trajpipe.core.atomic`.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

from trajpipe.core.errors import InputError

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
# A pair of halves, one code unit, or any other escape: read from left to right, an escaped backslash is one.
_ESCAPE: Final = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u([0-9a-fA-F]{4})|.)", re.DOTALL
)


def dumps(value: Any, *, indent: int | None = None, sort_keys: bool = True) -> str:
    """Strict JSON text of a plain value; always encodable as UTF-8.

    Lone surrogates (undecodable bytes of a recording's text) are escaped, so that `loads` gives them back.

    Raises:
        InputError: the value holds a NaN or an infinity, or holds itself.
    """
    try:
        text = json.dumps(
            value,
            ensure_ascii=False,
            allow_nan=False,
            sort_keys=sort_keys,
            indent=indent,
            separators=(",", ": ") if indent else (",", ":"),
        )
    except ValueError as error:
        raise InputError("JSON holds finite numbers only, and no value holds itself", got=error) from error
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def loads(text: str | bytes, *, place: object | None = None) -> Any:
    """Parse strict JSON.

    Args:
        text: UTF-8 text.
        place: Named in the error.

    Raises:
        InputError: not JSON, or it holds a bare NaN or Infinity, or an integer of thousands of digits.
    """

    def refuse(token: str) -> NoReturn:
        raise InputError("JSON must not hold a bare number token of this kind", place=place, got=token)

    try:
        return json.loads(text, parse_constant=refuse)
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError("text is not JSON", place=place, got=error) from error


def lone_surrogate(text: str) -> str | None:
    """The first escape in JSON text of half a surrogate pair, which no UTF-8 text can hold; None without one.

    U+DC80 to U+DCFF pass: `dumps` writes undecodable bytes as these.
    """
    for found in _ESCAPE.finditer(text):
        code = int(found[1], 16) if found[1] else 0
        if 0xD800 <= code <= 0xDFFF and not 0xDC80 <= code <= 0xDCFF:
            return found[0]
    return None
