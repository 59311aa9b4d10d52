"""What a report is about: the outputs of a dataset of the catalogue, or one file or folder.

What is not here: reading them, see `report_episodes.py` and `report_evidence.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from trajpipe.core import names
from trajpipe.core.conventions import Conventions
from trajpipe.core.names import Stage
from trajpipe.core.order import natural_sorted
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.run import Planned, plan

_WORDS: Final = {"ready": "built"}


@dataclass(frozen=True, slots=True)
class Reported:
    """One output that a report shows.

    Attributes:
        stage: Its stage.
        path: File or folder; it may be absent.
        state: `built`, `there`, `stale`, `failed` or `missing`.
        note: Why.
    """

    stage: Stage
    path: Path
    state: str = "there"
    note: str = ""


@dataclass(frozen=True, slots=True)
class Subject:
    """What one report shows.

    Attributes:
        title: Dataset or file name.
        subtitle: One line: what it is.
        outputs: In order of stages.
        kind: Kind of raw recordings; None = detected.
        conventions: Declared conventions of raw recordings.
    """

    title: str
    subtitle: str
    outputs: tuple[Reported, ...]
    kind: str | None = None
    conventions: Conventions = field(default_factory=Conventions)


def subject_of_path(
    path: Path, stage: Stage, *, kind: str | None = None, conventions: Conventions | None = None
) -> Subject:
    """The subject of one file or folder.

    Args:
        path: It.
        stage: What it is.
        kind: Kind of a raw recording; None = detected.
        conventions: Declared of a raw recording.
    """
    words = {
        Stage.RAW: "a raw recording",
        Stage.DEMOS: "an L2 file",
        Stage.STORE: "a trajectory store",
        Stage.LEROBOT: "a LeRobot dataset",
    }
    name = path.resolve().name
    return Subject(name, words[stage], (Reported(stage, path),), kind, conventions or Conventions())


def subject_of_dataset(project: Project, name: str) -> Subject:
    """The subject of a dataset: its L2 files, stores and LeRobot folder, those that are absent too.

    Raises:
        MissingNameError: no such dataset.
    """
    steps = plan(project, [name])
    recordings = sum(step.stage is Stage.DEMOS for step in steps)
    plural = "recording" if recordings == 1 else "recordings"
    return Subject(
        title=name,
        subtitle=f"a dataset of {recordings:,} {plural}: L2, store and LeRobot together",
        outputs=tuple(one for step in steps for one in _reported(step)),
    )


def _reported(step: Planned) -> Iterator[Reported]:
    """A step's output; a folder of stores as its files."""
    state = _WORDS.get(step.state, step.state)
    if step.stage is not Stage.STORE or not step.path.is_dir():
        yield Reported(step.stage, step.path, state, step.why)
        return
    files = [p.name for p in step.path.iterdir() if p.suffix == names.SUFFIX_STORE and p.is_file()]
    for file in natural_sorted(files):
        yield Reported(step.stage, step.path / file, state, step.why)
