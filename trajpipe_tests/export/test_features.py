"""Tests of features: which terms become what, and every way in which they do not fit."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from trajpipe.core.errors import InputError, SchemaError, UsageError
from trajpipe.export import profiles as registry
from trajpipe.export.features import Feature, features_of, left_out, require_same, state_terms
from trajpipe.export.options import ExportOptions
from trajpipe.export.profiles import ExportProfile, profile, profiles, register
from trajpipe.export.tables import arrow, timestamps
from trajpipe.export.tasks import TaskTable
from trajpipe_tests.export.scenes import episode, frames, options


def features(columns: dict[str, Any] | None = None, **changes: Any) -> dict[str, Feature]:
    """Features by name."""
    return {f.name: f for f in features_of(episode(0, 6, columns=columns or {}), options(**changes))}


def test_every_flat_term_in_natural_order_is_the_state() -> None:
    columns = {
        "obs/joint_10": np.zeros((6, 1)),
        "obs/joint_2": np.zeros(6),
        "obs/matrix": np.zeros((6, 4, 4)),
        "obs/datagen_info/grasp": np.zeros((6, 1), bool),
        "obs/flag": np.zeros(6, bool),
    }
    state = features(columns)["observation.state"]
    assert state.parts == (
        ("obs/flag", 0, 1),
        ("obs/gripper", 1, 2),
        ("obs/joint_2", 2, 3),
        ("obs/joint_10", 3, 4),
        ("obs/joint_pos", 4, 13),
    )
    assert state.names is not None
    assert state.names[:5] == ("flag", "gripper", "joint_2", "joint_10", "joint_pos_0")
    assert (state.dtype, state.shape) == ("float32", (13,))


def test_configured_terms_keep_their_order() -> None:
    state = features(state=("joint_pos", "gripper"))["observation.state"]
    assert [p for p, _, _ in state.parts] == ["obs/joint_pos", "obs/gripper"]


def test_a_term_used_as_an_extra_is_not_in_the_state_as_well() -> None:
    found = features(extras={"observation.environment_state": "obs/joint_pos"})
    assert [p for p, _, _ in found["observation.state"].parts] == ["obs/gripper"]
    assert found["observation.environment_state"].names == tuple(
        f"observation.environment_state_{i}" for i in range(9)
    )


def test_no_state_is_possible() -> None:
    assert "observation.state" not in features(state=())
    assert state_terms(episode(0, 2), options(state=())) == ()


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [(">f8", "float64"), ("<f4", "float32"), (">i4", "int32"), ("bool", "bool"), ("uint8", "uint8")],
)
def test_extras_keep_their_dtype_in_native_order(dtype: str, expected: str) -> None:
    found = features({"rewards": np.ones(6, dtype)}, extras={"next.reward": "rewards"})["next.reward"]
    assert (found.dtype, found.shape, found.names) == (expected, (1,), None)
    rows = found.rows(episode(0, 6, columns={"rewards": np.ones(6, dtype)}))
    assert rows.dtype == np.dtype(expected)
    assert rows.dtype.isnative
    assert str(arrow(rows).type) == {"float64": "double", "float32": "float"}.get(expected, expected)


def test_rows_are_cast_once_to_nearest() -> None:
    values = np.array([[1 / 3, 1e-9], [2 / 3, 16777217.0]])
    found = features({"actions": np.repeat(values, 3, axis=0)})["action"]
    rows = found.rows(episode(0, 6, columns={"actions": np.repeat(values, 3, axis=0)}))
    np.testing.assert_array_equal(rows, np.repeat(values, 3, axis=0).astype(np.float32))


def test_scalars_of_both_shapes_are_scalar_columns() -> None:
    columns = {"rewards": np.arange(6.0), "dones": np.zeros((6, 1), bool)}
    found = features(columns, extras={"next.reward": "rewards", "next.done": "dones"})
    one = episode(0, 6, columns=columns)
    assert [str(arrow(found[n].rows(one)).type) for n in ("next.reward", "next.done")] == ["double", "bool"]


def test_names_that_fit() -> None:
    found = features(names={"joint_pos": tuple("abcdefghi"), "actions": tuple("uvwxyzt")})
    assert found["observation.state"].names == ("gripper", *"abcdefghi")
    assert found["action"].names == tuple("uvwxyzt")


def test_six_joint_names_for_eight_columns_list_the_difference() -> None:
    with pytest.raises(SchemaError, match="names must fit") as caught:
        features({"obs/joint_pos": np.zeros((6, 8))}, names={"joint_pos": tuple("abcdef")})
    text = str(caught.value)
    assert "6 names (a, b, c, d, e, f); no name for dimensions 6..7" in text
    assert "expected 8 names" in text


def test_too_many_names_are_listed() -> None:
    with pytest.raises(SchemaError, match="beyond the width: h, i"):
        features(names={"actions": tuple("abcdefghi")})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"state": ("joint_vel",)}, "the episode has no such term"),
        ({"state": ("front",)}, "a row feature is a numeric term"),
        ({"action": "controls"}, "the episode has no such term"),
        ({"cameras": ("wrist",)}, "the episode has no such term"),
        ({"cameras": ("joint_pos",)}, "a camera is a uint8 term of frames"),
        ({"extras": {"a/b": "rewards"}}, "must not hold `/`"),
        ({"extras": {"timestamp": "rewards"}}, "used twice, or is one of LeRobot's own"),
        ({"extras": {"action": "rewards"}}, "used twice, or is one of LeRobot's own"),
        ({"extras": {"image_score": "rewards"}}, "with `image` in it must be a camera"),
    ],
)
def test_options_that_do_not_fit_the_episode(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        features(**changes)


def test_a_missing_term_names_the_file_and_the_terms_that_exist() -> None:
    with pytest.raises(SchemaError) as caught:
        features(state=("eef_pos",))
    text = str(caught.value)
    assert "scripted_lift.hdf5 · demo_0 · obs/eef_pos" in text
    assert "obs/gripper, obs/joint_pos" in text


@pytest.mark.parametrize(
    "term",
    [np.zeros((6, 3, 8, 8), np.uint8), np.zeros((6, 8, 8, 3), np.float32), np.zeros((6, 8, 8), np.uint8)],
    ids=["CHW", "float", "grey without a channel"],
)
def test_frames_of_another_form_are_not_taken_for_cameras(term: np.ndarray) -> None:
    one = episode(0, 6, columns={"obs/front": term})
    assert not [f for f in features_of(one, options()) if f.kind != "rows"]
    assert any(text.startswith("obs/front") for text in left_out(one, features_of(one, options())))
    with pytest.raises(SchemaError, match="rows top first, channels last"):
        features_of(one, options(cameras=("front",)))


@pytest.mark.parametrize(
    ("size", "codec", "fits"),
    [
        ((64, 64), "h264", True), ((64, 64), "av1", True),
        ((63, 65), "h264", False), ((63, 65), "av1", False),
        ((16, 16), "h264", True), ((16, 16), "av1", False), ((8, 8), "av1", False), ((62, 64), "av1", False),
        ((63, 65), "png", True), ((1, 1), "png", True),
    ],
)  # fmt: skip
def test_frame_sizes_of_each_codec(size: tuple[int, int], codec: str, fits: bool) -> None:
    columns = {"obs/front": frames(6, 0, size)}
    if fits:
        kind = "image" if codec == "png" else "video"
        assert features(columns, codec=codec)["observation.images.front"].kind == kind
        return
    with pytest.raises(SchemaError, match=f"the {codec} encoder does not take") as caught:
        features(columns, codec=codec)
    assert f"{size[0]}x{size[1]}" in str(caught.value)


@pytest.mark.parametrize("path", ["obs/joint_pos", "actions"])
def test_gr00t_refuses_width_1_and_says_why(path: str) -> None:
    columns: dict[str, Any] = {path: np.zeros((6, 1)), "obs/gripper": None}
    with pytest.raises(SchemaError, match="cannot stack a state or action of width 1"):
        features(columns, gr00t=True)
    assert features(columns)


def test_differing_terms_name_file_and_both_sides() -> None:
    first = features_of(episode(0, 6), options())
    other = episode(1, 6, columns={"obs/eef_pos": np.zeros((6, 3))}, source_file="rl_lift.hdf5")
    with pytest.raises(SchemaError) as caught:
        require_same(first, other, features_of(other, options()))
    text = str(caught.value)
    assert "rl_lift.hdf5 · demo_1 · observation.state" in text
    assert "got float32 [13] of obs/eef_pos[3], obs/gripper[1], obs/joint_pos[9]" in text
    assert "expected float32 [10] of obs/gripper[1], obs/joint_pos[9], as in the first episode" in text


@pytest.mark.parametrize(
    "columns",
    [
        {"obs/front": None},
        {"obs/front": frames(6, 0, (32, 32))},
        {"obs/wrist": frames(6)},
        {"actions": np.zeros((6, 8))},
    ],
    ids=["camera gone", "camera size", "camera more", "action width"],
)
def test_ragged_features_are_refused(columns: dict[str, Any]) -> None:
    first, other = features_of(episode(0, 6), options()), episode(1, 6, columns=columns)
    with pytest.raises(SchemaError, match="every episode must have the same features"):
        require_same(first, other, features_of(other, options()))


# --- timestamps


@pytest.mark.parametrize(
    ("fps", "seconds"), [(30, 1024), (50, 1024), (100, 1024), (200, 1024), (10, 2048), (20, 2048), (60, 2048)]
)
def test_the_longest_episode_that_float32_can_time(fps: int, seconds: int) -> None:
    rate = Fraction(fps)
    assert len(timestamps(seconds * fps, rate, "here")) == seconds * fps
    with pytest.raises(InputError, match="float32 timestamps") as caught:
        timestamps(2 * seconds * fps, rate, "here")
    assert "expected at most" in str(caught.value)


def test_one_row_starts_at_zero() -> None:
    assert timestamps(1, Fraction(30), "here").tolist() == [0.0]


# --- tasks


def test_tasks_are_numbered_by_first_appearance_byte_for_byte() -> None:
    table = TaskTable("", ())
    texts = ["pick", "pick ", "", "立方体", "pick"]
    found = [int(table.rows(episode(i, 2, task=t))[0][0]) for i, t in enumerate(texts)]
    assert found == [0, 1, 2, 3, 0]
    assert table.texts == ("pick", "pick ", "", "立方体")


def test_three_tasks_that_alternate_inside_an_episode() -> None:
    table = TaskTable("", ("place", "pick", "unused", "立方体"))
    column = np.array([1, 1, 0, 3, 1, 0])
    rows, texts = table.rows(episode(0, 6, columns={"task_index": column}))
    assert rows.tolist() == [0, 0, 1, 2, 0, 1]
    assert texts == ("pick", "place", "立方体")
    assert table.texts == texts


def test_a_task_index_outside_the_declared_texts() -> None:
    table = TaskTable("", ("a",))
    with pytest.raises(InputError, match=r"demo_0 · task_index · row 4.*got 1; expected 0..0"):
        table.rows(episode(0, 6, columns={"task_index": np.array([0, 0, 0, 0, 1, 0])}))


def test_episodes_without_a_task_are_counted() -> None:
    table = TaskTable("do it", ())
    table.rows(episode(0, 2, task=None))
    table.rows(episode(1, 2, task=""))
    assert (table.filled, table.texts) == (1, ("do it", ""))


# --- options and profiles


@pytest.mark.parametrize(
    "changes",
    [
        {"version": "v1.6"}, {"codec": "vp9"}, {"fps": Fraction(0)}, {"workers": 0}, {"chunk_size": 0},
        {"gr00t": True, "version": "v3.0"}, {"gr00t": True, "codec": "av1"},
    ],
)  # fmt: skip
def test_options_that_cannot_be(changes: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        options(**changes)


def test_the_recipe_holds_everything_that_changes_the_bytes() -> None:
    one = options(workers=1).to_json()
    assert one == options(workers=8).to_json()
    assert (one["fps"], one["crf"], one["preset"]) == ("20", 23, "ultrafast")
    assert options(codec="av1").to_json()["crf"] == 30
    assert one != options(crf=24).to_json()


def test_profiles_by_name() -> None:
    made = profile("gr00t-v2.0").options(fps=Fraction(20), robot_type="panda")
    assert (made.version, made.gr00t, made.robot_type) == ("v2.0", True, "panda")
    assert {"lerobot-v2.0", "lerobot-v2.1", "lerobot-v3.0"} <= set(profiles())
    assert profile().options(fps=Fraction(20)) == ExportOptions(fps=Fraction(20))


def test_what_is_chosen_wins_over_the_profile() -> None:
    assert profile("lerobot-v2.1").options(fps=Fraction(20), version="v2.0").version == "v2.0"


def test_a_profile_that_does_not_exist_lists_those_that_do() -> None:
    with pytest.raises(KeyError, match=r"got rlds; expected one of gr00t-v2.0"):
        profile("rlds")


def test_a_profile_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
    register(ExportProfile("ours", "AV1 without state", {"codec": "av1", "state": ()}))
    assert profile("ours").options(fps=Fraction(10)).codec == "av1"
