"""Child processes for the tests of atomic outputs and locks: started, spoken to, killed.

What is not here: the tests.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Run Python code in a process of its own; `sys.argv[1:]` are the arguments."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def line_of(process: subprocess.Popen[str]) -> str:
    """Its next line; what it said on standard error when it ended instead."""
    assert process.stdout is not None
    assert process.stderr is not None
    line = process.stdout.readline().strip()
    return line or process.stderr.read()


def end(process: subprocess.Popen[str]) -> int:
    """Close its standard input and wait for it."""
    process.communicate(timeout=60)
    return process.returncode


def kill(process: subprocess.Popen[str]) -> None:
    """SIGKILL, and wait until it is gone."""
    process.kill()
    process.communicate(timeout=60)


def dead_pid() -> int:
    """The pid of a process that has ended and was waited for."""
    process = start("")
    end(process)
    return process.pid
