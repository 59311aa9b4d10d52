"""`main()`: runs the command line and turns its end into an exit code.

0 fine · 1 findings · 2 could not run (usage errors included) · 130 interrupted · 143 terminated.
What is not here: the verbs, see `trajpipe.cli.app`.
"""

import io
import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

from trajpipe.cli import app, failures
from trajpipe.cli.terminal import EXIT_COULD_NOT, EXIT_FINE, EXIT_INTERRUPTED, EXIT_TERMINATED, Terminal


class _Terminated(BaseException):
    """SIGTERM came: unwinds the stack, so that temporaries are removed."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `trajpipe` with these arguments (by default those of the process).

    Returns:
        The exit code. Nothing but the exit of a broken pipe is raised.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    _be_robust()
    terminal = Terminal(json="--json" in given, no_color="--no-color" in given)
    try:
        code = _run(given, terminal)
        sys.stdout.flush()
    except _Terminated:
        return _stopped("terminated", EXIT_TERMINATED)
    except KeyboardInterrupt:
        return _stopped("interrupted", EXIT_INTERRUPTED)
    except Exception as error:  # noqa: BLE001  (the last net: an error text instead of a traceback)
        failures.show(error, terminal)
        return EXIT_COULD_NOT
    return code if code != EXIT_INTERRUPTED else _stopped("interrupted", EXIT_INTERRUPTED)


def _run(given: list[str], terminal: Terminal) -> int:
    """Run the verb; a usage error of no arguments at all is the help text."""
    if not given:
        given = ["--help"]
    result = app.build().main(given, prog_name="trajpipe", standalone_mode=False, obj=terminal)
    return result if isinstance(result, int) else EXIT_FINE


def _stopped(how: str, code: int) -> int:
    sys.stderr.write(f"\n{how}: nothing half-written was left; run the same command to go on\n")
    return code


def _be_robust() -> None:
    """SIGTERM unwinds like Ctrl-C; characters that the terminal lacks are replaced, not an error."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    in_main = threading.current_thread() is threading.main_thread()
    if in_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _on_sigterm)


def _on_sigterm(_number: int, _frame: FrameType | None) -> NoReturn:
    raise _Terminated


if __name__ == "__main__":
    sys.exit(main())
