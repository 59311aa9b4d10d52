"""Where a report may be written: over a report, over a plain page when forced, never over data.

What is not here: writing it, see `report.py` and `report_rerun.py`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trajpipe.core.errors import OutputExistsError, UsageError
from trajpipe.core.signatures import looks_like_hdf5
from trajpipe.report.rerun_recording import MAGIC

_HEAD_BYTES: Final = 2048


@dataclass(frozen=True, slots=True)
class Form:
    """A kind of file that a report writes.

    Attributes:
        what: In words.
        mark: Bytes near the begin of one that trajpipe wrote.
        suffixes: Of plain files of this kind, which may be replaced when forced.
    """

    what: str
    mark: bytes
    suffixes: tuple[str, ...]


PAGE: Final = Form("report", b'<meta name="generator" content="trajpipe ', (".html", ".htm"))
RERUN: Final = Form("recording for Rerun", MAGIC, (".rrd",))


def require_replaceable(target: Path, form: Form, subjects: Sequence[Path], *, force: bool = False) -> None:
    """Refuse to write over what is reported on, over data, and unforced over what is no report.

    Args:
        target: The file to be written.
        form: Its kind.
        subjects: Files and folders that the report is about.
        force: Replace a plain file of the kind's suffix, whoever wrote it.

    Raises:
        UsageError: the target is one of the subjects or a file inside one, also through links; or it is
            neither absent nor a file.
        OutputExistsError: it is a folder, or something else that may not be replaced.
    """
    if target.is_dir():
        raise OutputExistsError("the output is a folder", place=target, hint="Name a file.")
    if not target.exists():
        return
    if not target.is_file():
        raise UsageError("the output is not a plain file", got=target)
    with target.open("rb") as handle:
        ours = form.mark in handle.read(_HEAD_BYTES)
    data = looks_like_hdf5(target)
    if ours and not data:
        return
    status = target.stat()
    if any(os.path.samestat(status, path.stat()) for path in _files_of(subjects)):
        raise UsageError("the output is one of the files that the report is about", got=target)
    plain = target.resolve().suffix.lower() in form.suffixes and not data
    if plain and force:
        return
    hint = "Name another file, or replace it with --force." if plain else "Name another file."
    raise OutputExistsError(f"the output exists and is no {form.what}", place=target, hint=hint)


def _files_of(subjects: Sequence[Path]) -> Iterator[Path]:
    """The subjects that are files, and every file inside those that are folders."""
    for subject in subjects:
        yield from (p for p in subject.rglob("*") if p.is_file()) if subject.is_dir() else (subject,)
