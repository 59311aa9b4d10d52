"""The gate: run the stages (unchanged ones are skipped), and hold what was checked against what was planned.

What is not here: codes and states (`gate_outcomes`), waivers (`gate_baseline`), formats (`gate_formats`),
the checks of a Dagster run (`trajpipe.defs.gate_run`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final

from trajpipe.checks.registry import CheckReport, CheckResult, checks_of
from trajpipe.core import jsontext, names, provenance
from trajpipe.core.errors import MissingNameError, TrajpipeError, UsageError
from trajpipe.core.findings import Findings, Place, Severity
from trajpipe.core.names import Stage
from trajpipe.core.progress import Progress, silent
from trajpipe.pipeline import export_lerobot, ingest
from trajpipe.pipeline.catalogue import Recording
from trajpipe.pipeline.gate_outcomes import (
    BUILDS,
    BUILDS_TITLE,
    GateReport,
    Outcome,
    RunFailure,
    State,
    said,
    state_of,
)
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.results import StageResult, Status
from trajpipe.pipeline.run import STAGES, Planned, RunOptions, check_dataset_store, plan, run

NOTICED: Final = "source-findings"
NOT_THE_DATA: Final = frozenset({"no-space", "locked", "unexpected", "missing-extra", "missing-worker"})


@dataclass(frozen=True, slots=True)
class GateOptions:
    """What a gate looks at.

    Attributes:
        datasets: Dataset names; empty = all.
        partitions: Patterns of recordings' keys; given, the stage `demos` alone is looked at.
        stages: Stages; empty = all, or `demos` when partitions are given.
        checks: Codes or patterns; empty = all.
        ignore: Codes or patterns to leave out.
        fail_on: ERROR, or WARN: a warning fails too.
        jobs: Worker processes for recordings.
        build: Run the stages first; without it the stored results alone count.
    """

    datasets: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    stages: tuple[Stage, ...] = ()
    checks: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fail_on: Severity = Severity.ERROR
    jobs: int = 1
    build: bool = True

    def chosen_stages(self) -> tuple[Stage, ...]:
        """The stages looked at, in order."""
        if self.stages:
            return tuple(s for s in STAGES if s in self.stages)
        return (Stage.DEMOS,) if self.partitions else STAGES

    def wants(self, code: str) -> bool:
        """True when a check of this code is selected."""
        selected = not self.checks or any(fnmatchcase(code, p) for p in self.checks)
        return selected and not any(fnmatchcase(code, p) for p in self.ignore)


def gate(project: Project, options: GateOptions, *, progress: Progress = silent) -> GateReport:
    """Run the stages of datasets and report every planned check.

    Args:
        project: The project.
        options: What is looked at.
        progress: Called with recordings, demos and frames done.

    Raises:
        UsageError: a pattern of checks matches no rule.
        MissingNameError: a pattern of partitions matches no recording, or there is no such dataset.
    """
    began = time.perf_counter()
    require_known_checks(options)
    report = GateReport(fail_on=options.fail_on)
    chosen = list(options.datasets) or list(project.catalogue.datasets)
    todo = _recordings(project, chosen, options.partitions)
    for name in chosen:
        if not project.recordings(name):
            report.outcomes.append(_without_recordings(project, name))
    full = [name for name in chosen if project.recordings(name)]
    if full:
        build = _built if options.build else _stored
        results = build(project, full, todo, options, progress)
        for result in results:
            _add(report, project, result, options)
    _tolerate(report, project, full)
    report.seconds = time.perf_counter() - began
    return report


def require_known_checks(options: GateOptions) -> None:
    """Refuse a selection that no rule answers to: a gate over nothing would always be open.

    Raises:
        UsageError: names the pattern.
    """
    known = [BUILDS, NOTICED, *(c.code for stage in STAGES for c in checks_of(stage))]
    for pattern in options.checks:
        if not any(fnmatchcase(code, pattern) for code in known):
            raise UsageError("no check of this name", got=pattern, hint="See `trajpipe checks`.")


def _recordings(project: Project, datasets: Sequence[str], patterns: Sequence[str]) -> list[Recording]:
    every = [r for name in datasets for r in project.recordings(name)]
    if not patterns:
        return every
    for pattern in patterns:
        if not any(fnmatchcase(r.key, pattern) for r in every):
            keys = ", ".join(r.key for r in every[:20]) or "no recording"
            raise MissingNameError("no recording of this key", got=pattern, expected=f"one of {keys}")
    return [r for r in every if any(fnmatchcase(r.key, p) for p in patterns)]


def _built(
    project: Project,
    datasets: Sequence[str],
    todo: Sequence[Recording],
    options: GateOptions,
    progress: Progress,
) -> Iterator[StageResult]:
    """Results of running the stages."""
    stages = options.chosen_stages()
    by_dataset = {name: tuple(r.key for r in todo if r.dataset == name) for name in datasets}
    for name, keys in by_dataset.items():
        wanted = stages if keys else tuple(s for s in stages if s is not Stage.DEMOS)
        if wanted:
            chosen = RunOptions(keys if options.partitions else (), wanted, options.jobs)
            yield from run(project, [name], chosen, progress=progress).results


def _stored(
    project: Project,
    datasets: Sequence[str],
    todo: Sequence[Recording],
    options: GateOptions,
    progress: Progress,  # noqa: ARG001 - nothing is done that takes time
) -> Iterator[StageResult]:
    """Results as they lie beside the outputs; an output that is absent or out of date has no checks."""
    keys = {(r.dataset, r.key) for r in todo}
    for step in plan(project, datasets):
        chosen = step.stage is not Stage.DEMOS or (step.dataset, step.key) in keys
        if chosen and step.stage in options.chosen_stages():
            yield _stored_result(project, step)


def _stored_result(project: Project, step: Planned) -> StageResult:
    result = StageResult(step.dataset, step.stage, step.key, step.path, Status.UNCHANGED)
    result.checks = CheckReport(step.stage, str(step.path))
    if step.state in ("missing", "stale"):
        result.error = f"{step.state}: {step.why}"
        return result
    failure = provenance.beside(step.path, names.SUFFIX_FAILURE)
    if step.state == "failed" and failure.is_file():
        noted = jsontext.loads(failure.read_bytes(), place=failure)
        result.status, result.error = Status.FAILED, str(noted["error"])
        result.checks = CheckReport.from_json(noted["checks"])
        return result
    stored = (
        project.store_checks(step.dataset) if step.stage is Stage.STORE else project.stored_checks(step.path)
    )
    result.error = None if stored is not None else step.why or "no stored checks"
    result.checks = stored or result.checks
    return result


def _without_recordings(project: Project, name: str) -> Outcome:
    return Outcome(
        dataset=name,
        stage=Stage.DEMOS,
        key="",
        path=_shown(project, project.root / names.FOLDER_DEMOS),
        code=BUILDS,
        title=BUILDS_TITLE,
        state=State.NEVER_RAN,
        why="the dataset has no recording: its globs match nothing",
    )


def _shown(project: Project, path: object) -> str:
    """A path below the data folder as one types it there."""
    text = str(path)
    return text.removeprefix(f"{project.root}/") if text.startswith(f"{project.root}/") else text


def _add(report: GateReport, project: Project, result: StageResult, options: GateOptions) -> None:
    """The outcomes of a stage's planned checks, and the run's failure when it is not the data's fault."""
    if result.status is Status.UNCHANGED and result.checks.results and options.build:
        result.checks = _with_new_rules(project, result)
    failure = _run_failure(result)
    if failure is not None:
        report.failures.append(failure)
    outcomes = list(outcomes_of(result, _shown(project, result.path)))
    report.outcomes += [_selected(o, outcomes, options) for o in outcomes if options.wants(o.code)]


