"""Which published version a revision means: a tag or a commit, and without one the newest finished version.

A push that is under way, or was killed, has a manifest on `main` that no tag names yet: readers get the
version before it. What is not here: fetching the files (`pull.py`), finishing such a push (`push.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from trajpipe.core import names
from trajpipe.core.errors import InputError, IntegrityError, TrajpipeError, UsageError
from trajpipe.hub.client import Repository, is_commit
from trajpipe.hub.manifest import PART_CARD, TAG_DIGITS, Manifest

UNFINISHED: Final = "push-unfinished"
_VERSION_TAG: Final = re.compile(rf"{re.escape(names.HUB_TAG_PREFIX)}[0-9a-f]{{{TAG_DIGITS}}}")
_MAIN: Final = "main"


@dataclass(frozen=True, slots=True)
class Pin:
    """What a revision means.

    Attributes:
        commit: Full commit hash.
        name: Tag, or the commit.
        unfinished: Tag of the newer version whose push has not ended; "" when there is none.
    """

    commit: str
    name: str
    unfinished: str = ""


def pinned(repository: Repository, revision: str | None) -> Pin:
    """The tag or commit that a revision means; without one, the newest finished version.

    Raises:
        UsageError: the revision is a branch.
        InputError: the repository has no finished version.
        HubError: no such repository or revision, or it cannot be seen.
    """
    branches, tags = repository.refs()
    if revision is None:
        return _newest(repository, branches.get(_MAIN, _MAIN), tags)
    if revision in tags:
        return Pin(tags[revision], revision)
    if revision in branches:
        raise UsageError(
            "a branch moves while it is pulled",
            place=repository.repo,
            got=revision,
            expected=f"a tag ({', '.join(sorted(tags)[:5]) or 'it has none'}) or a commit",
        )
    return Pin(revision if is_commit(revision) else repository.commit_of(revision), revision)


def followed(repository: Repository, revision: str) -> str:
    """The commit to take of a revision that may move; never one in the middle of a push.

    A branch of a repository that trajpipe publishes means its newest finished version; any other branch its
    head.

    Args:
        repository: Where.
        revision: Tag, commit or branch.

    Raises:
        InputError: trajpipe's first push to it has not ended.
        HubError: no such repository or revision, or it cannot be seen.
    """
    branches, tags = repository.refs()
    if revision in tags or revision not in branches:
        return tags.get(revision) or repository.commit_of(revision)
    head = branches[revision]
    return head if _tag_at(repository, head) is None else _newest(repository, head, tags).commit


def manifest_of(repository: Repository, pin: Pin) -> tuple[Manifest, bytes]:
    """A version's manifest and its bytes.

    Raises:
        InputError: there is none, or it is not valid.
        IntegrityError: the version's tag names another content, or the commit is the middle of a push.
        HubError: it cannot be had.
    """
    place = f"{repository.repo}@{pin.name}"
    text = repository.read(names.HUB_MANIFEST, pin.commit)
    if text is None:
        raise InputError(
            f"this revision has no {names.HUB_MANIFEST}",
            place=place,
            hint="Its push is not finished, or trajpipe did not push it: pull another tag, or name it as "
            "`hub:` of a raw entry.",
            code="no-manifest",
        )
    manifest = Manifest.parse(text, place=place)
    if _VERSION_TAG.fullmatch(pin.name) and pin.name != manifest.tag:
        raise IntegrityError(
            "a version's tag names another content",
            place=place,
            got=manifest.tag,
            expected=pin.name,
            hint="Somebody moved the tag: delete it on the Hub, and push that version again.",
        )
    if is_commit(pin.name):
        _require_whole(repository, pin, manifest)
    return manifest, text


def _newest(repository: Repository, head: str, tags: Mapping[str, str]) -> Pin:
    """The newest commit whose manifest's tag is there.

    Raises:
        InputError: there is none.
    """
    text = repository.read(names.HUB_MANIFEST, head)
    tag = Manifest.parse(text, place=repository.repo).tag if text is not None else ""
    if tag in tags:
        return Pin(tags[tag], tag)
    if any(map(_VERSION_TAG.fullmatch, tags)):
        for commit in repository.history(head)[1:]:
            older = _tag_at(repository, commit)
            if older is not None and older in tags:
                return Pin(tags[older], older, tag)
    raise _nothing_finished(repository, head, tag)


def _tag_at(repository: Repository, commit: str) -> str | None:
    """The tag that the manifest of a commit names; None when it has no manifest that can be read."""
    text = repository.read(names.HUB_MANIFEST, commit)
    try:
        return None if text is None else Manifest.parse(text, place=repository.repo).tag
    except TrajpipeError:
        return None


def _nothing_finished(repository: Repository, head: str, tag: str) -> InputError:
    """The error of a repository without a finished version: was a push interrupted, or was there none?"""
    again = f"Repeat the same `trajpipe push … --repo {repository.repo}`: it goes on, and sets the tag last."
    if tag:
        return InputError(
            "the push of this repository's first version was interrupted, or is not over",
            place=repository.repo,
            got="a manifest without its tag",
            expected=f"the tag {tag}",
            hint=again,
            code=UNFINISHED,
        )
    files = [p for p in repository.state(head).files if p not in (names.HUB_CARD, ".gitattributes")]
    return InputError(
        "the repository has no published version yet",
        place=repository.repo,
        got=f"{len(files)} files and no {names.HUB_MANIFEST}" if files else "no files",
        hint=f"A push was interrupted, or trajpipe did not push these files. {again}"
        if files
        else f"Publish one: trajpipe push DATASET --repo {repository.repo}",
        code=UNFINISHED if files else "not-published",
    )


def _require_whole(repository: Repository, pin: Pin, manifest: Manifest) -> None:
    """Refuse a commit between a push's files and its manifest: the manifest is still the older version's.

    Raises:
        IntegrityError: a file of the manifest is not the one that the commit holds.
    """
    there = repository.state(pin.commit).files
    for entry in manifest.entries:
        found = there.get(entry.path)
        if found is not None and found.size == entry.size and found.sha256 in (None, entry.sha256):
            continue
        if entry.part == PART_CARD and found is not None:
            continue  # people edit the card; its hash is verified when it comes
        raise IntegrityError(
            "this commit is in the middle of a push",
            place=f"{repository.repo}@{pin.name[:12]}",
            got=f"another {entry.path}" if found is not None else f"no {entry.path}",
            expected=f"what its {names.HUB_MANIFEST} lists",
            hint=f"Pull a tag; `trajpipe pull {repository.repo}` takes the newest finished version.",
        )
