"""`trajpipe inspect`, `check` and `convert` on motion clips.

What is not here: other files, see `test_inspect_other.py`.
"""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from trajpipe.cli.inspection.reading import inspect_path
from trajpipe.cli.kinds import recognise
from trajpipe.cli.main import main
from trajpipe.core.names import Stage
from trajpipe.testing.lafan import JOINTS, library_entry, motion_clip, write_csv, write_npz, write_pickle


def _files(folder: Path) -> dict[str, Path]:
    clip = motion_clip("walk", 12)
    entry: dict[str, Any] = library_entry(clip) | {"contact": 1}
    return {
        "csv": write_csv(folder / "walk.csv", clip),
        "npz": write_npz(folder / "walk.npz", clip),
        "pickle": write_pickle(folder / "walk.pkl", {"walk": entry, "again": entry}),
    }


def test_motion_clips_are_told_from_other_tables(tmp_path: Path) -> None:
    for kind, path in _files(tmp_path).items():
        told = recognise(path)
        assert (told.kind, told.stage) == (kind, Stage.RAW)
        found = inspect_path(path)
        assert (found.kind, found.stage) == ("lafan", "raw")
        assert found.facts["joints"] == 29
        assert found.facts["frames per second"] == "30"
        assert found.episodes is not None
        assert set(found.episodes.lengths) == {12}
        assert found.ranges[0].names == list(JOINTS)
    assert found.facts["clips"] == 2
    assert found.notes == ["also holds contact"]
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n")
    assert recognise(other).stage is None
    assert inspect_path(other).kind == "csv"


class _Run:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch ran",)


def test_a_hostile_pickle_is_shown_by_name_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.pkl"
    path.write_bytes(pickle.dumps(_Run()))
    found = inspect_path(path)
    assert found.kind == "pickle"
    assert any("posix.system" in note for note in found.notes)
    assert not Path("ran").exists()


def test_inspect_check_and_convert_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = _files(tmp_path)
    assert main(["--json", "inspect", str(files["csv"])]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "lafan"
    assert main(["check", str(files["npz"])]) == 0
    assert "raw-episodes" in capsys.readouterr().out
    out = tmp_path / "walk.h5"
    assert main(["--json", "convert", str(files["csv"]), str(out), "--to", "store"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["ok"]
    assert out.is_file()


def test_source_options_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    joints = tuple(j for j in JOINTS if "wrist" not in j)
    path = write_pickle(tmp_path / "a.pkl", {"a": library_entry(motion_clip("walk", 9), joints)})
    arguments = ["convert", str(path), str(tmp_path / "a.hdf5"), "--to", "demos"]
    assert main(arguments) == 1
    assert "missing_joints" in capsys.readouterr().out
    assert main([*arguments, "--option", "missing_joints=0.0"]) == 0
    assert main([*arguments, "--option", "missing_joints"]) == 2
