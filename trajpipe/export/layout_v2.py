"""The files of a v2.0 or v2.1 dataset: one parquet file and one mp4 per camera for each episode.

What is not here: the rows and frames themselves, see `trajpipe.export.writer`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, TextIO

import pyarrow as pa

from trajpipe.export import metadata
from trajpipe.export.features import Feature
from trajpipe.export.metadata import META, EpisodeRecord, Summary
from trajpipe.export.options import ExportOptions
from trajpipe.export.statistics import DatasetStatistics
from trajpipe.export.tables import write_parquet

DATA_PATH: Final = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"
VIDEO_PATH: Final = "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4"


class LayoutV2:
    """Writes into a folder that nobody reads yet; episodes end in order of their index.

    Args:
        root: The dataset's folder.
        options: What was asked for.
    """

    quantiles: tuple[str, ...] = ()

    def __init__(self, root: Path, options: ExportOptions) -> None:
        self._root, self._options = root, options
        (root / META).mkdir(parents=True, exist_ok=True)
        self._episodes = self._open("episodes.jsonl")
        self._stats = self._open("episodes_stats.jsonl") if options.version == "v2.1" else None

    def begin(self, features: Sequence[Feature]) -> None:
        """The features are known; nothing depends on them here."""

    def _open(self, name: str) -> TextIO:
        return (self._root / META / name).open("w", encoding="utf-8", newline="\n")

    def _place(self, template: str, index: int, key: str = "") -> Path:
        chunk = index // self._options.chunk_size
        return self._root / template.format(episode_chunk=chunk, episode_index=index, video_key=key)

    def data(self, index: int, tables: Iterable[pa.Table]) -> None:
        """Write an episode's rows."""
        write_parquet(self._place(DATA_PATH, index), tables)

    def video(self, key: str, index: int) -> Path:
        """Where an episode's video of a camera is to be written."""
        return self._place(VIDEO_PATH, index, key)

    def end_episode(self, record: EpisodeRecord) -> None:
        """All files of an episode are written: add its lines."""
        self._episodes.write(metadata.line(record.line()))
        if self._stats is not None:
            stats = {"episode_index": record.index, "stats": record.stats}
            self._stats.write(metadata.line(stats))

    def close(self) -> None:
        """Close the line files."""
        self._episodes.close()
        if self._stats is not None:
            self._stats.close()

    def finish(self, summary: Summary, statistics: DatasetStatistics) -> None:
        """Write what is known at the end only: info, tasks, statistics, modality."""
        self.close()
        meta = self._root / META
        lines = [metadata.line({"task_index": i, "task": text}) for i, text in enumerate(summary.tasks)]
        metadata.write_text(meta / "tasks.jsonl", "".join(lines))
        metadata.write_json(meta / "info.json", self._info(summary))
        metadata.write_json(meta / "modality.json", metadata.modality(summary.features, self._options))
        metadata.write_json(meta / "stats.json", self._statistics(statistics))

    def _statistics(self, statistics: DatasetStatistics) -> dict[str, Any]:
        """v2.1: for GR00T alone. v2.0: LeRobot reads it too and wants every feature; GR00T asks by name."""
        if self._options.version == "v2.1" or self._options.gr00t:
            return statistics.gr00t()
        return statistics.all((), count=False) | statistics.gr00t()

    def _info(self, summary: Summary) -> dict[str, Any]:
        options, videos = self._options, summary.videos
        return {
            "codebase_version": options.version,
            "robot_type": options.robot_type,
            "total_episodes": summary.episodes,
            "total_frames": summary.frames,
            "total_tasks": len(summary.tasks),
            "total_videos": summary.episodes * len(videos),
            "total_chunks": -(-summary.episodes // options.chunk_size),
            "chunks_size": options.chunk_size,
            "fps": metadata.rate(options.fps),
            "splits": dict(summary.splits),
            "data_path": DATA_PATH,
            "video_path": VIDEO_PATH if videos else None,
            "features": metadata.info_features(summary.features, options),
        }
