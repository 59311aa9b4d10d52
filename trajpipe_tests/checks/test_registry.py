"""Tests of the registry and runner of checks.

What is not here: the rules of any stage.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from trajpipe.checks import CheckReport, Subject, check, checks_of, registry, run_checks
from trajpipe.core.errors import InputError, UnreadableError
from trajpipe.core.findings import Finding, Place, Severity

STAGE = "toy"


@pytest.fixture(autouse=True)
def empty_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Only what the test itself registers; installed packages are looked for anew before and after."""
    monkeypatch.setattr(registry, "_REGISTRY", {})
    monkeypatch.setattr(registry, "entry_points", lambda group: ())
    registry._load_installed.cache_clear()
    yield
    registry._load_installed.cache_clear()


def finding(severity: Severity = Severity.ERROR, code: str = "broken", column: str | None = None) -> Finding:
    """A finding with a place."""
    return Finding(code, severity, "it is broken", Place("x.h5", column=column))


def passes(code: str, *, blocking: bool = True, needs: Iterable[str] = ()) -> None:
    """Register a rule that finds nothing in two things."""

    @check(code, stage=STAGE, title=f"{code} holds", blocking=blocking, needs=tuple(needs))
    def rule(subject: Subject) -> Iterator[Finding]:
        subject.count(2, 2, "things")
        yield from ()


def fails(code: str, *findings: Finding, blocking: bool = True) -> None:
    """Register a rule that finds these."""

    @check(code, stage=STAGE, title=f"{code} holds", blocking=blocking)
    def rule(subject: Subject) -> Iterable[Finding]:
        return findings


def raises(code: str, error: Exception, *before: Finding) -> None:
    """Register a rule that finds some and then breaks down."""

    @check(code, stage=STAGE, title=f"{code} holds")
    def rule(subject: Subject) -> Iterator[Finding]:
        yield from before
        raise error


def run(path: str = "/data/x.h5", **options: Any) -> CheckReport:
    """Run the toy stage's checks."""
    return run_checks(STAGE, Path(path), **options)


def test_checks_run_in_order_of_registration() -> None:
    passes("b")
    passes("a")
    assert [c.code for c in checks_of(STAGE)] == ["b", "a"]
    assert [r.code for r in run().results] == ["b", "a"]


def test_a_report_passes_when_every_check_passes() -> None:
    passes("a")
    report = run()
    assert report.passed
    assert not report.blocked
    assert str(report.results[0].counted) == "checked 2 of 2 things"


def test_nothing_that_ran_is_never_a_pass() -> None:
    report = run()
    assert not report.passed
    assert report.fails(Severity.ERROR)


def test_an_error_fails_and_a_blocking_one_blocks() -> None:
    passes("a")
    fails("b", finding(), blocking=False)
    assert not run().passed
    assert not run().blocked
    fails("c", finding())
    assert run().blocked


@pytest.mark.parametrize(
    ("severity", "passed", "fails_on_warn", "fails_on_error"),
    [
        (Severity.INFO, True, False, False),
        (Severity.WARN, True, True, False),
        (Severity.ERROR, False, True, True),
    ],
)
def test_severities_decide(
    severity: Severity, *, passed: bool, fails_on_warn: bool, fails_on_error: bool
) -> None:
    fails("a", finding(severity))
    report = run()
    assert report.passed is passed
    assert report.fails(Severity.WARN) is fails_on_warn
    assert report.fails(Severity.ERROR) is fails_on_error


def test_a_rule_that_compared_nothing_fails() -> None:
    @check("a", stage=STAGE, title="a holds")
    def rule(subject: Subject) -> Iterable[Finding]:
        subject.count(0, 5, "demos")
        return ()

    report = run()
    assert not report.passed
    assert [str(f) for f in report.findings()] == [
        "ERROR a x.h5: the check compared nothing, which is never a pass; got checked 0 of 5 demos"
    ]


