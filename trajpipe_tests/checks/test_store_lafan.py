"""Each rule of a motion store passes on a good one and finds its own damage.

What is not here: the numbers themselves, see `motion/test_rows.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from trajpipe.checks.registry import run_checks
from trajpipe.core.findings import Severity
from trajpipe.motion.g1 import g1
from trajpipe.motion.skeleton_mjcf import mjcf_of
from trajpipe_tests.checks.motion_files import MotionFiles, made_in

RULES = (
    "lafan-columns", "lafan-clips", "lafan-quaternions", "lafan-joint-limits", "lafan-feet",
    "lafan-kinematics", "lafan-velocities", "lafan-observations",
)  # fmt: skip
# Rows of the second clip begin here: ceil(23/30/0.02).
SECOND = 39


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> MotionFiles:
    """A good store and its L2 file."""
    return made_in(tmp_path_factory.mktemp("motions"))


@pytest.mark.parametrize("code", RULES)
def test_a_good_store_passes(files: MotionFiles, code: str) -> None:
    result = files.result(code, files.store)
    assert result.passed, [str(f) for f in result.findings]
    assert result.findings.count(Severity.WARN) == 0
    assert result.counted is not None
    assert result.counted.checked > 0


def test_the_store_without_its_context_skips_the_rules(files: MotionFiles) -> None:
    report = run_checks("store", files.store, select=["lafan-*"])
    assert report.results == []
    assert sorted(report.skipped) == sorted(RULES)


def _add(name: str, row: int, dim: int, value: float) -> Callable[[h5py.File], None]:
    def change(file: h5py.File) -> None:
        rows = file[name][row]
        rows[dim] += value
        file[name][row] = rows

    return change


def _put(name: str, value: Any) -> Callable[[h5py.File], None]:
    def change(file: h5py.File) -> None:
        del file[name]
        if value is not None:
            file[name] = value

    return change


def _negate(file: h5py.File) -> None:
    file["body_quat"][0] = -file["body_quat"][0]
    row = file["qpos"][0]
    row[3:7] *= -1
    file["qpos"][0] = row


def _scale(file: h5py.File) -> None:
    file["body_quat"][4] = file["body_quat"][4] * 1.01


def _mirror(file: h5py.File) -> None:
    rows = file["body_pos"][()].reshape(-1, 31, 3)
    rows[:, [1, 7]] = rows[:, [7, 1]]
    file["body_pos"][()] = rows.reshape(-1, 93)


def _turned(file: h5py.File) -> None:
    """One body's rotation, two hundredths of a radian off."""
    row = file["body_quat"][7].reshape(31, 4).astype(np.float64)
    row[5, :3] += 0.01 * np.cross(row[5, :3], [1, 0, 0]) + 0.01 * row[5, 3] * np.array([1, 0, 0])
    row[5] /= np.linalg.norm(row[5])
    file["body_quat"][7] = row.reshape(-1)


def _spins(file: h5py.File) -> None:
    file["body_ang_vel"][()] = file["body_ang_vel"][()] * 2 + 0.1


def _root_velocity(file: h5py.File) -> None:
    file["qvel"][0] = np.roll(file["qvel"][0], 3)


def _last_joint_velocity(file: h5py.File) -> None:
    """What a plain `np.gradient` would give: not the contract's slice."""
    file["qvel"][SECOND - 1] = file["qvel"][SECOND - 1] + np.float32(0.01)


def test_columns_of_another_kind_are_named(files: MotionFiles, tmp_path: Path) -> None:
    def change(file: h5py.File) -> None:
        text = bytes(file["__manifest__"][()]).decode()
        text = text.replace("column=qvel:float32:35", "column=qvel:float64:34").replace(
            "motion_id", "motion_no"
        )
        del file["__manifest__"]
        file["__manifest__"] = np.frombuffer(text.encode(), np.uint8)

    result = files.result("lafan-columns", files.damaged(tmp_path, change))
    assert [(f.place.column, f.got) for f in result.findings] == [
        ("motion_id", "absent"),
        ("motion_no", "('int32', ())"),
        ("qvel", "('float64', (34,))"),
    ]


@pytest.mark.parametrize(
    ("change", "column", "match"),
    [
        (_put("motion_key", np.array([b"a_walk", b"x", b"c_lie"])), "motion_key", "names the clip"),
        (_put("motion_key", None), "motion_key", "names the clip"),
        (_put("env_dt", np.array([0.03])), "env_dt", "contract's values"),
        (_put("env_dt", None), "env_dt", "contract's values"),
        (_put("default_dof_pos", np.zeros(29, np.float32)), "default_dof_pos", "contract's values"),
    ],
)
def test_wrong_tables_are_named(
    files: MotionFiles, tmp_path: Path, change: Callable[[h5py.File], None], column: str, match: str
) -> None:
    result = files.result("lafan-clips", files.damaged(tmp_path, change))
    assert not result.passed
    assert {f.place.column for f in result.findings} == {column}
    assert any(match in f.message for f in result.findings)


