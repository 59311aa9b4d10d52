"""`export_lerobot`: episodes in, a LeRobot dataset in the given folder out, one episode at a time.

What is not here: the files of each version (`layout_v2`, `layout_v3`), encoding, statistics, publishing.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trajpipe.core import names
from trajpipe.core.episode import Episode
from trajpipe.core.errors import InputError
from trajpipe.core.findings import Finding, Place, Severity
from trajpipe.core.ledger import Rejection
from trajpipe.core.progress import Progress, silent
from trajpipe.export import metadata, tables
from trajpipe.export.features import Feature, features_of, left_out, require_same
from trajpipe.export.images import image_tables
from trajpipe.export.layout_v2 import LayoutV2
from trajpipe.export.layout_v3 import LayoutV3
from trajpipe.export.metadata import EpisodeRecord, Summary
from trajpipe.export.options import ExportOptions, ExportResult
from trajpipe.export.statistics import DatasetStatistics, FrameHistogram, row_stats, sampled_rows
from trajpipe.export.tasks import TaskTable
from trajpipe.export.video import VideoPool, VideoSettings, segment_frames

_SCRATCH: Final = ".scratch"
_VAL: Final = "val"


class Layout(Protocol):
    """The files of one `codebase_version`."""

    @property
    def quantiles(self) -> tuple[str, ...]:
        """Quantiles that episode statistics need."""

    def begin(self, features: Sequence[Feature]) -> None:
        """The first episode has told the features."""

    def data(self, index: int, tables: Iterable[pa.Table]) -> None:
        """Write an episode's rows."""

    def video(self, key: str, index: int) -> Path:
        """Where an episode's video is to be written."""

    def end_episode(self, record: EpisodeRecord) -> None:
        """All files of an episode are written."""

    def finish(self, summary: Summary, statistics: DatasetStatistics) -> None:
        """Write what is known at the end only."""

    def close(self) -> None:
        """Close open files, also after a failure."""


def export_lerobot(
    episodes: Iterable[Episode],
    destination: Path,
    options: ExportOptions,
    *,
    progress: Progress = silent,
) -> ExportResult:
    """Write a LeRobot dataset.

    Episodes are taken one at a time and may read lazily; their frames are pulled in blocks. The same episodes
    and options give the same bytes.

    Args:
        episodes: In the order of their indices; with splits, train episodes first.
        destination: An empty or new folder that nobody reads yet (from `core.atomic.atomic_folder`).
        options: How to write.
        progress: Called with `frames` after each episode.

    Raises:
        InputError: no episodes, one that is empty, too long or not finite, or splits that interleave.
        SchemaError: features differ between episodes, or do not fit the options.
    """
    scratch = destination / _SCRATCH
    scratch.mkdir(parents=True, exist_ok=True)
    statistics = DatasetStatistics(scratch)
    layout = _layout(destination, scratch, options)
    try:
        with VideoPool(_video_settings(options), options.workers) as pool:
            export = _Export(options, layout, statistics, pool)
            for episode in episodes:
                export.add(episode)
                progress("frames", export.frames, None)
        summary = export.summary()
        layout.finish(summary, statistics)
    finally:
        layout.close()
        statistics.close()
    shutil.rmtree(scratch)
    return export.result(summary)


def _layout(destination: Path, scratch: Path, options: ExportOptions) -> Layout:
    if options.version == "v3.0":
        return LayoutV3(destination, scratch, options)
    return LayoutV2(destination, options)


def _video_settings(options: ExportOptions) -> VideoSettings:
    return VideoSettings(options.codec, options.fps, options.quality, options.speed)


