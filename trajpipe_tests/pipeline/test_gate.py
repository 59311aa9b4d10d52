"""The gate on real projects: codes 0, 1, 2 and 3, selection, stored results, and how quick it is."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import h5py
import numpy as np
import pytest

from trajpipe.checks import registry
from trajpipe.checks.registry import Check, Subject, checks_of
from trajpipe.core import names, provenance
from trajpipe.core.errors import DiskSpaceError, MissingNameError, UsageError
from trajpipe.core.findings import Finding, Place, Severity
from trajpipe.core.names import Stage
from trajpipe.pipeline import ingest as ingest_module
from trajpipe.pipeline.gate import NOTICED, GateOptions, could_not_start, gate
from trajpipe.pipeline.gate_outcomes import BUILDS, GateReport, Outcome, State
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.run import run
from trajpipe.testing import write_recording
from trajpipe_tests.pipeline.conftest import CATALOGUE, MakeProject


def again(project: Project) -> Project:
    """The project as its files are now: recordings are found once per object."""
    return Project.open(project.catalogue.path)


def break_recording(project: Project, key: str) -> Path:
    """Cut a recording in half."""
    path = project.recording("lift", key).path
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    return path


def in_state(report: GateReport, state: State) -> list[tuple[str, str]]:
    """(unit, code) of the outcomes in a state."""
    return [(o.unit, o.code) for o in report.outcomes if o.state is state]


@pytest.fixture(scope="session")
def built_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of a built project of two recordings; copied, never changed."""
    root = tmp_path_factory.mktemp("gate") / "data"
    for number in range(2):
        path = root / "raw" / "lift" / f"take_{number:02d}.hdf5"
        write_recording("isaaclab", path, episodes=2, rows=(8, 12), seed=number, cameras=())
    (root / "datasets.yaml").write_text(CATALOGUE)
    assert run(Project.open(root / "datasets.yaml")).ok
    return root


@pytest.fixture
def built(built_once: Path, tmp_path: Path) -> Project:
    """A built project of two recordings."""
    shutil.copytree(built_once, tmp_path / "data")
    return Project.open(tmp_path / "data" / "datasets.yaml")


@pytest.fixture
def warned_rule() -> Iterator[Check]:
    """A rule of L2 files that warns about each of them, registered for one test."""

    def rule(subject: Subject) -> Sequence[Finding]:
        subject.count(1, 1, "files")
        return [Finding("too-blue", Severity.WARN, "the picture is blue", Place(file=subject.path.name))]

    check = Check("too-blue", "demos", "Pictures aren't blue", rule, blocking=False)
    registry._REGISTRY[("demos", "too-blue")] = check
    yield check
    del registry._REGISTRY[("demos", "too-blue")]


def test_a_good_project_passes_and_every_planned_check_is_told(make_project: MakeProject) -> None:
    project = make_project(2)
    report = gate(project, GateOptions())
    assert report.code == 0, report.verdict()
    told = Counter((o.unit, o.code) for o in report.outcomes if o.code != NOTICED)
    planned = [
        *((f"lift/demos/take_{n:02d}", c.code) for n in range(2) for c in checks_of(Stage.DEMOS)),
        *((f"lift/{s.value}", c.code) for s in (Stage.STORE, Stage.LEROBOT) for c in checks_of(s)),
        *((u, BUILDS) for u in ("lift/demos/take_00", "lift/demos/take_01", "lift/store", "lift/lerobot")),
    ]
    assert told == Counter(planned)
    assert report.verdict().startswith(f"passed (code 0): {len(report.outcomes)} checks: ")
    assert {o.path for o in report.outcomes} >= {"stores/lift.h5", "lerobot/lift"}


def test_an_unchanged_project_is_quick_and_says_the_same(built: Project) -> None:
    project = built
    first = gate(project, GateOptions())
    before = {p: p.stat().st_mtime_ns for p in project.root.rglob("*") if p.is_file()}
    began = time.process_time()
    second = gate(again(project), GateOptions())
    assert time.process_time() - began < 5
    assert [o.to_json() for o in second.outcomes] == [o.to_json() for o in first.outcomes]
    assert {p: p.stat().st_mtime_ns for p in project.root.rglob("*") if p.is_file()} == before


