"""A project's dataset to the Hub and back: command line, Dagster, rebuild, raw recordings from the Hub.

What is not here: the protocol, see `test_push_pull.py`.
"""

from __future__ import annotations

import json
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from trajpipe.core.errors import InputError, StateError, UntrustedError, UsageError
from trajpipe.defs import build_defs
from trajpipe.hub import Manifest, Repository, pull, read_manifest
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.publish import publication_of_path, push_dataset
from trajpipe.pipeline.raw_hub import fetch_raw, revision_of
from trajpipe.pipeline.rebuild import rebuild
from trajpipe.pipeline.run import run
from trajpipe.testing import write_recording
from trajpipe.testing.hub_server import WRITE_TOKEN
from trajpipe_tests.hub.hubs import REPO, Hub, OwnHub, contents, environment

REPOSITORY = Path(__file__).resolve().parents[2]
CATALOGUE = """
version: 1
datasets:
  lift:
    description: A cube is lifted.
    license: apache-2.0
    task: lift the cube
    hub: {repo: org/lift}
    raw:
      - {kind: isaaclab, glob: raw/day*/scripted_*.hdf5, tag: scripted, conventions: {fps: 20}}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a dataset of two recordings, all stages built."""
    root = tmp_path_factory.mktemp("built") / "data"
    for n in range(2):
        write_recording(
            "isaaclab",
            root / f"raw/day{n}/scripted_{n}.hdf5",
            episodes=2,
            rows=(12, 16),
            seed=n,
            image_size=64,
            cameras=("table_cam",),
        )
    (root / "datasets.yaml").write_text(CATALOGUE, encoding="utf-8")
    assert run(Project.open(root / "datasets.yaml")).ok
    return root


