"""The folder sensor's ticks on a real instance: new, changed, unchanged, removed, half-written, broken.

What is not here: what a look finds in itself, see `trajpipe_tests.pipeline.test_watched_folder`.
"""

import fcntl
import os
import time
from pathlib import Path

import dagster as dg
import h5py
import pytest
from dagster._core.test_utils import create_run_for_test

from trajpipe.core import provenance
from trajpipe.defs.resources import ProjectResource
from trajpipe.defs.scan import DATA_VERSION_TAG
from trajpipe.pipeline import watched_folder
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.run import run as run_project
from trajpipe.testing import write_recording
from trajpipe_tests.defs.conftest import BROKEN, GOOD, Runner

RAW, DEMOS = dg.AssetKey(["lift", "raw"]), dg.AssetKey(["lift", "demos"])
Asked = list[tuple[str, str | None]]


def settle(path: Path) -> None:
    """Make a file look as if nobody had written to it for a minute."""
    then = time.time_ns() - 60_000_000_000
    os.utime(path, ns=(then, then))


def episodes(store: Path) -> int:
    """Episodes in a store."""
    with h5py.File(store) as file:
        return len(file["ep_len"])


class Ticks:
    """Evaluates the sensor as the daemon does, and takes what it returns."""

    def __init__(self, runner: Runner) -> None:
        self.runner, self.cursor = runner, ""
        self.taken: set[str] = set()
        self.requests: list[dg.RunRequest] = []
        self.sensor = runner.defs.get_sensor_def("lift_folder")
        self.repository = runner.defs.get_repository_def()

    def evaluate(self) -> dg.SensorResult:
        """One evaluation, nothing taken."""
        resource = ProjectResource(catalogue=str(self.runner.root / "datasets.yaml"))
        with dg.build_sensor_context(
            self.runner.instance,
            cursor=self.cursor or None,
            repository_def=self.repository,
            resources={"project": resource},
        ) as context:
            result = self.sensor(context)
        assert isinstance(result, dg.SensorResult)
        return result

    def take(self, result: dg.SensorResult) -> Asked:
        """Take a result: partitions, events, cursor; returns the runs that Dagster would launch."""
        for request in result.dynamic_partitions_requests or ():
            assert isinstance(request, dg.AddDynamicPartitionsRequest)
            self.runner.instance.add_dynamic_partitions(
                request.partitions_def_name, list(request.partition_keys)
            )
        for event in result.asset_events:
            assert isinstance(event, dg.AssetMaterialization)
            self.runner.instance.report_runless_asset_event(event)
        self.cursor = result.cursor or self.cursor
        asked: Asked = []
        for run in result.run_requests or ():
            assert run.run_key is not None
            if run.run_key not in self.taken:
                self.taken.add(run.run_key)
                self.requests.append(run)
                asked.append((str(run.job_name), run.partition_key))
        return asked

    def tick(self) -> Asked:
        """One tick: evaluate and take."""
        return self.take(self.evaluate())

    def events(self) -> list[tuple[str | None, str]]:
        """(partition, data version) of the raw asset's events, oldest first."""
        records = self.runner.instance.fetch_materializations(RAW, limit=100).records
        found = [r.asset_materialization for r in reversed(records)]
        return [(e.partition, (e.tags or {})[DATA_VERSION_TAG]) for e in found if e is not None]


@pytest.fixture
def ticks(runner: Runner) -> Ticks:
    """Ticks over the project, whose files are settled."""
    for path in (runner.root / "raw").iterdir():
        settle(path)
    return Ticks(runner)


