"""Reading the episodes of a report's outputs once each: the index, and frames and curves put aside.

What is not here: the report as a whole, see `report.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final

from trajpipe.core.episode import Episode
from trajpipe.core.errors import TrajpipeError, UsageError
from trajpipe.core.findings import Severity
from trajpipe.core.ledger import Ledger, Rejection, entry
from trajpipe.core.names import Stage
from trajpipe.core.progress import Progress
from trajpipe.pipeline.report_episodes import opened
from trajpipe.pipeline.report_options import ReportOptions
from trajpipe.pipeline.report_subject import Reported, Subject
from trajpipe.report import html_budget
from trajpipe.report.html_curves import curve
from trajpipe.report.html_frames import read_frames, sampled_rows, strip
from trajpipe.report.html_model import MAX_EPISODE_FINDINGS, MAX_INDEXED, EpisodeFacts, Output, Report
from trajpipe.report.html_page import Details

_INDEX_ENTRY: Final = 420
_FIRST_PAGE: Final = 60_000
_NUMBER: Final = re.compile(r"episode[_ ]([0-9]{1,9})")


@dataclass(slots=True)
class Gathering:
    """What is gathered while episodes are read.

    Attributes:
        report: Grows.
        added: Frames and curves written aside.
        options: As asked.
        share: Bytes of frames and curves of one episode of one output.
        every: Of so many episodes one is shown in detail.
        at: (recording, demo) → its place in the index.
    """

    report: Report
    added: Details
    options: ReportOptions
    share: int
    every: int
    at: dict[tuple[str, str], int] = field(default_factory=dict)


def read_all(
    subject: Subject, report: Report, added: Details, options: ReportOptions, progress: Progress
) -> None:
    """Read the episodes of all outputs; one that cannot be read says so in the page."""
    counts = [
        _count(subject, one, output) for one, output in zip(subject.outputs, report.outputs, strict=True)
    ]
    if not any(counts):
        _raise_first(subject)
    gathering = _gathering(report, added, options, counts)
    total, done = sum(counts), 0
    for number, (one, output) in enumerate(zip(subject.outputs, report.outputs, strict=True)):
        if not counts[number]:
            continue
        try:
            for item in _episodes(subject, one, output):
                _take(item, number, gathering)
                done += 1
                progress("episodes", min(done, total), total)
        except TrajpipeError as error:
            output.state, output.note = "unreadable", str(error)
    report.known = max(len(report.episodes), report.known)
    _say_what_is_left_out(gathering)
    if options.episodes and not report.episodes:
        raise none_asked_for(options.episodes, report.known)


def _count(subject: Subject, one: Reported, output: Output) -> int:
    """Episodes of an output, from its index; 0 when it is absent or cannot be opened."""
    if not one.path.exists():
        return 0
    try:
        with opened(subject, one) as found:
            output.note = output.note or found.note
            return found.count
    except TrajpipeError as error:
        output.state, output.note = "unreadable", str(error)
        return 0


def _raise_first(subject: Subject) -> None:
    """Nothing can be read: a file given by its path says why, a dataset without outputs is still told of."""
    for one in subject.outputs:
        if len(subject.outputs) == 1 and one.path.exists():
            with opened(subject, one) as found:
                found.episodes()


def _gathering(report: Report, added: Details, options: ReportOptions, counts: Sequence[int]) -> Gathering:
    """Shares of the room that the overview and the index leave."""
    stages = [o.stage for o in report.outputs]
    by_stage = {
        s: sum(c for o, c in zip(stages, counts, strict=True) if o == s) for s in dict.fromkeys(stages)
    }
    most = max(by_stage.values(), default=0)
    indexed = min(most, MAX_INDEXED, _most_asked(options.episodes, most))
    added.max_bytes = max(0, added.max_bytes - _FIRST_PAGE - indexed * _INDEX_ENTRY)
    parts = sum(min(c, indexed) for c in by_stage.values())
    share = added.max_bytes // max(1, parts)
    every = 1
    if share < html_budget.LEAST_DETAIL:
        every = -(-html_budget.LEAST_DETAIL * parts // max(1, added.max_bytes))
        share = html_budget.LEAST_DETAIL
    return Gathering(report, added, options, min(share, html_budget.MOST_DETAIL), every)


def _episodes(subject: Subject, one: Reported, output: Output) -> Iterator[Episode]:
    """Episodes of an output; what is rejected while reading goes to its ledger when it has none."""
    rejected: list[Rejection] = []
    with opened(subject, one) as found:
        for item in found.episodes():
            if isinstance(item, Rejection):
                rejected.append(item)
                continue
            output.episodes += 1
            output.rows += item.length
            yield item
    if output.ledger is None and (rejected or one.stage is Stage.RAW):
        output.ledger = Ledger([entry(output.name, output.stage, output.episodes, rejected)])


def _take(episode: Episode, number: int, gathering: Gathering) -> None:
    """Put an episode into the index, and its frames and curves aside."""
    report = gathering.report
    output = report.outputs[number]
    report.known = max(report.known, _of_stage(report, output.stage))
    if not is_asked_for(episode, output.episodes - 1, gathering.options.episodes):
        return
    facts = _facts_of(episode, number, gathering)
    if facts is None:
        return
    place = gathering.at[episode.source_file, episode.source_demo]
    detail = None
    if place % gathering.every == 0:
        try:
            detail = gathering.added.add(_detail(episode, output, gathering))
        except TrajpipeError as error:
            facts.findings.append(f"{output.stage}: could not be read: {error}")
        output.detailed += detail is not None
    facts.findings += _findings(episode, number, facts, report)
    del facts.findings[MAX_EPISODE_FINDINGS:]
    facts.parts.append((number, detail, episode.name, episode.length))


def _of_stage(report: Report, stage: str) -> int:
    return sum(o.episodes for o in report.outputs if o.stage == stage)


def is_asked_for(episode: Episode, position: int, asked: Sequence[str]) -> bool:
    """True when a name, a pattern or a range of positions means this episode; all when nothing is asked."""
    own = (episode.name, episode.source_demo, f"{episode.source_file}:{episode.source_demo}")
    for text in asked:
        first, colon, last = text.partition(":")
        if colon and first.isdecimal() and last.isdecimal():
            if int(first) <= position < int(last):
                return True
        elif any(fnmatchcase(name, text) for name in own):
            return True
    return not asked


def none_asked_for(asked: Sequence[str], known: int) -> UsageError:
    """The error when names, patterns and ranges mean no episode of those that there are."""
    there = f"{known:,} episode{'' if known == 1 else 's'}"
    if all(re.fullmatch(r"[0-9]+:[0-9]+", text) for text in asked):
        rule = f"no episode is in this range: there are {there}"
        return UsageError(rule, got=", ".join(asked), expected=f"within 0:{known}, the end not included")
    return UsageError(f"no episode of this name among {there}", got=", ".join(asked))


def _most_asked(asked: Sequence[str], count: int) -> int:
    """How many episodes the names and ranges can mean at most; all when a pattern is among them."""
    if not asked or any(set(text) & set("*?[") for text in asked):
        return count
    ranges = (text.partition(":") for text in asked)
    return sum(
        max(0, int(last) - int(first))
        if first.isdecimal() and last.isdecimal()
        else count
        if not colon
        else 1
        for first, colon, last in ranges
    )


def _facts_of(episode: Episode, number: int, gathering: Gathering) -> EpisodeFacts | None:
    """The index entry of an episode: one of an earlier stage, or a new one; None when the index is full."""
    report, key = gathering.report, (episode.source_file, episode.source_demo)
    stage = report.outputs[number].stage
    if key in gathering.at:
        known = report.episodes[gathering.at[key]]
        if all(report.outputs[o].stage != stage for o, *_ in known.parts):
            known.split = known.split or episode.split or ""
            return known
    if len(report.episodes) >= MAX_INDEXED:
        return None
    gathering.at[key] = len(report.episodes)
    made = EpisodeFacts(
        name=episode.name,
        recording=episode.source_file,
        demo=episode.source_demo,
        length=episode.length,
        task=episode.task or "",
        tag=episode.tag,
        success=episode.success,
        split=episode.split or "",
    )
    report.episodes.append(made)
    return made


def _findings(episode: Episode, number: int, facts: EpisodeFacts, report: Report) -> list[str]:
    """What the rules of an output said of an episode, in words.

    A rule names it as this output does, by its position (`episode 3`), or as an earlier stage does.
    """
    output = report.outputs[number]
    own = {episode.name, *(f"episode {int(n)}" for n in _NUMBER.findall(episode.name))}
    earlier = {(report.outputs[o].name, name) for o, _, name, _ in facts.parts}
    return [
        f"{output.stage}: {finding}"
        for rule in output.rules
        for finding in rule.findings
        if finding.severity is not Severity.INFO
        and (finding.place.demo in own or (finding.place.file, finding.place.demo) in earlier)
    ]


def _detail(episode: Episode, output: Output, gathering: Gathering) -> dict[str, Any]:
    """Frames and curves of an episode, as the page's script reads them."""
    share = html_budget.share_of(episode.columns, gathering.share, gathering.options.frames)
    output.left_out.update(share.left_out)
    rows = sampled_rows(episode.length, share.frames)
    curves = [
        {"n": name, **curve(episode.columns[name], share.points)}
        for name in (share.columns if episode.length else ())
    ]
    strips = []
    for name in share.cameras if rows else ():
        frames = read_frames(episode.columns[name], rows)
        strips.append({"n": name, **strip(frames, rows, share.strip_bytes)})
    return {"f": strips, "c": curves}


