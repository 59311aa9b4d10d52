"""The isaaclab source: versions, counts, alignment, success, L2 files read again.

What is not here: quaternions (`test_quaternions`), images (`test_images`), real files (`test_real_files`).
"""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from trajpipe.core import names
from trajpipe.core.conventions import Conventions
from trajpipe.core.episode import blocks
from trajpipe.core.errors import InputError, UnreadableError
from trajpipe.core.findings import Severity
from trajpipe.core.order import natural_sorted
from trajpipe.sources.base import ReadOptions, source
from trajpipe.testing import write_recording
from trajpipe_tests.sources.builders import Demo, isaac_demo, isaac_file, random, read


def test_columns_extras_and_fields_of_a_v1_file(tmp_path: Path) -> None:
    demo = isaac_demo(6, initial_state__robot__joint_position=random(1, 9), states__robot__q=random(6, 9))
    demo.attrs = {**demo.attrs, "seed": 42, "operator": "jo"}
    path = isaac_file(tmp_path / "teleop_lift.hdf5", {"demo_0": demo})
    found = read(path)
    (episode,) = found.episodes
    assert (episode.name, episode.length, episode.success, episode.seed) == ("demo_0", 6, True, 42)
    assert (episode.alignment, episode.tag, episode.task, episode.split) == (
        "before_action",
        "teleop",
        None,
        None,
    )
    assert (episode.source_file, episode.source_demo) == ("teleop_lift.hdf5", "demo_0")
    assert episode.source_sha256 == "ab" * 32
    assert episode.attributes == {"operator": "jo"}
    assert list(found.values["demo_0"]) == ["actions", "obs/joint_pos", "states/robot/q"]
    for where, values in found.values["demo_0"].items():
        np.testing.assert_array_equal(values, demo.tree[where])
    np.testing.assert_array_equal(
        found.extras["demo_0"]["initial_state/robot/joint_position"],
        demo.tree["initial_state/robot/joint_position"],
    )
    assert found.description.kind == "isaaclab"
    assert found.description.conventions["quaternion_order"] == "xyzw"
    assert found.findings == []


@pytest.mark.parametrize("gzip", [True, False])
@pytest.mark.parametrize("version", [1, 0, None])
def test_every_version_zipped_or_not_gives_the_same_numbers(
    tmp_path: Path, version: int | None, gzip: bool
) -> None:
    def numbers(version: int | None, gzip: bool) -> dict[str, Any]:
        path = tmp_path / f"{version}-{gzip}.hdf5"
        write_recording(
            "isaaclab",
            path,
            episodes=2,
            rows=(5, 7),
            cameras=(),
            task="stack",
            format_version=version,
            gzip=gzip,
        )
        found = read(path)
        assert ("format-version-missing" in found.codes()) == (version is None)
        assert ("legacy-quaternions" in found.codes()) == (version != 1)
        return found.values | {f"{n} extras": e for n, e in found.extras.items()}

    expected, got = numbers(1, True), numbers(version, gzip)
    assert list(got) == list(expected)
    for demo, columns in expected.items():
        assert list(got[demo]) == list(columns)
        for where, values in columns.items():
            np.testing.assert_array_equal(got[demo][where], values, err_msg=f"{demo} {where}")


def test_demos_come_in_numeric_order_with_their_own_names(tmp_path: Path) -> None:
    numbers = [0, 1, 10, 100, 2, 11, 3, 20, 4, 5, 21, 6]
    demos = {f"demo_{n}": Demo({"actions": np.full((3, 2), n, "f4"), "obs/x": random(3, 2)}) for n in numbers}
    found = read(isaac_file(tmp_path / "x.hdf5", demos))
    expected = sorted(numbers)
    assert [e.source_demo for e in found.episodes] == [f"demo_{n}" for n in expected]
    assert [found.values[e.name]["actions"][0, 0] for e in found.episodes] == expected
    gap = found.finding("numbering-gaps")
    assert gap.severity is Severity.INFO
    assert gap.got == "0, 1, 2, 3, 4, 5, 6, 10, 11, 20, 21, 100"
    assert gap.expected == "0..11"


