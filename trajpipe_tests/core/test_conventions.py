"""Tests of declared conventions and of the guess that asks for a declaration.

What is not here: reading them from the catalogue.
"""

from __future__ import annotations

from fractions import Fraction

import pytest

from trajpipe.core import jsontext
from trajpipe.core.conventions import (
    ActionConvention,
    Conventions,
    QuaternionSite,
    TermConvention,
    quaternion_candidates,
)
from trajpipe.core.names import Alignment


def test_a_site_matches_within_and_across_groups() -> None:
    site = QuaternionSite("*/root_pose", (3,))
    assert site.matches("states/articulation/robot/root_pose")
    assert site.matches("initial_state/rigid_object/cube_1/root_pose")
    assert not site.matches("root_pose")
    assert not site.matches("states/robot/Root_Pose")


def test_the_first_site_that_matches_wins() -> None:
    narrow, wide = QuaternionSite("obs/eef_quat", order="xyzw"), QuaternionSite("obs/*", ())
    conventions = Conventions(quaternions=(narrow, wide))
    assert conventions.site_of("obs/eef_quat") is narrow
    assert conventions.site_of("obs/joint_pos") is wide
    assert conventions.site_of("actions") is None


def test_every_convention_becomes_plain_json() -> None:
    conventions = Conventions(
        quaternion_order="wxyz",
        quaternions=(QuaternionSite("obs/object", (3, 10, 17)),),
        images="opengl",
        alignment=Alignment.AFTER_ACTION,
        fps=Fraction(30000, 1001),
        action=ActionConvention(meaning="delta", frame="root", low=(-1.0,), high=(1.0,), gripper_open=-1),
        terms={"robot0_eef_pos": "eef_pos"},
        term_meanings={"joint_pos": TermConvention("relative", units="rad")},
        term_widths={"joint_pos": 7},
        env_args={"env_name": "Lift", "type": 1, "env_kwargs": {}},
    )
    value = jsontext.loads(jsontext.dumps(conventions.to_json()))
    assert value["fps"] == "30000/1001"
    assert value["quaternions"] == [{"path": "obs/object", "starts": [3, 10, 17], "order": None}]
    assert value["alignment"] == "after_action"
    assert value["term_meanings"]["joint_pos"]["meaning"] == "relative"
    assert value["action"]["gripper_open"] == -1


def test_defaults_declare_nothing_and_keep_unknown_success() -> None:
    value = Conventions().to_json()
    assert (value["fps"], value["quaternion_order"], value["images"]) == (None, None, None)
    assert value["unknown_success"] == "keep"


def test_two_equal_declarations_give_equal_recipes() -> None:
    one = Conventions(terms={"a": "b", "c": "d"}).to_json()
    other = Conventions(terms={"c": "d", "a": "b"}).to_json()
    assert jsontext.dumps(one) == jsontext.dumps(other)


@pytest.mark.parametrize(
    ("path", "trailing"),
    [
        ("obs/eef_quat", (4,)),
        ("obs/cube_orientations", (12,)),
        ("obs/cube_orientations", (3, 4)),
        ("states/articulation/robot/root_pose", (7,)),
        ("obs/Object_Pose", (7,)),
        ("states/root_state", (13,)),
        ("states/root_state", (7,)),
        ("obs/base_rot", (4,)),
    ],
)
def test_names_and_widths_that_may_be_quaternions_are_asked_about(
    path: str, trailing: tuple[int, ...]
) -> None:
    assert quaternion_candidates(path, trailing)


@pytest.mark.parametrize(
    ("path", "trailing"),
    [
        ("obs/eef_pos", (3,)),
        ("obs/joint_pos", (7,)),
        ("actions", (7,)),
        ("obs/ee_orientation", (3,)),
        ("obs/datagen_info/eef_pose/franka", (4, 4)),
        ("obs/agentview_rgb", (128, 128, 3)),
        ("obs/quaternion_images", (4, 4, 3)),
        ("obs/root_velocity", (6,)),
        ("rewards", ()),
        ("obs/eef_quat_valid", ()),
    ],
)
def test_others_are_not(path: str, trailing: tuple[int, ...]) -> None:
    assert not quaternion_candidates(path, trailing)