@dataclass(slots=True)
class _Export:
    """The state of one export: counters, features of the first episode, episodes whose videos are in work."""

    options: ExportOptions
    layout: Layout
    statistics: DatasetStatistics
    pool: VideoPool
    features: tuple[Feature, ...] = ()
    episodes: int = 0
    frames: int = 0
    valid: int = 0
    unknown: int = 0
    tags: Counter[str] = field(default_factory=Counter)
    rejected: list[Rejection] = field(default_factory=list)
    rejected_at: list[int] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)
    tasks: TaskTable = field(init=False)

    def __post_init__(self) -> None:
        self.tasks = TaskTable(self.options.task, self.options.tasks)

    def add(self, episode: Episode) -> None:
        """Write an episode, or reject it."""
        if self.options.successful_only and episode.success is not True:
            reason = names.Reason.UNKNOWN_SUCCESS if episode.success is None else names.Reason.NOT_SUCCESSFUL
            self.rejected_at.append(self.episodes + len(self.rejected))
            self.rejected.append(Rejection(episode.source_file, episode.name, reason))
            return
        if episode.length < 1:
            raise InputError("an episode has at least one row", place=_place(episode), code="empty-episode")
        self._match_features(episode)
        self._count_split(episode)
        record = self._write_rows(episode)
        self._write_frames(episode, record)
        self.episodes += 1
        self.frames += episode.length
        self.tags[str(episode.tag)] += 1
        self.unknown += not metadata.success_known(episode)

    def _match_features(self, episode: Episode) -> None:
        found = features_of(episode, self.options)
        if self.episodes:
            require_same(self.features, episode, found)
            return
        self.features = found
        self.layout.begin(found)
        metadata.modality(found, self.options)
        for term in left_out(episode, found):
            self._note("term-left-out", "the term is not exported", term)

    def _count_split(self, episode: Episode) -> None:
        if episode.split == names.Split.VALID:
            self.valid += 1
        elif self.valid and self.options.splits:
            raise InputError(
                "LeRobot's splits are ranges: train episodes come first",
                place=_place(episode),
                got="a train episode after a validation episode",
                hint="Order the episodes by split, or export with splits off.",
                code="splits-interleave",
            )

    def _write_rows(self, episode: Episode) -> EpisodeRecord:
        times = tables.timestamps(episode.length, self.options.fps, _place(episode))
        task_rows, texts = self.tasks.rows(episode)
        keys = metadata.episode_keys(episode)
        record = EpisodeRecord(self.episodes, episode.length, self.frames, texts, keys)
        rows = {f.name: f.rows(episode) for f in self.features if f.kind == "rows"}
        rows |= tables.bookkeeping(record.index, record.first_row, times, task_rows)
        for name, values in rows.items():
            record.stats[name] = row_stats(values, self.layout.quantiles)
            self.statistics.add_rows(name, values)
        self._write_tables(episode, record, rows)
        return record

    def _write_tables(self, episode: Episode, record: EpisodeRecord, rows: dict[str, NDArray[Any]]) -> None:
        images = {f.name: FrameHistogram() for f in self.features if f.kind == "image"}
        if not images:
            self.layout.data(record.index, [tables.table_of(rows)])
            return
        made = image_tables(episode, self.features, rows, images, self.options.workers)
        self.layout.data(record.index, made)
        for name, histogram in images.items():
            record.stats[name] = histogram.stats(self.layout.quantiles)
            self.statistics.add_frames(name, histogram)

    def _write_frames(self, episode: Episode, record: EpisodeRecord) -> None:
        cameras = [f for f in self.features if f.kind == "video"]
        if not cameras:
            self.layout.end_episode(record)
        for camera in cameras:
            size = (camera.shape[0], camera.shape[1])
            done = self._finisher(record, camera.name, last=camera is cameras[-1])
            video = self.pool.begin(self.layout.video(camera.name, record.index), size, done)
            for frames, sampled in _segments(episode, camera):
                last = video.frames + len(frames) == episode.length
                self.pool.add(video, frames, sampled, last=last)

    def _finisher(
        self, record: EpisodeRecord, camera: str, *, last: bool
    ) -> Callable[[FrameHistogram], None]:
        """Videos finish in the order in which they began, so the last camera's end is the episode's."""

        def finished(histogram: FrameHistogram) -> None:
            record.stats[camera] = histogram.stats(self.layout.quantiles)
            self.statistics.add_frames(camera, histogram)
            if last:
                self.layout.end_episode(record)

        return finished

    def summary(self) -> Summary:
        """Totals, after the last episode.

        Raises:
            InputError: nothing was written.
        """
        if not self.episodes:
            raise InputError(
                "an export needs at least one episode",
                got=f"0 written, {len(self.rejected)} rejected" if self.rejected else "0",
                hint="See the ledger of the demos for why each episode was rejected.",
                code="no-episodes",
            )
        if self.tasks.filled:
            text = f"{self.tasks.filled} of {self.episodes} episodes have no task text"
            self._note("task-filled", text, repr(self.options.task))
        if self.unknown:
            text = f"{self.unknown} of {self.episodes} episodes do not say whether they succeeded"
            self._note("success-unknown", text, "success_known false")
        return Summary(self.features, self.episodes, self.frames, self.tasks.texts, self._splits())

    def _splits(self) -> dict[str, str]:
        total = self.episodes
        if not self.options.splits or not self.valid:
            return {names.Split.TRAIN.value: f"0:{total}"}
        train = total - self.valid
        first = {names.Split.TRAIN.value: f"0:{train}"} if train else {}
        return first | {_VAL: f"{train}:{total}"}

    def _note(self, code: str, message: str, got: str) -> None:
        self.notes.append(Finding(code, Severity.INFO, message, got=got))

    def result(self, summary: Summary) -> ExportResult:
        """What is handed back."""
        return ExportResult(
            version=self.options.version,
            episodes=summary.episodes,
            frames=summary.frames,
            tasks=summary.tasks,
            features=metadata.info_features(summary.features, self.options),
            splits=summary.splits,
            tags=dict(sorted(self.tags.items())),
            rejected=tuple(self.rejected),
            rejected_at=tuple(self.rejected_at),
            notes=tuple(self.notes),
        )


def _place(episode: Episode) -> Place:
    return Place(episode.source_file or None, episode.name)


def _segments(episode: Episode, camera: Feature) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.int64]]]:
    """Blocks of a camera's frames, each with the indices in it that statistics use."""
    column = episode.columns[camera.parts[0][0]]
    step, sampled = segment_frames(camera.shape[0], camera.shape[1]), sampled_rows(episode.length)
    for start in range(0, episode.length, step):
        stop = min(start + step, episode.length)
        inside = sampled[np.searchsorted(sampled, start) : np.searchsorted(sampled, stop)]
        yield column.read(start, stop), inside - start
