"""Processes killed at random moments: a repeat ends with one whole version, and little is sent twice.

What is not here: errors that a process survives, see `test_faults.py`.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trajpipe.hub import pull, push, verify
from trajpipe_tests.hub.conftest import published
from trajpipe_tests.hub.hubs import REPO, Hub, contents, environment, repository, write_tree

MB = 1_000_000


def work(hub: Hub, home: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Run the worker; its exit code and what it printed."""
    command = [sys.executable, "-m", "trajpipe_tests.hub.worker", *arguments]
    done = subprocess.run(command, env=environment(hub, home), capture_output=True, text=True, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode, json.loads(done.stdout) if done.stdout else {}


@pytest.mark.slow
@pytest.mark.timeout(3600)  # 20 times 300 MB, twice
def test_a_push_killed_at_random_moments_ends_whole(hub: Hub, tmp_path: Path, full: bool) -> None:
    tree = write_tree(tmp_path / "tree", store_bytes=2 * MB)
    repo = repository(hub)
    first = push(published(tree), repo)
    requests = len(hub.asked())
    versions = {first.tag: contents(tree)}
    draw = random.Random(8)
    for trial in range(20 if full else 2):
        write_tree(tree, episodes=4 + trial % 3, store_bytes=2 * MB, seed=trial + 1)
        event = draw.choice(["request", "answer"])
        code, _ = work(hub, tmp_path / "home", "push", str(tree), f"{event}:{draw.randint(1, requests)}")
        last = pull(REPO, tmp_path / "seen", repository=repo)  # what a reader sees between the two
        assert contents(last.path) == versions.get(last.tag, contents(tree))
        result = push(published(tree), repo)
        assert code != 0 or result.unchanged
        versions[result.tag] = contents(tree)
        assert contents(pull(REPO, tmp_path / "seen", repository=repo).path) == contents(tree)
        assert repo.refs()[1]["v2.1"] == result.commit
    assert {t for t in repo.refs()[1] if t != "v2.1"} == set(versions)


@pytest.mark.slow
@pytest.mark.timeout(3600)  # 20 times 300 MB, twice
def test_a_pull_killed_at_random_moments_goes_on(hub: Hub, tmp_path: Path, full: bool) -> None:
    size = 300 * MB if full else 20 * MB
    tree = write_tree(tmp_path / "tree", episodes=200, store_bytes=size)
    repo = repository(hub)
    push(published(tree), repo)
    whole = contents(tree)
    total = sum(map(len, whole.values()))
    draw = random.Random(9)
    for _ in range(20 if full else 2):
        out = tmp_path / "out"
        at = draw.randint(total // 20, total)
        code, _ = work(hub, tmp_path / "home", "pull", str(out), f"bytes:{at}")
        assert code == -signal.SIGKILL
        assert not out.exists()
        rest = pull(REPO, out, repository=repo)
        assert contents(out) == whole
        assert verify(out).ok
        assert at + rest.moved <= 1.1 * rest.bytes
        assert not (tmp_path / "out.part").exists()
        subprocess.run(["rm", "-r", str(out)], check=True)
