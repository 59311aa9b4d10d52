"""Joint tables, fixture poses and kinematic models, against MuJoCo's own compiler."""

from __future__ import annotations

import json
from pathlib import Path

import mujoco
import numpy as np
import pytest

from trajpipe.core.errors import InputError, MissingNameError
from trajpipe.mjcf.document import parse
from trajpipe.mjcf.joints import JointTable, joint_table
from trajpipe.mjcf.kinematic import kinematic_model
from trajpipe.mjcf.poses import angles_of, fixtures, orientation_of

MODEL = """
<mujoco>
  <compiler angle="degree" meshdir="/home/someone/meshes"/>
  <default>
    <joint axis="0 0 1"/>
    <default class="finger"><joint type="slide"/></default>
  </default>
  <asset><mesh name="m" file="/nowhere/m.stl"/></asset>
  <worldbody>
    <geom type="mesh" mesh="m"/>
    <body name="table" pos="0.5 0 0.4" euler="0 0 90"/>
    <body name="arm" pos="0 0 1">
      <joint name="hinge"/>
      <body name="hand" childclass="finger" pos="0 0.1 0">
        <joint name="left"/>
        <joint name="right" type="hinge"/>
        <body name="tip" pos="0 0 0.1"><joint name="ball" type="ball"/></body>
      </body>
    </body>
    <body name="cube" pos="0 0 2"><freejoint name="cube_joint0"/></body>
    <body name="drawer_base" quat="0.5 0.5 0.5 0.5">
      <body name="drawer"><joint name="drawer" class="finger"/></body>
    </body>
  </worldbody>
</mujoco>
"""


def compiled(text: str) -> mujoco.MjModel:
    """The model of kinematic text."""
    return mujoco.MjModel.from_xml_string(text)


def addresses(model: mujoco.MjModel) -> list[tuple[str, str, int, int]]:
    """(name, type, qpos address, dof address) as MuJoCo has them."""
    kinds = ("free", "ball", "slide", "hinge")
    return [
        (model.joint(i).name, kinds[model.jnt_type[i]], int(model.jnt_qposadr[i]), int(model.jnt_dofadr[i]))
        for i in range(model.njnt)
    ]


def as_rows(table: JointTable) -> list[tuple[str, str, int, int]]:
    """The table in the same form."""
    return [(j.name, j.type.value, j.qpos, j.dof) for j in table.joints]


def test_the_table_is_the_compilers() -> None:
    root = parse(MODEL)
    model = compiled(kinematic_model(root))
    table = joint_table(root)
    assert as_rows(table) == addresses(model)
    assert (table.nq, table.nv) == (model.nq, model.nv)
    assert [(j.name, j.body, j.root) for j in table.joints][1:5] == [
        ("left", "hand", "arm"),
        ("right", "hand", "arm"),
        ("ball", "tip", "arm"),
        ("cube_joint0", "cube", "cube"),
    ]


def test_a_kinematic_model_needs_no_file_and_keeps_every_pose() -> None:
    text = kinematic_model(parse(MODEL))
    assert "stl" not in text
    assert "meshdir" not in text
    model = compiled(text)
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    np.testing.assert_allclose(data.body("tip").xpos, [0, 0.1, 1.1], atol=1e-12)
    np.testing.assert_allclose(data.body("table").xquat, [2**-0.5, 0, 0, 2**-0.5], atol=1e-12)


def test_top_level_bodies_can_be_put_in_another_order() -> None:
    root = parse(MODEL)
    order = ["arm", "drawer_base", "table", "cube"]
    model = compiled(kinematic_model(root, order))
    assert [model.joint(i).name for i in range(model.njnt)] == [
        "hinge",
        "left",
        "right",
        "ball",
        "drawer",
        "cube_joint0",
    ]
    with pytest.raises(InputError, match="each top-level body once"):
        kinematic_model(root, ["arm"])