def _selected(outcome: Outcome, outcomes: Sequence[Outcome], options: GateOptions) -> Outcome:
    """A check that was not reached never ran, unless the failure of its stage is looked at too."""
    told = options.wants(BUILDS) or any(o.state is State.FAILED and options.wants(o.code) for o in outcomes)
    return (
        outcome if told or outcome.state is not State.NOT_REACHED else replace(outcome, state=State.NEVER_RAN)
    )


def _with_new_rules(project: Project, result: StageResult) -> CheckReport:
    """The stored report, with rules added that were registered after the output was built: they run now."""
    stored = result.checks
    known = {r.code for r in stored.results} | set(stored.skipped)
    missing = {c.code for c in checks_of(result.stage)} - known
    if not missing:
        return stored
    fresh = _check(project, result)
    results = [*stored.results, *(r for r in fresh.results if r.code in missing)]
    skipped = stored.skipped | {c: why for c, why in fresh.skipped.items() if c in missing}
    return CheckReport(stored.stage, stored.path, results, skipped)


def _check(project: Project, result: StageResult) -> CheckReport:
    name = result.dataset
    if result.stage is Stage.DEMOS:
        return ingest.check_demos(project.ingest_plan(project.recording(name, result.key)), result.path)
    if result.stage is Stage.STORE:
        return check_dataset_store(project, name)
    return export_lerobot.check_export(project.export_plan(name), result.path)


