"""Quality facts of demos: measured, filtered only on request, with a floor on what must stay."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from trajpipe.checks.demos import validate
from trajpipe.core.episode import ArrayColumn, Episode
from trajpipe.core.findings import Severity
from trajpipe.core.ledger import Rejection
from trajpipe.core.names import Stage
from trajpipe.demos.quality import Quality, QualityLimits, beyond, quality_of
from trajpipe.demos.select import Filters, too_few_kept
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.results import Status
from trajpipe.pipeline.run import RunOptions, run
from trajpipe.testing import write_recording


def episode(actions: np.ndarray) -> Episode:
    """An episode with these actions."""
    return Episode("demo_0", len(actions), {"actions": ArrayColumn(actions)}, source_file="a.hdf5")


def idle(rows: int, still: int) -> np.ndarray:
    """Actions of which the first `still` do nothing, gripper open throughout."""
    actions = np.full((rows, 4), 0.5, np.float32)
    actions[:still, :3] = 0
    actions[:, 3] = 1
    return actions


def test_a_step_is_idle_when_the_arm_rests_and_the_gripper_stays() -> None:
    assert quality_of(episode(idle(10, 4))) == Quality(rows=10, noop_steps=4, saturated=0.0)
    grips = idle(10, 4)
    grips[2:, 3] = -1
    assert quality_of(episode(grips)).noop_steps == 3
    assert quality_of(episode(np.zeros((5, 1), np.float32))).noop_steps == 5


def test_saturation_leaves_the_gripper_out() -> None:
    actions = idle(10, 0)
    actions[:5, 0] = -1
    assert quality_of(episode(actions)).saturated == pytest.approx(5 / 30)


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (QualityLimits(), None),
        (QualityLimits(max_noop_fraction=0.4), None),
        (QualityLimits(max_noop_fraction=0.39), "no-ops"),
        (QualityLimits(max_length=9), "too-long"),
        (QualityLimits(max_saturated=0.0), None),
    ],
)
def test_limits_refuse_with_a_reason(limits: QualityLimits, reason: str | None) -> None:
    found = beyond(episode(idle(10, 4)), limits)
    assert (found.reason if found else None) == reason
    if reason == "no-ops":
        assert found == Rejection("a.hdf5", "demo_0", "no-ops", "0.4, at most 0.39 asked")


def test_a_floor_on_what_must_stay() -> None:
    rejected = [Rejection("a.hdf5", f"demo_{i}", "no-ops") for i in range(3)]
    assert too_few_kept("a.hdf5", 1, rejected, Filters(min_kept=0.25)) is None
    error = too_few_kept("a.hdf5", 1, rejected, Filters(min_kept=0.5))
    assert error is not None
    assert error.code == "too-few-kept"
    assert "1 of 4 demos (3 no-ops); expected at least 50%" in str(error)
    assert too_few_kept("a.hdf5", 0, [], Filters(min_kept=1)) is None


def write_idle(root: Path, filters: str) -> Project:
    """A project whose recording has one idle demo of two."""
    raw = write_recording("isaaclab", root / "raw/a.hdf5", episodes=2, rows=(8, 8), cameras=())
    with h5py.File(raw, "r+") as file:
        file["data/demo_1/actions"][...] = 0
    (root / "datasets.yaml").write_text(
        f"version: 1\ndatasets:\n  d:\n    raw: [{{kind: isaaclab, glob: raw/*.hdf5}}]\n{filters}"
    )
    return Project.open(root / "datasets.yaml")


def test_quality_is_measured_and_never_filters_silently(tmp_path: Path) -> None:
    (result,) = run(write_idle(tmp_path, ""), options=RunOptions(stages=(Stage.DEMOS,))).results
    assert result.ok
    assert result.ledger.summary() == "read 2 · written 2 · rejected 0"
    measured = next(r for r in validate(result.path).results if r.code == "demos-quality")
    assert measured.measures["worst_noop_fraction"] == 1.0
    assert str(measured.counted) == "checked 2 of 2 demos"
    (finding,) = measured.findings
    assert (finding.severity, finding.place.demo, finding.got) == (
        Severity.WARN,
        "demo_1",
        "100% of the steps",
    )


def test_a_filter_is_configuration_with_reasons_in_the_ledger(tmp_path: Path) -> None:
    project = write_idle(tmp_path, "    filter: {max_noop_fraction: 0.9}\n")
    (result,) = run(project, options=RunOptions(stages=(Stage.DEMOS,))).results
    assert result.ledger.summary() == "read 2 · written 1 · rejected 1 (1 no-ops)"


def test_a_filter_that_takes_too_much_is_an_error(tmp_path: Path) -> None:
    project = write_idle(tmp_path, "    filter: {max_noop_fraction: 0.9, min_kept: 0.8}\n")
    (result,) = run(project, options=RunOptions(stages=(Stage.DEMOS,))).results
    assert result.status is Status.FAILED
    assert next(result.checks.findings()).code == "too-few-kept"
