"""What is noticed of a dataset as a whole, before its store is built: exclusions without a recording, twins.

What is not here: findings of one recording, see `ingest.py`; rules of an output, see `trajpipe.checks`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trajpipe.core import provenance
from trajpipe.core.findings import Finding, Findings, Place, Severity

if TYPE_CHECKING:  # `convert` needs no catalogue
    from trajpipe.pipeline.project import Project

IDENTICAL: Final = "recordings-identical"
EQUAL: Final = "recordings are equal byte for byte: episodes count twice, and may land in both splits"
UNMATCHED: Final = "exclude-not-found"


def findings_of_dataset(project: Project, name: str) -> Findings:
    """Warnings about a dataset's recordings.

    Args:
        project: The project; recordings that have an L2 file are looked at.
        name: Dataset name.
    """
    found = Findings()
    for recording in project.unmatched_exclusions(name):
        # A typo would keep what was to be left out.
        message = "an exclusion names a recording that is not here"
        found.add(Finding(UNMATCHED, Severity.WARN, message, _place(project, name, "exclude"), got=recording))
    for twins in _identical(project, name):
        place, wanted = _place(project, name, "raw"), "one of them; the others under `exclude:`"
        found.add(Finding(IDENTICAL, Severity.WARN, EQUAL, place, ", ".join(twins), wanted))
    return found


def _place(project: Project, name: str, key: str) -> Place:
    return Place(file=project.catalogue.path.name, column=f"datasets.{name}.{key}")


def _identical(project: Project, name: str) -> list[list[str]]:
    """Keys of recordings whose content has one SHA-256, of those that take part in the store."""
    ready = set(project.ready_inputs(name)[0])
    by_content: dict[tuple[str, ...], list[str]] = {}
    for recording in project.recordings(name):
        path = project.demos_path(recording)
        stamp = provenance.read_stamp(path) if path in ready else None
        inputs = stamp.get("inputs") if stamp is not None else None
        if isinstance(inputs, dict) and inputs:
            content = tuple(sorted(str(sha256) for sha256 in inputs.values()))
            by_content.setdefault(content, []).append(recording.key)
    return [keys for keys in by_content.values() if len(keys) > 1]
