"""Many HDF5 files at hand, few of them open: a process may hold some thousand files, often 1,024.

What is not here: opening one, see `trajpipe.hdf5.files`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final

import h5py

from trajpipe.hdf5.files import open_hdf5

MOST: Final = 32
Opener = Callable[[Path], AbstractContextManager[h5py.File]]


class OpenFiles:
    """Opens files when they are asked for, and closes the one that was not asked for longest.

    What came of a file (groups, datasets) is valid until so many others were asked for: do not keep it, ask
    for the file again. For one thread.
    """

    def __init__(self, opener: Opener = open_hdf5, most: int = MOST) -> None:
        """Nothing is opened yet.

        Args:
            opener: Path → a context manager that gives the open file.
            most: Files that are open at once.
        """
        self._opener, self._most = opener, most
        self._open: OrderedDict[Path, tuple[h5py.File, ExitStack]] = OrderedDict()

    def __enter__(self) -> OpenFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._open:
            self._close_oldest()

    def __getitem__(self, path: Path) -> h5py.File:
        """The file, open.

        Raises:
            UnreadableError: it cannot be opened; and what else the opener raises.
        """
        if path in self._open:
            self._open.move_to_end(path)
            return self._open[path][0]
        while len(self._open) >= self._most:
            self._close_oldest()
        stack = ExitStack()
        self._open[path] = stack.enter_context(self._opener(path)), stack
        return self._open[path][0]

    def __len__(self) -> int:
        """Files that are open now."""
        return len(self._open)

    def _close_oldest(self) -> None:
        _, (_, stack) = self._open.popitem(last=False)
        stack.close()
