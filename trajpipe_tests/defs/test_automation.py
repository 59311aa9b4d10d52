"""What runs by itself downstream, evaluated on a real instance as the daemon does; and the schedules.

What is not here: ingesting, see `test_sensors`.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.events import AssetMaterializationPlannedData, DagsterEvent
from dagster._core.test_utils import create_run_for_test

from trajpipe.checks import registry
from trajpipe.checks.registry import Check, Subject
from trajpipe.core.findings import Finding, Severity
from trajpipe.core.names import Stage
from trajpipe.defs import build_defs
from trajpipe.defs.resources import ProjectResource
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.run import RunOptions, run
from trajpipe.testing import write_recording
from trajpipe_tests.defs.conftest import BROKEN, CATALOGUE, GOOD, Runner

DEMOS, STORE, LEROBOT = (dg.AssetKey(["lift", stage]) for stage in ("demos", "store", "lerobot"))


LEAN: dict[str, Any] = {"episodes": 1, "rows": (4, 6), "cameras": ()}


@pytest.fixture
def catalogue(tmp_path: Path) -> Path:
    """The project's catalogue over recordings without pictures: what is built here is not looked at."""
    for number, key in enumerate(GOOD):
        write_recording("isaaclab", tmp_path / f"data/raw/{key}.hdf5", seed=number, **LEAN)
    (tmp_path / f"data/raw/{BROKEN}.hdf5").write_bytes(b"this is not HDF5")
    (tmp_path / "data/datasets.yaml").write_text(CATALOGUE)
    return tmp_path / "data/datasets.yaml"


