"""The gate's JSON, JUnit XML and SARIF: every outcome in its place, hostile names included."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from trajpipe.core.findings import Finding, Findings, Place, Severity
from trajpipe.core.names import Stage
from trajpipe.pipeline.gate_formats import FORMATS, to_json, to_junit, to_sarif
from trajpipe.pipeline.gate_outcomes import GateReport, Outcome, RunFailure, State, said

HOSTILE = 'day <1> & "2"\x00\x1b[31m\udcff'

WAIVER = "team:data until 2026-06-30: old"


def outcome(code: str, state: State, **more: Any) -> Outcome:
    """An outcome of one recording's L2 file."""
    given: dict[str, Any] = {
        "dataset": "lift",
        "stage": Stage.DEMOS,
        "key": "day1",
        "path": "demos/scripted_lift.hdf5",
    }
    return Outcome(code=code, state=state, title=f"About {code}", **(given | more))


def many_findings() -> Findings:
    """Five alike: three are kept."""
    found = Findings()
    for row in range(5):
        place = Place("a.hdf5", "demo_0", "actions", row)
        found.add(Finding("nan-action", Severity.ERROR, "a NaN", place, got="nan", expected="finite"))
    return found


@pytest.fixture
def report() -> GateReport:
    """One outcome in every state, a failed run and a note."""
    return GateReport(
        [
            outcome("good", State.PASSED, findings=said("good", "repaired", Place(), Severity.INFO)),
            outcome("nan-action", State.FAILED, findings=many_findings()),
            outcome("dull", State.WARNED, findings=said("dull", "so dull", Place(), Severity.WARN)),
            outcome("rest", State.NOT_REACHED, why="the stage failed"),
            outcome("idle", State.SKIPPED, why="does not apply: needs l2"),
            outcome("lost", State.NEVER_RAN, why="it has no result", stage=Stage.STORE, key=""),
            outcome("known", State.FAILED, waiver=WAIVER, findings=many_findings()),
        ],
        failures=[RunFailure("lift/lerobot", "no space")],
        notes=["expired waiver of x"],
        seconds=1.5,
    )


def test_json_holds_everything(report: GateReport) -> None:
    value = json.loads(to_json(report))
    assert (value["code"], value["fail_on"], value["seconds"]) == (2, "error", 1.5)
    states = [(o["check"], o["state"]) for o in value["outcomes"]]
    assert states == [(o.code, o.state.value) for o in report.outcomes]
    assert value["counts"] == {
        "passed": 1,
        "warned": 1,
        "failed": 1,
        "skipped": 1,
        "not-reached": 1,
        "never-ran": 1,
        "waived": 1,
    }
    assert value["outcomes"][1]["findings"][0]["place"] == {
        "file": "a.hdf5",
        "demo": "demo_0",
        "column": "actions",
        "row": 0,
    }
    assert value["failures"] == [{"unit": "lift/lerobot", "message": "no space"}]
    assert value["notes"] == ["expired waiver of x"]


def test_junit_has_a_suite_for_each_output_and_a_case_for_each_check(report: GateReport) -> None:
    root = ET.fromstring(to_junit(report))
    assert [(s.get("name"), s.get("tests")) for s in root] == [
        ("lift/demos/day1", "6"),
        ("lift/store", "1"),
        ("runs", "1"),
    ]
    kinds = {
        str(case.get("name")): [child.tag for child in case]
        for case in root.iter("testcase")
        if case.get("classname") != "runs"
    }
    assert kinds == {
        "good": [],
        "nan-action": ["failure"],
        "dull": ["system-out"],
        "rest": ["skipped"],
        "idle": ["skipped"],
        "known": ["skipped"],
        "lost": ["error"],
    }
    failure = root.find(".//failure")
    assert failure is not None
    assert failure.get("message") == (
        "ERROR nan-action a.hdf5 · demo_0 · actions · row 0: a NaN; got nan; expected finite"
    )
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("8", "1", "2")
    (suite, *_) = root
    assert suite.get("skipped") == "3"


def test_junit_counts_warnings_as_failures_when_they_fail(report: GateReport) -> None:
    report.fail_on = Severity.WARN
    root = ET.fromstring(to_junit(report))
    assert {case.get("name") for case in root.iter("testcase") if case.find("failure") is not None} == {
        "nan-action",
        "dull",
    }


def test_sarif_has_a_result_for_each_finding_with_its_place(report: GateReport) -> None:
    value = json.loads(to_sarif(report))
    assert value["version"] == "2.1.0"
    (run,) = value["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [r["id"] for r in rules] == sorted(o.code for o in report.outcomes)
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in {"error", "warning", "note"}
        location = result["locations"][0]["physicalLocation"]["artifactLocation"]
        assert location == {"uri": "demos/scripted_lift.hdf5", "uriBaseId": "DATA"}
    told = [(r["ruleId"], r["level"]) for r in run["results"] if "suppressions" not in r]
    assert told == [
        *[("nan-action", "error")] * 3,
        ("nan-action", "note"),
        ("dull", "warning"),
        ("lost", "error"),
    ]
    first = run["results"][0]
    assert first["locations"][0]["logicalLocations"] == [{"fullyQualifiedName": "demo_0/actions/row 0"}]
    assert first["message"]["text"] == "lift/demos/day1: a NaN; got nan; expected finite"
    invocation = run["invocations"][0]
    assert (invocation["executionSuccessful"], invocation["exitCode"]) == (False, 2)
    notices = [(n["level"], n["message"]["text"]) for n in invocation["toolExecutionNotifications"]]
    assert notices == [("error", "lift/lerobot: no space"), ("warning", "expired waiver of x")]


def test_sarif_marks_what_is_waived_with_its_justification(report: GateReport) -> None:
    (run,) = json.loads(to_sarif(report))["runs"]
    waived = [r for r in run["results"] if r["ruleId"] == "known"]
    assert len(waived) == 4
    for result in waived:
        assert result["suppressions"] == [{"kind": "external", "status": "accepted", "justification": WAIVER}]


@pytest.mark.parametrize("form", sorted(FORMATS))
def test_hostile_names_break_no_format(form: str) -> None:
    found = said("bad", HOSTILE, Place(HOSTILE, HOSTILE))
    hostile = outcome("bad", State.FAILED, key=HOSTILE, path=f"demos/{HOSTILE}.hdf5", findings=found)
    report = GateReport([hostile], failures=[RunFailure(HOSTILE, HOSTILE)], notes=[HOSTILE])
    text = FORMATS[form](report)
    text.encode("utf-8")
    if form == "junit":
        (case, *_) = ET.fromstring(text).iter("testcase")
        assert 'day <1> & "2"' in str(case.get("file"))
    else:
        assert json.loads(text)


@pytest.mark.parametrize("form", sorted(FORMATS))
def test_an_empty_report_is_valid_too(form: str) -> None:
    text = FORMATS[form](GateReport())
    assert ET.fromstring(text).get("tests") == "0" if form == "junit" else json.loads(text)
