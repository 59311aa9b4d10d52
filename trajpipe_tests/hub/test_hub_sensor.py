"""The Hub-revision sensor on a real instance and a real server: absent, there, moved, pinned, offline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from huggingface_hub import CommitOperationAdd

from trajpipe.defs import build_defs
from trajpipe.defs.resources import ProjectResource
from trajpipe.hub import HubError, Publication, Repository, files_below, push
from trajpipe.testing import write_recording
from trajpipe.testing.hub_server import WRITE_TOKEN
from trajpipe_tests.hub.hubs import OwnHub

CATALOGUE = """
version: 1
datasets:
  lift:
    raw: [{kind: isaaclab, hub: org/raw@main, follow: true, glob: "teleop/*.hdf5"}]
"""


class Source:
    """A repository of recordings, and a project that follows it."""

    def __init__(self, folder: Path, instance: dg.DagsterInstance) -> None:
        self.repository, self.folder, self.instance = Repository("org/raw"), folder, instance
        self.repository.create(private=True)
        self.root = folder / "data"
        self.root.mkdir()
        (self.root / "datasets.yaml").write_text(CATALOGUE)

    def add(self, name: str, seed: int) -> str:
        """Commit a recording; its commit."""
        path = write_recording("isaaclab", self.folder / name, episodes=1, rows=(4, 6), seed=seed, cameras=())
        operation = CommitOperationAdd(f"teleop/{name}", path.read_bytes())
        return self.repository.commit([operation], parent=self.repository.state().commit, message=name)

    def tick(self) -> list[str]:
        """One tick; the runs that it asked for were run. Their keys."""
        defs = build_defs(catalogue=self.root / "datasets.yaml")
        resource = ProjectResource(catalogue=str(self.root / "datasets.yaml"))
        with dg.build_sensor_context(
            self.instance, repository_def=defs.get_repository_def(), resources={"project": resource}
        ) as context:
            result = defs.get_sensor_def("lift_hub")(context)
        assert isinstance(result, dg.SensorResult)
        for request in result.run_requests or ():
            job = defs.resolve_job_def("scan_job")
            assert job.execute_in_process(instance=self.instance, run_config=request.run_config).success
        return [str(request.run_key) for request in result.run_requests or ()]


@pytest.fixture
def source(own: OwnHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Source]:
    """A repository with one recording."""
    monkeypatch.setenv("HF_ENDPOINT", own.url)
    monkeypatch.setenv("HF_TOKEN", WRITE_TOKEN)
    with dg.DagsterInstance.ephemeral() as instance:
        made = Source(tmp_path, instance)
        made.add("a.hdf5", 1)
        yield made


def test_a_revision_that_moves_is_fetched_once(source: Source) -> None:
    fetched = source.root / "raw/lift/org__raw/teleop"
    assert len(source.tick()) == 1
    assert (fetched / "a.hdf5").is_file()
    assert source.instance.get_dynamic_partitions("lift_recordings") == ["a"]
    assert source.tick() == []
    commit = source.add("b.hdf5", 2)
    assert source.tick() == [f"lift:org/raw@{commit}"]
    assert (fetched / "b.hdf5").is_file()
    assert source.instance.get_dynamic_partitions("lift_recordings") == ["a", "b"]
    assert source.tick() == []


def test_a_repository_that_trajpipe_publishes_is_followed_from_version_to_version(
    source: Source, own: OwnHub, tmp_path: Path
) -> None:
    """Neither the first push nor the second is taken before its tag is there."""
    folder = tmp_path / "recordings"
    path = folder / "teleop/c.hdf5"

    def push_recording(seed: int, *, stops: bool) -> None:
        path.unlink(missing_ok=True)
        write_recording("isaaclab", path, episodes=1, rows=(4, 6), seed=seed, cameras=())
        if stops:
            own.fault("status", "POST .*/tag/", status=403, times=10_000)
            with pytest.raises(HubError):
                push(Publication(files_below(folder), "raw"), source.repository)
            own.clear()
        else:
            push(Publication(files_below(folder), "raw"), source.repository)

    fetched = source.root / "raw/lift/org__raw/teleop/c.hdf5"
    push_recording(3, stops=True)
    assert source.tick() == []
    push_recording(3, stops=False)
    assert len(source.tick()) == 1
    first = fetched.read_bytes()
    push_recording(4, stops=True)
    assert source.tick() == []
    assert fetched.read_bytes() == first
    push_recording(4, stops=False)
    assert len(source.tick()) == 1
    assert fetched.read_bytes() == path.read_bytes() != first


def test_a_pinned_revision_is_asked_for_once(source: Source, own: OwnHub) -> None:
    source.repository.tag("v1", source.repository.state().commit)
    pinned = CATALOGUE.replace("@main, follow: true", "@v1")
    (source.root / "datasets.yaml").write_text(pinned)
    assert len(source.tick()) == 1
    source.add("b.hdf5", 2)
    asked = len(own.asked())
    assert source.tick() == []
    assert len(own.asked()) == asked


def test_offline_nothing_is_asked(source: Source, own: OwnHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    asked = len(own.asked())
    assert source.tick() == []
    assert len(own.asked()) == asked


def test_a_hub_that_refuses_is_said_without_the_token(source: Source, own: OwnHub) -> None:
    own.fault("status", "GET .*/revision/", status=403)
    with pytest.raises(Exception, match="org/raw") as error:
        source.tick()
    assert WRITE_TOKEN not in str(error.value)


def test_a_scan_of_all_goes_on_after_a_repository_that_refuses(source: Source, own: OwnHub) -> None:
    path = source.root / "here/day1.hdf5"
    write_recording("isaaclab", path, episodes=1, rows=(4, 6), cameras=())
    catalogue = source.root / "datasets.yaml"
    catalogue.write_text(f"{CATALOGUE}  stack:\n    raw: [{{kind: isaaclab, glob: here/*.hdf5}}]\n")
    own.fault("status", "GET .*/revision/", status=403)
    job = build_defs(catalogue=catalogue).resolve_job_def("scan_job")
    result = job.execute_in_process(instance=source.instance, raise_on_error=False)
    assert not result.success
    (failed,) = [event.step_failure_data for event in result.all_events if event.is_step_failure]
    assert failed.user_failure_data is not None
    assert "lift: " in str(failed.user_failure_data.description)
    assert "org/raw" in str(failed.user_failure_data.description)
    assert source.instance.get_dynamic_partitions("stack_recordings") == ["day1"]
    assert [e.asset_key.path for e in result.get_asset_materialization_events() if e.asset_key] == [
        ["stack", "raw"]
    ]


def test_only_datasets_on_the_hub_have_the_sensor_and_it_is_on(source: Source) -> None:
    def sensors() -> dict[str, str]:
        found = build_defs(catalogue=source.root / "datasets.yaml").get_repository_def().sensor_defs
        return {s.name: s.default_status.value for s in found if s.name.endswith("_hub")}

    assert sensors() == {"lift_hub": "RUNNING"}
    plain = 'raw: [{kind: isaaclab, glob: "teleop/*.hdf5"}]'
    (source.root / "datasets.yaml").write_text(f"version: 1\ndatasets: {{lift: {{{plain}}}}}")
    assert sensors() == {}
