"""The Panda against MuJoCo, inverse kinematics against forward, and the small rotation functions."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from trajpipe.core.quaternions import conjugate_xyzw, multiply_xyzw, rotate_xyzw
from trajpipe.testing import kinematics, mjcf, motion, scenes


def _random_joints(count: int) -> np.ndarray:
    rng = np.random.default_rng(3)
    return np.asarray(kinematics.HOME) + rng.uniform(-0.6, 0.6, (count, 7))


def test_forward_agrees_with_mujoco() -> None:
    scene = scenes.cubes(np.random.default_rng(0), 1, "lift")
    model = mujoco.MjModel.from_xml_string(mjcf.cubes_model(scene))
    data = mujoco.MjData(model)
    joints = _random_joints(20)
    position, orientation = kinematics.forward(joints)
    turns = kinematics.matrix(orientation)
    for row in range(20):
        data.qpos[:7] = joints[row]
        mujoco.mj_forward(model, data)
        site = data.site("gripper0_grip_site")
        np.testing.assert_allclose(site.xpos - mjcf.ROBOT_BASE, position[row], atol=1e-12)
        np.testing.assert_allclose(
            site.xmat.reshape(3, 3), turns[row], atol=5e-6
        )  # the model rounds to six digits


def test_inverse_reaches_the_path_and_is_smooth() -> None:
    times = np.linspace(0, 1, 80)
    path = np.stack((0.5 + 0.08 * np.sin(3 * times), 0.2 * np.cos(3 * times), 0.05 + 0.3 * times), axis=1)
    down = np.broadcast_to(kinematics.about((1, 0, 0), np.pi), (80, 4))
    joints = kinematics.inverse(path, down)
    position, orientation = kinematics.forward(joints)
    assert np.abs(position - path).max() < 1e-3
    off = kinematics.rotation_vector(multiply_xyzw(down, conjugate_xyzw(orientation)))
    assert np.linalg.norm(off, axis=1).max() < 1e-2
    assert np.abs(np.diff(joints, axis=0)).max() < 0.1
    assert np.abs(np.diff(joints, 2, axis=0)).max() < 0.02


def test_home_is_in_front_of_the_robot_with_the_gripper_down() -> None:
    position, orientation = kinematics.forward(np.array([kinematics.HOME]))
    assert 0.3 < position[0, 0] < 0.6
    assert abs(position[0, 1]) < 1e-3
    z = rotate_xyzw(orientation, np.array([[0.0, 0.0, 1.0]]))
    assert z[0, 2] < -0.99


@pytest.mark.parametrize("angle", [0.0, 1e-9, 0.3, 1.5, 3.0, np.pi - 1e-6])
def test_rotation_vector_inverts_about(angle: float) -> None:
    vector = kinematics.rotation_vector(kinematics.about((0, 1, 0), angle))
    np.testing.assert_allclose(vector, [0.0, angle, 0.0], atol=1e-9)


def test_rotation_vector_takes_the_short_way_whatever_the_sign() -> None:
    q = kinematics.about((0, 0, 1), np.array([0.4, 2 * np.pi - 0.4]))
    vectors = kinematics.rotation_vector(np.concatenate((q, -q)))
    assert np.abs(vectors).max() <= np.pi
    np.testing.assert_allclose(vectors[:, 2], [0.4, -0.4, 0.4, -0.4], atol=1e-12)


def test_matrix_rotates_as_the_quaternion_does() -> None:
    rng = np.random.default_rng(1)
    q = rng.normal(size=(5, 6, 4))
    q /= np.linalg.norm(q, axis=-1, keepdims=True)
    v = rng.normal(size=(5, 6, 3))
    turned = np.einsum("abij,abj->abi", kinematics.matrix(q), v)
    np.testing.assert_allclose(turned, rotate_xyzw(q, v), atol=1e-12)


def test_links_are_the_model_of_a_panda_rollout() -> None:
    """Joint angles of a whole rollout put the recorded end effector where it is recorded."""
    rng = np.random.default_rng(2)
    rollout = motion.roll_out(rng, scenes.cubes(rng, 2, "stack"), 50, task="stack", style="teleop")
    position, orientation = kinematics.forward(rollout.joints)
    np.testing.assert_array_equal(position, rollout.eef_pos)
    np.testing.assert_array_equal(orientation, rollout.eef_quat)
