"""Recordings of one content under two names are told, with both names; a dataset without twins is silent.

What is not here: exclusions that name no recording, see `test_trust.py`.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from trajpipe.core.findings import Finding, Severity
from trajpipe.pipeline.dataset_findings import IDENTICAL, findings_of_dataset
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.run import run
from trajpipe.testing.lafan import motion_clip, write_csv

CATALOGUE = """
version: 1
datasets:
  walks:
    raw: [{kind: lafan, glob: "raw/*.csv"}]
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Three clips; the second is a copy of the first."""
    (tmp_path / "raw").mkdir()
    write_csv(tmp_path / "raw/a.csv", motion_clip("walk", 12))
    shutil.copy(tmp_path / "raw/a.csv", tmp_path / "raw/b.csv")
    write_csv(tmp_path / "raw/c.csv", motion_clip("walk", 12, seed=3))
    (tmp_path / "datasets.yaml").write_text(CATALOGUE)
    return tmp_path


def told(root: Path) -> list[Finding]:
    """The findings of a run up to the store, on any result."""
    result = run(Project.open(root / "datasets.yaml"), ["walks"])
    assert all(r.ok for r in result.results), [r.error for r in result.results]
    return [f for r in result.results for f in r.checks.findings() if f.code == IDENTICAL]


def test_twins_are_named_each_time(root: Path) -> None:
    (finding,) = told(root)
    assert finding.severity is Severity.WARN
    assert finding.got == "a, b"
    assert "exclude" in str(finding.expected)
    assert (finding.place.file, finding.place.column) == ("datasets.yaml", "datasets.walks.raw")
    assert [f.got for f in told(root)] == ["a, b"]  # nothing is built, and it is still so


def test_excluding_one_ends_it(root: Path) -> None:
    told(root)
    text = CATALOGUE + "    exclude: [{recording: b.csv, reason: a copy of a.csv}]\n"
    (root / "datasets.yaml").write_text(text)
    result = run(Project.open(root / "datasets.yaml"), ["walks"])
    assert [f.got for r in result.results for f in r.checks.findings() if f.code == IDENTICAL] == []


def test_a_changed_byte_ends_it(root: Path) -> None:
    path = root / "raw/b.csv"
    path.write_text(path.read_text().replace("0.1", "0.2", 1))
    assert told(root) == []


def test_several_groups_are_several_findings(root: Path) -> None:
    for name in ("d", "e"):
        shutil.copy(root / "raw/c.csv", root / f"raw/{name}.csv")
    assert [f.got for f in told(root)] == ["a, b", "c, d, e"]


def test_what_was_not_ingested_is_not_judged(root: Path) -> None:
    assert len(findings_of_dataset(Project.open(root / "datasets.yaml"), "walks")) == 0
