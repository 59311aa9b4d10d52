"""A small sample of an output for pictures: lengths of all episodes, rows and frames of a few, evenly spread.

Memory is bounded: at most 40 episodes, 1,000 rows of each (the middle ones of a longer one), 4 M values
in all, and three frames of six episodes. The same output gives the same sample.
What is not here: opening each stage's form (`sampling_stages`), drawing (`trajpipe.report`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from trajpipe.core.episode import Column, is_image
from trajpipe.core.errors import UnreadableError

MAX_EPISODES: Final = 40
MAX_ROWS: Final = 1000
MAX_VALUES: Final = 4_000_000
MAX_WIDTH: Final = 64
SHEET_EPISODES: Final = 6
SHEET_COLUMNS: Final = 6
MOMENTS: Final = ("first", "middle", "last")


class EpisodeSet(Protocol):
    """An opened output, whichever stage's.

    Attributes:
        lengths: int64 (E,), rows of every episode.
        fps: Rows per second; None when not known.
        action: The name of the action column.
    """

    @property
    def lengths(self) -> NDArray[np.int64]:
        """int64 (E,), rows of every episode."""

    @property
    def fps(self) -> float | None:
        """Rows per second; None when not known."""

    @property
    def action(self) -> str:
        """The name of the action column."""

    def label(self, episode: int) -> str:
        """What people call an episode."""

    def columns(self, episode: int) -> Mapping[str, Column]:
        """Columns of an episode; frames are (T, H, W, C). Valid until the next episode's are asked for."""

    def dimensions(self, column: str, width: int) -> Sequence[str]:
        """A name for each value of a row of a column."""


@dataclass(frozen=True, slots=True, eq=False)
class SampledRows:
    """Rows [start, start + n) of one episode.

    Attributes:
        label: The episode.
        start: The first row.
        action: float32 (n, A).
        state: float32 (n, S), the state columns side by side.
    """

    label: str
    start: int
    action: NDArray[np.float32]
    state: NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class SampledFrames:
    """Frames of one episode.

    Attributes:
        label: The episode.
        frames: One uint8 (H, W, C) for each column of the sheet; None where a camera is absent or unreadable.
    """

    label: str
    frames: tuple[NDArray[np.uint8] | None, ...]


@dataclass(slots=True, eq=False)
class Sample:
    """What the pictures are drawn from.

    Attributes:
        lengths: int64 (E,), rows of every episode.
        fps: Rows per second; None when not known.
        rows: Of some episodes.
        action_labels: A names.
        state_labels: S names.
        left_out: State columns wider than 64 values.
        lacking: Columns that some of these episodes lack, or hold in another width: NaN there.
        frames: Of some episodes.
        frame_headers: Camera and moment of each column of the sheet.
        unreadable: Frames that cannot be decoded; the checks say which and why.
    """

    lengths: NDArray[np.int64]
    fps: float | None
    rows: list[SampledRows] = field(default_factory=list)
    action_labels: tuple[str, ...] = ()
    state_labels: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
    frames: list[SampledFrames] = field(default_factory=list)
    frame_headers: tuple[str, ...] = ()
    unreadable: int = 0

    @property
    def of_rows(self) -> str:
        """`40 of 500 episodes, 12,000 of 81,000 rows`."""
        rows = sum(len(one.action) for one in self.rows)
        episodes = of_episodes(len(self.rows), len(self.lengths))
        return f"{episodes}, {rows:,} of {int(self.lengths.sum()):,} rows"


def of_episodes(some: int, total: int) -> str:
    """`40 of 500 episodes`, `1 of 1 episode`."""
    return f"{some:,} of {total:,} episode{'' if total == 1 else 's'}"


