"""What changed among a dataset's recordings since the last look: new, changed, removed, still being written.

The state (one row per recording) is a file below the data folder, named by its own digest: whoever looks
keeps the digest alone, and a look whose result was never taken leaves no trace.
What is not here: who looks, see `trajpipe.defs.sensors`.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from trajpipe.core import atomic, jsontext, provenance
from trajpipe.core.errors import TrajpipeError
from trajpipe.core.provenance import touch_of
from trajpipe.pipeline.catalogue import Recording
from trajpipe.pipeline.project import Project

FOLDER: Final = ".trajpipe"
SETTLE_S: Final = 5.0
BUDGET_S: Final = 20.0
# Each new or changed recording becomes a request that the daemon submits one by one, several a second.
MOST: Final = 500
_VERSION: Final = 2


@dataclass(frozen=True, slots=True)
class Seen:
    """What was last seen of a recording.

    Attributes:
        touch: Modification time, size and inode, see `provenance.touch_of`.
        sha256: Of the content that was last told; "" when none was.
        removed: It is gone; the row stays, so that its return is noticed.
        writing: It was touched and not hashed yet.
        output: Name of its L2 file; "" when that is not known.
        asked: Ticks at which an ingest of this content was asked for that nothing came of yet.
    """

    touch: tuple[int, ...]
    sha256: str
    removed: bool = False
    writing: bool = False
    output: str = ""
    asked: tuple[int, ...] = ()


State = dict[str, Seen]


@dataclass(slots=True)
class Changes:
    """What a look found.

    Attributes:
        state: The state to keep.
        added: Keys of recordings that were not known with this content before.
        changed: Keys of recordings with another content than before.
        removed: Keys of recordings that are gone since the last look.
        returned: Keys of removed recordings that are back as they were.
        renamed: Keys of unchanged recordings whose L2 file has another name, since others came or went:
            `<tag>_<task>.hdf5` becomes `<tag>_<task>__<recording>.hdf5` when the task gets a second one.
        writing: Keys of recordings that are still being written; they wait for the next look.
        unreadable: Key → why it could not be hashed; it is tried again at the next look.
        later: How many recordings were left for the next look.
    """

    state: State = field(default_factory=dict)
    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    returned: list[str] = field(default_factory=list)
    renamed: list[str] = field(default_factory=list)
    writing: list[str] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)
    later: int = 0

    def summary(self) -> str:
        """`2 new, 1 being written`; `nothing changed`."""
        counts = [
            (len(self.added), "new"),
            (len(self.changed), "changed"),
            (len(self.removed), "removed"),
            (len(self.returned), "back"),
            (len(self.renamed), "with another L2 name"),
            (len(self.writing), "being written"),
            (len(self.unreadable), "unreadable"),
            (self.later, "left for the next look"),
        ]
        return ", ".join(f"{n} {word}" for n, word in counts if n) or "nothing changed"


def look(
    project: Project,
    dataset: str,
    state: Mapping[str, Seen],
    *,
    settle_s: float = SETTLE_S,
    budget_s: float = BUDGET_S,
    most: int = MOST,
) -> Changes:
    """Compare the recordings on disk with a state; hash only what was touched.

    Args:
        project: The project.
        dataset: Dataset name.
        state: As kept from the last look.
        settle_s: A file touched more recently must be found unmoved by a second look, seconds.
        budget_s: When this much time is spent, the rest is left for the next look, seconds.
        most: So many new and changed recordings are told at once; the rest is left for the next look.
    """
    out, began = Changes(dict(state)), time.monotonic()
    recordings = {r.key: r for r in project.recordings(dataset)}
    for key, recording in recordings.items():
        try:
            touch = tuple(touch_of(recording.path))
        except OSError as error:
            out.unreadable[key] = str(error)
            continue
        seen = state.get(key)
        output = project.demos_path(recording).name
        if seen is not None and seen.touch == touch and not seen.removed and not seen.writing:
            if seen.output != output:
                out.state[key] = replace(seen, output=output, asked=() if seen.output else seen.asked)
                out.renamed += [key] if seen.output else []
            continue
        if time.monotonic() - began > budget_s or len(out.added) + len(out.changed) >= most:
            out.later += 1
            continue
        _look_at(out, recording, touch, seen, settle_s)
        if key in out.state:
            out.state[key] = replace(out.state[key], output=output)
    for key, seen in state.items():
        if key not in recordings and not seen.removed:
            out.state[key] = replace(seen, removed=True)
            out.removed += [key] if seen.sha256 else []
    return out


def _look_at(
    out: Changes, recording: Recording, touch: tuple[int, ...], seen: Seen | None, settle_s: float
) -> None:
    """Hash a recording that was touched, unless it is still being written."""
    key = recording.key
    known = "" if seen is None else seen.sha256
    if not _settled(recording.path, touch, seen, settle_s):
        out.state[key] = _being_written(touch, seen)
        out.writing.append(key)
        return
    try:
        sha256 = provenance.sha256_path(recording.path)
        after = tuple(touch_of(recording.path))
        if after != touch:
            out.state[key] = _being_written(after, seen)
            out.writing.append(key)
            return
    except (TrajpipeError, OSError) as error:
        out.unreadable[key] = str(error)
        return
    out.state[key] = Seen(touch, sha256, asked=seen.asked if seen is not None and known == sha256 else ())
    if not known:
        out.added.append(key)
    elif known != sha256:
        out.changed.append(key)
    elif seen is not None and seen.removed:
        out.returned.append(key)


def _being_written(touch: tuple[int, ...], seen: Seen | None) -> Seen:
    """What is known of a recording stays until it can be read again."""
    return replace(seen or Seen(touch, ""), touch=touch, writing=True)


def _settled(path: Path, touch: tuple[int, ...], seen: Seen | None, settle_s: float) -> bool:
    """True when nobody seems to write the recording."""
    if _is_locked(path):
        return False
    return (seen is not None and seen.touch == touch) or time.time() - _last_write(path) > settle_s


def _last_write(path: Path) -> float:
    """Seconds since the epoch of the last write to a file, or to any file of a folder."""
    files = [path, *path.rglob("*")] if path.is_dir() else [path]
    return max(file.stat().st_mtime for file in files)


def _is_locked(path: Path) -> bool:
    """True when a writer holds the lock that HDF5 takes on an open file."""
    if path.is_dir():
        return False
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # a file system without locks: size and time tell alone
    return False


def save(root: Path, dataset: str, state: Mapping[str, Seen]) -> str:
    """Write a state under its digest; returns the digest.

    Args:
        root: Data folder.
        dataset: Dataset name.
        state: To keep.
    """
    rows = {
        key: [list(s.touch), s.sha256, s.removed, s.writing, s.output, list(s.asked)]
        for key, s in state.items()
    }
    value: dict[str, Any] = {"version": _VERSION, "dataset": dataset, "recordings": rows}
    digest = provenance.sha256_bytes(jsontext.dumps(value).encode())
    path = state_path(root, dataset, digest)
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_json(path, value)
    return digest


def load(root: Path, dataset: str, digest: str) -> State | None:
    """The state of a digest; None when it is not there or its content is not that digest's."""
    path = state_path(root, dataset, digest)
    try:
        value = jsontext.loads(path.read_bytes(), place=path)
        if value["version"] != _VERSION:
            return None
        rows = value["recordings"]
        if provenance.sha256_bytes(jsontext.dumps(value).encode()) != digest:
            return None
        return {
            key: Seen(tuple(touch), sha256, removed, writing, output, tuple(asked))
            for key, (touch, sha256, removed, writing, output, asked) in rows.items()
        }
    except (OSError, TrajpipeError, KeyError, TypeError, ValueError):
        return None


def forget_others(root: Path, dataset: str, digests: set[str]) -> None:
    """Delete the states of a dataset that nobody keeps."""
    for path in (root / FOLDER).glob(f"{dataset}.recordings.*.json"):
        if path.name.split(".")[-2] not in digests:
            path.unlink(missing_ok=True)


def state_path(root: Path, dataset: str, digest: str) -> Path:
    """`<data>/.trajpipe/<dataset>.recordings.<digest>.json`."""
    return root / FOLDER / f"{dataset}.recordings.{digest}.json"
