"""Certificates of motion stores that were built on another robot model: the model is found, or asked for.

What is not here: certificates of recordings (`test_certify.py`), the model itself (`motion/test_steps.py`).
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import h5py
import numpy as np
import pytest

from trajpipe.checks.registry import CheckReport
from trajpipe.core.errors import UsageError
from trajpipe.motion.g1 import default_joint_pos, g1
from trajpipe.motion.skeleton_mjcf import mjcf_of
from trajpipe.pipeline.certify_paths import certify_paths
from trajpipe.pipeline.convert import ConvertOptions, convert
from trajpipe.testing.lafan import motion_clip, write_csv


def reordered() -> str:
    """The G1 with its waist and arms before its legs: the default angles stand in another order."""
    root = ET.fromstring(mjcf_of(g1()))
    pelvis = root.find("worldbody/body")
    assert pelvis is not None
    (waist,) = (b for b in pelvis.findall("body") if b.get("name") == "waist_yaw_link")
    pelvis.remove(waist)
    first = min(i for i, child in enumerate(pelvis) if child.tag == "body")
    pelvis.insert(first, waist)
    return ET.tostring(root, encoding="unicode")


@pytest.fixture
def stages(tmp_path: Path) -> list[Path]:
    """A clip, its L2 file, its store on the reordered model, its LeRobot folder; the model lies elsewhere."""
    (tmp_path / "models").mkdir()
    (tmp_path / "files/stores").mkdir(parents=True)
    model = tmp_path / "models/robot.xml"
    model.write_text(reordered())
    raw = write_csv(tmp_path / "files/walk.csv", motion_clip("walk", 24))
    l2, store = tmp_path / "files/l2.hdf5", tmp_path / "files/stores/walk.h5"
    lerobot = tmp_path / "files/lerobot"
    for source, target, to in ((raw, l2, "demos"), (l2, store, "store"), (l2, lerobot, "lerobot-v2.1")):
        result = convert([source], target, to, ConvertOptions(libero={"model": model}))[-1]
        assert result.ok, (result.error, [str(f) for f in result.checks.findings()])
    with h5py.File(store) as file:
        assert not np.array_equal(file["default_dof_pos"][()], default_joint_pos())
    return [raw, l2, store, lerobot]


def certified(stages: list[Path], model: Path | None = None) -> CheckReport:
    """The report of a certificate."""
    report, path = certify_paths(*stages, model=model)
    assert path.is_file()
    return report


def test_the_named_model_proves_the_store(stages: list[Path], tmp_path: Path) -> None:
    report = certified(stages, tmp_path / "models/robot.xml")
    assert report.passed, [str(f) for f in report.findings()]


@pytest.mark.parametrize("place", ["files", "files/stores"])
def test_a_model_beside_the_files_is_found_by_its_hash(
    stages: list[Path], tmp_path: Path, place: str
) -> None:
    (tmp_path / place / "a_other.xml").write_text(mjcf_of(g1()))
    (tmp_path / "models/robot.xml").rename(tmp_path / place / "renamed.xml")
    assert certified(stages).passed


def test_a_model_that_is_not_at_hand_is_asked_for(stages: list[Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no MJCF beside the files.*--target-model"):
        certified(stages)
    other = tmp_path / "other.xml"
    other.write_text(mjcf_of(g1()))
    with pytest.raises(UsageError, match=r"got other\.xml"):
        certified(stages, other)
    with pytest.raises(UsageError, match="no such file"):
        certified(stages, tmp_path / "absent.xml")
    assert not list((tmp_path / "files").glob("*.certificate.json"))


def test_a_store_whose_tables_are_of_another_order_is_not_proven(stages: list[Path], tmp_path: Path) -> None:
    with h5py.File(stages[2], "r+") as file:
        file["default_dof_pos"][()] = default_joint_pos()
    report = certified(stages, tmp_path / "models/robot.xml")
    assert not report.passed
    assert any("side table" in f.message for f in report.findings())
