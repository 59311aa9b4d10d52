"""From findings to asset check results, and the tables beside them.

What is not here: runs.
"""

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from trajpipe.checks.registry import CheckReport, CheckResult, checks_of
from trajpipe.core.findings import Denominator, Finding, Findings, Place, Severity
from trajpipe.core.ledger import Ledger, LedgerEntry, Rejection
from trajpipe.core.names import Stage
from trajpipe.defs.checks import check_name, results_of_report, results_of_stage
from trajpipe.defs.metadata import (
    MAX_ROWS,
    failure_metadata,
    findings_table,
    ledger_table,
    rejected_table,
    stage_metadata,
)
from trajpipe.pipeline.results import StageResult, Status

KEY = dg.AssetKey(["lift", "demos"])
RULE = checks_of(Stage.DEMOS)[0]


def _finding(severity: Severity, code: str = RULE.code, row: int | None = None) -> Finding:
    return Finding(code, severity, "it is so", Place("a.hdf5", "demo_1", "actions", row), "1", "2")


def _check(*severities: Severity, counted: Denominator | None = None, **measures: float) -> CheckResult:
    result = CheckResult(RULE.code, RULE.title, RULE.blocking, counted=counted, measures=measures)
    result.findings.extend(_finding(severity) for severity in severities)
    return result


def _one(result: CheckResult) -> dg.AssetCheckResult:
    report = CheckReport(Stage.DEMOS, "a.hdf5", [result])
    (found,) = results_of_report(KEY, report, {check_name(result.code)})
    return found


def _stage(status: Status, *results: CheckResult, **more: Any) -> StageResult:
    report = CheckReport(Stage.DEMOS, "a.hdf5", list(results))
    return StageResult("lift", Stage.DEMOS, "a", Path("a.hdf5"), status, checks=report, **more)


def _rows(table: dg.TableMetadataValue) -> list[dict[str, Any]]:
    return [dict(record.data) for record in table.records]


@pytest.mark.parametrize(
    ("severities", "passed", "severity"),
    [
        ((), True, dg.AssetCheckSeverity.WARN),
        ((Severity.INFO,), True, dg.AssetCheckSeverity.WARN),
        ((Severity.INFO, Severity.WARN), False, dg.AssetCheckSeverity.WARN),
        ((Severity.WARN, Severity.ERROR), False, dg.AssetCheckSeverity.ERROR),
    ],
)
def test_error_fails_warn_warns_info_passes(
    severities: tuple[Severity, ...], passed: bool, severity: dg.AssetCheckSeverity
) -> None:
    result = _one(_check(*severities))
    assert (result.passed, result.severity) == (passed, severity)


def test_a_result_tells_what_it_looked_at_and_measured() -> None:
    result = _one(_check(counted=Denominator(480, 500, "demos"), worst_ulp=3.0))
    assert result.description == "checked 480 of 500 demos"
    values = {name: value.value for name, value in result.metadata.items()}
    assert values == {
        "errors": 0,
        "warnings": 0,
        "checked": 480,
        "of": 500,
        "unit": "demos",
        "worst_ulp": 3.0,
    }


def test_a_result_describes_its_worst_finding_and_counts_the_rest() -> None:
    result = _one(_check(Severity.WARN, Severity.ERROR, Severity.ERROR, counted=Denominator(2, 2, "demos")))
    text = f"ERROR {RULE.code} a.hdf5 · demo_1 · actions: it is so; got 1; expected 2"
    assert result.description == f"{text} · checked 2 of 2 demos · and 2 more"


def test_a_rule_that_does_not_apply_passes_and_says_why() -> None:
    report = CheckReport(Stage.DEMOS, "a.hdf5", skipped={"needs-more": "needs filters"})
    (result,) = results_of_report(KEY, report, {"needs_more"})
    assert (result.passed, result.description) == (True, "does not apply: needs filters")


def test_only_selected_checks_are_reported() -> None:
    report = CheckReport(Stage.DEMOS, "a.hdf5", [_check()], skipped={"needs-more": "x"})
    assert list(results_of_report(KEY, report, set())) == []


