"""Generated IsaacLab recordings against the recorder's rules and the real recordings' layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from trajpipe.core.quaternions import rotate_xyzw, wxyz_to_xyzw
from trajpipe.testing import isaaclab, write_recording


def _tree(group: h5py.Group) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Path → (dtype, shape without the row axis)."""
    found: dict[str, tuple[str, tuple[int, ...]]] = {}
    group.visititems(
        lambda name, item: (
            found.__setitem__(name, (item.dtype.str, item.shape[1:]))
            if isinstance(item, h5py.Dataset)
            else None
        )
    )
    return found


def _attributes(item: Any) -> dict[str, tuple[str, str]]:
    """Name → (numpy type, stored dtype)."""
    return {k: (type(v).__name__, str(item.attrs.get_id(k).dtype)) for k, v in item.attrs.items()}


LEGACY: dict[str, Any] = {
    "task": "stack",
    "format_version": None,
    "gzip": False,
    "sim_args": False,
    "cameras": (),
    "episodes": 2,
    "rows": (8, 12),
}


@pytest.mark.shared
@pytest.mark.parametrize(("real", "mimic"), [("dataset.hdf5", False), ("annotated_dataset.hdf5", True)])
def test_a_legacy_file_has_the_layout_of_the_real_one(
    real: str, mimic: bool, tmp_path: Path, shared_data: Path
) -> None:
    made = write_recording("isaaclab", tmp_path / "made.hdf5", datagen_info=mimic, **LEGACY)
    with h5py.File(made) as ours, h5py.File(shared_data / "isaaclab" / real) as theirs:
        assert _attributes(ours) == _attributes(theirs)
        assert _attributes(ours["data"]) == _attributes(theirs["data"])
        assert _attributes(ours["data/demo_0"]) == _attributes(theirs["data/demo_0"])
        assert ours["data"].attrs["env_args"] == theirs["data"].attrs["env_args"]
        mine, yours = _tree(ours["data/demo_0"]), _tree(theirs["data/demo_0"])
        # the real task has a second grasp and a stack to annotate
        for signal in ("grasp_2", "stack_1"):
            yours.pop(f"obs/datagen_info/subtask_term_signals/{signal}", None)
        assert mine == yours
        assert ours["data/demo_0/actions"].chunks is theirs["data/demo_0/actions"].chunks is None


@pytest.mark.shared
def test_a_legacy_file_has_the_ranges_of_the_real_one(tmp_path: Path, shared_data: Path) -> None:
    made = write_recording("isaaclab", tmp_path / "made.hdf5", **(LEGACY | {"rows": (150, 200)}))
    with h5py.File(made) as ours, h5py.File(shared_data / "isaaclab/dataset.hdf5") as theirs:
        for path in ("actions", "obs/eef_pos", "obs/joint_pos", "obs/cube_positions", "obs/object"):
            a, b = ours["data/demo_0"][path][...], theirs["data/demo_0"][path][...]
            low, high = b.min(axis=0) - 0.8, b.max(axis=0) + 0.8
            assert ((a >= low) & (a <= high)).all(), path


def test_counts_and_attribute_types(tmp_path: Path) -> None:
    path = write_recording("isaaclab", tmp_path / "x.hdf5", cameras=(), seeds=True, failures=(1,))
    with h5py.File(path) as handle:
        demos = list(handle["data"].values())
        assert handle.attrs["format_version"] == 1
        assert handle["data"].attrs["total"] == sum(d["actions"].shape[0] for d in demos)
        for index, demo in enumerate(demos):
            assert demo.attrs["num_samples"] == demo["actions"].shape[0]
            assert isinstance(demo.attrs["success"], np.bool_)
            assert demo.attrs["success"] == (index != 1)
            assert isinstance(demo.attrs["seed"], np.int64)
        args = json.loads(handle["data"].attrs["env_args"])
        assert args["env_name"] == "Isaac-Lift-Cube-Franka-IK-Abs-v0"
        assert args["type"] == 2
        assert args["sim_args"]["dt"] * args["sim_args"]["decimation"] == pytest.approx(1 / 20)


def test_obs_precede_and_states_follow_the_action(tmp_path: Path) -> None:
    path = write_recording("isaaclab", tmp_path / "x.hdf5", episodes=1, cameras=())
    with h5py.File(path) as handle:
        demo = handle["data/demo_0"]
        joints = demo["obs/joint_pos"][...] + np.asarray(isaaclab.DEFAULT_JOINTS, dtype=np.float32)
        states = demo["states/articulation/robot/joint_position"][...]
        np.testing.assert_allclose(joints[1:], states[:-1], atol=1e-6)
        start = demo["initial_state/articulation/robot/joint_position"][...]
        np.testing.assert_allclose(joints[:1], start, atol=1e-6)
        np.testing.assert_array_equal(demo["obs/actions"][1:], demo["actions"][:-1])
        assert not demo["obs/actions"][0].any()
        np.testing.assert_allclose(demo["actions"][:-1, :3], demo["obs/eef_pos"][1:], atol=1e-6)


