"""What a conversion reads and may write: sources found, exclusions by hand, twins, destinations refused.

What is not here: converting, see `convert.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Final

from trajpipe.core import provenance
from trajpipe.core.conventions import Conventions
from trajpipe.core.errors import InputError, OutputExistsError, TrajpipeError, UsageError
from trajpipe.core.findings import Finding, Findings, Place, Severity
from trajpipe.core.order import natural_key
from trajpipe.demos.reader import DemosFile, rate_of_env_args
from trajpipe.pipeline.dataset_findings import EQUAL, IDENTICAL
from trajpipe.sources.base import ReadOptions, detect, source
from trajpipe.sources.base import sources as source_kinds

EXCLUDED_BY: Final = "excluded on the command line"


def expanded(sources: Sequence[Path], kind: str | None = None) -> list[Path]:
    """Sources with folders replaced by the recordings in them, in natural order.

    A folder that is a recording by itself stays. Files that no source recognises are left out of a folder.

    Raises:
        UsageError: a folder holds no recording.
    """
    readers = list(source_kinds().values()) if kind is None else [source(kind)]
    out: list[Path] = []
    for path in sources:
        if not path.is_dir() or any(reader.detect(path) for reader in readers):
            out.append(path)
            continue
        found = {p for reader in readers for g in reader.globs for p in path.glob(g) if reader.detect(p)}
        if not found:
            raise UsageError("the folder holds no recording", got=path, hint="See `trajpipe sources`.")
        out.extend(sorted(found, key=lambda p: natural_key(p.name)))
    return out


def require_there(sources: Sequence[Path]) -> None:
    """Refuse no sources, and sources that are not there.

    Raises:
        UsageError: either.
    """
    if not sources:
        raise UsageError("no recording is named", expected="one at least")
    absent = [s for s in sources if not s.exists()]
    if absent:
        listed = ", ".join(str(s) for s in absent[:3])
        raise UsageError("a source is not there", got=listed, hint="Check the path.", code="missing-file")


def require_apart(sources: Sequence[Path], targets: Sequence[Path]) -> None:
    """Refuse targets that would replace a source, lie inside one, hold one, or replace each other.

    Args:
        sources: Files and folders that are read.
        targets: Files and folders that are written.

    Raises:
        UsageError: any of these, or a target is a link that leads nowhere.
    """
    for target in targets:
        if target.is_symlink() and not target.exists():
            raise UsageError("the destination is a link to what is not there", got=target)
        place = target.resolve()
        for one in sources:
            if target.exists() and one.samefile(target):
                raise UsageError("the destination is one of the sources", got=target)
            if one.is_dir() and place.is_relative_to(one.resolve()):
                raise UsageError("the destination lies inside a source", got=target, expected=f"not in {one}")
            if one.resolve().is_relative_to(place):
                raise UsageError("the destination holds a source", got=target, expected=f"not above {one}")
    for number, target in enumerate(targets):
        if target in targets[:number]:
            raise UsageError(
                "two sources would become one file",
                got=target,
                hint="Rename one, or convert them into one file: give DEST a suffix.",
            )


def require_ours(target: Path, *, force: bool) -> None:
    """Refuse to put an output over what trajpipe did not make.

    `force` replaces a file and a LeRobot folder; never a device, and never another folder.

    Raises:
        OutputExistsError: it exists and is not ours.
        UsageError: it is neither a file nor a folder.
    """
    if not target.exists():
        return
    if not (target.is_file() or target.is_dir()):
        raise UsageError("the destination is neither a file nor a folder", got=target)
    if provenance.read_stamp(target) is not None or (target.is_dir() and not any(target.iterdir())):
        return
    if target.is_dir() and not (target / "meta" / "info.json").is_file():
        hint = "Name a new folder; --force does not delete it either."
    elif force:
        return
    else:
        hint = "Use --force to replace it."
    raise OutputExistsError("the destination exists, and trajpipe did not make it", place=target, hint=hint)


def exclusions_of(recording: Path, exclude: Sequence[str]) -> dict[str, str]:
    """Demo ("" = the whole recording) → reason, of one recording.

    Args:
        recording: The recording.
        exclude: `DEMO` of every recording, `FILE:DEMO` of one, or `FILE`, with or without its suffix.
    """
    own, out = {recording.name, recording.stem}, dict[str, str]()
    for text in exclude:
        file, colon, demo = text.rpartition(":")
        if text in own:
            out[""] = EXCLUDED_BY
        elif not colon or file in own:
            out[demo] = EXCLUDED_BY
    return out


def require_exclusions_known(sources: Sequence[Path], exclude: Sequence[str]) -> None:
    """Refuse `FILE:DEMO` of a file that is not among the sources: a typo would keep what was to go.

    Raises:
        UsageError: there is one.
    """
    known = {name for s in sources for name in (s.name, s.stem)}
    for text in exclude:
        file, colon, demo = text.rpartition(":")
        if not (demo or text in known) or (colon and file not in known):
            listed = ", ".join(s.name for s in sources[:5])
            raise UsageError(
                "an exclusion names no source", got=text, expected=f"DEMO or FILE:DEMO of {listed}"
            )


def twins_of(sources: Sequence[Path]) -> Findings:
    """Warnings of sources that are one file, or equal byte for byte.

    Raises:
        OSError: one cannot be read.
    """
    by_size: dict[int, list[Path]] = {}
    for path in sources:
        by_size.setdefault(provenance.size_of(path), []).append(path)
    by_content: dict[str, list[Path]] = {}
    for alike in (paths for paths in by_size.values() if len(paths) > 1):
        same = all(a.samefile(b) for a, b in combinations(alike, 2))
        for path in alike:
            content = str(path.resolve()) if same else provenance.sha256_path(path)
            by_content.setdefault(content, []).append(path)
    found = Findings()
    for paths in (paths for paths in by_content.values() if len(paths) > 1):
        got = ", ".join(path.name for path in paths)
        place = Place(file=paths[0].name)
        found.add(Finding(IDENTICAL, Severity.WARN, EQUAL, place, got, "each recording once"))
    return found


def rate_is_known(sources: Sequence[Path], kind: str | None, conventions: Conventions) -> bool:
    """False when every source that can be described says no rate and none is declared.

    A source that cannot be described counts as known: what is wrong with it is told when it is read.
    """
    return conventions.fps is not None or any(_says_rate(path, kind, conventions) for path in sources)


def _says_rate(path: Path, kind: str | None, conventions: Conventions) -> bool:
    try:
        if kind is None and path.is_file():
            with DemosFile(path, require_version=False) as demos:
                if demos.recipe:
                    return demos.fps is not None
        reader = source(kind) if kind else detect(path)
        found = reader.describe(path, ReadOptions(conventions))
        place = Place(file=path.name)
        return (found.fps or rate_of_env_args(found.env_args or {}, place=place)) is not None
    except (TrajpipeError, OSError):
        return True


def without_rate(sources: Sequence[Path]) -> InputError:
    """The error of an export whose sources say no rate."""
    return InputError(
        "the export needs a frame rate, and no recording says one",
        got=", ".join(path.name for path in sources[:5]),
        hint="Pass --fps 20 (your rate; in a catalogue, `fps: 20` under `conventions:` of the raw entry).",
        code="fps-unknown",
    )
