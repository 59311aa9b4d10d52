"""Checks of raw recordings: each rule passes on a good file and fails on a broken one."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from trajpipe.core.findings import Severity
from trajpipe.pipeline.check_raw import check_raw
from trajpipe.testing import write_recording


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A good IsaacLab recording of two demos."""
    return write_recording(
        "isaaclab", tmp_path / "take.hdf5", episodes=2, rows=(8, 10), cameras=("front",), image_size=64
    )


def test_a_good_recording_passes_every_rule(recording: Path) -> None:
    report = check_raw(recording)
    assert report.passed
    assert [r.code for r in report.results] == ["raw-readable", "raw-episodes", "raw-reading"]
    assert str(report.results[1].counted) == "checked 2 of 2 episodes"


def test_a_broken_chunk_is_found_with_dataset_and_row(recording: Path) -> None:
    with h5py.File(recording) as file:
        info = file["data/demo_1/obs/front"].id.get_chunk_info(0)
    with recording.open("r+b") as handle:
        handle.seek(info.byte_offset + info.size // 2)
        handle.write(b"\xff" * 64)
    report = check_raw(recording)
    finding = next(iter(report.results[0].findings))
    assert (finding.code, finding.severity) == ("raw-readable", Severity.ERROR)
    assert (finding.place.column, finding.place.row) == ("data/demo_1/obs/front", 0)
    assert not report.passed


def test_an_episode_that_would_be_rejected_is_warned_about(recording: Path) -> None:
    with h5py.File(recording, "r+") as file:
        file["data/demo_0/actions"][2, 1] = np.inf
    report = check_raw(recording)
    assert report.passed
    finding = next(iter(report.results[1].findings))
    assert (finding.code, finding.severity, finding.place.demo) == ("nan-action", Severity.WARN, "demo_0")
    assert "row 2" in finding.message


def test_a_recording_without_demos_fails(recording: Path) -> None:
    with h5py.File(recording, "r+") as file:
        for name in list(file["data"]):
            del file["data"][name]
    report = check_raw(recording)
    finding = next(iter(report.results[1].findings))
    assert (finding.code, finding.severity) == ("no-demos", Severity.ERROR)


def test_a_file_of_no_known_kind_fails_with_the_kinds(tmp_path: Path) -> None:
    path = tmp_path / "table.hdf5"
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(3)
    report = check_raw(path)
    finding = next(iter(report.results[1].findings))
    assert finding.code == "unknown-kind"
    assert "isaaclab" in finding.message


def test_repairs_are_told(recording: Path) -> None:
    with h5py.File(recording, "r+") as file:
        file["data"].attrs["total"] = 999
    report = check_raw(recording)
    assert report.passed
    assert ("total-wrong", Severity.INFO) in {(f.code, f.severity) for f in report.results[2].findings}
