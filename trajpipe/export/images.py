"""Camera frames as PNG bytes in the rows themselves (LeRobot's `image` features), encoded in parallel.

What is not here: videos, see `trajpipe.export.video`.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from PIL import Image

from trajpipe.core import jsontext
from trajpipe.core.episode import Episode
from trajpipe.export.features import BOOKKEEPING, Feature
from trajpipe.export.statistics import FrameHistogram, sampled_rows
from trajpipe.export.tables import arrow
from trajpipe.export.video import rgb, segment_frames

# Lossless at every level; 1 is five times as fast as the default for a few per cent of size.
_COMPRESSION: Final = 1
_STRUCT: Final = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def png(frame: NDArray[np.uint8]) -> bytes:
    """A frame (H, W, 3) as PNG."""
    buffer = io.BytesIO()
    Image.fromarray(frame).save(buffer, "PNG", compress_level=_COMPRESSION)
    return buffer.getvalue()


def image_tables(
    episode: Episode,
    features: Sequence[Feature],
    rows: Mapping[str, NDArray[Any]],
    histograms: Mapping[str, FrameHistogram],
    workers: int,
) -> Iterator[pa.Table]:
    """The episode's rows with PNG columns, some rows at a time.

    Args:
        episode: Where the frames come from.
        features: User features in order.
        rows: Feature or bookkeeping column → (T, n).
        histograms: Camera → where sampled frames are counted.
        workers: Threads.
    """
    cameras = [f for f in features if f.kind == "image"]
    step = min(segment_frames(f.shape[0], f.shape[1]) for f in cameras)
    sampled = sampled_rows(episode.length)
    metadata = {
        "huggingface": jsontext.dumps({"info": {"features": hugging_face(features)}}, sort_keys=False)
    }
    order = [*(f.name for f in features), *BOOKKEEPING]
    with ThreadPoolExecutor(workers, thread_name_prefix="encode") as threads:
        for start in range(0, episode.length, step):
            stop = min(start + step, episode.length)
            inside = sampled[np.searchsorted(sampled, start) : np.searchsorted(sampled, stop)] - start
            columns = {name: arrow(values[start:stop]) for name, values in rows.items()}
            for camera in cameras:
                pixels = rgb(episode.columns[camera.parts[0][0]].read(start, stop))
                histograms[camera.name].add_some(pixels, inside)
                columns[camera.name] = _column(list(threads.map(png, pixels)), start)
            yield pa.table({name: columns[name] for name in order}).replace_schema_metadata(metadata)


def _column(encoded: list[bytes], start: int) -> pa.Array:
    paths = [f"frame_{start + i:06d}.png" for i in range(len(encoded))]
    return pa.array([{"bytes": b, "path": p} for b, p in zip(encoded, paths, strict=True)], _STRUCT)


def hugging_face(features: Sequence[Feature]) -> dict[str, Any]:
    """The columns as the `datasets` package describes them; without it images load as plain structs.

    `Sequence`, not the newer `List`, which the versions that LeRobot pins do not know.
    """
    out: dict[str, Any] = {}
    for feature in features:
        value: dict[str, Any] = {"dtype": feature.dtype, "_type": "Value"}
        if feature.kind == "image":
            out[feature.name] = {"_type": "Image"}
        elif feature.shape == (1,):
            out[feature.name] = value
        else:
            out[feature.name] = {"feature": value, "length": feature.shape[0], "_type": "Sequence"}
    return out | {name: {"dtype": kind, "_type": "Value"} for name, kind in BOOKKEEPING.items()}
