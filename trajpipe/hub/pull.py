"""Fetching a published version: into `<dest>.part`, verified, then in its place in one step.

A pull that was killed goes on where it stopped; a file that is there with the right hash moves no bytes.
What is not here: one file's download (`download.py`).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trajpipe.core import atomic, names
from trajpipe.core.errors import OutputExistsError
from trajpipe.core.progress import Progress, silent
from trajpipe.hub.client import Repository, is_offline, split_address
from trajpipe.hub.download import PIECES, Tally, Wanted, fetch
from trajpipe.hub.errors import offline
from trajpipe.hub.listing import local_path
from trajpipe.hub.manifest import Manifest
from trajpipe.hub.selection import EVERYTHING, Selection
from trajpipe.hub.verify import Receipt, compare, paths_below, read_manifest
from trajpipe.hub.versions import followed, manifest_of, pinned

_THREADS: Final = 8
_SPARE_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class PullResult:
    """What a pull did.

    Attributes:
        path: The folder.
        repo: `org/name`.
        commit: Full commit hash.
        revision: Tag or commit that was pulled.
        tag: The version's own tag; "" for a repository that trajpipe did not push.
        files: Files of the selection.
        bytes: Their size.
        moved: Bytes received by this call.
        refetched: Paths that came damaged once and whole the second time.
        offline: Nothing was asked; the copy that was there was verified.
        unfinished: Tag of a newer version whose push was interrupted or is not over; "" when there is none.
    """

    path: Path
    repo: str
    commit: str
    revision: str
    tag: str
    files: int
    bytes: int
    moved: int
    refetched: tuple[str, ...] = ()
    offline: bool = False
    unfinished: str = ""

    @property
    def unchanged(self) -> bool:
        """Everything was there already."""
        return self.moved == 0

    def to_json(self) -> dict[str, Any]:
        """Plain form for `--json`."""
        value = {name: getattr(self, name) for name in self.__slots__}
        return value | {
            "path": str(self.path),
            "refetched": list(self.refetched),
            "unchanged": self.unchanged,
        }


@dataclass(frozen=True, slots=True)
class _Version:
    """What is to be pulled.

    Attributes:
        commit: Full commit hash.
        revision: Its tag, or the commit.
        wanted: Path → file.
        manifest: The manifest's bytes; None for a repository without one.
        tag: The version's tag.
        selection: Parts and episodes.
        unfinished: Tag of a newer version that is not finished, or "".
    """

    commit: str
    revision: str
    wanted: Mapping[str, Wanted]
    manifest: bytes | None
    tag: str
    selection: Selection
    unfinished: str = ""


def pull(
    address: str,
    destination: Path | str | None = None,
    *,
    selection: Selection = EVERYTHING,
    force: bool = False,
    repository: Repository | None = None,
    progress: Progress = silent,
) -> PullResult:
    """Fetch a published version and verify every byte of it.

    Args:
        address: `org/name`, `org/name@tag` or `org/name@commit`; the newest finished version
            without a revision.
        destination: The folder; the repository's name in the current folder when None.
        selection: Parts and episodes; those of an earlier pull into the same folder are kept.
        force: Replace a folder that holds other files.
        repository: The repository when it is open already; must be the address's.
        progress: Called with `downloaded bytes`.

    Raises:
        OutputExistsError: the destination holds files that a pull did not write.
        InputError: the repository has no finished version.
        IntegrityError: a file's bytes are not the published ones, twice.
        UntrustedError: the listing holds a name that could leave the folder.
        HubError: no such version, no right to see it, or the Hub could not be reached for too long.
    """
    repo, revision = split_address(address)
    target = Path(destination) if destination is not None else Path(repo.split("/")[1])
    opened = repository or Repository(repo)
    if is_offline():
        return _offline(opened, revision, target)
    with atomic.output_lock(target):
        _require_ours(target, force)
        earlier = Receipt.read(target)
        if earlier is not None and earlier.repo == repo:
            selection = selection.union(earlier.selection)
        version = _find(opened, revision, selection)
        return _bring(opened, version, target, progress)


def pull_tree(
    repository: Repository,
    revision: str,
    destination: Path,
    *,
    progress: Progress = silent,
) -> PullResult:
    """Fetch every file of any repository at a revision, verified against the server's own hashes.

    For raw recordings that others publish: there need be no manifest. Of a branch that trajpipe publishes
    to, the newest finished version is taken.

    Args:
        repository: Where from.
        revision: Tag, commit or branch; what it means now is recorded as a commit.
        destination: The folder.
        progress: Called with `downloaded bytes`.

    Raises:
        IntegrityError: a file's bytes are not the listed ones, twice.
        HubError: no such revision, no right to see it, or the Hub could not be reached for too long.
    """
    if is_offline():
        return _offline(repository, revision, destination)
    with atomic.output_lock(destination):
        _require_ours(destination, force=False)
        state = repository.state(followed(repository, revision))
        wanted = {f.path: Wanted(f.path, f.size, f.sha256, f.oid) for f in state.files.values()}
        version = _Version(state.commit, revision, wanted, None, "", EVERYTHING)
        return _bring(repository, version, destination, progress)


def _offline(repository: Repository, revision: str | None, target: Path) -> PullResult:
    """The copy that is there, verified; nothing is asked of the network.

    Raises:
        HubError: there is no copy of this version.
    """
    receipt = Receipt.read(target)
    if receipt is None or receipt.repo != repository.repo:
        raise offline(repository.context)
    manifest = None
    wanted: list[Wanted] = []
    if (target / names.HUB_MANIFEST).is_file():
        manifest = read_manifest(target)
        wanted = [Wanted(e.path, e.size, e.sha256) for e in receipt.selection.of(manifest.entries)]
        missing, damaged = compare(target, receipt.selection.of(manifest.entries))
        if missing or damaged:
            raise offline(repository.context)
    tag = manifest.tag if manifest is not None else ""
    if revision not in (None, receipt.revision, receipt.commit, tag):
        raise offline(repository.context)
    size = sum(w.size for w in wanted)
    return PullResult(
        target, repository.repo, receipt.commit, receipt.revision, tag, len(wanted), size, 0, offline=True
    )


def _require_ours(target: Path, force: bool) -> None:
    """Refuse to replace files that no pull wrote: files of a pull may be replaced, those of people not."""
    if force or not target.exists():
        return
    if not target.is_dir():
        raise OutputExistsError("the destination is a file", place=target, hint="Choose a folder.")
    there = set(paths_below(target))
    if not there:
        return
    known: set[str] = set()
    if Receipt.read(target) is not None:
        known = {names.HUB_MANIFEST, names.HUB_RECEIPT, _LIST}
        if (target / names.HUB_MANIFEST).is_file():
            known |= {e.path for e in read_manifest(target).entries}
        if (target / _LIST).is_file():  # a whole tree may hold a manifest, and more files than it lists
            known |= set((target / _LIST).read_text(encoding="utf-8").split("\n"))
    foreign = sorted(there - known)
    if foreign:
        raise OutputExistsError(
            "the destination holds files that no pull wrote",
            place=target,
            got=", ".join(foreign[:3]) + ("…" if len(foreign) > 3 else ""),
            hint="Choose another folder, or replace it with --force.",
        )


_LIST: Final = ".trajpipe-files"


def _find(repository: Repository, revision: str | None, selection: Selection) -> _Version:
    """The version that a revision means: always a tag or a commit, never a moving branch.

    Raises:
        UsageError: the revision is a branch.
        InputError: the repository has no finished version.
    """
    pin = pinned(repository, revision)
    manifest, text = manifest_of(repository, pin)
    wanted = {e.path: Wanted(e.path, e.size, e.sha256) for e in selection.of(manifest.entries)}
    return _Version(pin.commit, pin.name, wanted, text, manifest.tag, selection, pin.unfinished)


def published_manifest(repository: Repository, revision: str | None) -> Manifest:
    """The manifest of a published version, nothing else of it.

    Raises:
        InputError: there is no finished version.
        HubError: it cannot be had.
    """
    return manifest_of(repository, pinned(repository, revision))[0]


def _bring(repository: Repository, version: _Version, target: Path, progress: Progress) -> PullResult:
    """Fetch what is missing into `<target>.part`, then put it in the target's place."""
    total = sum(w.size for w in version.wanted.values())
    tally = Tally()
    if not _is_there(target, version, repository.repo):
        part = target.with_name(target.name + names.SUFFIX_PART)
        part.mkdir(parents=True, exist_ok=True)
        (part / PIECES).mkdir(exist_ok=True)
        missing = _reuse(part, target, version.wanted)
        size = sum(w.size for w in missing)
        atomic.require_space(part, size + _SPARE_BYTES, what=f"{repository.repo}")
        state = {"done": total - size}

        def received(count: int) -> None:
            state["done"] += count
            progress("downloaded bytes", state["done"], max(total, state["done"]))

        tally.on_bytes = received
        _fetch_all(repository, version.commit, missing, part, tally)
        _finish(part, version, repository.repo)
        atomic.publish_folder(part, target)
    return PullResult(
        target,
        repository.repo,
        version.commit,
        version.revision,
        version.tag,
        len(version.wanted),
        total,
        tally.moved,
        tuple(sorted(tally.refetched)),
        unfinished=version.unfinished,
    )


