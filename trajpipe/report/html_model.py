"""What a page tells, as plain values: outputs with their evidence, pictures, episodes.

What is not here: gathering it, see `trajpipe.pipeline.report`; showing it, see `html_overview`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from trajpipe.core.findings import Denominator, Findings
from trajpipe.core.ledger import Ledger
from trajpipe.report.picture import Picture

MAX_INDEXED: Final = 20_000
MAX_LISTED: Final = 500
MAX_EPISODE_FINDINGS: Final = 8
_INDEX_TEXT: Final = 240


@dataclass(frozen=True, slots=True)
class Rule:
    """One check as it went.

    Attributes:
        code: Its code.
        title: Its line for people.
        passed: No ERROR.
        counted: What it looked at; None when it counts nothing.
        findings: What it found.
    """

    code: str
    title: str
    passed: bool
    counted: Denominator | None = None
    findings: Findings = field(default_factory=Findings)


@dataclass(slots=True)
class Output:
    """One file or folder of a stage.

    Attributes:
        stage: `raw`, `demos`, `store` or `lerobot`.
        name: Base name.
        state: `built` (there and current), `there`, `stale`, `failed`, `missing` or `unreadable`.
        note: Why it is not there, or what to know of it.
        facts: Words for people: size, hash, ….
        rules: Its checks; empty when none ran.
        skipped: Code → why a rule did not apply.
        ledger: None when there is none.
        episodes: Episodes read from it.
        rows: Rows of them.
        detailed: Episodes whose frames and curves are in the page.
        left_out: Column → why it is not shown.
    """

    stage: str
    name: str
    state: str = "there"
    note: str = ""
    facts: dict[str, str] = field(default_factory=dict)
    rules: list[Rule] = field(default_factory=list)
    skipped: Mapping[str, str] = field(default_factory=dict)
    ledger: Ledger | None = None
    episodes: int = 0
    rows: int = 0
    detailed: int = 0
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def is_read(self) -> bool:
        """True when its episodes could be read."""
        return self.episodes > 0 or self.state in ("built", "there", "stale")

    @property
    def failed(self) -> int:
        """Rules that failed."""
        return sum(not r.passed for r in self.rules)


@dataclass(slots=True)
class EpisodeFacts:
    """One episode, as the stages that hold it know it.

    Attributes:
        name: Its name in the first stage that holds it.
        recording: Base name of the recording it came from.
        demo: Its name there.
        length: Rows in the first stage that holds it.
        task: Instruction; "" when there is none.
        tag: Where it came from.
        success: None when nobody says.
        split: `train`, `valid` or "".
        findings: What the checks said of it.
        parts: (number of the output, number of its frames and curves or None, name there, rows there).
    """

    name: str
    recording: str
    demo: str
    length: int
    task: str = ""
    tag: str = "unknown"
    success: bool | None = None
    split: str = ""
    findings: list[str] = field(default_factory=list)
    parts: list[tuple[int, int | None, str, int]] = field(default_factory=list)


@dataclass(slots=True)
class Report:
    """Everything of one page.

    Attributes:
        title: Dataset name or file name.
        subtitle: One line: what it is.
        outputs: In order of stages.
        pictures: Each with the name of what it is of, in order.
        opened: What the pictures are of that are seen at once, the others are folded away; empty = all.
        certificate: The certificate's document; None when there is none.
        certificate_current: It is of the export's bytes as they are now.
        certificate_picture: PNG of the worst frame pair; None when there is none.
        episodes: In order of the first stage.
        known: Episodes that there are, those beyond the index and those not asked for included.
        notes: What the page leaves out, each a sentence with its denominator.
        listed: Most rows of each table of the overview.
    """

    title: str
    subtitle: str
    outputs: list[Output] = field(default_factory=list)
    pictures: list[tuple[str, Picture]] = field(default_factory=list)
    opened: tuple[str, ...] = ()
    certificate: Mapping[str, Any] | None = None
    certificate_current: bool = True
    certificate_picture: bytes | None = None
    episodes: list[EpisodeFacts] = field(default_factory=list)
    known: int = 0
    notes: list[str] = field(default_factory=list)
    listed: int = MAX_LISTED


def first_ledger(outputs: Iterable[Output]) -> Ledger:
    """The ledgers of the first stage that has any, as one: what was read and what became of it."""
    stages: dict[str, list[Ledger]] = {}
    for output in outputs:
        if output.ledger is not None:
            stages.setdefault(output.stage, []).append(output.ledger)
    return Ledger.joined(next(iter(stages.values()), []))


def rules_by_stage(outputs: Iterable[Output]) -> dict[str, list[Rule]]:
    """Stage → its rules, those of one code over several outputs as one."""
    stages: dict[str, dict[str, Rule]] = {}
    for output in outputs:
        of = stages.setdefault(output.stage, {})
        for rule in output.rules:
            of[rule.code] = _together(of.get(rule.code), rule)
    return {stage: list(of.values()) for stage, of in stages.items() if of}


def _together(one: Rule | None, other: Rule) -> Rule:
    findings, counted = Findings(), other.counted
    for rule in (one, other):
        if rule is not None:
            findings.merge(rule.findings)
    if one is not None and one.counted is not None:
        more = counted or Denominator(0, 0, one.counted.unit)
        counted = Denominator(one.counted.checked + more.checked, one.counted.total + more.total, more.unit)
    return Rule(other.code, other.title, (one is None or one.passed) and other.passed, counted, findings)


def index_of(report: Report) -> dict[str, Any]:
    """The index that the page's script reads: outputs, and the episodes column by column."""
    episodes = report.episodes
    tables = {
        name: list(dict.fromkeys(getattr(e, name) for e in episodes))
        for name in ("task", "tag", "split", "recording")
    }
    codes = {name: {text: i for i, text in enumerate(texts)} for name, texts in tables.items()}
    return {
        "outputs": [{"stage": o.stage, "name": _cut(o.name)} for o in report.outputs],
        "tables": {name: [_cut(t) for t in texts] for name, texts in tables.items()},
        "name": [_cut(e.name) for e in episodes],
        "demo": ["" if e.demo == e.name else _cut(e.demo) for e in episodes],
        "length": [e.length for e in episodes],
        "success": [2 if e.success is None else int(e.success) for e in episodes],
        "findings": [[_cut(f) for f in e.findings[:MAX_EPISODE_FINDINGS]] for e in episodes],
        "parts": [[[o, d, "" if n == e.name else _cut(n), t] for o, d, n, t in e.parts] for e in episodes],
        **{name: [codes[name][getattr(e, name)] for e in episodes] for name in tables},
    }


def _cut(text: str) -> str:
    return text if len(text) <= _INDEX_TEXT else text[:_INDEX_TEXT] + "…"
