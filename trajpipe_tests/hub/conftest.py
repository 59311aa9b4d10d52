"""Servers and repositories for the Hub's tests.

What is not here: what they share with the worker processes, see `hubs.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from trajpipe.hub import CardFacts, Publication, Repository, files_below
from trajpipe.testing.hub_server import HubServer
from trajpipe_tests.hub.hubs import REPO, Hub, MiniHub, OwnHub, repository, write_tree


@pytest.fixture(autouse=True)
def online(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The client as a user has it: no offline mode, no login of this machine, no endpoint."""
    from huggingface_hub import constants

    for name in (
        "HF_HUB_OFFLINE",
        "TRANSFORMERS_OFFLINE",
        "HF_TOKEN",
        "HF_ENDPOINT",
        "HUGGING_FACE_HUB_TOKEN",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-login"))
    monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")


@pytest.fixture
def own(tmp_path: Path) -> Iterator[OwnHub]:
    """The project's own server; large files come from another host name."""
    with HubServer(tmp_path / "hub", storage_host="localhost") as server:
        yield OwnHub(server)


@pytest.fixture(params=["own", pytest.param("mini", marks=pytest.mark.shared)])
def hub(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Hub]:
    """Each of the two servers."""
    if request.param == "own":
        yield request.getfixturevalue("own")
        return
    script = request.getfixturevalue("shared") / "tools/mini_hub.py"
    server = MiniHub(script, tmp_path / "minihub")
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder in the published layout."""
    return write_tree(tmp_path / "tree")


@pytest.fixture
def repo(hub: Hub) -> Repository:
    """The test repository, not created yet."""
    return repository(hub)


def published(tree: Path, licence: str | None = "apache-2.0") -> Publication:
    """A folder as a publication with a card."""
    facts = CardFacts(REPO, "lift", "A cube is lifted.", licence, 4, 100, lerobot=True, lerobot_tag="v2.1")
    return Publication(files_below(tree), "lift", licence, {"seed": 7}, facts)