def test_wrong_total_and_missing_counts_are_named_and_counted_again(tmp_path: Path) -> None:
    demos = {"demo_0": isaac_demo(6), "demo_1": isaac_demo(4), "demo_2": isaac_demo(5)}
    demos["demo_0"].attrs = {"success": True}
    demos["demo_1"].attrs = {"success": True, "num_samples": 9}
    demos["demo_2"].attrs = {"success": True, "num_samples": np.array([5])}
    found = read(isaac_file(tmp_path / "x.hdf5", demos, data={"total": 999}))
    total = found.finding("total-wrong")
    assert (total.severity, total.got, total.expected) == (Severity.INFO, "999", "15")
    missing, wrong = found.finding("num-samples-missing"), found.finding("num-samples-wrong")
    assert (missing.place.demo, missing.expected) == ("demo_0", "6")
    assert (wrong.place.demo, wrong.got, wrong.expected) == ("demo_1", "9", "4")
    assert [e.length for e in found.episodes] == [6, 4, 5]


def test_a_missing_total_is_named(tmp_path: Path) -> None:
    path = isaac_file(tmp_path / "x.hdf5")
    with h5py.File(path, "a") as handle:
        del handle["data"].attrs["total"]
    assert read(path).finding("total-missing").expected == "10"


def test_a_recording_without_a_demo_is_no_empty_success(tmp_path: Path) -> None:
    path = isaac_file(tmp_path / "x.hdf5", {})
    for call in (source("isaaclab").describe, lambda p, o: list(source("isaaclab").episodes(p, o))):
        with pytest.raises(InputError, match="no demos") as caught:
            call(path, ReadOptions())
        assert caught.value.code == "no-demos"
        assert "x.hdf5" in str(caught.value)


def test_a_file_of_failed_demos_is_read_and_says_so(tmp_path: Path) -> None:
    path = write_recording("isaaclab", tmp_path / "x.hdf5", failed=True, rows=(4, 5), cameras=())
    assert path.name == "x_failed.hdf5"
    assert [e.success for e in read(path).episodes] == [False, False, False]


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        (True, True),
        (np.bool_(False), False),
        (1, True),
        (np.uint8(0), False),
        (np.array([True]), True),
        (1.0, True),
        ("yes", None),
        (2, None),
        (None, None),
    ],
)
def test_success_is_a_bool_or_unknown(tmp_path: Path, recorded: Any, expected: bool | None) -> None:
    demo = isaac_demo()
    demo.attrs = {"num_samples": 6} if recorded is None else {"num_samples": 6, "success": recorded}
    found = read(isaac_file(tmp_path / "x.hdf5", {"demo_0": demo, "demo_1": isaac_demo()}))
    assert found.episodes[0].success is expected
    if expected is None:
        assert found.finding("success-unknown").got == "1 of 2 demos without it"
    else:
        assert "success-unknown" not in found.codes()


def test_obs_actions_of_another_width_is_reported_and_actions_win(tmp_path: Path) -> None:
    demo = Demo({"actions": random(6, 6), "obs/actions": random(6, 8, seed=3)}, {"num_samples": 6})
    found = read(isaac_file(tmp_path / "x.hdf5", {"demo_0": demo}))
    conflict = found.finding("obs-actions-conflict")
    assert (conflict.severity, conflict.place.demo) == (Severity.WARN, "demo_0")
    assert (conflict.got, conflict.expected) == ("(6, 8)", "(6, 6)")
    np.testing.assert_array_equal(found.values["demo_0"]["actions"], demo.tree["actions"])
    assert found.values["demo_0"]["obs/actions"].shape == (6, 8)


@pytest.mark.parametrize(
    "tree", [{"obs/x": random(5, 2)}, {"actions": np.zeros((0, 7)), "obs/x": np.zeros((0, 2))}]
)
def test_a_demo_without_actions_is_rejected_and_the_others_land(tmp_path: Path, tree: dict[str, Any]) -> None:
    found = read(isaac_file(tmp_path / "x.hdf5", {"demo_0": Demo(tree), "demo_1": isaac_demo()}))
    assert [e.name for e in found.episodes] == ["demo_1"]
    (rejection,) = found.rejections
    assert (rejection.episode, rejection.reason) == ("demo_0", names.Reason.NO_ACTIONS)


