"""Field types of the catalogue that accept more than one form, and the text of their errors.

What is not here: the models that use them, see `trajpipe.pipeline.catalogue_model`.
"""

from __future__ import annotations

import re
import zoneinfo
from fractions import Fraction
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema
from pydantic_core import PydanticCustomError

from trajpipe.core import names
from trajpipe.pipeline.catalogue_problems import did_you_mean

NAME_PATTERN: Final = r"[A-Za-z_][A-Za-z0-9_]*"
TERM_PATTERN: Final = r"[A-Za-z_][A-Za-z0-9_.]*"

_EMAIL: Final = re.compile(r"[A-Za-z0-9._%+\-]+@[A-Za-z0-9.\-]+\.[A-Za-z]{2,}")
_TEAM: Final = re.compile(r"team:[A-Za-z0-9_\-.]+")
_CRON_RANGE: Final = re.compile(r"(?:\*|([0-9A-Za-z]+)(?:-([0-9A-Za-z]+))?)(?:/([1-9][0-9]*))?")
_CRON_LIMITS: Final = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_MONTHS: Final = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_WEEKDAYS: Final = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_CRON_WORDS: Final = ("@hourly", "@daily", "@weekly", "@monthly", "@yearly")


def problem(rule: str, expected: str | None = None, hint: str | None = None) -> PydanticCustomError:
    """A validation error that carries our own words: rule, what is expected, what to do."""
    return PydanticCustomError("trajpipe", "{rule}", {"rule": rule, "expected": expected, "hint": hint})


def _one_or_many(value: Any) -> Any:
    if not isinstance(value, (str, list, tuple)):
        raise problem("the value has the wrong type", "text, or a list of texts")
    return [value] if isinstance(value, str) else value


def _rate(value: Any) -> Fraction:
    """Frames per second: int, float or "30000/1001"; a float is taken as the decimal it is written as."""
    expected = 'a positive number, or a fraction in quotes such as "30000/1001"'
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Fraction)):
        raise problem("a rate must be a number", expected)
    try:
        rate = Fraction(repr(value) if isinstance(value, float) else value)
    except (ValueError, ZeroDivisionError) as error:
        raise problem("a rate must be a number", expected) from error
    if rate <= 0:
        raise problem("a rate must be above 0", expected)
    return rate


def _terms_or_flag(value: Any) -> Any:
    if isinstance(value, bool):
        return ["*"] if value else []
    return value


def _cron(value: str) -> str:
    fields = value.split()
    if value in _CRON_WORDS or (len(fields) == 5 and all(map(_cron_field, range(5), fields))):
        return value
    expected = f'five fields (minute hour day month weekday) such as "0 3 * * *", or {", ".join(_CRON_WORDS)}'
    raise problem("a cron schedule is not valid", expected)


def _cron_field(index: int, text: str) -> bool:
    """True when a field holds ranges of numbers (or names) within its limits, separated by commas."""
    low, high = _CRON_LIMITS[index]
    words = {3: dict(zip(_MONTHS, range(1, 13), strict=True)), 4: dict(zip(_WEEKDAYS, range(7), strict=True))}
    for part in text.split(","):
        match = _CRON_RANGE.fullmatch(part)
        if match is None:
            return False
        ends = [words.get(index, {}).get(end.lower(), end) for end in match.group(1, 2) if end is not None]
        if not all(str(end).isdigit() and low <= int(end) <= high for end in ends):
            return False
        if len(ends) == 2 and int(ends[0]) > int(ends[1]):
            return False
    return True


def _timezone(value: str) -> str:
    try:
        zoneinfo.ZoneInfo(value)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise problem("no such time zone", "an IANA name such as UTC or Europe/Berlin") from error
    return value


def _owner(value: str) -> str:
    if _EMAIL.fullmatch(value) or _TEAM.fullmatch(value):
        return value
    raise problem("an owner is not valid", "an e-mail address or `team:<name>`")


def _tag(value: str) -> str:
    known = [tag.value for tag in names.Tag]
    if value in known:
        return value
    raise problem("a tag is not valid", f"one of {', '.join(known)}", did_you_mean(value, known))


def _matching(pattern: str, rule: str, expected: str) -> AfterValidator:
    def check(value: str) -> str:
        if re.fullmatch(pattern, value):
            return value
        raise problem(rule, expected)

    return AfterValidator(check)


_STRINGS: Final[dict[str, Any]] = {"type": "array", "items": {"type": "string"}}

OneOrMany = Annotated[
    tuple[str, ...],
    Field(min_length=1, strict=False),
    BeforeValidator(_one_or_many),
    WithJsonSchema({"anyOf": [{"type": "string"}, _STRINGS | {"minItems": 1}]}),
]
"""One string or a list of strings."""

Rate = Annotated[
    Fraction,
    BeforeValidator(_rate),
    Field(strict=False),
    PlainSerializer(str, return_type=str),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0},
                {"type": "string", "pattern": "^[0-9]+/[0-9]+$"},
            ]
        }
    ),
]
"""Frames per second, exact."""

TermsOrFlag = Annotated[
    tuple[str, ...],
    Field(strict=False),
    BeforeValidator(_terms_or_flag),
    WithJsonSchema({"anyOf": [{"type": "boolean"}, _STRINGS]}),
]
"""true (all), false (none) or a list of names or patterns."""

Cron = Annotated[str, AfterValidator(_cron)]
TimeZone = Annotated[str, AfterValidator(_timezone)]
Owner = Annotated[str, AfterValidator(_owner)]
_NAME_RULE: Final = "letters, digits and _, not beginning with a digit"
DatasetName = Annotated[str, _matching(NAME_PATTERN, "a dataset's name is not valid", _NAME_RULE)]
TaskName = Annotated[str, _matching(NAME_PATTERN, "a task's name is not valid", _NAME_RULE)]
Tag = Annotated[str, AfterValidator(_tag), WithJsonSchema({"type": "string", "enum": list(names.Tag)})]
"""Where episodes came from."""
TermName = Annotated[
    str,
    _matching(
        TERM_PATTERN, "a term's name is not valid", "letters, digits, _ and ., not beginning with a digit"
    ),
]
_HUB_NAME: Final = r"[A-Za-z0-9][\w.\-]*/[A-Za-z0-9_][\w.\-]*"
HubRevision = Annotated[
    str,
    _matching(
        rf"{_HUB_NAME}@[\w.\-/]+",
        "a Hub address is not valid",
        "<organisation or user>/<name>@<tag or commit>",
    ),
]
"""A repository at a revision."""
HubTag = Annotated[
    str, _matching(r"[A-Za-z0-9][\w.\-]*", "a tag is not valid", "letters, digits, `.`, `_` and `-`")
]
HubRepository = Annotated[
    str, _matching(r"[\w.\-]+/[\w.\-]+", "a Hub repository is not valid", "<organisation or user>/<name>")
]
