"""Errors as people read them: rule, place, got, expected, hint; as JSON under `--json`.

What is not here: exit codes of findings; a failure always means "could not run", exit code 2.
"""

import errno
import os
import re
import sys
import traceback
from collections.abc import Callable
from typing import Any, Final

import typer

from trajpipe.cli.terminal import Terminal, printable, write_text
from trajpipe.core import jsontext
from trajpipe.core.errors import TrajpipeError, on_one_line, told
from trajpipe.core.temporaries import targets_named

_BUG_HINT: Final = "This is a bug of trajpipe: run it again with -v -v and report what it prints."
_OPTION_HINTS: Final = {
    "--output": "The output is the last argument: SRC… DEST.",
    "--out": "The output is the last argument: SRC… DEST.",
    "-o": "The output is the last argument: SRC… DEST.",
    "--input": "Inputs are arguments, without an option.",
    "-i": "Inputs are arguments, without an option.",
    "--path": "Paths are arguments, without an option.",
    "--dataset": "Datasets are arguments, without an option.",
    "-d": "Datasets are arguments, without an option.",
    "--format": "The target is named with --to.",
    "--workers": "Workers are counted with --jobs.",
    "--num-workers": "Workers are counted with --jobs.",
    "--config": "The catalogue is named with --catalogue.",
    "--data": "The data folder is named with --root.",
    "--overwrite": "What exists is replaced with --force.",
    "--yes": "Nothing is asked; what exists is replaced with --force.",
    "--debug": "Tracebacks are shown with -v -v.",
}
_VALUE_WORDS: Final = (
    (r"Input should be less than or equal to (\S+)", r"at most \1 is allowed"),
    (r"Input should be greater than or equal to (\S+)", r"at least \1 is needed"),
    (r"Input should be a valid integer.*", "a whole number is needed"),
    (r"Input should be a valid number.*", "a number is needed"),
)
_LINES: Final = ("place", "got", "expected", "hint")
_OS_HINTS: Final = {
    errno.ENOENT: "Check the path.",
    errno.EACCES: "Check the permissions of the file and of the folders above it.",
    errno.EROFS: "Choose an output on a file system that can be written.",
    errno.ENOSPC: "Free some space or choose another place; nothing half-written is left.",
    errno.EDQUOT: "Free some of your quota or choose another place; nothing half-written is left.",
}


def describe(error: BaseException) -> dict[str, str]:
    """The parts of an error that are known: `code`, `rule`, `place`, `got`, `expected`, `hint`."""
    if isinstance(error, TrajpipeError):
        parts: dict[str, object | None] = {
            "code": error.code,
            "rule": error.rule,
            "place": error.place,
            "got": error.got,
            "expected": error.expected,
            "hint": error.hint,
        }
    elif isinstance(error, typer.TyperException):
        parts = _of_usage(error)
    elif isinstance(error, OSError) and error.errno is not None:
        parts = {
            "code": errno.errorcode.get(error.errno, "os-error").lower(),
            "rule": (error.strerror or "the system refused").lower(),
            "place": error.filename,
            "hint": _OS_HINTS.get(error.errno),
        }
    elif isinstance(error, MemoryError):
        parts = {"code": "no-memory", "rule": "out of memory", "hint": "Run with fewer --jobs."}
    else:
        parts = {"code": "internal", "rule": f"{type(error).__name__}: {error}", "hint": _BUG_HINT}
    return {key: targets_named(_text(key, value)) for key, value in parts.items() if value is not None}


def _text(key: str, value: object) -> str:
    """Rules and hints may have lines of their own; a place has one."""
    return on_one_line(value) if key == "place" else told(value) if key in ("got", "expected") else str(value)


def _of_usage(error: typer.TyperException) -> dict[str, object | None]:
    context: Any = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "trajpipe"
    rule = error.format_message().rstrip(".").replace("Missing command", "a verb is missing")
    rule = _plainly(rule)
    first, _, rest = rule.partition(" Did you mean ")
    known = _OPTION_HINTS.get(str(getattr(error, "option_name", "")), f"Did you mean {rest}" if rest else "")
    return {
        "code": "bad-usage",
        "rule": first[:1].lower() + first[1:].rstrip("."),
        "hint": f"{known} See `{path} --help`.".strip(),
    }


def _plainly(rule: str) -> str:
    """The rule without the words of the library that parses values."""
    for theirs, ours in _VALUE_WORDS:
        rule = re.sub(theirs, ours, rule)
    return rule


def show(error: BaseException, terminal: Terminal) -> None:
    """Print an error on stderr, and under `--json` as the one document on stdout; a traceback under `-vv`."""
    parts = describe(error)
    if terminal.json:
        write_text(jsontext.dumps({"error": parts}, indent=2) + "\n")
    if terminal.debug:
        traceback.print_exception(error)
    paint = _painter(terminal)
    lines = [f"{paint('error', '1;31')} {paint('[' + parts['code'] + ']', '2')} {printable(parts['rule'])}"]
    lines += [_line(key, parts[key], paint) for key in _LINES if key in parts]
    sys.stderr.write("\n".join(lines) + "\n")


def _line(key: str, text: str, paint: Callable[[str, str], str]) -> str:
    first, *rest = printable(text).split("\n")
    label = "at" if key == "place" else key
    indented = [f"{'':12}{line}" for line in rest]
    return "\n".join([f"  {paint(f'{label:<9}', '2')} {first}", *indented])


def _painter(terminal: Terminal) -> Callable[[str, str], str]:
    """A function that styles text for stderr, or leaves it: Rich is too slow to load for one line."""
    plain = terminal.no_color or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if plain or not sys.stderr.isatty():
        return lambda text, _style: text
    return lambda text, style: f"\x1b[{style}m{text}\x1b[0m"
