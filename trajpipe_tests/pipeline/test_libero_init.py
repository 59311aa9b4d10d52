"""Stores of LIBERO's initial-state tables: read without unpickling, remapped by name, checked with MuJoCo."""

from __future__ import annotations

import os
import pickle
import shutil
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from trajpipe.core.errors import InputError, SchemaError, TrajpipeError, UsageError
from trajpipe.core.findings import Severity
from trajpipe.mjcf.document import parse
from trajpipe.mjcf.joints import joint_table
from trajpipe.pipeline.convert import ConvertOptions, convert
from trajpipe.pipeline.init_store import (
    InitPlan,
    build_init_store,
    check_init_store,
    model_text,
    read_table,
)
from trajpipe.pipeline.results import Status
from trajpipe.pipeline.store_plan import LiberoOptions
from trajpipe.testing import write_recording

TASK = "put_the_bowl_on_the_plate"


def write_table(path: Path, value: Any) -> Path:
    """A file as `torch.save` writes it: a stored zip with `archive/data.pkl`."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(value, protocol=2))
        archive.writestr("archive/version", "3\n")
    return path


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording and a table of 6 initial states of its scene."""
    folder = tmp_path_factory.mktemp("init")
    raw = write_recording(
        "libero", folder / f"{TASK}_demo.hdf5", episodes=1, rows=(6, 6), image_size=64, cameras=()
    )
    with h5py.File(raw) as file:
        states = file["data/demo_0/states"][()]
    states[:, 0] = 0
    write_table(folder / f"{TASK}.pruned_init", states)
    return folder


def plan_of(scene: Path, target: Path) -> InitPlan:
    """The plan of the table's store."""
    table, model = scene / f"{TASK}.pruned_init", scene / f"{TASK}_demo.hdf5"
    return InitPlan("goal", (table,), model, target, LiberoOptions("libero_goal"))


def test_a_table_becomes_a_store_in_the_targets_joint_order(scene: Path, tmp_path: Path) -> None:
    result = build_init_store(plan_of(scene, tmp_path / "init.h5"))
    assert result.ok, [str(f) for f in result.checks.findings()]
    assert result.facts == {"episodes": 1, "rows": 6, "columns": 2, "tasks": 10}
    codes = [r.code for r in result.checks.results]
    assert {"libero-init-ulp", "libero-init-fk"} <= set(codes)
    recorded = read_table(scene / f"{TASK}.pruned_init")
    theirs = joint_table(parse(model_text(scene / f"{TASK}_demo.hdf5")))
    with h5py.File(tmp_path / "init.h5") as file:
        rows = file["init_state"][()]
        assert rows.shape == (6, 78)
        assert rows.dtype == np.float64
        assert set(file["task_index"][()].ravel()) == {3}
        manifest = bytes(file["__manifest__"][()]).decode().splitlines()
    assert manifest[1] == "env_id=libero_init:libero_goal"
    drawer = next(j for j in theirs.joints[9:] if j.type != "free")
    np.testing.assert_array_equal(rows[:, 9], recorded[:, 1 + drawer.qpos])
    assert build_init_store(plan_of(scene, tmp_path / "init.h5")).status is Status.UNCHANGED


def test_swapped_words_are_caught_by_value_and_by_pose(scene: Path, tmp_path: Path) -> None:
    build_init_store(plan_of(scene, tmp_path / "init.h5"))
    shutil.copy(tmp_path / "init.h5", tmp_path / "copy.h5")
    with h5py.File(tmp_path / "copy.h5", "r+") as file:
        rows = file["init_state"][()]
        rows[:, [0, 3]] = rows[:, [3, 0]]
        file["init_state"][...] = rows
        file["task_index"][...] = 2
    report = check_init_store(plan_of(scene, tmp_path / "copy.h5"), tmp_path / "copy.h5")
    found = {r.code: list(r.findings) for r in report.results if not r.passed}
    assert sorted(found) == ["libero-init-fk", "libero-init-ulp"]
    assert "another task index" in found["libero-init-ulp"][0].message
    assert "robot0_joint1 qpos" in found["libero-init-ulp"][1].message
    assert found["libero-init-fk"][0].severity is Severity.ERROR


class Evil:
    """Runs a command when unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.path}",)


def test_a_table_that_would_run_code_is_refused_and_runs_nothing(scene: Path, tmp_path: Path) -> None:
    table = write_table(tmp_path / f"{TASK}.pruned_init", Evil(tmp_path / "ran"))
    with pytest.raises(TrajpipeError, match="system"):
        read_table(table)
    plan = InitPlan(
        "x", (table,), scene / f"{TASK}_demo.hdf5", tmp_path / "x.h5", LiberoOptions("libero_goal")
    )
    assert build_init_store(plan).status is Status.FAILED
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "x.h5").exists()


@pytest.mark.parametrize("value", [np.zeros((2, 3), np.float32), np.zeros(4), {"a": 1}])
def test_what_is_not_a_matrix_of_states_is_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises(SchemaError, match=r"float64 \(N, W\)"):
        read_table(write_table(tmp_path / "t.init", value))


def test_a_table_of_another_scene_is_refused_with_the_counts(scene: Path, tmp_path: Path) -> None:
    table = write_table(tmp_path / f"{TASK}.init", np.zeros((2, 45)))
    plan = InitPlan(
        "x", (table,), scene / f"{TASK}_demo.hdf5", tmp_path / "x.h5", LiberoOptions("libero_goal")
    )
    result = build_init_store(plan)
    assert result.status is Status.FAILED
    assert "41 + 37" in str(next(result.checks.findings()))


def test_a_recording_without_a_model_is_refused(scene: Path, tmp_path: Path) -> None:
    copy = tmp_path / "x_demo.hdf5"
    shutil.copy(scene / f"{TASK}_demo.hdf5", copy)
    with h5py.File(copy, "r+") as file:
        del file["data/demo_0"].attrs["model_file"]
    with pytest.raises(InputError, match="no model"):
        model_text(copy)


def test_the_command_needs_the_scene(scene: Path, tmp_path: Path) -> None:
    table = scene / f"{TASK}.pruned_init"
    with pytest.raises(UsageError, match="--scene"):
        convert([table], tmp_path / "x.h5", "store")
    options = ConvertOptions(scene=scene / f"{TASK}_demo.hdf5", libero={"suite": "libero_goal"})
    (result,) = convert([table], tmp_path / "x.h5", "store", options)
    assert result.ok, result.error


@pytest.mark.shared
def test_liberos_own_tables_come_out_exact(shared_data: Path, tmp_path: Path) -> None:
    folder = shared_data / "libero"
    task = "KITCHEN_SCENE10_close_the_top_drawer_of_the_cabinet"
    for suffix, count in ((".pruned_init", 50), (".init", 100)):
        plan = InitPlan(
            "libero_90",
            (folder / "init_files" / f"{task}{suffix}",),
            folder / f"{task}_demo.hdf5",
            tmp_path / f"x{suffix}.h5",
            LiberoOptions("libero_90"),
        )
        result = build_init_store(plan)
        assert result.ok, [str(f) for f in result.checks.findings()]
        assert result.facts["rows"] == count
        measures = {k: v for r in result.checks.results for k, v in r.measures.items()}
        assert measures["values_compared"] == count * 76
        assert measures["worst_ulp"] == 0
        assert measures["worst_relative_m"] < 1e-9
