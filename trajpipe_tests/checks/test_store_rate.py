"""The rule of a store's rate passes where manifest, table and motion agree, and finds each that doesn't.

What is not here: what a store's rate is read as, see `store/test_rate.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from trajpipe.checks.registry import CheckResult, run_checks
from trajpipe.checks.store_rate import BLOCK_ROWS
from trajpipe.core.findings import Severity
from trajpipe.store import ColumnSpec, TrajectoryStoreWriter
from trajpipe.testing.lafan import motion_clip
from trajpipe_tests.checks.motion_files import MotionFiles, made_in, made_of


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> MotionFiles:
    """A motion store of three clips at 30 fps, and its L2 file."""
    return made_in(tmp_path_factory.mktemp("motions"))


def rule(path: Path) -> CheckResult:
    """The rule alone, without any context."""
    (result,) = run_checks("store", path, select=["store-rate"]).results
    return result


def said(fps: str | None) -> Callable[[h5py.File], None]:
    """An edit of the manifest: `fps` becomes this; None takes the line away."""

    def change(file: h5py.File) -> None:
        lines = bytes(file["__manifest__"][()]).decode().splitlines()
        lines = [one for one in lines if not one.startswith("fps=")]
        lines += [] if fps is None else [f"fps={fps}"]
        del file["__manifest__"]
        file["__manifest__"] = np.frombuffer(("\n".join(lines) + "\n").encode(), np.uint8)

    return change


def plain(path: Path, fps: str) -> Path:
    """A store of no motion that says this rate."""
    extra = {"fps": fps} if fps else {}
    with TrajectoryStoreWriter(path, [ColumnSpec("action", "float32", (2,))], extra=extra) as writer:
        writer.append(action=np.zeros((4, 2), np.float32))
        writer.end_episode()
    return path


def test_a_motion_store_says_fifty_and_moves_at_it(files: MotionFiles) -> None:
    result = rule(files.store)
    assert result.passed, [str(f) for f in result.findings]
    assert 30 * 1.1 < result.measures["rate_by_velocity_hz"] < 50 * 1.05


def test_the_clips_own_rate_is_found_by_the_table(files: MotionFiles, tmp_path: Path) -> None:
    """What stores built before the layout had a rate of its own said."""
    (found,) = rule(files.damaged(tmp_path, said("30"))).findings
    assert (found.place.column, found.got, found.severity) == ("env_dt", "30 Hz", Severity.ERROR)
    assert found.expected == "50 Hz"


def test_movement_warns_when_manifest_and_table_agree_on_a_wrong_rate(
    files: MotionFiles, tmp_path: Path
) -> None:
    def change(file: h5py.File) -> None:
        said("20")(file)
        file["env_dt"][0] = 1 / 20

    found = list(rule(files.damaged(tmp_path, change)).findings)
    assert {(f.place.column, f.severity) for f in found} == {("body_vel", Severity.WARN)}


def test_a_motion_store_of_other_tools_has_its_table_alone(files: MotionFiles, tmp_path: Path) -> None:
    assert rule(files.damaged(tmp_path, said(None))).passed

    def slow(file: h5py.File) -> None:
        said(None)(file)
        file["env_dt"][0] = 0.05

    (found,) = rule(files.damaged(tmp_path, slow)).findings
    assert (found.got, found.severity) == ("20 Hz", Severity.WARN)


def test_a_still_motion_is_not_judged_by_its_movement(tmp_path: Path) -> None:
    still = made_of(tmp_path, {"lie": motion_clip("lie", 30)})
    result = rule(still.store)
    assert result.passed
    assert "rate_by_velocity_hz" not in result.measures


def test_clips_longer_than_a_block_are_read_whole(tmp_path: Path) -> None:
    """The second block moves faster than its velocities say, the first does not."""
    rows = BLOCK_ROWS + 5000
    speed = np.full((rows, 93), 1.0, np.float32)
    speed[BLOCK_ROWS:] *= 10
    columns = {
        "body_pos": np.cumsum(np.full((rows, 93), 0.02), axis=0).astype(np.float32),
        "body_vel": speed,
        "motion_id": np.zeros(rows, np.int32),
    }
    specs = [ColumnSpec(n, a.dtype, a.shape[1:]) for n, a in columns.items()]
    with TrajectoryStoreWriter(tmp_path / "x.h5", specs, extra={"fps": "50"}) as writer:
        writer.append(**columns)
        writer.end_episode()
    assert {f.place.column for f in rule(tmp_path / "x.h5").findings} == {"body_vel"}


@pytest.mark.parametrize("fps", ["20", "30000/1001", "29.97", ""])
def test_a_rate_of_any_form_is_fine(tmp_path: Path, fps: str) -> None:
    assert rule(plain(tmp_path / "x.h5", fps)).passed


@pytest.mark.parametrize("fps", ["0", "-20", "nan", "inf", "fast", "1/0", "0/7", "1e999999999", "20 Hz", "٣"])
def test_a_text_that_is_no_rate_is_an_error(tmp_path: Path, fps: str) -> None:
    (found,) = rule(plain(tmp_path / "x.h5", fps)).findings
    assert found.place.column == "__manifest__"
    assert found.got == fps
