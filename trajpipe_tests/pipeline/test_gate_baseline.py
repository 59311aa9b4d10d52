"""Waivers: whom they cover, until when, what is said of idle ones; required checks; file errors."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from trajpipe.core.errors import CatalogueError
from trajpipe.core.findings import Findings, Place, Severity
from trajpipe.core.names import Stage
from trajpipe.pipeline.gate_baseline import apply_baseline, load_baseline
from trajpipe.pipeline.gate_outcomes import GateReport, Outcome, State, said

TEXT = """\
version: 1
waivers:
  - check: quaternion-*
    dataset: lift
    owner: team:data
    reason: The gripper's frame is being measured again.
    expires: 2026-06-30
"""
DAY = date(2026, 6, 30)


def outcome(code: str = "quaternion-unit", state: State = State.FAILED, **more: str) -> Outcome:
    """A failed check of one recording of `lift`."""
    found = said(code, "it is bad", Place(), Severity.WARN if state is State.WARNED else Severity.ERROR)
    return Outcome(
        dataset=more.get("dataset", "lift"),
        stage=Stage(more.get("stage", "demos")),
        key=more.get("key", "day1"),
        path="demos/x.hdf5",
        code=code,
        state=state,
        findings=found if state in (State.FAILED, State.WARNED) else Findings(),
    )


def applied(tmp_path: Path, text: str, *outcomes: Outcome, today: date = DAY) -> GateReport:
    """A report of outcomes with a baseline applied."""
    (tmp_path / "gate.yaml").write_text(text)
    report = GateReport(list(outcomes))
    apply_baseline(report, load_baseline(tmp_path / "gate.yaml"), today)
    return report


def test_a_waiver_counts_up_to_its_last_day(tmp_path: Path) -> None:
    report = applied(tmp_path, TEXT, outcome())
    assert report.code == 0
    assert report.outcomes[0].waiver == (
        "team:data until 2026-06-30: The gripper's frame is being measured again."
    )
    assert (report.notes, report.counts()) == ([], {"waived": 1})


def test_an_expired_waiver_is_said_and_counts_no_more(tmp_path: Path) -> None:
    report = applied(tmp_path, TEXT, outcome(), today=date(2026, 7, 1))
    assert report.code == 1
    (note,) = report.notes
    assert note.startswith("expired waiver of quaternion-* (team:data until 2026-06-30: ")
    assert note.endswith("it covers 1 failures that now count")
    gone = applied(tmp_path, TEXT, outcome(state=State.PASSED), today=date(2026, 7, 1))
    assert gone.code == 0
    assert gone.notes[0].endswith("nothing fails it any more")


def test_a_waiver_that_matches_nothing_is_said(tmp_path: Path) -> None:
    report = applied(tmp_path, TEXT, outcome(state=State.PASSED))
    assert report.code == 0
    assert "matches nothing: delete it" in report.notes[0]


@pytest.mark.parametrize(
    ("narrowed", "covered"),
    [
        ("", True),
        ("    stage: demos\n", True),
        ("    stage: store\n", False),
        ("    recording: day*\n", True),
        ("    recording: night*\n", False),
    ],
)
def test_a_waiver_is_as_narrow_as_it_says(tmp_path: Path, narrowed: str, covered: bool) -> None:
    assert applied(tmp_path, TEXT + narrowed, outcome()).code == (0 if covered else 1)


def test_another_dataset_or_check_is_not_covered(tmp_path: Path) -> None:
    assert applied(tmp_path, TEXT, outcome(dataset="stack")).code == 1
    assert applied(tmp_path, TEXT, outcome("nan-action")).code == 1


def test_a_waiver_may_name_what_a_check_found(tmp_path: Path) -> None:
    text = TEXT.replace("quaternion-*", "truncated")
    broken = Outcome(
        dataset="lift",
        stage=Stage.DEMOS,
        key="day1",
        path="demos/x.hdf5",
        code="stage-builds",
        state=State.FAILED,
        findings=said("truncated", "half of it", Place()),
    )
    assert applied(tmp_path, text, broken).code == 0
    broken.findings.merge(said("nan-action", "and a NaN", Place()))
    assert applied(tmp_path, text, broken).code == 1


def test_warnings_and_checks_that_never_ran_can_be_waived(tmp_path: Path) -> None:
    report = applied(tmp_path, TEXT, outcome(state=State.WARNED), outcome(state=State.NEVER_RAN))
    report.fail_on = Severity.WARN
    assert report.code == 0


def test_a_required_check_that_never_ran_is_code_3(tmp_path: Path) -> None:
    text = "version: 1\nrequired: [fixture-*, quaternion-unit]\n"
    passed = outcome(state=State.PASSED)
    report = applied(tmp_path, text, passed)
    assert report.code == 3
    assert [(o.code, o.state) for o in report.outcomes[1:]] == [("fixture-*", State.NEVER_RAN)]
    assert applied(tmp_path, text, passed, outcome("fixture-poses", State.SKIPPED)).code == 3
    assert applied(tmp_path, text, passed, outcome("fixture-poses", State.PASSED)).code == 0


def test_a_part_of_the_checks_need_not_hold_the_required_ones(tmp_path: Path) -> None:
    (tmp_path / "gate.yaml").write_text("version: 1\nrequired: [fixture-*]\n")
    report = GateReport([outcome(state=State.PASSED)])
    apply_baseline(report, load_baseline(tmp_path / "gate.yaml"), DAY, whole=False)
    assert (report.code, len(report.outcomes)) == (0, 1)


@pytest.mark.parametrize(
    ("was", "now", "message"),
    [
        ("    owner: team:data\n", "", r"waivers\[0\].owner: field required"),
        ("    reason: The gripper's frame is being measured again.\n", "", r"waivers\[0\].reason"),
        ("The gripper's frame is being measured again.", "' '", r"waivers\[0\].reason"),
        ("2026-06-30", "soon", r"waivers\[0\].expires"),
        ("team:data", "nobody", r"waivers\[0\].owner"),
        ("dataset: lift", "datasett: lift", "datasett"),
        ("version: 1", "version: 2", "version"),
        ("quaternion-*", "[]", r"waivers\[0\].check"),
    ],
)
def test_a_file_that_is_not_valid_is_refused_with_its_line(
    tmp_path: Path, was: str, now: str, message: str
) -> None:
    (tmp_path / "gate.yaml").write_text(TEXT.replace(was, now))
    with pytest.raises(CatalogueError, match=message) as error:
        load_baseline(tmp_path / "gate.yaml")
    assert "gate.yaml, line " in str(error.value)


def test_an_absent_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CatalogueError, match="cannot be read"):
        load_baseline(tmp_path / "gate.yaml")
