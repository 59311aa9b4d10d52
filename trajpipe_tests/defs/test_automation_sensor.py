"""The sensor that evaluates the automation: what its ticks ask for, what they cost, what breaks them not.

What is not here: when a stage is asked for, see `test_automation`.
"""

import logging
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.automation_condition_sensor_definition import MAX_ENTITIES

from trajpipe.defs import automation, build_defs
from trajpipe.defs.automation import MOST_ASSETS, SENSOR
from trajpipe.defs.resources import ProjectResource
from trajpipe.pipeline.project import Project
from trajpipe.testing import write_recording
from trajpipe_tests.defs.conftest import QUIET

CATALOGUE = """
version: 1
datasets:
"""
DATASET = """
  {name}:
    task: do it
    raw:
      - {{kind: isaaclab, glob: raw/{name}/*.hdf5, tag: scripted, conventions: {{fps: 20}}}}
"""
OPENED: list[str] = []


class Counted(ProjectResource):
    """Notes each time that it is opened."""

    def open(self) -> Project:
        """The project."""
        OPENED.append(self.catalogue)
        return super().open()


def write_catalogue(root: Path, *names: str) -> Path:
    """A catalogue of these datasets."""
    path = root / "datasets.yaml"
    path.write_text(CATALOGUE + "".join(DATASET.format(name=name) for name in names), encoding="utf-8")
    return path


class Sensor:
    """The sensor over two datasets of one recording each, and what it asks to be run."""

    def __init__(self, root: Path, instance: dg.DagsterInstance) -> None:
        self.root, self.instance, self.cursor = root, instance, ""
        self.requests: list[dg.RunRequest] = []
        for seed, name in enumerate(("lift", "stack")):
            self.record(name, "one", seed)
        catalogue = write_catalogue(root, "lift", "stack")
        self.defs = build_defs({"project": Counted(catalogue=str(catalogue))}, catalogue=catalogue)
        self.run("scan_job")

    def record(self, name: str, key: str, seed: int) -> None:
        """A recording of a dataset."""
        path = self.root / f"raw/{name}/{key}.hdf5"
        write_recording("isaaclab", path, seed=seed, episodes=1, rows=(4, 6), cameras=())

    def run(self, job: str, partition: str | None = None) -> None:
        """A run of a job, which succeeds."""
        done = self.defs.resolve_job_def(job).execute_in_process(
            instance=self.instance, partition_key=partition, run_config=QUIET, raise_on_error=False
        )
        assert done.success

    def tick(self) -> list[str]:
        """Assets that one tick asks for."""
        repository = self.defs.get_repository_def()
        with dg.build_sensor_context(
            self.instance, cursor=self.cursor or None, repository_def=repository
        ) as context:
            done = repository.get_sensor_def(SENSOR).evaluate_tick(context)
        self.cursor, self.requests = done.cursor or "", list(done.run_requests or ())
        return sorted(key.to_user_string() for r in self.requests for key in r.asset_selection or ())

    def does(self) -> None:
        """Run what the last tick asked for, as the daemon does."""
        for request in self.requests:
            job = self.defs.get_repository_def().get_job(request.job_name or "")
            selection: Any = {"asset_selection": request.asset_selection}
            assert job.execute_in_process(instance=self.instance, tags=request.tags, **selection).success


@pytest.fixture
def sensor(tmp_path: Path) -> Any:
    """The sensor on an instance with files: one in memory has no address to open."""
    OPENED.clear()
    (tmp_path / "instance").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "instance")) as instance:
        yield Sensor(tmp_path / "data", instance)


def test_what_it_asks_for_brings_all_checks_and_says_who_asked(sensor: Sensor) -> None:
    sensor.run("lift_demos", "one")
    assert sensor.tick() == ["lift/store"]
    (request,) = sensor.requests
    graph = sensor.defs.resolve_asset_graph()
    assert set(request.asset_check_keys or ()) == set(graph.get(dg.AssetKey(["lift", "store"])).check_keys)
    assert request.tags["dagster/sensor_name"] == SENSOR
    sensor.does()
    assert sensor.tick() == ["lift/lerobot"]
    sensor.does()
    assert sensor.tick() == []
    assert (sensor.root / "lerobot/lift/meta/info.json").is_file()


