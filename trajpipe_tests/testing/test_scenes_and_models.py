"""Scenes, cameras and MuJoCo models: where things stand, what is drawn of them, what a recorded state means.

What is not here: pixels, see `test_render`.
"""

from __future__ import annotations

import re

import mujoco
import numpy as np
import pytest

from trajpipe.core.quaternions import rotate_xyzw, xyzw_to_wxyz
from trajpipe.testing import mjcf, scenes
from trajpipe.testing.motion import Rollout, Scene, roll_out
from trajpipe.testing.request import Request


def _tabletop(task: str = "place", seed: int = 0) -> Rollout:
    rng = np.random.default_rng(seed)
    return roll_out(rng, scenes.tabletop(rng, task), 30, task=task)  # type: ignore[arg-type]  # a Task's value


# --- scenes ---


@pytest.mark.parametrize("count", [1, 2, 3])
def test_cubes_are_named_as_isaaclab_names_them(count: int) -> None:
    scene = scenes.cubes(np.random.default_rng(0), count, "lift")
    assert scene.names == (("cube",) if count == 1 else tuple(f"cube_{i}" for i in range(1, count + 1)))
    assert scene.positions.shape == scene.half_sizes.shape == (count, 3)
    assert scene.cabinet is scene.handle is scene.goal is None


def test_a_stack_s_goal_is_one_cube_above_the_second() -> None:
    scene = scenes.cubes(np.random.default_rng(0), 2, "stack")
    assert scene.goal is not None
    np.testing.assert_allclose(scene.goal - scene.positions[1], [0, 0, 2 * scenes.CUBE])


def test_tabletop_objects_stand_on_the_table_without_touching() -> None:
    for seed in range(20):
        scene = scenes.tabletop(np.random.default_rng(seed), "place")
        np.testing.assert_array_equal(scene.positions[:, 2], scene.half_sizes[:, 2])
        reach = np.linalg.norm(scene.half_sizes[:, :2], axis=1)
        for i in range(4):
            for j in range(i):
                gap = np.linalg.norm(scene.positions[i, :2] - scene.positions[j, :2])
                assert gap > reach[i] + reach[j]
        assert scene.cabinet is not None
        # the drawers' fronts begin 12 cm before and 10 cm beside the cabinet's place
        clear = scene.positions[:, :2] + scene.half_sizes[:, :2].max(
            axis=1, keepdims=True
        ) < scene.cabinet - (0.12, 0.1)
        assert clear.any(axis=1).all()


def test_the_cabinet_stands_elsewhere_in_each_episode() -> None:
    places = np.stack([np.asarray(_tabletop("pull", seed).scene.cabinet) for seed in range(5)])
    assert np.ptp(places, axis=0).min() > 0.002
    assert np.abs(places - scenes.CABINET).max() < 0.02


def test_the_hand_grasps_the_handle_of_its_own_cabinet() -> None:
    for seed in range(3):
        pull = _tabletop("pull", seed)
        first = int(np.flatnonzero(pull.grasped)[0])
        assert pull.scene.handle is not None
        np.testing.assert_allclose(pull.eef_pos[first], pull.scene.handle, atol=0.01)


# --- what is drawn ---


@pytest.mark.parametrize(("task", "count"), [("place", 4 + 2 + 2 + 4), ("pull", 4 + 2 + 2 + 4)])
def test_everything_is_a_box(task: str, count: int) -> None:
    rollout = _tabletop(task)
    boxes = scenes.boxes_of(rollout, slice(1, 31))
    assert boxes.position.shape == (30, count, 3)
    assert boxes.orientation.shape == (30, count, 4)
    assert boxes.half_sizes.shape == boxes.colours.shape == (count, 3)
    np.testing.assert_array_equal(boxes.position[:, :4], rollout.object_pos[1:])
    assert boxes.colours.min() >= 0
    assert boxes.colours.max() <= 1


def test_fingers_are_drawn_as_far_apart_as_they_are() -> None:
    rng = np.random.default_rng(0)
    rollout = roll_out(rng, scenes.cubes(rng, 1, "lift"), 30, task="lift")
    boxes = scenes.boxes_of(rollout, slice(0, 31))
    apart = np.linalg.norm(boxes.position[:, 3] - boxes.position[:, 4], axis=1)
    width = 2 * boxes.half_sizes[3, 1]
    np.testing.assert_allclose(apart - width, 2 * rollout.fingers, atol=1e-9)


def test_the_middle_drawer_moves_and_the_others_do_not() -> None:
    rollout = _tabletop("pull")
    boxes = scenes.boxes_of(rollout, slice(0, 31))
    moved = np.ptp(boxes.position[:, -3:, 0], axis=0)
    assert moved[scenes.OPENED_DRAWER] == pytest.approx(rollout.slide.max())
    assert np.delete(moved, scenes.OPENED_DRAWER).max() == 0.0


# --- cameras ---


@pytest.mark.parametrize("place", [0, 1, 2, 3])
@pytest.mark.parametrize("cabinet", [False, True])
def test_static_cameras_look_at_the_table_with_a_level_horizon(place: int, cabinet: bool) -> None:
    camera = scenes.static_camera(24, 32, place=place, cabinet=cabinet)
    assert not camera.moves
    assert camera.rays().shape == (24, 32, 3)
    right, down, forward = (rotate_xyzw(camera.orientation, np.eye(3)[i]) for i in range(3))
    assert abs(right[2]) < 1e-9
    assert down[2] < 0
    meets = camera.position + forward * (-camera.position[2] / forward[2])
    assert 0.2 < meets[0] < 0.7
    assert abs(meets[1]) < 0.3