class Automation:
    """Evaluates all automation conditions tick by tick."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.cursor: Any = None

    def tick(self) -> set[str]:
        """Stages that one evaluation asks for."""
        result = dg.evaluate_automation_conditions(self.runner.defs, self.runner.instance, cursor=self.cursor)
        self.cursor = result.cursor
        return {key.path[1] for key in (DEMOS, STORE, LEROBOT) if result.get_num_requested(key)}

    def build(self, stage: str, tags: dict[str, str] | None = None) -> bool:
        """Materialize the store or the export alone, as a request does; `tags` say who asked."""
        job = self.runner.defs.resolve_implicit_global_asset_job_def()
        key = dg.AssetKey(["lift", stage])
        return job.execute_in_process(
            instance=self.runner.instance, asset_selection=[key], raise_on_error=False, tags=tags
        ).success


@pytest.fixture
def automation(runner: Runner) -> Automation:
    """Automation over the project, its partitions known."""
    runner.run("scan_job")
    return Automation(runner)


@pytest.fixture
def failing_store() -> Iterator[list[Severity]]:
    """A blocking rule of stores that finds what the list holds."""
    found: list[Severity] = []

    def rule(subject: Subject) -> list[Finding]:
        return [Finding("as-told", severity, "as told") for severity in found]

    registry._REGISTRY[("store", "as-told")] = Check("as-told", "store", "As told", rule, blocking=True)
    yield found
    del registry._REGISTRY[("store", "as-told")]


def test_new_l2_builds_the_store_then_the_export_although_one_recording_is_broken(
    automation: Automation,
) -> None:
    assert automation.tick() == set()
    for key in (*GOOD, BROKEN):
        automation.runner.run("lift_demos", key)
    assert automation.tick() == {"store"}
    assert automation.build("store")
    assert automation.tick() == {"lerobot"}
    assert automation.build("lerobot")
    assert automation.tick() == set()


def test_an_unchanged_data_version_asks_for_nothing(automation: Automation) -> None:
    for key in GOOD:
        automation.runner.run("lift_demos", key)
    automation.tick()
    assert automation.build("store")
    automation.tick()
    assert automation.build("lerobot")
    automation.tick()
    assert automation.runner.run("lift_demos", GOOD[0]).success  # unchanged, skipped
    assert automation.runner.run("lift_demos", GOOD[1], force=True).success  # the same bytes
    assert automation.tick() == set()
    path = automation.runner.root / f"raw/{GOOD[1]}.hdf5"
    write_recording(
        "isaaclab", path, episodes=2, rows=(12, 16), seed=50, image_size=64, cameras=("table_cam",)
    )
    assert automation.runner.run("lift_demos", GOOD[1]).success
    assert automation.tick() == {"store"}


def test_a_failed_blocking_check_of_the_store_stops_the_export(
    automation: Automation, failing_store: list[Severity]
) -> None:
    runner = automation.runner = Runner(automation.runner.root / "datasets.yaml", automation.runner.instance)
    runner.run("lift_demos", GOOD[0])
    automation.tick()
    failing_store.append(Severity.ERROR)
    assert not automation.build("store")
    assert automation.tick() == set()
    failing_store.clear()
    assert automation.build("store")
    assert automation.tick() == {"lerobot"}


def _being_ingested(instance: dg.DagsterInstance, partition: str) -> dg.DagsterRun:
    """A run that goes on, and says that it will make the L2 file of a recording."""
    run: dg.DagsterRun = create_run_for_test(
        instance,
        job_name="lift_demos",
        tags={"dagster/partition": partition},
        status=dg.DagsterRunStatus.STARTED,
    )
    planned = AssetMaterializationPlannedData(DEMOS, partition=partition)
    event = DagsterEvent.build_asset_materialization_planned_event("lift_demos", "lift__demos", planned)
    instance.report_dagster_event(event, run.run_id)
    return run


def test_a_store_waits_while_a_recording_is_being_ingested(automation: Automation) -> None:
    instance = automation.runner.instance
    automation.runner.run("lift_demos", GOOD[0])
    run = _being_ingested(instance, GOOD[1])
    assert automation.tick() == set()
    instance.report_run_failed(run)
    assert automation.tick() == {"store"}


def test_an_export_waits_while_a_recording_is_being_ingested(automation: Automation) -> None:
    instance = automation.runner.instance
    automation.runner.run("lift_demos", GOOD[0])
    assert automation.tick() == {"store"}
    assert automation.build("store")
    run = _being_ingested(instance, GOOD[1])
    assert automation.tick() == set()
    instance.report_run_failed(run)
    assert automation.tick() == {"lerobot"}


@pytest.mark.parametrize("stage", ["store", "lerobot"])
def test_a_second_recording_that_lands_while_a_stage_is_queued_makes_it_wait(
    automation: Automation, stage: str
) -> None:
    runner = automation.runner
    raw = runner.root / "raw"
    (raw / f"{BROKEN}.hdf5").unlink()
    second = (raw / f"{GOOD[1]}.hdf5").rename(runner.root / "second.hdf5")
    assert runner.run("lift_demos", GOOD[0]).success
    assert automation.tick() == {"store"}
    assert automation.build("store")
    assert automation.tick() == {"lerobot"}
    second.rename(raw / f"{GOOD[1]}.hdf5")  # the first one's L2 file gets another name
    key = dg.AssetKey(["lift", stage])
    count = len(runner.instance.fetch_materializations(key, limit=9).records)
    assert automation.build(stage, {"dagster/from_automation_condition": "true"})
    assert len(runner.instance.fetch_materializations(key, limit=9).records) == count
    assert not automation.build(stage)  # by hand it says what is missing
    for one in GOOD:
        assert runner.run("lift_demos", one).success
    assert automation.tick() == {"store"}
    assert automation.build("store", {"dagster/from_automation_condition": "true"})
    assert automation.tick() == {"lerobot"}
    assert automation.build("lerobot", {"dagster/from_automation_condition": "true"})
    assert automation.tick() == set()


# --- what lands while nobody looks: state decides, so no event can be lost ---

Land = Callable[[], None]
Rule = Callable[[], None]


@pytest.fixture
def in_checks(automation: Automation) -> Iterator[dict[str, Rule]]:
    """Stage → what is called while its checks run: its build has read its inputs, and has not ended."""
    called: dict[str, Rule] = {}

    def rule(stage: str) -> Callable[[Subject], list[Finding]]:
        def look(subject: Subject) -> list[Finding]:
            called.get(stage, lambda: None)()
            return []

        return look

    for stage in ("store", "lerobot"):
        registry._REGISTRY[(stage, "calls")] = Check("calls", stage, "Calls", rule(stage), blocking=True)
    automation.runner = Runner(automation.runner.root / "datasets.yaml", automation.runner.instance)
    yield called
    for stage in ("store", "lerobot"):
        del registry._REGISTRY[(stage, "calls")]


def _up_to(automation: Automation, stage: str) -> Land:
    """Bring everything above a stage to what one recording gives; returns what gives it another input."""
    assert automation.runner.run("lift_demos", GOOD[0]).success
    if stage == "lerobot":
        assert automation.build("store")

    def land() -> None:
        assert automation.runner.run("lift_demos", GOOD[1]).success
        if stage == "lerobot":
            assert automation.build("store")

    return land


@pytest.mark.parametrize("stage", ["store", "lerobot"])
def test_what_landed_before_the_first_tick_is_built(automation: Automation, stage: str) -> None:
    _up_to(automation, stage)
    assert automation.tick() == {stage}
    assert automation.build(stage)
    assert automation.tick() == ({"lerobot"} if stage == "store" else set())


@pytest.mark.parametrize("stage", ["store", "lerobot"])
def test_what_lands_between_a_build_and_the_next_tick_is_built(automation: Automation, stage: str) -> None:
    automation.tick()
    land = _up_to(automation, stage)
    assert automation.tick() == {stage}
    assert automation.build(stage)
    land()
    assert automation.tick() == {stage}
    assert automation.build(stage)
    assert automation.tick() == ({"lerobot"} if stage == "store" else set())


@pytest.mark.parametrize("stage", ["store", "lerobot"])
@pytest.mark.parametrize("ticks_meanwhile", [False, True])
def test_what_lands_while_a_build_goes_on_is_built(
    automation: Automation, in_checks: dict[str, Rule], stage: str, ticks_meanwhile: bool
) -> None:
    automation.tick()
    land, asked = _up_to(automation, stage), [{"nothing landed"}]

    def meanwhile() -> None:
        in_checks.clear()
        land()
        asked.append(automation.tick() if ticks_meanwhile else set())

    assert automation.tick() == {stage}
    in_checks[stage] = meanwhile
    assert automation.build(stage)
    assert asked[-1] == set()  # it landed, and the stage is in the making
    assert automation.tick() == {stage}
    assert automation.build(stage)
    assert automation.tick() == ({"lerobot"} if stage == "store" else set())


@pytest.mark.parametrize("stage", ["store", "lerobot"])
def test_a_build_that_failed_is_asked_for_again_when_its_input_changed(
    automation: Automation, in_checks: dict[str, Rule], stage: str
) -> None:
    def fail() -> None:
        raise RuntimeError("as told")

    automation.tick()
    land = _up_to(automation, stage)
    in_checks[stage] = fail
    assert automation.tick() == {stage}
    assert not automation.build(stage)
    assert automation.tick() == set()
    assert automation.runner.run("lift_demos", GOOD[0], force=True).success  # an event, and the same bytes
    assert automation.tick() == set()
    land()
    assert automation.tick() == {stage}
    assert not automation.build(stage)
    in_checks.clear()
    assert automation.tick() == set()
    assert automation.build(stage)  # by hand
    assert automation.tick() == ({"lerobot"} if stage == "store" else set())


def test_a_dataset_without_l2_asks_for_nothing(automation: Automation) -> None:
    assert not automation.runner.run("lift_demos", BROKEN).success
    assert automation.tick() == set()
    (automation.runner.root / f"raw/{GOOD[0]}.hdf5").write_bytes(b"broken too")
    assert not automation.runner.run("lift_demos", GOOD[0]).success
    assert automation.tick() == set()


def test_an_output_that_was_lost_is_built_again_at_the_next_event(automation: Automation) -> None:
    assert automation.runner.run("lift_demos", GOOD[0]).success
    assert automation.tick() == {"store"}
    assert automation.build("store")
    assert automation.tick() == {"lerobot"}
    (automation.runner.root / "stores/lift.h5").unlink()
    assert automation.tick() == set()  # nobody said so
    assert automation.runner.run("lift_demos", GOOD[0]).success
    assert automation.tick() == {"store"}


def test_an_export_that_cannot_be_is_asked_for_once(automation: Automation) -> None:
    catalogue = automation.runner.root / "datasets.yaml"
    catalogue.write_text(CATALOGUE.replace("    raw:", "    export: {state: [no_such_term]}\n    raw:"))
    assert automation.runner.run("lift_demos", GOOD[0]).success
    assert automation.tick() == {"store"}
    assert automation.build("store")
    assert automation.tick() == {"lerobot"}  # its red run says what is wrong
    assert not automation.build("lerobot")
    assert automation.runner.run("lift_demos", GOOD[0]).success
    assert automation.tick() == set()


# --- schedules ---


def _schedule(catalogue: Path, instance: dg.DagsterInstance, name: str, hour: int = 3) -> list[Any]:
    """Run requests, or nothing, of one evaluation of a schedule."""
    defs = build_defs(catalogue=catalogue)
    with dg.build_schedule_context(
        instance,
        scheduled_execution_time=datetime(2026, 5, 1, hour, tzinfo=UTC),
        repository_def=defs.get_repository_def(),
        resources={"project": ProjectResource(catalogue=str(catalogue))},
    ) as context:
        result = defs.get_schedule_def(name).evaluate_tick(context)
    return list(result.run_requests or ())


@pytest.fixture
def scheduled(catalogue: Path) -> Path:
    """The project's catalogue with a schedule."""
    line = '    schedule: {cron: "0 3 * * *", timezone: Europe/Berlin}\n    task: '
    catalogue.write_text(CATALOGUE.replace("    task: ", line))
    return catalogue


