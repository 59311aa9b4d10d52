"""MuJoCo models and states of generated recordings: a Panda of primitive shapes, cubes, LIBERO's goal scene.

The models compile alone; comments and custom texts in them carry the recorder's absolute paths.
What is not here: running MuJoCo.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core.quaternions import xyzw_to_wxyz
from trajpipe.testing import kinematics, scenes
from trajpipe.testing.motion import Rollout, Scene

Array = NDArray[Any]

ROBOT_BASE: Final = (-0.56, 0.0, 0.912)
AUTHOR: Final = "/home/recorder/projects/robot-data/site-packages"
ROBOT_JOINTS: Final = 9
SLIDES: Final = (
    "wooden_cabinet_1_top_level",
    "wooden_cabinet_1_middle_level",
    "wooden_cabinet_1_bottom_level",
)
BUTTON: Final = "flat_stove_1_button"
_RANGES: Final = (
    (-2.8973, 2.8973),
    (-1.7628, 1.7628),
    (-2.8973, 2.8973),
    (-3.0718, -0.0698),
    (-2.8973, 2.8973),
    (-0.0175, 3.7525),
    (-2.8973, 2.8973),
)


def finger_positions(rollout: Rollout) -> Array:
    """(S, 2) m: the second finger mirrors the first, as MuJoCo's Panda has it."""
    return np.stack((rollout.fingers, -rollout.fingers), axis=1)


def cubes_model(scene: Scene) -> str:
    """Model of a robosuite table with free cubes: nq = 9 + 7 N, nv = 9 + 6 N."""
    return _model([_free_body(scene, index) for index in range(len(scene.names))], "Lift")


def tabletop_model(scene: Scene, *, fixtures_first: bool = False) -> str:
    """Model of the tabletop: robot, objects, fixtures as robosuite orders them; nq 41, nv 37.

    Args:
        scene: Objects.
        fixtures_first: Another scene's order: robot, fixtures, objects.
    """
    objects = [_free_body(scene, index) for index in range(len(scene.names))]
    fixtures = [_cabinet(scene), _stove()]
    return _model(
        fixtures + objects if fixtures_first else objects + fixtures, "Libero_Tabletop_Manipulation"
    )


def joint_names(scene: Scene, *, fixtures: bool) -> list[str]:
    """Joint names in the order of the recorded qpos."""
    robot = [f"robot0_joint{i + 1}" for i in range(7)] + ["gripper0_finger_joint1", "gripper0_finger_joint2"]
    return robot + [f"{name}_joint0" for name in scene.names] + ([*SLIDES, BUTTON] if fixtures else [])


def states(rollout: Rollout, *, fixtures: bool = False) -> Array:
    """(S, 1 + nq + nv) float64: time, qpos, qvel, free joints as position and scalar-first quaternion.

    Args:
        rollout: What happens.
        fixtures: Append the cabinet's three slides and the stove's button.
    """
    robot = np.concatenate((rollout.joints, finger_positions(rollout)), axis=1)
    steps = robot.shape[0]
    pose = np.concatenate((rollout.object_pos + ROBOT_BASE, xyzw_to_wxyz(rollout.object_quat)), axis=2)
    twist = np.concatenate(
        (rollout.velocity(rollout.object_pos), rollout.angular_velocity(rollout.object_quat)), axis=2
    )
    qpos, qvel = [robot, pose.reshape(steps, -1)], [rollout.velocity(robot), twist.reshape(steps, -1)]
    if fixtures:
        slides = np.zeros((steps, len(SLIDES) + 1))
        slides[:, scenes.OPENED_DRAWER] = -rollout.slide
        qpos.append(slides)
        qvel.append(rollout.velocity(slides))
    time = 0.25 + rollout.dt * np.arange(steps)[:, None]
    return np.concatenate((time, *qpos, *qvel), axis=1)


def _model(bodies: Sequence[str], name: str) -> str:
    lines = [
        '<mujoco model="base">',
        '  <compiler angle="radian" autolimits="true"/>',
        '  <option impratio="20" density="1.2" viscosity="2e-05" cone="elliptic"/>',
        f"  <!-- assets: {AUTHOR}/robosuite/models/assets/arenas/table_arena.xml -->",
        "  <custom>",
        f'    <text name="assets" data="{AUTHOR}/robosuite/models/assets/textures/wood.png"/>',
        f'    <text name="environment" data="{name}"/>',
        "  </custom>",
        "  <asset>",
        '    <texture type="2d" name="texplane" builtin="checker" width="64" height="64"/>',
        '    <material name="floorplane" texture="texplane" texrepeat="2 2" reflectance="0.01"/>',
        "  </asset>",
        "  <worldbody>",
        '    <geom name="floor" size="3 3 0.125" type="plane" material="floorplane"/>',
        '    <light name="light1" pos="1 1 4" dir="0 -0.15 -0.99" castshadow="false"/>',
        '    <camera name="agentview" pos="0.6 0 1.5" quat="0.638018 0.30485 0.30485 0.638018"/>',
        f'    <body name="table" pos="0 0 {ROBOT_BASE[2] - 0.025:.4f}">',
        '      <geom name="table_collision" size="0.5 0.6 0.025" type="box" rgba="0.5 0.4 0.3 1"/>',
        "    </body>",
        _robot(),
        *bodies,
        "  </worldbody>",
        "</mujoco>",
    ]
    return "\n".join(lines) + "\n"


