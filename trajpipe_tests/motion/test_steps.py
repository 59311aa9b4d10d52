"""The steps of the pipeline one by one: kinematics against MuJoCo, rotations and filters against scipy.

What is not here: whole clips, see `test_rows.py`.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d
from scipy.spatial.transform import Rotation, Slerp

from trajpipe.core.errors import InputError, MissingNameError, SchemaError
from trajpipe.motion import rotations, velocities
from trajpipe.motion.g1 import BODIES, JOINTS, JOINTS_23, ROOT, g1
from trajpipe.motion.kinematics import forward
from trajpipe.motion.observations import heading, privileged_rows, state_rows
from trajpipe.motion.resample import duration_of, resampling
from trajpipe.motion.skeleton import skeleton
from trajpipe.motion.skeleton_mjcf import mjcf_of, skeleton_of, skeleton_of_file

RANDOM = np.random.default_rng(7)


def _unit(count: int) -> NDArray[np.float64]:
    q = RANDOM.normal(size=(count, 4))
    out: NDArray[np.float64] = q / np.linalg.norm(q, axis=1, keepdims=True)
    return out


def _worst_against_mujoco(model: Any, tree: Any, frames: int = 200) -> tuple[float, float]:
    """Largest distances of positions (m) and rotations (rad) over random poses far beyond any limit."""
    root_pos, root_quat = RANDOM.normal(size=(frames, 3)), _unit(frames)
    joint_pos = RANDOM.uniform(-4, 4, (frames, len(tree.joints)))
    positions, quaternions = forward(tree, root_pos, root_quat, joint_pos)
    data, worst, apart = mujoco.MjData(model), 0.0, 0.0
    order = [model.joint(name).qposadr[0] for name in tree.joints]
    bodies = [model.body(name).id for name in tree.bodies]
    for row in range(frames):
        data.qpos[:3], data.qpos[3:7] = root_pos[row], root_quat[row, [3, 0, 1, 2]]
        data.qpos[order] = joint_pos[row]
        mujoco.mj_kinematics(model, data)
        worst = max(worst, np.abs(data.xpos[bodies] - positions[row]).max())
        theirs = Rotation.from_matrix(data.xmat[bodies].reshape(-1, 3, 3))
        apart = max(apart, (theirs.inv() * Rotation.from_quat(quaternions[row])).magnitude().max())
    return worst, apart


def test_kinematics_are_mujocos(g1_model: Any) -> None:
    worst, apart = _worst_against_mujoco(g1_model, g1())
    assert worst <= 1e-9
    assert apart <= 1e-9
    np.testing.assert_allclose(np.linalg.norm(forward(g1(), *_some(5))[1], axis=2), 1, atol=1e-15)


def _some(frames: int) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    return RANDOM.normal(size=(frames, 3)), _unit(frames), RANDOM.normal(size=(frames, 29))


def test_kinematics_take_the_norm_of_the_root_as_mujoco_does() -> None:
    position, quaternion, angles = _some(3)
    same = forward(g1(), position, quaternion, angles)
    scaled = forward(g1(), position, quaternion * 1.5, angles)
    np.testing.assert_allclose(scaled[0], same[0], atol=1e-14)


def test_kinematics_want_the_models_joints() -> None:
    with pytest.raises(SchemaError, match=r"expected \(n, 29\)"):
        forward(g1(), np.zeros((2, 3)), np.ones((2, 4)), np.zeros((2, 23)))


def test_the_facts_are_the_published_models(shared_data: Path) -> None:
    path = shared_data / "mujoco/g1_29dof.xml"
    published, own = skeleton_of_file(path), g1()
    assert published.bodies == own.bodies
    assert published.joints == own.joints == JOINTS
    assert published.parents == own.parents
    for name in ("offsets", "rotations", "axes", "ranges"):
        np.testing.assert_array_equal(getattr(published, name), getattr(own, name))
    model = mujoco.MjModel.from_xml_path(str(shared_data / "mujoco/g1_29dof_nomesh.xml"))
    worst, apart = _worst_against_mujoco(model, own)
    assert worst <= 1e-9
    assert apart <= 1e-9
    np.testing.assert_array_equal(model.jnt_range[1:], own.ranges)


def test_the_other_published_revision_is_read_too(shared_data: Path) -> None:
    path = shared_data / "mujoco/g1_29dof_rev_1_0.xml"
    tree = skeleton_of_file(path)
    model = mujoco.MjModel.from_xml_path(str(shared_data / "mujoco/g1_29dof_rev_1_0_nomesh.xml"))
    assert max(_worst_against_mujoco(model, tree)) <= 1e-9
    pose = np.zeros((1, 3)), np.array([[0.0, 0, 0, 1]]), np.zeros((1, 29))
    apart = np.abs(forward(tree, *pose)[0] - forward(g1(), *pose)[0]).max()
    assert 5e-3 < apart < 2e-2


MODEL = """<mujoco model="small"><compiler angle="{angle}"/>
<default><joint axis="0 1 0"/><default class="turned"><joint axis="1 0 0" range="-90 45"/></default></default>
<worldbody><geom size="1"/><body name="base"><freejoint name="root"/>
 <inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
 <body name="fixed" pos="0.1 0 0" euler="0 0 90"><body name="a" pos="1 0 0"><joint name="ja"/>
   <inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
   <body name="b" pos="0 1 0" quat="2 0 0 2" childclass="turned"><joint name="jb"/>
     <inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/></body></body></body>
 <body name="c" axisangle="0 1 0 30"><joint name="jc" axis="1 1 0"/>
   <inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/></body>