def sample(episodes: EpisodeSet) -> Sample:
    """Take the sample of an opened output.

    Raises:
        TrajpipeError: an episode cannot be read.
    """
    taken = Sample(np.asarray(episodes.lengths, np.int64), episodes.fps)
    if not len(taken.lengths):
        return taken
    first = episodes.columns(0)
    widths = {name: width_of(column) for name, column in first.items() if _is_numbers(column)}
    state = sorted(n for n, w in widths.items() if n != episodes.action and 0 < w <= MAX_WIDTH)
    taken.left_out = tuple(sorted(n for n, w in widths.items() if w > MAX_WIDTH))
    taken.action_labels = tuple(episodes.dimensions(episodes.action, widths.get(episodes.action, 0)))
    taken.state_labels = tuple(label for n in state for label in episodes.dimensions(n, widths[n]))
    cameras = sorted(n for n, column in first.items() if is_image(column))
    moments = MOMENTS if len(cameras) * len(MOMENTS) <= SHEET_COLUMNS else MOMENTS[1:2]
    cameras = cameras[: SHEET_COLUMNS // len(moments)]
    taken.frame_headers = tuple(f"{_last_word(camera)} {m}" for camera in cameras for m in moments)
    with_frames = set(spread(len(taken.lengths), SHEET_EPISODES)) if cameras else set()
    width = len(taken.state_labels) + len(taken.action_labels)
    most = min(MAX_ROWS, MAX_VALUES // (MAX_EPISODES * max(1, width)))
    for number in sorted({*spread(len(taken.lengths), MAX_EPISODES), *with_frames}):
        columns = episodes.columns(number)
        expected = {episodes.action: len(taken.action_labels), **{n: widths[n] for n in state}}
        taken.rows.append(_rows(episodes, number, columns, expected, most))
        alike = {n for n in expected if n in columns and width_of(columns[n]) == expected[n]}
        # a motion store has no actions at all: that is no episode's lack
        taken.lacking = tuple(sorted({*taken.lacking, *(expected.keys() & widths.keys() - alike)}))
        if number in with_frames:
            frames = tuple(_frame(taken, columns.get(c), m) for c in cameras for m in moments)
            taken.frames.append(SampledFrames(episodes.label(number), frames))
    return taken


def _last_word(path: str) -> str:
    """`table_cam` of `obs/table_cam` and of `observation.images.table_cam`."""
    return path.replace("/", ".").rsplit(".", 1)[-1]


def spread(count: int, most: int) -> list[int]:
    """At most `most` of the numbers 0 … count - 1, evenly spread, the first and the last among them."""
    return sorted({int(n) for n in np.linspace(0, count - 1, min(count, most)).round()})


def width_of(column: Column) -> int:
    """Values of a row."""
    return int(np.prod(column.shape[1:], dtype=np.int64))


def _is_numbers(column: Column) -> bool:
    """Measured values are floating point; counters, flags and frames are not states."""
    return column.dtype.kind == "f"


def _rows(
    episodes: EpisodeSet, number: int, columns: Mapping[str, Column], widths: Mapping[str, int], most: int
) -> SampledRows:
    """Rows of one episode; NaN in place of a column that it lacks or that has another width there."""
    length = int(episodes.lengths[number])
    start = max(0, (length - most) // 2)
    stop = min(length, start + most)

    def flat(name: str) -> NDArray[np.float32]:
        column = columns.get(name)
        if column is None or width_of(column) != widths[name]:
            return np.full((stop - start, widths[name]), np.nan, np.float32)
        return np.asarray(column.read(start, stop), np.float32).reshape(stop - start, -1)

    empty = np.empty((stop - start, 0), np.float32)
    joined = np.concatenate([empty, *(flat(name) for name in widths if name != episodes.action)], axis=1)
    return SampledRows(episodes.label(number), start, flat(episodes.action), joined)


def _frame(taken: Sample, column: Column | None, moment: str) -> NDArray[np.uint8] | None:
    """One frame; a camera that cannot be decoded leaves gaps, and the other pictures as they are."""
    if column is None or not column.shape[0]:
        return None
    row = {"first": 0, "middle": column.shape[0] // 2, "last": column.shape[0] - 1}[moment]
    try:
        return np.asarray(column.read(row, row + 1)[0], np.uint8)
    except UnreadableError:
        taken.unreadable += 1
        return None


def labels(name: str, width: int) -> list[str]:
    """`joint_pos[0]`, `joint_pos[1]`, …; the name alone for one value."""
    short = name.split("/", 1)[-1].removeprefix("observation.")
    return [short] if width == 1 else [f"{short}[{i}]" for i in range(width)]