@pytest.fixture
def data(built: Path, tmp_path: Path) -> Path:
    """The data folder, a copy for each test."""
    shutil.copytree(built, tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture(autouse=True)
def login(own: OwnHub, monkeypatch: pytest.MonkeyPatch, online: None) -> None:
    """The environment as a user sets it."""
    monkeypatch.setenv("HF_ENDPOINT", own.url)
    monkeypatch.setenv("HF_TOKEN", WRITE_TOKEN)


def test_a_dataset_is_published_with_its_recipe_and_card(own: OwnHub, data: Path, tmp_path: Path) -> None:
    project = Project.open(data / "datasets.yaml")
    result = push_dataset(project, "lift")
    assert result.tags == (result.tag, "v2.1")
    assert push_dataset(project, "lift").unchanged
    out = pull(REPO, tmp_path / "out").path
    assert (out / "stores/lift.h5").read_bytes() == (data / "stores/lift.h5").read_bytes()
    lerobot = data / "lerobot/lift"
    for path in (p for p in lerobot.rglob("*") if p.is_file()):
        assert (out / path.relative_to(lerobot)).read_bytes() == path.read_bytes()
    manifest = read_manifest(out)
    assert manifest.license == "apache-2.0"
    assert [i["path"] for i in manifest.recipe["inputs"]] == ["day0/scripted_0.hdf5", "day1/scripted_1.hdf5"]
    assert {s["stage"] for s in manifest.recipe["stages"]} == {"demos", "store", "lerobot"}
    card = (out / "README.md").read_text()
    assert "| scripted_0.hdf5 | isaaclab, scripted | 2 | 2 | 0 |" in card
    assert "store-equals-l2" in card
    assert (out / "assets/contact_sheet.png").read_bytes().startswith(b"\x89PNG")
    if (data / "lerobot/lift.certificate.json").is_file():  # the export's own stage writes it
        assert json.loads((out / "certificate.json").read_text())["passed"] is True
    assert str(tmp_path) not in (out / "trajpipe.json").read_text() + card


def test_the_same_bytes_are_rebuilt_from_the_recipe(own: OwnHub, data: Path, tmp_path: Path) -> None:
    push_dataset(Project.open(data / "datasets.yaml"), "lift")
    out = pull(REPO, tmp_path / "out").path
    (tmp_path / "elsewhere").mkdir()
    for path in sorted((data / "raw").rglob("*.hdf5")):
        shutil.copy(path, tmp_path / "elsewhere")
    made = rebuild(read_manifest(out), [tmp_path / "elsewhere"], tmp_path / "again")
    assert made.same
    assert made.versions == {}
    ours = {
        p: d for p, d in contents(out).items() if p.partition("/")[0] not in ("assets", "certificate.json")
    }
    assert contents(tmp_path / "again") == ours
    (tmp_path / "elsewhere/scripted_1.hdf5").unlink()
    with pytest.raises(InputError, match=r"1 of 2 raw inputs.*day1/scripted_1"):
        rebuild(read_manifest(out), [tmp_path / "elsewhere"], tmp_path / "third")


def test_a_rebuild_that_differs_writes_nothing(own: OwnHub, data: Path, tmp_path: Path) -> None:
    push_dataset(Project.open(data / "datasets.yaml"), "lift")
    manifest = read_manifest(pull(REPO, tmp_path / "out").path)
    recipe = json.loads(json.dumps(manifest.recipe))
    recipe["dataset"]["task"] = "another task"
    recipe["packages"]["numpy"] = "1.0"
    made = rebuild(Manifest(manifest.entries, "lift", None, recipe), [data / "raw"], tmp_path / "again")
    assert not made.same
    assert "stores/lift.h5" in made.different
    assert made.versions["numpy"][0] == "1.0"
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize("glob", ["../*.hdf5", "/etc/*", "raw/lift/../../x"])
def test_a_recipe_that_reaches_out_is_refused(data: Path, tmp_path: Path, glob: str) -> None:
    recipe: dict[str, Any] = {"dataset": {"raw": [{"glob": glob}]}, "inputs": []}
    with pytest.raises(UntrustedError):
        rebuild(Manifest((), "lift", None, recipe), [data], tmp_path / "x")
    recipe = {"dataset": {"raw": []}, "inputs": [{"path": "../x", "sha256": "a", "role": "recording"}]}
    with pytest.raises(UntrustedError):
        rebuild(Manifest((), "lift", None, recipe), [data], tmp_path / "x")
    with pytest.raises(InputError, match="how to make it"):
        rebuild(Manifest((), "lift"), [data], tmp_path / "x")


def test_what_is_not_ready_is_not_published(own: OwnHub, data: Path) -> None:
    project = Project.open(data / "datasets.yaml")
    with (data / "stores/lift.h5").open("r+b") as handle:
        handle.seek(2000)
        handle.write(b"x")
    with pytest.raises(StateError, match="store of lift is not ready"):
        push_dataset(project, "lift")
    shutil.rmtree(data / "lerobot/lift")
    with pytest.raises(StateError):
        push_dataset(Project.open(data / "datasets.yaml"), "lift")
    assert own.server.shelf.repos == {}


def test_paths_are_published_by_what_they_hold(own: OwnHub, data: Path, tmp_path: Path) -> None:
    demos = min((data / "demos").glob("*.hdf5"))
    for path, expected in (
        (data / "stores/lift.h5", "stores/lift.h5"),
        (demos, f"demos/{demos.name}"),
        (data / "lerobot/lift", "meta/info.json"),
    ):
        publication = publication_of_path(path, REPO, "mit")
        assert expected in publication.files
        assert publication.card is not None
        assert publication.card.episodes == (0 if path == demos else 4)
    for wrong in (data / "datasets.yaml", data / "nothing.h5", data / "raw/day0/absent"):
        with pytest.raises(InputError):
            publication_of_path(wrong, REPO)
    text = CATALOGUE.replace("    hub: {repo: org/lift}\n", "")
    (data / "datasets.yaml").write_text(text)
    project = Project.open(data / "datasets.yaml")
    with pytest.raises(UsageError, match="no repository"):
        push_dataset(project, "lift")


def test_lerobot_reads_what_was_pulled_offline(
    hub: Hub,
    data: Path,
    tmp_path: Path,
    run_reader: Callable[..., dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    push_dataset(Project.open(data / "datasets.yaml"), "lift")
    out = pull(REPO, tmp_path / "out").path
    theirs = run_reader("lerobot-0.3.3", out)
    ours = run_reader("lerobot-0.3.3", data / "lerobot/lift")
    assert theirs["frames"] == ours["frames"]


def test_raw_recordings_come_from_the_hub(own: OwnHub, data: Path, tmp_path: Path) -> None:
    raw = Repository("org/raw")
    raw.create(private=True)
    from huggingface_hub import CommitOperationAdd

    def add(name: str, path: Path) -> str:
        operation = CommitOperationAdd(f"teleop/{name}", path.read_bytes())
        return raw.commit([operation], parent=raw.state().commit, message=name)

    first = add("a.hdf5", data / "raw/day0/scripted_0.hdf5")
    raw.tag("v1", first)
    text = CATALOGUE.replace("glob: raw/day*/scripted_*.hdf5", 'hub: org/raw@v1, glob: "teleop/*.hdf5"')
    root = tmp_path / "new"
    root.mkdir()
    (root / "datasets.yaml").write_text(text)
    result = run(Project.open(root / "datasets.yaml"))
    assert result.ok, [r.error for r in result.results]
    assert (root / "raw/lift/org__raw/teleop/a.hdf5").is_file()
    asked = len(own.asked())
    project = Project.open(root / "datasets.yaml")
    assert fetch_raw(project, "lift") == []  # a pinned revision is asked for once
    assert len(own.asked()) == asked
    assert revision_of(project, "lift") == {"org/raw": first}
    published = push_dataset(project, "lift")
    made = rebuild(read_manifest(pull(REPO, tmp_path / "out").path), [root / "raw"], tmp_path / "again")
    assert (made.same, made.tag) == (True, published.tag)

    (root / "datasets.yaml").write_text(text.replace("@v1", "@main"))
    with pytest.raises(UsageError, match="follow: true"):
        fetch_raw(Project.open(root / "datasets.yaml"), "lift")
    (root / "datasets.yaml").write_text(text.replace("@v1", "@main, follow: true"))
    second = add("b.hdf5", data / "raw/day1/scripted_1.hdf5")
    project = Project.open(root / "datasets.yaml")
    assert [r.commit for r in fetch_raw(project, "lift")] == [second]
    assert [r.key for r in project.recordings("lift")] == ["a", "b"]


def test_dagster_publishes_on_request(own: OwnHub, data: Path) -> None:
    defs = build_defs(catalogue=data / "datasets.yaml")
    job = defs.resolve_job_def("lift_push")
    with dg.DagsterInstance.ephemeral() as instance:
        done = job.execute_in_process(instance=instance)
        [event] = done.asset_materializations_for_node("lift__hub")
        metadata = {k: v.value for k, v in event.metadata.items()}
        assert (metadata["repo"], metadata["status"]) == (REPO, "published")
        assert str(metadata["tag"]) in own.server.shelf.repos[REPO].tags
        assert int(str(metadata["bytes moved"])) > 0
        again = job.execute_in_process(instance=instance)
        [event] = again.asset_materializations_for_node("lift__hub")
        assert event.metadata["bytes moved"].value == 0
        own.fault("status", "GET .*/revision/", status=403)
        failed = job.execute_in_process(instance=instance, raise_on_error=False)
        assert not failed.success
        logged = [str(r) for run in instance.get_runs() for r in instance.all_logs(run.run_id)]
        assert len(logged) > 20
        assert not [line for line in logged if WRITE_TOKEN in line]
    assert defs.get_assets_def(dg.AssetKey(["lift", "hub"])).automation_conditions_by_key == {}


def cli(own: OwnHub, folder: Path, *words: str) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "trajpipe", *words, "--json"],
        cwd=folder,
        env=environment(own, folder / "home"),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, json.loads(done.stdout)


def test_the_command_line_round_trip(own: OwnHub, data: Path, tmp_path: Path) -> None:
    code, plan = cli(own, tmp_path, "push", "lift", "--dry-run")
    assert (code, plan["dry_run"], own.server.shelf.repos) == (0, True, {})
    code, pushed = cli(own, tmp_path, "push", "lift", "--tag", "paper")
    assert (code, pushed["tags"][1:]) == (0, ["paper", "v2.1"])
    code, pulled = cli(own, tmp_path, "pull", "org/lift@paper", "out", "--only", "store,demos")
    assert (code, pulled["tag"]) == (0, pushed["tag"])
    assert cli(own, tmp_path, "verify", "out")[0] == 0
    (tmp_path / "out/stores/lift.h5").write_bytes(b"damage")
    code, checked = cli(own, tmp_path, "verify", "out")
    assert (code, checked["damaged"]) == (1, ["stores/lift.h5"])
    code, made = cli(own, tmp_path, "rebuild", "org/lift", "again", "--raw", "data/raw")
    assert (code, made["same"]) == (0, True)
    code, refused = cli(own, tmp_path, "pull", "org/absent")
    assert (code, refused["error"]["code"]) == (2, "hub-no-repository")


def test_the_example_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["round_trip.py"])
    runpy.run_path(str(REPOSITORY / "docs/examples/round_trip.py"), run_name="__main__")
    assert "every hash verified" in capsys.readouterr().out
