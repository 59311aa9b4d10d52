"""What ails a project or its machine: stale temporaries and locks, disk space, libraries, versions.

What is not here: libraries that do not load, see `doctor_libraries`; the Dagster instance, see
`trajpipe.defs.instance`; outputs nobody makes, see `gc`.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from trajpipe.core import atomic, names, provenance
from trajpipe.core.errors import TrajpipeError
from trajpipe.core.locks import lock_holder, lock_is_stale
from trajpipe.core.temporaries import stale_temporaries
from trajpipe.pipeline.diagnosis import Diagnosis, Grade
from trajpipe.pipeline.doctor_libraries import look_at_libraries
from trajpipe.pipeline.project import Project

__all__ = ["LEAST_FREE", "Diagnosis", "Grade", "clear_leftovers", "examine", "versions_agree"]

LEAST_FREE: Final = 1 << 30


def examine(project: Project, *, fix: bool = False) -> list[Diagnosis]:
    """Look at a project's folders and at this installation.

    Args:
        project: The project.
        fix: Delete dead writers' temporaries and locks: nobody's work.
    """
    looks: tuple[Callable[[], Iterator[Diagnosis]], ...] = (
        lambda: _temporaries(project, fix=fix),
        lambda: _locks(project, fix=fix),
        lambda: _disk(project.root),
        look_at_libraries,
        _dagster_versions,
        lambda: _outputs(project),
    )
    return [found for look in looks for found in look()]


def clear_leftovers(project: Project) -> list[Diagnosis]:
    """Delete dead writers' temporaries and locks, as `examine` does with `fix`.

    Args:
        project: The project.

    Returns:
        What was deleted.
    """
    found = [*_temporaries(project, fix=True), *_locks(project, fix=True)]
    return [one for one in found if one.grade is Grade.FIXED]


def _folders(project: Project) -> list[Path]:
    """The folders that outputs are made in, and those one level below."""
    top = [project.root / f for f in (names.FOLDER_DEMOS, names.FOLDER_STORES, names.FOLDER_LEROBOT)]
    return [f for t in top if t.is_dir() for f in (t, *sorted(p for p in t.iterdir() if p.is_dir()))]


def _temporaries(project: Project, *, fix: bool) -> Iterator[Diagnosis]:
    stale = [path for folder in _folders(project) for path in stale_temporaries(folder)]
    if not stale:
        yield Diagnosis("temporaries", Grade.FINE, "no dead writer left one")
        return
    size = sum(provenance.size_of(path) for path in stale)
    text = f"{len(stale)} of dead writers, {size:,} bytes: {', '.join(p.name for p in stale[:3])}"
    if fix:
        for folder in _folders(project):
            atomic.remove_stale(folder)
        yield Diagnosis("temporaries", Grade.FIXED, f"deleted {text}")
    else:
        yield Diagnosis("temporaries", Grade.WRONG, text, "--fix deletes them; so does the next run")


def _locks(project: Project, *, fix: bool) -> Iterator[Diagnosis]:
    locks = [p for f in _folders(project) for p in f.glob(f".*{names.SUFFIX_LOCK}") if p.is_file()]
    stale = [lock for lock in locks if lock_is_stale(lock_holder(lock))]
    for lock in locks:
        if lock not in stale:
            holder = lock_holder(lock)
            who = f"pid {holder.get('pid', '?')} on {holder.get('host', '?')}"
            yield Diagnosis("locks", Grade.NOTE, f"{lock.name} is held by {who}")
    if not stale:
        yield Diagnosis("locks", Grade.FINE, "none of a dead process")
        return
    text = ", ".join(lock.name for lock in stale)
    if fix:
        for lock in stale:
            if lock_is_stale(lock_holder(lock)):
                lock.unlink(missing_ok=True)
        yield Diagnosis("locks", Grade.FIXED, f"deleted {text}")
    else:
        yield Diagnosis("locks", Grade.WRONG, f"of dead processes: {text}", "--fix deletes them")


def _disk(root: Path) -> Iterator[Diagnosis]:
    usage = shutil.disk_usage(root)
    raw = provenance.size_of(root / names.FOLDER_RAW)
    text = f"{usage.free / 1e9:.1f} GB free, the recordings take {raw / 1e9:.1f} GB"
    low = usage.free < max(LEAST_FREE, raw)
    advice = "Free some space: outputs may take as much as the recordings. `trajpipe gc` shows what can go."
    yield Diagnosis("disk", Grade.WRONG if low else Grade.FINE, text, advice if low else "")
    if not os.access(root, os.W_OK):
        yield Diagnosis("disk", Grade.WRONG, f"{root} cannot be written", "Check its permissions.")


def _dagster_versions() -> Iterator[Diagnosis]:
    """All dagster packages must be of one release: core 1.x.y goes with integrations 0.(x+16).y."""
    found = sorted(
        {
            (str(d.metadata["Name"]).lower(), d.version)
            for d in importlib.metadata.distributions()
            if str(d.metadata["Name"]).lower().startswith("dagster")
        }
    )
    yield from versions_agree(dict(found))


def versions_agree(versions: dict[str, str]) -> Iterator[Diagnosis]:
    """Whether `dagster*` packages belong together.

    Args:
        versions: Package → version.
    """
    core = versions.get("dagster")
    if core is None:
        yield Diagnosis("versions", Grade.WRONG, "dagster is not installed", "pip install trajpipe")
        return
    numbers = core.split(".")
    integration = f"0.{int(numbers[1]) + 16}.{numbers[2]}"
    strangers = {
        name: version
        for name, version in versions.items()
        if version not in (core, integration) and name != "dagster-ray"
    }
    if strangers:
        text = ", ".join(f"{name} {version}" for name, version in sorted(strangers.items()))
        advice = f"Install them of one release: core packages {core}, integrations {integration}."
        yield Diagnosis("versions", Grade.WRONG, f"not of dagster {core}'s release: {text}", advice)
    else:
        yield Diagnosis("versions", Grade.FINE, f"dagster {core}, {len(versions)} packages of one release")


def _outputs(project: Project) -> Iterator[Diagnosis]:
    """Outputs whose bytes are no longer the stamped ones: somebody wrote into them."""
    for name in project.catalogue.datasets:
        changed = []
        try:
            paths = [project.demos_path(r) for r in project.recordings(name)]
            paths += [project.store_path(name), project.lerobot_path(name)]
            changed = [p.name for p in paths if _changed(p)]
        except TrajpipeError as error:
            yield Diagnosis("outputs", Grade.WRONG, f"{name}: {error}")
            continue
        if changed:
            text = f"{name}: changed since they were made: {', '.join(changed)}"
            yield Diagnosis("outputs", Grade.WRONG, text, f"`trajpipe run {name}` makes them anew")
        else:
            yield Diagnosis("outputs", Grade.FINE, f"{name}: as they were made")


def _changed(output: Path) -> bool:
    stamp = provenance.read_stamp(output)
    if stamp is None or not output.exists():
        return False
    recorded = stamp["output"]
    if recorded.get("touch") == provenance.touch_of(output):
        return False
    return provenance.sha256_path(output) not in provenance.hashes_of(stamp)
