"""Scanning: partitions for new recordings, an event with the SHA-256 for each new or changed one.

What is not here: when to scan. The job of `jobs.py` does it on request, a schedule when it is due.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import dagster as dg

from trajpipe.core.errors import TrajpipeError
from trajpipe.core.names import Stage
from trajpipe.core.provenance import size_of
from trajpipe.defs.partitions import asset_key, recordings_partitions
from trajpipe.pipeline.ingest import recording_sha256
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.raw_hub import fetch_raw

DATA_VERSION_TAG: Final = "dagster/data_version"


@dataclass(slots=True)
class Scan:
    """What a scan of one dataset found.

    Attributes:
        dataset: Dataset name.
        events: One per new or changed recording, to be logged by the caller.
        added: Partition keys that are new.
        changed: Keys whose content is another than the last event's.
        unchanged: Keys whose content is the same.
        removed: Keys whose recording is gone; the partitions stay.
        unreadable: Key → why its recording could not be hashed.
    """

    dataset: str
    events: list[dg.AssetMaterialization] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)

    def summary(self) -> str:
        """`lift: 2 new, 1 changed, 7 unchanged, 0 removed`."""
        counts = [
            (len(self.added), "new"),
            (len(self.changed), "changed"),
            (len(self.unchanged), "unchanged"),
        ]
        text = ", ".join(f"{n} {word}" for n, word in [*counts, (len(self.removed), "removed")])
        broken = "".join(f"; {key}: {why}" for key, why in self.unreadable.items())
        return f"{self.dataset}: {text}{broken}"


def scan(instance: dg.DagsterInstance, project: Project, dataset: str) -> Scan:
    """Compare the recordings on disk with what the instance knows, and add the new partitions.

    Args:
        instance: Where partitions and earlier events are.
        project: The project.
        dataset: Dataset name.
    """
    fetch_raw(project, dataset)
    out, key = Scan(dataset), asset_key(dataset, Stage.RAW)
    partitions = recordings_partitions(dataset).name
    known = set(instance.get_dynamic_partitions(str(partitions)))
    versions = data_versions(instance, key)
    present = {recording.key: recording for recording in project.recordings(dataset)}
    for name, recording in present.items():
        try:
            sha256 = recording_sha256(recording.path, project.demos_path(recording))
        except (TrajpipeError, OSError) as error:
            out.unreadable[name] = str(error)
            continue
        if versions.get(name) == sha256:
            out.unchanged.append(name)
            continue
        (out.changed if name in versions else out.added).append(name)
        metadata: Mapping[str, dg.MetadataValue] = {
            "path": dg.MetadataValue.path(recording.path),
            "bytes": dg.MetadataValue.int(size_of(recording.path)),
            "kind": dg.MetadataValue.text(recording.entry.kind),
        }
        tags = {DATA_VERSION_TAG: sha256}
        out.events.append(dg.AssetMaterialization(key, partition=name, metadata=metadata, tags=tags))
    out.removed = sorted(known - set(present))
    instance.add_dynamic_partitions(str(partitions), [name for name in present if name not in known])
    return out


def data_versions(instance: dg.DagsterInstance, key: dg.AssetKey) -> dict[str, str]:
    """Partition key → data version of its latest event."""
    latest = instance.event_log_storage.get_latest_storage_id_by_partition(
        key, dg.DagsterEventType.ASSET_MATERIALIZATION
    )
    out: dict[str, str] = {}
    ids = list(latest.values())
    for start in range(0, len(ids), 500):
        chosen = dg.AssetRecordsFilter(key, storage_ids=ids[start : start + 500])
        for record in instance.fetch_materializations(chosen, limit=500).records:
            event = record.asset_materialization
            if event is not None and event.partition is not None and event.tags:
                out[event.partition] = event.tags.get(DATA_VERSION_TAG, "")
    return out