def _say_what_is_left_out(gathering: Gathering) -> None:
    """The page's notes: each with its denominator."""
    report, options = gathering.report, gathering.options
    listed = len(report.episodes)
    detailed = sum(any(d is not None for _, d, _, _ in e.parts) for e in report.episodes)
    if options.episodes:
        asked = ", ".join(options.episodes)
        report.notes.append(f"{listed:,} of {report.known:,} episodes were asked for: {asked}.")
    elif listed < report.known:
        report.notes.append(f"The first {listed:,} of {report.known:,} episodes are listed.")
    bound = f"whose size is bounded to {options.max_bytes / (1 << 20):.0f} MiB"
    report.notes.append(
        f"Frames and curves of {detailed:,} of {listed:,} listed episodes are in this page, {bound}."
    )
    frames = f"At most {options.frames} frames of a camera of an episode are kept, scaled down. "
    thin = "A curve of many rows keeps the least and the greatest value of each span of rows."
    report.notes.append((frames if options.frames else "") + thin)
    for stage in dict.fromkeys(o.stage for o in report.outputs):
        left_out = {n: why for o in report.outputs if o.stage == stage for n, why in o.left_out.items()}
        if left_out:
            words = "; ".join(f"{name} ({why})" for name, why in sorted(left_out.items()))
            report.notes.append(f"Not drawn of {stage}: {words}.")
