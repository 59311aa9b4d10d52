"""Episodes as a recording for Rerun (`.rrd`): every row, one entity per episode, stage and column.

What is not here: which episodes, see `trajpipe.pipeline.report_rerun`. Rerun is imported on first use; its
files hold random chunk ids, so that the same input gives other bytes.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core import atomic
from trajpipe.core.episode import Column, Episode, is_image, rows_per_block
from trajpipe.core.errors import MissingExtraError
from trajpipe.report.html_curves import is_drawn

TIMELINE: Final = "row"
MAGIC: Final = b"RRF2"
_QUALITY: Final = 85
_BLOCK_BYTES: Final = 1 << 20


def rerun_sdk() -> Any:
    """Rerun's package.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import rerun
    except ImportError as error:
        hint = "Run `pip install 'trajpipe[viz]'`."
        raise MissingExtraError("a recording for Rerun needs rerun-sdk", hint=hint) from error
    return rerun


class RerunRecording:
    """A recording being written."""

    def __init__(self, stream: Any) -> None:
        """Take an open `rerun.RecordingStream`."""
        self._rerun, self._stream = rerun_sdk(), stream

    def add(self, stage: str, episode: Episode, name: str) -> None:
        """Write an episode under `/<name>/<stage>/<column>`, block by block.

        Args:
            stage: The stage it is of.
            episode: Its columns of numbers and frames are written.
            name: What the episode is called in the recording.

        Raises:
            TrajpipeError: a column cannot be read.
        """
        text = f"task: {episode.task or 'none'}\ntag: {episode.tag}\nsuccess: {episode.success}"
        text += f"\nrecording: {episode.source_file}\ndemo: {episode.source_demo}"
        self._stream.log([name, stage, "facts"], self._rerun.TextDocument(_shown(text)), static=True)
        for path, column in sorted(episode.columns.items()):
            if is_image(column):
                self._send([name, stage, *path.split("/")], column, self._frames)
            elif is_drawn(column):
                self._send([name, stage, *path.split("/")], column, self._scalars)

    def _send(self, parts: list[str], column: Column, form: Any) -> None:
        entity = self._rerun.new_entity_path([_shown(part) for part in parts])
        step = rows_per_block(column, _BLOCK_BYTES)
        for start in range(0, column.shape[0], step):
            rows = column.read(start, min(start + step, column.shape[0]))
            time = self._rerun.TimeColumn(TIMELINE, sequence=np.arange(start, start + len(rows)))
            self._stream.send_columns(entity, indexes=[time], columns=form(rows))

    def _scalars(self, rows: NDArray[Any]) -> Any:
        values = rows.reshape(len(rows), -1).astype(np.float64)
        return self._rerun.Scalars.columns(scalars=values)

    def _frames(self, rows: NDArray[Any]) -> Any:
        kinds = ["image/jpeg"] * len(rows)
        return self._rerun.EncodedImage.columns(blob=[_jpeg(f) for f in rows], media_type=kinds)


@contextmanager
def rerun_recording(target: Path, title: str) -> Iterator[RerunRecording]:
    """A recording that appears at `target` when the block ends well.

    Args:
        target: The `.rrd` file; an older one is replaced.
        title: The application id in Rerun.

    Raises:
        MissingExtraError: Rerun is not installed.
    """
    rerun = rerun_sdk()
    stream = rerun.RecordingStream(_shown(title), recording_id=_shown(title), send_properties=False)
    with atomic.atomic_file(target) as temporary:
        try:
            stream.save(os.fspath(temporary))
            yield RerunRecording(stream)
            stream.flush()
        finally:
            stream.disconnect()


def _shown(text: str) -> str:
    """Text that is UTF-8 and not empty."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "") or "_"


def _jpeg(frame: NDArray[np.uint8]) -> bytes:
    from PIL import Image

    colour = np.repeat(frame, 3, axis=-1) if frame.shape[-1] == 1 else frame[..., :3]
    stream = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(colour)).save(stream, "JPEG", quality=_QUALITY)
    return stream.getvalue()
