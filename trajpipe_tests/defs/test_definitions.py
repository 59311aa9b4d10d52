"""The shape of the definitions: keys, groups, dependencies, partitions, checks, jobs; and how they load.

`snapshot.json` holds the whole shape; `TRAJPIPE_SNAPSHOT=1 pytest trajpipe_tests/defs` writes it anew.
What is not here: runs.
"""

import difflib
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from trajpipe.checks.registry import checks_of
from trajpipe.core.errors import CatalogueError
from trajpipe.core.names import Stage
from trajpipe.defs import build_defs
from trajpipe.defs.checks import check_name
from trajpipe.defs.partitions import asset_key
from trajpipe_tests.conftest import REPOSITORY

SNAPSHOT = Path(__file__).with_name("snapshot.json")
CATALOGUE = """
version: 1
datasets:
  lift:
    description: A cube is lifted.
    license: apache-2.0
    owners: ["team:data", "jo@example.org"]
    raw:
      - {kind: isaaclab, glob: raw/scripted_*.hdf5, tag: scripted}
      - {kind: robomimic, glob: [raw/teleop_*.hdf5, raw/old/*.hdf5], tag: teleop}
  stack:
    raw: [{glob: raw/stack/*.hdf5}]
    schedule: {cron: "0 3 * * *", timezone: Europe/Berlin, enabled: true}
"""


@pytest.fixture
def defs(tmp_path: Path) -> dg.Definitions:
    """Definitions of two datasets without recordings."""
    path = tmp_path / "datasets.yaml"
    path.write_text(CATALOGUE, encoding="utf-8")
    return build_defs(catalogue=path)


def _shape(defs: dg.Definitions) -> dict[str, Any]:
    graph = defs.resolve_asset_graph()
    assets = {}
    for key in sorted(graph.get_all_asset_keys()):
        node = graph.get(key)
        partitions = node.partitions_def
        assets[key.to_user_string()] = {
            "group": node.group_name,
            "deps": sorted(parent.to_user_string() for parent in node.parent_keys),
            "kinds": sorted(node.kinds),
            "owners": sorted(node.owners),
            "code_version": node.code_version,
            "partitions": partitions.name if isinstance(partitions, dg.DynamicPartitionsDefinition) else None,
            "external": node.is_external,
            "checks": [
                check.name + (" (blocking)" if graph.get_check_spec(check).blocking else "")
                for check in sorted(node.check_keys, key=lambda c: c.name)
            ],
        }
    repository = defs.get_repository_def()
    return {
        "assets": assets,
        "jobs": sorted(job.name for job in repository.get_all_jobs() if not job.name.startswith("__")),
        "schedules": {s.name: s.default_status.value for s in _by_name(repository.schedule_defs)},
        "sensors": {sensor.name: sensor.default_status.value for sensor in _by_name(repository.sensor_defs)},
        "resources": sorted(repository.get_top_level_resources()),
    }


def _by_name(found: Iterable[Any]) -> list[Any]:
    return sorted(found, key=lambda one: str(one.name))


def test_the_shape_is_the_recorded_one(defs: dg.Definitions) -> None:
    shape = _shape(defs)
    if os.environ.get("TRAJPIPE_SNAPSHOT") == "1":
        SNAPSHOT.write_text(json.dumps(shape, indent=2) + "\n", encoding="utf-8")
    now = json.dumps(shape, indent=2).splitlines()
    changes = difflib.unified_diff(SNAPSHOT.read_text(encoding="utf-8").splitlines(), now, lineterm="", n=2)
    assert "\n".join(changes) == "", "run TRAJPIPE_SNAPSHOT=1 pytest trajpipe_tests/defs when this is meant"


def test_each_dataset_is_a_chain_of_four(defs: dg.Definitions) -> None:
    graph = defs.resolve_asset_graph()
    for name in ("lift", "stack"):
        keys = [asset_key(name, stage) for stage in Stage]
        assert [graph.get(key).parent_keys for key in keys] == [set(), *({key} for key in keys[:-1])]
        assert {graph.get(key).group_name for key in keys} == {name}


@pytest.mark.parametrize("stage", [Stage.DEMOS, Stage.STORE, Stage.LEROBOT])
def test_every_registered_rule_is_a_check_that_blocks_as_registered(
    defs: dg.Definitions, stage: Stage
) -> None:
    graph = defs.resolve_asset_graph()
    checks = {key.name: graph.get_check_spec(key) for key in graph.get(asset_key("lift", stage)).check_keys}
    rules = {check_name(rule.code): rule for rule in checks_of(stage)}
    assert rules
    assert checks.keys() == rules.keys() | {"stage_builds", "source_findings"}
    for name, rule in rules.items():
        assert (checks[name].blocking, checks[name].description) == (rule.blocking, rule.title)


