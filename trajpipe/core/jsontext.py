"""Strict JSON text: sorted keys, UTF-8, no NaN token; the form of every JSON that we write.

What is not here: atomic writing, see `trajpipe.core.atomic`.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from trajpipe.core.errors import InputError


def dumps(value: Any, *, indent: int | None = None, sort_keys: bool = True) -> str:
    """Strict JSON text of a plain value.

    Raises:
        InputError: the value holds a NaN or an infinity.
    """
    try:
        return json.dumps(
            value,
            ensure_ascii=False,
            allow_nan=False,
            sort_keys=sort_keys,
            indent=indent,
            separators=(",", ": ") if indent else (",", ":"),
        )
    except ValueError as error:
        raise InputError("JSON must not hold NaN or infinity", got=error) from error


def loads(text: str | bytes, *, place: object | None = None) -> Any:
    """Parse strict JSON.

    Args:
        text: UTF-8 text.
        place: Named in the error.

    Raises:
        InputError: not JSON, or it holds a bare NaN or Infinity.
    """

    def refuse(token: str) -> NoReturn:
        raise InputError("JSON must not hold a bare number token of this kind", place=place, got=token)

    try:
        return json.loads(text, parse_constant=refuse)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError("text is not JSON", place=place, got=error) from error