def test_a_legacy_file_is_the_new_one_with_scalar_first_quaternions(tmp_path: Path) -> None:
    new = write_recording("isaaclab", tmp_path / "new.hdf5", episodes=1, cameras=())
    old = write_recording("isaaclab", tmp_path / "old.hdf5", episodes=1, cameras=(), format_version=None)
    with h5py.File(new) as a, h5py.File(old) as b:
        assert "format_version" not in b.attrs
        spans = isaaclab.quaternion_spans(b["data/demo_0"])
        assert set(spans) == {
            "actions",
            "initial_state/articulation/robot/root_pose",
            "initial_state/rigid_object/cube/root_pose",
            "obs/actions",
            "obs/eef_quat",
            "obs/object_orientation",
            "states/articulation/robot/root_pose",
            "states/rigid_object/cube/root_pose",
        }
        for name in _tree(a["data/demo_0"]):
            theirs, ours = a["data/demo_0"][name][...], b["data/demo_0"][name][...]
            for start in spans.get(name, ()):
                ours[..., start : start + 4] = wxyz_to_xyzw(ours[..., start : start + 4])
            np.testing.assert_array_equal(theirs, ours, err_msg=name)


@pytest.mark.parametrize("task", ["stack", "place", "pull"])
def test_every_declared_span_is_made_of_unit_quaternions(task: str, tmp_path: Path) -> None:
    path = write_recording("isaaclab", tmp_path / "x.hdf5", episodes=1, cameras=(), task=task, rows=(8, 8))
    with h5py.File(path) as handle:
        demo = handle["data/demo_0"]
        spans = isaaclab.quaternion_spans(demo)
        assert {"obs/object", "obs/cube_orientations", "obs/eef_quat"} <= set(spans)
        for name, starts in spans.items():
            for start in starts:
                norms = np.linalg.norm(demo[name][:, start : start + 4], axis=-1)
                np.testing.assert_allclose(norms, 1.0, atol=1e-6, err_msg=f"{name} {start}")


def test_the_stack_term_holds_poses_and_gaps(tmp_path: Path) -> None:
    path = write_recording("isaaclab", tmp_path / "x.hdf5", episodes=1, cameras=(), task="stack", rows=(9, 9))
    with h5py.File(path) as handle:
        demo = handle["data/demo_0"]
        flat, cubes, eef = demo["obs/object"][...], demo["obs/cube_positions"][...], demo["obs/eef_pos"][...]
        assert flat.shape == (9, 39)
        for index, start in enumerate((0, 7, 14)):
            np.testing.assert_array_equal(flat[:, start : start + 3], cubes[:, 3 * index : 3 * index + 3])
        np.testing.assert_allclose(flat[:, 21:24], cubes[:, :3] - eef, atol=1e-6)


def test_concatenated_obs_is_the_terms_side_by_side(tmp_path: Path) -> None:
    flat = write_recording("isaaclab", tmp_path / "flat.hdf5", episodes=1, concatenated=True)
    terms = write_recording("isaaclab", tmp_path / "terms.hdf5", episodes=1, cameras=())
    widths = isaaclab.term_widths("lift")
    with h5py.File(flat) as a, h5py.File(terms) as b:
        rows = a["data/demo_0/obs"]
        assert isinstance(rows, h5py.Dataset)
        assert rows.shape[1] == sum(widths.values())
        start = 0
        for name, width in widths.items():
            np.testing.assert_array_equal(rows[:, start : start + width], b[f"data/demo_0/obs/{name}"][...])
            start += width


def test_the_failed_file_has_its_own_name_and_no_success(tmp_path: Path) -> None:
    path = write_recording("isaaclab", tmp_path / "dataset.hdf5", cameras=(), failed=True)
    assert path.name == "dataset_failed.hdf5"
    assert not (tmp_path / "dataset.hdf5").exists()
    with h5py.File(path) as handle:
        assert not any(demo.attrs["success"] for demo in handle["data"].values())


def test_mimic_groups_hold_the_poses_of_the_terms(tmp_path: Path) -> None:
    path = write_recording("isaaclab", tmp_path / "x.hdf5", episodes=1, cameras=(), datagen_info=True)
    with h5py.File(path) as handle:
        demo = handle["data/demo_0"]
        frames = demo["obs/datagen_info/eef_pose/franka"][...]
        np.testing.assert_allclose(frames[:, :3, 3], demo["obs/eef_pos"][...], atol=1e-6)
        z = rotate_xyzw(
            demo["obs/eef_quat"][...].astype(np.float64), np.tile([0.0, 0.0, 1.0], (len(frames), 1))
        )
        np.testing.assert_allclose(frames[:, :3, 2], z, atol=1e-5)
        target = demo["obs/datagen_info/target_eef_pose/franka"][...]
        np.testing.assert_array_equal(target[:-1], frames[1:])
        assert demo["obs/datagen_info/subtask_term_signals/grasp_1"].dtype == np.bool_
        assert json.loads(handle["data"].attrs["env_args"])["env_name"].endswith("-Mimic-v0")


def test_gzip_and_cameras(tmp_path: Path) -> None:
    size = {"table_cam": 24, "wrist_cam": 16}
    path = write_recording("isaaclab", tmp_path / "x.hdf5", episodes=1, rows=(5, 5), image_size=size)
    with h5py.File(path) as handle:
        obs = handle["data/demo_0/obs"]
        assert obs["table_cam"].shape == (5, 24, 24, 3)
        assert obs["wrist_cam"].shape == (5, 16, 16, 3)
        assert obs["wrist_cam"].chunks == (1, 16, 16, 3)
        assert {d.compression for d in obs.values()} == {"gzip"}
        assert list(obs) == sorted(obs)


@pytest.mark.parametrize("version", [0, None])
def test_states_and_success_can_be_left_out(version: int | None, tmp_path: Path) -> None:
    path = write_recording(
        "isaaclab", tmp_path / "x.hdf5", cameras=(), states=False, success=False, format_version=version
    )
    with h5py.File(path) as handle:
        assert handle.attrs.get("format_version") == version
        for demo in handle["data"].values():
            assert sorted(demo) == ["actions", "obs"]
            assert "success" not in demo.attrs