def _run_failure(result: StageResult) -> RunFailure | None:
    """A stage that failed for another reason than its data: no space, a lock, a bug."""
    if result.status is not Status.FAILED:
        return None
    own = [r.code for r in result.checks.results if not r.passed]
    if any(code in NOT_THE_DATA for code in own) or not own:
        unit = "/".join(p for p in (result.dataset, result.stage.value, result.key) if p)
        return RunFailure(unit, result.error or "it failed without a word")
    return None


def outcomes_of(result: StageResult, shown: str) -> Iterator[Outcome]:
    """An outcome for each planned check of a stage's output.

    Args:
        result: What the stage returned.
        shown: The output's path as people see it.
    """
    planned = {c.code: c for c in checks_of(result.stage)}
    reported = {r.code: r for r in result.checks.results}
    own = [r for r in result.checks.results if r.code not in planned and r.code != NOTICED]
    base = Outcome(
        dataset=result.dataset,
        stage=result.stage,
        key=result.key,
        path=shown,
        code=BUILDS,
        title=BUILDS_TITLE,
        state=State.PASSED,
    )
    builds = _builds(base, result, own)
    yield builds
    if NOTICED in reported:
        yield _of_result(base, reported[NOTICED])
    for code, rule in planned.items():
        about = replace(base, code=code, title=rule.title)
        if code in reported:
            yield _of_result(about, reported[code])
        elif code in result.checks.skipped:
            yield replace(about, state=State.SKIPPED, why=f"does not apply: {result.checks.skipped[code]}")
        elif builds.state is State.FAILED:
            yield replace(about, state=State.NOT_REACHED, why=f"the stage failed: {result.error or ''}")
        else:
            yield replace(
                about, state=State.NEVER_RAN, why=result.error or "it is registered and has no result"
            )


def _of_result(about: Outcome, found: CheckResult) -> Outcome:
    title = found.title or about.title
    return replace(
        about, code=found.code, title=title, state=state_of(found.findings), findings=found.findings
    )


def _builds(base: Outcome, result: StageResult, own: Sequence[CheckResult]) -> Outcome:
    """The outcome of the stage itself."""
    findings = Findings()
    for one in own:
        findings.merge(one.findings)
    if result.status is Status.BLOCKED:
        findings.merge(said("blocked", result.error or "something upstream failed", Place(file=base.path)))
    elif not result.checks.results and result.status is Status.UNCHANGED:
        return replace(base, state=State.NEVER_RAN, why=result.error or "it has no stored result")
    return replace(base, state=state_of(findings), findings=findings)


def _tolerate(report: GateReport, project: Project, datasets: Sequence[str]) -> None:
    """Where the catalogue says how many recordings must pass, failures beyond are warnings."""
    for name in datasets:
        minimum = project.dataset(name).min_recordings
        if minimum is None:
            continue
        of_demos = [o for o in report.outcomes if o.dataset == name and o.stage is Stage.DEMOS]
        bad = {o.key for o in of_demos if o.state is State.FAILED}
        good = {o.key for o in of_demos} - bad
        if bad and len(good) >= minimum:
            note = (
                f"{len(good)} of {len(good | bad)} recordings passed, {minimum} are enough (min_recordings)"
            )
            for index, outcome in enumerate(report.outcomes):
                if outcome in of_demos and outcome.state is State.FAILED:
                    report.outcomes[index] = replace(outcome, state=State.WARNED, why=note)


def could_not_start(error: TrajpipeError | OSError, fail_on: Severity) -> GateReport:
    """The report of a gate that could not start: code 2, with the error.

    Args:
        error: Why.
        fail_on: As asked for.
    """
    return GateReport(failures=[RunFailure("gate", str(error))], fail_on=fail_on)
