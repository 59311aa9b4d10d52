"""Recorded text: nobody's path reaches an output, and nothing else changes.

What is not here: what an absolute path is, see the core's tests of paths.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trajpipe.core.paths import absolute_paths
from trajpipe.sources.recorded_text import reduced_value, without_paths

MODEL = """<mujoco model="base">
  <compiler angle="radian" meshdir="/home/jo/My Robots/meshes/" texturedir='textures/wood'/>
  <asset>
    <mesh name="link0" file="/Users/jo/robosuite-dev/assets/panda/link0.stl"/>
    <mesh name="a/b" file="../meshes/link1.stl"/>
    <texture name="t" type="2d" file = "C:\\Users\\jo\\wood.png"/>
    <mesh name="plain" file="link2.stl"/>
  </asset>
  <worldbody><body name="/robot/base" pos="0 0 .5"><joint name="j1" range="-1/2"/></body></worldbody>
  <!-- made from /home/jo/scene.xml by hand -->
</mujoco>
"""


def test_a_model_keeps_everything_but_its_paths() -> None:
    assert (
        without_paths(MODEL, name="model_file")
        == """<mujoco model="base">
  <compiler angle="radian" meshdir="meshes" texturedir='wood'/>
  <asset>
    <mesh name="link0" file="link0.stl"/>
    <mesh name="a/b" file="link1.stl"/>
    <texture name="t" type="2d" file = "wood.png"/>
    <mesh name="plain" file="link2.stl"/>
  </asset>
  <worldbody><body name="/robot/base" pos="0 0 .5"><joint name="j1" range="-1/2"/></body></worldbody>
  <!-- made from scene.xml by hand -->
</mujoco>
"""
    )


def test_a_model_in_one_line_is_no_path() -> None:
    model = '<mujoco><asset><mesh file="/home/jo/a.stl"/></asset></mujoco>'
    assert without_paths(model, name="model_file") == '<mujoco><asset><mesh file="a.stl"/></asset></mujoco>'


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("bddl_file_name", "/opt/lib/libero/bddl_files/libero_90/X.bddl", "X.bddl"),
        ("bddl_file_name", "libero/bddl_files/libero_90/X.bddl", "X.bddl"),
        ("bddl_file_name", "X.bddl", "X.bddl"),
        ("model_file", "model_1.xml", "model_1.xml"),
        ("data_dir", "runs/today/", "today"),
        ("usd_path", "https://example.org/a/b.usd", "https://example.org/a/b.usd"),
        ("prim_path", "/World/envs/env_.*/Robot", "/World/envs/env_.*/Robot"),
        ("prim_path", "{ENV_REGEX_NS}/Robot", "{ENV_REGEX_NS}/Robot"),
        (
            "bddl_file_content",
            "<_io.TextIOWrapper name='/opt/l b/X.bddl' mode='r' encoding='utf-8'>",
            "<_io.TextIOWrapper name='X.bddl' mode='r' encoding='utf-8'>",
        ),
        ("note", "recorded with /home/jo/teleop.py, twice", "recorded with teleop.py, twice"),
        ("git_branch", "feature/new-arm", "feature/new-arm"),
        ("note", "and/or 3/4 of it\nright/left", "and/or 3/4 of it\nright/left"),
        ("note", "", ""),
    ],
)
def test_attributes_by_name(name: str, text: str, expected: str) -> None:
    assert without_paths(text, name=name) == expected


def test_json_without_a_path_is_kept_byte_for_byte() -> None:
    text = '{\n  "b": 1,\n   "a": "x/y", "branch": "feature/x"}'
    assert without_paths(text) is text


def test_json_with_a_path_keeps_its_order_and_values() -> None:
    value = {
        "z": 1.5,
        "base_dir": "runs/x",
        "list": ["/home/jo/a.hdf5", {"model_file": "m/a.xml"}],
        "a": None,
    }
    text = without_paths(json.dumps(value, indent=4))
    assert json.loads(text) == {
        "z": 1.5,
        "base_dir": "x",
        "list": ["a.hdf5", {"model_file": "a.xml"}],
        "a": None,
    }
    assert list(json.loads(text)) == ["z", "base_dir", "list", "a"]


def test_broken_json_loses_its_absolute_paths_all_the_same() -> None:
    assert without_paths('{"file": "/home/jo/a.xml", "b": ') == '{"file": "a.xml", "b": '
    assert without_paths("{'file': '/home/jo/a.xml'}") == "{'file': 'a.xml'}"


def test_keys_are_left_as_they_are() -> None:
    assert reduced_value({"/home/jo/a": {"dirs": ["a/b", 3, True]}}) == {
        "/home/jo/a": {"dirs": ["b", 3, True]}
    }


WORDS = st.text("abcXYZ019 _-", min_size=1, max_size=12).filter(
    lambda w: w.strip() == w and w not in (".", "..")
)


@settings(max_examples=200, deadline=None)
@given(parts=st.lists(WORDS, min_size=1, max_size=5), form=st.sampled_from(["xml", "json", "repr", "whole"]))
def test_no_path_survives_anywhere_and_twice_is_once(parts: list[str], form: str) -> None:
    path = "/home/" + "/".join(parts)
    text = {
        "xml": f'<a>\n<mesh name="m" file="{path}"/>\n</a>',
        "json": json.dumps({"x": [path], "y": {"model_file": path}}),
        "repr": f"<_io.TextIOWrapper name='{path}'>",
        "whole": path,
    }[form]
    reduced = without_paths(text)
    assert list(absolute_paths(reduced)) == []
    assert parts[-1] in reduced
    assert without_paths(reduced) == reduced


@pytest.mark.parametrize(
    "text", ["x" * 200_000, "<" + "a" * 200_000 + "/>", "/" * 100_000, "'/" * 50_000, "{" * 90_000]
)
def test_odd_text_takes_no_time(text: str) -> None:
    assert isinstance(without_paths(text, name="note"), str)
