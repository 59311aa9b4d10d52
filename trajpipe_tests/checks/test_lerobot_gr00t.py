"""Tests of GR00T's rules: warnings on any set, errors when the context asks for GR00T."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trajpipe.core.findings import Severity
from trajpipe_tests.checks import lerobot_sets as sets
from trajpipe_tests.checks.lerobot_sets import edit_json, finding, result
from trajpipe_tests.export import scenes


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """GR00T sets of both versions, two cameras, named action parts."""
    out = {}
    for version in ("v2.0", "v2.1"):
        out[version] = tmp_path_factory.mktemp("gr00t") / version
        wrist = {"obs/wrist": scenes.frames(20, 3, (32, 48))}
        scenes.export(
            out[version],
            [scenes.episode(0, 20, columns=wrist)],
            version=version,
            gr00t=True,
            action_parts={"ee_pose": (0, 6), "gripper": (6, 7)},
        )
    return out


@pytest.fixture
def root(good: dict[str, Path], tmp_path: Path) -> Path:
    """A set to break."""
    return sets.copied(good["v2.1"], tmp_path / "set")


@pytest.mark.parametrize("version", ["v2.0", "v2.1"])
def test_a_gr00t_export_is_ready(good: dict[str, Path], version: str) -> None:
    assert result(good[version], "lerobot-gr00t", gr00t=True).findings.kept == []


MODALITY, INFO, STATS = "meta/modality.json", "meta/info.json", "meta/stats.json"
FRONT = "observation.images.front"


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (MODALITY, lambda m: m.pop("state"), "modality.json needs state"),
        (MODALITY, lambda m: m.update(action={}), "modality.json needs action"),
        (MODALITY, lambda m: m["state"]["gripper"].pop("end"), "a part has start and end"),
        (
            MODALITY,
            lambda m: m["action"]["gripper"].update(end=9),
            "the parts lie within action and do not overlap",
        ),
        (
            MODALITY,
            lambda m: m["action"]["gripper"].update(start=5),
            "the parts lie within action and do not overlap",
        ),
        (
            MODALITY,
            lambda m: m["state"]["gripper"].update(original_key="state"),
            "a part's original key is a feature",
        ),
        (
            MODALITY,
            lambda m: m["video"]["front"].update(original_key="front"),
            "video.front's original key is a video feature",
        ),
        (
            MODALITY,
            lambda m: m["annotation"].update(other={}),
            "annotation.other's original key is a column",
        ),
        (STATS, lambda s: s["action"].update(count=[20]), "exactly six statistics"),
        (STATS, lambda s: s["action"].pop("q99"), "exactly six statistics"),
        (STATS, lambda s: s.pop("observation.state"), "exactly six statistics"),
        (STATS, lambda s: s["action"].update(mean=[0.0]), "mean has one value per dimension"),
        (INFO, lambda i: i["features"]["action"].update(shape=[1]), "GR00T cannot stack a column of width 1"),
        (INFO, lambda i: i["features"]["action"].update(dtype="int64"), "state and action are floats"),
        (
            INFO,
            lambda i: i["features"][FRONT]["info"].update({"video.codec": "av1"}),
            "GR00T's video readers decode h264",
        ),
        (INFO, lambda i: i["features"][FRONT]["info"].pop("video.fps"), "GR00T reads video.fps"),
        (
            INFO,
            lambda i: i["features"][FRONT].update(names=None),
            "a camera's names are height, width, channels",
        ),
    ],
)
def test_what_gr00t_cannot_read(
    root: Path, name: str, change: Callable[[dict[str, Any]], Any], message: str
) -> None:
    edit_json(root / name, change)
    found = [f for f in result(root, "lerobot-gr00t", gr00t=True).findings if f.message.startswith(message)]
    assert found
    assert found[0].severity is Severity.ERROR
    assert finding(root, "lerobot-gr00t").severity is Severity.WARN


@pytest.mark.parametrize("name", [MODALITY, STATS])
def test_a_missing_file(root: Path, name: str) -> None:
    (root / name).unlink()
    found = finding(root, "lerobot-gr00t", gr00t=True)
    assert (found.message, found.place.file) == (f"GR00T needs {name}", name)


def test_dimensions_without_a_name_are_a_warning_always(root: Path) -> None:
    """NVIDIA's own sample has such."""
    edit_json(root / MODALITY, lambda m: m["action"].pop("gripper"))
    found = finding(root, "lerobot-gr00t", gr00t=True)
    assert (found.message, found.severity) == (
        "some dimensions have no named part in action",
        Severity.WARN,
    )


def test_v3_is_not_for_gr00t(tmp_path: Path) -> None:
    scenes.export(tmp_path, [scenes.episode(0, 5)], version="v3.0")
    assert finding(tmp_path, "lerobot-gr00t").message == "GR00T reads v2.0 and v2.1"


@pytest.mark.shared
def test_nvidias_own_sample_is_ready(shared_data: Path) -> None:
    found = result(shared_data / "lerobot" / "v2.0_robot_sim.PickNPlace", "lerobot-gr00t", gr00t=True)
    assert found.passed