def test_the_wrist_camera_rides_on_the_hand_and_looks_along_the_fingers() -> None:
    rollout = _tabletop()
    camera = scenes.wrist_camera(rollout, slice(0, 31), 16, 16)
    assert camera.moves
    away = np.linalg.norm(camera.position - rollout.eef_pos, axis=1)
    np.testing.assert_allclose(away, away[0], atol=1e-12)
    for row in (0, 15, 30):
        forward = rotate_xyzw(camera.orientation[row], np.array([0.0, 0.0, 1.0]))
        fingers = rotate_xyzw(rollout.eef_quat[row], np.array([0.0, 0.0, 1.0]))
        np.testing.assert_allclose(forward, fingers, atol=1e-12)


def test_films_have_the_asked_sizes_and_share_the_boxes() -> None:
    request = Request(image_size={"side": 8, "wrist": 12}, cameras=("side", "wrist"))
    rollout = next(request.rollouts("lift"))
    films = request.films(rollout, slice(0, rollout.length), ("other",))
    assert {name: film.shape[1:] for name, film in films.items()} == {"side": (8, 8, 3), "wrist": (12, 12, 3)}
    assert films["side"].boxes is films["wrist"].boxes
    assert films["side"].seed != films["wrist"].seed
    assert list(Request().films(rollout, slice(0, 2), ("usual",))) == ["usual"]
    assert Request(cameras=()).films(rollout, slice(0, 2), ("usual",)) == {}


# --- models and states ---


def _scenes() -> list[tuple[str, Scene, bool]]:
    rng = np.random.default_rng(6)
    return [
        ("one", scenes.cubes(rng, 1, "lift"), False),
        ("three", scenes.cubes(rng, 3, "stack"), False),
        ("tabletop", scenes.tabletop(rng, "pull"), True),
    ]


@pytest.mark.parametrize(("name", "scene", "fixtures"), _scenes(), ids=[s[0] for s in _scenes()])
def test_the_model_s_joints_are_the_state_s(name: str, scene: Scene, fixtures: bool) -> None:
    text = mjcf.tabletop_model(scene) if fixtures else mjcf.cubes_model(scene)
    model = mujoco.MjModel.from_xml_string(text)
    assert [model.joint(i).name for i in range(model.njnt)] == mjcf.joint_names(scene, fixtures=fixtures)
    rollout = roll_out(np.random.default_rng(1), scene, 20, task="pull" if fixtures else "lift")
    states = mjcf.states(rollout, fixtures=fixtures)
    assert states.shape == (21, 1 + model.nq + model.nv)
    data = mujoco.MjData(model)
    for row in (0, 10, 20):
        data.qpos[:] = states[row, 1 : 1 + model.nq]
        mujoco.mj_forward(model, data)
        for index, body in enumerate(scene.names):
            found = data.body(f"{body}_main")
            np.testing.assert_allclose(
                found.xpos, rollout.object_pos[row, index] + mjcf.ROBOT_BASE, atol=1e-9
            )
            np.testing.assert_allclose(found.xquat, xyzw_to_wxyz(rollout.object_quat[row, index]), atol=1e-9)


def test_states_begin_with_the_clock_and_end_with_velocities() -> None:
    rollout = _tabletop()
    states = mjcf.states(rollout, fixtures=True)
    np.testing.assert_allclose(states[:, 0], 0.25 + 0.05 * np.arange(31))
    np.testing.assert_array_equal(states[:, 1:8], rollout.joints)
    np.testing.assert_array_equal(states[:, 8], rollout.fingers)
    np.testing.assert_array_equal(states[:, 9], -rollout.fingers)
    np.testing.assert_array_equal(states[:, 42:49], rollout.velocity(rollout.joints))
    assert not states[0, 42:].any()


def test_the_drawer_s_joint_moves_its_body_as_far_as_it_is_drawn() -> None:
    rollout = _tabletop("pull")
    model = mujoco.MjModel.from_xml_string(mjcf.tabletop_model(rollout.scene))
    data = mujoco.MjData(model)
    states = mjcf.states(rollout, fixtures=True)
    places = []
    for row in (0, 30):
        data.qpos[:] = states[row, 1 : 1 + model.nq]
        mujoco.mj_forward(model, data)
        places.append(data.body("wooden_cabinet_1_middle").xpos.copy())
    np.testing.assert_allclose(places[0] - places[1], [rollout.slide[-1], 0, 0], atol=1e-9)


def test_a_fixture_s_pose_differs_between_the_models_of_two_demos() -> None:
    found = [
        re.search(
            r'name="wooden_cabinet_1_main" pos="([^"]*)"', mjcf.tabletop_model(_tabletop("pull", s).scene)
        )
        for s in (1, 2)
    ]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0][1] != found[1][1]


def test_models_name_no_file_that_mujoco_would_read() -> None:
    for _, scene, fixtures in _scenes():
        text = mjcf.tabletop_model(scene) if fixtures else mjcf.cubes_model(scene)
        assert "file=" not in text
        assert "<include" not in text
        assert text.count(mjcf.AUTHOR) == 2
