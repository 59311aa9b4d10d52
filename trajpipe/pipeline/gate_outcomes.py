"""What a gate decides on: an outcome per planned check, and the code that follows from all of them.

What is not here: where outcomes come from (`gate`, and a Dagster run in `trajpipe.defs.gate_run`), their
formats (`gate_formats`), waivers (`gate_baseline`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from trajpipe.core.findings import Finding, Findings, Place, Severity
from trajpipe.core.names import Stage

BUILDS: Final = "stage-builds"
BUILDS_TITLE: Final = "The stage ran to its end"
CODE_PASSED, CODE_FAILED, CODE_COULD_NOT, CODE_NEVER_RAN = 0, 1, 2, 3


class State(StrEnum):
    """What became of a planned check."""

    PASSED = "passed"
    WARNED = "warned"
    FAILED = "failed"
    SKIPPED = "skipped"
    NOT_REACHED = "not-reached"
    NEVER_RAN = "never-ran"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One planned check of one output.

    Attributes:
        dataset: Dataset name.
        stage: The stage.
        key: Partition key of the recording; "" for a whole dataset.
        path: The output as shown to people: relative to the data folder.
        code: The rule's code.
        title: Its line for people.
        state: PASSED, WARNED, FAILED, SKIPPED (the rule does not apply), NOT_REACHED (its stage failed
            before, which is counted there) or NEVER_RAN.
        findings: What it found.
        why: Why it was skipped or did not run.
        waiver: Who accepts the failure, until when and why; None when nobody does.
    """

    dataset: str
    stage: Stage
    key: str
    path: str
    code: str
    title: str = ""
    state: State
    findings: Findings = field(default_factory=Findings)
    why: str = ""
    waiver: str | None = None

    @property
    def unit(self) -> str:
        """`lift/demos/day2`: the output that was checked."""
        return "/".join(p for p in (self.dataset, self.stage.value, self.key) if p)

    def counts_as(self, state: State) -> bool:
        """True when it is in this state and nobody waived it."""
        return self.state is state and self.waiver is None

    def to_json(self) -> dict[str, Any]:
        """Plain form."""
        out: dict[str, Any] = {
            "dataset": self.dataset,
            "stage": self.stage.value,
            "key": self.key,
            "path": self.path,
            "check": self.code,
            "title": self.title,
            "state": self.state.value,
            **self.findings.to_json(),
        }
        if self.why:
            out["why"] = self.why
        if self.waiver is not None:
            out["waiver"] = self.waiver
        return out


@dataclass(frozen=True, slots=True)
class RunFailure:
    """A run that failed, or could not start, for another reason than its data.

    Attributes:
        unit: `lift/demos/day2`, a run id, or a dataset.
        message: Why.
    """

    unit: str
    message: str


@dataclass(slots=True)
class GateReport:
    """All outcomes of a gate, and what they come to.

    Attributes:
        outcomes: One per planned check.
        failures: Runs that failed for another reason than their data.
        notes: What people must know of the baseline: expired waivers, waivers that match nothing.
        fail_on: ERROR, or WARN: a warning fails too.
        seconds: Wall time.
    """

    outcomes: list[Outcome] = field(default_factory=list)
    failures: list[RunFailure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    fail_on: Severity = Severity.ERROR
    seconds: float = 0.0

    @property
    def code(self) -> int:
        """0 all passed; 2 a run failed or could not start; 1 a check failed; 3 a planned check never ran.

        A run that failed makes every other figure incomplete, so it comes first; then what is known to be
        wrong; then what is not known.
        """
        if self.failures:
            return CODE_COULD_NOT
        if any(self.fails(o) for o in self.outcomes):
            return CODE_FAILED
        if not self.outcomes or any(o.counts_as(State.NEVER_RAN) for o in self.outcomes):
            return CODE_NEVER_RAN
        return CODE_PASSED

    def fails(self, outcome: Outcome) -> bool:
        """True when an outcome alone makes the code 1."""
        warned = self.fail_on is Severity.WARN and outcome.counts_as(State.WARNED)
        return warned or outcome.counts_as(State.FAILED)

    def counts(self) -> dict[str, int]:
        """State → outcomes in it, waived ones apart; states without any are left out."""
        found = Counter("waived" if o.waiver else o.state.value for o in self.outcomes)
        return {s: found[s] for s in (*(s.value for s in State), "waived") if found[s]}

    def verdict(self) -> str:
        """`failed (code 1): 240 checks: 236 passed, 1 failed, 3 not reached`."""
        word = {0: "passed", 1: "failed", 2: "could not run", 3: "incomplete"}[self.code]
        parts = [f"{n:,} {s.replace('-', ' ')}" for s, n in self.counts().items()]
        parts += [f"{len(self.failures)} failed runs"] if self.failures else []
        text = ", ".join(parts) or "nothing was planned"
        return f"{word} (code {self.code}): {len(self.outcomes):,} checks: {text}"

    def to_json(self) -> dict[str, Any]:
        """Plain form for `--format json`."""
        return {
            "code": self.code,
            "verdict": self.verdict(),
            "fail_on": self.fail_on.value,
            "counts": self.counts(),
            "seconds": round(self.seconds, 3),
            "failures": [{"unit": f.unit, "message": f.message} for f in self.failures],
            "notes": self.notes,
            "outcomes": [o.to_json() for o in self.outcomes],
        }


def state_of(findings: Findings) -> State:
    """FAILED with an ERROR, WARNED with a WARN, else PASSED."""
    worst = findings.worst()
    if worst is Severity.ERROR:
        return State.FAILED
    return State.WARNED if worst is Severity.WARN else State.PASSED


def said(code: str, message: str, place: Place, severity: Severity = Severity.ERROR) -> Findings:
    """Findings of one finding."""
    out = Findings()
    out.add(Finding(code, severity, message, place))
    return out
