"""LeRobot folders that the importer's tests share, written with pyarrow and PyAV alone: no exporter of ours.

Every frame's colour tells its episode and row. Reading them through the source, too. What is not here: tests.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from trajpipe.core.episode import Description, Episode, whole
from trajpipe.core.findings import Finding
from trajpipe.core.ledger import Rejection
from trajpipe.sources.base import ReadOptions, source

CAMERA = "observation.images.front"
SIZE = (32, 48)
FPS = 20
TASKS = ("pick", "pick ", "立方体")


def colour(episode: int, row: int) -> tuple[int, int, int]:
    """The colour of a frame."""
    return 40 + (row * 37) % 180, 40 + (episode * 53) % 180, 40 + (row // 5 * 29) % 180


def frame(episode: int, row: int, size: tuple[int, int] = SIZE) -> NDArray[np.uint8]:
    """A frame of one colour, its top rows white."""
    out = np.empty((*size, 3), np.uint8)
    out[:] = colour(episode, row)
    out[: size[0] // 4] = 255
    return out


def write_video(path: Path, frames: Sequence[NDArray[np.uint8]], fps: int = FPS) -> Path:
    """An h264 file of these frames, a key frame every 10."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("libx264", rate=fps, options={"crf": "10", "g": "10", "bf": "2"})
        stream.height, stream.width, stream.pix_fmt = *frames[0].shape[:2], "yuv420p"
        for i, picture in enumerate(frames):
            shown: Any = av.VideoFrame.from_ndarray(picture, format="rgb24")
            shown.pts, shown.time_base = i, Fraction(1, fps)
            container.mux(stream.encode(shown))
        container.mux(stream.encode())
    return path


@dataclass
class Folder:
    """What to write.

    Attributes:
        lengths: Rows of each episode.
        version: `v2.0`, `v2.1` or `v3.0`.
        videos: Write the camera.
        tasks: Task index of each row of each episode; all 0 when None.
        extra: Feature → (spec, (T,) or (T, n) values of all rows).
        keys: Further keys of each episode.
        order: v3: episode indices in the order of their frames in the video.
    """

    lengths: Sequence[int] = (7, 4, 5)
    version: str = "v2.1"
    videos: bool = True
    tasks: Sequence[Sequence[int]] | None = None
    extra: dict[str, tuple[dict[str, Any], Any]] = field(default_factory=dict)
    keys: Sequence[dict[str, Any]] = ()
    order: Sequence[int] | None = None
    info: dict[str, Any] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """Rows of all episodes."""
        return sum(self.lengths)

    def state(self) -> NDArray[np.float32]:
        """(total, 3)."""
        return np.random.default_rng(3).normal(size=(self.total, 3)).astype(np.float32)

    def action(self) -> NDArray[np.float32]:
        """(total, 2)."""
        return np.random.default_rng(4).normal(size=(self.total, 2)).astype(np.float32)

    def table(self) -> pa.Table:
        """All rows."""
        lengths = list(self.lengths)
        tasks = [t for row in self.tasks for t in row] if self.tasks else [0] * self.total
        columns: dict[str, Any] = {
            "observation.state": pa.array(self.state().tolist(), pa.list_(pa.float32())),
            "action": pa.array(self.action().tolist(), pa.list_(pa.float32(), 2)),
            "timestamp": np.concatenate([np.arange(n) / FPS for n in lengths]).astype(np.float32),
            "frame_index": np.concatenate([np.arange(n) for n in lengths]),
            "episode_index": np.repeat(np.arange(len(lengths)), lengths),
            "index": np.arange(self.total),
            "task_index": np.array(tasks, np.int64),
        }
        columns |= {name: values for name, (_, values) in self.extra.items()}
        return pa.table(columns)

    def write(self, root: Path) -> Path:
        """Write the folder."""
        (root / "meta").mkdir(parents=True)
        features: dict[str, Any] = {
            "observation.state": {"dtype": "float32", "shape": [3], "names": ["a", "b", "c"]},
            "action": {"dtype": "float32", "shape": [2], "names": None},
        }
        features |= {name: spec for name, (spec, _) in self.extra.items()}
        if self.videos:
            features[CAMERA] = {
                "dtype": "video",
                "shape": [*SIZE, 3],
                "names": ["height", "width", "channels"],
            }
        for name in ("timestamp", "frame_index", "episode_index", "index", "task_index"):
            features[name] = {
                "dtype": "float32" if name == "timestamp" else "int64",
                "shape": [1],
                "names": None,
            }
        info: dict[str, Any] = {
            "codebase_version": self.version,
            "robot_type": "arm",
            "total_episodes": len(self.lengths),
            "total_frames": self.total,
            "fps": FPS,
            "splits": {"train": f"0:{len(self.lengths)}"},
            "features": features,
        }
        (root / "meta/info.json").write_text(json.dumps(info | self.info), "utf-8")
        (self._write_v3 if self.version == "v3.0" else self._write_v2)(root)
        return root

    def meta_rows(self) -> list[dict[str, Any]]:
        """episode_index, tasks, length and the further keys of each episode."""
        rows: list[dict[str, Any]] = []
        for i, n in enumerate(self.lengths):
            used = sorted(set(self.tasks[i])) if self.tasks else [0]
            keys = self.keys[i] if self.keys else {}
            rows.append({"episode_index": i, "tasks": [TASKS[t] for t in used], "length": n, **keys})
        return rows

    def _write_v2(self, root: Path) -> None:
        table, start = self.table(), 0
        for i, n in enumerate(self.lengths):
            path = rows_of(root, i)
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table.slice(start, n), path)
            start += n
            if self.videos:
                write_video(video_of(root, i), [frame(i, t) for t in range(n)])
        write_lines(root / "meta/episodes.jsonl", self.meta_rows())
        write_lines(root / "meta/tasks.jsonl", [{"task_index": i, "task": t} for i, t in enumerate(TASKS)])

    def _write_v3(self, root: Path) -> None:
        data = root / "data/chunk-000/file-000.parquet"
        data.parent.mkdir(parents=True)
        pq.write_table(self.table(), data, row_group_size=6)
        order = list(self.order or range(len(self.lengths)))
        starts, frames = dict[int, int](), list[NDArray[np.uint8]]()
        for i in order:
            starts[i] = len(frames)
            frames += [frame(i, t) for t in range(self.lengths[i])]
        if self.videos:
            write_video(root / f"videos/{CAMERA}/chunk-000/file-000.mp4", frames)
        offsets = np.concatenate([[0], np.cumsum(self.lengths)]).tolist()
        rows = []
        for i, row in enumerate(self.meta_rows()):
            row |= {"data/chunk_index": 0, "data/file_index": 7}  # wrong, as after a rollover
            row |= {"dataset_from_index": offsets[i], "dataset_to_index": offsets[i + 1]}
            if self.videos:
                row |= {f"videos/{CAMERA}/chunk_index": 0, f"videos/{CAMERA}/file_index": 0}
                row |= {f"videos/{CAMERA}/from_timestamp": max(0.0, starts[i] / FPS - 1e-9)}
            rows.append(row | {"stats/action/mean": [0.0, 0.0]})
        path = root / "meta/episodes/chunk-000/file-000.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows), path)
        tasks = pa.table({"task_index": list(range(len(TASKS))), "__index_level_0__": list(TASKS)})
        pq.write_table(tasks, root / "meta/tasks.parquet")


