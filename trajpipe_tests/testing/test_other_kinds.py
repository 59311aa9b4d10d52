"""Generated robomimic, robosuite and LIBERO recordings against their formats' rules and real layouts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import mujoco
import numpy as np
import pytest

from trajpipe.core.paths import absolute_paths
from trajpipe.core.quaternions import wxyz_to_xyzw
from trajpipe.testing import mjcf, scenes, write_recording
from trajpipe.testing.libero import LANGUAGE, file_name


def _tree(group: h5py.Group) -> dict[str, tuple[str, tuple[int, ...]]]:
    found: dict[str, tuple[str, tuple[int, ...]]] = {}
    group.visititems(
        lambda name, item: (
            found.__setitem__(name, (item.dtype.str, item.shape[1:]))
            if isinstance(item, h5py.Dataset)
            else None
        )
    )
    return found


def _types(item: Any) -> dict[str, tuple[str, str]]:
    return {k: (type(v).__name__, str(item.attrs.get_id(k).dtype)) for k, v in item.attrs.items()}


# --- robomimic ---


def test_robomimic_next_obs_is_obs_one_row_on(good: dict[str, Path]) -> None:
    with h5py.File(good["robomimic"]) as handle:
        for demo in handle["data"].values():
            assert sorted(demo["obs"]) == sorted(demo["next_obs"])
            for term in demo["obs"]:
                if term.endswith("_image"):
                    continue
                np.testing.assert_array_equal(
                    demo["next_obs"][term][:-1], demo["obs"][term][1:], err_msg=term
                )


def test_robomimic_counts_masks_and_types(good: dict[str, Path]) -> None:
    with h5py.File(good["robomimic"]) as handle:
        demos = handle["data"]
        assert demos.attrs["total"] == sum(d.attrs["num_samples"] for d in demos.values())
        train, valid = (set(handle[f"mask/{m}"][...].tolist()) for m in ("train", "valid"))
        assert train | valid == {name.encode() for name in demos}
        assert not train & valid
        assert handle["mask/train"].dtype.kind == "S"
        demo = demos["demo_0"]
        assert {demo[p].dtype.str for p in ("actions", "rewards", "states")} == {"<f8"}
        assert demo["dones"].dtype == np.int64
        assert demo["dones"][-1] == 1
        assert demo["dones"][...].sum() == 1
        assert "success" not in demo.attrs
        args = json.loads(demos.attrs["env_args"])
        assert args["type"] == 1
        assert args["env_kwargs"]["control_freq"] == 20


def test_robomimic_states_are_of_the_model(good: dict[str, Path]) -> None:
    with h5py.File(good["robomimic"]) as handle:
        demo = handle["data/demo_1"]
        model = mujoco.MjModel.from_xml_string(demo.attrs["model_file"])
        data = mujoco.MjData(model)
        for row in range(demo["states"].shape[0]):
            state = demo["states"][row]
            assert state.size == 1 + model.nq + model.nv
            data.qpos[:] = state[1 : 1 + model.nq]
            mujoco.mj_forward(model, data)
            np.testing.assert_allclose(data.body("cube_main").xpos, demo["obs/object"][row, :3], atol=1e-9)
            np.testing.assert_allclose(
                data.site("gripper0_grip_site").xpos, demo["obs/robot0_eef_pos"][row], atol=1e-9
            )
        turned = wxyz_to_xyzw(demo["states"][:, 13:17])
        np.testing.assert_allclose(turned, demo["obs/object"][:, 3:7], atol=1e-12)


def test_robomimic_deltas_are_scaled_into_the_controller_s_range(good: dict[str, Path]) -> None:
    with h5py.File(good["robomimic"]) as handle:
        for demo in handle["data"].values():
            assert np.abs(demo["actions"][...]).max() <= 1.0
        demo = handle["data/demo_0"]
        grip = demo["actions"][:, -1]
        assert set(np.unique(grip)) == {-1.0, 1.0}
        assert grip[0] == -1.0


def test_robomimic_image_convention_turns_the_rows(tmp_path: Path) -> None:
    options: dict[str, Any] = {"episodes": 1, "rows": (4, 4), "image_size": 16, "next_obs": False}
    paths = {
        convention: write_recording(
            "robomimic", tmp_path / f"{convention}.hdf5", image_convention=convention, **options
        )
        for convention in (None, "opencv", "opengl")
    }
    frames = {}
    for convention, path in paths.items():
        with h5py.File(path) as handle:
            assert handle["data"].attrs.get("macros_image_convention") == convention
            frames[convention] = handle["data/demo_0/obs/agentview_image"][...]
    np.testing.assert_array_equal(frames[None], frames["opencv"])
    np.testing.assert_array_equal(frames["opengl"][:, ::-1], frames["opencv"])


def test_robomimic_form_of_an_isaaclab_task_has_isaaclab_s_values(tmp_path: Path) -> None:
    isaac = write_recording("isaaclab", tmp_path / "a.hdf5", episodes=1, cameras=(), style="teleop")
    names = {
        "obs/cube_pos": "obs/object_position",
        "obs/cube_quat": "obs/object_orientation",
        "obs/last_action": "obs/actions",
        "obs/robot0_eef_pos": "obs/eef_pos",
        "obs/robot0_eef_quat": "obs/eef_quat",
        "obs/robot0_gripper_qpos": "obs/gripper_pos",
        "obs/robot0_joint_pos": "obs/joint_pos",
        "obs/robot0_joint_vel": "obs/joint_vel",
        "actions": "actions",
    }
    for order in ("xyzw", "wxyz"):
        other = write_recording(
            "robomimic",
            tmp_path / f"{order}.hdf5",
            episodes=1,
            cameras=(),
            style="teleop",
            environment="isaaclab",
            quaternion_order=order,
            next_obs=False,
        )
        starts = {"obs/cube_quat": 0, "obs/last_action": 3, "obs/robot0_eef_quat": 0, "actions": 3}
        with h5py.File(isaac) as a, h5py.File(other) as b:
            assert set(_tree(b["data/demo_0"])) == set(names)
            for ours, theirs in names.items():
                values, at = b["data/demo_0"][ours][...], starts.get(ours)
                assert values.dtype == np.float64
                if order == "wxyz" and at is not None:
                    values[:, at : at + 4] = wxyz_to_xyzw(values[:, at : at + 4])
                np.testing.assert_allclose(values, a["data/demo_0"][theirs][...], atol=1e-6, err_msg=ours)


def test_roboturk_groups_run_at_another_rate(tmp_path: Path) -> None:
    path = write_recording(
        "robomimic", tmp_path / "x.hdf5", cameras=(), roboturk=True, success=True, failures=(0,)
    )
    with h5py.File(path) as handle:
        demo = handle["data/demo_0"]
        length = demo["actions"].shape[0]
        for name in ("controller_info/counters", "user_info/0/dpos", "user_info/0/timestamp"):
            assert demo[name].shape[0] != length
        assert (np.diff(demo["user_info/0/timestamp"][...]) > 0).all()
        for name in ("interventions", "policy_acting", "user_acting"):
            assert demo[name].shape[0] == length
            assert demo[name].dtype == np.bool_
        assert demo.attrs["success"] == 0
        assert demo["rewards"][-1] == 0.0
        assert handle["data/demo_1"]["rewards"][-1] == 1.0


@pytest.mark.shared
def test_roboturk_groups_are_among_the_real_ones(tmp_path: Path, shared_data: Path) -> None:
    path = write_recording("robomimic", tmp_path / "x.hdf5", cameras=(), roboturk=True)
    real = shared_data / "robomimic/handover_panda_panda/demo.hdf5"
    own = {"dones", "rewards"}
    with h5py.File(path) as ours, h5py.File(real) as theirs:
        mine = {
            p: t[0] for p, t in _tree(ours["data/demo_0"]).items() if not p.startswith(("obs", "next_obs"))
        }
        yours = {p: t[0] for p, t in _tree(theirs["data/demo_0"]).items()}
        assert {p: d for p, d in mine.items() if p not in own}.items() <= yours.items()
        for name in ("env_args", "total"):
            assert _types(ours["data"])[name] == _types(theirs["data"])[name]
        for name in ("num_samples", "model_file"):
            assert _types(ours["data/demo_0"])[name] == _types(theirs["data/demo_0"])[name]


# --- robosuite ---


@pytest.mark.shared
@pytest.mark.parametrize(
    ("real", "options"),
    [("lift", {}), ("stack_panda", {"model": "name", "joint_torques": True, "task": "stack"})],
)
def test_a_collection_has_the_layout_of_the_real_one(
    real: str, options: dict[str, Any], tmp_path: Path, shared_data: Path
) -> None:
    path = write_recording("robosuite", tmp_path / "demo.hdf5", **options)
    with h5py.File(path) as ours, h5py.File(shared_data / f"robosuite/{real}/demo.hdf5") as theirs:
        mine, yours = _tree(ours["data/demo_1"]), _tree(theirs["data/demo_1"])
        assert mine.keys() == yours.keys()
        assert mine["actions"] == yours["actions"]
        assert {t[0] for t in mine.values()} == {t[0] for t in yours.values()} == {"<f8"}
        assert _types(ours["data"]) == _types(theirs["data"])
        assert _types(ours["data/demo_1"]) == _types(theirs["data/demo_1"])
        assert (ours["data/demo_1"].attrs["model_file"] == "model_1.xml") == bool(options)
        if real == "lift":
            assert mine["states"] == yours["states"]


def test_a_collection_counts_from_one_and_has_no_counts(good: dict[str, Path]) -> None:
    with h5py.File(good["robosuite"]) as handle:
        assert list(handle["data"]) == ["demo_1", "demo_2", "demo_3", "demo_4"]
        assert not {"total", "env_args"} & set(handle["data"].attrs)
        assert json.loads(handle["data"].attrs["env_info"])["env_name"] == "Lift"
        for demo in handle["data"].values():
            assert set(demo.attrs) == {"model_file"}
            assert sorted(demo) == ["actions", "states"]


def test_named_models_lie_beside_the_collection(tmp_path: Path) -> None:
    path = write_recording("robosuite", tmp_path / "demo.hdf5", model="name", episodes=2)
    with h5py.File(path) as handle:
        for name, demo in handle["data"].items():
            text = (tmp_path / "models" / demo.attrs["model_file"]).read_text()
            model = mujoco.MjModel.from_xml_string(text)
            assert demo["states"].shape[1] == 1 + model.nq + model.nv
            assert demo.attrs["model_file"] == f"model_{name[5:]}.xml"


def test_a_collection_may_lack_model_and_env_info(tmp_path: Path) -> None:
    path = write_recording("robosuite", tmp_path / "demo.hdf5", model="none", env_info=False)
    with h5py.File(path) as handle:
        assert "env_info" not in handle["data"].attrs
        assert not handle["data/demo_1"].attrs


# --- LIBERO ---


@pytest.mark.shared
@pytest.mark.parametrize(
    ("real", "released"),
    [
        ("libero/KITCHEN_SCENE10_close_the_top_drawer_of_the_cabinet_demo.hdf5", False),
        ("libero_generated/open_the_middle_drawer_of_the_cabinet_demo.hdf5", True),
    ],
)
def test_a_libero_file_has_the_layout_of_the_real_one(
    real: str, released: bool, tmp_path: Path, shared_data: Path
) -> None:
    path = write_recording(
        "libero", tmp_path / file_name("pull"), episodes=1, rows=(5, 5), task="pull", released=released
    )
    with h5py.File(path) as ours, h5py.File(shared_data / real) as theirs:
        assert _types(ours["data"]) == _types(theirs["data"])
        assert _types(ours["data/demo_0"]) == _types(theirs["data/demo_0"])
        mine, yours = _tree(ours["data/demo_0"]), _tree(theirs["data/demo_0"])
        if released:
            assert mine == yours
            assert ours["data"].attrs["problem_info"] == theirs["data"].attrs["problem_info"]
        else:
            assert mine.keys() == yours.keys()


def test_libero_obs_follow_and_states_precede_the_action(good: dict[str, Path]) -> None:
    with h5py.File(good["libero"]) as handle:
        for demo in handle["data"].values():
            states = demo["states"][...]
            np.testing.assert_array_equal(demo["obs/joint_states"][:-1], states[1:, 1:8])
            np.testing.assert_array_equal(demo["obs/gripper_states"][:-1], states[1:, 8:10])
            np.testing.assert_array_equal(demo.attrs["init_state"], states[0])
            np.testing.assert_array_equal(demo["robot_states"][:, 2:5], demo["obs/ee_pos"][...])
            np.testing.assert_array_equal(
                demo["obs/ee_states"][...],
                np.concatenate((demo["obs/ee_pos"][...], demo["obs/ee_ori"][...]), axis=1),
            )
            np.testing.assert_allclose(np.diff(states[:, 0]), 0.05, atol=1e-9)
            for flags in (demo["rewards"], demo["dones"]):
                assert flags.dtype == np.uint8
                assert flags[-1] == 1
                assert flags[...].sum() == 1


@pytest.mark.parametrize("task", ["place", "pull"])
def test_libero_s_model_compiles_and_is_of_the_states(task: str, tmp_path: Path) -> None:
    path = write_recording("libero", tmp_path / "x_demo.hdf5", episodes=1, task=task, cameras=())
    with h5py.File(path) as handle:
        demo = handle["data/demo_0"]
        model = mujoco.MjModel.from_xml_string(demo.attrs["model_file"])
        assert (model.nq, model.nv) == (41, 37)
        data = mujoco.MjData(model)
        for row in range(0, demo["states"].shape[0] - 1, 7):
            data.qpos[:] = demo["states"][row + 1, 1:42]
            mujoco.mj_forward(model, data)
            np.testing.assert_allclose(
                data.site("gripper0_grip_site").xpos, demo["obs/ee_pos"][row], atol=1e-9
            )
        slides = demo["states"][:, 38:41]
        opened = np.abs(slides).max(axis=0) > 0.05
        assert opened.tolist() == ([False, True, False] if task == "pull" else [False] * 3)


def test_libero_orientation_has_no_jumps(good: dict[str, Path]) -> None:
    with h5py.File(good["libero"]) as handle:
        for demo in handle["data"].values():
            assert np.abs(np.diff(demo["obs/ee_ori"][...], axis=0)).max() < 0.3


def test_libero_images_have_the_bottom_row_first(tmp_path: Path) -> None:
    options: dict[str, Any] = {"episodes": 1, "rows": (3, 3), "image_size": 16}
    flipped = write_recording("libero", tmp_path / "a_demo.hdf5", **options)
    upright = write_recording("libero", tmp_path / "b_demo.hdf5", image_convention="opencv", **options)
    with h5py.File(flipped) as a, h5py.File(upright) as b:
        assert a["data"].attrs["macros_image_convention"] == "opengl"
        for camera in ("agentview_rgb", "eye_in_hand_rgb"):
            np.testing.assert_array_equal(
                a[f"data/demo_0/obs/{camera}"][...][:, ::-1], b[f"data/demo_0/obs/{camera}"][...]
            )


def test_libero_s_texts_carry_the_author_s_paths_and_the_language(good: dict[str, Path]) -> None:
    with h5py.File(good["libero"]) as handle:
        data = handle["data"].attrs
        info = json.loads(data["problem_info"])
        assert info["language_instruction"] == LANGUAGE["place"][1]
        assert data["bddl_file_name"].startswith(mjcf.AUTHOR)
        assert list(absolute_paths(data["env_args"]))
        assert list(absolute_paths(handle["data/demo_0"].attrs["model_file"]))
        assert data["num_demos"] == 4
        assert "tag" in data
        assert "bddl_file_content" not in data


def test_libero_language_can_be_any_text(tmp_path: Path) -> None:
    text = 'put the "bowl"\ton\nthe plate · ü'
    path = write_recording(
        "libero", tmp_path / "x_demo.hdf5", episodes=1, rows=(2, 2), cameras=(), language=text, released=False
    )
    with h5py.File(path) as handle:
        assert json.loads(handle["data"].attrs["problem_info"])["language_instruction"] == text
        assert text in handle["data"].attrs["bddl_file_content"]


def test_the_other_scene_order_has_the_same_joints_at_other_addresses() -> None:
    scene = scenes.tabletop(np.random.default_rng(1), "place")
    theirs = mujoco.MjModel.from_xml_string(mjcf.tabletop_model(scene))
    ours = mujoco.MjModel.from_xml_string(mjcf.tabletop_model(scene, fixtures_first=True))
    named = [[m.joint(i).name for i in range(m.njnt)] for m in (theirs, ours)]
    assert named[0] == mjcf.joint_names(scene, fixtures=True)
    assert named[0] != named[1]
    assert sorted(named[0]) == sorted(named[1])
    assert ours.joint(mjcf.BUTTON).qposadr[0] == 12
    assert theirs.joint(mjcf.BUTTON).qposadr[0] == 40
