"""Comparing a folder with the manifest in it: every byte of what was pulled, and nothing that was not.

What is not here: repairing, which is `pull` again.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from trajpipe.core import jsontext, names
from trajpipe.core.errors import InputError, TrajpipeError
from trajpipe.core.progress import Progress, silent
from trajpipe.hub.download import Wanted
from trajpipe.hub.listing import local_path
from trajpipe.hub.manifest import Entry, Manifest
from trajpipe.hub.selection import EVERYTHING, Selection

_THREADS: Final = 4


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a pull wrote beside the files: where they came from and which of them were wanted.

    Attributes:
        repo: `org/name`.
        commit: Full commit hash.
        revision: Tag or commit that was asked for, or found.
        selection: Parts and episodes that were wanted.
    """

    repo: str
    commit: str
    revision: str
    selection: Selection = EVERYTHING

    def to_text(self) -> str:
        """The file."""
        value = {
            "version": names.HUB_RECEIPT_VERSION,
            "repo": self.repo,
            "commit": self.commit,
            "revision": self.revision,
            "selection": self.selection.to_json(),
        }
        return jsontext.dumps(value, indent=2) + "\n"

    @classmethod
    def read(cls, folder: Path) -> Receipt | None:
        """The receipt in a folder; None when there is none that can be read."""
        path = folder / names.HUB_RECEIPT
        if not path.is_file():
            return None
        try:
            value = jsontext.loads(path.read_bytes(), place=path)
            if not isinstance(value, dict) or value.get("version") != names.HUB_RECEIPT_VERSION:
                return None
            selection = Selection.from_json(value["selection"])
            return cls(str(value["repo"]), str(value["commit"]), str(value["revision"]), selection)
        except (TrajpipeError, KeyError, TypeError, ValueError):
            return None


@dataclass(frozen=True, slots=True)
class Verified:
    """What a folder holds of its manifest.

    Attributes:
        path: The folder.
        tag: The version's tag.
        checked: Files that were hashed.
        bytes: Their size.
        missing: Paths that are not there.
        damaged: Paths whose size or hash is another.
        foreign: Paths that the manifest does not know.
        partial: Only some parts or episodes were pulled.
    """

    path: Path
    tag: str
    checked: int
    bytes: int
    missing: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    partial: bool = False
    repo: str = ""
    commit: str = field(default="")

    @property
    def ok(self) -> bool:
        """Every wanted file is there, bit for bit; foreign files are told and do no harm."""
        return not self.missing and not self.damaged

    def to_json(self) -> dict[str, Any]:
        """Plain form for `--json`."""
        value = {name: getattr(self, name) for name in self.__slots__}
        lists = {name: list(value[name]) for name in ("missing", "damaged", "foreign")}
        return value | lists | {"path": str(self.path), "ok": self.ok}


def verify(folder: Path, *, progress: Progress = silent) -> Verified:
    """Hash every file of a pulled folder against its manifest. Needs no network.

    Args:
        folder: What was pulled, or is to be pushed.
        progress: Called with `verified bytes`.

    Raises:
        InputError: there is no manifest, or it is not valid.
    """
    manifest, receipt = read_manifest(folder), Receipt.read(folder)
    selection = receipt.selection if receipt is not None else EVERYTHING
    wanted = selection.of(manifest.entries)
    missing, damaged = compare(folder, wanted, progress)
    known = {e.path for e in manifest.entries} | {names.HUB_MANIFEST, names.HUB_RECEIPT}
    foreign = tuple(p for p in paths_below(folder) if p not in known)
    return Verified(
        folder,
        manifest.tag,
        len(wanted) - len(missing),
        sum(e.size for e in wanted if e.path not in missing),
        missing,
        damaged,
        foreign,
        not selection.everything,
        receipt.repo if receipt is not None else "",
        receipt.commit if receipt is not None else "",
    )


def read_manifest(folder: Path) -> Manifest:
    """The manifest in a folder.

    Raises:
        InputError: there is none, or it is not valid.
    """
    path = folder / names.HUB_MANIFEST if folder.is_dir() else folder
    if not path.is_file():
        raise InputError(
            f"there is no {names.HUB_MANIFEST} here",
            place=folder,
            hint="Name a folder that `trajpipe pull` made.",
            code="no-manifest",
        )
    return Manifest.parse(path.read_bytes(), place=path)


def compare(
    folder: Path, entries: Iterable[Entry], progress: Progress = silent
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(missing, damaged) paths of a folder."""
    chosen = sorted(entries)
    total, done = sum(e.size for e in chosen), 0
    missing: list[str] = []
    damaged: list[str] = []
    with ThreadPoolExecutor(_THREADS) as pool:
        states = pool.map(lambda e: _state(folder, e), chosen)
        for entry, state in zip(chosen, states, strict=True):
            if state:
                (missing if state == "missing" else damaged).append(entry.path)
            done += entry.size
            progress("verified bytes", done, total)
    return tuple(missing), tuple(damaged)


def _state(folder: Path, entry: Entry) -> str:
    path = local_path(folder, entry.path)
    if not path.is_file():
        return "missing"
    return "" if Wanted(entry.path, entry.size, entry.sha256).matches(path) else "damaged"


def paths_below(folder: Path) -> list[str]:
    """Relative paths of all files below a folder, hidden ones too."""
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if not p.is_dir())
