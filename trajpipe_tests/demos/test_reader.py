"""Reading L2 back: our attributes, masks, rate, foreign version-1 files, refusals.

What is not here: random round trips, see `test_round_trip.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from trajpipe.core.episode import whole
from trajpipe.core.errors import (
    InputError,
    MissingNameError,
    SchemaError,
    StateError,
    TrajpipeError,
    UnreadableError,
    UntrustedError,
)
from trajpipe.core.findings import Place
from trajpipe.demos.reader import DemosFile, rate_of_env_args
from trajpipe_tests.demos.builders import ENV_ARGS, RECIPE, SHA, episode, written


def test_an_episode_comes_back_whole(tmp_path: Path) -> None:
    original = episode(1, 19)
    with DemosFile(written(tmp_path / "a.hdf5", episode(0), original)) as file:
        assert (len(file), file.demos, file.total) == (2, ("demo_0", "demo_1"), 39)
        back = list(file.episodes())[1]
        for path, column in {**original.columns, **original.extras}.items():
            stored = {**back.columns, **back.extras}[path]
            assert stored.dtype == column.dtype
            np.testing.assert_array_equal(whole(stored), whole(column), err_msg=path)
    assert set(back.columns) == set(original.columns)
    assert set(back.extras) == set(original.extras)
    for field in ("name", "length", "success", "seed", "task", "tag", "alignment", "split"):
        assert getattr(back, field) == getattr(original, field), field
    for field in ("source_file", "source_demo", "source_sha256"):
        assert getattr(back, field) == getattr(original, field), field
    assert set(back.attributes) == {"model_file", "init_state", "content_sha256"}


def test_one_demo_is_read_by_its_name(tmp_path: Path) -> None:
    with DemosFile(written(tmp_path / "a.hdf5", episode(0), episode(1, 19))) as file:
        assert file.lengths == (20, 19)
        assert sum(file.lengths) == file.total
        one, same = file.episode("demo_1"), list(file.episodes())[1]
        assert (one.name, one.split, one.source_demo) == (same.name, same.split, same.source_demo)
        np.testing.assert_array_equal(whole(one.columns["actions"]), whole(same.columns["actions"]))
        with pytest.raises(MissingNameError, match="demo_7"):
            file.episode("demo_7")


def test_what_the_file_says_of_itself(tmp_path: Path) -> None:
    path = written(tmp_path / "a.hdf5", attributes={"problem_info": "{}", "n": 3})
    with DemosFile(path) as file:
        assert file.env_args == ENV_ARGS
        assert file.recipe == RECIPE
        assert file.attributes == {"n": 3, "problem_info": "{}"}
        assert file.masks == {"train": ("demo_0", "demo_2"), "valid": ("demo_1",)}
        assert file.is_version_1


@pytest.mark.parametrize(("policy", "written_as"), [("keep", True), ("fail", False)])
def test_an_unknown_success_comes_back_unknown(tmp_path: Path, policy: str, written_as: bool) -> None:
    path = written(tmp_path / "a.hdf5", episode(success=None), unknown_success=policy)
    with DemosFile(path) as file:
        (back,) = file.episodes()
    assert back.success is None
    assert back.attributes["success"] is written_as


def test_absent_facts_come_back_as_none(tmp_path: Path) -> None:
    one = episode(task=None, alignment=None, seed=None, split=None, source_demo="", tag="unknown")
    with DemosFile(written(tmp_path / "a.hdf5", one)) as file:
        (back,) = file.episodes()
        assert file.masks == {}
    assert (back.task, back.alignment, back.seed, back.split) == (None, None, None, None)
    assert back.source_demo == "demo_0"


@pytest.mark.parametrize(
    ("recipe", "env_args", "expected"),
    [
        ({"fps": "30000/1001"}, {}, Fraction(30000, 1001)),
        ({"conventions": {"fps": "30"}}, {"env_kwargs": {"control_freq": 20}}, Fraction(30)),
        ({}, {"env_kwargs": {"control_freq": 20}}, Fraction(20)),
        ({}, {"sim_args": {"dt": 0.01, "decimation": 5}}, Fraction(20)),
        ({}, {"sim_args": {"dt": 0.005, "decimation": 4, "render_interval": 4}}, Fraction(50)),
        ({}, {"sim_args": {"dt": 0.005}}, None),
        ({"conventions": None}, {}, None),
    ],
)
def test_the_rate(
    tmp_path: Path, recipe: dict[str, Any], env_args: dict[str, Any], expected: Fraction | None
) -> None:
    path = written(tmp_path / "a.hdf5", recipe=recipe, env_args={"env_name": "X"} | env_args)
    with DemosFile(path) as file:
        assert file.fps == expected


@pytest.mark.parametrize("rate", [0, -1, "fast", None, float("inf")])
def test_a_rate_that_is_none_is_refused(rate: object) -> None:
    with pytest.raises(InputError, match="rate"):
        rate_of_env_args({"env_kwargs": {"control_freq": rate}}, place=Place(file="a.hdf5"))


def foreign(path: Path) -> Path:
    """A version-1 file as IsaacLab writes it: none of our attributes."""
    with h5py.File(path, "w") as file:
        file.attrs["format_version"] = 1
        data = file.create_group("data")
        data.attrs["env_args"] = '{"env_name": "Isaac-Lift", "type": 2}'
        for number in (0, 2, 10):
            demo = data.create_group(f"demo_{number}")
            demo.attrs["num_samples"] = 4
            demo["actions"] = np.full((4, 7), number, np.float32)
            demo["obs/joint_pos"] = np.zeros((4, 9), np.float32)
            demo["initial_state/robot/root_pose"] = np.zeros((1, 7), np.float32)
        data["demo_0"].attrs["success"] = np.bool_(False)
    return path


def test_a_foreign_version_1_file_reads_sensibly(tmp_path: Path) -> None:
    with DemosFile(foreign(tmp_path / "scripted_lift.hdf5")) as file:
        first, second, third = file.episodes()
        assert file.recipe == {}
    assert [e.name for e in (first, second, third)] == ["demo_0", "demo_2", "demo_10"]
    assert (first.success, second.success) == (False, None)
    assert (first.tag, first.task, first.alignment) == ("scripted", None, None)
    assert (third.source_file, third.source_demo) == ("scripted_lift.hdf5", "demo_10")
    assert "initial_state/robot/root_pose" in first.extras


def test_an_initial_state_stays_an_extra_when_the_demo_has_one_row(tmp_path: Path) -> None:
    with DemosFile(written(tmp_path / "a.hdf5", episode(0, 1))) as file:
        (back,) = file.episodes()
    assert list(back.extras) == ["initial_state/articulation/robot/root_pose"]
    assert back.length == 1


@pytest.mark.parametrize(
    ("name", "value", "field", "expected"),
    [
        ("success", "False", "success", None),
        ("success", 0, "success", False),
        ("seed", 1.5, "seed", None),
        ("task", 3, "task", None),
        ("source_file", 3, "source_file", "scripted_lift.hdf5"),
        ("source_demo", "", "source_demo", "demo_0"),
    ],
)
def test_foreign_values_of_another_kind_are_not_believed(
    tmp_path: Path, name: str, value: object, field: str, expected: object
) -> None:
    path = foreign(tmp_path / "scripted_lift.hdf5")
    with h5py.File(path, "r+") as file:
        file["data/demo_0"].attrs[name] = value
    with DemosFile(path) as file:
        assert getattr(next(iter(file.episodes())), field) == expected


def _edit(change: Callable[[h5py.File], object]) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        with h5py.File(path, "r+") as file:
            change(file)

    return apply


@pytest.mark.parametrize(
    ("spoil", "kind", "code"),
    [
        (_edit(lambda f: f.attrs.pop("format_version")), InputError, "bad-format-version"),
        (_edit(lambda f: f.attrs.modify("format_version", 0)), InputError, "bad-format-version"),
        (_edit(lambda f: f.create_group("episodes")), InputError, "old-layout"),
        (_edit(lambda f: f.pop("data")), InputError, "no-demos"),
        (_edit(lambda f: f["data"].create_group("extra")), InputError, "bad-input"),
        (
            _edit(lambda f: f["data"].__setitem__("x", h5py.ExternalLink("/etc/passwd", "/"))),
            UntrustedError,
            "external-reference",
        ),
        (lambda p: p.write_bytes(p.read_bytes()[: p.stat().st_size // 2]), UnreadableError, "truncated"),
        (lambda p: p.write_bytes(b""), UnreadableError, "empty-file"),
        (lambda p: p.unlink(), UnreadableError, "missing-file"),
    ],
)
def test_what_is_no_l2_is_refused(
    tmp_path: Path, spoil: Callable[[Path], None], kind: type[TrajpipeError], code: str
) -> None:
    path = written(tmp_path / "a.hdf5")
    spoil(path)
    with pytest.raises(kind) as caught, DemosFile(path):
        pass
    assert caught.value.code == code
    assert "a.hdf5" in str(caught.value)


@pytest.mark.parametrize(
    ("spoil", "kind", "text"),
    [
        (lambda d: d.pop("actions"), InputError, "needs actions"),
        (lambda d: d.__setitem__("obs/short", np.zeros((3, 2))), SchemaError, "row count"),
        (lambda d: d.__setitem__("obs/name", "a string"), SchemaError, "numeric"),
        (lambda d: d.attrs.modify("source", "robot"), InputError, "robot"),
        (lambda d: d.attrs.modify("obs_alignment", "sideways"), InputError, "sideways"),
    ],
)
def test_a_broken_demo_is_named(
    tmp_path: Path, spoil: Callable[[h5py.Group], object], kind: type[TrajpipeError], text: str
) -> None:
    path = written(tmp_path / "a.hdf5")
    with h5py.File(path, "r+") as file:
        spoil(file["data/demo_1"])
    with DemosFile(path) as file, pytest.raises(kind, match=text) as caught:
        list(file.episodes())
    assert "demo_1" in str(caught.value)


def test_a_broken_chunk_is_unreadable_with_its_row(tmp_path: Path) -> None:
    path = written(tmp_path / "a.hdf5")
    with h5py.File(path) as file:
        stored = file["data/demo_2/obs/front_rgb"].id.get_chunk_info(0)
    raw = bytearray(path.read_bytes())
    raw[stored.byte_offset + 4 : stored.byte_offset + 40] = b"\xff" * 36
    path.write_bytes(bytes(raw))
    with DemosFile(path) as file, pytest.raises(UnreadableError, match="demo_2/obs/front_rgb"):
        whole(list(file.episodes())[2].columns["obs/front_rgb"])


def test_a_legacy_file_reads_when_asked(tmp_path: Path) -> None:
    path = written(tmp_path / "a.hdf5")
    with h5py.File(path, "r+") as file:
        del file.attrs["format_version"]
    with DemosFile(path, require_version=False) as file:
        assert not file.is_version_1
        assert next(iter(file.episodes())).source_sha256 == SHA


def test_a_file_that_is_not_open_says_so(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="not open"):
        _ = DemosFile(written(tmp_path / "a.hdf5")).env_args