def _robot() -> str:
    text = [f'    <body name="robot0_base" pos="{_floats(ROBOT_BASE)}">']
    text.append('      <geom name="robot0_link0" type="cylinder" size="0.06 0.08" pos="0 0 0.08"/>')
    for index, (offset, twist) in enumerate(kinematics.LINKS):
        quat = _floats((np.cos(twist / 2), np.sin(twist / 2), 0.0, 0.0))
        pad = "  " * (index + 3)
        low, high = _RANGES[index]
        text += [
            f'{pad}<body name="robot0_link{index + 1}" pos="{_floats(offset)}" quat="{quat}">',
            f'{pad}  <inertial pos="0 0 0" mass="2" diaginertia="0.1 0.1 0.1"/>',
            f'{pad}  <joint name="robot0_joint{index + 1}" axis="0 0 1" range="{low} {high}" damping="0.1"/>',
            f'{pad}  <geom name="robot0_link{index + 1}_shape" size="0.05" contype="0" conaffinity="0"/>',
        ]
    text += _gripper("  " * 10)
    text += ["  " * (index + 3) + "</body>" for index in reversed(range(len(kinematics.LINKS)))]
    return "\n".join([*text, "    </body>"])


def _gripper(pad: str) -> list[str]:
    quat = _floats((np.cos(np.pi / 8), 0.0, 0.0, -np.sin(np.pi / 8)))
    lines = [
        f'{pad}<body name="robot0_right_hand" pos="0 0 {kinematics.FLANGE}" quat="{quat}">',
        f'{pad}  <inertial pos="0 0 0.05" mass="0.5" diaginertia="0.05 0.05 0.05"/>',
        f'{pad}  <camera name="robot0_eye_in_hand" pos="0.05 0 0" quat="0 0.707107 0.707107 0" fovy="75"/>',
        f'{pad}  <site name="gripper0_grip_site" pos="0 0 {kinematics.GRIP}" size="0.01"/>',
    ]
    for number, limits in ((1, "0 0.04"), (2, "-0.04 0")):
        lines += [
            f'{pad}  <body name="gripper0_finger{number}" pos="0 0 0.0584">',
            f'{pad}    <inertial pos="0 0 0.02" mass="0.1" diaginertia="0.01 0.01 0.01"/>',
            f'{pad}    <joint name="gripper0_finger_joint{number}" type="slide" axis="0 1 0"',
            f'{pad}           range="{limits}"/>',
            f'{pad}    <geom name="gripper0_finger{number}_shape" type="box" size="0.01 0.008 0.03"/>',
            f"{pad}  </body>",
        ]
    return [*lines, f"{pad}</body>"]


def _free_body(scene: Scene, index: int) -> str:
    name, size = scene.names[index], scene.half_sizes[index]
    yaw = scene.yaws[index] / 2
    place = _floats(scene.positions[index] + ROBOT_BASE)
    turn = _floats((np.cos(yaw), 0.0, 0.0, np.sin(yaw)))
    return "\n".join(
        [
            f'    <body name="{name}_main" pos="{place}" quat="{turn}">',
            f'      <joint name="{name}_joint0" type="free"/>',
            f'      <geom name="{name}_g0" type="box" size="{_floats(size)}" rgba="1 0 0 1"/>',
            "    </body>",
        ]
    )


def _cabinet(scene: Scene) -> str:
    at = scenes.CABINET if scene.cabinet is None else scene.cabinet
    place = np.add(ROBOT_BASE, (at[0], at[1], 0.0))
    lines = [f'    <body name="wooden_cabinet_1_main" pos="{_floats(place)}">']
    for joint, height in zip(SLIDES, reversed(scenes.DRAWER_HEIGHTS), strict=True):
        lines += [
            f'      <body name="{joint.removesuffix("_level")}" pos="-0.1 0 {height}">',
            f'        <joint name="{joint}" type="slide" axis="1 0 0" range="-0.16 0.01" damping="10"/>',
            f'        <geom name="{joint}_g0" type="box" size="0.02 0.1 0.026" rgba="0.5 0.4 0.2 1"/>',
            "      </body>",
        ]
    return "\n".join([*lines, "    </body>"])


def _stove() -> str:
    place = np.add(ROBOT_BASE, (0.62, -0.32, 0.0))
    return "\n".join(
        [
            f'    <body name="flat_stove_1_main" pos="{_floats(place)}">',
            '      <geom name="flat_stove_1_g0" type="box" size="0.08 0.08 0.01" rgba="0.2 0.2 0.2 1"/>',
            '      <body name="flat_stove_1_button_main" pos="-0.1 0 0.02">',
            f'        <joint name="{BUTTON}" type="hinge" axis="0 0 1" range="-0.5 2.1" damping="1"/>',
            '        <geom name="flat_stove_1_button_g0" type="cylinder" size="0.02 0.01"/>',
            "      </body>",
            "    </body>",
        ]
    )


def _floats(values: Sequence[float] | Array) -> str:
    """Six decimals, as MuJoCo's writer rounds what a recorder saves."""
    return " ".join(f"{float(v):.6g}" for v in values)
