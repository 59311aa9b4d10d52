"""Raw recordings that lie on the Hub: fetched to `raw/<dataset>/<org>__<name>/`, pinned and verified.

What is not here: finding the recordings in what was fetched, see `catalogue_recordings`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trajpipe.core.errors import UsageError
from trajpipe.core.progress import Progress, silent
from trajpipe.pipeline.project import Project

if TYPE_CHECKING:  # a project without entries on the Hub never loads it
    from trajpipe.hub import PullResult, Repository


def has_hub_entries(project: Project, name: str) -> bool:
    """True when a dataset has a raw entry on the Hub."""
    return any(entry.hub is not None for entry in project.dataset(name).raw)


def fetch_raw(project: Project, name: str, *, progress: Progress = silent) -> list[PullResult]:
    """Bring a dataset's raw entries that lie on the Hub to their place below `raw/<dataset>/`.

    A tag or commit is fetched once and not asked for again; a branch (`follow: true`) is looked at each time.
    A file that is there with the right hash moves no bytes.

    Args:
        project: The project.
        name: Dataset name.
        progress: Called with `downloaded bytes`.

    Returns:
        What was fetched; nothing for entries that are there.

    Raises:
        UsageError: a revision is a branch and the entry does not follow one, or one repository is wanted at
            two revisions.
        HubError: it cannot be had.
        IntegrityError: a file came damaged twice.
    """
    wanted: dict[str, tuple[str, bool]] = {}
    for entry in project.dataset(name).raw:
        if entry.hub is None:
            continue
        other = wanted.setdefault(entry.hub_folder(name), (entry.hub, entry.follow))
        if other[0] != entry.hub:
            raise UsageError(
                "two raw entries want one repository at two revisions",
                place=name,
                got=f"{other[0]} and {entry.hub}",
            )
    results = []
    for folder, (address, follow) in wanted.items():
        result = _fetch(address, project.root / folder, follow, progress)
        if result is not None:
            results.append(result)
    if results:
        project.forget_recordings(name)
    return results


def _fetch(address: str, folder: Path, follow: bool, progress: Progress) -> PullResult | None:
    """Fetch one repository; None when the pinned revision is there already."""
    from trajpipe.hub import Receipt, Repository, pull_tree, split_address
    from trajpipe.hub.client import is_offline

    repo, revision = split_address(address)
    receipt = Receipt.read(folder)
    there = receipt is not None and receipt.repo == repo and revision in (receipt.revision, receipt.commit)
    if there and (not follow or is_offline()):
        return None
    repository = Repository(repo)
    if not follow and not is_offline():
        _require_pinned(repository, str(revision))
    return pull_tree(repository, str(revision), folder, progress=progress)


def _require_pinned(repository: Repository, revision: str) -> None:
    branches, tags = repository.refs()
    if revision in branches and revision not in tags:
        raise UsageError(
            "a branch moves: a raw entry is pinned to a tag or a commit",
            place=repository.repo,
            got=revision,
            expected=f"hub: {repository.repo}@{branches[revision]}",
            hint="Say `follow: true` to take what the branch holds each time.",
        )


def revision_of(project: Project, name: str) -> dict[str, str]:
    """`org/name` → commit that its recordings are of, for those that were fetched."""
    entries = [entry for entry in project.dataset(name).raw if entry.hub is not None]
    if not entries:
        return {}
    from trajpipe.hub import Receipt

    found = {}
    for entry in entries:
        receipt = Receipt.read(project.root / entry.hub_folder(name))
        if receipt is not None:
            found[receipt.repo] = receipt.commit
    return found
