"""Tests of the names on disk: the words of the contract, tags by file name.

What is not here: who writes them.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import trajpipe
from trajpipe.core import names
from trajpipe.core.names import Alignment, Reason, Split, Stage, Tag, tag_of_file_name


@pytest.mark.parametrize(
    ("stem", "tag"),
    [
        ("scripted_lift", Tag.SCRIPTED),
        ("rl_lift_cube_3", Tag.RL),
        ("teleop_STUDY_SCENE1", Tag.TELEOP),
        ("teleop", Tag.TELEOP),
        ("mocap_walk", Tag.UNKNOWN),
        ("Teleop_lift", Tag.UNKNOWN),
        ("scriptedlift", Tag.UNKNOWN),
        ("rlift", Tag.UNKNOWN),
        ("dataset", Tag.UNKNOWN),
        ("", Tag.UNKNOWN),
    ],
)
def test_the_tag_is_told_by_the_prefix(stem: str, tag: Tag) -> None:
    assert tag_of_file_name(stem) is tag


def test_the_words_of_the_contract() -> None:
    assert [s.value for s in Stage] == ["raw", "demos", "store", "lerobot"]
    assert {t.value for t in Tag} == {"scripted", "rl", "teleop", "mocap", "unknown"}
    assert {a.value for a in Alignment} == {"before_action", "after_action"}
    assert {s.value for s in Split} == {"train", "valid"}
    assert names.L2_FORMAT_VERSION == 1
    assert names.SUCCESS_UNKNOWN == 2


def test_reasons_are_kebab_case_and_mean_one_thing_each() -> None:
    values = [r.value for r in Reason]
    assert len(values) == len(set(values))
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", v) for v in values)


def test_attributes_of_a_demo_are_listed_once_each() -> None:
    assert sorted(names.DEMO_ATTRS_OURS) == [
        "content_sha256",
        "obs_alignment",
        "source",
        "source_demo",
        "source_file",
        "source_sha256",
        "success_known",
        "task",
    ]


@pytest.mark.parametrize(
    "name", ["format_version", "macros_image_convention", "obs_alignment", "success_known"]
)
def test_names_on_disk_are_spelled_in_one_module_only(name: str) -> None:
    package = Path(trajpipe.__file__).parent
    spelled = set()
    for path in package.rglob("*.py"):
        constants = (n.value for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Constant))
        if name in constants:
            spelled.add(path.relative_to(package).parts[0])
    # Checks and the sample generator spell names again on purpose: they share no code with the writers.
    assert spelled - {"checks", "testing"} <= {"core", "sources"}
