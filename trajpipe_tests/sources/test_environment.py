"""env_args: taken as recorded where it can be, defaulted with a finding, else an error with the lines to add.

What is not here: other attributes, see `test_recorded_attributes`.
"""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trajpipe.core.conventions import Conventions
from trajpipe.core.errors import InputError
from trajpipe_tests.sources.builders import Demo, isaac_file, random, read, write

GOOD = {"env_name": "Isaac-Toy-v0", "type": 2, "env_kwargs": {"seed": 3}}
DECLARED = Conventions(env_args={"env_name": "Declared-v0", "type": 2, "env_kwargs": {"a": 1}})


def with_env(path: Path, value: Any) -> Path:
    return isaac_file(path, data={"env_args": value})


@pytest.mark.parametrize("form", [str, np.bytes_])
def test_str_and_bytes_are_read_and_kept(tmp_path: Path, form: type) -> None:
    found = read(with_env(tmp_path / "x.hdf5", form(json.dumps(GOOD))), conventions=DECLARED)
    assert found.description.env_args == GOOD
    assert "env-args-defaulted" not in found.codes()


@pytest.mark.parametrize(
    "bad",
    ["{'env_name': 'Isaac-Toy-v0', 'type': 2}", "", "Isaac-Toy-v0", '{"env_name": "x", "a": NaN}', "[1]"],
)
def test_what_is_not_strict_json_takes_the_declared_default_or_is_an_error(tmp_path: Path, bad: str) -> None:
    path = with_env(tmp_path / "x.hdf5", bad)
    with pytest.raises(InputError, match="conventions:\n      env_name:") as caught:
        read(path)
    assert caught.value.code == "env-args-missing"
    found = read(path, conventions=DECLARED)
    assert found.description.env_args == DECLARED.env_args
    finding = found.finding("env-args-defaulted")
    assert finding.got == "the declared env_args"
    assert "not strict JSON" in finding.message


def test_missing_env_args_take_the_declared_name(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x.hdf5",
        {"demo_0": Demo({"actions": random(3, 7), "initial_state/q": random(1, 2)})},
        root={"format_version": 1},
    )
    with pytest.raises(InputError, match="env_args is missing"):
        read(path)
    found = read(path, conventions=Conventions(env_name="Isaac-Mine-v0"))
    assert found.description.env_args == {"env_name": "Isaac-Mine-v0", "type": 2, "env_kwargs": {}}
    assert found.codes().count("env-args-defaulted") == 3


def test_a_missing_name_type_and_kwargs_are_filled_and_named(tmp_path: Path) -> None:
    path = with_env(tmp_path / "x.hdf5", json.dumps({"sim": "physx"}))
    with pytest.raises(InputError, match="no env_name"):
        read(path)
    found = read(path, conventions=Conventions(env_name="Isaac-Mine-v0"))
    assert found.description.env_args == {
        "sim": "physx",
        "env_name": "Isaac-Mine-v0",
        "type": 2,
        "env_kwargs": {},
    }
    messages = [f.message for f in found.findings if f.code == "env-args-defaulted"]
    assert [m.split(";")[0] for m in messages] == [
        "env_args has no env_name",
        "env_args has no type",
        "env_args has no env_kwargs",
    ]


def test_robosuites_own_attributes_come_before_the_declaration(tmp_path: Path) -> None:
    info = {"env_name": "Lift", "robots": "Panda", "control_freq": 20}
    data = {"env_info": json.dumps(info), "env": "Lift", "repository_version": "1.4.0"}
    demo = Demo({"actions": random(3, 7), "states": random(3, 9)})
    found = read(write(tmp_path / "x.hdf5", {"demo_1": demo}, data=data), conventions=DECLARED)
    assert found.description.env_args == {
        "env_name": "Lift",
        "type": 1,
        "env_kwargs": {"robots": "Panda", "control_freq": 20},
        "env_version": "1.4.0",
    }
    assert found.description.fps == Fraction(20)


def test_paths_in_env_args_are_reduced(tmp_path: Path) -> None:
    env = GOOD | {
        "bddl_file": "/home/jo/libero/x.bddl",
        "env_kwargs": {"bddl_file_name": "libero/bddl_files/x.bddl", "assets": ["C:\\Users\\jo\\a.usd"]},
        "prim": "/World/envs/env_0/Robot",
        "url": "https://example.org/a/b.usd",
    }
    text = json.dumps(env)
    args = read(with_env(tmp_path / "x.hdf5", text)).description.env_args
    assert args == GOOD | {
        "bddl_file": "x.bddl",
        "env_kwargs": {"bddl_file_name": "x.bddl", "assets": ["a.usd"]},
        "prim": "/World/envs/env_0/Robot",
        "url": "https://example.org/a/b.usd",
    }


@pytest.mark.parametrize(
    ("extra", "fps"),
    [
        ({"sim_args": {"dt": 0.01, "decimation": 5}}, Fraction(20)),
        ({"sim_args": {"dt": 1 / 60}}, Fraction(60)),
        ({"sim_args": {"dt": 0.005, "decimation": 4}}, Fraction(50)),
        ({"env_kwargs": {"control_freq": 20}}, Fraction(20)),
        ({"env_kwargs": {"sim_args": {"dt": 0.02, "decimation": 2}}}, Fraction(25)),
        ({"fps": 29.97}, Fraction(2997, 100)),
        ({"sim_args": {"dt": 0, "decimation": 5}}, None),
        ({"sim_args": {"dt": "fast"}}, None),
        ({"env_kwargs": {"control_freq": True}}, None),
        ({"env_kwargs": {"control_freq": -5}}, None),
        ({}, None),
    ],
)
def test_rates(tmp_path: Path, extra: dict[str, Any], fps: Fraction | None) -> None:
    assert read(with_env(tmp_path / "x.hdf5", json.dumps(GOOD | extra))).description.fps == fps
