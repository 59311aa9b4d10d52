"""The gate over runs of a Dagster instance: wait for them, then hold their check events to what was planned.

What is not here: what a gate's outcomes come to, see `trajpipe.pipeline.gate_outcomes`.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import dagster as dg
from dagster import DagsterEventType

from trajpipe.checks.registry import checks_of
from trajpipe.core.errors import MissingNameError, StateError
from trajpipe.core.findings import Finding, Findings, Place, Severity
from trajpipe.core.names import Stage
from trajpipe.defs.checks import check_name
from trajpipe.defs.partitions import PARTITION_TAGS
from trajpipe.pipeline.gate import NOT_THE_DATA, GateOptions, require_known_checks
from trajpipe.pipeline.gate_outcomes import (
    BUILDS,
    BUILDS_TITLE,
    GateReport,
    Outcome,
    RunFailure,
    State,
    state_of,
)

BACKFILL_TAG: Final = "dagster/backfill"
ROOT_TAG: Final = "dagster/root_run_id"
_PAGE: Final = 1000
_ROOTS: Final = 500
_NAMED: Final = 20
_STEP_CHECKS: Final = {check_name(BUILDS)}
_Planned = tuple[str, str]  # output and code


def gate_of_run(
    run_id: str, home: Path | None, options: GateOptions, *, timeout_s: float = 3600.0, poll_s: float = 1.0
) -> GateReport:
    """The gate over a run, or over all runs of a backfill, of a shared instance.

    Args:
        run_id: Run id or backfill id.
        home: The instance's DAGSTER_HOME; the environment's when None.
        options: What is looked at; `jobs` and `build` mean nothing here.
        timeout_s: Longest wait for the runs to end, seconds.
        poll_s: Pause between two looks, seconds.

    Raises:
        StateError: there is no instance, or the runs did not end in time.
        MissingNameError: the instance knows no such run or backfill.
    """
    if home is not None and not home.is_dir():
        raise StateError("there is no Dagster instance", place=home, expected="a DAGSTER_HOME folder")
    with _instance(home) as instance:
        return gate_on(instance, run_id, options, timeout_s=timeout_s, poll_s=poll_s)


def _instance(home: Path | None) -> dg.DagsterInstance:
    if home is not None:
        return dg.DagsterInstance.from_config(str(home.absolute()))
    try:
        return dg.DagsterInstance.get()
    except dg.DagsterError as error:
        raise StateError(
            "there is no Dagster instance", got=error, hint="Name it with --dagster-home."
        ) from error


def gate_on(
    instance: dg.DagsterInstance,
    run_id: str,
    options: GateOptions,
    *,
    timeout_s: float = 3600.0,
    poll_s: float = 1.0,
) -> GateReport:
    """The gate over a run or backfill of an open instance; see `gate_of_run`.

    Of several runs that planned a check of a partition the last decides. A run that failed for another
    reason than its data counts until runs that did not have covered all that it had planned.
    """
    began = time.perf_counter()
    require_known_checks(options)
    report = GateReport(fail_on=options.fail_on)
    latest: dict[_Planned, Outcome] = {}
    failed: list[tuple[RunFailure, set[_Planned]]] = []
    for run in _ended(instance, run_id, timeout_s, poll_s):
        found = {(o.unit, o.code): o for o in _outcomes(instance, run)}
        latest |= found
        failure = _failure(instance, run, list(found.values()))
        if failure is not None:
            failed.append((failure, set(found) or {_itself(run)}))
            continue
        for _, uncovered in failed:
            uncovered -= {*found, _itself(run)}
    report.outcomes = [o for o in latest.values() if _wanted(o, options)]
    report.failures = [failure for failure, uncovered in failed if uncovered]
    report.seconds = time.perf_counter() - began
    return report


def _ended(
    instance: dg.DagsterInstance, run_id: str, timeout_s: float, poll_s: float
) -> Sequence[dg.DagsterRun]:
    """The runs, oldest first, once all have ended."""
    deadline = time.monotonic() + timeout_s
    while True:
        runs = _runs(instance, run_id)
        if runs and all(run.is_finished for run in runs):
            return runs
        if time.monotonic() >= deadline:
            states = ", ".join(sorted({run.status.value for run in runs})) or "no run yet"
            raise StateError(
                "the run did not end in time", place=run_id, got=f"{states} after {timeout_s:g} s"
            )
        time.sleep(poll_s)


def _runs(instance: dg.DagsterInstance, run_id: str) -> list[dg.DagsterRun]:
    run = instance.get_run_by_id(run_id)
    if run is not None:
        return [run]
    backfill = instance.get_backfill(run_id)
    if backfill is None:
        raise MissingNameError("the instance knows no such run or backfill", got=run_id)
    if not backfill.status.value.startswith(("COMPLETED", "FAILED", "CANCELED")):
        return []
    own = instance.get_run_records(dg.RunsFilter(tags={BACKFILL_TAG: run_id}))
    records = {r.dagster_run.run_id: r for r in [*own, *_executed_again(instance, own)]}
    return [r.dagster_run for r in sorted(records.values(), key=lambda r: r.storage_id)]


def _executed_again(instance: dg.DagsterInstance, records: Sequence[dg.RunRecord]) -> list[dg.RunRecord]:
    """The runs that repeat others: Dagster takes the backfill's tag from them once the backfill has ended."""
    roots = [r.dagster_run.run_id for r in records]
    return [
        record
        for start in range(0, len(roots), _ROOTS)
        for record in instance.get_run_records(dg.RunsFilter(tags={ROOT_TAG: roots[start : start + _ROOTS]}))
    ]


