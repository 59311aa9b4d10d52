"""Checking a raw recording as its source reads it, without writing anything.

What is not here: the rules, see `trajpipe.checks.raw`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from trajpipe.checks.raw import READING, RawReading
from trajpipe.checks.registry import CheckReport, run_checks
from trajpipe.core.conventions import Conventions
from trajpipe.core.episode import Episode
from trajpipe.core.errors import TrajpipeError
from trajpipe.core.ledger import Rejection
from trajpipe.core.names import Reason, Stage
from trajpipe.demos.layouts import Layout, layout_of, outvoted
from trajpipe.demos.select import not_finite
from trajpipe.sources.base import ReadOptions, detect, source


def check_raw(
    path: Path,
    *,
    kind: str | None = None,
    conventions: Conventions | None = None,
    options: Mapping[str, Any] | None = None,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
) -> CheckReport:
    """Read a recording through its source and run the checks of raw files on it.

    Args:
        path: The recording.
        kind: Source kind; None = detected.
        conventions: Declared conventions.
        options: Source-specific options.
        select: Codes or patterns to run; empty = all.
        ignore: Codes or patterns to leave out.
    """
    reading = read(path, kind, conventions or Conventions(), dict(options or {}))
    return run_checks(Stage.RAW, path, context={READING: reading}, select=select, ignore=ignore)


def read(path: Path, kind: str | None, conventions: Conventions, options: dict[str, Any]) -> RawReading:
    """What the source makes of a recording: episodes screened for finite values, findings, or the error."""
    reading = RawReading(kind or "")
    try:
        reader = source(kind) if kind else detect(path)
        reading.kind = reader.kind
        asked = ReadOptions(conventions, report=reading.findings.add, options=options)
        described = reader.describe(path, asked)
        reading.findings.extend(described.findings)
        found: dict[str, Layout] = {}
        for item in reader.episodes(path, asked):
            verdict = item if isinstance(item, Rejection) else _screened(item)
            if isinstance(verdict, Rejection):
                reading.rejected.append(replace(verdict, recording=path.name))
            elif not isinstance(item, Rejection):
                reading.episodes.append((item.name, item.length))
                found[item.name] = layout_of(item)
        other = outvoted(path.name, found)
        reading.rejected += other
        names = {one.episode for one in other}
        reading.episodes = [one for one in reading.episodes if one[0] not in names]
    except TrajpipeError as error:
        reading.error = (error.code, str(error))
    return reading


def _screened(episode: Episode) -> Rejection | None:
    try:
        return not_finite(episode)
    except TrajpipeError as error:
        return Rejection(episode.source_file, episode.name, Reason.UNREADABLE, str(error))
