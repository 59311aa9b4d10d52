"""One episode of a LeRobot folder as L2 columns: rows as arrays, frames lazily, text as indices.

A file stays open until an episode needs another one, so that each is decoded in one pass.
What is not here: the episode's tag, split and provenance, see `trajpipe.sources.lerobot`.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core import jsontext, names
from trajpipe.core.episode import ArrayColumn, Column, FunctionColumn
from trajpipe.core.errors import SchemaError, UnreadableError
from trajpipe.core.findings import Finding, Place, Severity
from trajpipe.sources.lerobot_features import SourceFeature, rows_of, text_rows
from trajpipe.sources.lerobot_folder import EpisodeMeta, LeRobotMeta
from trajpipe.sources.lerobot_index import TASK, RowIndex, Span
from trajpipe.sources.lerobot_parquet import RowReader
from trajpipe.sources.lerobot_text import Report
from trajpipe.sources.lerobot_video import VideoColumn, VideoFile
from trajpipe.sources.quaternion_sites import QuaternionReading

ATTR_TASKS: Final = "tasks"
_SUCCESS: Final = "next.success"
_OURS: Final = (
    names.EPISODE_SOURCE,
    names.EPISODE_SUCCESS,
    names.EPISODE_SUCCESS_KNOWN,
    names.EPISODE_SOURCE_FILE,
    names.EPISODE_SOURCE_DEMO,
    names.EPISODE_CONTENT,
    names.EPISODE_SPLIT,
)
# Rows without a row axis of their own in L2 (T,), as IsaacLab and robomimic keep them.
_FLAT: Final = ("rewards", "dones", "truncated")


@dataclass(slots=True)
class EpisodeColumns:
    """What the files say of one episode.

    Attributes:
        columns: L2 path → column.
        attributes: Demo attributes.
        task: Text of the first row; None when there is none.
        success: None when nobody says.
    """

    columns: dict[str, Column] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    task: str | None = None
    success: bool | None = None


class EpisodeReader:
    """Reads episodes one after the other; columns are valid until the next one is read."""

    def __init__(
        self,
        meta: LeRobotMeta,
        index: RowIndex,
        features: tuple[SourceFeature, ...],
        quaternions: QuaternionReading,
        report: Report,
    ) -> None:
        """Remember what to read; nothing is opened."""
        self._meta, self._index, self._features = meta, index, features
        self._quaternions, self._report = quaternions, report
        self._rows: RowReader | None = None
        self._videos: dict[str, VideoFile] = {}
        self._ends = _ends(meta, features)
        self._seen: set[Path] = set()
        # One dataset, one set of columns: per-row tasks are kept in all episodes or in none.
        self._per_row_tasks = any(len(span.tasks) > 1 for span in index.spans.values())

    def __enter__(self) -> EpisodeReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for video in self._videos.values():
            video.close()
        self._videos = {}
        if self._rows is not None:
            self._rows.close()

    def read(self, episode: EpisodeMeta) -> EpisodeColumns:
        """The columns of an episode.

        Raises:
            UnreadableError: a file of it is missing, damaged or short (`short-video`, with both numbers).
            SchemaError: rows that are not numbers of the declared width.
        """
        span, out = self._index.spans[episode.index], EpisodeColumns()
        rows = self._reader(span.path)
        in_rows = [f.name for f in self._features if f.kind in ("rows", "text")]
        wanted = [*in_rows, *([TASK] if span.tasks else [])]
        table = rows.read(wanted, span.start, span.stop)
        for feature in self._features:
            if feature.kind == "video":
                out.columns[feature.parts[0].path] = self._frames(feature.name, episode)
            elif feature.kind == "image":
                out.columns[feature.parts[0].path] = self._pictures(feature.name, span)
            elif feature.kind == "text":
                self._add_text(out, feature, table[feature.name])
            else:
                place = Place(self._meta.relative(span.path), episode.name, feature.name)
                self._add_rows(out, feature, rows_of(table[feature.name], place), place)
        out.attributes |= {k: v for k, v in episode.extra.items() if k not in _OURS and _plain(v)}
        self._tasks(out, episode, span, table)
        out.success = _success(episode, table if _SUCCESS in in_rows else None)
        return out

    def _reader(self, path: Path) -> RowReader:
        if self._rows is None or self._rows.path != path:
            if self._rows is not None:
                self._rows.close()
                self._rows = None
            self._rows = RowReader(path, self._meta.relative(path))
        return self._rows

    def _add_rows(
        self, out: EpisodeColumns, feature: SourceFeature, rows: NDArray[Any], place: Place
    ) -> None:
        shape = self._meta.features[feature.name].get("shape")
        declared = tuple(shape) if isinstance(shape, list) else None
        if rows.ndim == 1:
            rows = rows.reshape(-1, 1)
        if declared is not None and rows.shape[1:] != (declared or (1,)):
            raise SchemaError(
                "rows have the shape that info.json declares",
                place=place,
                got=rows.shape[1:],
                expected=declared,
                code=names.Reason.BAD_EPISODE.value,
            )
        for part in feature.parts:
            values = rows[:, part.start : part.stop] if part.start or part.stop is not None else rows
            if part.path in _FLAT and values.shape[1:] == (1,):
                values = values[:, 0]
            column = ArrayColumn(np.ascontiguousarray(values))
            out.columns[part.path] = self._quaternions.as_xyzw(part.path, column)

    def _add_text(self, out: EpisodeColumns, feature: SourceFeature, column: Any) -> None:
        """Text as a number per row; the demo attribute of the feature's name lists the texts."""
        indices, texts = text_rows(column)
        out.columns[feature.parts[0].path] = ArrayColumn(indices[:, None])
        out.attributes[feature.name] = jsontext.dumps(texts)

    def _tasks(self, out: EpisodeColumns, episode: EpisodeMeta, span: Span, table: Any) -> None:
        """The first row's text; where rows of the set have several tasks, a `task_index` per row as well.

        Its values number the episode's own texts, which the demo attribute `tasks` lists as JSON.
        """
        texts = self._meta.tasks
        unknown = [i for i in span.tasks if i not in texts]
        if unknown:
            message, place = "task_index points to no task", Place(demo=episode.name, column=TASK)
            self._report(Finding("task-unknown", Severity.WARN, message, place, str(unknown[0])))
        if span.tasks and not unknown:
            out.task = texts[span.tasks[0]]
        elif len(episode.tasks) == 1:
            out.task = episode.tasks[0]
        if self._per_row_tasks and span.tasks:
            numbers = np.asarray(table[TASK].to_numpy(), np.int64)
            local = {index: i for i, index in enumerate(span.tasks)}
            rows = np.array([local[int(n)] for n in numbers], np.int64)
            out.columns[names.COLUMN_TASK_INDEX] = ArrayColumn(rows)
            out.attributes[ATTR_TASKS] = jsontext.dumps([texts.get(i, "") for i in span.tasks])

    def _frames(self, camera: str, episode: EpisodeMeta) -> VideoColumn:
        path, first = self._meta.video_file(camera, episode), self._meta.first_frame(camera, episode)
        video = self._video(camera, path)
        if 0 < video.declared < first + episode.length:
            raise UnreadableError(
                "the video is shorter than its episodes",
                place=Place(video.name, episode.name, camera),
                got=f"{video.declared} frames",
                expected=f"{first + episode.length} frames at least",
                hint="Fetch the video again; the episode is left out.",
                code="short-video",
            )
        return VideoColumn(partial(self._video, camera, path), first, (episode.length, *video.size, 3))

    def _video(self, camera: str, path: Path) -> VideoFile:
        """The open file of a camera; another one of the camera's is closed for it."""
        held = self._videos.get(camera)
        if held is not None and held.path == path:
            return held
        if held is not None:
            del self._videos[camera]
            held.close()
        video = self._videos[camera] = VideoFile(path, self._meta.relative(path))
        self._look_at_length(video, camera)
        return video

    def _look_at_length(self, video: VideoFile, camera: str) -> None:
        end = self._ends.get((camera, video.path), 0)
        if video.declared > end and video.path not in self._seen:
            message, place = (
                "the video has more frames than its episodes; the rest is not read",
                Place(video.name),
            )
            finding = Finding("long-video", Severity.WARN, message, place, str(video.declared), str(end))
            self._report(finding)
        self._seen.add(video.path)

    def _pictures(self, camera: str, span: Span) -> Column:
        """Frames of an image column: each row is an encoded picture."""
        first = self._decoded(camera, span, 0, 1)
        shape = (span.stop - span.start, *first.shape[1:])
        return FunctionColumn(first.dtype, shape, partial(self._decoded, camera, span, size=first.shape[1:]))

    def _decoded(
        self, camera: str, span: Span, start: int, stop: int, size: tuple[int, ...] | None = None
    ) -> NDArray[np.uint8]:
        table = self._reader(span.path).read([camera], span.start + start, span.start + stop)
        pictures = [
            _picture(cell, Place(self._meta.relative(span.path), column=camera, row=span.start + start + i))
            for i, cell in enumerate(table[camera].to_pylist())
        ]
        shapes = {p.shape for p in pictures} | ({size} if size is not None else set())
        if len(shapes) > 1:
            place, got = Place(self._meta.relative(span.path), column=camera), sorted(shapes)
            raise UnreadableError(
                "all pictures of an episode have one size", place=place, got=got, code="bad-image"
            )
        return np.stack(pictures)


