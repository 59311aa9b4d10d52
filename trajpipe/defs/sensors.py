"""Sensors: one per dataset that watches its folder, one for all that tells of failed runs.

The folder sensor is on by default: it is what makes the pipeline run by itself, and it starts nothing when
nothing changed. The failure sensor is off by default: it talks to somebody else's server.
What is not here: what changed in a folder, see `trajpipe.pipeline.watched_folder`.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import dagster as dg

from trajpipe.core import jsontext
from trajpipe.core.errors import TrajpipeError
from trajpipe.core.names import Stage
from trajpipe.core.provenance import size_of
from trajpipe.defs.awaited import awaited, is_absent
from trajpipe.defs.failure_hook import failure_hook
from trajpipe.defs.jobs import build_job_name, demos_job_name
from trajpipe.defs.partitions import asset_key, partition_of, recordings_partitions
from trajpipe.defs.resources import ProjectResource
from trajpipe.defs.scan import DATA_VERSION_TAG, data_versions
from trajpipe.pipeline import watched_folder
from trajpipe.pipeline.catalogue import DatasetConfig, Recording
from trajpipe.pipeline.due import due
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.watched_folder import Changes, Seen

INTERVAL_S: Final = int(os.environ.get("TRAJPIPE_SENSOR_INTERVAL", "30"))
MOST_ASKS: Final = 3
_UNFINISHED: Final = (
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
)


def folder_sensor(dataset: DatasetConfig, jobs: list[Any]) -> dg.SensorDefinition:
    """The sensor of a dataset's folder.

    A new or changed recording gets its partition, an event with its SHA-256 and a run of `<dataset>_demos`.
    After a removal, a return or a change `<dataset>_build` makes what is then out of date: automation looks
    after an ingest alone, and a removal has none. A file still being written waits.

    Args:
        dataset: The dataset.
        jobs: Its two jobs, demos and build.
    """

    @dg.sensor(
        name=f"{dataset.name}_folder",
        jobs=jobs,
        minimum_interval_seconds=INTERVAL_S,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Ingests new and changed recordings of {dataset.name}, and builds anew after removals.",
    )
    def watch(context: dg.SensorEvaluationContext, project: ProjectResource) -> dg.SensorResult:
        try:
            return _tick(context, project.open(), dataset.name)
        except TrajpipeError as error:
            raise dg.Failure(str(error), allow_retries=False) from error

    return watch


def _tick(context: dg.SensorEvaluationContext, project: Project, name: str) -> dg.SensorResult:
    kept = _Kept.of(context.cursor)
    state = watched_folder.load(project.root, name, kept.digest) if kept.digest else None
    changes = watched_folder.look(project, name, state if state is not None else _of_events(context, name))
    tick = kept.tick + 1
    ingests = _to_ingest(context, project, name, changes, tick)
    digest = watched_folder.save(project.root, name, changes.state)
    watched_folder.forget_others(project.root, name, {digest, kept.digest})
    context.log.info("%s: %s", name, changes.summary())
    for key, why in changes.unreadable.items():
        context.log.warning("%s/%s: %s", name, key, why)
    if digest == kept.digest and state is not None and not kept.build:
        return dg.SensorResult(skip_reason=changes.summary())
    build = kept.build or bool(changes.removed or changes.returned or changes.renamed)
    build = build or _touched(state or {}, changes)
    settled = build and not ingests and not _is_awaiting(context.instance, project, name, changes)
    if digest == kept.digest and state is not None and not ingests and not settled:
        return dg.SensorResult(skip_reason=f"{changes.summary()}; a build waits for what is being ingested")
    now = _Kept(digest, tick, build and not settled)
    builds = settled and _is_out_of_date(project, name)
    requests = [*_ingests(name, changes, ingests), *(_builds(name, now.tick) if builds else ())]
    partitions = recordings_partitions(name)
    old = set(context.instance.get_dynamic_partitions(str(partitions.name)))
    added = [key for key, seen in changes.state.items() if seen.sha256 and key not in old]
    return dg.SensorResult(
        run_requests=requests,
        asset_events=list(_events(project, name, changes)),
        dynamic_partitions_requests=[partitions.build_add_request(added)] if added else [],
        cursor=now.to_text(),
        skip_reason=None if requests else changes.summary(),
    )


@dataclass(frozen=True, slots=True)
class _Kept:
    """The cursor.

    The number makes run keys of a content that comes back (A, B, A) differ, and gives the same ones when a
    tick is evaluated again since its result was lost.

    Attributes:
        digest: Of the state that Dagster took.
        tick: How many ticks asked or changed something.
        build: What is out of date is to be built once every L2 file is in its place and no run goes on.
    """

    digest: str = ""
    tick: int = 0
    build: bool = False

    @classmethod
    def of(cls, cursor: str | None) -> "_Kept":
        try:
            value = jsontext.loads(cursor or "{}")
            return cls(str(value.get("digest", "")), int(value.get("tick", 0)), bool(value.get("build")))
        except (TrajpipeError, AttributeError, TypeError, ValueError):
            return cls()

    def to_text(self) -> str:
        return jsontext.dumps({"digest": self.digest, "tick": self.tick, "build": self.build})


def _to_ingest(
    context: dg.SensorEvaluationContext, project: Project, name: str, changes: Changes, tick: int
) -> list[str]:
    """Keys of recordings to ingest; notes in the state that they were asked for.

    What is new or changed, and what an ingest is owed to: its L2 file is gone, or was never made since the
    run that was to make it was cut off. That is asked for while no run of the dataset goes on, three times
    for one content.
    """
    new = [*changes.added, *changes.changed]
    owed = _owed(context.instance, project, name, changes)
    for key in (*new, *owed):
        changes.state[key] = replace(changes.state[key], asked=(*changes.state[key].asked, tick))
    given_up = _given_up(changes)
    if given_up:
        context.log.warning("%s: not ingested by %d runs: %s", name, MOST_ASKS, ", ".join(given_up[:20]))
    return [*new, *owed]


def _owed(instance: dg.DagsterInstance, project: Project, name: str, changes: Changes) -> list[str]:
    """Keys of known recordings without an L2 file of their content, which nobody is making."""
    passed_over = {*changes.added, *changes.changed, *changes.unreadable}
    known = [
        (recording, seen)
        for recording in project.recordings(name)
        if (seen := changes.state.get(recording.key)) is not None
        and seen.sha256
        and not seen.writing
        and recording.key not in passed_over
        and (seen.asked or is_absent(project, recording))
    ]
    if not known or _has_runs(instance, name):
        return []
    found: list[str] = []
    for recording, seen in known:
        if project.state_of(recording)[0] not in ("missing", "stale"):
            changes.state[recording.key] = replace(seen, asked=())
        elif len(found) < watched_folder.MOST and (not seen.asked or _was_cut_off(instance, recording, seen)):
            found.append(recording.key)
    return found


def _was_cut_off(instance: dg.DagsterInstance, recording: Recording, seen: Seen) -> bool:
    """True when the run that was asked for last has ended, and another may be."""
    asked = dg.RunsFilter(tags={"dagster/run_key": _run_key(recording.dataset, recording.key, seen)})
    return len(seen.asked) < MOST_ASKS and any(run.is_finished for run in instance.get_runs(asked))


def _given_up(changes: Changes) -> list[str]:
    """Keys of recordings that were asked for so often that they are not asked for again."""
    return [key for key, seen in changes.state.items() if len(seen.asked) >= MOST_ASKS and not seen.removed]


def _touched(before: Mapping[str, Seen], changes: Changes) -> bool:
    """True when a recording that was known has been written to, with the same or another content."""
    return any(
        not seen.writing and key in before and (before[key].touch != seen.touch or before[key].writing)
        for key, seen in changes.state.items()
        if key not in changes.added
    )


def _is_awaiting(instance: dg.DagsterInstance, project: Project, name: str, changes: Changes) -> bool:
    """True while an L2 file is neither there nor known to be impossible, or a run of the dataset goes on."""
    if awaited(project, name, but={*changes.unreadable, *changes.writing, *_given_up(changes)}):
        return True
    return _has_runs(instance, name)


def _has_runs(instance: dg.DagsterInstance, name: str) -> bool:
    """True while a run of the dataset waits or goes on."""
    own = {demos_job_name(name), build_job_name(name)}
    return any(
        run.job_name in own or any(key.path[0] == name for key in run.asset_selection or ())
        for run in instance.get_runs(dg.RunsFilter(statuses=list(_UNFINISHED)))
    )


def _is_out_of_date(project: Project, name: str) -> bool:
    """True when the store or the export is not what a build would make now.

    Where every recording is broken there is nothing to build, and their own runs have said so.
    """
    return any(due(project, name, stage) for stage in (Stage.STORE, Stage.LEROBOT))


def _of_events(context: dg.SensorEvaluationContext, name: str) -> watched_folder.State:
    """The state as the instance's events tell it, when its file is gone: same content gives no new event."""
    versions = data_versions(context.instance, asset_key(name, Stage.RAW))
    return {key: Seen((), sha256) for key, sha256 in versions.items() if sha256}


