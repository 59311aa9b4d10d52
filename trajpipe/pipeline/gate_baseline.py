"""The gate's baseline file: known failures that somebody accepts until a date, and checks that must have run.

What is not here: deciding, see `gate_outcomes`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from trajpipe.core.errors import CatalogueError
from trajpipe.core.findings import Severity, at_least
from trajpipe.core.names import Stage
from trajpipe.pipeline.catalogue_conventions import Model
from trajpipe.pipeline.catalogue_text import dotted, read_document
from trajpipe.pipeline.catalogue_values import OneOrMany, Owner
from trajpipe.pipeline.gate_outcomes import GateReport, Outcome, State

BASELINE: Final = "gate.yaml"
_WAIVABLE: Final = (State.FAILED, State.WARNED, State.NEVER_RAN)


def _date(value: Any) -> Any:
    """`2026-12-31`; YAML dates stay text in our reader."""
    return date.fromisoformat(value) if isinstance(value, str) else value


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("blank")
    return value.strip()


Reason = Annotated[str, AfterValidator(_not_blank)]


class Waiver(Model):
    """A failure that somebody accepts until a date."""

    check: OneOrMany
    """Code of the check, or of what it found; patterns (`quaternion-*`) are allowed."""
    dataset: str = "*"
    """Dataset name or pattern."""
    stage: Literal["demos", "store", "lerobot", "*"] = "*"
    """Stage."""
    recording: str = "*"
    """Partition key or pattern; matches whole datasets too when it is `*`."""
    owner: Owner
    """Who answers for it: e-mail address or `team:<name>`."""
    reason: Reason
    """Why it is accepted."""
    expires: Annotated[date, BeforeValidator(_date), Field(strict=False)]
    """Last day on which it counts."""

    def covers(self, outcome: Outcome) -> bool:
        """True when an outcome is of the kind that this waiver is about, whatever the date."""
        if outcome.state not in _WAIVABLE or self.stage not in ("*", outcome.stage.value):
            return False
        if not fnmatchcase(outcome.dataset, self.dataset) or not fnmatchcase(outcome.key, self.recording):
            return False
        return self._names(outcome.code) or self._names_all_found(outcome)

    def _names(self, code: str) -> bool:
        return any(fnmatchcase(code, pattern) for pattern in self.check)

    def _names_all_found(self, outcome: Outcome) -> bool:
        bad = [
            code for (code, s, _), n in outcome.findings.counts.items() if n and at_least(s, Severity.WARN)
        ]
        return bool(bad) and all(self._names(code) for code in bad)

    def words(self) -> str:
        """`team:data until 2026-12-31: known camera fault`."""
        return f"{self.owner} until {self.expires.isoformat()}: {self.reason}"


class Baseline(Model):
    """The whole file."""

    version: Literal[1]
    """Version of the file's form."""
    required: tuple[str, ...] = ()
    """Codes or patterns of checks of which each must have run at least once."""
    waivers: tuple[Waiver, ...] = ()
    """Accepted failures."""


def load_baseline(path: Path) -> Baseline:
    """Read a baseline file.

    Raises:
        CatalogueError: it is absent or not valid; the message names line and key.
    """
    document = read_document(path)
    try:
        return Baseline.model_validate_json(json.dumps(document.value))
    except ValidationError as error:
        first = error.errors()[0]
        where = tuple(first["loc"])
        raise CatalogueError(
            f"the baseline is not valid: {dotted(where)}: {first['msg'].lower()}",
            place=f"{path}, line {document.line(where)}",
            got=None if first["type"] == "missing" else first.get("input"),
            expected="{check, owner, reason, expires: YYYY-MM-DD} for each waiver",
        ) from error


def apply_baseline(report: GateReport, baseline: Baseline, today: date, *, whole: bool = True) -> None:
    """Mark waived outcomes, add outcomes for required checks that never ran, and say what is out of date.

    Args:
        report: Changed in place.
        baseline: The baseline.
        today: Waivers count up to and including the day they expire on.
        whole: The gate looked at everything; a part of it need not hold the required checks.
    """
    required = baseline.required if whole else ()
    report.outcomes += [_required(code) for code in required if not _ran(report.outcomes, code)]
    expired = [w for w in baseline.waivers if w.expires < today]
    live = [w for w in baseline.waivers if w.expires >= today]
    used: set[int] = set()
    for index, outcome in enumerate(report.outcomes):
        covering = next((i for i, w in enumerate(live) if w.covers(outcome)), None)
        if covering is not None:
            used.add(covering)
            report.outcomes[index] = replace(outcome, waiver=live[covering].words())
    for waiver in expired:
        covered = sum(waiver.covers(o) for o in report.outcomes)
        text = f"it covers {covered} failures that now count" if covered else "nothing fails it any more"
        report.notes.append(f"expired waiver of {', '.join(waiver.check)} ({waiver.words()}): {text}")
    for index, waiver in enumerate(live):
        if index not in used:
            report.notes.append(
                f"waiver of {', '.join(waiver.check)} ({waiver.words()}) matches nothing: delete it"
            )


def _ran(outcomes: Sequence[Outcome], code: str) -> bool:
    done = (State.PASSED, State.WARNED, State.FAILED)
    return any(o.state in done and fnmatchcase(o.code, code) for o in outcomes)


def _required(code: str) -> Outcome:
    return Outcome(
        dataset="*",
        stage=Stage.RAW,
        key="",
        path=BASELINE,
        code=code,
        title="Required by the baseline",
        state=State.NEVER_RAN,
        why="the baseline requires it and no output was checked by it",
    )
