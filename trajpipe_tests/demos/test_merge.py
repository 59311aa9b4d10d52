"""Merging L2 files: dense numbers, renamed masks, kept tags, and every refusal with its file and keys.

What is not here: merging raw recordings, which the catalogue does.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from trajpipe.core.conventions import QuaternionSite
from trajpipe.core.episode import ArrayColumn, whole
from trajpipe.core.errors import InputError, OutputExistsError, SchemaError, UsageError
from trajpipe.core.findings import Finding, Place, Severity
from trajpipe.core.provenance import sha256_file
from trajpipe.demos.merge import LegacyOrder, Merged, merge
from trajpipe.demos.reader import DemosFile
from trajpipe_tests.demos.builders import episode, replaced, unit_quaternions, written


def two(tmp_path: Path, **second: Any) -> list[Path]:
    """Two L2 files: a teleop one of three demos, a scripted one of two."""
    first = written(tmp_path / "teleop_lift.hdf5")
    others = [episode(i + 5, 4, **({"tag": "scripted", "split": "valid"} | second)) for i in range(2)]
    return [first, written(tmp_path / "scripted_lift.hdf5", *others)]


def test_demos_are_numbered_densely_and_keep_tag_source_and_content(tmp_path: Path) -> None:
    paths = two(tmp_path)
    merged = merge(paths, tmp_path / "all.hdf5")
    assert merged == Merged(
        demos={
            "demo_0": ("teleop_lift.hdf5", "demo_0"),
            "demo_1": ("teleop_lift.hdf5", "demo_1"),
            "demo_2": ("teleop_lift.hdf5", "demo_2"),
            "demo_3": ("scripted_lift.hdf5", "demo_0"),
            "demo_4": ("scripted_lift.hdf5", "demo_1"),
        },
        total=12 + 19 + 26 + 8,
    )
    with DemosFile(tmp_path / "all.hdf5") as file:
        episodes = list(file.episodes())
        assert file.total == merged.total
        assert file.masks == {"train": ("demo_0", "demo_2"), "valid": ("demo_1", "demo_3", "demo_4")}
        assert [e.tag for e in episodes] == ["teleop"] * 3 + ["scripted"] * 2
        assert [e.source_demo for e in episodes] == ["demo_0", "demo_1", "demo_2", "demo_5", "demo_6"]
    contents = [hashes for path in paths for hashes in _contents(path)]
    assert _contents(tmp_path / "all.hdf5") == contents


def _contents(path: Path) -> list[str]:
    with h5py.File(path) as file:
        return [file["data"][name].attrs["content_sha256"] for name in sorted(file["data"])]


def test_the_recipe_names_the_inputs(tmp_path: Path) -> None:
    paths = two(tmp_path)
    merge(paths, tmp_path / "all.hdf5")
    with DemosFile(tmp_path / "all.hdf5") as file:
        recipe = file.recipe
    assert [i["file"] for i in recipe["merged"]] == ["teleop_lift.hdf5", "scripted_lift.hdf5"]
    assert [i["sha256"] for i in recipe["merged"]] == [sha256_file(p) for p in paths]
    assert recipe["fps"] == "20"
    assert str(tmp_path) not in json.dumps(recipe)


def test_ten_and_more_demos_stay_in_natural_order(tmp_path: Path) -> None:
    def numbered(i: int) -> Any:
        return replaced(episode(i, 2), {"actions": np.full((2, 7), i, np.float32)})

    a = written(tmp_path / "a.hdf5", *(numbered(i) for i in range(12)))
    b = written(tmp_path / "b.hdf5", numbered(12))
    merge([a, b], tmp_path / "all.hdf5")
    with DemosFile(tmp_path / "all.hdf5") as file:
        assert [int(whole(e.columns["actions"])[0, 0]) for e in file.episodes()] == list(range(13))


def test_attributes_that_differ_are_left_out_and_said(tmp_path: Path) -> None:
    a = written(tmp_path / "a.hdf5", attributes={"problem_info": "x", "n": 3})
    b = written(tmp_path / "b.hdf5", episode(9), attributes={"problem_info": "y", "n": 3})
    merged = merge([a, b], tmp_path / "all.hdf5")
    assert merged.findings == [
        Finding(
            "merge-attribute-differs",
            Severity.INFO,
            "the inputs disagree on this attribute, so it is left out",
            Place(column="data@problem_info"),
            got="2 values in 2 files",
        )
    ]
    with DemosFile(tmp_path / "all.hdf5") as file:
        assert file.attributes == {"n": 3}


def test_other_env_args_are_refused_with_the_differences(tmp_path: Path) -> None:
    same = {"env_kwargs": {"control_freq": 20}}
    a = written(tmp_path / "a.hdf5", env_args={"env_name": "Lift"} | same)
    b = written(
        tmp_path / "b.hdf5", env_args={"env_name": "Stack", "env_kwargs": {"control_freq": 20}, "v": 1}
    )
    with pytest.raises(InputError, match="one env_args") as caught:
        merge([a, b], tmp_path / "all.hdf5")
    assert caught.value.got == "env_name: 'Stack' against 'Lift'; v: 1 against None"
    assert (str(caught.value.place), caught.value.code) == ("b.hdf5", "different-env-args")


def test_other_rates_are_refused(tmp_path: Path) -> None:
    a = written(tmp_path / "a.hdf5", recipe={"fps": "20"})
    b = written(tmp_path / "b.hdf5", recipe={"fps": "30"})
    with pytest.raises(InputError, match="one fps") as caught:
        merge([a, b], tmp_path / "all.hdf5")
    assert caught.value.got == "fps: '30' against '20'"


def test_other_terms_are_refused_naming_file_demo_and_keys(tmp_path: Path) -> None:
    odd = replaced(
        episode(5), {"obs/joint_pos": np.zeros((20, 7), np.float32), "obs/extra": np.zeros((20, 1))}
    )
    a = written(tmp_path / "a.hdf5")
    b = written(tmp_path / "b.hdf5", episode(4), odd)
    with pytest.raises(SchemaError, match="same terms") as caught:
        merge([a, b], tmp_path / "all.hdf5")
    assert caught.value.place == "b.hdf5:demo_1"
    assert caught.value.got == (
        "obs/extra float64 (1,) against absent, obs/joint_pos float32 (7,) against float32 (9,)"
    )
    assert caught.value.expected == "the terms of a.hdf5:demo_0"
    assert not (tmp_path / "all.hdf5").exists()


def legacy(path: Path, **columns: Any) -> Path:
    """An L2 file without its format_version, as a merge by other tools leaves it."""
    written(path, replaced(episode(8), columns))
    with h5py.File(path, "r+") as file:
        del file.attrs["format_version"]
    return path


def test_a_missing_format_version_is_refused(tmp_path: Path) -> None:
    a, b = written(tmp_path / "a.hdf5"), legacy(tmp_path / "b.hdf5")
    with pytest.raises(InputError, match="quaternion order is not known") as caught:
        merge([a, b], tmp_path / "all.hdf5")
    assert caught.value.code == "mixed-format-version"
    assert caught.value.got == "no format_version 1 in b.hdf5"


def test_a_declared_xyzw_is_taken_as_it_is(tmp_path: Path) -> None:
    q = unit_quaternions(np.random.default_rng(0), 20)
    a, b = written(tmp_path / "a.hdf5"), legacy(tmp_path / "b.hdf5", **{"obs/eef_quat": q})
    merge([a, b], tmp_path / "all.hdf5", legacy=LegacyOrder("xyzw"))
    with h5py.File(tmp_path / "all.hdf5") as file:
        assert file.attrs["format_version"] == 1
        np.testing.assert_array_equal(file["data/demo_3/obs/eef_quat"], q)


SITES = (QuaternionSite("obs/eef_quat"), QuaternionSite("*/root_pose", (3,)))


def test_a_declared_wxyz_is_converted_in_the_legacy_file_only(tmp_path: Path) -> None:
    q = unit_quaternions(np.random.default_rng(0), 20)
    a, b = written(tmp_path / "a.hdf5"), legacy(tmp_path / "b.hdf5", **{"obs/eef_quat": q})
    with h5py.File(b, "r+") as file:
        file["data/demo_0/initial_state/articulation/robot/root_pose"][0] = [1, 2, 3, 40, 50, 60, 70]
    merge([a, b], tmp_path / "all.hdf5", legacy=LegacyOrder("wxyz", SITES))
    with h5py.File(tmp_path / "all.hdf5") as file, h5py.File(a) as first:
        np.testing.assert_array_equal(file["data/demo_3/obs/eef_quat"], q[:, [1, 2, 3, 0]])
        pose = file["data/demo_3/initial_state/articulation/robot/root_pose"][0]
        assert pose.tolist() == [1, 2, 3, 50, 60, 70, 40]
        np.testing.assert_array_equal(file["data/demo_0/obs/eef_quat"], first["data/demo_0/obs/eef_quat"])


def test_an_undeclared_candidate_in_a_legacy_file_is_refused(tmp_path: Path) -> None:
    a, b = written(tmp_path / "a.hdf5"), legacy(tmp_path / "b.hdf5")
    with pytest.raises(InputError, match="may be quaternions") as caught:
        merge([a, b], tmp_path / "all.hdf5", legacy=LegacyOrder("wxyz", SITES[:1]))
    assert caught.value.got == "initial_state/articulation/robot/root_pose"
    assert not (tmp_path / "all.hdf5").exists()


@pytest.mark.parametrize(
    ("valid", "rule", "got"),
    [
        (["demo_0", "demo_1"], "train and valid masks overlap", "demo_0"),
        (["demo_7"], "a mask names no demo of the file", "demo_7"),
    ],
)
def test_bad_masks_of_an_input_are_refused(tmp_path: Path, valid: list[str], rule: str, got: str) -> None:
    a, b = two(tmp_path)
    with h5py.File(a, "r+") as file:
        del file["mask/valid"]
        file["mask/valid"] = np.array(valid, "S8")
    with pytest.raises(InputError, match=rule) as caught:
        merge([b, a], tmp_path / "all.hdf5")
    assert (caught.value.got, str(caught.value.place)) == (got, "teleop_lift.hdf5 · mask")
    assert not (tmp_path / "all.hdf5").exists()


def test_an_unknown_success_stays_unknown(tmp_path: Path) -> None:
    merge(two(tmp_path, success=None), tmp_path / "all.hdf5")
    with DemosFile(tmp_path / "all.hdf5") as file:
        assert [e.success for e in file.episodes()] == [True, True, True, None, None]


def test_an_unknown_success_written_as_failure_stays_written_so(tmp_path: Path) -> None:
    path = written(tmp_path / "a.hdf5", episode(success=None), unknown_success="fail")
    merge([path], tmp_path / "all.hdf5")
    with h5py.File(tmp_path / "all.hdf5") as file:
        attributes = file["data/demo_0"].attrs
        assert (attributes["success"], attributes["success_known"]) == (False, False)


def test_an_existing_destination_is_kept_unless_overwritten(tmp_path: Path) -> None:
    paths, target = two(tmp_path), tmp_path / "all.hdf5"
    target.write_text("mine")
    with pytest.raises(OutputExistsError):
        merge(paths, target)
    assert target.read_text() == "mine"
    merge(paths, target, overwrite=True)
    assert h5py.is_hdf5(target)


@pytest.mark.parametrize("chosen", [[], [0, 0]])
def test_no_input_or_one_twice_is_a_usage_error(tmp_path: Path, chosen: list[int]) -> None:
    paths = two(tmp_path)
    with pytest.raises(UsageError, match="each once"):
        merge([paths[i] for i in chosen], tmp_path / "all.hdf5")


def test_merging_one_file_keeps_its_content(tmp_path: Path) -> None:
    (path, _) = two(tmp_path)
    merge([path], tmp_path / "all.hdf5", image_layout="frames", fletcher32=True)
    assert _contents(tmp_path / "all.hdf5") == _contents(path)


def test_merging_gives_the_same_bytes_twice(tmp_path: Path) -> None:
    paths = two(tmp_path)
    merge(paths, tmp_path / "x.hdf5")
    merge(paths, tmp_path / "y.hdf5")
    assert (tmp_path / "x.hdf5").read_bytes() == (tmp_path / "y.hdf5").read_bytes()


def test_an_extra_that_one_demo_lacks_is_a_difference(tmp_path: Path) -> None:
    a = written(tmp_path / "a.hdf5")
    b = written(tmp_path / "b.hdf5", episode(3, extras={"initial_state/x": ArrayColumn(np.ones((1, 2)))}))
    with pytest.raises(SchemaError, match="initial_state/x"):
        merge([a, b], tmp_path / "all.hdf5")