def test_a_broken_recording_is_code_1_and_the_others_are_checked(make_project: MakeProject) -> None:
    project = make_project(3)
    break_recording(project, "take_01")
    report = gate(project, GateOptions())
    assert report.code == 1
    assert in_state(report, State.FAILED) == [("lift/demos/take_01", BUILDS)]
    assert {unit for unit, _ in in_state(report, State.NOT_REACHED)} == {"lift/demos/take_01"}
    (failed,) = [o for o in report.outcomes if o.state is State.FAILED]
    assert [f.code for f in failed.findings] == ["truncated"]
    assert report.failures == []
    assert ("lift/store", BUILDS) in in_state(report, State.PASSED)


def test_a_recording_that_breaks_later_turns_the_gate_red(built: Project) -> None:
    project = built
    assert gate(project, GateOptions()).code == 0
    break_recording(project, "take_00")
    assert gate(again(project), GateOptions()).code == 1
    assert gate(again(project), GateOptions(build=False)).code == 1


def test_enough_recordings_are_enough_when_the_catalogue_says_how_many(make_project: MakeProject) -> None:
    catalogue = CATALOGUE.replace("    license:", "    min_recordings: 2\n    license:")
    project = make_project(3, catalogue=catalogue)
    break_recording(project, "take_01")
    report = gate(project, GateOptions())
    assert report.code == 0
    (warned,) = [o for o in report.outcomes if o.state is State.WARNED and o.code == BUILDS]
    assert warned.why == "2 of 3 recordings passed, 2 are enough (min_recordings)"
    assert gate(again(project), GateOptions(fail_on=Severity.WARN)).code == 1
    break_recording(project, "take_02")
    assert gate(again(project), GateOptions()).code == 1


def test_a_dataset_without_recordings_was_never_checked(make_project: MakeProject) -> None:
    report = gate(make_project(0), GateOptions())
    assert report.code == 3
    (only,) = report.outcomes
    assert (only.state, only.why) == (
        State.NEVER_RAN,
        "the dataset has no recording: its globs match nothing",
    )


def test_nothing_planned_is_never_a_pass() -> None:
    assert GateReport().code == 3
    assert GateReport().verdict() == "incomplete (code 3): 0 checks: nothing was planned"


