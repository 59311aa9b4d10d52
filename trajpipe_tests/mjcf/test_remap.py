"""The joint remap: values by name, separate address maps, refusals by name, the table file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajpipe.core.errors import InputError, SchemaError
from trajpipe.mjcf.joints import JointTable, JointType, placed
from trajpipe.mjcf.remap import (
    JointRemap,
    read_table,
    remap,
    robot_fixtures_objects,
    same_table,
    write_table,
)


def table(*joints: tuple[str, str]) -> JointTable:
    """A table of (name, type) in order."""
    return placed((name, JointType(kind), None) for name, kind in joints)


GOAL = table(
    *((f"robot0_joint{i}", "hinge") for i in range(1, 8)),
    ("gripper0_finger_joint1", "slide"),
    ("gripper0_finger_joint2", "slide"),
    *((f"object_{i}_joint0", "free") for i in range(4)),
    ("cabinet_top", "slide"),
    ("cabinet_middle", "slide"),
    ("cabinet_bottom", "slide"),
    ("stove_button", "hinge"),
)


def test_the_built_in_rule_is_robot_fixtures_objects() -> None:
    ours = robot_fixtures_objects(GOAL)
    assert (ours.nq, ours.nv) == (41, 37)
    assert [j.qpos for j in ours.joints] == [*range(9), 9, 10, 11, 12, 13, 20, 27, 34]
    assert [j.dof for j in ours.joints] == [*range(9), 9, 10, 11, 12, 13, 19, 25, 31]
    assert ours.joints[9].name == "cabinet_top"
    assert ours.joints[13].name == "object_0_joint0"


def test_qpos_and_qvel_are_moved_by_maps_of_their_own() -> None:
    moved = remap(GOAL, robot_fixtures_objects(GOAL)).apply(np.arange(78, dtype=np.float64)[np.newaxis])[0]
    np.testing.assert_array_equal(moved[:9], np.arange(9))
    np.testing.assert_array_equal(moved[9:13], [37, 38, 39, 40])
    np.testing.assert_array_equal(moved[13:41], np.arange(9, 37))
    np.testing.assert_array_equal(moved[41:50], 41 + np.arange(9))
    np.testing.assert_array_equal(moved[50:54], 41 + np.array([33, 34, 35, 36]))
    np.testing.assert_array_equal(moved[54:], 41 + np.arange(9, 33))


def test_values_are_copied_bit_for_bit() -> None:
    a, b = table(("x", "hinge"), ("y", "slide")), table(("y", "slide"), ("x", "hinge"))
    rows = np.array([[-0.0, 5e-324, np.inf, -0.0]])
    out = remap(a, b).apply(rows)
    np.testing.assert_array_equal(out.view(np.int64), rows[:, [1, 0, 3, 2]].view(np.int64))


def test_a_row_of_another_width_is_refused_with_the_counts() -> None:
    with pytest.raises(SchemaError, match=r"take\.hdf5.*got \(3, 79\); expected \(T, 41 \+ 37\)"):
        remap(GOAL, GOAL).apply(np.zeros((3, 79)), place="take.hdf5")


def test_joint_sets_that_differ_are_refused_by_name() -> None:
    theirs = table(("a", "hinge"), ("b", "free"), ("c", "slide"))
    ours = table(("a", "slide"), ("c", "slide"), ("d", "free"))
    with pytest.raises(InputError) as caught:
        remap(theirs, ours, place="x.hdf5")
    text = str(caught.value)
    assert "b is not in the target" in text
    assert "d is not in the recording" in text
    assert "a is hinge in the recording and slide in the target" in text
    assert caught.value.code == "joint-sets-differ"


def test_names_can_be_mapped() -> None:
    theirs, ours = table(("robot0_joint1", "hinge")), table(("panda_joint1", "hinge"))
    pair = remap(theirs, ours, names={"robot0_joint1": "panda_joint1"}).pairs[0]
    assert (pair.theirs.name, pair.ours.name) == ("robot0_joint1", "panda_joint1")
    two = table(("a", "hinge"), ("b", "hinge"))
    with pytest.raises(InputError, match="two joints of the recording map to one name"):
        remap(two, ours, names={"a": "panda_joint1", "b": "panda_joint1"})


def test_all_tasks_of_a_store_give_one_table() -> None:
    one = remap(GOAL, robot_fixtures_objects(GOAL), family="libero_goal")
    other = remap(table(("a", "hinge")), table(("a", "hinge")))
    assert same_table({"t1": one, "t2": one}).tasks == 2
    with pytest.raises(InputError) as caught:
        same_table({"t1": one, "t2": one, "t3": other}, hint="Use group_by.")
    assert "2 with 78 words (t1, …); 1 with 2 words (t3, …)" in str(caught.value)
    assert "Use group_by." in str(caught.value)


def test_the_table_file_is_read_back(tmp_path: Path) -> None:
    one = remap(GOAL, robot_fixtures_objects(GOAL), family="libero_goal")
    path = tmp_path / "state_remap_libero_goal.kv"
    write_table(path, one)
    lines = path.read_text().splitlines()
    assert lines[1:6] == ["schema_version=1", "family=libero_goal", "nq=41", "nv=37", "tasks=1"]
    assert "joint=cabinet_top cabinet_top 37 9 1 33 9 1" in lines
    again = read_table(path)
    rows = np.random.default_rng(0).normal(size=(5, 78))
    np.testing.assert_array_equal(again.apply(rows), one.apply(rows))
    assert (again.family, again.tasks) == ("libero_goal", 1)


GOOD = "schema_version=1\nfamily=f\nnq=2\nnv=2\ntasks=1\njoint=a a 0 1 1 0 1 1\njoint=b b 1 0 1 1 0 1\n"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("schema_version=1", "schema_version=2", "another version; got 2; expected 1"),
        ("joint=a a 0 1 1 0 1 1", "joint=a a 0 1 1 0 1", "8 fields; got 7"),
        ("joint=a a 0 1 1 0 1 1", "joint=a a 0 1 2 0 1 1", "no joint has these widths; got 2 1"),
        ("joint=a a 0 1 1 0 1 1", "joint=a a 0 x 1 0 1 1", "a count is a whole number; got x"),
        ("joint=a a 0 1 1 0 1 1", "joint=a a 1 1 1 0 1 1", "addresses leave gaps or overlap"),
        ("nq=2", "nq=3", "nq is the joints' sum"),
        ("family=f", "family f", "a line is key=value"),
    ],
)
def test_a_broken_table_file_names_the_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "t.kv"
    path.write_text("# a comment\n\n" + GOOD)
    assert read_table(path).nq == 2
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(InputError, match=message) as caught:
        read_table(path)
    assert "t.kv" in str(caught.value)


kinds = st.sampled_from(["free", "ball", "slide", "hinge"])


@given(st.lists(kinds, min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_there_and_back_is_the_identity(types: list[str], random: object) -> None:
    theirs = table(*((f"j{i}", kind) for i, kind in enumerate(types)))
    order = list(theirs.names)
    random.shuffle(order)  # type: ignore[attr-defined]  # hypothesis gives a random.Random
    ours = theirs.reordered(order)
    forth, back = remap(theirs, ours), remap(ours, theirs)
    assert isinstance(forth, JointRemap)
    rows = np.arange(2 * (theirs.nq + theirs.nv), dtype=np.float64).reshape(2, -1)
    np.testing.assert_array_equal(back.apply(forth.apply(rows)), rows)
