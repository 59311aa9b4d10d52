"""Publishing files as one version: files, then the manifest, then the tag.

Every step begins by reading the repository and does what is still missing, so that a killed push, a lost
answer and a head that somebody else moved all end in the same place. Readers go by tags; a tag comes last.
What is not here: which files make a dataset (`trajpipe.pipeline.publish`), the card's text (`card.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

from trajpipe.core import names
from trajpipe.core.errors import InputError, OutputExistsError, TrajpipeError
from trajpipe.core.progress import Progress, silent
from trajpipe.hub.card import CardFacts, merged_card
from trajpipe.hub.client import Repository, State, commit_message
from trajpipe.hub.errors import HubError
from trajpipe.hub.licences import require_publishable
from trajpipe.hub.local import CountedReader, LocalFile, hashed
from trajpipe.hub.manifest import PART_CARD, PART_OTHER, Manifest, lerobot_tag, part_of

if TYPE_CHECKING:
    from huggingface_hub import CommitOperationAdd

_BATCH_FILES: Final = 400
_SMALL_FILE: Final = 10 << 20
_BATCH_SMALL_BYTES: Final = 128 << 20
_SPARE_STEPS: Final = 12
_INFO: Final = "meta/info.json"


@dataclass(frozen=True, slots=True)
class Publication:
    """What one version consists of.

    Attributes:
        files: Path in the repository → file.
        dataset: Name of the dataset.
        license: SPDX name of the data's licence; None when unknown.
        recipe: Goes into the manifest; plain JSON values.
        card: What the dataset card says; None = no card is written.
        texts: Path in the repository → content made here (the contact sheet).
    """

    files: Mapping[str, Path]
    dataset: str
    license: str | None = None
    recipe: Mapping[str, Any] = field(default_factory=dict)
    card: CardFacts | None = None
    texts: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PushOptions:
    """How to publish.

    Attributes:
        private: Visibility of a repository that is created; an existing one's is never changed.
        tag: One more tag for this version; it never moves either.
        message: Title of the commits.
        allow_license: Publish in the open although the licence does not plainly allow it.
        force: Delete files of others that stand where ours go.
    """

    private: bool = True
    tag: str | None = None
    message: str | None = None
    allow_license: bool = False
    force: bool = False


@dataclass(frozen=True, slots=True)
class PushResult:
    """What a push did, or would do.

    Attributes:
        repo: `org/name`.
        url: Page of the repository.
        private: Its visibility.
        created: It was made by this push.
        commit: The commit that holds the version; "" when nothing was done.
        tag: The version's own tag.
        tags: All tags that name the version now.
        data_version: Hash over the data files.
        files: Files of the version.
        bytes: Their size.
        uploaded: Paths that were, or would be, committed.
        deleted: Paths that were, or would be, deleted.
        moved: Bytes that were sent, or would be at most.
        dry_run: Nothing was done.
    """

    repo: str
    url: str
    private: bool
    created: bool
    commit: str
    tag: str
    tags: tuple[str, ...]
    data_version: str
    files: int
    bytes: int
    uploaded: tuple[str, ...]
    deleted: tuple[str, ...]
    moved: int
    dry_run: bool = False

    @property
    def unchanged(self) -> bool:
        """The version was there already."""
        return not self.uploaded and not self.deleted and not self.created

    def to_json(self) -> dict[str, Any]:
        """Plain form for `--json`."""
        value = {name: getattr(self, name) for name in self.__slots__}
        lists = {name: list(value[name]) for name in ("tags", "uploaded", "deleted")}
        return value | lists | {"unchanged": self.unchanged}


def push(
    publication: Publication,
    repository: Repository,
    options: PushOptions = PushOptions(),
    *,
    progress: Progress = silent,
) -> PushResult:
    """Publish a version. Repeating it after any interruption finishes it, and a finished one moves nothing.

    Args:
        publication: Files, recipe, licence, card.
        repository: Where to.
        options: Visibility of a new repository, extra tag, message.
        progress: Called with `hashed bytes` and `uploaded bytes`.

    Raises:
        UsageError: a public push of data whose licence does not allow it plainly.
        OutputExistsError: files of others stand where ours go, or a tag names another content.
        HubError: the Hub refused, or could not be reached for too long.
    """
    local = _hash_all(publication, progress)
    state = _seen(repository)
    created = state is None
    private = options.private if state is None else state.private
    if not private:
        allowed = options.allow_license
        require_publishable(publication.license, repo=repository.repo, allowed=allowed)
    if state is None:
        repository.create(private=private)
    work = _Work(repository, publication, options, local, progress)
    state, manifest = work.finish()
    tags = _tag_all(repository, manifest, state.commit, options, local)
    return _result(work, manifest, private, created, state.commit, tags)


def plan_push(
    publication: Publication,
    repository: Repository,
    options: PushOptions = PushOptions(),
    *,
    progress: Progress = silent,
) -> PushResult:
    """What `push` would do, without doing it.

    Raises:
        UsageError: a public push of data whose licence does not allow it plainly.
        OutputExistsError: files of others stand where ours go.
        HubError: the Hub refused, or could not be reached.
    """
    local = _hash_all(publication, progress)
    state = _seen(repository)
    private = options.private if state is None else state.private
    if not private:
        require_publishable(publication.license, repo=repository.repo, allowed=options.allow_license)
    work = _Work(repository, publication, options, local, progress)
    todo, manifest = work.missing(state or State("", private))
    work.note(todo.add, todo.delete)
    work.moved = sum(f.entry.size for f in todo.add)
    tags = (manifest.tag, *([options.tag] if options.tag else []))
    return _result(work, manifest, private, state is None, "", tags, dry_run=True)


def _hash_all(publication: Publication, progress: Progress) -> dict[str, LocalFile]:
    if not publication.files:
        raise InputError("there is nothing to push", place=publication.dataset)
    reserved = {names.HUB_MANIFEST, names.HUB_RECEIPT, names.HUB_CARD, *publication.texts}
    local = hashed({p: f for p, f in publication.files.items() if p not in reserved}, progress)
    return local | {path: LocalFile.of_text(path, content) for path, content in publication.texts.items()}


def _seen(repository: Repository) -> State | None:
    """The repository, or None when there is none that this login sees."""
    try:
        return repository.state()
    except HubError as error:
        if error.code == "hub-no-repository" and error.status == 404:
            return None
        raise


@dataclass(frozen=True, slots=True)
class _Todo:
    """What a repository lacks: files to add, paths to delete, and the manifest when all else is there."""

    add: list[LocalFile]
    delete: list[str]
    manifest: LocalFile | None

    @property
    def nothing(self) -> bool:
        return not self.add and not self.delete and self.manifest is None


@dataclass(slots=True)
class _Work:
    """A push under way."""

    repository: Repository
    publication: Publication
    options: PushOptions
    local: dict[str, LocalFile]
    progress: Progress
    moved: int = 0
    uploaded: dict[str, None] = field(default_factory=dict)
    deleted: dict[str, None] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def finish(self) -> tuple[State, Manifest]:
        """Do step after step until nothing is missing."""
        steps = _SPARE_STEPS + len(self.local) // _BATCH_FILES
        steps += sum(f.entry.size for f in self.local.values()) // _BATCH_SMALL_BYTES
        for _ in range(steps):
            done = self.repository.patience.call(self._step)
            if done is not None:
                return done
        raise HubError(
            "the repository keeps being changed by somebody else",
            place=self.repository.repo,
            hint="Push again when the other push is over.",
            code="hub-conflict",
        )

    def _step(self) -> tuple[State, Manifest] | None:
        """Read the repository and do the next thing; the final state when there is none."""
        state = self.repository.state()
        todo, manifest = self.missing(state)
        if todo.nothing:
            return state, manifest
        add, delete = (_batch(todo.add), todo.delete) if todo.add or todo.delete else ([], [])
        if todo.manifest is not None and not add and not delete:
            for file in self.local.values():
                file.require_untouched()
            add = [todo.manifest]
        self._commit(state, add, delete)
        return None

    def missing(self, state: State) -> tuple[_Todo, Manifest]:
        """What a state lacks, and the manifest that it is to have in the end."""
        wanted = dict(self.local)
        if self.publication.card is not None:
            wanted[names.HUB_CARD] = self._card(state)
        manifest = Manifest(
            tuple(sorted(f.entry for f in wanted.values())),
            self.publication.dataset,
            self.publication.license,
            self.publication.recipe,
        )
        add = [f for p, f in sorted(wanted.items()) if not (p in state.files and f.same_as(state.files[p]))]
        delete = self._stale(state, wanted)
        text = LocalFile.of_text(names.HUB_MANIFEST, manifest.to_text().encode())
        there = state.files.get(names.HUB_MANIFEST)
        whole = there is not None and text.same_as(there)
        return _Todo(add, delete, None if whole else text), manifest

    def _card(self, state: State) -> LocalFile:
        facts = self.publication.card
        old = b""
        if names.HUB_CARD in state.files:
            old = self.repository.read(names.HUB_CARD, state.commit) or b""
        version = Manifest(tuple(f.entry for f in self.local.values()), "").tag
        text = merged_card(old.decode("utf-8", "surrogateescape"), facts, version) if facts else ""
        return LocalFile.of_text(names.HUB_CARD, text.encode("utf-8", "surrogateescape"))

    def _stale(self, state: State, wanted: Mapping[str, LocalFile]) -> list[str]:
        """Files that stand where ours go and are not of this version.

        Raises:
            OutputExistsError: the repository was not made by trajpipe and holds such files.
        """
        ours = {p for p in state.files if part_of(p) not in (PART_OTHER, PART_CARD)}
        old = self._old_manifest(state)
        if old is not None:
            ours |= {e.path for e in old.data}
        stale = sorted(p for p in ours if p in state.files and p not in wanted)
        if stale and old is None and not self.options.force:
            raise OutputExistsError(
                "the repository holds other files where ours go",
                place=self.repository.repo,
                got=f"{len(stale)} files: {', '.join(stale[:3])}…",
                hint="Push to another repository, or delete them with --force.",
            )
        return stale

    def _old_manifest(self, state: State) -> Manifest | None:
        if names.HUB_MANIFEST not in state.files:
            return None
        text = self.repository.read(names.HUB_MANIFEST, state.commit)
        try:
            return Manifest.parse(text or b"", place=self.repository.repo)
        except TrajpipeError:
            return None

    def _commit(self, state: State, add: Sequence[LocalFile], delete: Sequence[str]) -> None:
        from huggingface_hub import CommitOperationDelete

        additions = [_addition(f, None if self.repository.uses_xet else self._count) for f in add]
        self.repository.upload(additions)
        self._count(_uncounted(additions))
        _require_not_ignored(additions, self.repository.repo)
        what = "the manifest" if [f.entry.path for f in add] == [names.HUB_MANIFEST] else "files"
        message = self.options.message or commit_message(self.publication.dataset, what)
        deletions = [CommitOperationDelete(path, is_folder=False) for path in delete]
        self.note(add, delete)
        self.repository.commit([*additions, *deletions], parent=state.commit, message=message)
        self._count(sum(a.upload_info.size for a in additions if a._upload_mode != "lfs"))

    def _count(self, sent: int) -> None:
        """Count sent bytes; called from the client's threads too."""
        with self._lock:
            self.moved += sent
            total = sum(f.entry.size for f in self.local.values())
            self.progress("uploaded bytes", self.moved, max(total, self.moved))

    def note(self, add: Sequence[LocalFile], delete: Sequence[str]) -> None:
        """Remember what was committed, for the result."""
        self.uploaded.update(dict.fromkeys(f.entry.path for f in add))
        self.deleted.update(dict.fromkeys(delete))


