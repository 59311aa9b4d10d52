"""Finding the recordings of a dataset: globs, keys, exclusions.

What is not here: reading a recording, see `trajpipe.sources`.
"""

from __future__ import annotations

import glob
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final

from trajpipe.core import names
from trajpipe.core.conventions import Conventions, UnknownSuccess
from trajpipe.core.errors import CatalogueError
from trajpipe.core.order import natural_key, slug
from trajpipe.pipeline.catalogue_model import KIND_AUTO, RawEntry
from trajpipe.sources.base import Source, source, sources

_MAGIC: Final = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class Recording:
    """One raw file (or folder) of a dataset: the unit of partition, of change detection and of one L2 file.

    Attributes:
        dataset: Dataset name.
        key: Partition key, unique in the dataset: the path below the folder that all globs share, as a slug.
        path: The file or folder.
        entry: The raw entry whose glob found it.
        conventions: The entry's conventions with the dataset's policy for unknown success.
    """

    dataset: str
    key: str
    path: Path
    entry: RawEntry
    conventions: Conventions


def find_recordings(
    dataset: str, entries: Sequence[RawEntry], data_root: Path, unknown_success: UnknownSuccess = "keep"
) -> list[Recording]:
    """All recordings of a dataset in natural order of their paths.

    Hidden files and our own temporaries are passed over. A folder that no source takes as one recording
    stands for the files in it.

    Args:
        dataset: Dataset name.
        entries: Its raw entries.
        data_root: Folder that relative globs begin at.
        unknown_success: The dataset's policy.

    Raises:
        CatalogueError: a recording matches two entries; both are named.
    """
    data_root = Path(os.path.abspath(data_root))  # noqa: PTH100 - resolve() would follow the user's links
    found: dict[Path, RawEntry] = {}
    for entry in entries:
        for path in _matches(dataset, entry, data_root):
            other = found.setdefault(path, entry)
            if other is not entry:
                raise CatalogueError(
                    "a recording matches two raw entries",
                    place=f"datasets.{dataset}.raw",
                    got=f"{path}: {other.label()} and {entry.label()}",
                    hint="Narrow one of the globs.",
                )
    ordered = sorted(found, key=lambda path: natural_key(path.as_posix()))
    keys = _keys(ordered, shared_base(dataset, entries, data_root))
    conventions = {id(entry): entry.to_conventions(unknown_success) for entry in entries}
    return [
        Recording(dataset, key, path, found[path], conventions[id(found[path])])
        for key, path in zip(keys, ordered, strict=True)
    ]


def _matches(dataset: str, entry: RawEntry, data_root: Path) -> Iterator[Path]:
    readers = list(sources().values()) if entry.kind == KIND_AUTO else [source(entry.kind)]
    seen: set[Path] = set()
    for pattern in entry.patterns(dataset):
        # os.path: normalises `..` by text alone, so that a link keeps the name that the user gave it
        for match in glob.glob(os.path.join(data_root, pattern), recursive=True):  # noqa: PTH118, PTH207
            for path in _recordings_at(Path(os.path.normpath(match)), readers):
                if path not in seen and names.TEMPORARY_MARK not in path.name:
                    seen.add(path)
                    yield path


def _recordings_at(path: Path, readers: Sequence[Source]) -> Iterator[Path]:
    if path.is_file() or any(reader.detect(path) for reader in readers):
        yield path
    else:
        for pattern in sorted({pattern for reader in readers for pattern in reader.globs}):
            found = (p for p in path.glob(pattern) if not p.name.startswith("."))
            yield from (p for p in found if p.is_file() or any(reader.detect(p) for reader in readers))


def shared_base(dataset: str, entries: Sequence[RawEntry], data_root: Path) -> Path:
    """The deepest folder that every glob begins in: it depends on the catalogue alone, not on the files."""
    fixed = [_fixed_part(data_root / pattern) for entry in entries for pattern in entry.patterns(dataset)]
    return Path(os.path.commonpath(fixed))


def _fixed_part(pattern: Path) -> str:
    parts = PurePath(os.path.normpath(pattern)).parts
    magic = next((i for i, part in enumerate(parts) if _MAGIC.search(part)), len(parts) - 1)
    return str(Path(*parts[: max(1, magic)]))


def _keys(paths: Sequence[Path], base: Path) -> list[str]:
    """One key per path: relative to the base, without suffix; with it where two would be equal."""
    below = os.path.join(base, "")  # noqa: PTH118 - text: 100,000 paths are parsed once, not three times
    relative = [
        PurePath(text.removeprefix(below)) if (text := str(path)).startswith(below) else path
        for path in paths
    ]
    short = [
        slug(_joined(part if path.is_dir() else part.with_suffix("")))
        for path, part in zip(paths, relative, strict=True)
    ]
    counts = Counter(short)
    return [
        key if counts[key] == 1 else slug(part.as_posix()) for key, part in zip(short, relative, strict=True)
    ]


def _joined(part: PurePath) -> str:
    """`a__b` for a/b; the path itself where that could be another's name."""
    return part.as_posix() if any("__" in one for one in part.parts) else "__".join(part.parts)