def test_what_lands_while_it_is_switched_off_is_asked_for_once(sensor: Sensor) -> None:
    sensor.run("lift_demos", "one")
    assert sensor.tick() == ["lift/store"]
    sensor.does()
    sensor.record("lift", "two", 7)
    sensor.run("scan_job")
    for key in ("one", "two"):  # the first one's L2 file gets another name
        sensor.run("lift_demos", key)
    kept = sensor.cursor
    assert sensor.tick() == ["lift/store"]
    assert sensor.cursor != kept
    sensor.requests.clear()  # the request came to nothing: its run was cancelled, say
    assert sensor.tick() == []


def test_a_tick_without_events_does_not_look_at_the_disk(sensor: Sensor) -> None:
    OPENED.clear()
    assert sensor.tick() == []
    assert OPENED == []
    sensor.run("lift_demos", "one")
    OPENED.clear()
    assert sensor.tick() == ["lift/store"]
    assert len(OPENED) == 1  # the other dataset had no event, and the export's turn has not come
    for _ in range(3):
        assert sensor.tick() == []
    assert len(OPENED) == 1


def test_a_dataset_that_cannot_be_looked_at_stops_no_other_and_is_looked_at_again(
    sensor: Sensor, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("lift", "stack"):
        sensor.run(f"{name}_demos", "one")
    write_catalogue(sensor.root, "stack")
    with caplog.at_level(logging.WARNING):
        assert sensor.tick() == ["stack/store"]
    assert "lift/store: not asked for" in caplog.text
    write_catalogue(sensor.root, "lift", "stack")
    assert sensor.tick() == ["lift/store"]  # without another event


def test_a_catalogue_that_breaks_asks_for_nothing_until_it_is_repaired(sensor: Sensor) -> None:
    sensor.run("lift_demos", "one")
    (sensor.root / "datasets.yaml").write_text("version: [")
    assert sensor.tick() == []
    write_catalogue(sensor.root, "lift", "stack")
    assert sensor.tick() == ["lift/store"]


def test_a_tick_that_took_its_time_leaves_the_rest_to_the_next(
    sensor: Sensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    sensor.run("lift_demos", "one")
    monkeypatch.setattr(automation, "LOOKING_S", -1.0)
    assert sensor.tick() == []
    monkeypatch.undo()
    assert sensor.tick() == ["lift/store"]


@pytest.mark.parametrize("cursor", [None, "", "no JSON", "[]", '"text"', "3"])
def test_a_cursor_of_another_kind_is_none(cursor: str | None) -> None:
    assert automation._Looked.of(cursor) == automation._Looked()


def test_a_cursor_is_read_as_it_was_written() -> None:
    looked = automation._Looked({"demos": 12, "store": 17}, "abc")
    assert automation._Looked.of(looked.to_text()) == looked


# --- many datasets ---


def _targets(defs: dg.Definitions) -> dict[str, set[str]]:
    """Sensor → the stages that it evaluates, for those that evaluate conditions."""
    graph, found = defs.resolve_asset_graph(), {}
    for sensor in defs.get_repository_def().sensor_defs:
        if isinstance(sensor, dg.AutomationConditionSensorDefinition):
            assert not sensor.asset_selection.resolve_checks(graph)
            found[sensor.name] = {key.to_user_string() for key in sensor.asset_selection.resolve(graph)}
    return found


def test_more_datasets_than_one_sensor_may_have_get_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MOST_ASSETS <= MAX_ENTITIES
    monkeypatch.setattr(automation, "MOST_ASSETS", 4)
    expected = {
        "automation": {"a/store", "a/lerobot", "b/store", "b/lerobot"},
        "automation_2": {"c/store", "c/lerobot", "d/store", "d/lerobot"},
        "automation_3": {"e/store", "e/lerobot"},
    }
    assert _targets(build_defs(catalogue=write_catalogue(tmp_path, *"abcde"))) == expected
    del expected["automation_3"]
    assert _targets(build_defs(catalogue=write_catalogue(tmp_path, *"abcd"))) == expected


def test_no_condition_is_left_to_a_sensor_of_dagsters_own(tmp_path: Path) -> None:
    defs = build_defs(catalogue=write_catalogue(tmp_path, "lift"))
    graph = defs.resolve_asset_graph()
    conditioned = {k for k in graph.get_all_asset_keys() if graph.get(k).automation_condition is not None}
    assert {key.to_user_string() for key in conditioned} == _targets(defs)[SENSOR]
    assert {s.name for s in defs.get_repository_def().sensor_defs} == {"lift_folder", SENSOR, "run_failures"}
