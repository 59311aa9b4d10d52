"""A push or pull in a process of its own that kills itself at a given moment.

    python -m trajpipe_tests.hub.worker push TREE WHEN
    python -m trajpipe_tests.hub.worker pull DEST WHEN
WHEN: `never`, `request:N` (before its N-th request), `answer:N` (after the N-th answer), `bytes:N` (when N
bytes were received). What is not here: what the tests make of it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from trajpipe.hub import Repository, pull, push
from trajpipe_tests.hub.conftest import published
from trajpipe_tests.hub.hubs import QUICK, REPO


def main(act: str, folder: str, when: str) -> None:
    kind, _, number = when.partition(":")
    limit, counts = int(number or 0), {"request": 0, "answer": 0}

    def count(event: str) -> None:
        counts[event] += 1
        if kind == event and counts[event] >= limit:
            os.kill(os.getpid(), signal.SIGKILL)

    def progress(what: str, done: int, total: int | None) -> None:
        if kind == "bytes" and what == "downloaded bytes" and done >= limit:
            os.kill(os.getpid(), signal.SIGKILL)

    from huggingface_hub.utils import get_session  # type: ignore[attr-defined]  # public, not declared

    hooks = get_session().event_hooks
    hooks["request"].append(lambda _: count("request"))
    hooks["response"].append(lambda _: count("answer"))
    get_session().event_hooks = hooks
    repository = Repository(REPO, patience=QUICK)
    result: Any
    if act == "push":
        result = push(published(Path(folder)), repository)
    else:
        result = pull(REPO, Path(folder), repository=repository, progress=progress)
    print(json.dumps({"requests": counts["request"], "result": result.to_json()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
