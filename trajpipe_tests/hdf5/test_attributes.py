"""Attributes as plain values, whatever their writer made of them.

What is not here: which attributes a format has.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from trajpipe.core.errors import InputError
from trajpipe.hdf5 import attributes


@pytest.fixture
def group(tmp_path: Path) -> Iterator[h5py.Group]:
    with h5py.File(tmp_path / "attributes.hdf5", "w") as file:
        yield file.create_group("data")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("text", "text"),
        ("göt 水", "göt 水"),
        (np.bytes_(b"bytes"), "bytes"),
        (np.bytes_("göt".encode()), "göt"),
        (np.bool_(True), True),
        (np.uint8(3), 3),
        (np.int64(-5), -5),
        (np.float32(0.5), 0.5),
        (h5py.Empty("S1"), ""),
        (["a", "b"], ["a", "b"]),
        (np.array([b"a", b"bc"]), ["a", "bc"]),
        (np.array(7), 7),
    ],
)
def test_values_become_plain(group: h5py.Group, written: Any, expected: Any) -> None:
    group.attrs["x"] = written
    value = attributes.attributes_of(group)["x"]
    assert value == expected
    assert type(value) is type(expected)


def test_arrays_of_numbers_stay_arrays(group: h5py.Group) -> None:
    group.attrs["init_state"] = np.linspace(0, 1, 77)
    value = attributes.read(group, "init_state")
    assert isinstance(value, np.ndarray)
    np.testing.assert_array_equal(value, np.linspace(0, 1, 77))


def test_91_kilobytes_of_text_come_back_whole(group: h5py.Group) -> None:
    model = "<mujoco>" + "<geom/>" * 13_000 + "</mujoco>"
    group.attrs["model_file"] = model
    assert attributes.text(group, "model_file") == model


def test_bytes_that_are_not_utf8_keep_their_information(group: h5py.Group) -> None:
    group.attrs["x"] = np.bytes_(b"caf\xe9")
    value = attributes.text(group, "x")
    assert value is not None
    assert value.encode("utf-8", "surrogateescape") == b"caf\xe9"


def test_names_are_sorted(group: h5py.Group) -> None:
    for name in ("b", "a", "c"):
        group.attrs[name] = 1
    assert list(attributes.attributes_of(group)) == ["a", "b", "c"]


def test_references_and_compounds_are_refused_by_name(group: h5py.Group) -> None:
    group.attrs["pair"] = np.array((1.0, 2), dtype=[("a", "f4"), ("b", "i4")])
    with pytest.raises(InputError, match="data@pair") as caught:
        attributes.attributes_of(group)
    assert caught.value.code == "bad-attribute"
    del group.attrs["pair"]
    group.attrs["ref"] = group.ref
    with pytest.raises(InputError, match="data@ref"):
        attributes.attributes_of(group)


def test_text_is_none_when_absent_or_a_number(group: h5py.Group) -> None:
    group.attrs["total"] = 3
    assert attributes.text(group, "total") is None
    assert attributes.text(group, "gone") is None


@pytest.mark.parametrize("form", [str, np.bytes_])
def test_json_objects_from_str_and_bytes(group: h5py.Group, form: type) -> None:
    group.attrs["env_args"] = form(json.dumps({"env_name": "Lift", "type": 2}))
    assert attributes.json_object(group, "env_args") == {"env_name": "Lift", "type": 2}
    assert attributes.json_object(group, "gone") is None


@pytest.mark.parametrize("bad", ["{'env_name': 'Lift'}", "", '{"a": NaN}', '["a"]', '{"a": 1', "42"])
def test_what_is_not_a_json_object_is_refused_with_its_place(group: h5py.Group, bad: str) -> None:
    group.attrs["env_args"] = bad
    with pytest.raises(InputError, match=r"attributes\.hdf5 · /data@env_args"):
        attributes.json_object(group, "env_args")
