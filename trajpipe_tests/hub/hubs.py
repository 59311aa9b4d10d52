"""The two servers that the tests run against, behind one face: the project's own, and the shared folder's.

What is not here: fixtures, see `conftest.py`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from trajpipe.hub import Patience, Repository
from trajpipe.testing.hub_server import READ_TOKEN, WRITE_TOKEN, Fault, HubServer

REPO: Final = "org/lift"
QUICK: Final = Patience(attempts=6, first_wait_s=0.01, longest_wait_s=0.05)
_MINI_KINDS: Final = {
    "status": "status",
    "cut": "drop",
    "reset": "reset",
    "flip": "corrupt",
    "lose-answer": "lose_response",
    "stall": "delay",
    "whole": "ignore_range",
}


@dataclass(frozen=True)
class Asked:
    """One request that a server saw."""

    method: str
    path: str
    host: str
    authorization: str | None
    range: str | None
    sent: int


class Hub(Protocol):
    """What a test needs of a server."""

    url: str

    def fault(self, kind: str, match: str, **options: Any) -> None:
        """Trouble for the next requests that fit; options as `trajpipe.testing.hub_server.Fault`."""

    def clear(self) -> None:
        """No trouble any more."""

    def asked(self) -> list[Asked]:
        """What was asked so far."""

    def hits(self) -> int:
        """How many requests had trouble so far."""


class OwnHub:
    """The project's own server, in this process."""

    def __init__(self, server: HubServer) -> None:
        self.server, self.url = server, server.url
        self._faults: list[tuple[Fault, int]] = []

    def fault(self, kind: str, match: str, **options: Any) -> None:
        made = self.server.fault(kind, match, **options)
        self._faults.append((made, made.times))

    def hits(self) -> int:
        return sum(times - fault.times for fault, times in self._faults)

    def clear(self) -> None:
        self.server.faults.clear()

    def asked(self) -> list[Asked]:
        while self.server.answering:  # the client may have its answer before the server has noted it
            time.sleep(0.001)
        return [
            Asked(r.method, r.path, r.host, r.authorization, r.range, r.sent) for r in self.server.requests
        ]


class MiniHub:
    """`mini_hub.py` of the shared folder, a process of its own; large files come from another host."""

    def __init__(self, script: Path, root: Path) -> None:
        tokens = [f"--token=writer:{WRITE_TOKEN}:write", f"--token=reader:{READ_TOKEN}:read"]
        command = [sys.executable, str(script), "--root", str(root), "--port", "0", "--cdn", *tokens]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        self._faults: list[dict[str, Any]] = []

    def fault(self, kind: str, match: str, **options: Any) -> None:
        count = options.pop("times", 1)
        self._faults.append({"kind": _MINI_KINDS[kind], "match": match, "count": count, **options})
        self._post(self._faults)

    def clear(self) -> None:
        self._faults = []
        self._post([])

    def _post(self, faults: list[dict[str, Any]]) -> None:
        data = json.dumps(faults).encode()
        with urllib.request.urlopen(f"{self.url}/_admin/faults", data=data) as answer:
            answer.read()

    def asked(self) -> list[Asked]:
        with urllib.request.urlopen(f"{self.url}/_admin/log") as answer:
            rows = json.load(answer)
        return [Asked(r["method"], r["path"], r["host"], r["auth"], r["range"], r["sent"]) for r in rows]

    def hits(self) -> int:
        with urllib.request.urlopen(f"{self.url}/_admin/log") as answer:
            return sum(row["fault"] is not None for row in json.load(answer))

    def stop(self) -> None:
        self.process.kill()  # a child of a background job may ignore milder signals
        self.process.wait()


def repository(hub: Hub, token: str | bool = WRITE_TOKEN, repo: str = REPO) -> Repository:
    """A repository on a server, with little patience."""
    return Repository(repo, endpoint=hub.url, token=token, patience=QUICK)


def write_tree(folder: Path, *, episodes: int = 4, store_bytes: int = 300_000, seed: int = 0) -> Path:
    """A folder in the published layout: a LeRobot tree's files, a store and an L2 file, of random bytes."""
    files = {"meta/info.json": b'{"codebase_version": "v2.1", "total_episodes": %d}' % episodes}
    files |= {
        f"data/chunk-000/episode_{n:06d}.parquet": _noise(seed * 1000 + n, 2000 + n) for n in range(episodes)
    }
    files["meta/episodes.jsonl"] = b"".join(b'{"episode_index": %d}\n' % n for n in range(episodes))
    files["stores/lift.h5"] = _noise(seed + 77, store_bytes)
    files["demos/teleop_lift.hdf5"] = _noise(seed + 78, 5000)
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


def _noise(seed: int, size: int) -> bytes:
    import numpy as np

    return np.random.default_rng(seed).bytes(size)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder but what the Hub adds."""
    added = ("README.md", "trajpipe.json", "trajpipe.pull.json")
    paths = (p for p in sorted(folder.rglob("*")) if p.is_file())
    found = {p.relative_to(folder).as_posix(): p.read_bytes() for p in paths}
    return {path: data for path, data in found.items() if path not in added}


def environment(hub: Hub, home: Path, token: str | None = WRITE_TOKEN) -> dict[str, str]:
    """The environment of a process that talks to a server."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "TRANSFORMERS_", "TRAJPIPE_"))}
    made = {"HF_ENDPOINT": hub.url, "HF_HOME": str(home), "PYTHONPATH": str(Path(__file__).parents[2])}
    return kept | made | ({"HF_TOKEN": token} if token else {})
