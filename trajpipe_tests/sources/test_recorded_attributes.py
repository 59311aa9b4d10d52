"""Attributes of demos and of /data: kept as recorded, paths reduced, none lost.

What is not here: reducing text, see `test_recorded_text`.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from trajpipe.core.errors import InputError
from trajpipe.sources.recorded_attributes import language_of
from trajpipe_tests.sources.builders import isaac_demo, isaac_file, read

MODEL = "<mujoco><asset><mesh file='/home/jo/a.stl'/></asset>" + "<geom/>" * 13_000 + "</mujoco>"


def test_91_kilobytes_of_model_come_as_str(tmp_path: Path) -> None:
    demo = isaac_demo()
    demo.attrs = {**demo.attrs, "model_file": MODEL}
    found = read(isaac_file(tmp_path / "x.hdf5", {"demo_0": demo}))
    model = found.episodes[0].attributes["model_file"]
    assert isinstance(model, str)
    assert model == MODEL.replace("/home/jo/", "")
    recorded = found.description.conventions["recorded_text_sha256"]["demo@model_file"]
    one = b"demo_0\0" + hashlib.sha256(MODEL.encode()).digest()
    assert recorded == hashlib.sha256(one).hexdigest()


def test_every_kind_of_value_is_kept(tmp_path: Path) -> None:
    demo = isaac_demo()
    demo.attrs = {
        **demo.attrs,
        "operator": np.bytes_(b"jo"),
        "speed": np.float64(0.5),
        "retries": np.int32(3),
        "assisted": np.bool_(True),
        "tags": np.array([b"a", b"b"]),
        "home": np.arange(3.0),
        "nothing": h5py.Empty("f4"),
    }
    attributes = dict(read(isaac_file(tmp_path / "x.hdf5", {"demo_0": demo})).episodes[0].attributes)
    np.testing.assert_array_equal(attributes.pop("home"), np.arange(3.0))
    assert attributes == {
        "operator": "jo",
        "speed": 0.5,
        "retries": 3,
        "assisted": True,
        "tags": ["a", "b"],
        "nothing": "",
    }


def test_names_of_ours_in_a_raw_file_are_kept_apart(tmp_path: Path) -> None:
    demo = isaac_demo()
    demo.attrs = {**demo.attrs, "task": "their word", "source": "their tag", "success_known": 1}
    episode = read(isaac_file(tmp_path / "x.hdf5", {"demo_0": demo})).episodes[0]
    assert episode.attributes == {
        "recorded_task": "their word",
        "recorded_source": "their tag",
        "recorded_success_known": 1,
    }
    assert (episode.task, episode.tag) == (None, "unknown")


def test_attributes_of_inner_groups_and_datasets_are_kept(tmp_path: Path) -> None:
    path = isaac_file(tmp_path / "x.hdf5", {"demo_0": isaac_demo()})
    with h5py.File(path, "a") as handle:
        handle["data/demo_0/obs"].attrs["frame"] = "world"
        handle["data/demo_0/obs/joint_pos"].attrs["units"] = "rad"
    assert read(path).episodes[0].attributes == {"obs@frame": "world", "obs/joint_pos@units": "rad"}


def test_an_array_too_large_for_an_attribute_becomes_an_extra(tmp_path: Path) -> None:
    path = isaac_file(tmp_path / "x.hdf5", {"demo_0": isaac_demo()})
    large = np.arange(6000.0)
    with h5py.File(path, "a", libver="latest") as handle:
        handle["data/demo_0"].attrs["table"] = large
    found = read(path)
    assert found.episodes[0].attributes == {}
    np.testing.assert_array_equal(found.extras["demo_0"]["recorded_attributes/table"], large[None])


def test_attributes_of_data_and_file_are_kept_but_for_those_that_are_counted(tmp_path: Path) -> None:
    data = {
        "num_demos": 2,
        "tag": "libero-v1",
        "timestamp": np.float64(1.5),
        "ranges": np.array([1.0, np.inf]),
        "names": np.array([b"a", b"b"]),
        "recording_dir": "/home/jo/runs/today",
    }
    path = isaac_file(tmp_path / "x.hdf5", data=data, root={"format_version": 1, "recorder": "v7"})
    description = read(path).description
    assert description.attributes == {
        "names": '["a","b"]',
        "ranges": '["1.0","inf"]',
        "recording_dir": "today",
        "tag": "libero-v1",
        "timestamp": 1.5,
        "file@recorder": "v7",
    }
    hashes = description.conventions["recorded_text_sha256"]
    assert hashes == {"data@recording_dir": hashlib.sha256(b"/home/jo/runs/today").hexdigest()}


def test_the_language_is_byte_exact(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.hdf5", "w") as handle:
        data = handle.create_group("data")
        assert language_of(data) is None
        for recorded, expected in (
            ({"language_instruction": "  Put the göt on the plate. "}, "  Put the göt on the plate. "),
            ({"language_instruction": ["p", "ut"]}, "put"),
            ({"language_instruction": "\U0001f600"}, "\U0001f600"),
            ({"language_instruction": None}, None),
            ({}, None),
        ):
            data.attrs["problem_info"] = json.dumps(recorded)
            assert language_of(data) == expected
        for damaged in ('{"language_instruction": 3}', "{'language_instruction': 'x'}"):
            data.attrs["problem_info"] = damaged
            with pytest.raises(InputError) as caught:
                language_of(data)
            assert caught.value.code == "problem-info"
