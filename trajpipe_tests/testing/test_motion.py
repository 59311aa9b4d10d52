"""Rollouts: smooth, unit quaternions, objects that follow the hand, tasks that succeed or fail as asked."""

from __future__ import annotations

import numpy as np
import pytest

from trajpipe.testing import scenes
from trajpipe.testing.motion import PULL, Rollout, Style, Task, minimum_jerk, roll_out

TASKS: tuple[Task, ...] = ("lift", "stack", "place", "pull")
STYLES: tuple[Style, ...] = ("scripted", "rl", "teleop")


def _rollout(task: Task, style: Style = "scripted", *, succeed: bool = True, length: int = 60) -> Rollout:
    rng = np.random.default_rng([7, TASKS.index(task)])
    tabletop = task in ("place", "pull")
    scene = scenes.tabletop(rng, task) if tabletop else scenes.cubes(rng, 3, task)
    return roll_out(rng, scene, length, task=task, style=style, succeed=succeed)


def test_minimum_jerk_meets_its_knots_at_rest() -> None:
    times = np.linspace(0, 1, 401)
    values = minimum_jerk(times, (0.0, 0.25, 1.0), np.array([[0.0], [2.0], [-1.0]]))[:, 0]
    np.testing.assert_allclose(values[[0, 100, 400]], [0.0, 2.0, -1.0], atol=1e-12)
    speed = np.diff(values)
    assert np.abs(speed[[0, 99, 100, 399]]).max() < 1e-4
    assert (speed[:100] >= -1e-12).all()


def test_minimum_jerk_holds_its_ends_outside_the_knots() -> None:
    values = minimum_jerk(np.array([-1.0, 2.0]), (0.0, 1.0), np.array([[3.0], [4.0]]))
    np.testing.assert_array_equal(values, [[3.0], [4.0]])


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("task", TASKS)
def test_every_rollout_is_smooth_and_consistent(task: Task, style: Style) -> None:
    rollout = _rollout(task, style)
    assert rollout.length == 60
    assert rollout.joints.shape == (61, 7)
    assert rollout.object_quat.shape == (61, len(rollout.scene.names), 4)
    for values in (rollout.joints, rollout.eef_pos, rollout.object_pos, rollout.fingers, rollout.slide):
        assert np.isfinite(values).all()
    np.testing.assert_allclose(np.linalg.norm(rollout.eef_quat, axis=-1), 1.0, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(rollout.object_quat, axis=-1), 1.0, atol=1e-12)
    assert np.abs(np.diff(rollout.joints, axis=0)).max() < 0.2
    assert np.abs(np.diff(rollout.eef_pos, axis=0)).max() < 0.06
    assert set(np.unique(rollout.grip)) == {-1.0, 1.0}
    assert rollout.fingers.min() > 0.0
    assert rollout.fingers.max() <= 0.04 + 1e-12


@pytest.mark.parametrize("task", ["lift", "stack", "place"])
def test_the_object_stays_then_follows_the_hand(task: Task) -> None:
    rollout = _rollout(task)
    moved = np.linalg.norm(rollout.object_pos[:, 0] - rollout.object_pos[0, 0], axis=1)
    first = int(np.flatnonzero(rollout.grasped)[0])
    assert moved[: first + 1].max() == 0.0
    assert moved[-1] > 0.1
    gap = rollout.object_pos[:, 0] - rollout.eef_pos
    held = np.linalg.norm(gap[rollout.grasped], axis=1)
    np.testing.assert_allclose(held, held[0], atol=1e-9)
    others = np.delete(rollout.object_pos, 0, axis=1)
    np.testing.assert_array_equal(others, np.broadcast_to(others[0], others.shape))


def test_a_lift_ends_high_and_a_stack_ends_on_the_second_cube() -> None:
    assert _rollout("lift").object_pos[-1, 0, 2] > 0.2
    stack = _rollout("stack")
    np.testing.assert_allclose(stack.object_pos[-1, 0, :2], stack.object_pos[0, 1, :2], atol=0.01)
    assert stack.object_pos[-1, 0, 2] == pytest.approx(3 * scenes.CUBE, abs=0.01)


def test_a_place_ends_on_the_plate() -> None:
    place = _rollout("place")
    np.testing.assert_allclose(place.object_pos[-1, 0, :2], place.object_pos[0, 3, :2], atol=0.01)


def test_a_pull_opens_the_drawer_and_leaves_it_open() -> None:
    pull = _rollout("pull")
    assert pull.slide[0] == 0.0
    assert pull.slide[-1] == pytest.approx(PULL, abs=0.01)
    assert (np.diff(pull.slide) > -1e-3).all()


@pytest.mark.parametrize("task", TASKS)
def test_a_failure_moves_nothing_and_says_so(task: Task) -> None:
    rollout = _rollout(task, succeed=False)
    assert not rollout.success
    assert not rollout.grasped.any()
    np.testing.assert_array_equal(
        rollout.object_pos, np.broadcast_to(rollout.object_pos[0], rollout.object_pos.shape)
    )
    assert rollout.slide.max() == 0.0


def test_styles_differ_in_how_much_the_hand_trembles() -> None:
    paths = {style: _rollout("lift", style, length=200).eef_pos for style in STYLES}
    shake = {style: np.median(np.abs(np.diff(path, 3, axis=0))) for style, path in paths.items()}
    assert shake["rl"] > 3 * shake["scripted"]
    assert shake["rl"] > 2 * shake["teleop"]
    still, hand = _rollout("lift").eef_pos, _rollout("lift", "teleop").eef_pos
    assert 0.0005 < np.abs(still - hand).max() < 0.02


def test_delta_pose_adds_up_to_the_path() -> None:
    rollout = _rollout("stack")
    steps = rollout.delta_pose()
    assert steps.shape == (60, 6)
    np.testing.assert_allclose(steps[:, :3].sum(axis=0), rollout.eef_pos[-1] - rollout.eef_pos[0], atol=1e-12)


def test_velocities_are_backward_differences_per_second() -> None:
    rollout = _rollout("lift")
    velocity = rollout.velocity(rollout.joints)
    assert not velocity[0].any()
    np.testing.assert_allclose(velocity[1:] * rollout.dt, np.diff(rollout.joints, axis=0), atol=1e-15)
    spin = rollout.angular_velocity(rollout.object_quat)
    assert spin.shape == (61, 3, 3)
    assert not spin[:, 1:].any()


def test_the_shortest_episode_has_one_action() -> None:
    rollout = _rollout("lift", length=1)
    assert rollout.length == 1
    assert rollout.joints.shape == (2, 7)


def test_cubes_lie_apart_on_the_table() -> None:
    for seed in range(20):
        scene = scenes.cubes(np.random.default_rng(seed), 3, "stack")
        for i in range(3):
            assert scene.positions[i, 2] == scenes.CUBE
            for j in range(i):
                assert np.linalg.norm(scene.positions[i] - scene.positions[j]) > 0.11
