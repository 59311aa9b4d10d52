"""`write_report`: one self-contained HTML file about a dataset or an output of any stage.

Episodes are read once each, block by block; what the page holds of them is bounded.
What is not here: reading them, see `report_gathering.py`; the page itself, see `trajpipe.report.html_page`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trajpipe.core.errors import InputError
from trajpipe.core.progress import Progress, silent
from trajpipe.pipeline.report_evidence import add_certificate, output_of
from trajpipe.pipeline.report_gathering import read_all
from trajpipe.pipeline.report_options import ReportOptions
from trajpipe.pipeline.report_pictures import add_pictures
from trajpipe.pipeline.report_subject import Subject
from trajpipe.report.html_model import Report
from trajpipe.report.html_page import Details, details, size_without_details, write_page

_LEAST_LISTED: Final = 16


@dataclass(frozen=True, slots=True)
class ReportMade:
    """A report that was written.

    Attributes:
        path: The file.
        bytes: Its size.
        episodes: Episodes there are.
        indexed: Episodes listed in it.
        detailed: Episodes with frames and curves.
        notes: What it leaves out.
    """

    path: Path
    bytes: int
    episodes: int
    indexed: int
    detailed: int
    notes: tuple[str, ...]


def write_report(
    subject: Subject, target: Path, options: ReportOptions | None = None, *, progress: Progress = silent
) -> ReportMade:
    """Write the report; an older file at `target` is replaced in one step.

    Args:
        subject: What it is about.
        target: The HTML file.
        options: Bounds and choices; the defaults when None.
        progress: Called with outputs and episodes read.

    Raises:
        UsageError: no episode is of the names asked for.
        TrajpipeError: nothing of the subject can be read.
    """
    options = options or ReportOptions()
    report = Report(subject.title, subject.subtitle)
    for done, one in enumerate(subject.outputs):
        progress("outputs looked at", done, len(subject.outputs))
        report.outputs.append(output_of(subject, one, run_rules=options.run_rules))
    add_certificate(subject, report)
    add_pictures(subject, report, progress)
    _shorten(report, options.max_bytes)
    fixed = size_without_details(report)
    with details(target.parent, max(0, options.max_bytes - fixed)) as added:
        read_all(subject, report, added, options, progress)
        _fit(report, added, options.max_bytes)
        size = write_page(report, added, target)
    detailed = sum(any(d is not None for _, d, _, _ in e.parts) for e in report.episodes)
    return ReportMade(target, size, report.known, len(report.episodes), detailed, tuple(report.notes))


def _shorten(report: Report, max_bytes: int) -> None:
    """Make the overview take half of the bound at most: fewer pictures, then shorter tables."""
    while size_without_details(report) > max_bytes // 2:
        groups = dict.fromkeys(of for of, _ in report.pictures)
        folded = [of for of in groups if of not in report.opened]
        if folded or (groups and report.listed <= _LEAST_LISTED):
            gone = (folded or list(groups))[-1]
            report.pictures = [(of, picture) for of, picture in report.pictures if of != gone]
            report.notes.append(f"There is no room for the pictures of {gone}.")
        elif report.listed > 1:
            report.listed //= 2
        else:
            return


def _fit(report: Report, added: Details, max_bytes: int) -> None:
    """Make the page fit its bound: fewer episodes in the index.

    Raises:
        InputError: it does not fit whatever is left out.
    """
    everything = len(report.episodes)
    while (size := size_without_details(report) + added.written) > max_bytes:
        if len(report.episodes) < 2:
            raise InputError("the report does not fit its bound", got=f"{size} bytes", expected=max_bytes)
        report.episodes = report.episodes[: len(report.episodes) // 2]
        listed = f"The list holds the first {len(report.episodes):,} of {everything:,} episodes"
        report.notes = [n for n in report.notes if not n.startswith("The list holds")]
        report.notes.append(f"{listed}: there is no room for more.")
