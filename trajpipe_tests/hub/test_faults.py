"""Trouble on the way, each kind on both servers: recovered, or a clear error with nothing half-visible.

What is not here: processes that are killed, see `test_kill.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trajpipe.core.errors import IntegrityError, UntrustedError
from trajpipe.hub import HubError, Patience, Repository, pull, push, verify
from trajpipe.hub.listing import require_safe
from trajpipe.testing.hub_repos import Content
from trajpipe_tests.hub.conftest import published
from trajpipe_tests.hub.hubs import REPO, Hub, OwnHub, contents, repository, write_tree

STORE = r"GET .*(resolve/.*stores/lift.h5|_cdn/|/store/)"
CONTENT = r"GET .*(_cdn/|/store/)"  # where the bytes of large files come from, after a redirect
DOWNLOAD = [
    ("status", {"status": 503}),
    ("status", {"status": 429, "retry_after": 0}),
    ("cut", {"after": 100_000}),
    ("reset", {"after": 100_000}),
    ("lose-answer", {}),
    ("stall", {"seconds": 0.1}),
]
UPLOAD = [
    ("lose-answer", r"POST .*/commit/", {}),
    ("lose-answer", r"POST .*/commit/", {"times": 2}),
    ("status", r"POST .*/commit/", {"status": 500}),
    ("status", r"POST .*/commit/", {"status": 412}),
    ("status", r"POST .*/commit/", {"status": 429, "retry_after": 0}),
    ("reset", r"POST .*/commit/", {}),
    ("stall", r"POST .*/commit/", {"seconds": 0.1}),
    ("lose-answer", r"POST .*/tag/", {}),
    ("status", r"POST .*/tag/", {"status": 503}),
    ("status", r"GET .*/revision/", {"status": 503}),
    ("status", r"GET .*/tree/", {"status": 502, "times": 2}),
    ("status", r"GET .*/refs", {"status": 500}),
    ("status", r"POST .*/preupload/", {"status": 500}),
    ("status", r"POST .*/objects/batch", {"status": 503}),
    ("lose-answer", r"POST .*repos/create", {}),
    ("status", r"PUT ", {"status": 503}),
    ("cut", r"PUT ", {"after": 50_000}),
    ("reset", r"PUT ", {"after": 50_000}),
    ("lose-answer", r"PUT ", {}),
]


@pytest.mark.parametrize(("kind", "options"), DOWNLOAD)
def test_trouble_while_pulling_is_recovered(
    hub: Hub, tree: Path, tmp_path: Path, kind: str, options: dict[str, Any]
) -> None:
    repo = repository(hub)
    push(published(tree), repo)
    hub.fault(kind, CONTENT if "after" in options else STORE, **options)
    out = pull(REPO, tmp_path / "out", repository=repo)
    assert contents(out.path) == contents(tree)
    assert out.moved <= 1.1 * out.bytes


@pytest.mark.parametrize(("kind", "match", "options"), UPLOAD)
def test_trouble_while_pushing_is_recovered(
    hub: Hub, tree: Path, tmp_path: Path, kind: str, match: str, options: dict[str, Any]
) -> None:
    repo = repository(hub)
    hub.fault(kind, match, **options)
    result = push(published(tree), repo)
    assert hub.hits() == options.get("times", 1)
    hub.clear()
    assert push(published(tree), repo).unchanged
    titles = [c.title for c in repo._api.list_repo_commits(REPO, repo_type="dataset")]
    assert titles.count("trajpipe: the manifest of lift") == 1  # a lost answer makes no second commit
    assert repo.refs()[1] == {result.tag: result.commit, "v2.1": result.commit}
    assert contents(pull(REPO, tmp_path / "out", repository=repo).path) == contents(tree)


def test_an_upload_that_arrives_damaged_is_never_published(hub: Hub, tree: Path, tmp_path: Path) -> None:
    """The server refuses content that is not of its hash; nobody sees a version of it."""
    repo = repository(hub)
    first = push(published(tree), repo)
    before = contents(tree)
    write_tree(tree, seed=4)
    hub.fault("flip", "PUT ", times=10_000)
    with pytest.raises(HubError, match=rf"{REPO}.*BadDigest"):
        push(published(tree), repo)
    assert contents(pull(REPO, tmp_path / "out", repository=repo).path) == before
    assert set(repo.refs()[1]) == {first.tag, "v2.1"}
    hub.clear()
    push(published(tree), repo)
    assert contents(pull(REPO, tmp_path / "out", repository=repo).path) == contents(tree)


def test_a_flipped_byte_is_fetched_once_more_then_refused(hub: Hub, tree: Path, tmp_path: Path) -> None:
    repo = repository(hub)
    push(published(tree), repo)
    hub.fault("flip", CONTENT, offset=0, times=1)
    once = pull(REPO, tmp_path / "once", repository=repo)
    assert len(once.refetched) == 1
    assert verify(once.path).ok
    hub.clear()
    hub.fault("flip", CONTENT, offset=0, times=100)
    with pytest.raises(IntegrityError, match="damaged twice"):
        pull(REPO, tmp_path / "never", repository=repo)
    assert not (tmp_path / "never").exists()
    hub.clear()
    assert verify(pull(REPO, tmp_path / "never", repository=repo).path).ok


def test_a_server_that_ignores_ranges_costs_bytes_and_no_harm(hub: Hub, tree: Path, tmp_path: Path) -> None:
    repo = repository(hub)
    push(published(tree), repo)
    hub.fault("cut", CONTENT, after=150_000)
    hub.fault("whole", CONTENT, times=100)
    assert contents(pull(REPO, tmp_path / "out", repository=repo).path) == contents(tree)


@pytest.mark.parametrize(
    ("match", "status", "code"),
    [
        ("GET .*/resolve/", 503, "hub-server"),
        ("GET .*/resolve/", 429, "hub-rate-limit"),
        ("GET .*/refs", 403, "hub-forbidden"),
    ],
)
def test_lasting_trouble_is_told_and_leaves_nothing(
    own: OwnHub, tree: Path, tmp_path: Path, match: str, status: int, code: str
) -> None:
    repo = repository(own)
    push(published(tree), repo)
    own.fault("status", match, status=status, times=10_000)
    with pytest.raises(HubError, match=REPO) as caught:
        pull(REPO, tmp_path / "out", repository=repo)
    assert caught.value.code == code
    assert caught.value.hint
    assert not (tmp_path / "out").exists()


def test_a_push_into_lasting_trouble_shows_nothing(own: OwnHub, tree: Path, tmp_path: Path) -> None:
    repo = repository(own)
    first = push(published(tree), repo)
    write_tree(tree, episodes=6, seed=3)
    own.fault("status", "POST .*/commit/", status=500, times=10_000)
    with pytest.raises(HubError, match="in trouble"):
        push(published(tree), repo)
    assert pull(REPO, tmp_path / "out", repository=repo).revision == first.tag
    own.clear()
    second = push(published(tree), repo)
    assert pull(REPO, tmp_path / "out", repository=repo).revision == second.tag


def test_nobody_there_is_told(tmp_path: Path) -> None:
    repo = Repository(REPO, endpoint="http://127.0.0.1:9", token=False, patience=Patience(2, 0.01, 0.01))
    with pytest.raises(HubError, match="cannot be reached") as caught:
        pull(REPO, tmp_path / "out", repository=repo)
    assert caught.value.code == "hub-unreachable"


def test_two_pushes_at_once_end_whole(own: OwnHub, tree: Path, tmp_path: Path) -> None:
    """Another push commits between our reading and our commit: 412, read again, go on."""
    repo, other = repository(own), repository(own)
    other_tree = write_tree(tmp_path / "other", episodes=2, seed=5)
    push(published(tree), repo)
    write_tree(tree, episodes=5)
    done: list[str] = []

    def progress(what: str, done_bytes: int, total: int | None) -> None:
        if what == "uploaded bytes" and not done:
            done.append("now")
            done.append(push(published(other_tree), other).tag)

    result = push(published(tree), repo, progress=_Renamed(progress))
    assert pull(f"{REPO}@{result.tag}", tmp_path / "a", repository=repo).tag == result.tag
    assert contents(tmp_path / "a") == contents(tree)
    assert contents(pull(f"{REPO}@{done[1]}", tmp_path / "b", repository=repo).path) == contents(other_tree)


class _Renamed:
    """A progress callback by position."""

    def __init__(self, call: Any) -> None:
        self._call = call

    def __call__(self, what: str, done: int, total: int | None) -> None:
        self._call(what, done, total)


WICKED = [
    "../up",
    "/etc/passwd",
    "a/../../b",
    "a//b",
    "C:/x",
    "a\\b",
    ".git/config",
    "a\nb",
    "trajpipe.pull.json",
]


@pytest.mark.parametrize("path", WICKED)
def test_names_that_lead_out_are_refused(own: OwnHub, tree: Path, tmp_path: Path, path: str) -> None:
    repo = repository(own)
    push(published(tree), repo)
    stored = own.server.shelf.repos[REPO]
    commit = stored.commits[stored.branches["main"]]
    files: Any = commit.files
    files[path] = Content("0" * 64, 3, True, "0" * 40)
    with pytest.raises(UntrustedError, match="refused"):
        push(published(tree), repo)  # a listing with such a name
    manifest = files.pop("trajpipe.json")
    del files[path]
    text = own.server.shelf.path(manifest.sha256).read_text()
    assert '"demos/teleop_lift.hdf5"' in text
    import json

    wicked = text.replace('"demos/teleop_lift.hdf5"', json.dumps(path))
    files["trajpipe.json"] = own.server.shelf.keep(wicked.encode())
    with pytest.raises(UntrustedError, match="refused"):
        pull(REPO, tmp_path / "out", repository=repo)
    assert not (tmp_path / "out").exists()


def test_duplicates_and_files_that_are_folders_are_refused() -> None:
    for paths in (["a", "a"], ["a", "a/b"], ["x" * 300]):
        with pytest.raises(UntrustedError):
            require_safe(paths, place="here")
    require_safe(["a/b", "a/c", "data/é.parquet"], place="here")


def test_a_link_in_the_part_is_not_written_through(own: OwnHub, tree: Path, tmp_path: Path) -> None:
    repo = repository(own)
    push(published(tree), repo)
    outside = tmp_path / "outside"
    outside.mkdir()
    part = tmp_path / "out.part"
    part.mkdir()
    (part / "stores").symlink_to(outside)
    with pytest.raises(UntrustedError):
        pull(REPO, tmp_path / "out", repository=repo)
    assert list(outside.iterdir()) == []


def test_a_manifest_that_lies_about_its_version_is_refused(own: OwnHub, tree: Path, tmp_path: Path) -> None:
    repo = repository(own)
    result = push(published(tree), repo)
    stored = own.server.shelf.repos[REPO]
    files: Any = stored.commits[result.commit].files
    text = own.server.shelf.path(files["trajpipe.json"].sha256).read_text()
    lie = text.replace('"size": 5000', '"size": 5001')
    assert lie != text
    files["trajpipe.json"] = own.server.shelf.keep(lie.encode())
    with pytest.raises(Exception, match="data_version"):
        pull(REPO, tmp_path / "out", repository=repo)
