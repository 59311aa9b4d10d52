"""A catalogue's `export:`: what it may ask for, what comes out, and a ledger that balances.

What is not here: the formats themselves, see `trajpipe_tests.export`.
"""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from trajpipe.core.ledger import Ledger
from trajpipe.core.names import Stage
from trajpipe.export.options import ExportOptions
from trajpipe.pipeline.catalogue import InvalidCatalogueError, load_catalogue
from trajpipe.pipeline.catalogue_export import ExportOptions as ExportEntry
from trajpipe.pipeline.export_lerobot import export, options_of
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.results import StageResult
from trajpipe.pipeline.run import run
from trajpipe.testing import write_recording
from trajpipe_tests.pipeline.conftest import CATALOGUE, MakeProject

CAMERA = "front"
SIZE = 64


def _catalogue(export: str) -> str:
    return CATALOGUE + f"    export: {export}\n"


def _problems(folder: Path, export: str) -> list[str]:
    path = folder / "datasets.yaml"
    path.write_text(_catalogue(export), encoding="utf-8")
    with pytest.raises(InvalidCatalogueError) as caught:
        load_catalogue(path)
    return [str(problem) for problem in caught.value.problems]


def _options(**export: Any) -> ExportOptions:
    """What an `export:` comes to."""
    entry = ExportEntry.model_validate_json(json.dumps(export))
    return ExportOptions(fps=Fraction(20), **options_of(entry, None))


def _exported(project: Project) -> StageResult:
    ran = run(project)
    assert ran.ok, [(r.error, [str(f) for f in r.checks.findings()]) for r in ran.results]
    return next(r for r in ran.results if r.stage == Stage.LEROBOT)


def _meta(project: Project, name: str) -> Any:
    return json.loads((project.lerobot_path("lift") / "meta" / name).read_text())


def test_the_default_is_the_exporter_s_own() -> None:
    assert _options() == ExportOptions(fps=Fraction(20))
    assert options_of(ExportEntry(), "lift it") == {"task": "lift it"}
    assert _options().to_json()["crf"] == 23


def test_every_option_reaches_the_exporter() -> None:
    given = {
        "version": "v2.0",
        "gr00t": True,
        "robot_type": "panda",
        "state": ["joint_pos"],
        "cameras": [],
        "extras": {"next.reward": "rewards"},
        "names": {"actions": ["x", "y"]},
        "action_parts": {"arm": [0, 1], "gripper": [1, 2]},
        "rotation_types": {"eef_quat": "quaternion"},
        "successful_only": True,
        "splits": False,
        "tasks": ["one", "two"],
        "video": {"codec": "h264", "crf": 30, "preset": "fast"},
    }
    assert _options(**given) == ExportOptions(
        fps=Fraction(20),
        version="v2.0",
        gr00t=True,
        robot_type="panda",
        state=("joint_pos",),
        cameras=(),
        extras={"next.reward": "rewards"},
        names={"actions": ("x", "y")},
        action_parts={"arm": (0, 1), "gripper": (1, 2)},
        rotation_types={"eef_quat": "quaternion"},
        successful_only=True,
        splits=False,
        tasks=("one", "two"),
        codec="h264",
        crf=30,
        preset="fast",
    )
    assert set(given) | {"profile", "fps"} == set(ExportEntry.model_fields)


def test_a_profile_lies_below_what_is_declared() -> None:
    assert _options(profile="gr00t-v2.0") == ExportOptions(fps=Fraction(20), version="v2.0", gr00t=True)
    chosen = _options(profile="gr00t-v2.0", version="v3.0", gr00t=False)
    assert chosen == ExportOptions(fps=Fraction(20), version="v3.0")
    assert ExportEntry(profile="lerobot-v3.0").form() == ("v3.0", "h264", False)


@pytest.mark.parametrize(
    ("export", "message"),
    [
        (
            "{version: v4.0}",
            'export.version: the value is not allowed; got "v4.0"; expected one of',
        ),
        (
            "{video: {codec: vp9}}",
            'export.video.codec: the value is not allowed; got "vp9"; expected one of',
        ),
        ("{video: {crf: 52}}", "export: h264 has no crf of 52; expected 0 to 51"),
        ("{video: {crf: 64}}", "export.video.crf: the number is too large; got 64"),
        ("{video: {codec: png, crf: 20}}", "`crf` and `preset` are of videos; png has none"),
        ("{video: {codec: av1, preset: fast}}", "av1 has no preset `fast`; expected one of 0, 1, 2"),
        ("{video: {preset: 12}}", "h264 has no preset `12`; expected one of ultrafast, superfast"),
        ("{version: v3.0, gr00t: true}", "GR00T does not read LeRobot v3.0; expected `version` v2.0 or v2.1"),
        ("{profile: gr00t-v2.1, version: v3.0}", "GR00T does not read LeRobot v3.0"),
        ("{profile: gr00t-v2.1, video: {codec: av1}}", "GR00T's video readers do not decode av1"),
        ("{profile: lerobot-v9}", "no export profile `lerobot-v9`; expected one of gr00t-v2.0, gr00t-v2.1"),
        ("{action_parts: {arm: [0, 6], grip: [5, 7]}}", "the parts of the action leave a gap, overlap"),
        ("{action_parts: {arm: [1, 6]}}", "the parts of the action leave a gap, overlap"),
        ("{action_parts: {arm: [0, 0]}}", "the parts of the action leave a gap, overlap"),
    ],
)
def test_what_cannot_be_is_refused_by_the_catalogue(tmp_path: Path, export: str, message: str) -> None:
    found = _problems(tmp_path, export)
    assert len(found) == 1
    assert message in found[0]
    assert "line 10 · " in found[0]


