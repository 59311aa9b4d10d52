"""One dataset repository on a Hub: what push and pull ask of it, each call with errors in our words.

The endpoint is passed on explicitly (the client reads HF_ENDPOINT at import alone), and Xet is off for every
endpoint but the public one: there is no fallback from it. The token is found as the client finds it
(HF_TOKEN, stored login) and never leaves this object.
What is not here: the protocol of a push or a pull.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from trajpipe.core import names
from trajpipe.core.errors import UsageError
from trajpipe.hub.errors import Context, HubError, offline, translated
from trajpipe.hub.listing import require_safe
from trajpipe.hub.retry import DEFAULT_PATIENCE, Patience

if TYPE_CHECKING:
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

PUBLIC: Final = "https://huggingface.co"
ENVIRONMENT_ENDPOINT: Final = "HF_ENDPOINT"
REPO_TYPE: Final = "dataset"
_REPO: Final = re.compile(r"[A-Za-z0-9][\w.\-]{0,95}/[A-Za-z0-9_][\w.\-]{0,95}")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_TRUE: Final = ("1", "on", "yes", "true")


@dataclass(frozen=True, slots=True)
class Remote:
    """One file of a repository at a commit, as the server lists it.

    Attributes:
        path: Path in the repository.
        size: Bytes.
        oid: Git's SHA-1 of the blob (of the pointer for a large file).
        sha256: SHA-256 of a large file's content; None for a small one.
    """

    path: str
    size: int
    oid: str
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class State:
    """A repository at one commit.

    Attributes:
        commit: Full commit hash.
        private: Visibility.
        files: Path → file.
    """

    commit: str
    private: bool
    files: dict[str, Remote] = field(default_factory=dict)


def is_offline() -> bool:
    """True when HF_HUB_OFFLINE (or TRANSFORMERS_OFFLINE, as the client takes it) is set now."""
    return any(os.environ.get(n, "").lower() in _TRUE for n in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))


def require_repo(repo: str) -> str:
    """A repository's name, checked.

    Raises:
        UsageError: it is not `org/name`.
    """
    if not _REPO.fullmatch(repo) or ".." in repo or "--" in repo:
        raise UsageError("a Hub repository is <organisation or user>/<name>", got=repo)
    return repo


class Repository:
    """A dataset repository, reached over the Hub's client.

    Args:
        repo: `org/name`.
        endpoint: URL of the Hub; HF_ENDPOINT, else the public one when None.
        token: Login; found as the client finds it when None, nothing is sent when False.
        patience: How long a flaky Hub is put up with.

    Raises:
        UsageError: the name is not `org/name`.
    """

    def __init__(
        self,
        repo: str,
        *,
        endpoint: str | None = None,
        token: str | bool | None = None,
        patience: Patience = DEFAULT_PATIENCE,
    ) -> None:
        self.repo = require_repo(repo)
        self.endpoint = (endpoint or os.environ.get(ENVIRONMENT_ENDPOINT) or PUBLIC).rstrip("/")
        self.patience = patience
        self._token = _found_token(token)
        self.context = Context(self.repo, self.endpoint, self._token)
        self._api = self._client()

    def __repr__(self) -> str:
        return f"Repository({self.repo} at {self.endpoint})"

    @property
    def url(self) -> str:
        """The repository's page."""
        return f"{self.endpoint}/datasets/{self.repo}"

    @property
    def uses_xet(self) -> bool:
        """True when the client uploads over Xet."""
        from huggingface_hub.utils._runtime import is_xet_available

        return bool(is_xet_available())

    def _client(self) -> HfApi:
        if self.endpoint != PUBLIC:
            os.environ["HF_HUB_DISABLE_XET"] = "1"
        from huggingface_hub import HfApi, constants

        if self.endpoint != PUBLIC:
            constants.HF_HUB_DISABLE_XET = True  # for a client that was imported before
        return HfApi(endpoint=self.endpoint, token=self._token or False, library_name="trajpipe")

    def headers(self) -> dict[str, str]:
        """Headers of a download, the login included: for this endpoint alone, and for no log."""
        from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]  # public, not declared

        made = build_hf_headers(token=self._token or False, library_name="trajpipe")
        return {**made, "Accept-Encoding": "identity"}

    def file_url(self, path: str, commit: str) -> str:
        """URL of a file at a commit."""
        from huggingface_hub import hf_hub_url

        return hf_hub_url(self.repo, path, repo_type=REPO_TYPE, revision=commit, endpoint=self.endpoint)

    @contextmanager
    def asking(self, revision: str | None = None) -> Iterator[None]:
        """Errors inside come out as `HubError`; offline mode stops here.

        Raises:
            HubError: in place of the client's errors.
        """
        context = self.context
        if revision is not None:
            context = Context(self.repo, self.endpoint, self._token, revision)
        if is_offline():
            raise offline(context)
        with translated(context), _without_bars():
            yield

    # --- reading ---

    def commit_of(self, revision: str) -> str:
        """The full commit hash of a tag, commit or branch.

        Raises:
            HubError: no such repository or revision, or it cannot be seen.
        """
        return self.state(revision, files=False).commit

    def state(self, revision: str = "main", *, files: bool = True) -> State:
        """The repository at a revision; its files are listed at the very commit found.

        Raises:
            HubError: no such repository or revision, or it cannot be seen.
            UntrustedError: the listing holds a name that could leave a folder.
        """

        def ask() -> State:
            with self.asking(revision):
                info = self._api.repo_info(self.repo, repo_type=REPO_TYPE, revision=revision)
                commit = str(info.sha)
                found = State(commit, bool(info.private))
                if files:
                    found.files.update(self._files(commit))
                return found

        return self.patience.call(ask)

    def _files(self, commit: str) -> dict[str, Remote]:
        from huggingface_hub.hf_api import RepoFile

        listed = [
            Remote(f.path, int(f.size), str(f.blob_id), f.lfs.sha256 if f.lfs else None)
            for f in self._api.list_repo_tree(self.repo, recursive=True, revision=commit, repo_type=REPO_TYPE)
            if isinstance(f, RepoFile)
        ]
        require_safe((f.path for f in listed), place=self.repo)
        return {f.path: f for f in listed}

    def refs(self) -> tuple[dict[str, str], dict[str, str]]:
        """(branches, tags): name → commit.

        Raises:
            HubError: no such repository, or it cannot be seen.
        """

        def ask() -> tuple[dict[str, str], dict[str, str]]:
            with self.asking():
                refs = self._api.list_repo_refs(self.repo, repo_type=REPO_TYPE)
                branches = {r.name: str(r.target_commit) for r in refs.branches}
                return branches, {r.name: str(r.target_commit) for r in refs.tags}

        return self.patience.call(ask)

    def history(self, revision: str = "main") -> list[str]:
        """Commits up to a revision, the newest first.

        Raises:
            HubError: no such repository or revision, or it cannot be seen.
        """

        def ask() -> list[str]:
            with self.asking(revision):
                listed = self._api.list_repo_commits(self.repo, repo_type=REPO_TYPE, revision=revision)
                return [str(c.commit_id) for c in listed]

        return self.patience.call(ask)

    def read(self, path: str, commit: str, *, limit: int = 256 << 20) -> bytes | None:
        """The content of a small file at a commit; None when it is not there.

        Raises:
            HubError: it cannot be had, or is longer than `limit` bytes.
        """
        from trajpipe.hub.download import read_all

        def ask() -> bytes | None:
            with self.asking(commit):
                return read_all(self, path, commit, limit)

        try:
            return self.patience.call(ask)
        except HubError as error:
            if error.code == "hub-no-file":
                return None
            raise

    # --- writing ---

    def create(self, *, private: bool) -> None:
        """Make the repository; nothing happens when it exists.

        Raises:
            HubError: the login may not.
        """

        def ask() -> None:
            with self.asking():
                self._api.create_repo(self.repo, repo_type=REPO_TYPE, private=private, exist_ok=True)

        self.patience.call(ask)

    def upload(self, additions: Sequence[CommitOperationAdd]) -> None:
        """Upload large files' contents, which no reader sees before a commit names them.

        Raises:
            HubError: they cannot be uploaded.
        """

        def ask() -> None:
            with self.asking():
                self._api.preupload_lfs_files(
                    self.repo, additions, repo_type=REPO_TYPE, revision="main", free_memory=False
                )

        self.patience.call(ask)

    def commit(
        self,
        operations: Sequence[CommitOperationAdd | CommitOperationDelete],
        *,
        parent: str,
        message: str,
    ) -> str:
        """Make one commit on `main`, in one attempt: the answer may be lost, so the caller looks again.

        Raises:
            HubError: refused (412: the head moved), or the answer was lost.
        """
        with self.asking():
            made = self._api.create_commit(
                self.repo, list(operations), commit_message=message, repo_type=REPO_TYPE, parent_commit=parent
            )
            return str(made.oid)

    def tag(self, name: str, commit: str, *, message: str = "") -> None:
        """Create a tag, in one attempt.

        Raises:
            HubError: refused (409: there is one), or the answer was lost.
        """
        with self.asking():
            self._api.create_tag(
                self.repo, tag=name, revision=commit, tag_message=message or None, repo_type=REPO_TYPE
            )

    def untag(self, name: str) -> None:
        """Delete a tag, in one attempt.

        Raises:
            HubError: refused, or the answer was lost.
        """
        with self.asking():
            self._api.delete_tag(self.repo, tag=name, repo_type=REPO_TYPE)


