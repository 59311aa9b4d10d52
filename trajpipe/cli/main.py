"""`main()`: runs the command line and turns its end into an exit code.

0 fine · 1 findings · 2 could not run (usage errors included) · 129 terminal closed · 130 interrupted ·
143 terminated.
What is not here: the verbs, see `trajpipe.cli.app`.
"""

import io
import sys
from collections.abc import Sequence
from contextlib import suppress

from trajpipe.cli import app, failures
from trajpipe.cli.stopping import signals_handled, word_of
from trajpipe.cli.terminal import EXIT_COULD_NOT, EXIT_FINE, EXIT_INTERRUPTED, Terminal


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `trajpipe` with these arguments (by default those of the process).

    Returns:
        The exit code. Nothing but the exit of a broken pipe is raised.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    terminal = Terminal(json="--json" in given, no_color="--no-color" in given)
    with signals_handled() as stopping:
        try:
            code = _run(given, terminal)
            sys.stdout.flush()
        except KeyboardInterrupt:
            code = EXIT_INTERRUPTED
        except Exception as error:  # noqa: BLE001  (the last net: an error text instead of a traceback)
            if stopping.code is None:
                failures.show(error, terminal)
                return EXIT_COULD_NOT
            code = EXIT_INTERRUPTED
        if stopping.code is not None or code == EXIT_INTERRUPTED:
            return _stopped(stopping.code or EXIT_INTERRUPTED)
    return code


def _run(given: list[str], terminal: Terminal) -> int:
    """Run the verb; no arguments at all print the help."""
    result = app.build().main(given or ["--help"], prog_name="trajpipe", standalone_mode=False, obj=terminal)
    return result if isinstance(result, int) else EXIT_FINE


def _stopped(code: int) -> int:
    from trajpipe.core import atomic

    atomic.remove_own()
    with suppress(OSError):  # the terminal may be gone
        sys.stderr.write(f"\n{word_of(code)}: nothing half-written was left; run the same command to go on\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
