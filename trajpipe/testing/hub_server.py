"""A real HTTP server that speaks the Hub's protocol for dataset repositories, with faults on demand.

`huggingface_hub` talks to it as to the Hub: repositories, preupload, large files (LFS), commits with a parent
commit, tags, listings, downloads by Range. It speaks no Xet.
    with HubServer(folder) as hub: ... Repository("org/x", endpoint=hub.url, token=WRITE_TOKEN)
    python -m trajpipe.testing.hub_server --root FOLDER --port 8899
What is not here: the repositories' rules (`trajpipe.testing.hub_repos`), the kinds of trouble (`hub_faults`).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import socket
import struct
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar, Final, NoReturn
from urllib.parse import parse_qs, unquote, urlsplit

from trajpipe.testing.hub_faults import Fault, flipped
from trajpipe.testing.hub_repos import MAIN, Commit, Content, RefusalError, Repo, Shelf, is_large

WRITE_TOKEN: Final = "hf_" + "w" * 34
READ_TOKEN: Final = "hf_" + "r" * 34
ORGANISATION: Final = "org"
_BLOCK: Final = 1 << 18
_PAGE: Final = 1000
_PAGE_COMMITS: Final = 50
_REPO: Final = r"([\w.\-]+/[\w.\-]+)"


@dataclass(frozen=True, slots=True)
class Request:
    """One request that was answered, or not."""

    method: str
    path: str
    host: str
    authorization: str | None
    range: str | None
    status: int | None
    received: int
    sent: int


class HubServer:
    """The server; use it as a context manager.

    Args:
        folder: Contents are kept here.
        port: 0 = any free one.
        tokens: Token → role, `write` or `read`; all belong to members of `org`.
        storage_host: Another host name to send downloads of large files to; None = none.

    Attributes:
        url: Endpoint.
        shelf: The repositories.
        requests: What was asked, in order of completion.
        answering: Requests that are being answered still, and not among `requests` yet.
    """

    def __init__(
        self,
        folder: Path,
        *,
        port: int = 0,
        tokens: Mapping[str, str] | None = None,
        storage_host: str | None = None,
    ) -> None:
        self.shelf = Shelf(folder)
        self.tokens = dict(tokens or {WRITE_TOKEN: "write", READ_TOKEN: "read"})
        self.storage_host = storage_host
        self.requests: list[Request] = []
        self.faults: list[Fault] = []
        self.answering = 0
        self.key = uuid.uuid4().hex
        handler = type("Handler", (_Handler,), {"hub": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._lock = threading.Lock()

    def __enter__(self) -> HubServer:
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    def fault(self, kind: str, match: str, **options: Any) -> Fault:
        """Add trouble; see `Fault`."""
        made = Fault(kind, match, **options)
        self.faults.append(made)
        return made

    def take(self, line: str) -> Fault | None:
        """The fault that hits a request, counted down."""
        with self._lock:
            for fault in self.faults:
                if fault.times > 0 and re.search(fault.match, line):
                    fault.times -= 1
                    return fault
        return None

    def begin(self) -> None:
        """A request came."""
        with self._lock:
            self.answering += 1

    def end(self, request: Request) -> None:
        """A request was answered, or not."""
        with self._lock:
            self.requests.append(request)
            self.answering -= 1

    def sent_bytes(self, match: str = "/resolve/|/store/") -> int:
        """Bytes of bodies that were sent for paths that fit."""
        return sum(r.sent for r in self.requests if re.search(match, r.path))


class _Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    hub: ClassVar[HubServer]
    routes: ClassVar[tuple[tuple[str, str, str], ...]] = (
        ("GET", r"/api/whoami-v2", "whoami"),
        ("POST", r"/api/validate-yaml", "validate"),
        ("POST", r"/api/repos/create", "create"),
        ("GET", rf"/api/datasets/{_REPO}/revision/([^/]+)", "info"),
        ("GET", rf"/api/datasets/{_REPO}/tree/([^/]+)", "tree"),
        ("GET", rf"/api/datasets/{_REPO}/refs", "refs"),
        ("GET", rf"/api/datasets/{_REPO}/commits/([^/]+)", "commits"),
        ("POST", rf"/api/datasets/{_REPO}/preupload/([^/]+)", "preupload"),
        ("POST", rf"/api/datasets/{_REPO}/commit/([^/]+)", "commit"),
        ("POST", rf"/api/datasets/{_REPO}/tag/([^/]+)", "tag"),
        ("DELETE", rf"/api/datasets/{_REPO}/tag/([^/]+)", "untag"),
        ("POST", rf"/datasets/{_REPO}\.git/info/lfs/objects/batch", "batch"),
        ("PUT", r"/upload/([0-9a-f]{64})", "upload"),
        ("POST", r"/uploaded/([0-9a-f]{64})", "uploaded"),
        ("GET", rf"/datasets/{_REPO}/resolve/([^/]+)/(.+)", "resolve"),
        ("HEAD", rf"/datasets/{_REPO}/resolve/([^/]+)/(.+)", "resolve"),
        ("GET", r"/store/([0-9a-f]{64})", "stored"),
        ("HEAD", r"/store/([0-9a-f]{64})", "stored"),
    )

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the base class calls it so)
        """Nothing: requests are in `HubServer.requests`."""

    def do(self) -> None:
        """Answer one request, with the fault that hits it."""
        self.hub.begin()
        self.received = self.sent = 0
        self.status: int | None = None
        url = urlsplit(self.path)
        self.query = {key: values[0] for key, values in parse_qs(url.query).items()}
        self.where = unquote(url.path)
        self.trouble = self.hub.take(f"{self.command} {self.where}")
        try:
            self._answer(url.path)
        except (BrokenPipeError, ConnectionError):
            self.close_connection = True
        finally:
            asked = (self.command, self.path, self.headers["Host"], self.headers["Authorization"])
            self.hub.end(Request(*asked, self.headers["Range"], self.status, self.received, self.sent))

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do  # noqa: N815  (the base class calls them so)

    def _answer(self, path: str) -> None:
        try:
            if self.trouble is not None and self.trouble.kind == "stall":
                time.sleep(self.trouble.seconds)
            if self.trouble is not None and self.trouble.kind == "status":
                raise RefusalError(self.trouble.status, "trouble on demand")
            for method, pattern, name in self.routes:
                found = re.fullmatch(pattern, path)
                if method == self.command and found is not None:
                    answer: Callable[..., None] = getattr(self, f"_on_{name}")
                    answer(*map(unquote, found.groups()))
                    return
            raise RefusalError(404, f"no such route: {self.command} {path}")
        except RefusalError as refusal:
            headers = {"X-Error-Message": refusal.message}
            if refusal.code:
                headers["X-Error-Code"] = refusal.code
            if self.trouble is not None and self.trouble.retry_after is not None:
                headers["Retry-After"] = str(self.trouble.retry_after)
            self._json({"error": refusal.message}, refusal.status, headers)

    # --- who asks ---

    def _role(self) -> str | None:
        """The role of the login; None without one.

        Raises:
            RefusalError: 401, the token is unknown.
        """
        header = self.headers["Authorization"]
        if not header:
            return None
        role = self.hub.tokens.get(header.removeprefix("Bearer "))
        if role is None:
            raise RefusalError(401, "Invalid credentials in Authorization header")
        return role

    def _repo(self, name: str, *, write: bool = False) -> Repo:
        role, repo = self._role(), self.hub.shelf.repos.get(name)
        if repo is None or (repo.private and role is None):
            raise RefusalError(404 if role else 401, "Repository not found", "RepoNotFound")
        if write:
            self._may_write(name)
        return repo

    def _may_write(self, name: str) -> None:
        role = self._role()
        if role is None:
            raise RefusalError(401, "Invalid username or password.")
        if role != "write" or name.partition("/")[0] != ORGANISATION:
            raise RefusalError(403, f"This token may not write to {name}")

    # --- routes ---

    def _on_whoami(self) -> None:
        if self._role() is None:
            raise RefusalError(401, "Invalid username or password.")
        self._json({"type": "user", "name": "tester", "orgs": [{"name": ORGANISATION}]})

    def _on_validate(self) -> None:
        self._json({"errors": [], "warnings": []})

    def _on_create(self) -> None:
        asked = json.loads(self._body())
        name = f"{asked.get('organization') or 'tester'}/{asked['name']}"
        self._may_write(name)
        private = bool(asked.get("private") or asked.get("visibility") == "private")
        url = f"{self.hub.url}/datasets/{name}"
        try:
            self.hub.shelf.create(name, private=private)
        except RefusalError as refusal:
            self._json({"error": refusal.message, "url": url}, refusal.status)
            return
        self._json({"url": url, "name": name, "id": name})

    def _on_info(self, name: str, revision: str) -> None:
        repo = self._repo(name)
        commit = repo.at(revision)
        siblings = [{"rfilename": path} for path in sorted(commit.files)]
        self._json({"id": name, "sha": commit.id, "private": repo.private, "siblings": siblings})

    def _on_tree(self, name: str, revision: str) -> None:
        files = sorted(self._repo(name).at(revision).files.items())
        self._page([_listed(path, content) for path, content in files], _PAGE)

    def _on_commits(self, name: str, revision: str) -> None:
        self._page([_told(commit) for commit in self._repo(name).history(revision)], _PAGE_COMMITS)

    def _page(self, rows: Sequence[object], size: int) -> None:
        """Answer the rows that the cursor asks for, with a link to the next ones."""
        at = int(self.query.get("cursor", 0))
        more = {}
        if len(rows) > at + size:
            following = f"{self.hub.url}{self.where}?recursive=true&cursor={at + size}"
            more["Link"] = f'<{following}>; rel="next"'
        self._json(rows[at : at + size], headers=more)

    def _on_refs(self, name: str) -> None:
        repo = self._repo(name)

        def rows(refs: Mapping[str, str], kind: str) -> list[dict[str, str]]:
            return [
                {"name": n, "ref": f"refs/{kind}/{n}", "targetCommit": c} for n, c in sorted(refs.items())
            ]

        refs = {"branches": rows(repo.branches, "heads"), "tags": rows(repo.tags, "tags")}
        self._json({**refs, "converts": [], "pullRequests": []})

    def _on_preupload(self, name: str, revision: str) -> None:
        files = self._repo(name, write=True).at(revision).files
        rows = []
        for asked in json.loads(self._body())["files"]:
            path, old = asked["path"], files.get(asked["path"])
            mode = "lfs" if is_large(path, asked["size"]) else "regular"
            oid = None if old is None else old.sha256 if old.large else old.oid
            rows.append({"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": oid})
        self._json({"files": rows})

    def _on_commit(self, name: str, branch: str) -> None:
        repo = self._repo(name, write=True)
        lines = [json.loads(line) for line in self._body().splitlines() if line.strip()]
        commit = self.hub.shelf.commit(repo, branch, lines)
        url = f"{self.hub.url}/datasets/{name}/commit/{commit}"
        self._json({"success": True, "commitOid": commit, "commitUrl": url, "hookOutput": ""})

    def _on_tag(self, name: str, revision: str) -> None:
        repo = self._repo(name, write=True)
        tag = str(json.loads(self._body())["tag"])
        with self.hub.shelf.lock:
            if tag in repo.tags:
                raise RefusalError(409, f"Tag {tag} already exists")
            repo.tags[tag] = repo.at(revision).id
        self._json({})

    def _on_untag(self, name: str, tag: str) -> None:
        repo = self._repo(name, write=True)
        with self.hub.shelf.lock:
            if repo.tags.pop(tag, None) is None:
                raise RefusalError(404, f"No such tag: {tag}", "RevisionNotFound")
        self._json({})

    def _on_batch(self, name: str) -> None:
        self._repo(name, write=True)
        rows = []
        for asked in json.loads(self._body())["objects"]:
            row = {"oid": asked["oid"], "size": asked["size"]}
            if not self.hub.shelf.path(asked["oid"]).is_file():
                row["actions"] = {
                    "upload": {"href": self._signed("upload", asked["oid"])},
                    "verify": {"href": self._signed("uploaded", asked["oid"])},
                }
            rows.append(row)
        self._json({"transfer": "basic", "objects": rows})

    def _signed(self, what: str, sha256: str) -> str:
        return f"{self.hub.url}/{what}/{sha256}?signature={self.hub.key}"

    def _require_signature(self) -> None:
        if self.query.get("signature") != self.hub.key:
            raise RefusalError(403, "AccessDenied")

    def _on_upload(self, sha256: str) -> None:
        self._require_signature()
        temporary = self.hub.shelf.folder / f".{uuid.uuid4().hex}"
        digest = hashlib.sha256()
        try:
            with temporary.open("wb") as handle:
                for block in self._blocks():
                    if self.trouble is not None and self.trouble.kind == "flip" and not handle.tell():
                        block = flipped(block, 0)  # noqa: PLW2901  (what arrived is another block)
                    digest.update(block)
                    handle.write(block)
                    if self._cuts() and self.trouble is not None and self.received >= self.trouble.after:
                        self._hang_up()
            if digest.hexdigest() != sha256:
                raise RefusalError(400, "BadDigest: the content does not match its oid")
            temporary.replace(self.hub.shelf.path(sha256))
        finally:
            temporary.unlink(missing_ok=True)
        self._json({})

    def _on_uploaded(self, sha256: str) -> None:
        self._require_signature()
        asked, path = json.loads(self._body()), self.hub.shelf.path(sha256)
        if not path.is_file() or path.stat().st_size != asked["size"]:
            raise RefusalError(404, "not uploaded")
        self._json({})

    def _on_resolve(self, name: str, revision: str, path: str) -> None:
        commit: Commit = self._repo(name).at(revision)
        content = commit.files.get(path)
        if content is None:
            raise RefusalError(404, "Entry not found", "EntryNotFound")
        etag = f'"{content.sha256 if content.large else content.oid}"'
        headers = {"X-Repo-Commit": commit.id, "ETag": etag}
        if content.large:
            headers |= {"X-Linked-Etag": etag, "X-Linked-Size": str(content.size)}
            if self.hub.storage_host is not None:
                host = f"http://{self.hub.storage_host}:{self.hub.port}"
                headers["Location"] = f"{host}/store/{content.sha256}?signature={self.hub.key}"
                self._json(None, 302, headers)
                return
        self._send(content.sha256, headers)

    def _on_stored(self, sha256: str) -> None:
        self._require_signature()
        self._send(sha256, {"ETag": f'"storage-{sha256[:8]}"'})

    # --- bytes in and out ---

    def _send(self, sha256: str, headers: Mapping[str, str]) -> None:
        path = self.hub.shelf.path(sha256)
        size, trouble = path.stat().st_size, self.trouble
        start, status, more = 0, 200, {"Accept-Ranges": "bytes", "Content-Type": "application/octet-stream"}
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers["Range"] or "")
        if asked is not None and not (trouble is not None and trouble.kind == "whole"):
            start = int(asked[1])
            if start >= size:
                raise RefusalError(416, "Range not satisfiable")
            status, more["Content-Range"] = 206, f"bytes {start}-{size - 1}/{size}"
        self._head(status, {**headers, **more, "Content-Length": str(size - start)})
        if self.command == "HEAD":
            return
        limit = trouble.after if trouble is not None and self._cuts() else None
        with path.open("rb") as handle:
            handle.seek(start)
            while block := handle.read(_BLOCK if limit is None else min(_BLOCK, limit - self.sent)):
                at = start + self.sent
                if trouble is not None and trouble.kind == "flip" and 0 <= trouble.offset - at < len(block):
                    block = flipped(block, trouble.offset - at)
                self.wfile.write(block)
                self.sent += len(block)
        if limit is not None and start + self.sent < size:
            self._hang_up()

    def _cuts(self) -> bool:
        return self.trouble is not None and self.trouble.kind in ("cut", "reset")

    def _body(self) -> bytes:
        return b"".join(self._blocks())

    def _blocks(self) -> Iterator[bytes]:
        length = int(self.headers["Content-Length"] or 0)
        while self.received < length:
            block = self.rfile.read(min(_BLOCK, length - self.received))
            if not block:
                raise ConnectionResetError("the request was cut short")
            self.received += len(block)
            yield block

    def _json(self, value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        for _ in self._blocks():
            pass  # what was not read yet would be taken for the next request
        data = b"" if value is None else json.dumps(value).encode()
        kind = {"Content-Type": "application/json", "Content-Length": str(len(data))}
        self._head(status, {**kind, **(headers or {})})
        if self.command != "HEAD":
            self.wfile.write(data)

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        if self.trouble is not None and self.trouble.kind == "lose-answer":
            self._hang_up()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.status = status

    def _hang_up(self) -> NoReturn:
        """Close the connection now; with a reset where the fault says so."""
        self.wfile.flush()
        if self.trouble is not None and self.trouble.kind == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            time.sleep(0.02)  # what was sent arrives first
            self.connection.shutdown(socket.SHUT_RDWR)
        self.connection.close()
        raise ConnectionResetError("on demand")


def _listed(path: str, content: Content) -> dict[str, Any]:
    row: dict[str, Any] = {"type": "file", "path": path, "size": content.size, "oid": content.oid}
    if content.large:
        sizes = {"size": content.size, "pointerSize": 130}
        row["lfs"] = {"oid": content.sha256, "sha256": content.sha256, **sizes}
    return row


def _told(commit: Commit) -> dict[str, Any]:
    """A commit as the Hub lists it; the date is nobody's concern here."""
    author = {"user": "tester"}
    date = "2026-01-01T00:00:00.000Z"
    return {"id": commit.id, "title": commit.title, "message": "", "authors": [author], "date": date}


def main() -> None:
    """Serve until interrupted; the first line printed is the endpoint."""
    parser = argparse.ArgumentParser(description="a small Hub on loopback, for tests and examples")
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--fault", action="append", default=[], help='JSON, e.g. {"kind": "cut", …}')
    options = parser.parse_args()
    hub = HubServer(options.root, port=options.port)
    for text in options.fault:
        hub.fault(**json.loads(text))
    print(hub.url, flush=True)  # noqa: T201  (the caller reads it)
    hub.server.serve_forever()


__all__ = ["MAIN", "READ_TOKEN", "WRITE_TOKEN", "Fault", "HubServer", "Request"]

if __name__ == "__main__":
    main()
