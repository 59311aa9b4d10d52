"""The files of a v3.0 dataset: packed rows, packed videos, metadata as parquet.

What is not here: packing itself (`trajpipe.export.packs`), rows and frames (`trajpipe.export.writer`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from trajpipe.core import names
from trajpipe.export import metadata
from trajpipe.export.features import BOOKKEEPING, Feature
from trajpipe.export.metadata import META, EpisodeRecord, Summary
from trajpipe.export.options import ExportOptions
from trajpipe.export.packs import EpisodeTable, VideoPack, row_pack, video_pack
from trajpipe.export.statistics import QUANTILES, DatasetStatistics
from trajpipe.export.tables import COMPRESSION, write_parquet

DATA_PATH: Final = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_PATH: Final = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
EPISODES_PATH: Final = META + "/episodes/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
TASKS_PATH: Final = META + "/tasks.parquet"
_STATISTICS: Final = ("min", "max", "mean", "std", "count", *QUANTILES)
_LINE_KEYS: Final = {
    names.EPISODE_SOURCE: pa.string(),
    names.EPISODE_SUCCESS: pa.bool_(),
    names.EPISODE_SUCCESS_KNOWN: pa.bool_(),
    names.EPISODE_SOURCE_FILE: pa.string(),
    names.EPISODE_SOURCE_DEMO: pa.string(),
    names.EPISODE_CONTENT: pa.string(),
    names.EPISODE_SPLIT: pa.string(),
}


class LayoutV3:
    """Writes into a folder that nobody reads yet; episodes end in order of their index.

    Args:
        root: The dataset's folder.
        scratch: Folder for single episodes before they are packed; the caller removes it.
        options: What was asked for.
    """

    quantiles: tuple[str, ...] = tuple(QUANTILES)

    def __init__(self, root: Path, scratch: Path, options: ExportOptions) -> None:
        self._root, self._scratch, self._options = root, scratch, options
        self._rows = row_pack(self._place(DATA_PATH), options.data_mb, options.chunk_size)
        self._videos: dict[str, VideoPack] = {}
        self._where: dict[int, tuple[int, int]] = {}
        self._episodes: EpisodeTable | None = None

    def _place(self, template: str, key: str = "") -> Any:
        return lambda chunk, file: (
            self._root / template.format(chunk_index=chunk, file_index=file, video_key=key)
        )

    def begin(self, features: Sequence[Feature]) -> None:
        """The features are known: make the series of videos and of episode metadata."""
        options = self._options
        for feature in features:
            if feature.kind == "video":
                place = self._place(VIDEO_PATH, feature.name)
                pack = video_pack(place, options.video_mb, options.chunk_size, options.fps)
                self._videos[feature.name] = pack
        pack_of_rows = row_pack(self._place(EPISODES_PATH), options.data_mb, options.chunk_size)
        self._episodes = EpisodeTable(pack_of_rows, episode_schema(features))

    def data(self, index: int, tables: Iterable[pa.Table]) -> None:
        """Append an episode's rows; a scratch file tells their size first."""
        path = self._scratch / "rows.parquet"
        write_parquet(path, tables)
        self._where[index] = self._rows.append(path)
        path.unlink()

    def video(self, key: str, index: int) -> Path:
        """Where an episode's video of a camera is to be written before it is packed."""
        return self._scratch / key / f"{index:06d}.mp4"

    def end_episode(self, record: EpisodeRecord) -> None:
        """All files of an episode are written: pack its videos, add its metadata."""
        chunk, file = self._where.pop(record.index)
        row: dict[str, Any] = {
            **record.line(),
            "data/chunk_index": chunk,
            "data/file_index": file,
            "dataset_from_index": record.first_row,
            "dataset_to_index": record.first_row + record.length,
        }
        for key, pack in self._videos.items():
            path = self.video(key, record.index)
            video_chunk, video_file, start, end = pack.append(path)
            path.unlink()
            row[f"videos/{key}/chunk_index"], row[f"videos/{key}/file_index"] = video_chunk, video_file
            row[f"videos/{key}/from_timestamp"], row[f"videos/{key}/to_timestamp"] = float(start), float(end)
        for name, stats in record.stats.items():
            row |= {f"stats/{name}/{statistic}": value for statistic, value in stats.items()}
        if self._episodes is not None:
            self._episodes.add(row)

    def close(self) -> None:
        """Close all open files."""
        self._rows.close()
        for pack in self._videos.values():
            pack.close()
        if self._episodes is not None:
            self._episodes.close()

    def finish(self, summary: Summary, statistics: DatasetStatistics) -> None:
        """Write what is known at the end only: info, tasks, statistics."""
        self.close()
        write_tasks(self._root / TASKS_PATH, summary.tasks)
        metadata.write_json(self._root / META / "info.json", self._info(summary))
        stats = statistics.all(self.quantiles, count=True)
        metadata.write_json(self._root / META / "stats.json", stats)

    def _info(self, summary: Summary) -> dict[str, Any]:
        options = self._options
        return {
            "codebase_version": options.version,
            "robot_type": options.robot_type,
            "total_episodes": summary.episodes,
            "total_frames": summary.frames,
            "total_tasks": len(summary.tasks),
            "chunks_size": options.chunk_size,
            "data_files_size_in_mb": options.data_mb,
            "video_files_size_in_mb": options.video_mb,
            "fps": metadata.rate(options.fps),
            "splits": dict(summary.splits),
            "data_path": DATA_PATH,
            "video_path": VIDEO_PATH if summary.videos else None,
            "features": metadata.info_features(summary.features, options),
        }


def write_tasks(path: Path, tasks: Sequence[str]) -> None:
    """tasks.parquet as pandas reads it: the text is the index `task`, the column is task_index."""
    import pandas as pd  # 50 MB that only this needs

    frame = pd.DataFrame(
        {"task_index": pd.array(range(len(tasks)), dtype="int64")},
        index=pd.Index(list(tasks), dtype=object, name="task"),
    )
    pq.write_table(pa.Table.from_pandas(frame), path, compression=COMPRESSION)


def episode_schema(features: Sequence[Feature]) -> pa.Schema:
    """Columns of the episodes' metadata; fixed, so that every file of the series has the same ones."""
    whole, real = pa.int64(), pa.float64()
    columns: list[tuple[str, pa.DataType]] = [
        ("episode_index", whole),
        ("tasks", pa.list_(pa.string())),
        ("length", whole),
        *_LINE_KEYS.items(),
        *((f"data/{part}_index", whole) for part in ("chunk", "file")),
        *((f"dataset_{part}_index", whole) for part in ("from", "to")),
    ]
    for feature in features:
        if feature.kind == "video":
            columns += [(f"videos/{feature.name}/{part}_index", whole) for part in ("chunk", "file")]
            columns += [(f"videos/{feature.name}/{part}_timestamp", real) for part in ("from", "to")]
    kinds = {f.name: f.dtype for f in features} | dict(BOOKKEEPING)
    for name, kind in kinds.items():
        columns += [(f"stats/{name}/{statistic}", _statistic(statistic, kind)) for statistic in _STATISTICS]
    columns += [(f"meta/episodes/{part}_index", whole) for part in ("chunk", "file")]
    return pa.schema(columns)


def _statistic(statistic: str, kind: str) -> pa.DataType:
    if statistic == "count":
        return pa.list_(pa.int64())
    if kind in ("video", "image"):
        return pa.list_(pa.list_(pa.list_(pa.float64())))
    counted = statistic in ("min", "max") and ("int" in kind)
    return pa.list_(pa.int64() if counted else pa.float64())
