"""One file from a repository: in pieces that outlive the process, verified before it gets its name.

A piece lies in `<folder>/.trajpipe-pieces/` under the hash it must have, with the ETag it came under; a later
process goes on from its end. What is not here: which files are wanted, see `pull.py`.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trajpipe.core.errors import IntegrityError, StateError
from trajpipe.hub.errors import HubError, offline, translated
from trajpipe.hub.listing import local_path
from trajpipe.hub.retry import is_passing

if TYPE_CHECKING:
    from trajpipe.hub.client import Repository

PIECES: Final = ".trajpipe-pieces"
_BLOCK: Final = 1 << 20
_HEADWAY: Final = 1 << 20
_CONNECT_S: Final = 20.0
_STALL_S: Final = 60.0
_NO_RANGE: Final = 416


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file as it must come out.

    Attributes:
        path: Path in the repository.
        size: Bytes.
        sha256: Hex SHA-256; None when the server told git's hash only.
        oid: Git's SHA-1 of the blob, used when there is no SHA-256.
    """

    path: str
    size: int
    sha256: str | None = None
    oid: str | None = None

    @property
    def digest(self) -> str:
        """The hash that decides."""
        digest = self.sha256 or self.oid
        if digest is None:
            raise StateError("a wanted file needs a hash", place=self.path)
        return digest

    def hasher(self) -> Any:
        """A fresh hash object; git's begins with the blob's header."""
        if self.sha256 is not None:
            return hashlib.sha256()
        made = hashlib.sha1(usedforsecurity=False)
        made.update(f"blob {self.size}\0".encode())
        return made

    def matches(self, path: Path) -> bool:
        """True when a local file has this size and hash."""
        if path.is_symlink() or not path.is_file() or path.stat().st_size != self.size:
            return False
        hasher = self.hasher()
        for block in _blocks(path):
            hasher.update(block)
        return bool(hasher.hexdigest() == self.digest)


@dataclass(slots=True)
class Tally:
    """Bytes that moved, and the switch that stops all downloads.

    Attributes:
        moved: Bytes received so far in this process.
        refetched: Paths that came damaged and were fetched once more.
        on_bytes: Called with each number of bytes received, under a lock.
        stop: Set to end all downloads at the next block.
    """

    moved: int = 0
    refetched: list[str] = field(default_factory=list)
    on_bytes: Callable[[int], None] = lambda _: None
    stop: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, count: int) -> None:
        """Count received bytes.

        Raises:
            StateError: the downloads were stopped.
        """
        with self._lock:
            self.moved += count
            self.on_bytes(count)
        if self.stop.is_set():
            raise StateError("the download was stopped")

    def damaged(self, path: str) -> None:
        """Note a file that came damaged."""
        with self._lock:
            self.refetched.append(path)


def read_all(repository: Repository, path: str, commit: str, limit: int) -> bytes:
    """A file's content in memory, in one attempt.

    Raises:
        HubError: it cannot be had, or is longer than `limit` bytes.
    """
    out = bytearray()
    with _response(repository, path, commit, 0) as response:
        for block in response.iter_raw():
            out += block
            if len(out) > limit:
                raise HubError("a file is longer than expected", place=f"{repository.repo}:{path}")
    return bytes(out)


def fetch(repository: Repository, wanted: Wanted, commit: str, folder: Path, tally: Tally) -> Path:
    """Bring one file into a folder: resumed, verified, fetched once more when it came damaged, then refused.

    Args:
        repository: Where from.
        wanted: Which file, and its hash.
        commit: Full commit hash.
        folder: Root that the path lies below; pieces are kept in `<folder>/.trajpipe-pieces`.
        tally: Counts bytes.

    Returns:
        The file in the folder.

    Raises:
        IntegrityError: its bytes are not the listed ones, twice.
        HubError: it cannot be had.
    """
    target = local_path(folder, wanted.path)
    piece = folder / PIECES / wanted.digest
    piece.parent.mkdir(parents=True, exist_ok=True)
    found = ""
    for _ in range(2):
        found = _complete(repository, wanted, commit, piece, tally)
        if found == wanted.digest:
            target.parent.mkdir(parents=True, exist_ok=True)
            local_path(folder, wanted.path)  # the folders are ours still
            piece.replace(target)
            _tag_of(piece).unlink(missing_ok=True)
            return target
        _forget(piece)
        tally.damaged(wanted.path)
    raise IntegrityError(
        "a file came damaged twice",
        place=f"{repository.repo}@{commit[:12]}:{wanted.path}",
        got=f"{found[:16]}…",
        expected=f"{wanted.digest[:16]}…",
        hint="The server's copy or the way to it is broken; push the dataset again.",
    )


