"""Local files to be published: hashed once, read through a counter, noticed when they change.

What is not here: which files make a dataset, see `trajpipe.pipeline.publish`.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from trajpipe.core.errors import InputError, StateError
from trajpipe.core.progress import Progress, silent
from trajpipe.hub.client import Remote
from trajpipe.hub.listing import require_safe
from trajpipe.hub.manifest import Entry, entry_of

_BLOCK: Final = 1 << 20
_THREADS: Final = 4


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file to publish, as it was when it was hashed.

    Attributes:
        entry: Path in the repository, size, SHA-256.
        path: Where it lies; None for a text made here.
        content: The text's bytes; None for a file.
        touch: Modification time (ns) and size when it was hashed.
    """

    entry: Entry
    path: Path | None = None
    content: bytes | None = None
    touch: tuple[int, int] = (0, 0)

    @classmethod
    def of_text(cls, path: str, content: bytes) -> LocalFile:
        """A file whose content is made here."""
        return cls(entry_of(path, len(content), hashlib.sha256(content).hexdigest()), content=content)

    def same_as(self, remote: Remote) -> bool:
        """True when a listed file of a repository has this content."""
        if remote.size != self.entry.size:
            return False
        if remote.sha256 is not None:
            return remote.sha256 == self.entry.sha256
        return remote.oid == self.git_oid()

    def git_oid(self) -> str:
        """Git's SHA-1 of the content."""
        digest = hashlib.sha1(f"blob {self.entry.size}\0".encode(), usedforsecurity=False)
        if self.content is not None or self.path is None:
            digest.update(self.content or b"")
            return digest.hexdigest()
        with self.path.open("rb") as handle:
            while block := handle.read(_BLOCK):
                digest.update(block)
        return digest.hexdigest()

    def require_untouched(self) -> None:
        """Refuse a file that changed since it was hashed.

        Raises:
            StateError: its time or size is another.
        """
        if self.path is not None and _touch(self.path) != self.touch:
            raise StateError(
                "a file changed while it was being pushed",
                place=self.path,
                hint="Wait for what writes it, then push again.",
                code="changed-meanwhile",
            )


class CountedReader(io.BufferedIOBase):
    """A file that is open only while it is being read, and counts what was read.

    Args:
        path: The file.
        on_read: Called with numbers of bytes that were read, every MiB or so and at the end.

    Attributes:
        counting: Set to False when reads are no uploads any more.
    """

    def __init__(self, path: Path, on_read: Callable[[int], None]) -> None:
        self._path = path
        self._on_read = on_read
        self._size = path.stat().st_size
        self._at = self._uncounted = 0
        self._handle: BinaryIO | None = None
        self.counting = True

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """Position in bytes."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move; the file is closed until the next read."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = base + offset
        self._release()
        return self._at

    def read(self, size: int | None = -1, /) -> bytes:
        """Read at most `size` bytes; all when None or negative."""
        if self._handle is None:
            self._handle = self._path.open("rb")
            self._handle.seek(self._at)
        block = self._handle.read(-1 if size is None else size)
        self._at += len(block)
        self._uncounted += len(block) if self.counting else 0
        ended = not block or self._at >= self._size
        if self._uncounted >= _BLOCK or (ended and self._uncounted):
            self._on_read(self._uncounted)
            self._uncounted = 0
        if ended:
            self._release()
        return block

    def close(self) -> None:
        """Close."""
        self._release()
        super().close()

    def _release(self) -> None:
        if self._handle is not None:
            self._handle.close()
            self._handle = None


def hashed(files: Mapping[str, Path], progress: Progress = silent) -> dict[str, LocalFile]:
    """Hash files that are to be published.

    Args:
        files: Path in the repository → file.
        progress: Called with `hashed bytes`.

    Raises:
        UntrustedError: a path cannot be one of a repository.
        InputError: a file is not there.
    """
    require_safe(files, place="files to push")
    total = sum(_touch(path)[1] for path in files.values())
    out: dict[str, LocalFile] = {}
    done = 0
    with ThreadPoolExecutor(_THREADS) as pool:
        for path, made in zip(
            sorted(files), pool.map(lambda p: _hashed(p, files[p]), sorted(files)), strict=True
        ):
            out[path] = made
            done += made.entry.size
            progress("hashed bytes", done, total)
    return out


def files_below(folder: Path) -> dict[str, Path]:
    """Every file below a folder by its relative path; names that begin with a dot are passed over.

    Raises:
        InputError: a link leaves the folder.
    """
    root, out = folder.resolve(), {}
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if any(part.startswith(".") for part in relative.parts):
            continue
        if path.is_symlink() and not path.resolve().is_relative_to(root):
            raise InputError("a link leaves the folder", place=path)
        if path.is_file():
            out[relative.as_posix()] = path
    return out


def _hashed(name: str, path: Path) -> LocalFile:
    touch = _touch(path)
    with path.open("rb") as handle:
        digest = hashlib.file_digest(handle, "sha256").hexdigest()
    return LocalFile(entry_of(name, touch[1], digest), path, touch=touch)


def _touch(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except FileNotFoundError as error:
        raise InputError("a file to push is not there", place=path, code="missing-file") from error
    return status.st_mtime_ns, status.st_size