def split_address(text: str) -> tuple[str, str | None]:
    """`org/name@revision` → (repository, revision or None).

    Raises:
        UsageError: not of that form.
    """
    repo, at, revision = text.partition("@")
    if at and (not revision or revision.startswith("-") or any(c.isspace() for c in revision)):
        raise UsageError("a revision is a tag or a commit", got=text, expected="org/name@tag")
    return require_repo(repo), revision or None


def is_commit(revision: str) -> bool:
    """True for a full commit hash."""
    return bool(_COMMIT.fullmatch(revision))


def commit_message(dataset: str, what: str) -> str:
    """The title of one of our commits."""
    return f"trajpipe: {what} of {dataset or names.HUB_MANIFEST}"


def _found_token(token: str | bool | None) -> str | None:
    if isinstance(token, str):
        return token
    if token is False:
        return None
    from huggingface_hub import get_token

    found: Any = get_token()
    return str(found) if found else None


@contextmanager
def _without_bars() -> Iterator[None]:
    """The client draws no bars of its own inside; progress goes through our callback."""
    from huggingface_hub.utils import (  # type: ignore[attr-defined]  # public, not declared
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    if are_progress_bars_disabled():
        yield
        return
    disable_progress_bars()
    try:
        yield
    finally:
        enable_progress_bars()