def test_an_av1_preset_may_be_a_number() -> None:
    assert _options(video={"codec": "av1", "preset": 8, "crf": 63}).to_json()["preset"] == "8"


@pytest.mark.parametrize(
    ("export", "version", "codec"),
    [
        ("{}", "v2.1", "h264"),
        ("{version: v2.0, video: {codec: av1, preset: 12}}", "v2.0", "av1"),
        ("{profile: lerobot-v3.0}", "v3.0", "h264"),
        ("{version: v2.1, video: {codec: png}}", "v2.1", None),
    ],
)
def test_info_says_what_the_catalogue_asks_for(
    make_project: MakeProject, export: str, version: str, codec: str | None
) -> None:
    project = make_project(1, catalogue=_catalogue(export), cameras=(CAMERA,), size=SIZE)
    _exported(project)
    info = _meta(project, "info.json")
    camera = info["features"][f"observation.images.{CAMERA}"]
    assert info["codebase_version"] == version
    assert camera["dtype"] == ("image" if codec is None else "video")
    assert camera.get("info", {}).get("video.codec") == codec


def test_gr00t_with_parts_rotations_names_and_extras(make_project: MakeProject) -> None:
    export = (
        "{profile: gr00t-v2.1, state: [joint_pos, eef_quat], extras: {obs.eef: obs/eef_pos},"
        " robot_type: panda, names: {obs/eef_pos: [x, y, z]}, rotation_types: {eef_quat: quaternion},"
        " action_parts: {arm: [0, 7], gripper: [7, 8]}}"
    )
    project = make_project(1, catalogue=_catalogue(export), cameras=(CAMERA,), size=SIZE)
    _exported(project)
    info, modality = _meta(project, "info.json"), _meta(project, "modality.json")
    assert (info["codebase_version"], info["robot_type"]) == ("v2.1", "panda")
    assert info["features"]["obs.eef"]["names"] == ["x", "y", "z"]
    assert modality["action"]["gripper"]["start"] == 7
    assert modality["state"]["eef_quat"]["rotation_type"] == "quaternion"


def _with_failures(root: Path) -> Project:
    """Two recordings of one base name: the second episode of one, and the first of the other, failed."""
    for folder, failures in (("monday", (1,)), ("tuesday", (0,))):
        path = root / "raw" / "lift" / folder / "take.hdf5"
        write_recording(
            "isaaclab",
            path,
            episodes=3,
            rows=(8, 12),
            seed=len(folder),
            failures=failures,
            cameras=(),
        )
    catalogue = _catalogue("{successful_only: true}").replace("raw/lift/*.hdf5", "raw/lift/**/*.hdf5")
    (root / "datasets.yaml").write_text(catalogue)
    return Project.open(root / "datasets.yaml")


def test_unsuccessful_episodes_are_in_the_ledger_of_their_own_file(tmp_path: Path) -> None:
    project = _with_failures(tmp_path / "data")
    result = _exported(project)
    assert result.ledger.summary() == "read 6 · written 4 · rejected 2 (2 not-successful)"
    assert [(e.recording, e.read, e.written) for e in result.ledger.entries] == [
        ("scripted_lift__monday__take.hdf5", 3, 2),
        ("scripted_lift__tuesday__take.hdf5", 3, 2),
    ]
    assert [(r.recording, r.episode, r.detail) for r in result.ledger.rejected] == [
        ("scripted_lift__monday__take.hdf5", "demo_1", "recorded in take.hdf5"),
        ("scripted_lift__tuesday__take.hdf5", "demo_0", "recorded in take.hdf5"),
    ]
    stored = Ledger.load(project.lerobot_path("lift").with_name("lift.ledger.json"))
    assert stored.to_json() == result.ledger.to_json()
    assert _meta(project, "info.json")["total_episodes"] == 4


def test_an_export_without_l2_files_says_so_and_asks_for_no_rate(tmp_path: Path) -> None:
    """A second recording gives the first one's L2 file another name: until it is made there is none."""
    project = _with_failures(tmp_path / "data")
    result = export(replace(project.export_plan("lift"), failed={}))
    assert not result.ok
    assert result.error == "lift: an export needs one L2 file at least; got no L2 file is there yet"
    assert {f.code for r in result.checks.results for f in r.findings} == {"nothing-to-build"}
    assert not project.lerobot_path("lift").exists()