def test_zero_of_zero_compared_nothing_as_well() -> None:
    @check("a", stage=STAGE, title="a holds")
    def rule(subject: Subject) -> Iterable[Finding]:
        subject.count(0, 0, "cameras")
        return ()

    assert not run().passed


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (UnreadableError("the file is truncated"), "the subject could not be read: the file is truncated"),
        (InputError("no demos"), "the subject broke a rule: no demos"),
        (OSError("disk"), "the subject could not be read (OSError): disk"),
        (IndexError("hostile"), "the subject broke a rule (IndexError): hostile"),
        (ZeroDivisionError("hostile"), "the subject broke a rule (ZeroDivisionError): hostile"),
        (AssertionError("hostile"), "the subject broke a rule (AssertionError): hostile"),
    ],
)
def test_a_rule_that_raises_is_an_error_finding_of_its_code(error: Exception, said: str) -> None:
    raises("a", error)
    passes("b")
    report = run()
    assert [(f.code, f.severity, f.message) for f in report.findings()] == [("a", Severity.ERROR, said)]
    assert [r.passed for r in report.results] == [False, True]


def test_what_a_rule_found_before_it_broke_down_is_kept() -> None:
    raises("a", InputError("gone"), finding(Severity.WARN))
    assert [f.severity for f in run().findings()] == [Severity.WARN, Severity.ERROR]


def test_an_interrupt_is_not_a_finding() -> None:
    @check("a", stage=STAGE, title="a holds")
    def rule(subject: Subject) -> Iterable[Finding]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()


def test_select_and_ignore_take_patterns() -> None:
    for code in ("quaternion-order", "quaternion-norm", "total"):
        passes(code)
    assert [r.code for r in run(select=["quaternion-*"]).results] == ["quaternion-order", "quaternion-norm"]
    assert [r.code for r in run(ignore=["*-norm", "total"]).results] == ["quaternion-order"]
    assert [r.code for r in run(select=["total"], ignore=["t*"]).results] == []


def test_a_rule_without_its_context_is_skipped_and_says_what_it_needs() -> None:
    passes("a", needs=["fps", "inputs"])
    report = run(context={"fps": 30})
    assert report.skipped == {"a": "needs inputs"}
    assert report.results == []
    assert run(context={"fps": 30, "inputs": []}).passed


def test_facts_are_read_once_and_shared_and_counts_are_not() -> None:
    reads = []

    def read() -> int:
        reads.append(1)
        return 7

    @check("a", stage=STAGE, title="a holds")
    def first(subject: Subject) -> Iterable[Finding]:
        subject.count(subject.fact("rows", read), 7, "rows")
        subject.measures["worst"] = 0.5
        return ()

    @check("b", stage=STAGE, title="b holds")
    def second(subject: Subject) -> Iterable[Finding]:
        assert subject.fact("rows", read) == 7
        return ()

    one, two = run().results
    assert reads == [1]
    assert (one.measures, two.measures) == ({"worst": 0.5}, {})
    assert (str(one.counted), two.counted) == ("checked 7 of 7 rows", None)


def test_a_second_rule_of_one_code_replaces_the_first() -> None:
    fails("a", finding())
    passes("a")
    assert run().passed


def test_one_code_may_live_in_two_stages() -> None:
    @check("a", stage="other", title="a holds elsewhere")
    def rule(subject: Subject) -> Iterable[Finding]:
        return ()

    passes("a")
    assert [c.title for c in checks_of(STAGE)] == ["a holds"]


def test_a_report_survives_json_but_for_the_folder_s_path() -> None:
    passes("a", blocking=False)
    fails("b", *[finding(column="actions") for _ in range(9)])
    passes("c", needs=["fps"])
    report = run("/home/somebody/x.h5")
    value = json.loads(json.dumps(report.to_json()))
    assert "somebody" not in json.dumps(value)
    back = CheckReport.from_json(value)
    assert back.path == "x.h5"
    assert back.results == report.results
    assert back.skipped == report.skipped
    assert (back.passed, back.blocked) == (report.passed, report.blocked)
    assert back.results[1].findings.count(Severity.ERROR) == 9


def test_installed_packages_checks_are_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = []

    class Point:
        """An entry point whose loading registers a check."""

        def load(self) -> None:
            loaded.append(self)
            passes("from-elsewhere")

    points = [Point()]
    monkeypatch.setattr(registry, "entry_points", lambda group: points if group == "trajpipe.checks" else [])
    assert [c.code for c in checks_of(STAGE)] == ["from-elsewhere"]
    assert [c.code for c in checks_of(STAGE)] == ["from-elsewhere"]
    assert loaded == points
