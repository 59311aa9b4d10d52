"""The libero source: what the format fixes is fixed, gaps are an error, language is byte-exact.

What is not here: real files (`test_real_files`), the joint remap.
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
from trajpipe.core.errors import InputError
from trajpipe.core.findings import Severity
from trajpipe.sources.base import ReadOptions, source
from trajpipe.testing import write_recording
from trajpipe_tests.sources.builders import read


def recording(path: Path, **options: Any) -> Path:
    return write_recording("libero", path, episodes=2, rows=(5, 8), image_size=16, **options)


def test_terms_images_language_and_defaults(tmp_path: Path) -> None:
    language = "Put  the göt on the plate "
    path = recording(tmp_path / "x_demo.hdf5", language=language)
    found = read(path)
    assert (found.description.kind, found.description.fps) == ("libero", Fraction(20))
    with h5py.File(path) as handle:
        for episode in found.episodes:
            demo, values = handle["data"][episode.name], found.values[episode.name]
            assert sorted(values) == sorted(
                ["actions", "dones", "rewards", "robot_states", "states"] + [f"obs/{t}" for t in demo["obs"]]
            )
            for where in values:
                expected = demo[where][()]
                if where.endswith("_rgb"):
                    expected = expected[:, ::-1]
                np.testing.assert_array_equal(values[where], expected, err_msg=where)
                assert values[where].dtype == expected.dtype
            assert (episode.task, episode.alignment, episode.success) == (language, "after_action", None)
            state = found.extras[episode.name]["initial_state/libero/init_state"]
            np.testing.assert_array_equal(state, demo.attrs["init_state"][None])
            assert set(episode.attributes) == {"model_file"}
    agreed = found.finding("alignment")
    assert agreed.severity is Severity.INFO
    rows = sum(e.length - 1 for e in found.episodes)
    assert agreed.got == f"{rows} of {rows} rows agree with after_action"


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("{bad", "'{bad'"),
        ("[1]", "'[1]'"),
        ('{"language_instruction": NaN}', "'{\"language_instruction\": NaN}'"),
        ('{"language_instruction": 3}', "language_instruction 3"),
        ('{"language_instruction": ["pick", 3]}', "language_instruction ['pick', 3]"),
        ('{"language_instruction": "pick \\ud83d"}', r"language_instruction 'pick \ud83d'"),
        (np.bytes_(b'{"language_instruction": "pick \xff"}'), r"language_instruction 'pick \udcff'"),
    ],
)
def test_a_damaged_problem_info_is_named(tmp_path: Path, text: Any, got: str) -> None:
    path = recording(tmp_path / "x_demo.hdf5")
    with h5py.File(path, "r+") as handle:
        handle["data"].attrs["problem_info"] = text
    with pytest.raises(InputError, match="problem_info is the text of a JSON object") as caught:
        read(path)
    error = caught.value
    assert (error.code, str(error.place)) == ("problem-info", "x_demo.hdf5 · data@problem_info")
    assert (error.got, error.expected) == (got, '{"language_instruction": "…"}')


def test_characters_beyond_the_basic_plane_are_text(tmp_path: Path) -> None:
    path = recording(tmp_path / "x_demo.hdf5")
    with h5py.File(path, "r+") as handle:
        handle["data"].attrs["problem_info"] = r'{"language_instruction": "pick \ud83d\ude00"}'
    assert {e.task for e in read(path).episodes} == {"pick \U0001f600"}


def test_in_another_format_a_damaged_problem_info_is_a_warning(tmp_path: Path) -> None:
    path = write_recording("robosuite", tmp_path / "x.hdf5", episodes=1, rows=(4, 4))
    with h5py.File(path, "r+") as handle:
        handle["data"].attrs["problem_info"] = "{bad"
        handle["data"].attrs["env_info"] = "{}"
    found = read(path)
    assert found.description.kind == "robosuite"
    said = found.finding("problem-info")
    assert (said.severity, said.got) == (Severity.WARN, "'{bad'")
    assert [e.task for e in found.episodes] == [None]


def test_no_path_of_anybody_is_left(tmp_path: Path) -> None:
    found = read(recording(tmp_path / "x_demo.hdf5", released=False))
    kept = [
        json.dumps(dict(found.description.env_args or {})),
        *map(str, found.description.attributes.values()),
    ]
    kept += [str(e.attributes["model_file"]) for e in found.episodes]
    for text in kept:
        assert "/home/" not in text
        assert "/Users/" not in text
        assert "bddl_files/" not in text
    assert found.description.attributes["bddl_file_name"].endswith(".bddl")
    assert {"data@bddl_file_name", "data@env_args", "demo@model_file"} <= set(
        found.description.conventions["recorded_text_sha256"]
    )


@pytest.mark.parametrize("convention", ["opencv", None])
def test_rows_are_flipped_once_and_only_when_they_are_upside_down(
    tmp_path: Path, convention: str | None
) -> None:
    upright = read(recording(tmp_path / "a_demo.hdf5", image_convention="opengl"))
    other = read(recording(tmp_path / "b_demo.hdf5", image_convention=convention))
    for where in ("obs/agentview_rgb", "obs/eye_in_hand_rgb"):
        np.testing.assert_array_equal(other.values["demo_0"][where], upright.values["demo_0"][where])
    assert other.description.conventions["images"] == (convention or "opengl")


def test_success_is_unknown_although_rewards_end_in_one(tmp_path: Path) -> None:
    found = read(recording(tmp_path / "x_demo.hdf5", failures=(0, 1)))
    assert [int(v["rewards"][-1]) for v in found.values.values()] == [1, 1]
    assert [e.success for e in found.episodes] == [None, None]
    assert found.finding("success-unknown").got == "2 of 2 demos without it"


def test_gaps_in_the_numbering_are_an_error_unless_allowed(tmp_path: Path) -> None:
    path = recording(tmp_path / "x_demo.hdf5", numbers=(0, 2))
    for call in (source("libero").describe, lambda p, o: list(source("libero").episodes(p, o))):
        with pytest.raises(InputError, match="allow_gaps") as caught:
            call(path, ReadOptions())
        assert (caught.value.code, caught.value.got, caught.value.expected) == (
            "numbering-gaps",
            "0, 2",
            "0..1",
        )
    found = read(path, options={"allow_gaps": True})
    assert [e.source_demo for e in found.episodes] == ["demo_0", "demo_2"]
    assert found.finding("numbering-gaps").severity is Severity.INFO


def test_a_row_width_that_is_not_that_of_the_initial_state_rejects_the_demo(tmp_path: Path) -> None:
    path = recording(tmp_path / "x_demo.hdf5")
    with h5py.File(path, "a") as handle:
        demo = handle["data/demo_0"]
        states = demo["states"][()]
        del demo["states"]
        demo["states"] = states[:, :-1]
    found = read(path)
    assert [e.name for e in found.episodes] == ["demo_1"]
    (rejection,) = found.rejections
    assert rejection.reason == names.Reason.BAD_EPISODE
    width = states.shape[1]
    assert f"{width - 1} values" in rejection.detail
    assert f"{width} values" in rejection.detail


def test_observations_that_precede_the_action_are_told(tmp_path: Path) -> None:
    path = recording(tmp_path / "x_demo.hdf5")
    with h5py.File(path, "a") as handle:
        for demo in handle["data"].values():
            demo["obs/joint_states"][...] = demo["states"][:, 1:8]
    conflict = read(path).finding("alignment-conflict")
    assert conflict.severity is Severity.WARN
    assert "agree with after_action" in str(conflict.got)


def test_neither_tag_nor_bddl_content_is_required(tmp_path: Path) -> None:
    path = recording(tmp_path / "x_demo.hdf5")
    with h5py.File(path, "a") as handle:
        for name in ("tag", "num_demos"):
            del handle["data"].attrs[name]
        for demo in handle["data"].values():
            del demo.attrs["init_state"]
            del demo.attrs["model_file"]
    found = read(path)
    assert len(found.episodes) == 2
    assert found.episodes[0].attributes == {}
    assert found.extras["demo_0"] == {}


def test_attributes_as_bytes_are_read_alike(tmp_path: Path) -> None:
    path = recording(tmp_path / "x_demo.hdf5")
    before = read(path)
    with h5py.File(path, "a") as handle:
        data = handle["data"]
        for name in ("problem_info", "env_args", "macros_image_convention", "bddl_file_name"):
            data.attrs[name] = np.bytes_(data.attrs[name].encode())
    after = read(path)
    assert after.description == before.description
    assert [e.task for e in after.episodes] == [e.task for e in before.episodes]
    for where, values in before.values["demo_0"].items():
        np.testing.assert_array_equal(after.values["demo_0"][where], values)