def test_the_life_of_recordings_from_new_to_broken(ticks: Ticks) -> None:
    raw, instance = ticks.runner.root / "raw", ticks.runner.instance
    asked = ticks.tick()  # new
    assert asked == [("lift_demos", key) for key in (*GOOD, BROKEN)]
    assert instance.get_dynamic_partitions("lift_recordings") == [*GOOD, BROKEN]
    assert [e[0] for e in ticks.events()] == [*GOOD, BROKEN]
    assert ticks.events()[0][1] == provenance.sha256_file(raw / "scripted_0.hdf5")

    cursor = ticks.cursor
    assert ticks.tick() == []  # unchanged
    assert (ticks.cursor, len(ticks.events())) == (cursor, 3)

    write_recording("isaaclab", raw / "scripted_1.hdf5", episodes=2, rows=(12, 16), seed=77, cameras=())
    settle(raw / "scripted_1.hdf5")
    assert ticks.tick() == [("lift_demos", "scripted_1")]  # changed
    assert ticks.events()[-1] == ("scripted_1", provenance.sha256_file(raw / "scripted_1.hdf5"))
    assert ticks.tick() == []

    settled = raw / "scripted_0.hdf5"
    os.utime(settled, ns=(settled.stat().st_atime_ns, settled.stat().st_mtime_ns - 1))
    assert ticks.tick() == []  # touched: hashed again, the same
    assert len(ticks.events()) == 4

    for key in (*GOOD, BROKEN):
        ticks.runner.run("lift_demos", key)
    kept = (raw / "scripted_0.hdf5").read_bytes()
    (raw / "scripted_0.hdf5").unlink()
    assert ticks.tick() == [("lift_build", None)]  # removed
    assert instance.get_dynamic_partitions("lift_recordings") == [*GOOD, BROKEN]
    assert ticks.tick() == []

    (raw / "scripted_0.hdf5").write_bytes(kept[: len(kept) // 2])
    assert ticks.tick() == []  # half-written: it was touched just now
    assert len(ticks.events()) == 4
    (raw / "scripted_0.hdf5").write_bytes(kept)
    assert ticks.tick() == []  # it moved since the last look
    assert ticks.tick() == [("lift_build", None)]  # it is back as it was
    assert len(ticks.events()) == 4

    (raw / "scripted_0.hdf5").write_bytes(b"broken")
    settle(raw / "scripted_0.hdf5")
    assert ticks.tick() == [("lift_demos", "scripted_0")]  # broken: its own run will be red
    assert not ticks.runner.run("lift_demos", "scripted_0").success


def test_a_file_that_a_writer_holds_waits_until_it_lets_go(ticks: Ticks) -> None:
    path = ticks.runner.root / "raw/scripted_5.hdf5"
    path.write_bytes((ticks.runner.root / "raw/scripted_0.hdf5").read_bytes())
    settle(path)
    with path.open("rb+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # as HDF5 does
        assert ("lift_demos", "scripted_5") not in ticks.tick()
        assert ticks.tick() == []
        assert "scripted_5" not in ticks.runner.instance.get_dynamic_partitions("lift_recordings")
    assert ticks.tick() == [("lift_demos", "scripted_5")]


def test_content_that_comes_back_is_ingested_again(ticks: Ticks) -> None:
    ticks.tick()
    path = ticks.runner.root / "raw/scripted_0.hdf5"
    first = path.read_bytes()
    for content in (b"other", first, b"other", first):
        path.write_bytes(content)
        settle(path)
        assert ticks.tick() == [("lift_demos", "scripted_0")]
    assert len(ticks.events()) == 7


def test_a_tick_whose_result_was_lost_is_evaluated_again_with_the_same_run_keys(ticks: Ticks) -> None:
    lost = ticks.evaluate()
    again = ticks.evaluate()
    keys = [[r.run_key for r in result.run_requests or ()] for result in (lost, again)]
    assert keys[0] == keys[1]
    assert len(keys[0]) == 3
    ticks.take(again)
    assert ticks.tick() == []
    (ticks.runner.root / "raw/scripted_1.hdf5").write_bytes(b"changed")
    settle(ticks.runner.root / "raw/scripted_1.hdf5")
    ticks.evaluate()  # lost as well
    assert ticks.tick() == [("lift_demos", "scripted_1")]


def test_run_keys_hold_the_hash(ticks: Ticks) -> None:
    keys = [str(r.run_key) for r in ticks.evaluate().run_requests or ()]
    for name, key in zip((*GOOD, BROKEN), keys, strict=True):
        assert provenance.sha256_file(ticks.runner.root / f"raw/{name}.hdf5") in key


def test_the_cursor_is_small_and_the_state_lies_beside_the_data(ticks: Ticks) -> None:
    ticks.tick()
    assert len(ticks.cursor) < 120
    (state,) = (ticks.runner.root / ".trajpipe").iterdir()
    assert state.name.split(".")[2] in ticks.cursor
    for _ in range(3):
        (ticks.runner.root / "raw/scripted_1.hdf5").write_bytes(os.urandom(8))
        settle(ticks.runner.root / "raw/scripted_1.hdf5")
        ticks.tick()
    assert len(list((ticks.runner.root / ".trajpipe").iterdir())) <= 2


def test_a_lost_state_gives_no_event_and_no_run_for_what_the_instance_knows(ticks: Ticks) -> None:
    ticks.tick()
    for key in (*GOOD, BROKEN):
        ticks.runner.run("lift_demos", key)
    for path in (ticks.runner.root / ".trajpipe").iterdir():
        path.unlink()
    (ticks.runner.root / "raw/scripted_1.hdf5").write_bytes(b"changed meanwhile")
    settle(ticks.runner.root / "raw/scripted_1.hdf5")
    assert ticks.tick() == [("lift_demos", "scripted_1")]
    ticks.cursor = "not ours"
    assert ticks.tick() == []
    assert len(ticks.events()) == 4


def test_recordings_whose_l2_file_gets_another_name_are_ingested_before_the_store_is_built(
    ticks: Ticks,
) -> None:
    root, runner = ticks.runner.root, ticks.runner
    for name in ("scripted_1", BROKEN):
        (root / f"raw/{name}.hdf5").rename(root / f"{name}.hdf5")
    assert ticks.tick() == [("lift_demos", "scripted_0")]
    assert runner.run("lift_demos", "scripted_0").success
    assert (root / "demos/scripted_lift.hdf5").is_file()

    (root / "scripted_1.hdf5").rename(root / "raw/scripted_1.hdf5")  # the first one's file is renamed by it
    assert ticks.tick() == [("lift_demos", "scripted_1"), ("lift_demos", "scripted_0")]
    assert ticks.tick() == []
    assert runner.run("lift_demos", "scripted_0").success
    assert ticks.tick() == []
    assert runner.run("lift_demos", "scripted_1").success
    assert ticks.tick() == [("lift_build", None)]
    assert ticks.tick() == []

    (root / f"{BROKEN}.hdf5").rename(root / f"raw/{BROKEN}.hdf5")
    assert ticks.tick() == [("lift_demos", BROKEN)]  # a third renames nothing
    runner.run("lift_demos", BROKEN)
    (root / "raw/scripted_1.hdf5").unlink()
    assert ticks.tick() == [("lift_build", None)]  # a broken one is not waited for


def test_a_repaired_recording_that_a_build_left_out_is_built_in_again(ticks: Ticks) -> None:
    root, runner = ticks.runner.root, ticks.runner
    (root / f"raw/{BROKEN}.hdf5").unlink()
    ticks.tick()
    for key in GOOD:
        assert runner.run("lift_demos", key).success
    assert runner.run("lift_build").success
    store = root / "stores/lift.h5"
    assert (episodes(store), ticks.tick()) == (4, [])

    raw = root / "raw/scripted_1.hdf5"
    whole = raw.read_bytes()
    raw.write_bytes(whole[: len(whole) // 2])
    settle(raw)
    assert ticks.tick() == [("lift_demos", "scripted_1")]
    assert not runner.run("lift_demos", "scripted_1").success
    run_project(Project.open(root / "datasets.yaml"))  # as `trajpipe gate` does
    assert (episodes(store), ticks.tick()) == (2, [])  # that is current

    raw.write_bytes(whole)
    settle(raw)
    assert ticks.tick() == [("lift_demos", "scripted_1")]
    queued = create_run_for_test(runner.instance, job_name="lift_demos", status=dg.DagsterRunStatus.STARTED)
    before = ticks.cursor
    assert (ticks.tick(), ticks.cursor) == ([], before)  # it waits
    assert runner.run("lift_demos", "scripted_1").success
    runner.instance.report_run_failed(queued)
    assert ticks.tick() == [("lift_build", None)]
    assert ticks.tick() == []
    assert runner.run("lift_build").success
    assert episodes(store) == 4


def test_a_recording_that_was_broken_while_nobody_looked_is_built_in_again(ticks: Ticks) -> None:
    root, runner = ticks.runner.root, ticks.runner
    ticks.tick()
    for key in (*GOOD, BROKEN):
        runner.run("lift_demos", key)
    raw = root / "raw/scripted_1.hdf5"
    whole = raw.read_bytes()
    raw.write_bytes(b"broken")
    run_project(Project.open(root / "datasets.yaml"))
    assert episodes(root / "stores/lift.h5") == 2
    raw.write_bytes(whole)
    then = time.time_ns() - 50_000_000_000
    os.utime(raw, ns=(then, then))
    assert ticks.tick() == [("lift_build", None)]
    assert runner.run("lift_build").success
    assert episodes(root / "stores/lift.h5") == 4


def test_recordings_that_are_all_broken_ask_for_no_build(ticks: Ticks) -> None:
    root, runner = ticks.runner.root, ticks.runner
    for key in GOOD:
        (root / f"raw/{key}.hdf5").unlink()
    for content in (b"broken", b"broken otherwise"):
        (root / f"raw/{BROKEN}.hdf5").write_bytes(content)
        settle(root / f"raw/{BROKEN}.hdf5")
        assert ticks.tick() == [("lift_demos", BROKEN)]
        assert not runner.run("lift_demos", BROKEN).success
        assert ticks.tick() == []


def cut_off(ticks: Ticks, key: str) -> None:
    """The run that was asked for last ends as if its process had been killed: no L2 file, no reason."""
    (wanted,) = [one for one in ticks.requests if one.partition_key == key][-1:]
    run = create_run_for_test(
        ticks.runner.instance,
        job_name="lift_demos",
        tags={"dagster/partition": key, "dagster/run_key": str(wanted.run_key)},
        status=dg.DagsterRunStatus.STARTED,
    )
    assert ticks.tick() == []  # it goes on
    ticks.runner.instance.report_run_failed(run)


def test_a_recording_whose_run_was_cut_off_is_asked_for_again_but_not_for_ever(
    ticks: Ticks, capfd: pytest.CaptureFixture[str]
) -> None:
    runner = ticks.runner
    ticks.tick()
    for key in (GOOD[0], BROKEN):
        runner.run("lift_demos", key)
    for _ in range(2):
        cut_off(ticks, GOOD[1])
        assert ticks.tick() == [("lift_demos", GOOD[1])]
    cut_off(ticks, GOOD[1])
    capfd.readouterr()
    assert ticks.tick() == []
    assert f"not ingested by 3 runs: {GOOD[1]}" in capfd.readouterr().err
    (runner.root / f"raw/{BROKEN}.hdf5").unlink()
    assert ticks.tick() == [("lift_build", None)]  # which does not wait for it

    path = runner.root / f"raw/{GOOD[1]}.hdf5"
    write_recording("isaaclab", path, episodes=1, rows=(4, 6), seed=5, cameras=())
    settle(path)
    assert ticks.tick() == [("lift_demos", GOOD[1])]  # another content, another attempt
    assert runner.run("lift_demos", GOOD[1]).success
    assert (ticks.tick(), ticks.tick()) == ([("lift_build", None)], [])


def test_a_changed_recording_whose_run_was_cut_off_is_asked_for_again(ticks: Ticks) -> None:
    runner, path = ticks.runner, ticks.runner.root / f"raw/{GOOD[1]}.hdf5"
    ticks.tick()
    for key in (*GOOD, BROKEN):
        runner.run("lift_demos", key)
    assert ticks.tick() == []
    write_recording("isaaclab", path, episodes=1, rows=(4, 6), seed=5, cameras=())
    settle(path)
    assert ticks.tick() == [("lift_demos", GOOD[1])]
    cut_off(ticks, GOOD[1])  # the L2 file of the old content is there
    assert ticks.tick() == [("lift_demos", GOOD[1])]
    assert runner.run("lift_demos", GOOD[1]).success
    assert (ticks.tick(), ticks.tick()) == ([("lift_build", None)], [])


@pytest.mark.parametrize("returns", [True, False])
def test_an_l2_file_that_is_gone_is_made_again(ticks: Ticks, returns: bool) -> None:
    """Deleted by hand; or collected as garbage while its recording was away, and then that came back."""
    runner = ticks.runner
    raw, away = runner.root / f"raw/{GOOD[1]}.hdf5", runner.root / "away.hdf5"
    ticks.tick()
    for key in (*GOOD, BROKEN):
        runner.run("lift_demos", key)
    assert runner.run("lift_build").success
    assert ticks.tick() == []
    if returns:
        raw.rename(away)
        assert ticks.tick() == [("lift_build", None)]
        assert runner.run("lift_build").success
    for path in (runner.root / "demos").glob(f"*{GOOD[1]}*"):
        path.unlink()
    if returns:
        away.rename(raw)
    assert ticks.tick() == [("lift_demos", GOOD[1])]
    assert runner.run("lift_demos", GOOD[1]).success
    assert ticks.tick() == ([("lift_build", None)] if returns else [])
    assert runner.run("lift_build").success
    assert episodes(runner.root / "stores/lift.h5") == 4
    assert ticks.tick() == []


def test_a_catalogue_that_breaks_says_so_in_the_tick(ticks: Ticks) -> None:
    (ticks.runner.root / "datasets.yaml").write_text("version: 1\ndatasets: {lift: {raws: []}}")
    with pytest.raises(Exception, match="the catalogue has"):
        ticks.evaluate()


def test_the_time_of_a_tick_is_bounded(ticks: Ticks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        watched_folder.look, "__kwdefaults__", {"settle_s": 5.0, "budget_s": -1.0, "most": 500}
    )
    assert ticks.tick() == []
    monkeypatch.undo()
    assert len(ticks.tick()) == 3


def test_what_runs_by_itself_is_on_and_what_talks_to_others_is_off(runner: Runner) -> None:
    running = dg.DefaultSensorStatus.RUNNING
    status = {s.name: s.default_status for s in runner.defs.get_repository_def().sensor_defs}
    assert status == {
        "lift_folder": running,
        "automation": running,
        "run_failures": dg.DefaultSensorStatus.STOPPED,
    }
