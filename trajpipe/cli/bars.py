"""Progress bars on stderr, one line per kind of work, drawn by Rich.

What is not here: whether they are wanted, see `Terminal.progress`.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from trajpipe.core.progress import Progress as Callback


@contextmanager
def bars(console: Console) -> Iterator[Callback]:
    """A callback `(what, done, total)` that draws a bar per `what`; they vanish at the end."""
    drawn = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    tasks: dict[str, TaskID] = {}

    def report(what: str, done: int, total: int | None) -> None:
        if what not in tasks:
            tasks[what] = drawn.add_task(what, total=total)
        elif drawn.tasks[tasks[what]].completed > done:
            drawn.reset(tasks[what], total=total)
        drawn.update(tasks[what], completed=done, total=total)

    with drawn:
        yield report
