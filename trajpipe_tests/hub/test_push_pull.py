"""Push and pull against both servers: round trips, what moves, tags, refusals, offline.

What is not here: faults and kills (`test_faults.py`, `test_kill.py`), logins (`test_tokens.py`).
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from trajpipe.core.errors import InputError, OutputExistsError, UsageError
from trajpipe.hub import (
    HubError,
    Publication,
    PushOptions,
    Repository,
    Selection,
    files_below,
    plan_push,
    pull,
    pull_tree,
    push,
    read_manifest,
    verify,
)
from trajpipe_tests.hub.conftest import published
from trajpipe_tests.hub.hubs import REPO, Hub, OwnHub, contents, repository, write_tree


def test_what_was_pushed_is_what_is_pulled(hub: Hub, repo: Repository, tree: Path, tmp_path: Path) -> None:
    result = push(published(tree), repo)
    assert result.created
    assert result.private
    assert result.tags == (result.tag, "v2.1")
    out = pull(f"{REPO}@{result.tag}", tmp_path / "out", repository=repo)
    assert contents(out.path) == contents(tree)
    assert out.moved == out.bytes == sum(e.size for e in read_manifest(out.path).entries)
    checked = verify(out.path)
    assert checked.ok
    assert checked.foreign == ()
    assert checked.checked == out.files
    foreign_host = [a for a in hub.asked() if a.host.startswith("localhost")]
    assert foreign_host
    assert all(a.authorization is None for a in foreign_host)


def test_pushing_again_moves_nothing(hub: Hub, repo: Repository, tree: Path) -> None:
    first = push(published(tree), repo)
    before = len([a for a in hub.asked() if a.method in ("PUT", "POST")])
    again = push(published(tree), repo)
    assert again.unchanged
    assert again.moved == 0
    assert (again.commit, again.tags) == (first.commit, first.tags)
    assert len([a for a in hub.asked() if a.method in ("PUT", "POST")]) == before


def test_one_more_episode_moves_its_own_files_alone(repo: Repository, tree: Path, tmp_path: Path) -> None:
    first = push(published(tree), repo)
    write_tree(tree, episodes=5)
    second = push(published(tree), repo)
    assert set(second.uploaded) == {
        "README.md",
        "data/chunk-000/episode_000004.parquet",
        "meta/episodes.jsonl",
        "meta/info.json",
        "trajpipe.json",
    }
    assert second.tag != first.tag
    assert second.deleted == ()
    old = pull(f"{REPO}@{first.tag}", tmp_path / "old", repository=repo)
    new = pull(REPO, tmp_path / "old", repository=repo)
    assert not (tmp_path / "old.part").exists()
    assert old.moved > new.moved
    assert new.revision == second.tag
    assert contents(new.path) == contents(tree)


def test_files_of_an_older_version_leave(repo: Repository, tree: Path, tmp_path: Path) -> None:
    first = push(published(tree), repo)
    (tree / "data/chunk-000/episode_000003.parquet").unlink()
    second = push(published(tree), repo)
    assert second.deleted == ("data/chunk-000/episode_000003.parquet",)
    assert contents(pull(REPO, tmp_path / "new", repository=repo).path) == contents(tree)
    old = pull(f"{REPO}@{first.tag}", tmp_path / "old", repository=repo)
    assert len(contents(old.path)) == len(contents(tree)) + 1


def test_going_back_to_an_older_content_keeps_its_tag(repo: Repository, tree: Path, tmp_path: Path) -> None:
    first = push(published(tree), repo)
    write_tree(tree, episodes=5)
    push(published(tree), repo)
    (tree / "data/chunk-000/episode_000004.parquet").unlink()
    write_tree(tree, episodes=4)
    third = push(published(tree), repo)
    assert third.tag == first.tag
    assert third.commit != first.commit
    assert pull(REPO, tmp_path / "out", repository=repo).commit == first.commit  # the tag did not move
    assert repo.refs()[1]["v2.1"] == third.commit  # LeRobot's did


def test_a_dry_run_tells_and_does_nothing(hub: Hub, repo: Repository, tree: Path) -> None:
    plan = plan_push(published(tree), repo)
    assert plan.dry_run
    assert plan.created
    assert "stores/lift.h5" in plan.uploaded
    assert all(a.method == "GET" for a in hub.asked())
    done = push(published(tree), repo)
    assert plan.tag == done.tag
    assert set(done.uploaded) == {*plan.uploaded, "trajpipe.json"}
    assert plan_push(published(tree), repo).uploaded == ()


def test_an_own_tag_never_moves(repo: Repository, tree: Path) -> None:
    first = push(published(tree), repo, PushOptions(tag="paper"))
    assert "paper" in first.tags
    assert push(published(tree), repo, PushOptions(tag="paper")).unchanged
    write_tree(tree, episodes=6)
    with pytest.raises(OutputExistsError, match="never moves"):
        push(published(tree), repo, PushOptions(tag="paper"))
    assert repo.refs()[1]["paper"] == first.commit


def test_people_keep_what_they_wrote_on_the_card(repo: Repository, tree: Path, tmp_path: Path) -> None:
    first = push(published(tree), repo)
    text = (repo.read("README.md", first.commit) or b"").decode()
    from huggingface_hub import CommitOperationAdd

    edited = f"{text}\n## Mine\n\nDo not touch.\n"
    repo.commit([CommitOperationAdd("README.md", edited.encode())], parent=first.commit, message="edit")
    write_tree(tree, episodes=5)
    second = push(published(tree), repo)
    card = (repo.read("README.md", second.commit) or b"").decode()
    assert card.endswith("\n## Mine\n\nDo not touch.\n")
    assert second.tag in card
    assert first.tag not in card


def test_a_repository_of_others_is_not_overwritten(repo: Repository, tree: Path) -> None:
    from huggingface_hub import CommitOperationAdd

    repo.create(private=True)
    head = repo.state().commit
    repo.commit([CommitOperationAdd("data/chunk-000/old.parquet", b"theirs")], parent=head, message="theirs")
    with pytest.raises(OutputExistsError, match="other files"):
        push(published(tree), repo)
    assert push(published(tree), repo, PushOptions(force=True)).deleted == ("data/chunk-000/old.parquet",)


@pytest.mark.parametrize("licence", [None, "CC-BY-NC-ND-4.0", "cc-by-nc-4.0", "CC-BY-ND-4.0", "unknown"])
def test_a_public_push_needs_a_licence(repo: Repository, tree: Path, licence: str | None) -> None:
    publication = published(tree, licence)
    with pytest.raises(UsageError, match="licence"):
        push(publication, repo, PushOptions(private=False))
    with pytest.raises(HubError):
        repo.state()  # nothing was made
    assert push(publication, repo, PushOptions(private=False, allow_license=True)).private is False
    with pytest.raises(UsageError, match="licence"):
        push(publication, repo)  # private was asked for, but the repository is public


def test_visibility_of_an_existing_repository_stays(repo: Repository, tree: Path) -> None:
    push(published(tree), repo)
    again = push(published(write_tree(tree, episodes=5)), repo, PushOptions(private=False))
    assert again.private is True
    assert repo.state().private is True


def test_parts_and_episodes_can_be_chosen_and_add_up(repo: Repository, tree: Path, tmp_path: Path) -> None:
    push(published(tree), repo)
    out = tmp_path / "out"
    pull(REPO, out, selection=Selection(("store",)), repository=repo)
    assert set(contents(out)) == {"stores/lift.h5"}
    assert verify(out).ok
    assert verify(out).partial
    more = pull(REPO, out, selection=Selection(("lerobot",), (1, 3)), repository=repo)
    assert set(contents(out)) == {
        "stores/lift.h5",
        "meta/info.json",
        "meta/episodes.jsonl",
        "data/chunk-000/episode_000001.parquet",
        "data/chunk-000/episode_000003.parquet",
    }
    assert more.moved < 10_000  # the store was there
    with pytest.raises(UsageError, match="no such episode"):
        pull(REPO, tmp_path / "x", selection=Selection((), (9,)), repository=repo)


def test_what_is_there_moves_no_bytes_and_damage_is_repaired(
    repo: Repository, tree: Path, tmp_path: Path
) -> None:
    push(published(tree), repo)
    out = pull(REPO, tmp_path / "out", repository=repo)
    assert pull(REPO, out.path, repository=repo).moved == 0
    store = out.path / "stores/lift.h5"
    data = bytearray(store.read_bytes())
    data[1000] ^= 1
    store.write_bytes(data)
    assert verify(out.path).damaged == ("stores/lift.h5",)
    again = pull(REPO, out.path, repository=repo)
    assert again.moved == len(data)
    assert verify(out.path).ok


def test_files_that_no_pull_wrote_are_not_replaced(repo: Repository, tree: Path, tmp_path: Path) -> None:
    push(published(tree), repo)
    out = tmp_path / "out"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    with pytest.raises(OutputExistsError, match="no pull wrote"):
        pull(REPO, out, repository=repo)
    assert (out / "notes.txt").read_text() == "mine"
    pull(REPO, out, repository=repo, force=True)
    assert verify(out).ok
    assert not (out / "notes.txt").exists()


def test_branches_are_refused_and_half_pushes_are_never_seen(
    repo: Repository, tree: Path, tmp_path: Path
) -> None:
    with pytest.raises(HubError, match="no such repository"):
        pull(REPO, tmp_path / "out", repository=repo)
    repo.create(private=True)
    with pytest.raises(InputError, match="no published version"):
        pull(REPO, tmp_path / "out", repository=repo)
    push(published(tree), repo)
    with pytest.raises(UsageError, match="a branch moves"):
        pull(f"{REPO}@main", tmp_path / "out", repository=repo)
    repo.untag(read_manifest(pull(REPO, tmp_path / "out", repository=repo).path).tag)
    with pytest.raises(InputError, match="was interrupted"):
        pull(REPO, tmp_path / "new", repository=repo)
    assert not (tmp_path / "new").exists()


def test_offline_the_copy_is_verified(
    repo: Repository, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = push(published(tree), repo)
    pull(REPO, tmp_path / "out", repository=repo)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert pull(REPO, tmp_path / "out", repository=repo).offline
    assert pull(f"{REPO}@{result.tag}", tmp_path / "out", repository=repo).offline
    for address, where in ((REPO, "none"), (f"{REPO}@other", "out")):
        with pytest.raises(HubError, match="offline"):
            pull(address, tmp_path / where, repository=repo)
    with pytest.raises(HubError, match="offline"):
        push(published(tree), repo)


def test_any_repository_can_be_fetched_verified(repo: Repository, tree: Path, tmp_path: Path) -> None:
    from huggingface_hub import CommitOperationAdd

    repo.create(private=True)
    files = {
        "day1/a.hdf5": b"large" * 1000,
        "notes.txt": b"small",
        "empty.txt": b"",
        "same.hdf5": b"large" * 1000,
    }
    adds = [CommitOperationAdd(path, data) for path, data in files.items()]
    commit = repo.commit(adds, parent=repo.state().commit, message="raw")
    out = pull_tree(repo, "main", tmp_path / "raw")
    assert out.commit == commit
    assert {p: d for p, d in contents(out.path).items() if not p.startswith(".")} == files
    assert pull_tree(repo, commit, tmp_path / "raw").moved == 0
    (tmp_path / "raw/mine.hdf5").write_bytes(b"x")
    with pytest.raises(OutputExistsError):
        pull_tree(repo, "main", tmp_path / "raw")


def test_a_file_that_changes_meanwhile_stops_the_push(own: OwnHub, tree: Path) -> None:
    publication = published(tree)
    repo = repository(own)
    own.fault("stall", "POST .*commit", seconds=0.0)
    target = tree / "meta/episodes.jsonl"

    def progress(what: str, done: int, total: int | None) -> None:
        if what == "uploaded bytes":
            os.utime(target, ns=(1, 1))

    from trajpipe.core.errors import StateError

    with pytest.raises(StateError, match="changed while"):
        push(publication, repo, progress=progress)
    assert repo.refs()[1] == {}


def test_empty_publications_and_bad_names_are_refused(own: OwnHub, tree: Path) -> None:
    with pytest.raises(InputError, match="nothing to push"):
        push(Publication({}, "lift"), repository(own))
    with pytest.raises(UsageError, match="organisation"):
        Repository("no-slash", endpoint=own.url)
    climbing = replace(published(tree), files={"../up": tree / "meta/info.json"})
    with pytest.raises(Exception, match="refused"):
        push(climbing, repository(own))
    (tree / "out").symlink_to("/etc")
    with pytest.raises(InputError, match="link leaves"):
        files_below(tree)
