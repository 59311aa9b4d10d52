"""What trajpipe never does: replace what it did not make, take an edited L2 file, pass over a typo."""

from __future__ import annotations

import os
from pathlib import Path

import h5py
import pytest

from trajpipe.core import names, provenance
from trajpipe.core.conventions import Conventions
from trajpipe.core.errors import CatalogueError, OutputExistsError, SchemaError, UsageError
from trajpipe.core.names import Stage
from trajpipe.core.temporaries import temporary_beside
from trajpipe.pipeline.convert import ConvertOptions, convert
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.results import Status, finding_of
from trajpipe.pipeline.run import RunOptions, run
from trajpipe.pipeline.store_columns import columns_of
from trajpipe.pipeline.store_plan import StorePlan
from trajpipe.testing import write_recording
from trajpipe_tests.pipeline.conftest import CATALOGUE, MakeProject


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """A small good recording."""
    return write_recording(
        "isaaclab", tmp_path / "take.hdf5", episodes=1, rows=(8, 8), cameras=("front",), image_size=64
    )


FORCE = ConvertOptions(force=True)


def test_a_folder_that_is_not_ours_is_never_replaced(raw: Path, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "notes.txt").write_text("precious")
    for options in (ConvertOptions(), FORCE):
        with pytest.raises(OutputExistsError, match="trajpipe did not make it"):
            convert([raw], folder, "lerobot-v2.1", options)
    assert (folder / "notes.txt").read_text() == "precious"


def test_an_empty_folder_may_be_filled(raw: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert convert([raw], tmp_path / "empty", "lerobot-v2.1")[-1].ok


def test_a_file_that_is_not_ours_is_replaced_on_request_only(raw: Path, tmp_path: Path) -> None:
    keep = tmp_path / "keep.h5"
    keep.write_bytes(b"precious")
    with pytest.raises(OutputExistsError, match="--force"):
        convert([raw], keep, "store")
    assert keep.read_bytes() == b"precious"
    assert convert([raw], keep, "store", FORCE)[-1].ok
    assert convert([raw], keep, "store")[-1].status is Status.UNCHANGED


def test_a_device_is_refused_always(raw: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.h5"
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match="neither a file nor a folder"):
        convert([raw], pipe, "store", FORCE)
    assert pipe.is_fifo()


def test_an_output_whose_stamp_was_never_written_is_still_ours(raw: Path, tmp_path: Path) -> None:
    store = tmp_path / "s.h5"
    result = convert([raw], store, "store")[-1]
    recipe = provenance.beside(store, names.SUFFIX_RECIPE)
    before = recipe.read_bytes()
    recipe.unlink()
    provenance.claim(store, provenance.Recipe("store", {}, {}, "x"), {})
    again = convert([raw], store, "store")[-1]
    assert (result.status, again.status) == (Status.BUILT, Status.BUILT)
    assert len(recipe.read_bytes()) == len(before)


def test_a_source_that_is_not_there_is_a_usage_error_and_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nope\.hdf5"):
        convert([tmp_path / "nope.hdf5"], tmp_path / "s.h5", "store")
    assert list(tmp_path.iterdir()) == []


def test_an_edited_l2_file_does_not_get_into_a_store(raw: Path, tmp_path: Path) -> None:
    (l2,) = convert([raw], tmp_path / "l2.hdf5", "demos")
    with h5py.File(l2.path, "r+") as file:
        file["data/demo_0/actions"][5, 0] += 0.25
    results = convert([l2.path], tmp_path / "s.h5", "store")
    assert [r.status for r in results] == [Status.FAILED, Status.FAILED]
    assert "demos-content-hash" in {f.code for f in results[0].checks.findings()}
    assert not (tmp_path / "s.h5").exists()


def test_a_failure_note_goes_when_the_output_is_built(make_project: MakeProject) -> None:
    project = make_project(1)
    raw = project.root / "raw/lift/take_00.hdf5"
    good = raw.read_bytes()
    raw.write_bytes(b"")
    run(project)
    note = provenance.beside(project.root / "demos/scripted_lift.hdf5", names.SUFFIX_FAILURE)
    assert note.is_file()
    raw.write_bytes(good)
    assert run(Project.open(project.catalogue.path)).ok
    assert not note.exists()


def test_what_a_failed_check_keeps_back_is_not_counted_as_written(raw: Path, tmp_path: Path) -> None:
    with h5py.File(raw, "r+") as file:
        file["data/demo_0/obs/eef_quat"][...] *= 3
        first = file["data/demo_0"]
        file.copy(first, "data/demo_1")
        del file["data/demo_1/obs/joint_pos"]
    (result,) = convert([raw], tmp_path / "x.hdf5", "demos")
    assert result.status is Status.FAILED
    assert result.ledger.written == 0
    assert not (tmp_path / "x.hdf5").exists()


def test_a_rename_that_names_nothing_is_told(raw: Path, tmp_path: Path) -> None:
    options = ConvertOptions(conventions=Conventions(terms={"nosuch": "term", "eef_pos": "hand_pos"}))
    (result,) = convert([raw], tmp_path / "x.hdf5", "demos", options)
    found = [f for f in result.checks.findings() if f.code == "term-not-found"]
    assert [f.got for f in found] == ["nosuch"]


def test_a_camera_or_term_that_names_nothing_is_refused(raw: Path, tmp_path: Path) -> None:
    l2 = convert([raw], tmp_path / "x.hdf5", "demos")[0].path
    with pytest.raises(SchemaError, match=r"no camera of this name.*got nope; expected one of front"):
        columns_of(StorePlan("d", (l2,), tmp_path / "s.h5", cameras=("nope",)))
    with pytest.raises(SchemaError, match="no term of this name"):
        columns_of(StorePlan("d", (l2,), tmp_path / "s.h5", terms=("eef_*", "nope")))
    assert columns_of(StorePlan("d", (l2,), tmp_path / "s.h5", terms=("eef_*",), cameras=("fr*",)))


def test_exclusions_that_name_nothing_are_told(make_project: MakeProject) -> None:
    extra = (
        "    exclude:\n"
        "      - {recording: take_00, demo: demo_99, reason: typo}\n"
        "      - {recording: take_77, reason: typo}\n"
    )
    result = run(make_project(1, catalogue=CATALOGUE + extra))
    found = {f.got: f for r in result.results for f in r.checks.findings() if f.code == "exclude-not-found"}
    assert sorted(map(str, found)) == ["demo_99", "take_77"]


def test_a_glob_that_matches_nothing_is_named(make_project: MakeProject) -> None:
    result = run(make_project(0))
    assert "no recording matches raw/lift/*.hdf5 below" in str(result.results[0].error)


def test_a_split_by_an_attribute_that_no_demo_has_stops_the_run_once(make_project: MakeProject) -> None:
    project = make_project(2, catalogue=CATALOGUE + "    splits: {group: nosuch}\n")
    with pytest.raises(CatalogueError, match="nosuch"):
        run(project, options=RunOptions(stages=(Stage.DEMOS,)))


def test_a_failed_write_names_the_target_and_not_its_temporary(tmp_path: Path) -> None:
    temporary = temporary_beside(tmp_path / "x.hdf5")
    found = finding_of(PermissionError(13, "Permission denied", str(temporary)), "take.hdf5")
    assert names.TEMPORARY_MARK not in found.message
    assert "x.hdf5" in found.message