def test_fixtures_are_the_top_level_bodies_that_do_not_move_freely() -> None:
    found = {f.name: f for f in fixtures(parse(MODEL))}
    assert sorted(found) == ["arm", "drawer_base", "table"]
    assert found["table"].position == (0.5, 0, 0.4)
    np.testing.assert_allclose(found["table"].quaternion, (2**-0.5, 0, 0, 2**-0.5), atol=1e-15)


@pytest.mark.parametrize(
    "pose",
    [
        'quat="1 2 3 4"',
        'axisangle="1 2 3 40"',
        'euler="10 20 30"',
        'xyaxes="1 1 0 0 1 1"',
        'zaxis="1 -2 0.5"',
        'zaxis="0 0 -1"',
        "",
    ],
)
@pytest.mark.parametrize("compiler", ['angle="degree"', 'angle="radian" eulerseq="ZYX"', 'eulerseq="zxz"'])
def test_orientations_are_the_compilers_whatever_way_they_are_written(pose: str, compiler: str) -> None:
    text = f'<mujoco><compiler {compiler}/><worldbody><body name="b" {pose}/></worldbody></mujoco>'
    root = parse(text)
    ours = orientation_of(next(root.iter("body")), angles_of(root))
    theirs = compiled(kinematic_model(root)).body("b").quat
    assert min(np.abs(ours - theirs).max(), np.abs(ours + theirs).max()) < 1e-12


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('<body name="b" quat="1 0 0 0" euler="0 0 0"/>', "one orientation"),
        ('<body name="b" quat="0 0 0 0"/>', "cannot be zero"),
        ('<body name="b" quat="1 0 0"/>', "has 4 numbers"),
        ('<body name="b" pos="1 0"/>', "three numbers"),
    ],
)
def test_a_pose_that_cannot_be_read_names_its_body(body: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        fixtures(parse(f"<mujoco><worldbody>{body}</worldbody></mujoco>"), place="demo_3")
    assert "demo_3 · body b" in str(caught.value)


@pytest.mark.parametrize(
    ("joints", "message"),
    [
        ("<joint/>", "without a name"),
        ('<joint name="a" type="screw"/>', "no such joint type; got screw"),
        ('<joint name="a"/><joint name="a"/>', "used twice; got a"),
    ],
)
def test_joints_that_cannot_be_mapped_are_refused(joints: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        joint_table(parse(f'<mujoco><worldbody><body name="b">{joints}</body></worldbody></mujoco>'))


def test_a_table_can_be_reordered_by_name() -> None:
    table = joint_table(parse(MODEL))
    turned = table.reordered(list(reversed(table.names)))
    assert turned.names == tuple(reversed(table.names))
    assert [j.qpos for j in turned.joints] == [0, 1, 8, 12, 13, 14]
    assert [j.dof for j in turned.joints] == [0, 1, 7, 10, 11, 12]
    with pytest.raises(InputError, match=r"missing \['hinge'\], unknown \['x'\]"):
        table.reordered(["x", *table.names[1:]])
    with pytest.raises(MissingNameError, match="hinge, left"):
        table.joint("nothing")


@pytest.mark.shared
def test_the_tables_of_liberos_models_are_the_recorders(shared_data: Path) -> None:
    folder = shared_data / "libero_generated"
    found = sorted(folder.glob("*_joints.json"))
    assert len(found) == 3
    for facts in found:
        recorded = json.loads(facts.read_text())
        stem = facts.name.removesuffix("_joints.json")
        for side, suffix in (("source", "source"), ("target_fixtures_first", "target")):
            expected = recorded[side]
            for model in sorted(folder.glob(f"{stem}_*_{suffix}_kinematic.xml")):
                table = joint_table(parse(model.read_bytes()))
                assert as_rows(table) == [
                    (j["name"], j["type"], j["qposadr"], j["dofadr"]) for j in expected["joints"]
                ]
                assert (table.nq, table.nv) == (expected["nq"], expected["nv"])
