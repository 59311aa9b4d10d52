"""Progress bars on stderr, one line per kind of work, drawn by Rich.

What is not here: whether they are wanted, see `Terminal.progress`.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)
from rich.text import Text

from trajpipe.core.progress import Progress as Callback


class _AmountColumn(ProgressColumn):
    """`3/7`, or bytes and rate for work whose name ends in `bytes`."""

    def __init__(self) -> None:
        super().__init__()
        self._count, self._size, self._rate = MofNCompleteColumn(), DownloadColumn(), TransferSpeedColumn()

    def render(self, task: Task) -> Text:
        """The amount as text."""
        if not task.description.endswith("bytes"):
            return self._count.render(task)
        return Text.assemble(self._size.render(task), " ", self._rate.render(task))


@contextmanager
def bars(console: Console) -> Iterator[Callback]:
    """A callback `(what, done, total)` that draws a bar per `what`; they vanish at the end."""
    drawn = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        _AmountColumn(),
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