def test_ids_and_row_counts_follow_the_clips(files: MotionFiles, tmp_path: Path) -> None:
    def ids(file: h5py.File) -> None:
        file["motion_id"][SECOND + 1] = 0

    found = list(files.result("lafan-clips", files.damaged(tmp_path, ids)).findings)
    assert [(f.place.column, f.place.demo) for f in found] == [("motion_id", "motions.pkl:b_fast")]

    def lengths(file: h5py.File) -> None:
        file["ep_len"][0] -= 1
        file["ep_len"][1] += 1
        file["ep_offset"][1] -= 1

    found = list(files.result("lafan-clips", files.damaged(tmp_path, lengths)).findings)
    assert ("ep_len", "38", "39") in [(f.place.column, f.got, f.expected) for f in found]

    def fewer(file: h5py.File) -> None:
        for name in ("ep_len", "ep_offset"):
            values = file[name][:-1]
            del file[name]
            file[name] = values

    result = files.result("lafan-clips", files.damaged(tmp_path, fewer))
    assert "fewer episodes" in next(iter(result.findings)).message


def test_more_episodes_than_clips_is_an_error(files: MotionFiles, tmp_path: Path) -> None:
    def change(file: h5py.File) -> None:
        del file["data/demo_2"]

    l2 = files.damaged(tmp_path, change, of="l2")
    context = {"lafan": {"l2": [l2], "model": None, "demos_per_task": None}}
    result = files.result("lafan-clips", files.store, context=context)
    assert "more episodes" in next(iter(result.findings)).message


@pytest.mark.parametrize(
    ("code", "change", "column", "row"),
    [
        ("lafan-quaternions", _negate, "body_quat", 0),
        ("lafan-quaternions", _scale, "body_quat", 4),
        ("lafan-quaternions", _add("qpos", 3, 4, 0.1), "qpos", 3),
        ("lafan-joint-limits", _add("qpos", 3, 10, 3.0), "qpos", 3),
        ("lafan-kinematics", _add("body_pos", 2, 40, 1e-3), "body_pos", 2),
        ("lafan-kinematics", _add("qpos", 2, 0, 1e-3), "qpos", 2),
        ("lafan-kinematics", _add("qpos", 2, 20, 1e-3), "qpos", 2),
        ("lafan-kinematics", _mirror, "body_pos", 0),
        ("lafan-kinematics", _turned, "body_quat", 7),
        ("lafan-kinematics", _add("body_pos", 8, 0, float("nan")), "body_pos", 8),
        ("lafan-velocities", _add("body_vel", 2, 40, 1e-3), "body_vel", 2),
        ("lafan-velocities", _last_joint_velocity, "qvel", SECOND - 1),
        ("lafan-velocities", _root_velocity, "qvel", None),
        ("lafan-velocities", _spins, "body_ang_vel", 0),
        ("lafan-observations", _add("state", 5, 0, 1e-3), "state", 5),
        ("lafan-observations", _add("state", 5, 59, 1e-3), "state", 5),
        ("lafan-observations", _add("privileged", 5, 0, 1e-3), "privileged", 5),
        ("lafan-observations", _add("privileged", 5, 462, 1e-3), "privileged", 5),
        ("lafan-observations", _add("body_quat", 5, 17, 0.05), "privileged", 5),
    ],
)  # fmt: skip
def test_damage_is_found_at_its_place(
    files: MotionFiles,
    tmp_path: Path,
    code: str,
    change: Callable[[h5py.File], None],
    column: str,
    row: int | None,
) -> None:
    result = files.result(code, files.damaged(tmp_path, change))
    found = [f for f in result.findings if f.severity is not Severity.INFO]
    assert found
    assert (column, row) in [(f.place.column, f.place.row) for f in found]
    assert result.passed is (code == "lafan-joint-limits")


def test_joint_limits_count_and_name_the_worst(files: MotionFiles, tmp_path: Path) -> None:
    result = files.result("lafan-joint-limits", files.damaged(tmp_path, _add("qpos", 3, 10, 3.0)))
    (finding,) = result.findings
    assert finding.got is not None
    assert finding.got.startswith("left_knee_joint")
    assert finding.expected == "-0.0873 to 2.8798"
    assert result.measures["joint_values_outside"] == 1
    assert result.measures["worst_rad_outside"] > 0.5


def test_another_models_kinematics_are_told(files: MotionFiles) -> None:
    """The store of one revision does not pass for that of another."""
    text = mjcf_of(g1()).replace("-0.17734", "-0.18734")
    assert text != mjcf_of(g1())
    context = {"lafan": {"l2": [files.l2], "model": text, "demos_per_task": None}}
    assert not files.result("lafan-kinematics", files.store, context=context).passed
    same = {"lafan": {"l2": [files.l2], "model": mjcf_of(g1()), "demos_per_task": None}}
    assert files.result("lafan-kinematics", files.store, context=same).passed


def test_feet_are_measured(files: MotionFiles, tmp_path: Path) -> None:
    good = files.result("lafan-feet", files.store).measures

    def sink(file: h5py.File) -> None:
        rows = file["body_pos"][()].reshape(-1, 31, 3)
        rows[:, :, 2] -= 1.0
        file["body_pos"][()] = rows.reshape(-1, 93)

    deep = files.result("lafan-feet", files.damaged(tmp_path, sink)).measures
    assert deep["penetration_m"] == pytest.approx(good["penetration_m"] + 1.0, abs=1e-3)
    assert deep["contact_share"] == pytest.approx(1.0, abs=0.35)
    assert deep["skate_mean_m_per_s"] > 0


def test_what_is_no_robot_is_refused(files: MotionFiles) -> None:
    for text, match in (("<mujoco/>", "moves freely"), ("<xml/>", "not MJCF")):
        context = {"lafan": {"l2": [files.l2], "model": text, "demos_per_task": None}}
        result = files.result("lafan-kinematics", files.store, context=context)
        assert match in next(iter(result.findings)).message
