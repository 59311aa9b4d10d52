"""Stores in a LeRobot set's columns: what they hold, what stops them, and rules that find each fault.

What is not here: other layouts.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin  # noqa: F401 - registers zstd
import numpy as np
import pytest
from PIL import Image

from trajpipe.checks.registry import CheckResult
from trajpipe.core.errors import DiskSpaceError
from trajpipe.pipeline.build_store import build_store, check_store
from trajpipe.pipeline.convert import ConvertOptions, convert
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.run import run
from trajpipe.pipeline.store_lerobot import Moments
from trajpipe.pipeline.store_plan import LeRobotOptions, StorePlan
from trajpipe.testing import write_recording
from trajpipe_tests.sources.lerobot_folders import CAMERA, TASKS, Folder

SIZE = (24, 32)


@pytest.fixture(scope="module")
def l2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An L2 file of a set with a camera and tasks that change inside an episode."""
    folder = tmp_path_factory.mktemp("l2")
    root = Folder(tasks=[[2, 0, 1, 2, 0, 1, 2], [0] * 4, [1] * 5]).write(folder / "set")
    (result,) = convert([root], folder / "set.hdf5", "demos")
    assert result.ok, result.error
    return folder / "set.hdf5"


@pytest.fixture(scope="module")
def plan(l2: Path, tmp_path_factory: pytest.TempPathFactory) -> StorePlan:
    """A built store."""
    target = tmp_path_factory.mktemp("store") / "set.h5"
    made = StorePlan("set", (l2,), target, lerobot=LeRobotOptions(SIZE))
    result = build_store(made)
    assert result.ok, result.error
    return made


def test_columns_are_those_of_noeiras_importer(l2: Path, plan: StorePlan) -> None:
    with h5py.File(plan.target) as store, h5py.File(l2) as demos:
        found = {n: (store[n].shape, store[n].dtype.name) for n in ("qpos", "action", "task_index", "images")}
        assert found == {
            "qpos": ((16, 3), "float32"),
            "action": ((16, 2), "float32"),
            "task_index": ((16, 1), "int32"),
            "images": ((16, 1, 3, *SIZE), "uint8"),
        }
        state = np.concatenate([demos[f"data/demo_{i}/obs/state"][()] for i in range(3)])
        np.testing.assert_array_equal(store["qpos"][()], state)
        np.testing.assert_array_equal(store["task_index"][:7, 0], [0, 1, 2, 0, 1, 2, 0])
        picture = Image.fromarray(demos["data/demo_1/obs/front"][2])
        wanted = np.asarray(picture.resize((SIZE[1], SIZE[0]), Image.Resampling.BILINEAR))
        np.testing.assert_array_equal(store["images"][9, 0].transpose(1, 2, 0), wanted)
        for name in ("qpos", "action"):
            rows = store[name][()].astype(np.float64)
            np.testing.assert_allclose(store[f"norm_{name}_mean"][()], rows.mean(axis=0), atol=1e-7)
            np.testing.assert_allclose(store[f"norm_{name}_std"][()], rows.std(axis=0, ddof=1), rtol=1e-6)
        manifest = bytes(store["__manifest__"][()]).decode()
    assert [manifest.index(f'"{TASKS[i]}"') for i in (2, 0, 1)] == sorted(
        manifest.index(f'"{TASKS[i]}"') for i in (2, 0, 1)
    )


def test_a_column_that_stands_still_has_the_least_deviation() -> None:
    moments = Moments()
    rng = np.random.default_rng(0)
    rows = np.concatenate([np.full((300, 1), 5.0), 1e6 + rng.normal(size=(300, 1))], axis=1)
    for part in np.array_split(rows, 7):
        moments.add(part)
    np.testing.assert_allclose(moments.mean, rows.mean(axis=0))
    np.testing.assert_allclose(moments.std(), [1e-2, rows[:, 1].std(ddof=1)])


@pytest.mark.parametrize("size", [None, (240, 320)])
def test_images_keep_their_size_or_get_noeiras(l2: Path, tmp_path: Path, size: Any) -> None:
    result = build_store(StorePlan("set", (l2,), tmp_path / "s.h5", lerobot=LeRobotOptions(size)))
    assert result.ok, result.error
    with h5py.File(tmp_path / "s.h5") as store:
        assert store["images"].shape[1:] == (1, 3, *(size or (32, 48)))


def test_other_recordings_give_their_terms_in_the_declared_order(tmp_path: Path) -> None:
    raw = write_recording(
        "isaaclab", tmp_path / "a.hdf5", episodes=2, rows=(8, 9), seed=1, cameras=(), format_version=1
    )
    store = {"terms": ("joint_pos", "eef_*")}
    *_, result = convert([raw], tmp_path / "s.h5", "store", ConvertOptions(layout="lerobot", store=store))
    assert result.ok, result.error
    with h5py.File(raw) as file, h5py.File(tmp_path / "s.h5") as made:
        obs = file["data/demo_0/obs"]
        rows = np.concatenate([obs[t][()] for t in ("joint_pos", "eef_pos", "eef_quat")], axis=1)
        np.testing.assert_array_equal(made["qpos"][: len(rows)], rows)
        assert "images" not in made


