"""What lies in a data folder that no recipe names any more: outputs of removed recordings and datasets.

Only what carries our own stamp is ever named: a file that somebody else put there is not ours to delete.
What is not here: temporaries and locks of dead processes, see `doctor`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trajpipe.core import atomic, names, provenance
from trajpipe.core.errors import LockedError, TrajpipeError
from trajpipe.pipeline.project import Project

BESIDE: Final = (
    names.SUFFIX_RECIPE,
    names.SUFFIX_LEDGER,
    names.SUFFIX_CHECKS,
    names.SUFFIX_FAILURE,
    f".{names.CERTIFICATE}",
)


@dataclass(frozen=True, slots=True)
class Garbage:
    """An output that no recipe of the catalogue makes.

    Attributes:
        path: The output; its recipe, ledger and checks lie beside it.
        bytes: Its size with what lies beside it.
        why: Why nobody makes it.
        error: Why it could not be deleted; "" when it was, or when nothing was to be deleted.
    """

    path: Path
    bytes: int
    why: str
    error: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain form."""
        out = {"path": str(self.path), "bytes": self.bytes, "why": self.why}
        return out | ({"error": self.error} if self.error else {})


def garbage(project: Project) -> list[Garbage]:
    """Outputs below the data folder that carry our stamp and that nothing in the catalogue makes."""
    wanted = _wanted(project)
    found = [Garbage(p, _size(p), _why(p)) for p in _outputs(project.root) if p not in wanted]
    orphans = [
        Garbage(p, _size(p), "its recording is gone or its name changed; only evidence of a failure is left")
        for p in _failures(project.root)
        if p not in wanted
    ]
    return sorted([*found, *orphans], key=lambda g: str(g.path))


def collect(project: Project) -> list[Garbage]:
    """Delete garbage; what a live run holds, or cannot be deleted, is left and said."""
    return [_deleted(one) for one in garbage(project)]


def _deleted(one: Garbage) -> Garbage:
    try:
        with atomic.output_lock(one.path):
            for path in (one.path, *(provenance.beside(one.path, s) for s in BESIDE)):
                atomic.remove(path)
    except (LockedError, OSError, TrajpipeError) as error:
        return Garbage(one.path, one.bytes, one.why, str(error))
    return one


def _wanted(project: Project) -> set[Path]:
    """Every output that the catalogue makes of the recordings that are there."""
    wanted: set[Path] = set()
    for name in project.catalogue.datasets:
        wanted |= {project.demos_path(r) for r in project.recordings(name)}
        wanted |= {plan.target for plan in project.store_plans(name)} if project.recordings(name) else set()
        wanted |= (
            {project.store_path(name), project.lerobot_path(name)} if project.recordings(name) else set()
        )
    return wanted


def _outputs(root: Path) -> Iterator[Path]:
    """Outputs with a stamp of ours."""
    for stamp in _beside(root, names.SUFFIX_RECIPE):
        output = stamp.with_name(stamp.name.removesuffix(names.SUFFIX_RECIPE))
        if provenance.read_stamp(output) is not None:
            yield output


def _failures(root: Path) -> Iterator[Path]:
    """Outputs that never were: evidence of a failure lies beside their name, and no stamp."""
    for failure in _beside(root, names.SUFFIX_FAILURE):
        output = failure.with_name(failure.name.removesuffix(names.SUFFIX_FAILURE))
        if not output.exists() and not provenance.beside(output, names.SUFFIX_RECIPE).exists():
            yield output


def _beside(root: Path, suffix: str) -> Iterator[Path]:
    for folder in (names.FOLDER_DEMOS, names.FOLDER_STORES, names.FOLDER_LEROBOT):
        for pattern in (f"*{suffix}", f"*/*{suffix}"):
            yield from (p for p in (root / folder).glob(pattern) if p.is_file() and not p.is_symlink())


def _size(output: Path) -> int:
    beside = (provenance.beside(output, suffix) for suffix in BESIDE)
    return provenance.size_of(output) + sum(provenance.size_of(path) for path in beside)


def _why(output: Path) -> str:
    stamp = provenance.read_stamp(output) or {}
    dataset = stamp.get("options", {}).get("dataset") if isinstance(stamp.get("options"), dict) else None
    inputs = ", ".join(list(stamp.get("inputs", {}))[:3])
    of = f"dataset {dataset}, " if dataset else ""
    return f"no recipe makes it any more ({of}made of {inputs or 'nothing'})"
