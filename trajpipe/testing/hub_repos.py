"""Repositories of a small Hub: commits, tags and contents, with the Hub's own rules.

What is not here: HTTP, see `trajpipe.testing.hub_server`.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final

LARGE_SUFFIXES: Final = (".h5", ".hdf5", ".parquet", ".mp4", ".png", ".npy", ".bin", ".safetensors", ".zip")
LARGE_BYTES: Final = 10_000_000
MAIN: Final = "main"


class RefusalError(Exception):
    """The Hub says no.

    Args:
        status: HTTP status.
        message: What it says.
        code: The Hub's error code (`RepoNotFound`), "" without one.
    """

    def __init__(self, status: int, message: str, code: str = "") -> None:
        super().__init__(message)
        self.status, self.message, self.code = status, message, code


@dataclass(frozen=True, slots=True)
class Content:
    """What a path holds at a commit.

    Attributes:
        sha256: Hex SHA-256 of the bytes.
        size: Bytes.
        large: Kept as a large file (LFS).
        oid: Git's SHA-1: of the bytes, or of the pointer to a large file.
    """

    sha256: str
    size: int
    large: bool
    oid: str


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit.

    Attributes:
        id: 40 hex digits.
        parent: The commit before; "" for the first.
        title: First line of its message.
        files: Path → content.
    """

    id: str
    parent: str
    title: str
    files: Mapping[str, Content]


@dataclass(slots=True)
class Repo:
    """One dataset repository.

    Attributes:
        name: `org/name`.
        private: Only members see it.
        commits: Id → commit.
        branches: Name → id.
        tags: Name → id.
    """

    name: str
    private: bool
    commits: dict[str, Commit] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)

    def at(self, revision: str) -> Commit:
        """The commit of a branch, tag or hash.

        Raises:
            RefusalError: 404, there is none.
        """
        commit = self.branches.get(revision) or self.tags.get(revision) or revision
        if commit not in self.commits:
            raise RefusalError(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return self.commits[commit]

    def history(self, revision: str) -> Iterator[Commit]:
        """The commits up to a revision, the newest first.

        Raises:
            RefusalError: 404, there is none.
        """
        commit: Commit | None = self.at(revision)
        while commit is not None:
            yield commit
            commit = self.commits.get(commit.parent)


class Shelf:
    """All repositories and the contents that they share.

    Args:
        folder: Contents are kept here, one file per SHA-256.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.repos: dict[str, Repo] = {}
        self.lock = threading.RLock()
        self._serial = itertools.count()
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, sha256: str) -> Path:
        """Where a content is, or will be."""
        return self.folder / sha256

    def keep(self, data: bytes) -> Content:
        """Keep the bytes of a small file."""
        sha256 = hashlib.sha256(data).hexdigest()
        self.path(sha256).write_bytes(data)
        return Content(sha256, len(data), False, git_oid(data))

    def create(self, name: str, *, private: bool) -> Repo:
        """Make a repository with one commit.

        Raises:
            RefusalError: 409, there is one.
        """
        with self.lock:
            if name in self.repos:
                raise RefusalError(409, "You already created this dataset repo")
            repo = Repo(name, private)
            self._add(repo, {".gitattributes": self.keep(_attributes())}, "", "initial commit")
            self.repos[name] = repo
            return repo

    def _add(self, repo: Repo, files: Mapping[str, Content], parent: str, title: str) -> str:
        text = f"{repo.name} {next(self._serial)} {title} {sorted(files)}"
        commit = git_oid(text.encode(), "commit")
        repo.commits[commit] = Commit(commit, parent, title, dict(files))
        repo.branches[MAIN] = commit
        return commit

    def commit(self, repo: Repo, branch: str, lines: Iterable[Mapping[str, Any]]) -> str:
        """Apply the operations of a commit, whole or not at all; returns its id.

        Raises:
            RefusalError: 412, the parent moved; 400 or 404, an operation cannot be done.
        """
        operations = [(str(line["key"]), line["value"]) for line in lines]
        header = dict(operations).get("header", {})
        with self.lock:
            if branch not in repo.branches:
                raise RefusalError(400, f"{branch} is not a branch")
            head = repo.branches[branch]
            wanted = header.get("parentCommit")
            if wanted and wanted != head:
                raise RefusalError(412, "A commit has happened since. Please refresh and try again.")
            files = dict(repo.commits[head].files)
            for key, value in operations:
                if key != "header":
                    self._apply(files, key, value)
            return self._add(repo, files, head, str(header.get("summary", "")))

    def _apply(self, files: dict[str, Content], key: str, value: Mapping[str, Any]) -> None:
        path = str(value["path"])
        parts = PurePosixPath(path).parts
        if path.startswith("/") or ".." in parts or not parts:
            raise RefusalError(400, f"Invalid path: {path}")
        if key == "file":
            files[path] = self.keep(base64.b64decode(value["content"]))
        elif key == "lfsFile":
            files[path] = self.large(str(value["oid"]))
        elif key == "deletedFile":
            if path not in files:
                raise RefusalError(404, f"A file with this name doesn't exist: {path}", "EntryNotFound")
            del files[path]
        else:
            raise RefusalError(400, f"Unknown operation {key}")

    def large(self, sha256: str) -> Content:
        """A large file by its uploaded content.

        Raises:
            RefusalError: 400, nothing of this hash was uploaded.
        """
        path = self.path(sha256)
        if "/" in sha256 or not path.is_file():
            raise RefusalError(400, f"LFS pointer pointed to a file that does not exist: {sha256}")
        size = path.stat().st_size
        pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n"
        return Content(sha256, size, True, git_oid(pointer.encode()))


def is_large(path: str, size: int) -> bool:
    """True when a file of this name and size is kept as a large one."""
    return size >= LARGE_BYTES or PurePosixPath(path).suffix.lower() in LARGE_SUFFIXES


def git_oid(data: bytes, kind: str = "blob") -> str:
    """Git's SHA-1 of an object."""
    return hashlib.sha1(f"{kind} {len(data)}\0".encode() + data, usedforsecurity=False).hexdigest()


def _attributes() -> bytes:
    lines = [f"*{suffix} filter=lfs diff=lfs merge=lfs -text" for suffix in LARGE_SUFFIXES]
    return "\n".join([*lines, ""]).encode()