def _complete(repository: Repository, wanted: Wanted, commit: str, piece: Path, tally: Tally) -> str:
    """Bring a piece to its full length; returns the hash of what is there.

    Tries that made headway do not count: a long file over a bad line arrives in the end.
    """
    while True:
        before = _length(piece)

        def attempt() -> str:
            with translated(repository.context):
                return _attempt(repository, wanted, commit, piece, tally)

        try:
            return repository.patience.call(attempt)
        except HubError as error:
            if not is_passing(error) or _length(piece) < before + _HEADWAY:
                raise


def _attempt(repository: Repository, wanted: Wanted, commit: str, piece: Path, tally: Tally) -> str:
    have = _length(piece) if _tag_of(piece).is_file() else 0
    if have > wanted.size:
        _forget(piece)
        have = 0
    if wanted.size == have:
        piece.touch()
        return str(_hash_of(piece, wanted).hexdigest())
    try:
        with _response(repository, wanted.path, commit, have) as response:
            return _receive(response, wanted, piece, have, tally)
    except HubError as error:
        if error.status == _NO_RANGE:
            _forget(piece)
        raise


def _receive(response: Any, wanted: Wanted, piece: Path, have: int, tally: Tally) -> str:
    """Write a response's body after what is there; returns the hash of the whole."""
    tag = _etag(response)
    note = _tag_of(piece)
    resumed = response.status_code == 206 and _starts_at(response) == have
    if have and (not resumed or note.read_text() != tag):
        if response.status_code == 206:  # a part of another content: nothing here can be used
            _forget(piece)
            raise _cut_short(wanted, 0)
        have = 0
    note.write_text(tag)
    hasher = _hash_of(piece, wanted) if have else wanted.hasher()
    with piece.open("r+b" if have else "wb", buffering=_BLOCK) as handle:
        handle.seek(have)
        for block in response.iter_raw():
            have += len(block)
            if have > wanted.size:
                raise _longer(wanted)
            hasher.update(block)
            handle.write(block)
            tally.add(len(block))
    if have != wanted.size:
        raise _cut_short(wanted, have)
    return str(hasher.hexdigest())


@contextmanager
def _response(repository: Repository, path: str, commit: str, start: int) -> Iterator[Any]:
    """An open response for a file from a byte on; the login is not sent to another host.

    Raises:
        HubError: the server refused.
    """
    import httpx2
    from huggingface_hub.utils import (  # type: ignore[attr-defined]  # public, not declared
        get_session,
        hf_raise_for_status,
    )

    from trajpipe.hub.client import is_offline

    if is_offline():
        raise offline(repository.context)
    headers = repository.headers()
    if start:
        headers["Range"] = f"bytes={start}-"
    timeout = httpx2.Timeout(_STALL_S, connect=_CONNECT_S)
    url = repository.file_url(path, commit)
    with (
        translated(repository.context),
        get_session().stream("GET", url, headers=headers, timeout=timeout, follow_redirects=True) as response,
    ):
        if response.status_code >= 400:
            response.read()
        hf_raise_for_status(response)
        yield response


def _etag(response: Any) -> str:
    """The content's tag: the Hub's own, on the answer that redirected, else the last one's."""
    first = response.history[0] if response.history else response
    return str(first.headers.get("X-Linked-Etag") or first.headers.get("ETag") or "")


def _starts_at(response: Any) -> int:
    text = response.headers.get("Content-Range", "")
    begin = text.removeprefix("bytes ").partition("-")[0]
    return int(begin) if begin.isdigit() else -1


def _hash_of(path: Path, wanted: Wanted) -> Any:
    hasher = wanted.hasher()
    for block in _blocks(path):
        hasher.update(block)
    return hasher


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as handle:
        while block := handle.read(_BLOCK):
            yield block


def _length(piece: Path) -> int:
    return piece.stat().st_size if piece.is_file() else 0


def _tag_of(piece: Path) -> Path:
    return piece.with_name(piece.name + ".etag")


def _forget(piece: Path) -> None:
    piece.unlink(missing_ok=True)
    _tag_of(piece).unlink(missing_ok=True)


def _longer(wanted: Wanted) -> IntegrityError:
    return IntegrityError(
        "the server sends more bytes than the file has", place=wanted.path, expected=f"{wanted.size} bytes"
    )


def _cut_short(wanted: Wanted, have: int) -> HubError:
    return HubError(
        "a download ended early",
        place=wanted.path,
        got=f"{have} bytes",
        expected=f"{wanted.size} bytes",
        code="hub-unreachable",
    )
