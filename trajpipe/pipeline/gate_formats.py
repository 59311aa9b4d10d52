"""A gate's report for other tools: JSON, JUnit XML, SARIF 2.1.0.

What is not here: its text for people, see `trajpipe.cli.verbs.gate`.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import quote

from trajpipe import __version__
from trajpipe.core import jsontext
from trajpipe.core.findings import Finding, Severity
from trajpipe.pipeline.gate_outcomes import GateReport, Outcome, State

SARIF_VERSION: Final = "2.1.0"
SARIF_SCHEMA: Final = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LEVELS: Final = {Severity.ERROR: "error", Severity.WARN: "warning", Severity.INFO: "note"}


def to_json(report: GateReport) -> str:
    """One JSON document."""
    return jsontext.dumps(report.to_json(), indent=2, sort_keys=False) + "\n"


def to_junit(report: GateReport) -> str:
    """JUnit XML: a suite for each output, a case for each check.

    A failed check is a `failure`, one that never ran and a run that failed are an `error`; waived,
    skipped and not reached ones are `skipped` with the reason.
    """
    root = ET.Element("testsuites", name="trajpipe gate", time=f"{report.seconds:.3f}")
    units = list(dict.fromkeys(o.unit for o in report.outcomes))
    for unit in units:
        _suite(root, unit, [o for o in report.outcomes if o.unit == unit], report)
    if report.failures:
        suite = ET.SubElement(root, "testsuite", name="runs")
        for failure in report.failures:
            case = ET.SubElement(suite, "testcase", classname="runs", name=_xml(failure.unit))
            ET.SubElement(case, "error", message=_xml(failure.message))
        _count(suite)
    _count(root)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(root: ET.Element, unit: str, outcomes: list[Outcome], report: GateReport) -> None:
    suite = ET.SubElement(root, "testsuite", name=_xml(unit))
    for outcome in outcomes:
        case = ET.SubElement(
            suite,
            "testcase",
            classname=_xml(unit.replace("/", ".")),
            name=outcome.code,
            file=_xml(outcome.path),
        )
        text = _xml("\n".join(str(f) for f in outcome.findings) or outcome.why)
        if outcome.waiver is not None:
            ET.SubElement(case, "skipped", message=_xml(f"waived by {outcome.waiver}"))
        elif report.fails(outcome):
            ET.SubElement(case, "failure", message=_xml(_headline(outcome)), type=outcome.code).text = text
        elif outcome.state is State.NEVER_RAN:
            ET.SubElement(case, "error", message=_xml(f"never ran: {outcome.why}"), type="never-ran")
        elif outcome.state in (State.SKIPPED, State.NOT_REACHED):
            ET.SubElement(case, "skipped", message=_xml(outcome.why))
        elif outcome.state is State.WARNED:
            ET.SubElement(case, "system-out").text = text
    _count(suite)


def _count(element: ET.Element) -> None:
    element.set("tests", str(len(element.findall(".//testcase"))))
    element.set("failures", str(len(element.findall(".//failure"))))
    element.set("errors", str(len(element.findall(".//error"))))
    if element.tag == "testsuite":
        element.set("skipped", str(len(element.findall(".//skipped"))))


def _headline(outcome: Outcome) -> str:
    return next((str(f) for f in outcome.findings if f.severity is not Severity.INFO), outcome.title)


def _xml(text: str) -> str:
    """Text without the characters that XML 1.0 cannot hold: file names may have any."""
    return _NOT_XML.sub("�", text)


def to_sarif(report: GateReport) -> str:
    """SARIF 2.1.0: a result for each finding of ERROR or WARN and each check that never ran.

    Paths are relative to the data folder; a waived result carries a suppression with its justification.
    """
    results = [r for o in report.outcomes for r in _results(o)]
    rules = {o.code: o.title or o.code for o in report.outcomes}
    order = sorted(rules)
    for result in results:
        result["ruleIndex"] = order.index(result["ruleId"])
    notices = [
        *({"level": "error", "message": {"text": f"{f.unit}: {f.message}"}} for f in report.failures),
        *({"level": "warning", "message": {"text": note}} for note in report.notes),
    ]
    run = {
        "tool": {
            "driver": {
                "name": "trajpipe",
                "version": __version__,
                "rules": [{"id": c, "shortDescription": {"text": rules[c]}} for c in order],
            }
        },
        "originalUriBaseIds": {"DATA": {"description": {"text": "The data folder."}}},
        "invocations": [
            {
                "executionSuccessful": not report.failures,
                "exitCode": report.code,
                "toolExecutionNotifications": notices,
            }
        ],
        "results": results,
    }
    value = {"$schema": SARIF_SCHEMA, "version": SARIF_VERSION, "runs": [run]}
    return jsontext.dumps(value, indent=2, sort_keys=False) + "\n"


def _results(outcome: Outcome) -> Iterator[dict[str, Any]]:
    for finding in outcome.findings:
        if finding.severity is not Severity.INFO:
            level = "warning" if outcome.state is State.WARNED else _LEVELS[finding.severity]
            yield _result(outcome, level, _text(finding), finding)
    more = sum(
        number for _, severity, _, number in outcome.findings.repeats() if severity is not Severity.INFO
    )
    if more:
        yield _result(outcome, "note", f"and {more} more like these", None)
    if outcome.state is State.NEVER_RAN:
        yield _result(outcome, "error", f"the check never ran: {outcome.why}", None)


def _text(finding: Finding) -> str:
    parts = [finding.message]
    parts += [f"got {finding.got}"] if finding.got is not None else []
    parts += [f"expected {finding.expected}"] if finding.expected is not None else []
    return "; ".join(parts)


def _result(outcome: Outcome, level: str, text: str, finding: Finding | None) -> dict[str, Any]:
    location: dict[str, Any] = {
        "physicalLocation": {
            "artifactLocation": {"uri": quote(outcome.path, errors="surrogateescape"), "uriBaseId": "DATA"}
        }
    }
    place = None if finding is None else finding.place
    parts = [] if place is None else [p for p in (place.demo, place.column) if p is not None]
    if place is not None and place.row is not None:
        parts.append(f"row {place.row}")
    if parts:
        location["logicalLocations"] = [{"fullyQualifiedName": "/".join(parts)}]
    result: dict[str, Any] = {
        "ruleId": outcome.code,
        "level": level,
        "message": {"text": f"{outcome.unit}: {text}"},
        "locations": [location],
    }
    if outcome.waiver is not None:
        result["suppressions"] = [{"kind": "external", "status": "accepted", "justification": outcome.waiver}]
    return result


FORMATS: Final[dict[str, Callable[[GateReport], str]]] = {
    "json": to_json,
    "junit": to_junit,
    "sarif": to_sarif,
}
SUFFIXES: Final = {".json": "json", ".xml": "junit", ".sarif": "sarif"}