def _batch(files: Sequence[LocalFile]) -> list[LocalFile]:
    """As many of the files as one commit may take: small ones travel in the commit itself."""
    out: list[LocalFile] = []
    small = 0
    for file in files:
        size = file.entry.size if file.entry.size < _SMALL_FILE else 0
        if out and (len(out) >= _BATCH_FILES or small + size > _BATCH_SMALL_BYTES):
            break
        out.append(file)
        small += size
    return out


def _addition(file: LocalFile, count: Callable[[int], None] | None) -> CommitOperationAdd:
    """The client's operation, with the hash that is known already.

    Args:
        file: What to add.
        count: Called with bytes read for an upload; None with Xet, which takes paths alone.
    """
    from huggingface_hub import CommitOperationAdd

    if file.path is None:
        return CommitOperationAdd(file.entry.path, file.content or b"")
    made = CommitOperationAdd(file.entry.path, str(file.path))
    made.upload_info.sha256 = bytes.fromhex(file.entry.sha256)
    if count is not None:
        made.path_or_fileobj = cast(BinaryIO, CountedReader(file.path, count))
    return made


def _uncounted(additions: Sequence[CommitOperationAdd]) -> int:
    """Bytes that were uploaded before the commit and that no reader counted; later reads are no uploads."""
    sent = 0
    for addition in additions:
        reader: object = addition.path_or_fileobj
        if isinstance(reader, CountedReader):
            reader.counting = False
        elif addition._upload_mode == "lfs":
            sent += addition.upload_info.size
    return sent