def _itself(run: dg.DagsterRun) -> _Planned:
    """What stands for a run that ended before it planned any check: its job and partitions."""
    return run.job_name, "...".join(run.tags.get(tag, "") for tag in PARTITION_TAGS)


def _wanted(outcome: Outcome, options: GateOptions) -> bool:
    """The selection of datasets, partitions, stages and checks."""
    stages = {s.value for s in options.stages}
    return (
        (not options.datasets or outcome.dataset in options.datasets)
        and (not stages or outcome.stage.value in stages)
        and (not options.partitions or any(fnmatchcase(outcome.key, p) for p in options.partitions))
        and options.wants(outcome.code)
    )


def _outcomes(instance: dg.DagsterInstance, run: dg.DagsterRun) -> Iterator[Outcome]:
    """An outcome for each check that the run planned, of each partition that it holds."""
    own = run.tags.get(PARTITION_TAGS[0], "")
    evaluated = {
        (e.asset_key, e.check_name, e.partition or own): e
        for e in _events(instance, run, DagsterEventType.ASSET_CHECK_EVALUATION)
    }
    planned = [
        (e.asset_key, e.check_name, partition)
        for e in _events(instance, run, DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED)
        for partition in _planned_partitions(e, own)
    ]
    failed = {(a, key) for (a, name, key), e in evaluated.items() if name in _STEP_CHECKS and not e.passed}
    for asset, name, partition in dict.fromkeys([*planned, *evaluated]):
        if len(asset.path) != 2 or asset.path[1] not in {s.value for s in Stage}:
            continue
        blank = _blank(asset, name, partition)
        event = evaluated.get((asset, name, partition))
        if event is not None:
            yield _of_event(blank, event)
        elif (asset, partition) in failed:
            yield replace(blank, state=State.NOT_REACHED, why="the stage failed")
        else:
            yield replace(blank, state=State.NEVER_RAN, why=f"run {run.run_id} ended {run.status.value}")


def _planned_partitions(event: Any, own: str) -> list[str]:
    """The partitions that a check was planned for; the run's own where the event names none."""
    named = list(event.partitions_subset.get_partition_keys()) if event.partitions_subset else []
    return sorted(named) or [own]


def _events(instance: dg.DagsterInstance, run: dg.DagsterRun, kind: DagsterEventType) -> list[Any]:
    """The payloads of a run's events of a kind."""
    return [event.event_specific_data for event in _dagster_events(instance, run, kind)]


def _dagster_events(
    instance: dg.DagsterInstance, run: dg.DagsterRun, kind: DagsterEventType
) -> list[dg.DagsterEvent]:
    """A run's events of a kind, page by page."""
    found: list[dg.DagsterEvent] = []
    cursor: str | None = None
    while True:
        page = instance.get_records_for_run(run.run_id, cursor=cursor, of_type=kind, limit=_PAGE)
        found += [
            record.event_log_entry.dagster_event
            for record in page.records
            if record.event_log_entry.dagster_event is not None
        ]
        if not page.has_more:
            return found
        cursor = page.cursor