def write_lines(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """A JSON-lines file."""
    path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows), "utf-8")


def rows_of(root: Path, index: int) -> Path:
    """A v2 episode's parquet file."""
    return root / f"data/chunk-000/episode_{index:06d}.parquet"


def video_of(root: Path, index: int) -> Path:
    """A v2 episode's video."""
    return root / f"videos/chunk-000/{CAMERA}/episode_{index:06d}.mp4"


def edit_info(root: Path, **changes: Any) -> None:
    """Change keys of info.json."""
    path = root / "meta/info.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | changes), "utf-8")


def assert_frames(found: NDArray[Any], episode: int, first: int = 0) -> None:
    """Frames are those of an episode from a row on, top row first, RGB."""
    for i, picture in enumerate(found):
        assert picture[: SIZE[0] // 8].min() > 235, "the white rows are on top"
        seen = picture[SIZE[0] // 2 :].reshape(-1, 3).mean(axis=0)
        np.testing.assert_allclose(seen, colour(episode, first + i), atol=8, err_msg=f"{episode}:{first + i}")


def described(root: Path, **options: Any) -> Description:
    """What the source says of a folder."""
    return source("lerobot").describe(root, ReadOptions(sha256="0" * 64, **options))


def items(root: Path, found: list[Finding] | None = None, **options: Any) -> Iterator[Episode | Rejection]:
    """Episodes and rejections, one by one: columns are valid until the next."""
    report = (found if found is not None else []).append
    return source("lerobot").episodes(root, ReadOptions(sha256="0" * 64, report=report, **options))


def facts(root: Path, **options: Any) -> list[Any]:
    """Episodes (their arrays read while valid, cameras left out) and rejections."""
    out: list[Any] = []
    for item in items(root, **options):
        if isinstance(item, Episode):
            arrays = {p: whole(c) for p, c in item.columns.items() if len(c.shape) < 4}
            out.append((item, arrays))
        else:
            out.append(item)
    return out


def codes(found: Any) -> list[str]:
    """Codes of findings."""
    return [f.code for f in found]
