"""The robosuite source: collections from demo_1, models beside the file, no observations invented.

What is not here: the real collections, see `test_real_files`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from trajpipe.core.findings import Severity
from trajpipe.core.provenance import sha256_file
from trajpipe.sources.robosuite import model_beside
from trajpipe.testing import write_recording
from trajpipe_tests.sources.builders import Demo, random, read, write

DATA = {"env": "Lift", "env_info": "{}", "date": "1-1-2020", "repository_version": "1.0.0"}
MODEL = '<mujoco>\n<asset><mesh file="/home/jo/a.stl"/></asset>\n</mujoco>'


def collection(path: Path, model: str = MODEL, first: int = 1) -> Path:
    demos = {
        f"demo_{first + n}": Demo(
            {"actions": random(4, 7), "states": random(4, 32), "joint_torques": random(4, 7, seed=3)},
            {"model_file": model},
        )
        for n in range(2)
    }
    return write(path, demos, data=DATA)


@pytest.mark.parametrize("first", [1, 0])
def test_counting_from_one_or_zero_is_no_gap(tmp_path: Path, first: int) -> None:
    found = read(collection(tmp_path / "demo.hdf5", first=first))
    assert [e.source_demo for e in found.episodes] == [f"demo_{first}", f"demo_{first + 1}"]
    assert "numbering-gaps" not in found.codes()
    assert "num-samples-missing" not in found.codes()
    assert "total-missing" not in found.codes()


def test_real_gaps_are_named(tmp_path: Path) -> None:
    found = read(collection(tmp_path / "demo.hdf5", first=2))
    assert found.finding("numbering-gaps").expected == "1..2"


def test_no_observations_are_stated_not_invented(tmp_path: Path) -> None:
    found = read(collection(tmp_path / "demo.hdf5"))
    assert list(found.values["demo_1"]) == ["actions", "joint_torques", "states"]
    stated = found.finding("no-obs")
    assert (stated.severity, stated.got) == (Severity.INFO, "2 of 2 demos without obs")
    assert found.episodes[0].alignment is None
    assert found.episodes[0].success is None


def test_an_inline_model_is_kept_with_its_paths_reduced(tmp_path: Path) -> None:
    episode = read(collection(tmp_path / "demo.hdf5")).episodes[0]
    assert episode.attributes["model_file"] == MODEL.replace("/home/jo/", "")


@pytest.mark.parametrize("folder", ["", "models"])
def test_a_named_model_is_read_from_beside_the_recording(tmp_path: Path, folder: str) -> None:
    path = collection(tmp_path / "demo.hdf5", model="model_1.xml")
    model = tmp_path / folder / "model_1.xml"
    model.parent.mkdir(exist_ok=True)
    model.write_text(MODEL)
    found = read(path)
    for episode in found.episodes:
        assert episode.attributes["model_file"] == MODEL.replace("/home/jo/", "")
    assert found.codes().count("model-file-read") == 2
    assert found.description.conventions["model_files"] == {"model_1.xml": sha256_file(model)}


def test_a_model_that_is_not_there_keeps_its_name(tmp_path: Path) -> None:
    found = read(collection(tmp_path / "demo.hdf5", model="model_1.xml"))
    assert found.episodes[0].attributes["model_file"] == "model_1.xml"
    missing = [f for f in found.findings if f.code == "model-file-missing"]
    assert [(f.severity, f.place.demo, f.got) for f in missing] == [
        (Severity.WARN, "demo_1", "model_1.xml"),
        (Severity.WARN, "demo_2", "model_1.xml"),
    ]
    assert "model_files" not in found.description.conventions


@pytest.mark.parametrize(
    "named", ["../secret.xml", "/etc/passwd", "a/b.xml", "..", "models/../x.xml", "a\0b"]
)
def test_only_a_bare_name_is_looked_for(tmp_path: Path, named: str) -> None:
    (tmp_path / "secret.xml").write_text(MODEL)
    folder = tmp_path / "in"
    folder.mkdir()
    assert model_beside(folder / "demo.hdf5", named) is None


def test_a_path_in_model_file_is_not_opened_and_not_kept(tmp_path: Path) -> None:
    secret = tmp_path / "secret.xml"
    secret.write_text(MODEL)
    (tmp_path / "in").mkdir()
    found = read(collection(tmp_path / "in" / "demo.hdf5", model=str(secret)))
    assert found.episodes[0].attributes["model_file"] == "secret.xml"
    assert "model-file-missing" in found.codes()


def test_links_and_large_files_and_other_text_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.xml").write_text(MODEL)
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "link.xml").symlink_to(tmp_path / "secret.xml")
    assert model_beside(folder / "demo.hdf5", "link.xml") is None
    with (folder / "large.xml").open("wb") as handle:
        handle.truncate((16 << 20) + 1)
    assert model_beside(folder / "demo.hdf5", "large.xml") is None
    (folder / "notes.xml").write_text("no model")
    found = read(collection(folder / "demo.hdf5", model="notes.xml"))
    assert found.episodes[0].attributes["model_file"] == "notes.xml"
    assert "model-file-missing" in found.codes()


def test_env_info_becomes_env_args(tmp_path: Path) -> None:
    path = write_recording("robosuite", tmp_path / "demo.hdf5", rows=(4, 5), joint_torques=True)
    found = read(path)
    args = found.description.env_args
    assert args is not None
    assert (args["env_name"], args["type"], args["env_version"]) == ("Lift", 1, "1.4.0")
    assert args["env_kwargs"]["robots"] == "Panda"
    assert "env_name" not in args["env_kwargs"]
    assert found.description.attributes["repository_version"] == "1.4.0"
    np.testing.assert_equal(found.values["demo_1"]["joint_torques"].shape[1], 7)
