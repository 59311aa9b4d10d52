"""Asset checks: one spec per registered rule of a stage, and the results of a check report.

The rules are those of the registry; a stage's asset and its checks are one op, so that thirty rules cost
one step, and a stage that fails still shows which rule failed. What is not here: the rules.
"""

import warnings
from collections.abc import Iterator, Set
from typing import Final

import dagster as dg

from trajpipe.checks.registry import CheckReport, CheckResult, checks_of
from trajpipe.core.findings import Findings, Severity
from trajpipe.core.names import Stage
from trajpipe.defs.metadata import findings_table
from trajpipe.pipeline.results import StageResult, Status

BUILDS: Final = "stage_builds"
NOTICED: Final = "source_findings"
_OWN: Final = (
    (BUILDS, True, "The stage ran to its end."),
    (NOTICED, False, "What was repaired or noticed while reading."),
)


def check_name(code: str) -> str:
    """The Dagster name of a rule's code."""
    return code.replace("-", "_")


def check_specs(
    key: dg.AssetKey, stage: Stage, partitions: dg.PartitionsDefinition | None = None
) -> list[dg.AssetCheckSpec]:
    """One spec per rule of the stage, and the two of our own.

    Args:
        key: The stage's asset.
        stage: The stage.
        partitions: The asset's partitions: without them a later pass would hide a failed partition.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.PreviewWarning)  # partitioned checks; the version is pinned
        return [
            dg.AssetCheckSpec(
                name, asset=key, blocking=blocking, description=title, partitions_def=partitions
            )
            for name, blocking, title in _checks(stage)
        ]


def blocking_checks(stage: Stage) -> set[str]:
    """Names of a stage's checks of which a failure stops what is downstream."""
    return {name for name, blocking, _ in _checks(stage) if blocking}


def _checks(stage: Stage) -> list[tuple[str, bool, str]]:
    """(name, blocking, title) of each check of a stage: our own two and its rules."""
    return [*_OWN, *((check_name(rule.code), rule.blocking, rule.title) for rule in checks_of(stage))]


def results_of_stage(
    key: dg.AssetKey, result: StageResult, selected: Set[str]
) -> Iterator[dg.AssetCheckResult]:
    """The results of a stage that ran: its report's, and our own two.

    A rule that does not apply passes and says so; one that was not reached, since the stage failed before,
    gives no result.

    Args:
        key: The stage's asset.
        result: What the stage returned.
        selected: Names of the checks to report.
    """
    known = {check_name(rule.code) for rule in checks_of(result.stage)} | {NOTICED}
    own = [one for one in result.checks.results if check_name(one.code) not in known]
    findings = Findings()
    for one in own:
        findings.merge(one.findings)
    broken = result.status is Status.BLOCKED or findings.count(Severity.ERROR) > 0
    if BUILDS in selected:
        text = result.error if broken else f"{result.status.value} in {result.seconds:.1f} s"
        yield _result(key, CheckResult(BUILDS, "", True, findings), text, failed=broken)
    if NOTICED in selected and not broken:
        noticed = next((r for r in result.checks.results if check_name(r.code) == NOTICED), None)
        yield _result(key, noticed or CheckResult(NOTICED, "", False))
    yield from results_of_report(key, result.checks, selected - {BUILDS, NOTICED})


def results_of_report(
    key: dg.AssetKey, report: CheckReport, selected: Set[str]
) -> Iterator[dg.AssetCheckResult]:
    """The results of a report's rules; a rule that does not apply passes and says why."""
    for one in report.results:
        if check_name(one.code) in selected - {BUILDS, NOTICED}:
            yield _result(key, one)
    for code, why in report.skipped.items():
        if check_name(code) in selected:
            yield dg.AssetCheckResult(
                passed=True, asset_key=key, check_name=check_name(code), description=f"does not apply: {why}"
            )


def _result(
    key: dg.AssetKey, result: CheckResult, text: str | None = None, *, failed: bool = False
) -> dg.AssetCheckResult:
    """ERROR findings fail with severity ERROR, WARN findings with severity WARN; INFO passes."""
    errors, warned = result.findings.count(Severity.ERROR), result.findings.count(Severity.WARN)
    metadata: dict[str, dg.MetadataValue] = {
        "errors": dg.MetadataValue.int(errors),
        "warnings": dg.MetadataValue.int(warned),
    }
    if result.counted is not None:
        metadata["checked"] = dg.MetadataValue.int(result.counted.checked)
        metadata["of"] = dg.MetadataValue.int(result.counted.total)
        metadata["unit"] = dg.MetadataValue.text(result.counted.unit)
    metadata |= {name: dg.MetadataValue.float(float(value)) for name, value in result.measures.items()}
    if len(result.findings):
        metadata["findings"] = findings_table(result.findings)
    severe = failed or errors > 0
    return dg.AssetCheckResult(
        passed=not severe and warned == 0,
        asset_key=key,
        check_name=check_name(result.code),
        severity=dg.AssetCheckSeverity.ERROR if severe else dg.AssetCheckSeverity.WARN,
        description=text or _summary(result),
        metadata=metadata,
    )


def _summary(result: CheckResult) -> str:
    worst = result.findings.worst()
    first = next((str(f) for f in result.findings if f.severity is worst), "")
    parts = [first, str(result.counted) if result.counted is not None else ""]
    more = len(result.findings) - 1
    return " · ".join([p for p in parts if p] + ([f"and {more} more"] if more > 0 else []))