def test_a_term_that_is_not_there_is_named(l2: Path, tmp_path: Path) -> None:
    result = build_store(
        StorePlan("set", (l2,), tmp_path / "s.h5", terms=("nobody",), lerobot=LeRobotOptions(SIZE))
    )
    assert result.error is not None
    assert "no nobody; expected some of state" in result.error


def test_too_little_disk_stops_before_the_first_row(
    l2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from collections import namedtuple

    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("trajpipe.core.atomic.shutil.disk_usage", lambda _: usage(10, 9, 1))
    result = build_store(StorePlan("set", (l2,), tmp_path / "s.h5", lerobot=LeRobotOptions(SIZE)))
    assert result.checks.results[0].code == DiskSpaceError.code
    assert "bytes for s.h5" in str(result.error)
    assert not (tmp_path / "s.h5").exists()


def ran(plan: StorePlan, code: str) -> CheckResult:
    """One rule on a plan's store."""
    (found,) = (r for r in check_store(plan, plan.target).results if r.code == code)
    return found


@pytest.fixture
def broken(plan: StorePlan, tmp_path: Path) -> Callable[[Callable[[h5py.File], None]], StorePlan]:
    """A function that copies the store, changes it, and gives its plan."""
    from dataclasses import replace
    from shutil import copy

    def make(change: Callable[[h5py.File], None]) -> StorePlan:
        target = Path(copy(plan.target, tmp_path / "set.h5"))
        with h5py.File(target, "r+") as file:
            change(file)
        return replace(plan, target=target)

    return make


def swap(name: str) -> Callable[[h5py.File], None]:
    """Rows 3 and 4 of a column exchanged."""

    def change(file: h5py.File) -> None:
        rows = file[name][()]
        rows[[8, 9]] = rows[[9, 8]]
        file[name][...] = rows

    return change


def add(name: str, by: float) -> Callable[[h5py.File], None]:
    """All values of a dataset moved."""

    def change(file: h5py.File) -> None:
        file[name][...] = file[name][()] + np.asarray(by, file[name].dtype)

    return change


def renamed(old: str, new: str) -> Callable[[h5py.File], None]:
    """A dataset under another name."""

    def change(file: h5py.File) -> None:
        file.move(old, new)

    return change


CODES = ("store-lerobot-columns", "store-lerobot-rows", "store-lerobot-images", "store-lerobot-norms")


@pytest.mark.parametrize("code", CODES)
def test_every_rule_passes_on_a_good_store(plan: StorePlan, code: str) -> None:
    found = ran(plan, code)
    assert found.passed, list(found.findings)
    assert found.counted is not None
    assert found.counted.checked > 0


@pytest.mark.parametrize(
    ("code", "change", "said"),
    [
        ("store-lerobot-rows", swap("qpos"), ("episode_000001", "qpos", 1)),
        ("store-lerobot-rows", add("task_index", 1), ("episode_000000", "task_index", 0)),
        ("store-lerobot-images", add("images", 1), ("episode_000000", "obs/front", 0)),
        ("store-lerobot-norms", add("norm_action_std", 0.001), (None, "norm_action_std", None)),
        ("store-lerobot-norms", add("norm_qpos_mean", 0.001), (None, "norm_qpos_mean", None)),
        ("store-lerobot-norms", renamed("norm_qpos_std", "norm_qpos_var"), (None, "norm_qpos_std", None)),
    ],
)
def test_every_rule_names_what_it_found(broken: Any, code: str, change: Any, said: Any) -> None:
    found = ran(broken(change), code)
    assert not found.passed
    place = found.findings.kept[0].place
    assert ((place.demo or "").rpartition(":")[2] or None, place.column, place.row) == said


def test_another_column_and_dtype_are_found(broken: Any) -> None:
    def change(file: h5py.File) -> None:
        text = bytes(file["__manifest__"][()]).replace(
            b"column=task_index:int32:1", b"column=task_indix:int32:1"
        )
        file["__manifest__"][...] = np.frombuffer(text, np.uint8)
        file.move("task_index", "task_indix")

    found = ran(broken(change), "store-lerobot-columns")
    assert [f.place.column for f in found.findings] == ["task_index", None]


def test_the_catalogue_asks_for_the_layout(tmp_path: Path) -> None:
    root = tmp_path / "data"
    Folder().write(root / "raw/set")
    (root / "datasets.yaml").write_text(
        "version: 1\ndatasets:\n  set:\n    raw:\n      - {kind: lerobot, glob: raw/*}\n"
        "    license: mit\n    store: {layout: lerobot, image_size: [24, 32]}\n"
    )
    result = run(Project.open(root / "datasets.yaml"))
    assert result.ok, [r.error for r in result.results]
    with h5py.File(root / "stores/set.h5") as store:
        assert store["images"].shape == (16, 1, 3, 24, 32)
    assert (root / "lerobot/set/videos/chunk-000" / CAMERA).is_dir()