def test_ragged_observations_reject_the_demo_naming_both_counts(tmp_path: Path) -> None:
    demos = {"demo_0": isaac_demo(6, obs__eef_pos=random(7, 3)), "demo_1": isaac_demo(4)}
    found = read(isaac_file(tmp_path / "x.hdf5", demos))
    assert [e.name for e in found.episodes] == ["demo_1"]
    (rejection,) = found.rejections
    assert rejection.reason == names.Reason.RAGGED
    for words in ("obs/eef_pos", "7 rows", "6 rows", "image_alignment"):
        assert words in rejection.detail


@pytest.mark.parametrize(("choice", "kept"), [("drop_first", slice(1, 7)), ("drop_last", slice(0, 6))])
def test_one_extra_observation_is_dropped_only_as_configured(
    tmp_path: Path, choice: str, kept: slice
) -> None:
    extra = random(7, 3)
    path = isaac_file(tmp_path / "x.hdf5", {"demo_0": isaac_demo(6, obs__eef_pos=extra)})
    found = read(path, options={"image_alignment": choice})
    np.testing.assert_array_equal(found.values["demo_0"]["obs/eef_pos"], extra[kept])
    recorded = found.finding("image-alignment")
    assert choice in recorded.message
    assert (recorded.got, recorded.expected) == ("7", "6")


def test_two_extra_observations_are_ragged_whatever_is_configured(tmp_path: Path) -> None:
    path = isaac_file(tmp_path / "x.hdf5", {"demo_0": isaac_demo(6, obs__eef_pos=random(8, 3))})
    assert read(path, options={"image_alignment": "drop_first"}).rejections[0].reason == names.Reason.RAGGED


def test_states_of_another_length_are_ragged(tmp_path: Path) -> None:
    path = isaac_file(tmp_path / "x.hdf5", {"demo_0": isaac_demo(6, states__robot__q=random(5, 3))})
    assert read(path).rejections[0].reason == names.Reason.RAGGED


def test_initial_state_stays_an_extra_in_a_demo_of_one_row(tmp_path: Path) -> None:
    demo = isaac_demo(1, initial_state__robot__joint_position=random(1, 9))
    found = read(isaac_file(tmp_path / "x.hdf5", {"demo_0": demo}))
    assert list(found.extras["demo_0"]) == ["initial_state/robot/joint_position"]
    assert found.episodes[0].length == 1


def test_nested_observation_groups_are_kept_as_recorded(tmp_path: Path) -> None:
    pose = np.broadcast_to(np.eye(4, dtype="f4"), (6, 4, 4))
    signal = np.array([False, False, True, True, False, True])
    demo = isaac_demo(6, obs__datagen_info__eef_pose__franka=pose, obs__datagen_info__signals__grasp_1=signal)
    values = read(isaac_file(tmp_path / "x.hdf5", {"demo_0": demo}, root={})).values["demo_0"]
    np.testing.assert_array_equal(values["obs/datagen_info/eef_pose/franka"], pose)
    assert values["obs/datagen_info/signals/grasp_1"].dtype == np.bool_
    np.testing.assert_array_equal(values["obs/datagen_info/signals/grasp_1"], signal)


def test_a_concatenated_obs_is_split_by_the_declared_widths(tmp_path: Path) -> None:
    joined = random(6, 12)
    path = isaac_file(tmp_path / "x.hdf5", {"demo_0": Demo({"actions": random(6, 7), "obs": joined})})
    found = read(path, conventions=Conventions(term_widths={"joint_pos": 9, "eef_pos": 3}))
    assert list(found.values["demo_0"]) == ["actions", "obs/joint_pos", "obs/eef_pos"]
    np.testing.assert_array_equal(found.values["demo_0"]["obs/joint_pos"], joined[:, :9])
    np.testing.assert_array_equal(found.values["demo_0"]["obs/eef_pos"], joined[:, 9:])


