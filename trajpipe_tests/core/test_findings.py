"""Tests of findings: repeats capped at three and counted, merging, JSON, severities.

What is not here: checks that make findings, see test_registry.
"""

from __future__ import annotations

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajpipe.core.findings import MAX_REPEATS, Denominator, Finding, Findings, Place, Severity, at_least

SEVERITIES = st.sampled_from(list(Severity))
PLACES = st.builds(
    Place,
    file=st.none() | st.sampled_from(["a.hdf5", "b.hdf5"]),
    demo=st.none() | st.sampled_from(["demo_0", "demo_1"]),
    column=st.none() | st.sampled_from(["actions", "obs/eef_quat"]),
    row=st.none() | st.integers(0, 9),
)
FINDINGS = st.builds(
    Finding,
    code=st.sampled_from(["nan-action", "total-wrong"]),
    severity=SEVERITIES,
    message=st.text(max_size=8),
    place=PLACES,
    got=st.none() | st.text(max_size=4),
    expected=st.none() | st.text(max_size=4),
)


def collected(findings: list[Finding]) -> Findings:
    """A collector of these."""
    out = Findings()
    out.extend(findings)
    return out


def nan_action(row: int, column: str = "actions") -> Finding:
    """One finding per row."""
    return Finding("nan-action", Severity.ERROR, "NaN", Place("a.hdf5", "demo_0", column, row), got="nan")


def test_three_of_a_kind_are_kept_and_the_rest_counted() -> None:
    found = collected([nan_action(row) for row in range(10)])
    assert [f.place.row for f in found] == [0, 1, 2]
    assert len(found) == found.count(Severity.ERROR) == 10
    assert found.repeats() == [("nan-action", Severity.ERROR, "actions", 7)]


def test_columns_are_capped_apart_and_demos_together() -> None:
    rows = [nan_action(0, c) for c in ("actions", "obs/x") for _ in range(4)]
    found = collected(rows)
    assert [f.place.column for f in found] == ["actions"] * 3 + ["obs/x"] * 3


def test_exactly_three_is_no_repeat() -> None:
    found = collected([nan_action(row) for row in range(MAX_REPEATS)])
    assert len(list(found)) == MAX_REPEATS
    assert found.repeats() == []


@given(st.lists(FINDINGS, max_size=30), st.lists(FINDINGS, max_size=30))
def test_merging_equals_collecting_all(first: list[Finding], second: list[Finding]) -> None:
    merged = collected(first)
    merged.merge(collected(second))
    together = collected(first + second)
    assert merged.counts == together.counts
    assert sorted(map(str, merged)) == sorted(map(str, together))


@given(st.lists(FINDINGS, max_size=20))
def test_json_and_pickle_keep_everything(findings: list[Finding]) -> None:
    found = collected(findings)
    for back in (
        Findings.from_json(json.loads(json.dumps(found.to_json()))),
        pickle.loads(pickle.dumps(found)),
    ):
        assert back.kept == found.kept
        assert back.counts == found.counts
        assert back.worst() == found.worst()


@given(st.lists(FINDINGS, max_size=20))
def test_counts_and_worst_are_those_of_all_that_arrived(findings: list[Finding]) -> None:
    found, rank = collected(findings), [Severity.INFO, Severity.WARN, Severity.ERROR]
    assert len(found) == len(findings)
    for severity in Severity:
        assert found.count(severity) == sum(f.severity is severity for f in findings)
    worst = max((rank.index(f.severity) for f in findings), default=None)
    assert found.worst() == (None if worst is None else rank[worst])


@pytest.mark.parametrize(
    ("severity", "threshold", "expected"),
    [
        (Severity.ERROR, Severity.WARN, True),
        (Severity.WARN, Severity.WARN, True),
        (Severity.INFO, Severity.WARN, False),
        (Severity.WARN, Severity.ERROR, False),
    ],
)
def test_at_least(severity: Severity, threshold: Severity, *, expected: bool) -> None:
    assert at_least(severity, threshold) is expected


def test_a_place_says_the_parts_that_are_known() -> None:
    assert str(Place("a.hdf5", "demo_3", "actions", 0)) == "a.hdf5 · demo_3 · actions · row 0"
    assert str(Place(demo="demo_3")) == "demo_3"
    assert str(Place()) == "(whole)"
    assert Place("a.hdf5", row=0).to_json() == {"file": "a.hdf5", "row": 0}


def test_a_finding_reads_as_one_line() -> None:
    finding = Finding(
        "total-wrong", Severity.INFO, "recomputed", Place("a.hdf5"), got="3901", expected="2163"
    )
    assert str(finding) == "INFO total-wrong a.hdf5: recomputed; got 3901; expected 2163"
    assert Finding.from_json(finding.to_json()) == finding


def test_a_denominator_says_what_was_looked_at() -> None:
    assert str(Denominator(480, 500, "demos")) == "checked 480 of 500 demos"
