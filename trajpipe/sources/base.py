"""The `Source` contract and its registry: one class per raw format, registered by name.

A source only reads: it detects, describes and yields episodes. What is not here: any format.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Final

from trajpipe.core.conventions import Conventions
from trajpipe.core.episode import Description, Episode
from trajpipe.core.errors import InputError, MissingNameError
from trajpipe.core.findings import Finding
from trajpipe.core.ledger import Rejection
from trajpipe.core.plugins import entry_points
from trajpipe.core.signatures import looks_like_hdf5
from trajpipe.hdf5.files import open_hdf5

ENTRY_POINTS: Final = "trajpipe.sources"
HDF5_SUFFIXES: Final = (".hdf5", ".h5", ".hdf")
_BUILT_IN: Final = (
    "trajpipe.sources.isaaclab",
    "trajpipe.sources.lafan",
    "trajpipe.sources.lerobot",
    "trajpipe.sources.libero",
    "trajpipe.sources.robomimic",
    "trajpipe.sources.robosuite",
)
_REGISTRY: dict[str, Source] = {}


@dataclass(slots=True)
class ReadOptions:
    """How to read a recording.

    Attributes:
        conventions: What is declared about it; the source's defaults fill what is None.
        sha256: Hex SHA-256 of the recording, put on every episode.
        report: Called with each finding met while reading (repairs, oddities).
        options: Source-specific options of the catalogue's raw entry.
    """

    conventions: Conventions = field(default_factory=Conventions)
    sha256: str = ""
    report: Callable[[Finding], None] = lambda _finding: None
    options: dict[str, Any] = field(default_factory=dict)


class Source(ABC):
    """Reads one raw format.

    Attributes:
        kind: Registered name, the catalogue's `kind:`.
        title: One line for people.
        globs: File patterns of a recording, used when the catalogue gives a folder.
        tag: `source` tag that every recording of this kind has; None = as each says.
    """

    kind: ClassVar[str]
    title: ClassVar[str]
    globs: ClassVar[tuple[str, ...]] = ("*.hdf5", "*.h5")
    tag: ClassVar[str | None] = None

    @abstractmethod
    def detect(self, path: Path) -> bool:
        """True when the file (or folder) is of this format; False, never an error, when it is not."""

    def task_name(self, path: Path) -> str | None:  # noqa: ARG002 - formats whose file names carry a task override it
        """The task that the recording's file name carries; None when the format's names carry none."""
        return None

    def companions(self, path: Path) -> Sequence[Path]:  # noqa: ARG002 - formats that read files beside override it
        """Files beside the recording that are read with it; they are inputs of the recipe too."""
        return ()

    @abstractmethod
    def describe(self, path: Path, options: ReadOptions) -> Description:
        """What the recording says before its episodes are read.

        Raises:
            UnreadableError: it cannot be opened.
            InputError: it is of this format and breaks a rule of it as a whole.
        """

    @abstractmethod
    def episodes(self, path: Path, options: ReadOptions) -> Iterator[Episode | Rejection]:
        """Episodes in natural order of their names; an episode that cannot be used is a `Rejection`.

        Columns may read lazily: they are valid until the next episode is asked for.

        Raises:
            UnreadableError: it cannot be opened.
            InputError: it breaks a rule as a whole (undeclared quaternions, no demos, …).
        """


def register(source: Source) -> Source:
    """Register a source by its kind; a second of one kind replaces the first."""
    _REGISTRY[source.kind] = source
    return source


def sources() -> dict[str, Source]:
    """All sources by kind: built-in ones, then those of installed packages (entry points)."""
    _load_all()
    return dict(sorted(_REGISTRY.items()))


@cache
def _load_all() -> None:
    """Import the built-in sources and the installed packages', once per process: reading metadata is slow."""
    for module in _BUILT_IN:
        importlib.import_module(module)
    for point in entry_points(group=ENTRY_POINTS):
        if point.name not in _REGISTRY:
            loaded = point.load()
            register(loaded() if isinstance(loaded, type) else loaded)


def source(kind: str) -> Source:
    """The source of a kind.

    Raises:
        MissingNameError: no such kind; the message lists the kinds and offers the nearest.
    """
    known = sources()
    if kind not in known:
        near = get_close_matches(kind, known, n=1)
        raise MissingNameError(
            "no source of this kind",
            got=kind,
            expected=f"one of {', '.join(known)}",
            hint=f"Did you mean `{near[0]}`?" if near else None,
        )
    return known[kind]


def detect(path: Path) -> Source:
    """The one source that recognises a recording.

    Raises:
        InputError: none does, or more than one does.
        UnreadableError: none does because it cannot be opened; the message says why.
        UntrustedError: none does because it reads other files.
    """
    matches = [s for s in sources().values() if s.detect(path)]
    if not matches and path.is_file() and (looks_like_hdf5(path) or path.suffix in HDF5_SUFFIXES):
        # Says what is wrong with a file that cannot be opened, or that reads other files.
        with open_hdf5(path):
            pass
    if len(matches) != 1:
        raise InputError(
            "the recording's kind cannot be told",
            place=path,
            got=", ".join(s.kind for s in matches) or "no source that recognises it",
            expected=f"one of {', '.join(sources())}",
            hint="Name it with --kind.",
            code="unknown-kind",
        )
    return matches[0]