def test_widths_that_do_not_add_up_name_both_sums(tmp_path: Path) -> None:
    path = isaac_file(tmp_path / "x.hdf5", {"demo_0": Demo({"actions": random(6, 7), "obs": random(6, 12)})})
    with pytest.raises(InputError) as caught:
        read(path, conventions=Conventions(term_widths={"joint_pos": 9, "eef_pos": 4}))
    assert caught.value.code == "term-widths"
    assert (caught.value.got, caught.value.expected) == ("9 + 4 = 13", "12")


def test_a_concatenated_obs_without_widths_prints_the_lines_to_add(tmp_path: Path) -> None:
    path = isaac_file(tmp_path / "x.hdf5", {"demo_0": Demo({"actions": random(6, 7), "obs": random(6, 12)})})
    with pytest.raises(InputError, match="term_widths") as caught:
        read(path)
    assert caught.value.code == "obs-concatenated"
    assert "12 in all" in str(caught.value)


def test_alignment_is_compared_where_both_streams_exist(tmp_path: Path) -> None:
    stream = random(7, 9)
    early = isaac_demo(6, obs__joint_vel=stream[:6], states__articulation__robot__joint_velocity=stream[1:])
    found = read(isaac_file(tmp_path / "x.hdf5", {"demo_0": early}))
    assert found.finding("alignment").got == "5 of 5 rows agree with before_action"
    late = isaac_demo(6, obs__joint_vel=stream[1:], states__articulation__robot__joint_velocity=stream[1:])
    path = isaac_file(tmp_path / "late.hdf5", {"demo_0": late})
    conflict = read(path).finding("alignment-conflict")
    assert conflict.severity is Severity.WARN
    assert conflict.got == "0 of 5 rows agree with before_action, 5 with the other"
    declared = read(path, conventions=Conventions(alignment=names.Alignment.AFTER_ACTION))
    assert declared.finding("alignment").got == "5 of 5 rows agree with after_action"
    assert declared.episodes[0].alignment == "after_action"


def test_the_rate_comes_from_sim_args_and_a_declared_one_wins(tmp_path: Path) -> None:
    env = {"env_name": "Isaac-Toy-v0", "type": 2, "sim_args": {"dt": 1 / 120, "decimation": 4}}
    path = isaac_file(tmp_path / "x.hdf5", data={"env_args": json.dumps(env)})
    assert read(path).description.fps == Fraction(30)
    found = read(path, conventions=Conventions(fps=Fraction(50)))
    assert found.description.fps == Fraction(50)
    assert found.finding("fps-conflict").severity is Severity.WARN
    assert read(isaac_file(tmp_path / "none.hdf5")).description.fps is None


def test_masks_are_kept_and_give_the_split(tmp_path: Path) -> None:
    demos = {f"demo_{n}": isaac_demo(3, seed=n) for n in range(3)}
    masks = {"train": ["demo_2", "demo_0"], "valid": ["demo_1"], "half": ["demo_0", "demo_7"]}
    found = read(isaac_file(tmp_path / "x.hdf5", demos, masks=masks))
    assert found.description.masks == {
        "half": ("demo_0",),
        "train": ("demo_0", "demo_2"),
        "valid": ("demo_1",),
    }
    assert [e.split for e in found.episodes] == ["train", "valid", "train"]
    unknown = found.finding("mask-unknown-demo")
    assert (unknown.severity, unknown.got) == (Severity.WARN, "demo_7")


def test_overlapping_masks_are_an_error(tmp_path: Path) -> None:
    path = isaac_file(tmp_path / "x.hdf5", masks={"train": ["demo_0", "demo_1"], "valid": ["demo_1"]})
    for call in (source("isaaclab").describe, lambda p, o: list(source("isaaclab").episodes(p, o))):
        with pytest.raises(InputError, match="demo_1 in both") as caught:
            call(path, ReadOptions())
        assert caught.value.code == "mask-overlap"


def test_a_version_that_is_not_known_is_refused(tmp_path: Path) -> None:
    path = isaac_file(tmp_path / "x.hdf5", root={"format_version": 2})
    with pytest.raises(InputError, match=r"0\.\.1") as caught:
        read(path)
    assert caught.value.code == "format-version-unknown"


