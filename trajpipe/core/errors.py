"""The error tree: every error says the rule, the place, what was found, what was expected and what to do.

What is not here: findings (evidence of a check), see `trajpipe.core.findings`.
"""

from __future__ import annotations

import re
from typing import Any, Final

# C0 and C1 controls, and Unicode's own line and paragraph separators.
_BREAKS: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def on_one_line(value: object) -> str:
    """A value as text in which control characters and line ends are escapes: a name must not break a line."""
    text = str(value)
    return text if text.isprintable() else _BREAKS.sub(lambda found: repr(found[0])[1:-1], text)


def told(value: object) -> str:
    """What was found or expected, as text: prose keeps its lines, any other value is on one."""
    if not isinstance(value, str):
        return on_one_line(value)
    return "\n".join(on_one_line(line) for line in value.split("\n"))


def _message(
    rule: str, place: object | None, got: object | None, expected: object | None, hint: str | None
) -> str:
    text = f"{on_one_line(place)}: {rule}" if place is not None else rule
    if got is not None:
        text += f"; got {told(got)}"
    if expected is not None:
        text += f"; expected {told(expected)}"
    return f"{text}. {hint}" if hint else text


class TrajpipeError(Exception):
    """Base of every error that trajpipe raises on purpose.

    Args:
        rule: The rule that was broken, in one clause.
        place: Where: a path or a `trajpipe.core.findings.Place` (file, demo, column, row).
        got: What was found there.
        expected: What the rule wants.
        hint: The next thing to do, a full sentence.
        code: Stable kebab-case code; the class's own by default. It becomes the reason in the ledger.
    """

    code = "error"

    def __init__(
        self,
        rule: str,
        *,
        place: object | None = None,
        got: object | None = None,
        expected: object | None = None,
        hint: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(_message(rule, place, got, expected, hint))
        self.rule = rule
        self.place = place
        self.got = got
        self.expected = expected
        self.hint = hint
        self.code = code or type(self).code

    def __str__(self) -> str:
        return _message(self.rule, self.place, self.got, self.expected, self.hint)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.rule, self._keywords())

    def _keywords(self) -> dict[str, Any]:
        return {
            "place": self.place if self.place is None else str(self.place),
            "got": self.got if self.got is None else str(self.got),
            "expected": self.expected if self.expected is None else str(self.expected),
            "hint": self.hint,
            "code": self.code,
        }


def _rebuild(kind: type[TrajpipeError], rule: str, keywords: dict[str, Any]) -> TrajpipeError:
    return kind(rule, **keywords)


class InputError(TrajpipeError, ValueError):
    """The content of an input breaks a rule."""

    code = "bad-input"


class UnreadableError(TrajpipeError, OSError):
    """An input cannot be opened or read: truncated, not the format, a git-lfs pointer, a broken chunk."""

    code = "unreadable"


class UntrustedError(TrajpipeError, ValueError):
    """An input tries something that untrusted input may not do (external link, pickle call, path escape)."""

    code = "untrusted"


class SchemaError(InputError):
    """Names, shapes or dtypes of columns do not fit together."""

    code = "bad-schema"


class DTypeError(TrajpipeError, TypeError):
    """An array's dtype is not the declared one; nothing is cast silently."""

    code = "bad-dtype"


class RowIndexError(TrajpipeError, IndexError):
    """A row index lies outside the column or the window."""

    code = "row-out-of-range"


class MissingNameError(TrajpipeError, KeyError):
    """A column, table, task, dataset or kind of that name does not exist."""

    code = "no-such-name"


class StateError(TrajpipeError, RuntimeError):
    """A call came in the wrong order (append after close, end of an episode with uneven columns, …)."""

    code = "wrong-state"


class CatalogueError(TrajpipeError, ValueError):
    """The catalogue is not valid; the message names line, key and allowed values."""

    code = "bad-catalogue"


class UsageError(TrajpipeError, ValueError):
    """The command or call was given arguments that do not fit."""

    code = "bad-usage"


class OutputExistsError(TrajpipeError, FileExistsError):
    """The output exists and was not made by the same recipe; `--force` replaces it."""

    code = "output-exists"


class DiskSpaceError(TrajpipeError, OSError):
    """The file system has less free space than the output needs."""

    code = "no-space"


class LockedError(TrajpipeError, BlockingIOError):
    """Another live process holds the lock of this output, or an HDF5 file is being written."""

    code = "locked"


class IntegrityError(TrajpipeError, ValueError):
    """Bytes differ from their recorded hash."""

    code = "bad-hash"


class MissingExtraError(TrajpipeError, ImportError):
    """An optional package is needed; the message names the pip extra."""

    code = "missing-extra"
