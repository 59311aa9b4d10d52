"""L2 files that are awaited: their recordings are known, and neither a file nor a failure is there yet.

What is not here: asking for their runs, see `trajpipe.defs.sensors`.
"""

from collections.abc import Collection

from trajpipe.core import names, provenance
from trajpipe.pipeline.catalogue import Recording
from trajpipe.pipeline.project import Project


def awaited(project: Project, name: str, *, but: Collection[str] = ()) -> list[str]:
    """Keys of recordings whose L2 file is neither there nor known to be impossible.

    Args:
        project: The project.
        name: Dataset name.
        but: Keys that nobody waits for.
    """
    return [r.key for r in project.recordings(name) if r.key not in but and is_absent(project, r)]


def is_absent(project: Project, recording: Recording) -> bool:
    """True when a recording's L2 file is neither there nor known to be impossible."""
    target = project.demos_path(recording)
    return not target.exists() and not provenance.beside(target, names.SUFFIX_FAILURE).exists()


def too_few_yet(project: Project, name: str) -> list[str]:
    """Keys of awaited recordings while fewer than a store needs are ready; else none."""
    ready, _ = project.ready_inputs(name)
    return awaited(project, name) if len(ready) < (project.dataset(name).min_recordings or 1) else []
