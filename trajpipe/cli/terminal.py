"""What a verb prints with: data on stdout (text or one JSON document), progress and logs on stderr.

What is not here: the words of errors (`trajpipe.cli.failures`), and what a verb prints.
"""

import logging
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from trajpipe.core.progress import Progress

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

PIPED_WIDTH: Final = 120
EXIT_FINE: Final = 0
EXIT_FINDINGS: Final = 1
EXIT_COULD_NOT: Final = 2
EXIT_HUNG_UP: Final = 129
EXIT_INTERRUPTED: Final = 130
EXIT_BROKEN_PIPE: Final = 141
EXIT_TERMINATED: Final = 143


@dataclass(slots=True)
class Terminal:
    """The global options, and the two streams under them.

    Attributes:
        json: One JSON document on stdout instead of text.
        verbose: How often `-v` was given: 1 shows log lines, 2 debug lines and tracebacks.
        quiet: No progress, no hints, no log lines below an error.
        no_color: No escape sequences at all.
        force: Rebuild or replace what exists.
    """

    json: bool = False
    verbose: int = 0
    quiet: bool = False
    no_color: bool = False
    force: bool = False
    _consoles: "dict[str, Console]" = field(default_factory=dict)

    @property
    def out(self) -> "Console":
        """The console of stdout: data."""
        return self._console("stdout")

    @property
    def err(self) -> "Console":
        """The console of stderr: progress, logs, errors."""
        return self._console("stderr")

    @property
    def debug(self) -> bool:
        """True when tracebacks are wanted."""
        return self.verbose >= 2 or os.environ.get("TRAJPIPE_DEBUG", "") not in ("", "0")

    @property
    def width(self) -> int:
        """Columns of stdout."""
        return self.out.width

    def _console(self, name: str) -> "Console":
        if name not in self._consoles:
            self._consoles[name] = _new_console(name, self.no_color)
        return self._consoles[name]

    def print(self, *renderables: "RenderableType") -> None:
        """Print text or tables on stdout; nothing under `--json`. Plain `str` is never read as markup."""
        if not self.json:
            with self.out.capture() as captured:
                for item in renderables:
                    self.out.print(item, markup=False, highlight=False, soft_wrap=isinstance(item, str))
            write_text("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))

    def note(self, text: str) -> None:
        """A hint or a state for people on stderr; nothing under `-q` or `--json`."""
        if not self.quiet and not self.json:
            self.err.print(text, markup=False, highlight=False, soft_wrap=True, style="dim")

    def document(self, value: Mapping[str, Any]) -> None:
        """Print the one JSON document of `--json`; nothing without it."""
        if self.json:
            from trajpipe.core import jsontext

            write_text(jsontext.dumps(finite(value), indent=2, sort_keys=False) + "\n")

    @contextmanager
    def progress(self) -> Iterator[Progress]:
        """A progress callback drawn as bars on stderr; silent when stderr is no terminal, or under `-q`.

        Each call also lets a request to stop through that was swallowed in a C callback.
        """
        from trajpipe.cli.stopping import STOPPING

        if self.quiet or not self.err.is_terminal or self.err.is_dumb_terminal:
            yield lambda *_: STOPPING.check()
            return
        from trajpipe.cli.bars import bars

        with bars(self.err) as draw:

            def report(what: str, done: int, total: int | None) -> None:
                STOPPING.check()
                draw(what, done, total)

            yield report

    def set_up_logging(self) -> None:
        """Send log records of `trajpipe` to stderr: warnings; `-v` info, `-vv` debug, `-q` errors alone."""
        level = logging.ERROR if self.quiet else logging.WARNING - 10 * min(self.verbose, 2)
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
        logger = logging.getLogger("trajpipe")
        logger.handlers = [handler]
        logger.setLevel(level)
        logger.propagate = False


def _new_console(name: str, no_color: bool) -> "Console":
    from rich.console import Console

    class PipeConsole(Console):
        """A console whose reader may go away (`| head`) without a word."""

        def on_broken_pipe(self) -> None:
            leave_broken_pipe()

    stream = sys.stdout if name == "stdout" else sys.stderr
    wide = None if stream.isatty() or "COLUMNS" in os.environ else PIPED_WIDTH
    return PipeConsole(
        file=stream,
        width=wide,
        color_system=None if no_color else "auto",
        no_color=no_color or None,
        highlight=False,
        emoji=False,
    )


def write_text(text: str) -> None:
    """Write text on stdout as it is; a reader that went away ends the command."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        leave_broken_pipe()


def leave_broken_pipe() -> None:
    """Exit as a process that died of SIGPIPE does; nothing is written any more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(EXIT_BROKEN_PIPE)


def finite(value: Any) -> Any:
    """The same plain value with NaN and infinities as text: JSON has no token for them."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(k): finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(v) for v in value]
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    return value


def table(*headers: str, title: str | None = None, right: Sequence[str] = ()) -> "Table":
    """An empty table in the house style; columns named in `right` are right-aligned, long cells fold.

    Args:
        headers: Column headers.
        title: Printed above, bold.
        right: Headers of columns of numbers.
    """
    from rich import box
    from rich.table import Table

    made = Table(
        box=box.SIMPLE_HEAD,
        title=title,
        title_justify="left",
        title_style="bold",
        header_style="bold",
        show_edge=False,
        pad_edge=False,
    )
    for header in headers:
        made.add_column(header, justify="right" if header in right else "left", overflow="fold")
    return made


def cell(text: object, style: str = "") -> "RenderableType":
    """A table cell of plain text (never markup), with a style."""
    from trajpipe.cli.folding import FoldingText

    return FoldingText(printable(str(text)), style=style)


def printable(text: str) -> str:
    """Text without control characters that could drive the terminal: they are shown as escapes."""
    safe = "".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in text)
    return safe.encode("utf-8", "replace").decode("utf-8")
