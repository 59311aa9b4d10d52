"""The bundled sample: declared by the catalogue, written once, repaired and counted as its README says."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path

import h5py
import pytest

from trajpipe.pipeline.catalogue import load_catalogue
from trajpipe.pipeline.ingest import ingest
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.results import StageResult
from trajpipe.testing import sample, write_sample
from trajpipe.testing.recording import write_recording
from trajpipe_tests.conftest import REPOSITORY

CATALOGUE = REPOSITORY / "data" / "datasets.yaml"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with the catalogue and the sample's recordings."""
    folder = tmp_path_factory.mktemp("sample") / "data"
    write_sample(folder)
    (folder / "datasets.yaml").write_bytes(CATALOGUE.read_bytes())
    return folder


def test_the_packaged_catalogue_is_the_repository_s() -> None:
    packaged = Path(str(sample.__file__)).with_name("datasets.yaml")
    assert packaged.read_bytes() == CATALOGUE.read_bytes()


def test_the_catalogue_declares_every_file_and_nothing_else(root: Path) -> None:
    project = Project.open(root / "datasets.yaml")
    found = {name: {r.path for r in project.recordings(name)} for name in project.catalogue.datasets}
    assert list(found) == sample.sample_datasets()
    assert set.union(*found.values()) == set(write_sample(root))
    assert sum(map(len, found.values())) == len(sample.SAMPLE)
    for name, recordings in found.items():
        assert recordings
        assert {path.parent.name for path in recordings} == {name}


def test_every_dataset_says_what_it_is_and_under_which_licence() -> None:
    catalogue = load_catalogue(CATALOGUE)
    readme = (CATALOGUE.parent / "README.md").read_text()
    for name in catalogue.datasets:
        dataset = catalogue.dataset(name)
        assert dataset.license == "Apache-2.0"
        assert len(dataset.description) > 30
        assert f"| `{name}` |" in readme


def test_every_kind_is_in_the_sample() -> None:
    assert {s.kind for s in sample.SAMPLE} == {"isaaclab", "robomimic", "robosuite", "libero"}


def test_what_is_there_is_left_alone_and_what_is_missing_is_written(root: Path, tmp_path: Path) -> None:
    few = tuple(s for s in sample.SAMPLE if s.kind == "robosuite")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sample, "SAMPLE", few)
        (first,) = write_sample(tmp_path)
        digest = hashlib.sha256(first.read_bytes()).hexdigest()
        assert digest == hashlib.sha256((root / few[0].path).read_bytes()).hexdigest()
        first.write_text("mine")
        write_sample(tmp_path)
        assert first.read_text() == "mine"
        write_sample(tmp_path, replace=True)
        assert hashlib.sha256(first.read_bytes()).hexdigest() == digest
        assert [p.name for p in first.parent.iterdir()] == [first.name]


def test_a_failure_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(kind: str, path: Path, **options: object) -> Path:
        write_recording(kind, path, episodes=1, rows=(2, 2), cameras=())
        raise KeyboardInterrupt

    monkeypatch.setattr(sample, "write_recording", breaks)
    with pytest.raises(KeyboardInterrupt):
        write_sample(tmp_path)
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


def test_the_sample_is_small(root: Path) -> None:
    paths = write_sample(root)
    assert sum(path.stat().st_size for path in paths) < 40e6
    frames = 0
    for path in paths:
        with h5py.File(path) as handle:
            frames += sum(int(demo["actions"].shape[0]) for demo in handle["data"].values())
    assert 500 < frames < 2000


@pytest.fixture(scope="module")
def ingested(root: Path) -> dict[str, StageResult]:
    """Every recording brought into L2: recording → result."""
    project = Project.open(root / "datasets.yaml")
    return {
        recording.key: ingest(project.ingest_plan(recording))
        for name in project.catalogue.datasets
        for recording in project.recordings(name)
    }


def test_every_recording_lands_with_all_checks_green(ingested: dict[str, StageResult]) -> None:
    for key, result in ingested.items():
        assert result.status.value == "built", (key, result.error)
        assert all(c.passed for c in result.checks.results), key


def test_three_demos_are_rejected_each_for_its_own_reason(ingested: dict[str, StageResult]) -> None:
    rejected = [
        (x.recording, x.episode, x.reason) for result in ingested.values() for x in result.ledger.rejected
    ]
    assert sorted(rejected) == [
        ("rl_lift.hdf5", "demo_2", "not-successful"),
        ("scripted_lift.hdf5", "demo_2", "nan-action"),
        ("teleop_lift.hdf5", "demo_1", "too-short"),
    ]


def test_every_repair_of_the_legacy_recording_is_named(ingested: dict[str, StageResult]) -> None:
    result = ingested["teleop_stack"]
    counts: Counter[str] = Counter()
    for check in result.checks.results:
        for (code, _, _), number in check.findings.counts.items():
            counts[code] += number
    assert {"numbering-gaps", "format-version-missing", "total-wrong", "legacy-quaternions"} <= set(counts)
    # obs/eef_quat, cube_orientations, object; four assets in states and in initial_state
    assert counts["legacy-quaternions"] == 11


def test_the_mixed_dataset_has_one_set_of_terms_and_three_tags(
    root: Path, ingested: dict[str, StageResult]
) -> None:
    terms, tags = [], []
    for key in ("scripted_lift", "rl_lift", "teleop_lift"):
        with h5py.File(ingested[key].path) as handle:
            demo = handle["data/demo_0"]
            terms.append({name: item.shape[1:] for name, item in demo["obs"].items()})
            tags.append(demo.attrs["source"])
            assert demo.attrs["task"] == "lift the cube"
            assert json.loads(handle["data"].attrs["env_args"])["env_name"].startswith("Isaac-Lift")
    assert terms[0] == terms[1] == terms[2]
    assert tags == ["scripted", "rl", "teleop"]
