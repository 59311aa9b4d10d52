"""What a page of an asset shows beside counts: pictures, where columns come from, files, how to get a report.

What is not here: how the UI shows it, see the browser tests; what is drawn, see `trajpipe_tests.report`.
"""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from trajpipe.core.names import Stage
from trajpipe.defs.metadata import stage_metadata
from trajpipe.defs.partitions import asset_key
from trajpipe.defs.pictures import PICTURES, earlier_pictures, picture_metadata
from trajpipe.pipeline.lineage import lerobot_lineage, store_lineage
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.results import StageResult, Status
from trajpipe.pipeline.run import run
from trajpipe.testing import write_recording
from trajpipe_tests.defs.conftest import Built, Runner

STAGES = (Stage.DEMOS, Stage.STORE, Stage.LEROBOT)


def shown(runner: Runner, stage: Stage, partition: str = "") -> dict[str, Any]:
    """Metadata of the last materialization."""
    records = dg.AssetRecordsFilter(
        asset_key=asset_key("lift", stage), asset_partitions=[partition] if partition else None
    )
    (record,) = runner.instance.fetch_materializations(records, limit=1).records
    assert record.asset_materialization is not None
    return {name: value.value for name, value in record.asset_materialization.metadata.items()}


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_shows_pictures_of_its_own(built: Built, stage: Stage) -> None:
    partition = "scripted_0" if stage is Stage.DEMOS else ""
    text = shown(built.runner, stage, partition)[PICTURES]
    for heading in (
        "Rejection funnel",
        "Episode lengths",
        "Contact sheet",
        "Action distribution",
        "Joint plots",
    ):
        assert text.count(f"## {heading}\n\n![{heading.lower()}](data:image/") == 1
    assert len(text) < 4 * 30_000 * 7 / 3
    episodes = 2 if stage is Stage.DEMOS else 4
    assert f"{episodes} of {episodes} episodes" in text


def test_the_files_beside_an_output_and_its_report_are_named(built: Built) -> None:
    metadata = shown(built.runner, Stage.STORE)
    path = built.runner.root / "stores/lift.h5"
    assert metadata["report"] == f"`trajpipe report {path}`"
    for name in ("recipe", "ledger", "checks"):
        assert metadata[f"{name} file"] == f"{path}.{name}.json"
        assert Path(metadata[f"{name} file"]).is_file()


def test_columns_say_which_of_l2_they_are_made_of(built: Built) -> None:
    demos = asset_key("lift", Stage.DEMOS)
    columns = set()
    for column in shown(built.runner, Stage.DEMOS, "scripted_0")["dagster/column_schema"].columns:
        columns.add(column.name)
    for stage, name, sources in (
        (Stage.STORE, "images", ["obs/table_cam"]),
        (Stage.STORE, "action", ["actions"]),
        (Stage.LEROBOT, "observation.images.table_cam", ["obs/table_cam"]),
        (Stage.LEROBOT, "action", ["actions"]),
    ):
        metadata = shown(built.runner, stage)
        lineage = metadata["dagster/column_lineage"].deps_by_column
        assert lineage[name] == [dg.TableColumnDep(demos, source) for source in sources]
        described = {c.name: c.description for c in metadata["dagster/column_schema"].columns}
        assert described[name] == f"from {', '.join(sources)}"
        assert {d.column_name for deps in lineage.values() for d in deps} <= columns
    state = shown(built.runner, Stage.LEROBOT)["dagster/column_lineage"].deps_by_column["observation.state"]
    assert dg.TableColumnDep(demos, "obs/joint_pos") in state
    assert "dagster/column_lineage" not in shown(built.runner, Stage.DEMOS, "scripted_0")


def test_an_unchanged_output_keeps_the_pictures_that_were_drawn(runner: Runner) -> None:
    runner.run("scan_job")
    assert runner.run("lift_demos", "scripted_0").success
    first = shown(runner, Stage.DEMOS, "scripted_0")
    assert runner.run("lift_demos", "scripted_0").success
    second = shown(runner, Stage.DEMOS, "scripted_0")
    assert (first["status"], second["status"]) == ("built", "unchanged")
    assert second[PICTURES] == first[PICTURES]


def test_pictures_are_taken_over_for_the_same_content_of_the_same_partition_only(runner: Runner) -> None:
    key = asset_key("lift", Stage.DEMOS)
    runner.run("scan_job")
    runner.run("lift_demos", "scripted_0")
    made = runner.instance.get_latest_data_version_record(key)
    assert made is not None
    assert made.asset_materialization is not None
    version = (made.asset_materialization.tags or {})["dagster/data_version"]
    result = StageResult("lift", Stage.DEMOS, "scripted_0", Path("x"), Status.UNCHANGED, data_version=version)

    def found(partition: str, **changes: Any) -> bool:
        return bool(earlier_pictures(runner.instance, key, partition, replace(result, **changes)))

    assert found("scripted_0")
    assert not found("scripted_1")
    assert not found("scripted_0", data_version="another")
    assert not found("scripted_0", status=Status.BUILT)


def test_an_output_that_cannot_be_read_says_so_instead(tmp_path: Path) -> None:
    (tmp_path / "o.hdf5").write_bytes(b"not HDF5")
    result = StageResult("lift", Stage.DEMOS, "a", tmp_path / "o.hdf5", Status.BUILT)
    (only,) = picture_metadata(result).values()
    assert only.value.startswith("not drawn: ")
    assert "o.hdf5" in only.value
    assert stage_metadata(result)["path"].value == str(tmp_path / "o.hdf5")


def test_lineage_of_a_suites_store_and_of_names_that_tell_no_term(tmp_path: Path) -> None:
    root = tmp_path / "data"
    write_recording("libero", root / "raw/put_the_bowl_on_the_plate_demo.hdf5", episodes=1, rows=(8, 8))
    (root / "datasets.yaml").write_text(
        "version: 1\ndatasets:\n  bowls:\n    raw: [{kind: libero, glob: raw/*_demo.hdf5}]\n"
        "    store: {suite: libero_goal}\n    export:\n      robot_type: panda\n      state: [joint_states]\n"
        "      names: {joint_states: [a, b, c, d, e, f, g]}\n"
    )
    project = Project.open(root / "datasets.yaml")
    assert run(project, ["bowls"]).ok
    found = store_lineage(project.store_plans("bowls")[0], project.store_path("bowls"))
    assert found["action"] == ["actions"]
    assert found["joint_states"] == ["obs/joint_states"]
    folder = project.lerobot_path("bowls")
    assert lerobot_lineage(folder)["observation.state"] == ["obs/joint_states"]
    moved = shutil.copytree(folder, tmp_path / "moved")  # without its recipe: the names alone
    assert lerobot_lineage(moved)["observation.state"] == []
