"""What verbs print with: one JSON document, tables that fit, progress only on a terminal, a reader gone."""

import io
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from trajpipe.cli import terminal as terminal_module
from trajpipe.cli.bars import bars
from trajpipe.cli.terminal import Terminal, cell, finite, printable, table
from trajpipe_tests.cli.conftest import Command, command_line, environment


def test_text_under_json_goes_nowhere(capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal(json=True)
    terminal.print("text")
    terminal.note("hint")
    terminal.document({"b": 1, "a": [float("nan"), float("inf")]})
    captured = capsys.readouterr()
    assert captured.out == '{\n  "b": 1,\n  "a": [\n    "nan",\n    "inf"\n  ]\n}\n'
    assert captured.err == ""


def test_a_document_without_json_goes_nowhere(capsys: pytest.CaptureFixture[str]) -> None:
    Terminal().document({"a": 1})
    assert capsys.readouterr().out == ""


def test_plain_text_is_never_read_as_markup_and_lines_do_not_break(
    capsys: pytest.CaptureFixture[str],
) -> None:
    long = "[bold]not markup[/bold] :smile: " + "x" * 300
    Terminal().print(long)
    assert capsys.readouterr().out == f"{long}\n"


def test_lines_of_tables_have_no_trailing_spaces(capsys: pytest.CaptureFixture[str]) -> None:
    rows = table("a", "b")
    rows.add_row("longer cell", "")
    rows.add_row("x", "y")
    Terminal().print(rows)
    lines = capsys.readouterr().out.splitlines()
    assert [line.rstrip() for line in lines] == lines
    assert any(line.startswith("longer cell") for line in lines)


@pytest.mark.parametrize("width", [20, 40, 60])
def test_nothing_is_lost_when_the_terminal_is_narrow(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    rows = table("path", "value")
    path = "/a/very/long/path/that/does/not/fit/in/any/narrow/terminal.hdf5"
    rows.add_row(cell(path), cell("[red]42"))
    Terminal().print(rows)
    out = capsys.readouterr().out
    assert max(len(line) for line in out.splitlines()) <= width
    assert "…" not in out
    left = "".join(line[: width - 8].strip() for line in out.splitlines()[2:])
    assert path.replace("/", "") in left.replace("/", "").replace("[red]42", "")


def test_values_that_json_lacks_become_text() -> None:
    assert finite({"a": float("-inf"), "b": (1, 2.5, None)}) == {"a": "-inf", "b": [1, 2.5, None]}
    assert finite("caf\udce9").encode("utf-8").startswith(b"caf")


def test_printable_keeps_letters_of_all_scripts_and_line_ends() -> None:
    assert printable("立方体 · é\nx") == "立方体 · é\nx"
    assert printable("a\x1b[2Jb\x00\r") == "a\\x1b[2Jb\\x00\\x0d"
    printable("caf\udce9").encode("utf-8")


@pytest.mark.parametrize(
    ("verbose", "quiet", "level"),
    [
        (0, False, logging.WARNING),
        (1, False, logging.INFO),
        (2, False, logging.DEBUG),
        (5, True, logging.ERROR),
    ],
)
def test_log_levels(verbose: int, quiet: bool, level: int) -> None:
    Terminal(verbose=verbose, quiet=quiet).set_up_logging()
    assert logging.getLogger("trajpipe").level == level


def test_log_records_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    Terminal(verbose=1).set_up_logging()
    logging.getLogger("trajpipe.somewhere").info("read %d", 3)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "INFO trajpipe.somewhere: read 3\n")


def test_no_progress_unless_stderr_is_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TERM", raising=False)
    for terminal, is_terminal, drawn in (
        (Terminal(), False, False),
        (Terminal(quiet=True), True, False),
        (Terminal(), True, True),
    ):
        monkeypatch.setattr(Console, "is_terminal", is_terminal)
        with terminal.progress() as progress:
            progress("frames", 3, 7)
        captured = capsys.readouterr()
        assert captured.out == ""
        assert ("frames" in captured.err) is drawn


def test_a_bar_per_kind_of_work_that_vanishes_at_the_end() -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80, color_system=None)
    with bars(console) as progress:
        progress("frames", 0, 10)
        progress("frames", 5, 10)
        progress("demos", 1, None)
        progress("frames", 2, 20)
    text = screen.getvalue()
    assert "frames" in text
    assert "demos" in text
    assert "2/20" in text
    assert text.rstrip().endswith("\x1b[2K")


def test_a_reader_that_goes_away_ends_the_command_quietly(recording: Path) -> None:
    process = subprocess.Popen(
        command_line(["inspect", recording, "--json"]),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    err = process.stderr.read() if process.stderr else b""
    assert process.wait(60) == terminal_module.EXIT_BROKEN_PIPE
    assert err == b""


def test_output_that_the_encoding_lacks_is_replaced(trajpipe: Command, recording: Path) -> None:
    ran = trajpipe("inspect", recording, PYTHONIOENCODING="ascii")
    assert ran.code == 0
    assert "?" in ran.out


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are a POSIX thing")
def test_a_terminal_gets_colours_and_a_pipe_none(recording: Path) -> None:
    master, slave = os.openpty()
    process = subprocess.Popen(
        command_line(["check", recording]), env=environment(TERM="xterm-256color"), stdout=slave, stderr=slave
    )
    os.close(slave)
    shown = b""
    while True:
        try:
            block = os.read(master, 65536)
        except OSError:
            break
        if not block:
            break
        shown += block
    os.close(master)
    assert process.wait(60) == 0
    assert b"\x1b[" in shown
    assert b"checked" in shown
