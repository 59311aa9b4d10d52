"""A push that stopped on its way: what readers get before it is repeated, at each place where it can stop.

What is not here: processes that are killed (`test_kill.py`), trouble that a push survives (`test_faults.py`).
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trajpipe.core.errors import InputError, IntegrityError, OutputExistsError
from trajpipe.hub import (
    HubError,
    Selection,
    pull,
    pull_tree,
    push,
    verify,
)
from trajpipe.hub.manifest import Manifest
from trajpipe.hub.pull import published_manifest
from trajpipe.hub.versions import followed
from trajpipe_tests.hub.conftest import published
from trajpipe_tests.hub.hubs import REPO, Hub, OwnHub, contents, environment, repository, write_tree

# Where a push stops: the requests that fail from then on.
STOPS = {
    "nothing uploaded": "POST .*/preupload/",
    "uploaded, not committed": "POST .*/commit/",
    "no tag": "POST .*/tag/",
    "not LeRobot's tag": "DELETE .*/tag/",
}


def stopped_push(hub: Hub, tree: Path, match: str) -> None:
    """A push whose requests fail from some point on, as when its process is killed there."""
    hub.fault("status", match, status=403, times=10_000)
    with pytest.raises(HubError):
        push(published(tree), repository(hub))
    hub.clear()


def stopped_after_files(own: OwnHub, tree: Path) -> None:
    """A push that committed its files, and not its manifest."""
    own.fault("stall", "POST .*/commit/", seconds=0.0)  # the commit of the files goes through
    stopped_push(own, tree, "POST .*/commit/")


@pytest.mark.parametrize("match", STOPS.values(), ids=list(STOPS))
def test_readers_get_the_version_before(hub: Hub, tree: Path, tmp_path: Path, match: str) -> None:
    repo = repository(hub)
    first = push(published(tree), repo)
    before = contents(tree)
    write_tree(tree, episodes=6, seed=3)
    stopped_push(hub, tree, match)
    finished = match.startswith("DELETE")  # the version's own tag is there
    out = pull(REPO, tmp_path / "out", repository=repo)
    assert contents(out.path) == (contents(tree) if finished else before)
    assert verify(out.path).ok
    tags = repo.refs()[1]
    assert tags["v2.1"] == first.commit
    no_tag = match == STOPS["no tag"]
    assert bool(out.unfinished) == no_tag
    assert out.unfinished not in tags
    assert pull(REPO, tmp_path / "out", repository=repo).moved == 0

    second = push(published(tree), repo)
    assert (out.revision, out.unfinished) == (
        (second.tag, "") if finished else (first.tag, no_tag * second.tag)
    )
    whole = pull(REPO, tmp_path / "out", repository=repo)
    assert (whole.revision, whole.unfinished) == (second.tag, "")
    assert contents(whole.path) == contents(tree)
    assert repo.refs()[1]["v2.1"] == second.commit


def test_files_without_their_manifest_are_not_seen(own: OwnHub, tree: Path, tmp_path: Path) -> None:
    repo = repository(own)
    first = push(published(tree), repo)
    before = contents(tree)
    write_tree(tree, episodes=6, seed=3)
    stopped_after_files(own, tree)
    head = repo.state().commit
    assert head != first.commit
    assert contents(pull(REPO, tmp_path / "out", repository=repo).path) == before
    with pytest.raises(IntegrityError, match="in the middle of a push") as caught:
        pull(f"{REPO}@{head}", tmp_path / "half", repository=repo)
    assert f"trajpipe pull {REPO}" in str(caught.value)
    assert not (tmp_path / "half").exists()
    assert not (tmp_path / "half.part").exists()


@pytest.mark.parametrize("match", [STOPS["nothing uploaded"], STOPS["no tag"]])
def test_a_first_push_that_stopped_says_how_to_mend_it(
    hub: Hub, tree: Path, tmp_path: Path, match: str
) -> None:
    stopped_push(hub, tree, match)
    repo = repository(hub)
    for ask in (
        lambda: pull(REPO, tmp_path / "out", repository=repo),
        lambda: pull(REPO, tmp_path / "out", selection=Selection(("store",)), repository=repo),
        lambda: published_manifest(repo, None),
    ):
        with pytest.raises(InputError, match=f"trajpipe push .*--repo {REPO}") as caught:
            ask()
        empty = match == STOPS["nothing uploaded"]
        assert caught.value.code == ("not-published" if empty else "push-unfinished")
        assert ("interrupted" in str(caught.value)) != empty
    assert list(tmp_path.glob("out*")) == []
    second = push(published(tree), repo)
    assert pull(REPO, tmp_path / "out", repository=repo).revision == second.tag


def test_a_first_push_without_its_manifest_says_so(own: OwnHub, tree: Path, tmp_path: Path) -> None:
    stopped_after_files(own, tree)
    with pytest.raises(InputError, match=r"files and no trajpipe\.json.*interrupted") as caught:
        pull(REPO, tmp_path / "out", repository=repository(own))
    assert caught.value.code == "push-unfinished"
    push(published(tree), repository(own))
    assert contents(pull(REPO, tmp_path / "out", repository=repository(own)).path) == contents(tree)


def test_parts_come_from_the_finished_version(hub: Hub, tree: Path, tmp_path: Path) -> None:
    repo = repository(hub)
    first = push(published(tree), repo)
    store = (tree / "stores/lift.h5").read_bytes()
    write_tree(tree, seed=3)
    (tree / "demos/teleop_lift.hdf5").unlink()
    stopped_push(hub, tree, STOPS["no tag"])
    demos = pull(REPO, tmp_path / "out", selection=Selection(("demos",)), repository=repo)
    assert demos.revision == first.tag  # the newer version has no such part
    both = pull(REPO, tmp_path / "out", selection=Selection(("store",)), repository=repo)
    assert (both.path / "stores/lift.h5").read_bytes() == store
    assert published_manifest(repo, None).tag == first.tag
    assert verify(both.path).partial


def test_the_last_finished_version_counts_not_the_newest_tag(hub: Hub, tree: Path, tmp_path: Path) -> None:
    """A, B, A again, and a stopped C: readers get A, although B's tag is younger than A's."""
    repo = repository(hub)
    first = push(published(tree), repo)
    again = contents(tree)
    push(published(write_tree(tree, seed=1)), repo)
    push(published(write_tree(tree, seed=0)), repo)
    for seed in (2, 3):  # two pushes of other contents stop, none is repeated
        stopped_push(hub, write_tree(tree, seed=seed), STOPS["no tag"])
    out = pull(REPO, tmp_path / "out", repository=repo)
    assert (out.revision, contents(out.path)) == (first.tag, again)


def test_tags_of_people_are_no_versions(own: OwnHub, tree: Path, tmp_path: Path) -> None:
    stopped_push(own, tree, STOPS["no tag"])
    repo = repository(own)
    repo.tag("v1", repo.state().commit)
    with pytest.raises(InputError, match="was interrupted"):
        pull(REPO, tmp_path / "out", repository=repo)
    assert contents(pull(f"{REPO}@v1", tmp_path / "out", repository=repo).path) == contents(tree)


def test_a_version_tag_that_somebody_moved_is_refused(hub: Hub, tree: Path, tmp_path: Path) -> None:
    repo = repository(hub)
    first = push(published(tree), repo)
    second = push(published(write_tree(tree, seed=1)), repo)
    repo.untag(first.tag)
    repo.tag(first.tag, second.commit)
    with pytest.raises(IntegrityError, match="names another content") as caught:
        pull(f"{REPO}@{first.tag}", tmp_path / "out", repository=repo)
    assert (caught.value.got, caught.value.expected) == (second.tag, first.tag)
    assert not (tmp_path / "out").exists()
    with pytest.raises(OutputExistsError, match="delete that tag"):
        push(published(write_tree(tree, seed=0)), repo)
    repo.untag(first.tag)
    assert push(published(tree), repo).tag == first.tag
    assert pull(f"{REPO}@{first.tag}", tmp_path / "out", repository=repo).files


def test_a_deleted_manifest_leaves_the_versions(own: OwnHub, tree: Path, tmp_path: Path) -> None:
    from huggingface_hub import CommitOperationDelete

    repo = repository(own)
    first = push(published(tree), repo)
    repo.commit([CommitOperationDelete("trajpipe.json")], parent=first.commit, message="tidy up")
    assert pull(REPO, tmp_path / "out", repository=repo).revision == first.tag


def test_a_commit_with_a_whole_version_can_be_pulled(hub: Hub, tree: Path, tmp_path: Path) -> None:
    repo = repository(hub)
    stopped_push(hub, tree, STOPS["no tag"])
    head = repo.state().commit
    out = pull(f"{REPO}@{head}", tmp_path / "out", repository=repo)
    assert (out.revision, out.commit) == (head, head)
    assert contents(out.path) == contents(tree)


def test_a_followed_branch_steps_from_version_to_version(own: OwnHub, tree: Path, tmp_path: Path) -> None:
    repo = repository(own)
    stopped_push(own, tree, STOPS["no tag"])
    with pytest.raises(InputError, match="interrupted"):
        followed(repo, "main")
    first = push(published(tree), repo)
    before = contents(tree)
    write_tree(tree, episodes=6, seed=3)
    for stop in (stopped_after_files, lambda hub, folder: stopped_push(hub, folder, STOPS["no tag"])):
        stop(own, tree)
        assert repo.state().commit != first.commit
        assert followed(repo, "main") == first.commit
        assert followed(repo, first.tag) == followed(repo, first.commit) == first.commit
        raw = pull_tree(repo, "main", tmp_path / "raw")
        assert {k: v for k, v in contents(raw.path).items() if not k.startswith(".")} == before
    second = push(published(tree), repo)
    assert followed(repo, "main") == second.commit == pull_tree(repo, "main", tmp_path / "raw").commit


def test_the_history_is_read_to_its_end(own: OwnHub, tree: Path, tmp_path: Path) -> None:
    """More commits than a page of the listing holds lie on the way back."""
    from huggingface_hub import CommitOperationAdd

    repo = repository(own)
    first = push(published(tree), repo)
    before, head = contents(tree), first.commit
    unfinished = Manifest.parse(repo.read("trajpipe.json", head) or b"", place="x").to_text()
    unfinished = Manifest(Manifest.parse(unfinished, place="x").entries[1:], "lift").to_text()
    for n in range(120):
        add = CommitOperationAdd("trajpipe.json", f"{unfinished}{' ' * n}".encode())
        head = repo.commit([add], parent=head, message=f"{n}")
    assert len(repo.history()) == len(own.server.shelf.repos[REPO].commits) > 120
    out = pull(REPO, tmp_path / "out", repository=repo)
    assert (out.revision, contents(out.path)) == (first.tag, before)


def test_the_command_line_says_so(own: OwnHub, tree: Path, tmp_path: Path) -> None:
    first = push(published(tree), repository(own))
    stopped_push(own, write_tree(tree, seed=3), STOPS["no tag"])
    done = pulled(own, tmp_path, "out")
    assert (done.returncode, done.stderr) == (0, "")
    assert "newest finished one. Repeating that push finishes it" in done.stdout
    assert f"{REPO}@{first.tag}" in done.stdout
    document: dict[str, Any] = json.loads(pulled(own, tmp_path, "out", "--json").stdout)
    assert document["unfinished"].startswith("v")
    push(published(tree), repository(own))
    document = json.loads(pulled(own, tmp_path, "out", "--json").stdout)
    assert (document["unfinished"], document["tag"] == first.tag) == ("", False)


def pulled(own: OwnHub, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "trajpipe", "pull", REPO, *words]
    return subprocess.run(
        command,
        cwd=folder,
        env=environment(own, folder / "home"),
        capture_output=True,
        text=True,
        check=False,
    )
