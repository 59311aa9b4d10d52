"""Quaternions: declared ones are converted exactly once, undeclared ones are asked about with lines to add.

What is not here: the arithmetic of orders, see the core's tests.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from trajpipe.core.conventions import Conventions, QuaternionSite
from trajpipe.core.episode import ArrayColumn, whole
from trajpipe.core.errors import InputError
from trajpipe.core.findings import Severity
from trajpipe.core.quaternions import rotate_xyzw
from trajpipe.sources.demo_columns import sites_of_terms
from trajpipe.sources.quaternion_sites import QuaternionReading, candidate_starts
from trajpipe_tests.sources.builders import Demo, isaac_demo, isaac_file, quaternions, random, read, write

STACK_ENV = '{"env_name": "Isaac-Stack-Cube-Franka-IK-Rel-v0", "type": 2, "env_kwargs": {}}'
YAW_90_WXYZ = np.array([np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)], "f4")


def turned(values: NDArray[Any], *starts: int) -> NDArray[Any]:
    """The expected conversion, written independently: w goes from the front of each span to its end."""
    out = values.copy()
    for s in starts:
        out[..., [s, s + 1, s + 2, s + 3]] = values[..., [s + 1, s + 2, s + 3, s]]
    return out


def pose(length: int, seed: int) -> NDArray[Any]:
    return np.concatenate((random(length, 3, seed=seed), quaternions(length, seed=seed)), axis=1)


def stack_demo(length: int = 6) -> Demo:
    """A legacy demo of the stack environment: the four kinds of place of the real recording."""
    cubes = np.concatenate([pose(length, n) for n in range(3)], axis=1)
    return isaac_demo(
        length,
        obs__eef_quat=quaternions(length),
        obs__cube_orientations=np.concatenate([quaternions(length, seed=n) for n in range(3)], axis=1),
        obs__object=np.concatenate((cubes, random(length, 18)), axis=1),
        states__rigid_object__cube_1__root_pose=pose(length, 7),
        initial_state__articulation__robot__root_pose=pose(1, 8),
    )


STACK_SITES = {
    "obs/eef_quat": (0,),
    "obs/cube_orientations": (0, 4, 8),
    "obs/object": (3, 10, 17),
    "states/rigid_object/cube_1/root_pose": (3,),
    "initial_state/articulation/robot/root_pose": (3,),
}


@pytest.mark.parametrize(
    "name", ["Isaac-Stack-Cube-Franka-IK-Rel-v0", "Isaac-Stack-Cube-Franka-IK-Rel-Mimic-v0"]
)
@pytest.mark.parametrize("root", [{}, {"format_version": 0}])
def test_the_stack_environment_needs_no_declaration(tmp_path: Path, name: str, root: dict[str, int]) -> None:
    demo = stack_demo()
    env = STACK_ENV.replace("Isaac-Stack-Cube-Franka-IK-Rel-v0", name)
    found = read(isaac_file(tmp_path / "x.hdf5", {"demo_0": demo}, root=root, data={"env_args": env}))
    values = found.values["demo_0"] | found.extras["demo_0"]
    for where, recorded in demo.tree.items():
        np.testing.assert_array_equal(
            values[where], turned(recorded, *STACK_SITES.get(where, ())), err_msg=where
        )
    told = {f.place.column: f.got for f in found.findings if f.code == "legacy-quaternions"}
    assert told == {
        "obs/eef_quat": "6 wxyz",
        "obs/cube_orientations": "18 wxyz",
        "obs/object": "18 wxyz",
        "states/rigid_object/cube_1/root_pose": "6 wxyz",
        "initial_state/articulation/robot/root_pose": "1 wxyz",
    }
    assert found.description.conventions["quaternion_order"] == "wxyz"


def test_a_v1_file_is_left_as_it_is(tmp_path: Path) -> None:
    demo = stack_demo()
    found = read(isaac_file(tmp_path / "x.hdf5", {"demo_0": demo}, data={"env_args": STACK_ENV}))
    for where, recorded in demo.tree.items():
        np.testing.assert_array_equal((found.values["demo_0"] | found.extras["demo_0"])[where], recorded)
    assert "legacy-quaternions" not in found.codes()


def test_a_known_yaw_turns_the_same_way_after_conversion(tmp_path: Path) -> None:
    length = 5
    actions = np.concatenate(
        (random(length, 3), np.tile(YAW_90_WXYZ, (length, 1)), np.ones((length, 1), "f4")), axis=1
    )
    demo = Demo(
        {
            "actions": actions,
            "obs/eef_quat": np.tile(YAW_90_WXYZ, (length, 1)),
            "obs/object": np.concatenate((random(length, 3), np.tile(YAW_90_WXYZ, (length, 1))), axis=1),
            "states/robot/root_pose": np.concatenate(
                (random(length, 3), np.tile(YAW_90_WXYZ, (length, 1))), axis=1
            ),
        },
        {"num_samples": length},
    )
    sites = (
        QuaternionSite("actions", (3,)),
        QuaternionSite("obs/eef_quat"),
        QuaternionSite("obs/object", (3,)),
    )
    path = isaac_file(tmp_path / "x.hdf5", {"demo_0": demo}, root={})
    values = read(path, conventions=Conventions(quaternions=sites)).values["demo_0"]
    ahead, left = np.tile([1.0, 0.0, 0.0], (length, 1)), np.tile([0.0, 1.0, 0.0], (length, 1))
    for where, start in (
        ("actions", 3),
        ("obs/eef_quat", 0),
        ("obs/object", 3),
        ("states/robot/root_pose", 3),
    ):
        turn = values[where][:, start : start + 4].astype(np.float64)
        np.testing.assert_allclose(rotate_xyzw(turn, ahead), left, atol=1e-6, err_msg=where)
    np.testing.assert_array_equal(values["actions"][:, [0, 1, 2, 7]], actions[:, [0, 1, 2, 7]])


def test_converting_twice_changes_nothing(tmp_path: Path) -> None:
    demo = stack_demo()
    first = read(isaac_file(tmp_path / "a.hdf5", {"demo_0": demo}, root={}, data={"env_args": STACK_ENV}))
    again = Demo(first.values["demo_0"] | first.extras["demo_0"], demo.attrs)
    data = {"env_args": STACK_ENV, "trajpipe": "{}"}
    second = read(isaac_file(tmp_path / "b.hdf5", {"demo_0": again}, data=data))
    for where, values in again.tree.items():
        got = second.values["demo_0"] | second.extras["demo_0"]
        np.testing.assert_array_equal(got[where], values, err_msg=where)


def test_undeclared_candidates_are_refused_with_yaml_that_then_works(tmp_path: Path) -> None:
    demo = isaac_demo(
        8,
        obs__tool_quat=quaternions(8),
        obs__flat=np.concatenate(
            (random(8, 5), quaternions(8, seed=4), random(8, 2), quaternions(8, seed=5)), axis=1
        ),
        states__robot__root_pose=pose(8, 1),
    )
    path = isaac_file(tmp_path / "x.hdf5", {"demo_0": demo}, root={})
    with pytest.raises(InputError) as caught:
        read(path)
    error = caught.value
    assert error.code == "quaternion-undeclared"
    assert error.got == "obs/flat, obs/tool_quat"
    assert "starts: []" in str(error)
    lines = str(error.hint).split("\n")
    assert lines[1:5] == [
        "    conventions:",
        "      quaternions:",
        "        - {path: obs/flat, starts: [5, 11]}",
        "        - {path: obs/tool_quat, starts: [0]}",
    ]
    declared = yaml.safe_load("\n".join(lines[1:5]))["conventions"]["quaternions"]
    sites = tuple(QuaternionSite(s["path"], tuple(s["starts"])) for s in declared)
    values = read(path, conventions=Conventions(quaternions=sites)).values["demo_0"]
    np.testing.assert_array_equal(values["obs/flat"], turned(demo.tree["obs/flat"], 5, 11))
    np.testing.assert_array_equal(values["obs/tool_quat"], turned(demo.tree["obs/tool_quat"], 0))


def test_broken_bytes_of_one_demo_do_not_stop_the_asking(tmp_path: Path) -> None:
    path = isaac_file(
        tmp_path / "x.hdf5", {"demo_0": isaac_demo(8), "demo_1": isaac_demo(8, seed=2)}, root={}
    )
    with h5py.File(path, "a") as handle:
        broken = handle.create_dataset("data/demo_0/obs/x", data=random(8, 6), chunks=(8, 6), compression=4)
        handle["data/demo_1/obs/x"] = np.concatenate((random(8, 2), quaternions(8)), axis=1)
        where = broken.id.get_chunk_info(0).byte_offset
    content = bytearray(path.read_bytes())
    content[where + 8 : where + 40] = b"\xff" * 32
    path.write_bytes(content)
    with pytest.raises(InputError, match=re.escape("{path: obs/x, starts: [2]}")):
        read(path)


def test_a_declaration_of_no_quaternion_is_believed(tmp_path: Path) -> None:
    demo = isaac_demo(8, obs__eef_quat=quaternions(8))
    path = isaac_file(tmp_path / "x.hdf5", {"demo_0": demo}, root={})
    values = read(path, conventions=Conventions(quaternions=(QuaternionSite("obs/eef_quat", ()),))).values
    np.testing.assert_array_equal(values["demo_0"]["obs/eef_quat"], demo.tree["obs/eef_quat"])


def test_a_declared_order_of_xyzw_converts_nothing_and_asks_nothing(tmp_path: Path) -> None:
    demo = isaac_demo(8, obs__eef_quat=quaternions(8))
    path = isaac_file(tmp_path / "x.hdf5", {"demo_0": demo}, root={})
    found = read(path, conventions=Conventions(quaternion_order="xyzw"))
    np.testing.assert_array_equal(found.values["demo_0"]["obs/eef_quat"], demo.tree["obs/eef_quat"])
    assert found.finding("format-version-missing").got == "the declared xyzw"


def test_one_site_may_declare_an_order_of_its_own(tmp_path: Path) -> None:
    demo = isaac_demo(8, obs__eef_quat=quaternions(8), obs__tool_quat=quaternions(8, seed=3))
    path = isaac_file(tmp_path / "x.hdf5", {"demo_0": demo})
    sites = (QuaternionSite("obs/tool_quat", (0,), "wxyz"),)
    values = read(path, conventions=Conventions(quaternions=sites)).values["demo_0"]
    np.testing.assert_array_equal(values["obs/eef_quat"], demo.tree["obs/eef_quat"])
    np.testing.assert_array_equal(values["obs/tool_quat"], turned(demo.tree["obs/tool_quat"], 0))


def test_a_declared_site_beats_the_built_in_one(tmp_path: Path) -> None:
    demo = stack_demo()
    path = isaac_file(tmp_path / "x.hdf5", {"demo_0": demo}, root={}, data={"env_args": STACK_ENV})
    sites = (QuaternionSite("obs/object", (3,)),)
    values = read(path, conventions=Conventions(quaternions=sites)).values["demo_0"]
    np.testing.assert_array_equal(values["obs/object"], turned(demo.tree["obs/object"], 3))


@pytest.mark.parametrize("starts", [(37,), (-1,), (3, 6)])
def test_spans_that_do_not_fit_are_refused(tmp_path: Path, starts: tuple[int, ...]) -> None:
    path = isaac_file(tmp_path / "x.hdf5", {"demo_0": stack_demo()}, root={}, data={"env_args": STACK_ENV})
    with pytest.raises(InputError, match="obs/object") as caught:
        read(path, conventions=Conventions(quaternions=(QuaternionSite("obs/object", starts),)))
    assert caught.value.code in ("quaternion-outside", "quaternion-not-unit")


def test_a_wrong_offset_is_refused_before_it_scrambles_the_data(tmp_path: Path) -> None:
    path = isaac_file(tmp_path / "x.hdf5", {"demo_0": stack_demo()}, root={}, data={"env_args": STACK_ENV})
    with pytest.raises(InputError, match="norm 1") as caught:
        read(path, conventions=Conventions(quaternions=(QuaternionSite("obs/object", (0,)),)))
    assert caught.value.code == "quaternion-not-unit"


def test_unnormalised_action_quaternions_are_converted_with_a_warning(tmp_path: Path) -> None:
    actions = np.concatenate((random(6, 3), quaternions(6) * 1.3), axis=1)
    path = isaac_file(
        tmp_path / "x.hdf5", {"demo_0": Demo({"actions": actions, "obs/x": random(6, 2)})}, root={}
    )
    found = read(path, conventions=Conventions(quaternions=(QuaternionSite("actions", (3,)),)))
    np.testing.assert_array_equal(found.values["demo_0"]["actions"], turned(actions, 3))
    assert found.finding("quaternion-not-unit").severity is Severity.WARN


def test_terms_of_a_concatenated_obs_are_converted_by_term_or_by_offset(tmp_path: Path) -> None:
    joined = np.concatenate((random(6, 3), quaternions(6), random(6, 2)), axis=1)
    path = isaac_file(
        tmp_path / "x.hdf5", {"demo_0": Demo({"actions": random(6, 7), "obs": joined})}, root={}
    )
    widths = {"eef_pos": 3, "eef_quat": 4, "gripper": 2}
    with pytest.raises(InputError, match=re.escape("{path: obs/eef_quat, starts: [0]}")):
        read(path, conventions=Conventions(term_widths=widths))
    for site in (QuaternionSite("obs/eef_quat", (0,)), QuaternionSite("obs", (3,))):
        values = read(path, conventions=Conventions(quaternions=(site,), term_widths=widths)).values["demo_0"]
        np.testing.assert_array_equal(values["obs/eef_quat"], turned(joined[:, 3:7], 0))
        np.testing.assert_array_equal(values["obs/eef_pos"], joined[:, :3])


def test_a_quaternion_across_two_terms_is_refused() -> None:
    with pytest.raises(InputError, match="across two terms") as caught:
        sites_of_terms((QuaternionSite("obs", (2,)),), {"a": 3, "b": 4})
    assert caught.value.got == "starts [2]"


def test_robomimic_is_xyzw_and_its_states_are_left_alone(tmp_path: Path) -> None:
    tree = {"actions": random(6, 7), "obs/robot0_eef_quat": quaternions(6), "states": pose(6, 2)}
    env = '{"env_name": "Lift", "type": 1, "env_kwargs": {}}'
    found = read(write(tmp_path / "x.hdf5", {"demo_0": Demo(tree)}, data={"env_args": env}))
    assert found.description.kind == "robomimic"
    for where, recorded in tree.items():
        np.testing.assert_array_equal(found.values["demo_0"][where], recorded)


def test_an_isaac_environment_in_robomimics_form_is_asked_about(tmp_path: Path) -> None:
    tree = {"actions": random(6, 7), "obs/eef_quat": quaternions(6), "rewards": random(6)}
    env = '{"env_name": "Isaac-Lift-Cube-Franka-IK-Rel-v0", "type": 2, "env_kwargs": {}}'
    path = write(tmp_path / "x.hdf5", {"demo_0": Demo(tree)}, data={"env_args": env})
    with pytest.raises(InputError) as caught:
        read(path)
    assert caught.value.code == "quaternion-undeclared"
    assert "quaternion_order: xyzw" in str(caught.value)
    kept = read(path, conventions=Conventions(quaternion_order="xyzw")).values["demo_0"]["obs/eef_quat"]
    np.testing.assert_array_equal(kept, tree["obs/eef_quat"])


ZEROS, ONE_HOT, IDENTITY = np.zeros((5, 4)), np.tile([0.0, 0, 1, 0], (5, 1)), np.tile([1.0, 0, 0, 0], (5, 1))


@pytest.mark.parametrize(
    ("path", "trailing", "rows", "expected"),
    [
        ("obs/object", (11,), np.concatenate((random(5, 7), quaternions(5)), axis=1), [7]),
        ("obs/target_quat", (4,), random(5, 4), [0]),
        ("obs/cube_orientations", (12,), random(5, 12), [0, 4, 8]),
        ("obs/joint_pose", (7,), random(5, 7), []),
        ("obs/joint_pos", (9,), random(5, 9), []),
        ("obs/task", (4,), ONE_HOT, []),
        ("obs/still", (4,), IDENTITY, [0]),
        ("obs/nothing", (4,), ZEROS, []),
        ("obs/some", (4,), np.concatenate((ZEROS, quaternions(5))), [0]),
        ("obs/pose", (4, 4), np.tile(np.eye(4), (5, 1)), []),
        ("obs/moved_rot_pose", (2, 4, 4), np.tile(np.eye(4) + np.eye(4, k=3) * 2, (4, 1)), []),
        ("obs/transform", (3, 4), np.tile(np.eye(3, 4) + 2 * np.eye(3, 4, k=3), (5, 1)), []),
        ("obs/cube_quats", (3, 4), quaternions(15), [0]),
        ("obs/cube_quats", (4, 4), quaternions(20), [0]),
        ("obs/bodies", (6, 4), quaternions(30), [0]),
    ],
)
def test_what_is_asked_about(
    path: str, trailing: tuple[int, ...], rows: NDArray[Any], expected: list[int]
) -> None:
    assert candidate_starts(path, trailing, rows) == expected


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 20),
    starts=st.lists(st.integers(0, 8), max_size=4, unique=True),
    seed=st.integers(0, 1000),
)
def test_converting_moves_only_the_declared_spans(rows: int, starts: list[int], seed: int) -> None:
    spans = tuple(9 * s for s in starts)
    values = np.random.default_rng(seed).normal(size=(rows, 80)).astype("f4")
    reading = QuaternionReading((QuaternionSite("x", spans),), "wxyz", "f")
    got = whole(reading.as_xyzw("x", ArrayColumn(values)))
    np.testing.assert_array_equal(got, turned(values, *spans))
    assert sum(reading.converted.values()) == rows * len(spans)


@pytest.mark.parametrize("odd", [0, 1, 2])
def test_a_site_that_fits_all_demos_but_one_rejects_that_one(tmp_path: Path, odd: int) -> None:
    demos = {
        f"demo_{i}": isaac_demo(6, obs__cube_quat=random(6, 3) if i == odd else quaternions(6))
        for i in range(3)
    }
    path = isaac_file(tmp_path / "x.hdf5", demos, root={})
    declared = Conventions(quaternions=(QuaternionSite("obs/cube_quat", (0,)),))
    found = read(path, conventions=declared)
    assert [e.name for e in found.episodes] == [f"demo_{i}" for i in range(3) if i != odd]
    (rejection,) = found.rejections
    assert (rejection.episode, rejection.reason) == (f"demo_{odd}", "other-terms")
    assert "in a column 3 wide" in rejection.detail


def test_a_site_that_fits_no_demo_is_the_declarations_fault(tmp_path: Path) -> None:
    demos = {f"demo_{i}": isaac_demo(6, obs__cube_quat=random(6, 3)) for i in range(3)}
    path = isaac_file(tmp_path / "x.hdf5", demos, root={})
    with pytest.raises(InputError, match="in a column 3 wide"):
        read(path, conventions=Conventions(quaternions=(QuaternionSite("obs/cube_quat", (0,)),)))
