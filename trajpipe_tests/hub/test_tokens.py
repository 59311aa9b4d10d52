"""Logins: who may do what, what is said when they may not, and that a token is found nowhere afterwards.

What is not here: what is pushed and pulled, see `test_push_pull.py`.
"""

from __future__ import annotations

import json
import logging
import pickle
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

from trajpipe.hub import HubError, Repository, pull, push
from trajpipe.hub.errors import Context
from trajpipe.testing import write_recording
from trajpipe.testing.hub_server import READ_TOKEN, WRITE_TOKEN
from trajpipe_tests.hub.conftest import published
from trajpipe_tests.hub.hubs import REPO, Hub, OwnHub, environment, repository

WRONG = "hf_" + "x" * 34
CATALOGUE = """
version: 1
datasets:
  lift:
    license: apache-2.0
    task: lift the cube
    hub: {repo: org/lift}
    raw: [{kind: isaaclab, glob: "raw/*.hdf5", tag: scripted, conventions: {fps: 20}}]
"""


def test_a_private_repository_opens_to_its_members_alone(hub: Hub, tree: Path, tmp_path: Path) -> None:
    push(published(tree), repository(hub))
    assert pull(REPO, tmp_path / "reader", repository=repository(hub, READ_TOKEN)).files
    for token, code in ((WRONG, "hub-bad-token"), (False, "hub-no-repository")):
        with pytest.raises(HubError) as caught:
            pull(REPO, tmp_path / "other", repository=repository(hub, token))
        assert caught.value.code == code
        assert REPO in str(caught.value)
        assert "HF_TOKEN" in str(caught.value)
    assert not (tmp_path / "other").exists()


def test_a_read_only_token_cannot_push(hub: Hub, tree: Path) -> None:
    with pytest.raises(HubError, match="may not") as caught:
        push(published(tree), repository(hub, READ_TOKEN))  # there is no repository, and it cannot make one
    assert caught.value.code == "hub-forbidden"
    assert "write role for org" in str(caught.value)
    push(published(tree), repository(hub))
    (tree / "meta/episodes.jsonl").write_text("changed\n")
    with pytest.raises(HubError, match="may not"):
        push(published(tree), repository(hub, READ_TOKEN))


def test_a_login_is_needed_to_push(hub: Hub, tree: Path) -> None:
    with pytest.raises(HubError, match="HF_TOKEN"):
        push(published(tree), repository(hub, token=False))


def test_the_token_is_taken_from_the_environment(
    own: OwnHub, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", WRITE_TOKEN)
    monkeypatch.setenv("HF_ENDPOINT", own.url)
    push(published(tree), Repository(REPO))
    assert {a.authorization for a in own.asked() if "/api/" in a.path} == {f"Bearer {WRITE_TOKEN}"}


def test_errors_and_objects_hold_no_token(own: OwnHub, tree: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    repo = repository(own)
    said = [
        repr(repo),
        repr(repo.context),
        str(vars(repo.context) if hasattr(repo.context, "__dict__") else ""),
    ]
    own.fault("status", "POST .*/commit/", status=403, times=1)
    try:
        push(published(tree), repo)
    except HubError as error:
        said += ["".join(traceback.format_exception(error)), repr(error), str(pickle.dumps(error))]
    assert len(said) > 3
    assert WRITE_TOKEN not in "\n".join([*said, caplog.text])


def test_a_server_that_repeats_the_token_is_not_quoted() -> None:
    context = Context(REPO, "http://hub", WRITE_TOKEN)
    for text in (f"bad token {WRITE_TOKEN}", f"see http://x/y?sig=1&token={WRITE_TOKEN}", f"Bearer {WRONG}"):
        cleaned = context.clean(text)
        assert "hf_" not in cleaned
        assert "sig=" not in cleaned


def test_nothing_that_a_run_leaves_behind_holds_the_token(own: OwnHub, tmp_path: Path) -> None:
    """Command line: run, push, pull, verify, failures with tracebacks; then every byte left is searched."""
    data = tmp_path / "work/data"
    write_recording(
        "isaaclab", data / "raw/scripted_0.hdf5", episodes=2, rows=(12, 14), seed=1, image_size=64
    )
    (data / "datasets.yaml").write_text(CATALOGUE, encoding="utf-8")
    said = b""
    for words, code in (
        (["run", "lift"], 0),
        (["push", "lift", "-vv"], 0),
        (["push", "lift", "--json"], 0),
        (["pull", "org/lift", "out", "-vv"], 0),
        (["verify", "out", "--json"], 0),
        (["pull", "org/lift@nope", "other", "-vv"], 2),
        (["push", "lift", "--repo", "elsewhere/lift", "-vv"], 2),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "trajpipe", *words],
            cwd=tmp_path / "work",
            env=environment(own, tmp_path / "work/home") | {"HF_HUB_VERBOSITY": "debug"},
            capture_output=True,
            check=False,
        )
        assert done.returncode == code, done.stderr.decode()
        said += done.stdout + done.stderr
    left = [p for p in (tmp_path / "work").rglob("*") if p.is_file()]
    left += [p for p in (tmp_path / "hub").rglob("*") if p.is_file()]
    assert len(left) > 20
    assert [p for p in left if WRITE_TOKEN.encode() in p.read_bytes()] == []
    assert WRITE_TOKEN.encode() not in said
    assert json.loads((tmp_path / "work/out/trajpipe.json").read_text())["dataset"] == "lift"
    assert not list((tmp_path / "work").glob("*.part"))