def _require_not_ignored(additions: Sequence[CommitOperationAdd], repo: str) -> None:
    ignored = sorted(a.path_in_repo for a in additions if a._should_ignore)
    if ignored:
        raise InputError(
            "the repository's .gitignore keeps files out",
            place=repo,
            got=", ".join(ignored[:3]),
            hint="Change its .gitignore, then push again.",
            code="ignored-files",
        )


def _tag_all(
    repository: Repository,
    manifest: Manifest,
    commit: str,
    options: PushOptions,
    local: Mapping[str, LocalFile],
) -> tuple[str, ...]:
    """Name the version: first what never moves, then LeRobot's tag, which follows the newest."""
    fixed = [manifest.tag, *([options.tag] if options.tag else [])]
    for name in fixed:
        repository.patience.call(partial(_fix_tag, repository, name, commit, manifest))
    info = local.get(_INFO)
    content = info.path.read_bytes() if info is not None and info.path is not None else None
    moving = lerobot_tag(local, content)
    if moving is not None and moving not in fixed:
        repository.patience.call(partial(_move_tag, repository, moving, commit))
        fixed.append(moving)
    return tuple(fixed)


def _fix_tag(repository: Repository, name: str, commit: str, manifest: Manifest) -> None:
    """Create a tag that never moves; one that is there must name the same content.

    Raises:
        OutputExistsError: it names another content.
    """
    _, tags = repository.refs()
    if name not in tags:
        repository.tag(name, commit)
        return
    if tags[name] == commit:
        return
    text = repository.read(names.HUB_MANIFEST, tags[name])
    same = False
    if text is not None:
        same = Manifest.parse(text, place=repository.repo).data_version == manifest.data_version
    if not same:
        raise OutputExistsError(
            "a tag never moves, and this one names another content",
            place=f"{repository.repo}@{name}",
            got=tags[name][:12],
            hint="Somebody moved it: delete that tag on the Hub, and push again."
            if name == manifest.tag
            else f"Choose another --tag; the version itself is published as {manifest.tag}.",
        )


def _move_tag(repository: Repository, name: str, commit: str) -> None:
    """Point a tag at a commit; for a moment a reader may find it missing, never half a version."""
    _, tags = repository.refs()
    if tags.get(name) == commit:
        return
    if name in tags:
        repository.untag(name)
    repository.tag(name, commit)


def _result(
    work: _Work,
    manifest: Manifest,
    private: bool,
    created: bool,
    commit: str,
    tags: tuple[str, ...],
    *,
    dry_run: bool = False,
) -> PushResult:
    return PushResult(
        repo=work.repository.repo,
        url=work.repository.url,
        private=private,
        created=created,
        commit=commit,
        tag=manifest.tag,
        tags=tags,
        data_version=manifest.data_version,
        files=len(manifest.entries),
        bytes=manifest.total_bytes,
        uploaded=tuple(work.uploaded),
        deleted=tuple(work.deleted),
        moved=work.moved,
        dry_run=dry_run,
    )
