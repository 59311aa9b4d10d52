"""Folders that are no dataset of their own: what each file in them is, by kind.

What is not here: LeRobot folders, see `inspection.lerobot`.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from trajpipe.cli.formatting import count
from trajpipe.cli.inspection.model import Inspection, Layout, Node
from trajpipe.cli.kinds import is_lerobot, raw_kind, recognise
from trajpipe.core import names
from trajpipe.core.errors import TrajpipeError
from trajpipe.core.order import natural_key
from trajpipe.core.progress import Progress
from trajpipe.core.provenance import size_of

MAX_ENTRIES: Final = 200
_SIDECARS: Final = (names.SUFFIX_RECIPE, names.SUFFIX_LEDGER, names.SUFFIX_CHECKS, names.SUFFIX_LOCK)


def inspect_folder(folder: Path, found: Inspection, progress: Progress) -> None:
    """List what lies in a folder, datasets below it included, with its kind and size."""
    paths = sorted(entries_below(folder), key=lambda p: natural_key(p.relative_to(folder).as_posix()))
    nodes = []
    for done, path in enumerate(paths[:MAX_ENTRIES], 1):
        kind = kind_word(path)
        nodes.append(Node(path.relative_to(folder).as_posix(), kind, stored=size_of(path)))
        progress("files", done, min(len(paths), MAX_ENTRIES))
    found.layouts = [Layout(count(len(paths), "entry", "entries"), nodes)]
    found.facts = {"kinds": ", ".join(f"{n} {k}" for k, n in sorted(Counter(n.dtype for n in nodes).items()))}
    if len(paths) > MAX_ENTRIES:
        found.notes.append(f"only the first {MAX_ENTRIES} of {len(paths):,} entries were looked at")
    if not paths:
        found.notes.append("the folder is empty")
    if (folder / names.CATALOGUE).is_file():
        found.notes.append(f"a data root: see `trajpipe list --root {folder}`")


def entries_below(folder: Path) -> Iterator[Path]:
    """Files below a folder, a LeRobot dataset as one entry; hidden files and sidecars are passed over."""
    for path in folder.iterdir():
        if path.name.startswith(".") or path.name.endswith(_SIDECARS) or path.is_symlink():
            continue
        if path.is_dir() and not is_lerobot(path):
            yield from entries_below(path)
        else:
            yield path


def kind_word(path: Path) -> str:
    """A path's kind in one word, `unreadable` with the reason's code when it cannot be opened."""
    try:
        recognised = recognise(path)
    except TrajpipeError as error:
        return f"unreadable ({error.code})"
    except OSError as error:
        return f"unreadable ({error.strerror})"
    if recognised.kind == "recording":
        kind = raw_kind(path)
        return kind[0] if kind else "recording"
    return recognised.kind
