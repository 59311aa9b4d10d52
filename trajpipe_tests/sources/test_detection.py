"""Exactly one source claims a recording; what none can open says why.

What is not here: reading the kinds, see their own tests.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from trajpipe.core.errors import InputError, MissingNameError, UnreadableError, UntrustedError
from trajpipe.sources import base
from trajpipe.testing import write_recording
from trajpipe_tests.sources.builders import (
    ISAAC_ENV,
    ROBOSUITE_ENV,
    Demo,
    isaac_demo,
    isaac_file,
    random,
    write,
)

GENERATED: list[tuple[str, dict[str, Any]]] = [
    ("isaaclab", {}),
    ("isaaclab", {"format_version": None}),
    ("isaaclab", {"format_version": 0, "success": False, "states": False}),
    ("isaaclab", {"concatenated": True, "states": False, "format_version": None}),
    ("isaaclab", {"datagen_info": True, "failed": True}),
    ("robomimic", {}),
    ("robomimic", {"environment": "isaaclab"}),
    ("robomimic", {"roboturk": True, "success": True, "masks": False}),
    ("robosuite", {}),
    ("robosuite", {"model": "name", "joint_torques": True}),
    ("robosuite", {"model": "none", "env_info": False}),
    ("libero", {}),
    ("libero", {"released": False, "image_convention": None}),
]


@pytest.mark.parametrize(("kind", "options"), GENERATED)
def test_generated_recordings_have_one_kind(tmp_path: Path, kind: str, options: dict[str, Any]) -> None:
    path = write_recording(kind, tmp_path / "x.hdf5", episodes=1, rows=(4, 6), cameras=(), **options)
    claims = {name: s.detect(path) for name, s in base.sources().items()}
    assert claims == {name: name == kind for name in claims}
    assert base.detect(path).kind == kind


def _demo(*names: str, **attrs: Any) -> Demo:
    shapes = {"actions": (4, 7), "states": (4, 20), "obs/eef": (4, 3), "rewards": (4,), "states/a/b": (4, 2)}
    return Demo({n: random(*shapes[n]) for n in names}, attrs)


@pytest.mark.parametrize(
    ("demo", "data", "root", "kind"),
    [
        (_demo("actions", "obs/eef"), {"trajpipe": "{}", "problem_info": "{}"}, {}, "isaaclab"),
        (_demo("actions", "obs/eef"), {"problem_info": "{}", "env_args": ROBOSUITE_ENV}, {}, "libero"),
        (_demo("actions", "states"), {"problem_info": "{}", "env_info": "{}"}, {}, "robosuite"),
        (_demo("actions", "states"), {"env_info": "{}", "env_args": ROBOSUITE_ENV}, {}, "robomimic"),
        (_demo("actions", "states"), {"env": "Lift"}, {}, "robosuite"),
        (_demo("actions", "states", model_file="<a/>"), {}, {}, "robosuite"),
        (_demo("actions", "obs/eef"), {"env_args": ISAAC_ENV}, {}, "isaaclab"),
        (_demo("actions", "obs/eef", "rewards"), {"env_args": ISAAC_ENV}, {}, "robomimic"),
        (_demo("actions", "obs/eef", "rewards"), {"env_args": ISAAC_ENV}, {"format_version": 1}, "isaaclab"),
        (_demo("actions", "states/a/b"), {}, {}, "isaaclab"),
        (_demo("actions", "obs/eef", success=True), {}, {}, "isaaclab"),
        (_demo("actions", "obs/eef", success=True), {"env_args": "{'a': 1}"}, {}, "isaaclab"),
        (_demo("actions", "obs/eef"), {"env_args": ROBOSUITE_ENV}, {}, "robomimic"),
        (_demo("actions", "obs/eef"), {}, {}, "robomimic"),
    ],
)
def test_layouts_that_lie_near_each_other(
    tmp_path: Path, demo: Demo, data: dict[str, Any], root: dict[str, Any], kind: str
) -> None:
    path = write(tmp_path / "x.hdf5", {"demo_0": demo}, data=data, root=root)
    assert [s.kind for s in base.sources().values() if s.detect(path)] == [kind]


def test_files_without_demos_are_claimed_so_that_the_reason_is_told(tmp_path: Path) -> None:
    empty = write(tmp_path / "empty.hdf5", {}, data={"env_args": ISAAC_ENV, "total": 0})
    with pytest.raises(InputError, match="no demos") as caught:
        base.detect(empty).describe(empty, base.ReadOptions())
    assert caught.value.code == "no-demos"
    raw = write(tmp_path / "raw.hdf5", {}, data={"env_info": "{}"})
    assert base.detect(raw).kind == "robosuite"
    old = tmp_path / "old.hdf5"
    with h5py.File(old, "w") as handle:
        handle["episodes/episode_0/actions"] = np.zeros((3, 7))
    with pytest.raises(InputError, match="episodes/") as caught:
        list(base.detect(old).episodes(old, base.ReadOptions()))
    assert caught.value.code == "old-layout"


def test_a_truncated_file_says_so_instead_of_unknown_kind(tmp_path: Path) -> None:
    path = isaac_file(tmp_path / "cut.hdf5", {"demo_0": isaac_demo(400)})
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert not any(s.detect(path) for s in base.sources().values())
    with pytest.raises(UnreadableError, match="truncated") as caught:
        base.detect(path)
    assert caught.value.code == "truncated"


def test_a_file_with_an_external_link_says_so(tmp_path: Path) -> None:
    path = isaac_file(tmp_path / "link.hdf5")
    with h5py.File(path, "a") as handle:
        handle["data/demo_9"] = h5py.ExternalLink("other.hdf5", "/data/demo_0")
    with pytest.raises(UntrustedError, match="external link"):
        base.detect(path)


@pytest.mark.parametrize("content", [b"", b"<html></html>", b"x" * 100])
def test_what_is_not_hdf5_is_told_by_suffix(tmp_path: Path, content: bytes) -> None:
    named, other = tmp_path / "x.hdf5", tmp_path / "x.csv"
    named.write_bytes(content)
    other.write_bytes(content)
    with pytest.raises(UnreadableError):
        base.detect(named)
    with pytest.raises(InputError) as caught:
        base.detect(other)
    assert caught.value.code == "unknown-kind"
    assert "--kind" in str(caught.value)


def test_hdf5_of_another_layout_is_of_unknown_kind(tmp_path: Path) -> None:
    path = tmp_path / "flat.h5"
    with h5py.File(path, "w") as handle:
        handle["pixels"] = np.zeros((4, 8, 8, 3), np.uint8)
        handle["data"] = np.zeros(3)
    with pytest.raises(InputError, match="no source that recognises it"):
        base.detect(path)


def test_folders_and_missing_files_are_no_recordings(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "gone.hdf5"):
        assert not any(s.detect(path) for s in base.sources().values())


def test_the_kind_follows_a_file_that_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "x.hdf5"
    write_recording("libero", path, episodes=1, rows=(4, 4), image_size=16)
    assert base.detect(path).kind == "libero"
    isaac_file(path)
    assert base.detect(path).kind == "isaaclab"


def test_the_registry_names_its_kinds() -> None:
    assert list(base.sources()) == ["isaaclab", "lafan", "lerobot", "libero", "robomimic", "robosuite"]
    assert base.source("libero").title.startswith("LIBERO")
    with pytest.raises(MissingNameError, match="isaaclab, lafan, lerobot, libero, robomimic, robosuite"):
        base.source("rosbag")
    with pytest.raises(MissingNameError, match=r"Did you mean `isaaclab`\?"):
        base.source("isaaclb")


def test_env_args_deeper_than_the_parser_goes_are_no_crash(tmp_path: Path) -> None:
    deep = json.dumps({"a": 1})[:-1] + ', "b": ' + "[" * 100_000
    path = isaac_file(tmp_path / "deep.hdf5", data={"env_args": deep[:60_000]})
    assert base.detect(path).kind == "isaaclab"
