"""`init`: every file is there, valid, and nothing that was there is written over."""

from __future__ import annotations

import re
import shutil
from datetime import date
from pathlib import Path

import jsonschema
import pytest
import yaml

from trajpipe.core import jsontext
from trajpipe.core.errors import UsageError
from trajpipe.pipeline.catalogue import load_catalogue
from trajpipe.pipeline.gate import GateOptions, gate
from trajpipe.pipeline.gate_baseline import apply_baseline, load_baseline
from trajpipe.pipeline.gate_outcomes import State
from trajpipe.pipeline.init import CI, WORKSPACE, init
from trajpipe.pipeline.project import Project
from trajpipe.testing import write_recording
from trajpipe_tests.conftest import REPOSITORY

FILES = [
    "data/datasets.yaml",
    "data/datasets.schema.json",
    "data/gate.yaml",
    "data/raw/pick_cup/README.md",
    "workspace.yaml",
    ".github/workflows/data.yml",
    ".gitignore",
]


def test_a_new_folder_has_every_file_and_each_is_valid(tmp_path: Path) -> None:
    started = init(tmp_path / "new" / "project", "pick_cup")
    root = tmp_path / "new" / "project"
    assert (started.written, started.kept) == (FILES, [])
    assert sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()) == sorted(FILES)
    catalogue = load_catalogue(root / "data/datasets.yaml")
    assert list(catalogue.datasets) == ["pick_cup"]
    assert (catalogue.dataset("pick_cup").task, catalogue.dataset("pick_cup").description) == (None, "")
    schema = jsontext.loads((root / "data/datasets.schema.json").read_bytes())
    jsonschema.validate(yaml.safe_load((root / "data/datasets.yaml").read_text()), schema)
    assert load_baseline(root / "data/gate.yaml").waivers == ()
    ours = yaml.safe_load((REPOSITORY / WORKSPACE).read_text())
    assert yaml.safe_load((root / WORKSPACE).read_text()) == ours


def test_the_commented_examples_are_valid_when_their_comments_are_taken_away(tmp_path: Path) -> None:
    init(tmp_path, "pick_cup")
    path = tmp_path / "data/datasets.yaml"
    keys = "description|task|owners|tag|conventions|filter|splits|min_recordings|exclude|schedule"
    example = re.compile(rf"^( +)# (  .*|({keys}):.*)$")
    lines = [example.sub(r"\1\2", line) for line in path.read_text().splitlines()]
    path.write_text("\n".join(lines) + "\n")
    full = load_catalogue(path).dataset("pick_cup")
    assert (full.raw[0].tag, full.min_recordings, full.owners) == ("teleop", 1, ("team:data",))
    assert str(full.raw[0].conventions.fps) == "20"
    assert full.schedule is not None
    assert (full.task, full.description.split()[0]) == ("put the cup on the shelf", "A")
    assert full.exclude[0].reason == "the camera fell over"

    path = tmp_path / "data/gate.yaml"
    text = re.sub(r"(?m)^#  ", "  ", path.read_text()).replace("waivers: []", "waivers:")
    path.write_text(text)
    assert [(w.owner, w.dataset) for w in load_baseline(path).waivers] == [("team:data", "pick_cup")]


def test_what_is_there_is_kept_unless_forced(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("mine\n")
    started = init(tmp_path, "pick_cup")
    assert started.kept == [".gitignore"]
    assert (tmp_path / ".gitignore").read_text() == "mine\n"
    assert init(tmp_path, "pick_cup").written == []
    assert init(tmp_path, "pick_cup", force=True).kept == []
    assert "data/demos/" in (tmp_path / ".gitignore").read_text()


def test_a_bad_name_or_place_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a dataset's name"):
        init(tmp_path, "pick cup")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="a project is a folder"):
        init(tmp_path / "file", "pick_cup")


def test_the_ci_recipe_is_a_workflow_that_runs_the_gate(tmp_path: Path) -> None:
    init(tmp_path, "pick_cup")
    value = yaml.safe_load((tmp_path / CI).read_text())
    assert set(value[True]) == {"push", "pull_request", "schedule"}  # YAML 1.1 reads the key `on` as true
    steps = value["jobs"]["gate"]["steps"]
    assert [s["run"].split()[:2] for s in steps if "run" in s] == [["pip", "install"], ["trajpipe", "gate"]]
    reports = [s for s in steps if s.get("name") == "Reports"]
    assert reports[0]["if"] == "always()"


def test_a_recording_dropped_into_a_new_project_passes_its_gate(tmp_path: Path) -> None:
    init(tmp_path, "pick_cup")
    recording = write_recording("isaaclab", tmp_path / "a.hdf5", episodes=2, rows=(8, 12), cameras=())
    shutil.copy(recording, tmp_path / "data/raw/pick_cup/a.hdf5")
    project = Project.open(tmp_path / "data/datasets.yaml")
    report = gate(project, GateOptions())
    baseline = load_baseline(tmp_path / "data/gate.yaml")
    apply_baseline(report, baseline, date(2026, 1, 1))
    bad = [o for o in report.outcomes if o.state in (State.FAILED, State.NEVER_RAN)]
    assert (report.code, bad) == (0, [])