def test_what_is_no_demo_is_named(tmp_path: Path) -> None:
    path = isaac_file(tmp_path / "x.hdf5")
    with h5py.File(path, "a") as handle:
        handle["data/notes/x"] = np.zeros(2)
        handle["data/demo_two/actions"] = np.zeros((3, 7))
    found = read(path)
    assert found.finding("not-a-demo").got == "demo_two, notes"
    assert len(found.episodes) == 2
    (lost,) = found.rejections
    assert (lost.episode, lost.reason) == ("demo_two", "not-a-demo")
    assert "rename the group" in lost.detail


@pytest.mark.parametrize("kind", ["isaaclab", "robomimic", "robosuite", "libero"])
def test_a_demo_of_another_name_is_counted_as_rejected_by_every_source(tmp_path: Path, kind: str) -> None:
    path = write_recording(kind, tmp_path / "x_demo.hdf5", episodes=3, rows=(4, 4), image_size=16)
    with h5py.File(path, "a") as handle:
        last = natural_sorted(handle["data"])[-1]
        handle["data"].move(last, "episode_7")
        handle["data"].create_group("begun").attrs["num_samples"] = 3
        handle["data"].create_group("notes")
    found = read(path)
    assert len(found.episodes) == 2
    assert [(r.episode, r.reason) for r in found.rejections] == [
        ("begun", "not-a-demo"),
        ("episode_7", "not-a-demo"),
    ]
    assert found.finding("not-a-demo").got == "begun, episode_7, notes"


def test_unknown_options_are_refused_with_those_allowed(tmp_path: Path) -> None:
    path = isaac_file(tmp_path / "x.hdf5")
    with pytest.raises(InputError, match="image_alignment") as caught:
        read(path, options={"image_aligment": "drop_first"})
    assert caught.value.code == "unknown-option"
    with pytest.raises(InputError, match="drop_first, drop_last"):
        read(path, options={"image_alignment": "drop_middle"})


def test_dtypes_big_endian_bool_and_double(tmp_path: Path) -> None:
    demo = isaac_demo(
        4,
        obs__swapped=random(4, 3).astype(">f4"),
        obs__contact=np.array([[True], [False], [True], [True]]),
        obs__precise=random(4, 3, dtype="f8"),
        obs__counts=np.arange(4, dtype="i8"),
    )
    demo.tree = {**demo.tree, "actions": random(4, 7, dtype="f8")}
    values = read(isaac_file(tmp_path / "x.hdf5", {"demo_0": demo})).values["demo_0"]
    assert {p.removeprefix("obs/"): str(v.dtype) for p, v in values.items()} == {
        "actions": "float64",
        "contact": "bool",
        "counts": "int64",
        "joint_pos": "float32",
        "precise": "float64",
        "swapped": "float32",
    }
    np.testing.assert_array_equal(values["obs/swapped"], random(4, 3))


def test_scalar_and_text_datasets_become_attributes_and_others_are_named(tmp_path: Path) -> None:
    path = isaac_file(tmp_path / "x.hdf5", {"demo_0": isaac_demo(3, meta__note="slow", meta__gain=2.5)})
    with h5py.File(path, "a") as handle:
        handle["data/demo_0/meta/pairs"] = np.zeros(3, dtype=[("a", "f4"), ("b", "i4")])
        handle["data/demo_0/meta/labels"] = np.array([b"a", b"b"])
    found = read(path)
    assert found.episodes[0].attributes == {
        "meta/note": "slow",
        "meta/gain": 2.5,
        "meta/labels": ["a", "b"],
    }
    assert found.codes().count("dataset-as-attribute") == 3
    lost = found.finding("dataset-not-kept")
    assert (lost.severity, lost.place.column) == (Severity.WARN, "meta/pairs")


def test_one_dimensional_actions_become_a_matrix(tmp_path: Path) -> None:
    demo = Demo({"actions": np.arange(5, dtype="f4"), "obs/x": random(5, 2)}, {"num_samples": 5})
    values = read(isaac_file(tmp_path / "x.hdf5", {"demo_0": demo})).values["demo_0"]
    np.testing.assert_array_equal(values["actions"], np.arange(5, dtype="f4")[:, None])


