"""Episodes and exports that the tests of this folder share: colour-coded frames, telling rows.

What is not here: tests, and lifelike recordings (`trajpipe.testing`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from trajpipe.core.episode import ArrayColumn, Episode
from trajpipe.export import ExportOptions, ExportResult, export_lerobot

FPS = Fraction(20)
SIZE = (64, 96)


def colours(length: int, episode: int = 0) -> NDArray[np.uint8]:
    """A colour per frame (T, 3) that tells episode and frame apart after lossy encoding."""
    rows = np.arange(length)
    return np.stack(
        [
            40 + (rows * 37) % 180,
            40 + (rows * 11 + 60 * episode) % 180,
            np.full(length, 40 + 30 * (episode % 6)),
        ],
        axis=-1,
    ).astype(np.uint8)


def frames(length: int, episode: int = 0, size: tuple[int, int] = SIZE) -> NDArray[np.uint8]:
    """Frames (T, H, W, 3) of one colour each, with a white block in the top left corner."""
    out = np.empty((length, *size, 3), np.uint8)
    out[:] = colours(length, episode)[:, None, None]
    out[:, : size[0] // 4, : size[1] // 4] = 255
    return out


def episode(index: int = 0, length: int = 30, **changes: Any) -> Episode:
    """An episode with two state terms, a reward, one camera `front`; `columns` adds or (None) takes away."""
    rng = np.random.default_rng([7, index])
    columns: dict[str, Any] = {
        "actions": rng.normal(size=(length, 7)).astype(np.float32),
        "obs/joint_pos": np.cumsum(rng.normal(size=(length, 9)), axis=0).astype(np.float32),
        "obs/gripper": rng.uniform(size=(length, 1)).astype(np.float32),
        "obs/front": frames(length, index),
        "rewards": np.linspace(0, 1, length),
    }
    columns |= changes.pop("columns", {})
    fields: dict[str, Any] = {
        "name": f"demo_{index}",
        "length": length,
        "task": "pick up the cube",
        "tag": "scripted",
        "success": True,
        "source_file": "scripted_lift.hdf5",
        "source_demo": f"demo_{index}",
        "content_sha256": f"{index:064x}",
    }
    made = {path: ArrayColumn(values) for path, values in columns.items() if values is not None}
    return Episode(columns=made, **fields | changes)


def options(**changes: Any) -> ExportOptions:
    """Options at 20 fps."""
    return ExportOptions(**{"fps": FPS, "robot_type": "panda", **changes})


def export(root: Path, episodes: Iterable[Episode], **changes: Any) -> ExportResult:
    """Export into a folder."""
    return export_lerobot(episodes, root, options(**changes))


def info_of(root: Path) -> dict[str, Any]:
    """info.json."""
    value: dict[str, Any] = json.loads((root / "meta/info.json").read_text(encoding="utf-8"))
    return value


def lines(root: Path, name: str) -> list[dict[str, Any]]:
    """A jsonl file of meta/."""
    return [json.loads(line) for line in (root / "meta" / name).read_text(encoding="utf-8").splitlines()]


def table(root: Path, index: int) -> pa.Table:
    """The rows of an episode of a v2 dataset."""
    return pq.read_table(root / f"data/chunk-000/episode_{index:06d}.parquet")


def video(root: Path, index: int, camera: str = "front") -> Path:
    """The video of an episode of a v2 dataset."""
    return root / f"videos/chunk-000/observation.images.{camera}/episode_{index:06d}.mp4"


def decoded(path: Path) -> tuple[NDArray[np.uint8], list[Fraction]]:
    """All frames (T, H, W, 3) of a video and the times at which they are shown, seconds."""
    with av.open(str(path)) as container:
        found = [
            (f.to_ndarray(format="rgb24"), Fraction(f.pts or 0) * Fraction(f.time_base or 0))
            for f in container.decode(video=0)
        ]
    return np.stack([f for f, _ in found]).astype(np.uint8), [t for _, t in found]


def nearest(frame: NDArray[np.uint8], palette: NDArray[np.uint8]) -> int:
    """Index of the palette's colour nearest to the frame's lower right quarter."""
    height, width = frame.shape[:2]
    seen = frame[height // 2 :, width // 2 :].reshape(-1, 3).mean(axis=0)
    return int(np.abs(palette.astype(float) - seen).sum(axis=1).argmin())


def tree(root: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def lengths_of(numbers: Sequence[int]) -> list[Episode]:
    """Episodes of these lengths."""
    return [episode(i, n) for i, n in enumerate(numbers)]


def sha256(values: NDArray[Any]) -> str:
    """Hex SHA-256 of an array's bytes."""
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()
