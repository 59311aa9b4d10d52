"""MJCF as untrusted text: what is refused, and the order of bodies."""

from __future__ import annotations

from pathlib import Path

import pytest

from trajpipe.core.errors import InputError, UntrustedError
from trajpipe.mjcf.document import MAX_DEPTH, bodies, numbers, parse, top_level

NESTED = """
<mujoco>
  <worldbody childclass="a">
    <body name="one"><body name="two" childclass="b"/></body>
    <frame><body name="three"/></frame>
    <body name="four"/>
  </worldbody>
</mujoco>
"""


def test_bodies_come_depth_first_and_frames_are_transparent() -> None:
    found = list(bodies(parse(NESTED)))
    assert [(b.name, b.depth, b.childclass) for b in found] == [
        ("one", 1, "a"),
        ("two", 2, "b"),
        ("three", 1, "a"),
        ("four", 1, "a"),
    ]
    assert [b.name for b in top_level(parse(NESTED))] == ["one", "three", "four"]


def test_an_entity_is_refused_before_any_file_is_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    text = f'<!DOCTYPE mujoco [<!ENTITY x SYSTEM "file://{secret}">]><mujoco>&x;</mujoco>'
    with pytest.raises(UntrustedError, match="document type"):
        parse(text)


def test_a_bomb_of_entities_is_refused_at_once() -> None:
    bomb = '<!DOCTYPE m [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><mujoco>&b;</mujoco>'
    with pytest.raises(UntrustedError, match="document type"):
        parse(bomb)


@pytest.mark.parametrize("tag", ["include", "attach", "replicate", "composite", "flexcomp", "plugin"])
def test_what_brings_joints_from_elsewhere_is_refused_by_name(tag: str) -> None:
    with pytest.raises(UntrustedError, match=f"<{tag}>"):
        parse(f'<mujoco><worldbody><{tag} file="/etc/passwd"/></worldbody></mujoco>')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<mujoco><worldbody>", "not XML"),
        ("<robot/>", "not MJCF; got <robot>"),
        (
            "<mujoco>" + "<body>" * (MAX_DEPTH + 1) + "</body>" * (MAX_DEPTH + 1) + "</mujoco>",
            "nested too deeply",
        ),
    ],
)
def test_text_that_is_no_model_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        parse(text, place="take.hdf5 · demo_0")
    assert "take.hdf5 · demo_0" in str(caught.value)


def test_numbers_are_read_and_other_text_is_refused() -> None:
    assert numbers(" 1 -2.5\t3e-1 ") == (1.0, -2.5, 0.3)
    with pytest.raises(InputError, match="needs numbers here"):
        numbers("1 two 3")