def test_checks_of_demos_are_partitioned_like_the_asset(defs: dg.Definitions) -> None:
    graph = defs.resolve_asset_graph()
    for key in graph.get(asset_key("lift", Stage.DEMOS)).check_keys:
        assert graph.get_check_spec(key).partitions_def == dg.DynamicPartitionsDefinition(
            name="lift_recordings"
        )


def test_one_op_makes_an_asset_and_its_checks(defs: dg.Definitions) -> None:
    job = defs.resolve_job_def("lift_build")
    assert sorted(node.name for node in job.nodes) == ["lift__lerobot", "lift__store"]


def test_the_executor_runs_in_process(defs: dg.Definitions) -> None:
    assert defs.executor is dg.in_process_executor


def test_raw_tells_what_it_holds(defs: dg.Definitions) -> None:
    node = defs.resolve_asset_graph().get(asset_key("lift", Stage.RAW))
    assert node.description is not None
    assert node.description.splitlines() == [
        "A cube is lifted.",
        "",
        "Recordings as they were made, one partition each; the job `scan_job` notices new and changed ones.",
        "",
        "| kind | files | tag |",
        "|---|---|---|",
        "| isaaclab | `raw/scripted_*.hdf5` | scripted |",
        "| robomimic | `raw/teleop_*.hdf5`<br>`raw/old/*.hdf5` | teleop |",
    ]
    assert node.metadata["license"] == "apache-2.0"


def test_overrides_replace_resources(tmp_path: Path) -> None:
    path = tmp_path / "datasets.yaml"
    path.write_text(CATALOGUE, encoding="utf-8")
    defs = build_defs({"project": "another", "extra": 1}, catalogue=path)
    assert defs.resources == {"project": "another", "extra": 1}


def test_an_invalid_catalogue_says_every_problem(tmp_path: Path) -> None:
    path = tmp_path / "datasets.yaml"
    path.write_text("version: 1\ndatasets: {lift: {raw: [{glob: a.h5, kindd: x}], tsk: y}}", encoding="utf-8")
    with pytest.raises(CatalogueError, match="the catalogue has 2 problems"):
        build_defs(catalogue=path)


def _dagster(command: list[str], project: Path, home: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {
        "TRAJPIPE_DATA": str(project),
        "DAGSTER_HOME": str(home),
        "DAGSTER_DISABLE_TELEMETRY": "yes",
        "PYTHONPATH": str(REPOSITORY),
    }
    return subprocess.run(
        [sys.executable, "-m", "dagster", *command, "-w", str(REPOSITORY / "workspace.yaml")],
        env=environment,
        cwd=project,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_workspace_validates(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/dagster.yaml").write_text("telemetry: {enabled: false}\n", encoding="utf-8")
    (tmp_path / "datasets.yaml").write_text(CATALOGUE, encoding="utf-8")
    good = _dagster(["definitions", "validate"], tmp_path, tmp_path / "home")
    assert good.returncode == 0, good.stderr
    assert "Validation successful for code location trajpipe" in good.stdout + good.stderr
    (tmp_path / "datasets.yaml").write_text("version: 3\ndatasets: {}", encoding="utf-8")
    bad = _dagster(["definitions", "validate"], tmp_path, tmp_path / "home")
    assert bad.returncode != 0
    assert "line 1 · version: the value is not allowed; got 3" in bad.stdout + bad.stderr


def test_no_module_of_assets_postpones_annotations() -> None:
    """Dagster reads annotations when a function is decorated: postponed ones fail there."""
    modules = [*(REPOSITORY / "trajpipe/defs").glob("*.py"), REPOSITORY / "trajpipe/definitions.py"]
    assert len(modules) > 8
    bad = [m.name for m in modules if "\nfrom __future__ import annotations" in m.read_text(encoding="utf-8")]
    assert bad == []


def test_the_locations_name_is_the_same_everywhere() -> None:
    workspace = (REPOSITORY / "workspace.yaml").read_text(encoding="utf-8")
    project = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    assert "module_name: trajpipe.definitions" in workspace
    assert "location_name: trajpipe" in workspace
    assert 'module_name = "trajpipe.definitions"' in project
    assert 'code_location_name = "trajpipe"' in project