def _is_there(target: Path, version: _Version, repo: str) -> bool:
    """True when the target is this very version, every byte of it."""
    receipt = Receipt.read(target)
    expected = Receipt(repo, version.commit, version.revision, version.selection)
    if receipt != expected:
        return False
    manifest = target / names.HUB_MANIFEST
    if version.manifest is not None and (not manifest.is_file() or manifest.read_bytes() != version.manifest):
        return False
    return all(w.matches(local_path(target, w.path)) for w in version.wanted.values())


def _reuse(part: Path, target: Path, wanted: Mapping[str, Wanted]) -> list[Wanted]:
    """Keep or link what is on disk with the right hash; returns what must be fetched.

    Files of the target are linked, not copied: the target's own names vanish when the part takes its place.
    """
    missing = []
    for path, want in wanted.items():
        here = local_path(part, path)
        if want.matches(here):
            continue
        atomic.remove(here)
        old = local_path(target, path) if target.is_dir() else None
        if old is not None and want.matches(old):
            here.parent.mkdir(parents=True, exist_ok=True)
            _link(old, here)
        else:
            missing.append(want)
    return missing


def _link(old: Path, new: Path) -> None:
    try:
        os.link(old, new)
    except OSError:
        shutil.copy2(old, new)


def _fetch_all(
    repository: Repository, commit: str, missing: Iterable[Wanted], part: Path, tally: Tally
) -> None:
    """Fetch files with several threads, large ones first; the first failure stops the rest.

    Files of one content are fetched once.
    """
    by_digest: dict[str, list[Wanted]] = {}
    for want in missing:
        by_digest.setdefault(want.digest, []).append(want)
    order = sorted(by_digest.values(), key=lambda same: (-same[0].size, same[0].path))
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="trajpipe-pull") as pool:
        futures: list[Future[None]] = [
            pool.submit(_fetch_same, repository, commit, same, part, tally) for same in order
        ]
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        except BaseException:
            tally.stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
        failed = [f for f in done if f.exception() is not None]
        if failed:
            tally.stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            failed[0].result()


def _fetch_same(repository: Repository, commit: str, same: list[Wanted], part: Path, tally: Tally) -> None:
    first = fetch(repository, same[0], commit, part, tally)
    for other in same[1:]:
        copy = local_path(part, other.path)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(first, copy)


def _finish(part: Path, version: _Version, repo: str) -> None:
    """Leave exactly the version's files in the part, and our notes; the manifest comes last."""
    atomic.remove(part / PIECES)
    keep = set(version.wanted)
    for path in paths_below(part):
        if path not in keep:
            (part / path).unlink()
    for folder in sorted((p for p in part.rglob("*") if p.is_dir()), reverse=True):
        if not any(folder.iterdir()):
            folder.rmdir()
    receipt = Receipt(repo, version.commit, version.revision, version.selection)
    (part / names.HUB_RECEIPT).write_text(receipt.to_text(), encoding="utf-8")
    if version.manifest is not None:
        (part / names.HUB_MANIFEST).write_bytes(version.manifest)
    else:
        (part / _LIST).write_text("\n".join(sorted(keep)), encoding="utf-8")