def _ingests(name: str, changes: Changes, keys: Iterable[str]) -> Iterator[dg.RunRequest]:
    for key in keys:
        yield dg.RunRequest(
            run_key=_run_key(name, key, changes.state[key]),
            job_name=demos_job_name(name),
            partition_key=key,
        )


def _run_key(name: str, key: str, seen: Seen) -> str:
    """Of the run that was asked for last of a recording."""
    return f"{name}/{key}:{seen.sha256}:{seen.asked[-1]}"


def _builds(name: str, tick: int) -> Iterator[dg.RunRequest]:
    yield dg.RunRequest(run_key=f"{name}:build:{tick}", job_name=build_job_name(name))


def _events(project: Project, name: str, changes: Changes) -> Iterator[dg.AssetMaterialization]:
    recordings = {r.key: r for r in project.recordings(name)}
    for key in (*changes.added, *changes.changed):
        recording = recordings[key]
        yield dg.AssetMaterialization(
            asset_key(name, Stage.RAW),
            partition=key,
            metadata={
                "path": dg.MetadataValue.path(recording.path),
                "bytes": dg.MetadataValue.int(size_of(recording.path)),
                "kind": dg.MetadataValue.text(recording.entry.kind),
            },
            tags={DATA_VERSION_TAG: changes.state[key].sha256},
        )


@dg.run_failure_sensor(
    name="run_failures",
    default_status=dg.DefaultSensorStatus.STOPPED,
    description="Tells the hook of a failed run; see docs/operations.md. Off until switched on.",
)
def run_failures(context: dg.RunFailureSensorContext) -> None:
    """Tell the hook, named by the environment, that a run failed."""
    run = context.dagster_run
    failure_hook()(
        {
            "run_id": run.run_id,
            "job": run.job_name,
            "partition": partition_of(run),
            "error": context.failure_event.message or "",
        }
    )