def test_a_run_that_fails_for_another_reason_than_its_data_is_code_2(
    make_project: MakeProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(2)
    written = ingest_module.write_demos

    def full_disk(plan: ingest_module.IngestPlan, *rest: object) -> object:
        if plan.key == "take_01":
            raise DiskSpaceError("the disk is full", place=plan.target)
        return written(plan, *rest)  # type: ignore[arg-type]  # the rest are passed on as they came

    monkeypatch.setattr(ingest_module, "write_demos", full_disk)
    report = gate(project, GateOptions())
    assert report.code == 2
    assert [(f.unit, "the disk is full" in f.message) for f in report.failures] == [
        ("lift/demos/take_01", True)
    ]


def test_a_failed_blocking_check_is_told_by_itself(make_project: MakeProject) -> None:
    project = make_project(1)

    def rule(subject: Subject) -> Sequence[Finding]:
        return [Finding("never-good", Severity.ERROR, "no", Place(file=subject.path.name))]

    registry._REGISTRY[("store", "never-good")] = Check("never-good", "store", "Is good", rule)
    try:
        report = gate(project, GateOptions())
    finally:
        del registry._REGISTRY[("store", "never-good")]
    assert report.code == 1
    assert in_state(report, State.FAILED) == [("lift/store", "never-good"), ("lift/lerobot", BUILDS)]
    assert ("lift/store", BUILDS) in in_state(report, State.PASSED)


def test_warnings_fail_when_asked(make_project: MakeProject, warned_rule: Check) -> None:
    project = make_project(1)
    report = gate(project, GateOptions())
    assert report.code == 0
    assert ("lift/demos/take_00", "too-blue") in in_state(report, State.WARNED)
    assert gate(again(project), GateOptions(fail_on=Severity.WARN)).code == 1


def test_a_rule_registered_after_the_output_was_built_runs_now(
    built: Project, request: pytest.FixtureRequest
) -> None:
    project = built
    request.getfixturevalue("warned_rule")
    report = gate(again(project), GateOptions())
    warned = [(f"lift/demos/take_0{n}", "too-blue") for n in range(2)]
    assert set(warned) <= set(in_state(report, State.WARNED))
    stored = gate(again(project), GateOptions(build=False))
    assert (stored.code, in_state(stored, State.NEVER_RAN)) == (3, warned)


def test_without_a_run_what_is_missing_never_ran(make_project: MakeProject) -> None:
    project = make_project(2)
    report = gate(project, GateOptions(build=False))
    assert report.code == 3
    assert {o.state for o in report.outcomes} == {State.NEVER_RAN}
    assert not (project.root / names.FOLDER_DEMOS).exists()


def test_without_a_run_what_is_out_of_date_never_ran(built: Project) -> None:
    project = built
    assert gate(again(project), GateOptions(build=False)).code == 0
    path = project.recording("lift", "take_00").path
    with h5py.File(path, "r+") as file:
        file["data/demo_0/actions"][0, 0] = np.float32(0.25)
    stale = gate(again(project), GateOptions(build=False))
    assert stale.code == 3
    assert {u for u, _ in in_state(stale, State.NEVER_RAN)} >= {"lift/demos/take_00", "lift/store"}
    assert "lift/demos/take_01" not in {u for u, _ in in_state(stale, State.NEVER_RAN)}


def test_a_lost_check_report_is_no_pass(built: Project) -> None:
    project = built
    target = project.demos_path(project.recordings("lift")[0])
    provenance.beside(target, names.SUFFIX_CHECKS).unlink()
    assert gate(again(project), GateOptions(build=False)).code != 0


def test_partitions_are_looked_at_alone(make_project: MakeProject) -> None:
    project = make_project(2)
    report = gate(project, GateOptions(partitions=("*_01",)))
    assert report.code == 0
    assert {o.unit for o in report.outcomes} == {"lift/demos/take_01"}
    assert not project.store_path("lift").exists()
    with pytest.raises(MissingNameError, match="take_7"):
        gate(project, GateOptions(partitions=("take_7*",)))


def test_stages_and_checks_are_selected(make_project: MakeProject) -> None:
    project = make_project(1)
    code = checks_of(Stage.DEMOS)[0].code
    report = gate(project, GateOptions(stages=(Stage.DEMOS,), checks=(code,)))
    assert [(o.unit, o.code) for o in report.outcomes] == [("lift/demos/take_00", code)]
    left = gate(again(project), GateOptions(stages=(Stage.DEMOS,), ignore=("*-*",)))
    assert all("-" not in o.code for o in left.outcomes)


def test_a_selected_check_that_a_broken_file_kept_from_running_never_ran(make_project: MakeProject) -> None:
    project = make_project(2)
    break_recording(project, "take_00")
    code = checks_of(Stage.DEMOS)[0].code
    report = gate(project, GateOptions(stages=(Stage.DEMOS,), checks=(code,)))
    assert report.code == 3
    (never,) = [o for o in report.outcomes if o.state is State.NEVER_RAN]
    assert never.unit == "lift/demos/take_00"
    assert "truncated" in never.why or "the stage failed" in never.why


def test_a_selection_without_any_rule_is_refused(make_project: MakeProject) -> None:
    with pytest.raises(UsageError, match="no check of this name; got no-such-rule"):
        gate(make_project(0), GateOptions(checks=("no-such-rule",)))


def test_what_could_not_start_is_code_2() -> None:
    report = could_not_start(UsageError("nothing works"), Severity.ERROR)
    assert (report.code, report.failures[0].message) == (2, "nothing works")


@pytest.mark.parametrize(
    ("states", "failed_run", "code"),
    [
        ((State.PASSED, State.SKIPPED), False, 0),
        ((State.PASSED, State.WARNED), False, 0),
        ((State.PASSED, State.NEVER_RAN), False, 3),
        ((State.FAILED, State.NEVER_RAN), False, 1),
        ((State.FAILED,), True, 2),
        ((State.NOT_REACHED, State.FAILED), False, 1),
    ],
)
def test_the_code_follows_from_the_states(states: Sequence[State], failed_run: bool, code: int) -> None:
    outcomes = [
        Outcome(dataset="a", stage=Stage.STORE, key="", path="stores/a.h5", code=f"c{i}", state=s)
        for i, s in enumerate(states)
    ]
    failures = could_not_start(UsageError("x"), Severity.ERROR).failures if failed_run else []
    assert GateReport(outcomes, failures).code == code