def test_a_sweep_asks_for_what_is_not_current_and_skips_the_rest(scheduled: Path, tmp_path: Path) -> None:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:  # one in memory has no address to open
        first = _schedule(scheduled, instance, "lift_sweep")
        assert [r.partition_key for r in first] == [*GOOD, BROKEN]
        assert instance.get_dynamic_partitions("lift_recordings") == [*GOOD, BROKEN]
        assert _schedule(scheduled, instance, "lift_rebuild") == []
        run(Project.open(scheduled), ["lift"], RunOptions(stages=(Stage.DEMOS,)))
        assert [r.partition_key for r in _schedule(scheduled, instance, "lift_sweep")] == [BROKEN]
        assert len(_schedule(scheduled, instance, "lift_rebuild")) == 1
        run(Project.open(scheduled), ["lift"])
        assert _schedule(scheduled, instance, "lift_rebuild") == []
        (scheduled.parent / f"raw/{GOOD[0]}.hdf5").write_bytes(b"changed")
        swept = _schedule(scheduled, instance, "lift_sweep", hour=4)
        assert [r.partition_key for r in swept] == [GOOD[0], BROKEN]
        assert _schedule(scheduled, instance, "lift_rebuild") == []
        assert {r.run_key for r in swept} & {r.run_key for r in first} == set()


def test_a_schedule_is_off_unless_the_catalogue_switches_it_on(scheduled: Path) -> None:
    for text, status in (("", "STOPPED"), (", enabled: true", "RUNNING")):
        scheduled.write_text(scheduled.read_text().replace("Berlin}", f"Berlin{text}}}"))
        found = build_defs(catalogue=scheduled).get_repository_def().schedule_defs
        assert {s.name: s.default_status.value for s in found} == dict.fromkeys(
            ("lift_sweep", "lift_rebuild"), status
        )
        assert {s.execution_timezone for s in found} == {"Europe/Berlin"}


def test_without_a_schedule_in_the_catalogue_there_is_none(runner: Runner) -> None:
    assert list(runner.defs.get_repository_def().schedule_defs) == []
