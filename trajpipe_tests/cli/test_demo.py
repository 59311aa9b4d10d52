"""`trajpipe demo`: the bundled sample through all stages, every check green, nothing built twice."""

import re
import shutil
from pathlib import Path

import pytest

from trajpipe.cli.verbs.demo_sample import bundled_catalogue
from trajpipe.testing.sample import sample_datasets
from trajpipe_tests.cli.conftest import CATALOGUE, ESCAPE, REPOSITORY, Command


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the sample's `data` gets built by the first test that runs."""
    return tmp_path_factory.mktemp("sample")


def test_the_bundled_catalogue_is_the_repositorys() -> None:
    assert bundled_catalogue() == (REPOSITORY / "data" / "datasets.yaml").read_text("utf-8")


def test_every_stage_of_every_dataset_is_built_and_green(trajpipe: Command, sample: Path) -> None:
    ran = trajpipe("demo", cwd=sample)
    assert ran.code == 0, ran.out + ran.err
    assert ESCAPE not in ran.out + ran.err
    names = sample_datasets()
    rows = [line.split() for line in ran.out.splitlines()]
    stages = [row[0] if row[0] not in names else row[1] for row in rows if {"raw", "built"} & set(row[:4])]
    assert stages.count("raw") == len(names)
    assert sum(line.count(" built ") for line in ran.out.splitlines()) == 3 * len(names)
    assert "failed" not in ran.out
    for name in names:
        assert (sample / "data" / "stores" / f"{name}.h5").is_file()
        assert (sample / "data" / "lerobot" / name / "meta" / "info.json").is_file()
    assert re.search(
        r"^read \d+ · written \d+ · rejected \d+ \(1 nan-action, 1 not-successful, 1 too-short\) · ",
        ran.out,
        re.MULTILINE,
    )
    assert "Rejected episodes\n" in ran.out
    assert "legacy-quaternions" in ran.out


def test_the_next_commands_work_as_they_stand(trajpipe: Command, sample: Path) -> None:
    ran = trajpipe("demo", cwd=sample)
    assert ran.code == 0
    commands = [x.split()[1:] for x in ran.out.splitlines() if x.startswith("  trajpipe ")]
    assert [c[0] for c in commands] == ["list", "inspect", "check"]
    for command in commands:
        assert trajpipe(*command, cwd=sample).code == 0


def test_a_second_run_finds_everything_unchanged(invoke: Command, sample: Path) -> None:
    before = {p: p.stat().st_mtime_ns for p in sample.rglob("*") if p.is_file()}
    ran = invoke("demo", "--json", cwd=sample)
    assert ran.code == 0
    value = ran.json
    assert value["ok"] is True
    assert {r["status"] for r in value["results"]} == {"unchanged"}
    assert {r["status"] for r in value["stages"]} == {"there", "unchanged"}
    assert all(r["checks"] > 0 and r["checks_failed"] == 0 for r in value["stages"] if r["stage"] != "raw")
    warned = sum(
        any(severity == "warn" for _, severity, _, number in check["counts"] if number)
        for result in value["results"]
        for check in result["checks"]["results"]
    )
    assert warned > 0
    assert sum(r["checks_warned"] for r in value["stages"] if r["stage"] != "raw") == warned
    told = re.findall(r"passed, (\d+) warned", invoke("demo", cwd=sample).out)
    assert sum(map(int, told)) == warned
    assert "unchanged: nothing was built" in invoke("demo", cwd=sample).out
    assert {p: p.stat().st_mtime_ns for p in sample.rglob("*") if p.is_file()} == before


def test_check_passes_on_the_whole_data_folder(invoke: Command, sample: Path) -> None:
    for folder in ("demos", "stores", "lerobot"):
        assert invoke("check", f"data/{folder}", cwd=sample).code == 0


def test_an_absent_recording_is_written_again_with_the_same_bytes(invoke: Command, sample: Path) -> None:
    path = sample / "data/raw/robosuite_raw/stack_demo.hdf5"
    before = path.read_bytes()
    path.unlink()
    value = invoke("demo", "--json", cwd=sample).json
    assert path.read_bytes() == before
    assert {r["status"] for r in value["results"]} == {"unchanged"}


def test_another_root_is_named_in_the_next_commands(invoke: Command, sample: Path, tmp_path: Path) -> None:
    shutil.copytree(sample / "data", tmp_path / "elsewhere")
    ran = invoke("demo", "--root", tmp_path / "elsewhere")
    assert ran.code == 0
    assert "  trajpipe list --root elsewhere" in ran.out


def test_a_catalogue_of_somebody_else_is_left_alone(invoke: Command, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "datasets.yaml").write_text(CATALOGUE)
    ran = invoke("demo")
    assert (ran.code, ran.out) == (2, "")
    assert "this catalogue has none of the sample's datasets" in ran.err
    assert "--root DIR" in ran.err
    assert [p.name for p in (tmp_path / "data").iterdir()] == ["datasets.yaml"]


def test_own_datasets_beside_the_sample_are_not_run(invoke: Command, sample: Path) -> None:
    catalogue = sample / "data" / "datasets.yaml"
    text = catalogue.read_text()
    catalogue.write_text(text + "\n  mine:\n    raw: [{kind: isaaclab, glob: raw/mine/*.hdf5}]\n")
    value = invoke("demo", "--json", cwd=sample).json
    catalogue.write_text(text)
    assert "mine" not in {r["dataset"] for r in value["results"]}
    assert value["ok"] is True
