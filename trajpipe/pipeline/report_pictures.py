"""The pictures of a report: the funnel, and those of the first outputs of each stage.

A recording, or an output that cannot be read at will, is sampled by reading its episodes in order.
What is not here: drawing, see `pictures.py` and `trajpipe.report`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core import names
from trajpipe.core.episode import Column, Episode
from trajpipe.core.errors import StateError, TrajpipeError
from trajpipe.core.names import Stage
from trajpipe.core.progress import Progress
from trajpipe.pipeline.pictures import pictures_of, sample_pictures
from trajpipe.pipeline.report_episodes import Opened, opened
from trajpipe.pipeline.report_subject import Reported, Subject
from trajpipe.pipeline.sampling import labels, sample
from trajpipe.report.funnel import funnel
from trajpipe.report.html_model import Report, first_ledger
from trajpipe.report.picture import Picture

MAX_DRAWN: Final = 2
_UNDRAWN: Final = (TrajpipeError, OSError, KeyError, ValueError)
_OBS: Final = names.GROUP_OBS + "/"


def add_pictures(subject: Subject, report: Report, progress: Progress) -> None:
    """Add the pictures, say of what they are when not of everything, and choose what is seen at once."""
    report.pictures += _pictures(subject, report, progress)
    stages = [one.stage for one in subject.outputs]
    drawn = list(dict.fromkeys(of for of, _ in report.pictures if of != subject.title))
    alone = [of for of in drawn if stages.count(Stage(of.split(" ", 1)[0])) == 1]
    report.opened = (subject.title, *(alone or drawn)[:1])


def _pictures(subject: Subject, report: Report, progress: Progress) -> Iterator[tuple[str, Picture]]:
    whole = first_ledger(report.outputs)
    drawn = funnel(whole) if whole.entries else None
    if drawn is not None:
        yield subject.title, drawn
    for stage in Stage:
        there = [one for one in subject.outputs if one.stage is stage and one.path.exists()]
        for done, one in enumerate(there[:MAX_DRAWN]):
            progress("pictures", done, len(there[:MAX_DRAWN]))
            found = _of_output(subject, one)
            yield from ((f"{stage.value} · {one.path.name}", picture) for picture in found)
            if not found:
                report.notes.append(f"No picture of {one.path.name} could be drawn.")
        if len(there) > MAX_DRAWN:
            words = f"Pictures are drawn of {MAX_DRAWN} of {len(there):,} outputs of the stage {stage.value}."
            report.notes.append(words)


def _of_output(subject: Subject, one: Reported) -> list[Picture]:
    """Pictures of an output; none when it is damaged, or when its episodes have not the same columns."""
    try:
        if one.stage is not Stage.RAW:
            return list(pictures_of(one.stage, one.path))
    except _UNDRAWN:
        pass  # a part is missing: what can be read in order is drawn
    try:
        with opened(subject, one) as found:
            episodes = _InOrder(
                found, names.COLUMN_ACTION if one.stage is Stage.STORE else names.DATASET_ACTIONS
            )
            return [p for p in sample_pictures(sample(episodes), subject.conventions.action) if p is not None]
    except _UNDRAWN:
        return []


class _InOrder:
    """Episodes that can only be read one after another, as the `EpisodeSet` that is sampled."""

    fps: float | None = None

    def __init__(self, found: Opened, action: str) -> None:
        """Read the lengths of all episodes."""
        self._found, self.action = found, action
        facts = [(e.name, e.length) for e in found.episodes() if isinstance(e, Episode)]
        self._names = [name for name, _ in facts]
        self.lengths: NDArray[np.int64] = np.array([length for _, length in facts], np.int64)
        self._at = -1
        self._open: Generator[Episode] | None = None
        self._current: Episode | None = None

    def label(self, episode: int) -> str:
        """The episode's name."""
        return self._names[episode]

    def columns(self, episode: int) -> Mapping[str, Column]:
        """Actions and obs; of an episode without obs, everything."""
        if self._open is None or episode < self._at:
            self._open, self._at = (e for e in self._found.episodes() if isinstance(e, Episode)), -1
        while self._at < episode:
            self._current, self._at = next(self._open, None), self._at + 1
        if self._current is None:
            raise StateError("episodes are the same each time they are read", got=episode)
        found = self._current.columns
        obs = {n: c for n, c in found.items() if n == self.action or n.startswith(_OBS)}
        return obs if len(obs) > 1 else found

    def dimensions(self, column: str, width: int) -> Sequence[str]:
        """`joint_pos[0]`, …."""
        return labels(column, width)
