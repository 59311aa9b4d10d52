"""Tests of the error tree: what a message says, what survives pickling, which builtins a leaf is.

What is not here: where the errors are raised.
"""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from trajpipe.core import errors
from trajpipe.core.errors import InputError, MissingNameError, TrajpipeError, UnreadableError
from trajpipe.core.findings import Finding, Place, Severity
from trajpipe.core.ledger import Rejection

LEAVES = [
    (errors.InputError, ValueError, "bad-input"),
    (errors.UnreadableError, OSError, "unreadable"),
    (errors.UntrustedError, ValueError, "untrusted"),
    (errors.SchemaError, InputError, "bad-schema"),
    (errors.DTypeError, TypeError, "bad-dtype"),
    (errors.RowIndexError, IndexError, "row-out-of-range"),
    (errors.MissingNameError, KeyError, "no-such-name"),
    (errors.StateError, RuntimeError, "wrong-state"),
    (errors.CatalogueError, ValueError, "bad-catalogue"),
    (errors.UsageError, ValueError, "bad-usage"),
    (errors.OutputExistsError, FileExistsError, "output-exists"),
    (errors.DiskSpaceError, OSError, "no-space"),
    (errors.LockedError, BlockingIOError, "locked"),
    (errors.IntegrityError, ValueError, "bad-hash"),
    (errors.MissingExtraError, ImportError, "missing-extra"),
]
EVERY = pytest.mark.parametrize(("kind", "builtin", "code"), LEAVES, ids=[k.__name__ for k, _, _ in LEAVES])


def test_the_table_of_leaves_is_complete() -> None:
    defined = {
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, TrajpipeError) and value is not TrajpipeError
    }
    assert defined == {kind for kind, _, _ in LEAVES}


@EVERY
def test_each_leaf_is_a_builtin_and_has_its_code(
    kind: type[TrajpipeError], builtin: type[Exception], code: str
) -> None:
    with pytest.raises(builtin) as caught:
        raise kind("a rule")
    assert isinstance(caught.value, TrajpipeError)
    assert caught.value.code == code


@EVERY
def test_each_leaf_says_everything_in_one_message(
    kind: type[TrajpipeError], builtin: type[Exception], code: str
) -> None:
    error = kind("a rule", place="x.hdf5", got=3, expected=4, hint="Record it again.")
    assert str(error) == "x.hdf5: a rule; got 3; expected 4. Record it again."


@EVERY
def test_each_leaf_survives_pickling(kind: type[TrajpipeError], builtin: type[Exception], code: str) -> None:
    error = kind(
        "a rule",
        place=Place("x.hdf5", "demo_1", "actions", 7),
        got=[1],
        expected={2},
        hint="Do.",
        code="my-code",
    )
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is kind
    assert str(back) == str(error) == "x.hdf5 · demo_1 · actions · row 7: a rule; got [1]; expected {2}. Do."
    assert (back.rule, back.code, back.hint) == ("a rule", "my-code", "Do.")


def test_parts_that_are_not_given_leave_no_trace() -> None:
    assert str(InputError("a rule")) == "a rule"
    assert str(InputError("a rule", got=0)) == "a rule; got 0"
    assert str(InputError("a rule", hint="Do.")) == "a rule. Do."


def test_a_falsy_place_or_value_is_still_said() -> None:
    assert str(InputError("a rule", place="", expected=False)) == ": a rule; expected False"


def test_a_key_error_does_not_quote_its_message() -> None:
    assert str(MissingNameError("no such column", got="acton")) == "no such column; got acton"


def test_an_os_error_keeps_no_errno_of_its_own() -> None:
    assert UnreadableError("truncated", place="x").errno is None


def test_a_code_given_replaces_the_class_s_own_for_that_error_only() -> None:
    assert UnreadableError("cut", code="truncated").code == "truncated"
    assert UnreadableError("cut").code == "unreadable"


def test_a_name_never_breaks_the_line() -> None:
    name = "a\nb\r\x1b[2J\x85\u2028.hdf5"
    shown = r"a\nb\r\x1b[2J\x85\u2028.hdf5"
    place = Place(name, "demo\n1", "obs/\tx", 3)
    assert str(place) == rf"{shown} · demo\n1 · obs/\tx · row 3"
    assert str(InputError("a rule", place=Path(name), got=Path(name))) == f"{shown}: a rule; got {shown}"
    assert str(Finding("code", Severity.WARN, "said", place)).count("\n") == 0
    assert str(Rejection(name, "demo\n1", "why")) == rf"{shown}:demo\n1 why"
    assert str(InputError("a rule", place="立方体 é")) == "立方体 é: a rule"


def test_prose_keeps_its_lines_and_nothing_else() -> None:
    assert str(InputError("a rule", got="one:\n  two\x1b", expected="x\ty")) == (
        "a rule; got one:\n  two\\x1b; expected x\\ty"
    )
