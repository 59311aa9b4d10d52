"""Whether a store or an export is due, on projects whose files, catalogue and outputs change.

What is not here: who asks, see `trajpipe_tests/defs/test_automation.py`.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import h5py
import pytest

from trajpipe.core.names import Stage
from trajpipe.pipeline.due import due
from trajpipe.pipeline.export_lerobot import declared
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.run import RunOptions, plan, run
from trajpipe.testing import write_recording
from trajpipe_tests.pipeline.conftest import CATALOGUE, MakeProject

WITH_RATE = CATALOGUE.replace("        tag:", "        conventions: {fps: 20}\n        tag:")
DEMOS, STORE, LEROBOT = Stage.DEMOS, Stage.STORE, Stage.LEROBOT


class Looked:
    """A project of two recordings, opened anew for each look."""

    def __init__(self, project: Project) -> None:
        self.root = project.root

    def run(self, *stages: Stage, recordings: tuple[str, ...] = (), ok: bool = True) -> None:
        """Run some stages."""
        done = run(Project.open(self.root / "datasets.yaml"), options=RunOptions(recordings, stages))
        assert done.ok is ok, [r.error for r in done.results]

    def due(self, stage: Stage) -> str:
        """The digest of what a build would make."""
        return due(Project.open(self.root / "datasets.yaml"), "lift", stage)

    def are_due(self) -> tuple[bool, bool]:
        """Whether the store is, and the export."""
        return bool(self.due(STORE)), bool(self.due(LEROBOT))

    def catalogue(self, old: str, new: str) -> None:
        """Change the catalogue."""
        text = (self.root / "datasets.yaml").read_text()
        assert old in text
        (self.root / "datasets.yaml").write_text(text.replace(old, new))

    def record(self, seed: int) -> None:
        """Another content of the second recording."""
        write_recording("isaaclab", self.root / "raw/lift/take_01.hdf5", episodes=2, seed=seed, cameras=())


@pytest.fixture
def looked(make_project: MakeProject) -> Looked:
    """The project, nothing run yet."""
    return Looked(make_project(2, catalogue=WITH_RATE))


def test_first_the_store_is_due_then_the_export_then_nothing(looked: Looked) -> None:
    assert looked.are_due() == (False, False)
    looked.run(DEMOS)
    assert looked.are_due() == (True, False)
    looked.run(STORE)
    assert looked.are_due() == (False, True)
    looked.run(LEROBOT)
    assert looked.are_due() == (False, False)
    states = {step.stage: step.state for step in plan(Project.open(looked.root / "datasets.yaml"))}
    assert states == {DEMOS: "ready", STORE: "ready", LEROBOT: "ready"}


def test_the_same_files_give_the_same_digest_and_others_another(looked: Looked) -> None:
    looked.run(DEMOS, recordings=("take_00",))
    first = looked.due(STORE)
    assert len(first) == 64
    assert looked.due(STORE) == first
    looked.run(DEMOS)
    both = looked.due(STORE)
    assert both not in ("", first)
    looked.record(seed=77)
    looked.run(DEMOS)
    assert looked.due(STORE) not in ("", first, both)


def test_an_export_of_other_files_has_another_digest(looked: Looked) -> None:
    looked.run(DEMOS, STORE)
    first = looked.due(LEROBOT)
    looked.record(seed=77)
    looked.run(DEMOS)
    assert looked.are_due() == (True, False)  # its store comes first
    looked.run(STORE)
    assert looked.due(LEROBOT) not in ("", first)


def test_a_broken_recording_does_not_make_anything_wait(looked: Looked) -> None:
    (looked.root / "raw/lift/take_01.hdf5").write_bytes(b"broken")
    looked.run(DEMOS, ok=False)
    assert looked.are_due() == (True, False)
    looked.run(STORE)
    assert looked.are_due() == (False, True)


def test_what_the_catalogue_says_of_the_store_makes_both_due(looked: Looked) -> None:
    looked.run()
    looked.catalogue("    license:", "    store: {compression: none}\n    license:")
    assert looked.are_due() == (True, False)
    looked.run()
    assert looked.are_due() == (False, False)


@pytest.mark.parametrize("said", ["export: {version: v3.0}", "export: {successful_only: true}"])
def test_what_the_catalogue_says_of_the_export_makes_it_due(looked: Looked, said: str) -> None:
    looked.run()
    looked.catalogue("    license:", f"    {said}\n    license:")
    assert looked.are_due() == (False, True)
    looked.run()
    assert looked.are_due() == (False, False)


def test_outputs_that_were_lost_or_changed_are_due(looked: Looked) -> None:
    looked.run()
    (looked.root / "lerobot/lift/meta/info.json").write_text("{}")
    assert looked.are_due() == (False, True)
    (looked.root / "stores/lift.h5").unlink()
    assert looked.are_due() == (True, False)


def test_an_export_that_fails_stays_due_under_the_same_digest(looked: Looked) -> None:
    wrong = "    export: {state: [no_such_term]}\n"
    looked.catalogue("    license:", f"{wrong}    license:")
    looked.run(DEMOS, STORE)
    first = looked.due(LEROBOT)
    assert first
    looked.run(LEROBOT, ok=False)
    assert looked.due(LEROBOT) == first
    looked.catalogue(wrong, "")
    looked.run()
    assert looked.are_due() == (False, False)


def test_no_l2_file_is_opened(looked: Looked, monkeypatch: pytest.MonkeyPatch) -> None:
    looked.run()

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("an HDF5 file was opened")

    monkeypatch.setattr(h5py.File, "__init__", refuse)
    assert looked.are_due() == (False, False)


def test_a_declared_rate_counts() -> None:
    digests = {declared({}, fps) for fps in (None, Fraction(1), Fraction(20), Fraction(30000, 1001))}
    assert len(digests) == 4
    assert declared({"version": "v3.0"}, None) != declared({}, None)


def test_each_scene_familys_store_counts(tmp_path: Path) -> None:
    raw = tmp_path / "raw/lift"
    for seed, task in enumerate(("KITCHEN_SCENE1_open_it", "STUDY_SCENE2_take_it")):
        write_recording("isaaclab", raw / f"{task}.hdf5", seed=seed, episodes=1, cameras=())
    text = WITH_RATE.replace("    license:", "    store: {group_by: scene}\n    license:")
    (tmp_path / "datasets.yaml").write_text(text)
    looked = Looked(Project.open(tmp_path / "datasets.yaml"))
    assert looked.are_due() == (False, False)
    looked.run(DEMOS, recordings=("KITCHEN_SCENE1_open_it",))
    one = looked.due(STORE)
    assert one
    looked.run(DEMOS)
    assert looked.due(STORE) not in ("", one)
    looked.run(STORE)
    assert looked.are_due() == (False, True)
    (tmp_path / "stores/lift/STUDY_SCENE2.h5").unlink()
    assert looked.are_due() == (True, False)
