"""The registry and runner of checks: one registered function per rule, with a stable code.

A check is given a subject (a path with facts read once) and yields findings; it never writes.
What is not here: the rules, see the modules beside this one.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Final

from trajpipe.core.errors import InputError, UnreadableError
from trajpipe.core.findings import Denominator, Finding, Findings, Place, Severity, at_least
from trajpipe.core.plugins import entry_points

ENTRY_POINTS: Final = "trajpipe.checks"
_BUILT_IN: Final[dict[str, tuple[str, ...]]] = {
    "raw": ("trajpipe.checks.raw",),
    "demos": ("trajpipe.checks.demos", "trajpipe.checks.demos_motion", "trajpipe.checks.stamp"),
    "store": (
        "trajpipe.checks.store",
        "trajpipe.checks.store_rate",
        "trajpipe.checks.store_lerobot",
        "trajpipe.checks.store_libero",
        "trajpipe.checks.store_libero_physics",
        "trajpipe.checks.store_lafan",
        "trajpipe.checks.store_lafan_physics",
        "trajpipe.checks.store_libero_init",
        "trajpipe.checks.stamp",
    ),
    "lerobot": ("trajpipe.checks.lerobot", "trajpipe.checks.stamp"),
}
_REGISTRY: dict[tuple[str, str], Check] = {}


@dataclass(slots=True)
class Subject:
    """What a check looks at.

    Attributes:
        stage: `raw`, `demos`, `store` or `lerobot`.
        path: The file or folder.
        context: Declared facts that rules compare with (conventions, expected counts, inputs); may be empty.
        facts: Cache: facts read once and shared by the rules of one run.
        counted: Set by a rule: what it looked at. A rule that counts and has checked 0 fails (nothing was
            compared); a rule that has nothing to look at by right does not count.
        measures: Numeric measurements by name, plotted over time in the UI.
    """

    stage: str
    path: Path
    context: Mapping[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    counted: Denominator | None = None
    measures: dict[str, float] = field(default_factory=dict)

    def fact(self, name: str, read: Callable[[], Any]) -> Any:
        """A fact read once: `read()` on first use, the cached value afterwards."""
        if name not in self.facts:
            self.facts[name] = read()
        return self.facts[name]

    def count(self, checked: int, total: int, unit: str) -> None:
        """Say what the rule looked at: `checked 480 of 500 demos`."""
        self.counted = Denominator(checked, total, unit)


Rule = Callable[[Subject], Iterable[Finding]]


@dataclass(frozen=True, slots=True)
class Check:
    """A registered rule.

    Attributes:
        code: Stable kebab-case code; also the Dagster check's name with `_` for `-`.
        stage: The stage it looks at.
        title: One line for people.
        rule: The function.
        blocking: An ERROR stops what is downstream.
        needs: Context keys without which the rule does not apply and is skipped.
    """

    code: str
    stage: str
    title: str
    rule: Rule
    blocking: bool = True
    needs: tuple[str, ...] = ()


@dataclass(slots=True)
class CheckResult:
    """What one check found.

    Attributes:
        code: The check's code.
        title: Its line for people.
        blocking: As registered.
        findings: What it found, capped and counted.
        counted: What it looked at; None when the rule counts nothing.
        measures: Its numbers.
    """

    code: str
    title: str
    blocking: bool
    findings: Findings = field(default_factory=Findings)
    counted: Denominator | None = None
    measures: dict[str, float] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """No ERROR."""
        return self.findings.count(Severity.ERROR) == 0

    def to_json(self) -> dict[str, Any]:
        """Plain form; `from_json` reads it back."""
        counted = self.counted and [self.counted.checked, self.counted.total, self.counted.unit]
        return {
            "code": self.code,
            "title": self.title,
            "blocking": self.blocking,
            "counted": counted,
            "measures": self.measures,
            **self.findings.to_json(),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> CheckResult:
        """The result that `to_json` wrote."""
        counted = value["counted"] and Denominator(*value["counted"])
        return cls(
            code=value["code"],
            title=value["title"],
            blocking=value["blocking"],
            findings=Findings.from_json(value),
            counted=counted or None,
            measures=dict(value["measures"]),
        )


@dataclass(slots=True)
class CheckReport:
    """All results of one subject.

    Attributes:
        stage: The stage.
        path: The file or folder, as given.
        results: One per check that ran.
        skipped: Code → why it did not apply.
    """

    stage: str
    path: str
    results: list[CheckResult] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Every check passed, and at least one ran."""
        return bool(self.results) and all(r.passed for r in self.results)

    @property
    def blocked(self) -> bool:
        """A blocking check failed."""
        return any(r.blocking and not r.passed for r in self.results)

    def fails(self, threshold: Severity) -> bool:
        """A finding of this severity or worse exists, or nothing ran."""
        worst = [w for r in self.results if (w := r.findings.worst()) is not None]
        return not self.results or any(at_least(w, threshold) for w in worst)

    def findings(self) -> Iterator[Finding]:
        """All kept findings in order."""
        for result in self.results:
            yield from result.findings

    def to_json(self) -> dict[str, Any]:
        """Plain form; `from_json` reads it back."""
        return {
            "stage": self.stage,
            "path": Path(self.path).name,
            "passed": self.passed,
            "results": [r.to_json() for r in self.results],
            "skipped": self.skipped,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> CheckReport:
        """The report that `to_json` wrote."""
        results = [CheckResult.from_json(r) for r in value["results"]]
        return cls(value["stage"], value["path"], results, dict(value["skipped"]))


def merged(reports: Sequence[CheckReport]) -> CheckReport:
    """One report of several outputs of a stage: results of one code become one.

    Counts add up; of a measure named `worst_…` the largest counts, of others the sum.
    """
    out = CheckReport(reports[0].stage, reports[0].path)
    by_code: dict[str, CheckResult] = {}
    for report in reports:
        out.skipped.update(report.skipped)
        for result in report.results:
            if result.code not in by_code:
                by_code[result.code] = CheckResult(result.code, result.title, result.blocking)
                out.results.append(by_code[result.code])
            _absorb(by_code[result.code], result)
    return out


def _absorb(into: CheckResult, other: CheckResult) -> None:
    into.findings.merge(other.findings)
    if other.counted is not None:
        old = into.counted or Denominator(0, 0, other.counted.unit)
        total = old.total + other.counted.total
        into.counted = Denominator(old.checked + other.counted.checked, total, other.counted.unit)
    for name, value in other.measures.items():
        old_value = into.measures.get(name)
        worst = name.startswith("worst")
        into.measures[name] = (
            value if old_value is None else max(value, old_value) if worst else old_value + value
        )


def check(
    code: str, *, stage: str, title: str, blocking: bool = True, needs: Sequence[str] = ()
) -> Callable[[Rule], Rule]:
    """Decorator: register a rule for a stage.

    Args:
        code: Stable kebab-case code.
        stage: `raw`, `demos`, `store` or `lerobot`.
        title: One line for people.
        blocking: An ERROR stops what is downstream.
        needs: Context keys the rule needs; without them it is skipped and said so.
    """

    def wrap(rule: Rule) -> Rule:
        _REGISTRY[(stage, code)] = Check(code, stage, title, rule, blocking, tuple(needs))
        return rule

    return wrap


def checks_of(stage: str) -> list[Check]:
    """All checks of a stage in order of registration; built-in ones first, then installed packages'."""
    for module in _BUILT_IN.get(stage, ()):
        importlib.import_module(module)
    _load_installed()
    return [c for (s, _), c in _REGISTRY.items() if s == stage]


@cache
def _load_installed() -> None:
    """Import the installed packages' checks, once per process: reading metadata is slow."""
    for point in entry_points(group=ENTRY_POINTS):
        point.load()


def run_checks(
    stage: str,
    path: Path,
    *,
    context: Mapping[str, Any] | None = None,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
) -> CheckReport:
    """Run the checks of a stage on a file or folder.

    Args:
        stage: `raw`, `demos`, `store` or `lerobot`.
        path: The file or folder.
        context: Declared facts for the rules.
        select: Codes or patterns (`quaternion-*`) to run; empty = all.
        ignore: Codes or patterns to leave out.

    Returns:
        The report; a rule that raises counts as an ERROR finding of its own code.
    """
    context = dict(context or {})
    report, facts = CheckReport(stage, str(path)), dict[str, Any]()
    for one in checks_of(stage):
        if (select and not _matches(one.code, select)) or _matches(one.code, ignore):
            continue
        missing = [need for need in one.needs if need not in context]
        if missing:
            report.skipped[one.code] = f"needs {', '.join(missing)}"
            continue
        report.results.append(_run_one(one, Subject(stage, path, context, facts)))
    return report


def _matches(code: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(code, p) for p in patterns)


def _run_one(one: Check, subject: Subject) -> CheckResult:
    result = CheckResult(one.code, one.title, one.blocking)
    try:
        result.findings.extend(one.rule(subject))
    except Exception as error:  # noqa: BLE001 — hostile data may raise anything; it becomes an ERROR finding
        result.findings.add(_finding_of(one, subject, error))
    result.counted, result.measures = subject.counted, subject.measures
    counted = subject.counted
    if counted is not None and counted.checked == 0:
        message = "the check compared nothing, which is never a pass"
        place = Place(file=subject.path.name)
        result.findings.add(Finding(one.code, Severity.ERROR, message, place, got=str(counted)))
    return result


def _finding_of(one: Check, subject: Subject, error: Exception) -> Finding:
    """A rule that could not run is an ERROR that says why; unreadable input keeps its own words."""
    kind = "could not be read" if isinstance(error, (OSError, UnreadableError)) else "broke a rule"
    if not isinstance(error, (InputError, UnreadableError)):
        kind = f"{kind} ({type(error).__name__})"
    return Finding(one.code, Severity.ERROR, f"the subject {kind}: {error}", Place(file=subject.path.name))