def _picture(cell: Any, place: Place) -> NDArray[np.uint8]:
    """An encoded picture as (H, W, 3) RGB."""
    from PIL import Image, UnidentifiedImageError

    data = cell.get("bytes") if isinstance(cell, Mapping) else cell
    if not isinstance(data, bytes):
        got = cell.get("path") if isinstance(cell, Mapping) else type(cell).__name__
        hint = "Embed the pictures in the parquet files; paths to other files are not followed."
        raise UnreadableError("an image column holds the pictures' bytes", place=place, got=got, hint=hint)
    try:
        with Image.open(io.BytesIO(data), formats=("PNG", "JPEG", "WEBP", "BMP")) as picture:
            return np.asarray(picture.convert("RGB"), np.uint8)
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise UnreadableError(
            "the picture cannot be decoded", place=place, got=error, code="bad-image"
        ) from error


def _plain(value: Any) -> bool:
    return isinstance(value, (str, int, float, bool))


def _success(episode: EpisodeMeta, table: Any | None) -> bool | None:
    """Our own key, else whether a row of `next.success` is true, else nobody says."""
    said = episode.keys.get(names.EPISODE_SUCCESS)
    if isinstance(said, bool):
        return said if episode.keys.get(names.EPISODE_SUCCESS_KNOWN) is not False else None
    if table is None or not len(table):
        return None
    return bool(np.asarray(rows_of(table[_SUCCESS], Place(demo=episode.name, column=_SUCCESS))).any())


def _ends(meta: LeRobotMeta, features: tuple[SourceFeature, ...]) -> dict[tuple[str, Path], int]:
    """(camera, file) → frames that its episodes need."""
    out: dict[tuple[str, Path], int] = {}
    for camera in (f.name for f in features if f.kind == "video"):
        for episode in meta.episodes:
            try:
                key = (camera, meta.video_file(camera, episode))
                out[key] = max(out.get(key, 0), meta.first_frame(camera, episode) + episode.length)
            except (ValueError, OSError):
                continue  # its own reading says what its metadata lack
    return out