def test_columns_are_read_block_by_block(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 255, (64, 32, 32, 3), dtype=np.uint8)
    path = isaac_file(tmp_path / "x.hdf5", {"demo_0": isaac_demo(64, obs__cam=images)})
    asked = ReadOptions(Conventions(images="opengl", channel_order="bgr"))
    for episode in source("isaaclab").episodes(path, asked):
        column = episode.columns["obs/cam"]  # type: ignore[union-attr]  # nothing is rejected here
        parts = list(blocks(column, max_bytes=8 * 32 * 32 * 3))
        assert [len(p) for p in parts] == [8] * 8
        np.testing.assert_array_equal(np.concatenate(parts), images[:, ::-1, :, ::-1])


def test_broken_bytes_surface_when_the_column_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.hdf5"
    isaac_file(path, {"demo_0": isaac_demo(4), "demo_1": isaac_demo(4)})
    with h5py.File(path, "a") as handle:
        zipped = handle.create_dataset(
            "data/demo_0/obs/joint_vel", data=random(4, 9), chunks=(4, 9), compression=4
        )
        handle["data/demo_0/states/robot/joint_velocity"] = random(4, 9)
        where = zipped.id.get_chunk_info(0).byte_offset
    content = bytearray(path.read_bytes())
    content[where + 8 : where + 40] = b"\xff" * 32
    path.write_bytes(content)
    for episode in source("isaaclab").episodes(path, ReadOptions()):
        column = episode.columns.get("obs/joint_vel")  # type: ignore[union-attr]  # nothing is rejected here
        if column is not None:
            with pytest.raises(UnreadableError, match="/data/demo_0/obs/joint_vel"):
                column.read(0, 4)


def as_l2(path: Path, demos: dict[str, Demo], **options: Any) -> Path:
    """A file as trajpipe leaves it: v1, its own attributes, images top row first."""
    data = {"trajpipe": "{}", "macros_image_convention": "opencv"}
    return isaac_file(path, demos, data=data, root={"format_version": 1}, **options)


def test_an_l2_file_read_again_changes_nothing(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 255, (6, 12, 12, 3), dtype=np.uint8)
    demo = isaac_demo(6, obs__eef_quat=random(6, 4), states__cube__root_pose=random(6, 7), obs__cam=images)
    ours = {
        "source": "rl",
        "source_file": "first.hdf5",
        "source_demo": "demo_17",
        "source_sha256": "cd" * 32,
        "content_sha256": "ef" * 32,
        "task": "lift /home the cube",
        "obs_alignment": "after_action",
        "success_known": False,
        "model_file": "<mujoco/>",
    }
    demo.attrs = {**demo.attrs, **ours}
    wild = Conventions(quaternion_order="wxyz", images="opengl", channel_order="bgr")
    path = as_l2(tmp_path / "teleop_x.hdf5", {"demo_0": demo})
    for conventions in (Conventions(), wild):
        found = read(path, conventions=conventions)
        for where, values in found.values["demo_0"].items():
            np.testing.assert_array_equal(values, demo.tree[where], err_msg=where)
        (episode,) = found.episodes
        assert (episode.tag, episode.source_file, episode.source_demo) == ("rl", "first.hdf5", "demo_17")
        assert (episode.source_sha256, episode.task) == ("cd" * 32, "lift /home the cube")
        assert (episode.alignment, episode.success) == ("after_action", None)
        assert episode.attributes == {"model_file": "<mujoco/>"}
        assert found.description.tag == "rl"


def test_an_l2_file_of_mixed_tags_has_none_of_its_own(tmp_path: Path) -> None:
    demos = {f"demo_{n}": isaac_demo(3, seed=n) for n in range(2)}
    for demo, tag in zip(demos.values(), ("rl", "scripted"), strict=True):
        demo.attrs = {**demo.attrs, "source": tag}
    found = read(as_l2(tmp_path / "x.hdf5", demos))
    assert found.description.tag is None
    assert [e.tag for e in found.episodes] == ["rl", "scripted"]