def test_a_stage_that_raised_reports_its_own_check_alone() -> None:
    broken = CheckResult("unreadable", "The stage can be built", True)
    broken.findings.add(_finding(Severity.ERROR, "unreadable"))
    result = _stage(Status.FAILED, broken, error="cannot be opened")
    selected = {"stage_builds", "source_findings", check_name(RULE.code)}
    (found,) = results_of_stage(KEY, result, selected)
    assert (found.check_name, found.passed, found.severity) == (
        "stage_builds",
        False,
        dg.AssetCheckSeverity.ERROR,
    )
    assert found.description == "cannot be opened"
    findings = found.metadata["findings"]
    assert isinstance(findings, dg.TableMetadataValue)
    assert [row["code"] for row in _rows(findings)] == ["unreadable"]


def test_a_stage_stopped_by_a_rule_was_built_and_shows_the_rule() -> None:
    result = _stage(Status.FAILED, _check(Severity.ERROR), error="a blocking check failed")
    selected = {"stage_builds", "source_findings", check_name(RULE.code)}
    found = {one.check_name: one.passed for one in results_of_stage(KEY, result, selected)}
    assert found == {"stage_builds": True, "source_findings": True, check_name(RULE.code): False}


def test_a_blocked_stage_is_red() -> None:
    result = _stage(Status.BLOCKED, error="there is no store yet")
    (found,) = results_of_stage(KEY, result, {"stage_builds", "source_findings"})
    assert (found.check_name, found.passed, found.description) == (
        "stage_builds",
        False,
        "there is no store yet",
    )


def test_repairs_are_a_check_of_their_own() -> None:
    repairs = CheckResult("source-findings", "Repairs", False)
    repairs.findings.add(_finding(Severity.INFO, "total-wrong"))
    found = {
        one.check_name: one
        for one in results_of_stage(KEY, _stage(Status.BUILT, repairs), {"source_findings", "stage_builds"})
    }
    assert found["source_findings"].passed
    assert "total-wrong" in str(found["source_findings"].description)
    assert str(found["stage_builds"].description).startswith("built in ")


def test_findings_are_listed_and_the_capped_ones_counted() -> None:
    findings = Findings()
    findings.extend(_finding(Severity.ERROR, "nan-action", row) for row in range(5))
    rows = _rows(findings_table(findings))
    assert rows[0] == {
        "severity": "error",
        "code": "nan-action",
        "place": "a.hdf5 · demo_1 · actions · row 0",
        "message": "it is so",
        "got": "1",
        "expected": "2",
    }
    assert (len(rows), rows[3]["message"]) == (4, "and 2 more like these")


def test_tables_hold_fifty_rows_at_most_and_short_texts() -> None:
    rejected = tuple(Rejection("a.hdf5", f"demo_{i}", "too-short", "x" * 1000) for i in range(80))
    ledger = Ledger([LedgerEntry("a.hdf5", "demos", 80, 0, rejected)])
    rows = _rows(rejected_table(ledger))
    assert len(rows) == MAX_ROWS
    assert len(rows[0]["detail"]) == 300
    assert rows[0]["detail"].endswith("…")


def test_the_ledger_names_each_recordings_reasons_once() -> None:
    rejected = tuple(Rejection("a.hdf5", f"demo_{i}", reason) for i, reason in enumerate(["b", "a", "b"]))
    ledger = Ledger([LedgerEntry("a.hdf5", "demos", 5, 2, rejected), LedgerEntry("b.hdf5", "demos", 1, 1)])
    assert _rows(ledger_table(ledger)) == [
        {"recording": "a.hdf5", "read": 5, "written": 2, "rejected": 3, "reasons": "a, b"},
        {"recording": "b.hdf5", "read": 1, "written": 1, "rejected": 0, "reasons": ""},
    ]


def test_metadata_leaves_out_what_is_empty(tmp_path: Path) -> None:
    result = StageResult("lift", Stage.DEMOS, "a", tmp_path / "absent.hdf5", Status.BUILT, facts={"rows": 7})
    metadata = stage_metadata(result)
    assert metadata["dagster/row_count"] == 7
    assert not {"rejected", "failed recordings", "rows", "dagster/column_schema"} & metadata.keys()


def test_a_failures_metadata_lists_findings_of_all_checks() -> None:
    result = _stage(Status.FAILED, _check(Severity.ERROR), _check(Severity.WARN))
    table = failure_metadata(result)["findings"]
    assert [row["severity"] for row in _rows(table)] == ["error", "warn"]