</body></worldbody></mujoco>"""


def test_welded_bodies_defaults_and_degrees_are_read_as_mujoco_does() -> None:
    text = MODEL.format(angle="degree")
    tree = skeleton_of(text, place="small.xml")
    assert tree.bodies == ("base", "a", "b", "c")
    assert tree.parents == (-1, 0, 1, 0)
    model = mujoco.MjModel.from_xml_string(text)
    assert max(_worst_against_mujoco(model, tree, 50)) <= 1e-9
    np.testing.assert_allclose(tree.ranges[1], [-math.pi / 2, math.pi / 4])
    assert np.isinf(tree.ranges[[0, 2]]).all()
    again = skeleton_of(mjcf_of(tree), place="again")
    np.testing.assert_allclose(again.offsets, tree.offsets)
    np.testing.assert_allclose(again.ranges, tree.ranges)


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ('<freejoint name="root"/>', '<joint name="root"/>', "moves freely"),
        ('<joint name="ja"/>', '<joint name="ja" type="slide"/>', "one hinge"),
        ('<joint name="ja"/>', '<joint name="ja" pos="0 0 1"/>', "one hinge"),
        ('<joint name="ja"/>', '<joint name="ja" ref="5"/>', "one hinge"),
        ('<joint name="ja"/>', '<joint name="ja"/><joint name="jx"/>', "2 joints"),
        ('name="jc"', 'name="ja"', "used twice"),
        ('<body name="c"', '<frame/><body name="c"', "without frames"),
    ],
)
def test_a_model_of_another_form_is_refused(old: str, new: str, match: str) -> None:
    text = MODEL.format(angle="degree")
    assert old in text
    with pytest.raises(InputError, match=match):
        skeleton_of(text.replace(old, new, 1), place="small.xml")


def test_a_missing_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not there"):
        skeleton_of_file(tmp_path / "gone.xml")


def test_a_skeleton_has_parents_before_children_and_names_once() -> None:
    with pytest.raises(InputError, match="before its child"):
        skeleton("x", ROOT, BODIES[1:])
    with pytest.raises(InputError, match="used twice"):
        skeleton("x", ROOT, [*BODIES, BODIES[-1]])
    with pytest.raises(MissingNameError, match="no body"):
        g1().body("tail")
    assert len(JOINTS_23) == 23
    assert not any("wrist" in joint for joint in JOINTS_23)


def test_rotations_are_scipys() -> None:
    a, b, v = _unit(100), _unit(100), RANDOM.normal(size=(100, 3))
    ra, rb = Rotation.from_quat(a), Rotation.from_quat(b)
    _same(rotations.multiply(a, b), (ra * rb).as_quat())
    np.testing.assert_allclose(rotations.rotate(a, v), ra.apply(v), atol=1e-14)
    np.testing.assert_allclose(rotations.rotate(rotations.conjugate(a), v), ra.inv().apply(v), atol=1e-14)
    np.testing.assert_allclose(rotations.to_rotation_vector(a), ra.as_rotvec(), atol=1e-12)


def _same(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> None:
    """Equal up to sign."""
    signs = np.sign(np.einsum("...i,...i->...", ours, theirs))[..., None]
    np.testing.assert_allclose(ours * signs, theirs, atol=1e-12)


@pytest.mark.parametrize("angle", [0.0, 1e-300, 1e-12, 1e-9, 9e-7, 1.1e-6, 1e-3, 1.0, 3.0, 6.0])
def test_half_angles_are_exact_at_every_size(angle: float) -> None:
    vector = np.array([[0.6, 0.0, 0.8]]) * angle
    q = rotations.of_rotation_vector(vector)
    np.testing.assert_allclose(q[0, :3], np.array([0.6, 0, 0.8]) * math.sin(angle / 2), rtol=1e-12, atol=0)
    assert np.linalg.norm(q) == pytest.approx(1, abs=1e-15)
    if angle < 3.1:
        np.testing.assert_allclose(rotations.to_rotation_vector(q), vector, rtol=1e-9, atol=1e-300)


def test_the_largest_component_becomes_positive() -> None:
    q = _unit(500)
    out = rotations.signed_by_largest(q)
    np.testing.assert_array_equal(np.abs(out), np.abs(q))
    assert (np.take_along_axis(out, np.abs(out).argmax(axis=1)[:, None], axis=1) > 0).all()
    tie = np.array([[-0.5, 0.5, 0.5, -0.5], [-0.5, 0.5, 0.5, 0.5], [-math.sqrt(0.5), 0, math.sqrt(0.5), 0]])
    np.testing.assert_array_equal(rotations.signed_by_largest(tie)[:, 3], [0.5, 0.5, 0])
    assert rotations.signed_by_largest(tie)[2, 0] > 0


def test_slerp_is_scipys_but_for_the_midpoint() -> None:
    a, b = _unit(50), _unit(50)
    for blend in (0.0, 0.2, 0.5, 1.0):
        theirs = [
            Slerp([0, 1], Rotation.from_quat([p, q]))(blend).as_quat() for p, q in zip(a, b, strict=True)
        ]
        _same(rotations.slerp(a, b, np.full(50, blend)), np.array(theirs))
    near = rotations.multiply(rotations.of_rotation_vector(np.array([[1.9e-3, 0, 0]])), a[:1])
    far = rotations.multiply(rotations.of_rotation_vector(np.array([[2.1e-3, 0, 0]])), a[:1])
    part = np.array([0.2])
    np.testing.assert_array_equal(rotations.slerp(a[:1], near, part), 0.5 * a[:1] + 0.5 * near)
    assert np.abs(rotations.slerp(a[:1], far, part) - (0.5 * a[:1] + 0.5 * far)).max() > 1e-4
    np.testing.assert_array_equal(rotations.slerp(a[:1], -near, part), 0.5 * a[:1] + 0.5 * near)


@pytest.mark.parametrize("frames", [3, 5, 8, 40])
def test_velocities_are_numpys_gradient_and_scipys_filter(frames: int) -> None:
    values = RANDOM.normal(size=(frames, 4, 3)).cumsum(axis=0)
    expected = gaussian_filter1d(np.gradient(values, 1 / 30, axis=0), 2, axis=0, mode="nearest")
    np.testing.assert_allclose(velocities.linear(values, 30.0), expected, rtol=1e-12, atol=1e-11)
    turns = Rotation.from_rotvec(RANDOM.normal(size=(frames, 3)) * 0.4)
    q = turns.as_quat()[:, None]
    spin = np.zeros((frames, 1, 3))
    spin[:-1, 0] = (turns[1:] * turns[:-1].inv()).as_rotvec() * 30
    expected = gaussian_filter1d(spin, 2, axis=0, mode="nearest")
    np.testing.assert_allclose(velocities.angular(q, 30.0), expected, atol=1e-10)


def test_a_quaternions_sign_does_not_turn_a_body() -> None:
    q = _unit(1).repeat(4, axis=0)[:, None] * np.array([1, -1, 1, -1])[:, None, None]
    np.testing.assert_allclose(velocities.angular(q, 30.0), 0, atol=1e-6)


def test_the_last_joint_velocity_is_that_of_frame_n_minus_3() -> None:
    values = np.array([[0.0], [1.0], [3.0], [7.0]])
    np.testing.assert_array_equal(velocities.joints(values, 10.0), [[10], [20], [40], [20]])
    np.testing.assert_array_equal(velocities.joints(values[:3], 10.0), [[10], [20], [10]])


def test_row_counts_follow_the_float32_duration() -> None:
    counts = {
        (3945, 30.0): 6574,
        (152, 30.0): 252,
        (158, 30.0): 262,
        (399, 60.0): 332,
        (3, 30.0): 4,
        (51, 50.0): 50,
    }
    for (frames, fps), rows in counts.items():
        assert len(resampling(frames, fps, 0.02)) == rows
    # The rounding of the duration decides where it is a whole multiple of the step, as in the reference.
    assert duration_of(31, 30.0) == float(np.float32(1.0))
    assert len(resampling(31, 30.0, 0.02)) == 50


@given(st.integers(3, 3000), st.sampled_from([24.0, 30.0, 50.0, 60.0, 120.0, 29.97]))
def test_rows_lie_between_neighbouring_frames(frames: int, fps: float) -> None:
    at = resampling(frames, fps, 0.02)
    assert at.first.min() == 0
    assert at.second.max() <= frames - 1
    assert ((at.second - at.first == 1) | (at.first == frames - 1)).all()
    assert at.blend.min() >= 0
    assert at.blend.max() <= 1
    time = np.arange(frames)[:, None] / fps
    rows = np.arange(len(at)) * 0.02
    np.testing.assert_allclose(at.linear(time)[:, 0], np.minimum(rows, time[-1, 0]), atol=1e-9)


def test_headings_and_gravity() -> None:
    yaw = Rotation.from_euler("ZYX", [[0.7, 0.3, -0.2], [-3.0, -0.4, 0.1]])
    np.testing.assert_allclose(heading(yaw.as_quat()), [0.7, -3.0], atol=1e-12)
    rows = state_rows(
        np.ones((2, 2)), np.zeros((2, 2)), np.array([0.5, 1.0]), yaw.as_quat(), np.full((2, 3), 9.0)
    )
    np.testing.assert_allclose(rows[:, 4:7], yaw.inv().apply([0, 0, -1]), atol=1e-12)
    np.testing.assert_array_equal(rows[0, :4], [0.5, 0, 0, 0])
    np.testing.assert_array_equal(rows[:, 7:], 9)


def test_privileged_does_not_see_where_the_robot_stands_or_looks() -> None:
    position, quaternion = RANDOM.normal(size=(4, 31, 3)), np.stack([_unit(31) for _ in range(4)])
    speed, spin = RANDOM.normal(size=(2, 4, 31, 3))
    first = privileged_rows(position, quaternion, speed, spin)
    turn = Rotation.from_euler("z", 1.1)
    moved = [turn.apply(v.reshape(-1, 3)).reshape(v.shape) for v in (position, speed, spin)]
    turned = (turn * Rotation.from_quat(quaternion.reshape(-1, 4))).as_quat().reshape(quaternion.shape)
    second = privileged_rows(moved[0] + [5, -2, 0], turned, moved[1], moved[2])
    assert first.shape == (4, 463)
    np.testing.assert_allclose(first, second, atol=1e-12)
    np.testing.assert_array_equal(first[:, 0], position[:, 0, 2])
