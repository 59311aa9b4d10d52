"""Absolute paths in recorded text: what is one, what is not, and what is left of it.

What is not here: which attributes are reduced, see the L2 writer's tests.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajpipe.core.paths import (
    absolute_paths,
    base_name,
    is_absolute_path,
    without_absolute_paths,
    without_absolute_paths_in,
)

PATHS = [
    "/home/jo/robosuite/models/link0.stl",
    "/opt/lib",
    "/data/someone/x.bddl",
    "file:///Users/jo/x.xml",
    "C:\\Users\\jo\\x.xml",
    "C:/Users/jo/x.xml",
    "\\\\server\\share\\x.xml",
    "/home/jo/My Files/x.xml",
]
NO_PATHS = [
    "",
    "/",
    "/World/envs/env_.*/Robot",
    "/World/Robot",
    "https://example.org/a/b.xml",
    "meshes/link0.stl",
    "and/or",
    "</body>",
    "put the cup on/off the plate",
    "pick up the mug",
    "3/4",
    "lift: /",
    "../assets/x.png",
]


@pytest.mark.parametrize("path", PATHS)
def test_a_path_alone_and_quoted(path: str) -> None:
    assert is_absolute_path(path)
    assert list(absolute_paths(path)) == [path]
    assert without_absolute_paths(path) == base_name(path)
    xml = f'<mesh name="a" file="{path}"/>\n<x/>'
    assert list(absolute_paths(xml)) == [path]
    assert without_absolute_paths(xml) == f'<mesh name="a" file="{base_name(path)}"/>\n<x/>'


@pytest.mark.parametrize("text", NO_PATHS)
def test_what_is_no_path_is_left_alone(text: str) -> None:
    for whole in (text, f'<a b="{text}"/>', f"see {text} there"):
        assert list(absolute_paths(whole)) == []
        assert without_absolute_paths(whole) == whole


def test_paths_in_running_text() -> None:
    text = "loaded /home/jo/a.xml, then /tmp/b/c.png: fine"
    assert list(absolute_paths(text)) == ["/home/jo/a.xml", "/tmp/b/c.png"]
    assert without_absolute_paths(text) == "loaded a.xml, then c.png: fine"


def test_json_text_stays_json() -> None:
    text = json.dumps({"bddl": "/opt/lib/x y.bddl", "prim": "/World/Robot", "n": [1, "/tmp/q.txt"]})
    assert json.loads(without_absolute_paths(text)) == {
        "bddl": "x y.bddl",
        "prim": "/World/Robot",
        "n": [1, "q.txt"],
    }


def test_a_python_repr_of_an_open_file() -> None:
    text = "<_io.TextIOWrapper name='/opt/lib/a.bddl' mode='r' encoding='UTF-8'>"
    assert without_absolute_paths(text) == "<_io.TextIOWrapper name='a.bddl' mode='r' encoding='UTF-8'>"


def test_values_are_walked_and_keys_kept() -> None:
    value = {"/home/jo/key.xml": ["/home/jo/a.xml", 3, None, {"x": "/home/jo/b.xml"}]}
    assert without_absolute_paths_in(value) == {"/home/jo/key.xml": ["a.xml", 3, None, {"x": "b.xml"}]}


@given(st.text("/\\ab.:\"'<>C \nhomexyz", max_size=60))
def test_reducing_leaves_no_path_and_is_done_once(text: str) -> None:
    once = without_absolute_paths(text)
    assert without_absolute_paths(once) == once
    assert list(absolute_paths(once)) == []


def test_a_base_name_always_exists() -> None:
    assert [base_name(p) for p in ("/a/b/", "C:\\x\\y.z", "file:///a", "/")] == ["b", "y.z", "a", "."]