def _blank(asset: dg.AssetKey, name: str, partition: str) -> Outcome:
    dataset, stage = asset.path[0], Stage(asset.path[1])
    titles = {check_name(rule.code): (rule.code, rule.title) for rule in checks_of(stage)}
    code, title = titles.get(name, (name.replace("_", "-"), BUILDS_TITLE if name in _STEP_CHECKS else ""))
    key = partition if stage is Stage.DEMOS else ""
    path = "/".join(p for p in (dataset, stage.value, key) if p)
    return Outcome(
        dataset=dataset, stage=stage, key=key, path=path, code=code, title=title, state=State.NEVER_RAN
    )


def _of_event(blank: Outcome, event: Any) -> Outcome:
    """The outcome of a check that was evaluated."""
    text = event.description or ""
    if event.passed:
        skipped = text.startswith("does not apply")
        return replace(blank, state=State.SKIPPED if skipped else State.PASSED, why=text if skipped else "")
    findings = _findings(event)
    severity = Severity.ERROR if event.severity is dg.AssetCheckSeverity.ERROR else Severity.WARN
    if findings.worst() is not severity:
        findings.add(Finding(blank.code, severity, text or "it failed", Place(file=blank.path)))
    return replace(blank, state=state_of(findings), findings=findings)


def _findings(event: Any) -> Findings:
    """The findings of the table that our checks attach."""
    out = Findings()
    table = event.metadata.get("findings")
    if not isinstance(table, dg.TableMetadataValue):
        return out
    for record in table.records:
        row = {name: str(value) for name, value in record.data.items()}
        place = Place(file=row["place"] or None)
        got, expected = row["got"] or None, row["expected"] or None
        out.add(Finding(row["code"], Severity(row["severity"]), row["message"], place, got, expected))
    return out


def _failure(
    instance: dg.DagsterInstance, run: dg.DagsterRun, outcomes: Sequence[Outcome]
) -> RunFailure | None:
    """A run that ended without success for another reason than its data, whatever its checks say."""
    if run.is_success or _by_its_data(instance, run, outcomes):
        return None
    text = f"run {run.run_id} of {run.job_name} ended {run.status.value}"
    said = _said(instance, run)
    units = list(dict.fromkeys(o.unit for o in outcomes if o.state is State.NEVER_RAN))
    more = f" and {len(units) - _NAMED} more" if len(units) > _NAMED else ""
    lost = f"; not reached: {', '.join(units[:_NAMED])}{more}" if units else ""
    return RunFailure(run.run_id, text + (f": {said}" if said else "") + lost)


def _said(instance: dg.DagsterInstance, run: dg.DagsterRun) -> str:
    """What the steps that failed say, else what ended the run; "" when nothing does."""
    errors = [e.error for e in _events(instance, run, DagsterEventType.STEP_FAILURE)]
    ends = (DagsterEventType.RUN_FAILURE, DagsterEventType.RUN_CANCELED)
    said = [error.message.strip() for error in errors if error is not None] or [
        (event.message or "").strip().removesuffix(".")
        for kind in ends
        for event in _dagster_events(instance, run, kind)
    ]
    return "; ".join(filter(None, said))


def _by_its_data(instance: dg.DagsterInstance, run: dg.DagsterRun, outcomes: Sequence[Outcome]) -> bool:
    """True when checks that failed tell why a run is red: its steps ended by themselves.

    A run that was killed or cancelled leaves no step failure, or a step that never ended; a step that broke
    down leaves checks of its own unrun; a full disk or a file that another writer holds says so. What is
    downstream of a blocking failure isn't started at all.
    """
    failed = [o for o in outcomes if o.state is State.FAILED]
    if run.status is not dg.DagsterRunStatus.FAILURE or not failed:
        return False
    if any(finding.code in NOT_THE_DATA for outcome in failed for finding in outcome.findings):
        return False
    steps = {s.step_key: s.status.value if s.status else "" for s in instance.get_run_step_stats(run.run_id)}
    unrun = {f"{o.dataset}__{o.stage.value}" for o in outcomes if o.state is State.NEVER_RAN}
    broke_down = any(steps.get(step) == "FAILURE" for step in unrun)
    return "FAILURE" in steps.values() and "IN_PROGRESS" not in steps.values() and not broke_down
