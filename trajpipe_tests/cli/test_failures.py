"""Errors as people read them: rule, place, got, expected, hint; exit code 2; tracebacks on request."""

import errno
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from trajpipe.cli import app, failures
from trajpipe.cli.stopping import Stop, signals_handled
from trajpipe.cli.terminal import Terminal
from trajpipe.core.errors import InputError, UnreadableError
from trajpipe.core.findings import Place
from trajpipe.core.temporaries import temporary_beside
from trajpipe_tests.cli.conftest import Command, environment

FULL = InputError(
    "actions must be finite",
    place=Place("a.hdf5", "demo_3", "actions", 12),
    got="nan",
    expected="finite numbers",
    hint="Record it again.",
    code="nan-action",
)


def test_an_error_is_told_in_five_lines(capsys: pytest.CaptureFixture[str]) -> None:
    failures.show(FULL, Terminal())
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "error [nan-action] actions must be finite",
        "  at        a.hdf5 · demo_3 · actions · row 12",
        "  got       nan",
        "  expected  finite numbers",
        "  hint      Record it again.",
    ]


def test_what_is_not_known_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    failures.show(InputError("no demos", code="no-demos"), Terminal())
    assert capsys.readouterr().err == "error [no-demos] no demos\n"


def test_json_has_the_same_parts_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    failures.show(FULL, Terminal(json=True))
    captured = capsys.readouterr()
    assert '"rule": "actions must be finite"' in captured.out
    assert '"place": "a.hdf5 · demo_3 · actions · row 12"' in captured.out
    assert "actions must be finite" in captured.err


def test_further_lines_of_a_hint_are_indented(capsys: pytest.CaptureFixture[str]) -> None:
    failures.show(InputError("undeclared", hint="Add:\nquaternions:\n  - path: obs/quat"), Terminal())
    lines = capsys.readouterr().err.splitlines()
    assert lines[1:] == [
        "  hint      Add:",
        "            quaternions:",
        "              - path: obs/quat",
    ]


def test_control_characters_of_a_file_cannot_drive_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    failures.show(InputError("bad name", got="\x1b]0;title\x07demo"), Terminal())
    err = capsys.readouterr().err
    assert "\x1b" not in err
    assert "\\x1b]0;title\\x07demo" in err


def test_a_failed_write_names_its_destination(tmp_path: Path) -> None:
    target = tmp_path / "x.h5"
    error = PermissionError(errno.EACCES, "Permission denied", str(temporary_beside(target)))
    assert failures.describe(error)["place"] == str(target)


@pytest.mark.parametrize(
    ("error", "code", "rule", "hint"),
    [
        (
            PermissionError(errno.EACCES, "Permission denied", "/x"),
            "eacces",
            "permission denied",
            "Check the perm",
        ),
        (
            OSError(errno.ENOSPC, "No space left on device"),
            "enospc",
            "no space left on device",
            "nothing half",
        ),
        (FileNotFoundError(errno.ENOENT, "No such file", "/x"), "enoent", "no such file", "Check the path."),
        (MemoryError(), "no-memory", "out of memory", "fewer --jobs"),
        (ZeroDivisionError("oh"), "internal", "ZeroDivisionError: oh", "This is a bug of trajpipe"),
    ],
)
def test_errors_of_the_system_are_errors_like_others(
    error: Exception, code: str, rule: str, hint: str
) -> None:
    parts = failures.describe(error)
    assert (parts["code"], parts["rule"]) == (code, rule)
    assert hint in parts["hint"]


def test_an_error_of_ours_that_is_an_oserror_keeps_its_own_words() -> None:
    parts = failures.describe(UnreadableError("the file is truncated", got="5 bytes", code="truncated"))
    assert parts == {"code": "truncated", "rule": "the file is truncated", "got": "5 bytes"}


@pytest.mark.parametrize(("debug", "shown"), [("", False), ("0", False), ("1", True)])
def test_a_traceback_only_when_asked_for(
    invoke: Command, monkeypatch: pytest.MonkeyPatch, debug: str, shown: bool
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(app, "build", broken)
    ran = invoke("version", TRAJPIPE_DEBUG=debug)
    assert ran.code == 2
    assert ran.out == ""
    assert "error [internal] ZeroDivisionError: a bug" in ran.err
    assert ("Traceback" in ran.err) is shown


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGTERM, 143, "terminated"),
        (signal.SIGHUP, 129, "the terminal hung up"),
    ],
)
@pytest.mark.parametrize("swallowed", [None, RuntimeError, SystemError])
def test_being_stopped_is_said_in_one_line(
    invoke: Command,
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
    code: int,
    word: str,
    swallowed: type[Exception] | None,
) -> None:
    """Also when a C callback makes another exception of it."""

    def stopped(*_: object, **__: object) -> None:
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt as stop:
            raise (stop if swallowed is None else swallowed("lost")) from stop

    before = signal.getsignal(number)
    monkeypatch.setattr(app, "build", stopped)
    ran = invoke("version")
    assert ran.code == code
    assert ran.out == ""
    assert ran.err.strip().splitlines() == [
        f"{word}: nothing half-written was left; run the same command to go on"
    ]
    assert signal.getsignal(number) is before


def test_a_request_to_stop_that_got_lost_comes_back_at_the_next_step() -> None:
    with signals_handled() as stopping, Terminal().progress() as progress:
        progress("demos", 1, 2)
        with pytest.raises(Stop):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(Stop):
            progress("demos", 2, 2)
        assert stopping.code == 130


def test_a_second_request_lets_the_cleaning_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    with signals_handled():
        with pytest.raises(Stop):
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
    assert "once more ends at once" in capsys.readouterr().err


def test_a_third_request_ends_at_once() -> None:
    script = """
import os, signal
from trajpipe.cli.stopping import signals_handled
with signals_handled():
    for _ in range(3):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            pass
    print("still here")
"""
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (130, "")


def test_an_absent_file_names_one_beside_it(invoke: Command, recording: Path) -> None:
    ran = invoke("inspect", recording.with_name("tak.hdf5"))
    assert ran.code == 2
    assert ran.err.startswith("error [missing-file] no such file or folder\n")
    assert f"Did you mean {recording}?" in ran.err


def test_json_errors_are_the_one_document(invoke: Command) -> None:
    ran = invoke("inspect", "absent.hdf5", "--json")
    assert ran.code == 2
    assert ran.json["error"]["code"] == "missing-file"
    assert ran.json["error"]["place"] == "absent.hdf5"


def test_a_usage_error_under_json_is_json_too(invoke: Command) -> None:
    assert invoke("--json", "inspect").json["error"]["code"] == "bad-usage"
