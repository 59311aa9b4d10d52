"""Frames of LeRobot videos, decoded in one pass per file and camera; going back seeks once.

Frames are counted, never looked up by time: that is how a v3.0 file tells its episodes apart.
What is not here: which frames belong to an episode. PyAV is imported on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core.episode import check_rows
from trajpipe.core.errors import UnreadableError
from trajpipe.core.findings import Place

MAX_PIXELS: Final = 1 << 28
_THREADS: Final = 2


class VideoFile:
    """One open video; its frames come in order, from wherever the last read ended.

    Attributes:
        path: The file.
        name: What messages call it.
        size: Height and width, of the stream.
        declared: Frames that the container declares; 0 when it does not say.
        passes: How often decoding began: 1, and 1 more for each time of going back.
    """

    def __init__(self, path: Path, name: str) -> None:
        """Open the file and look at its first video stream; nothing is decoded.

        Raises:
            UnreadableError: absent, no video, not finalised, or frames of an absurd size.
        """
        import av

        self.path, self.name, self.passes = path, name, 0
        if not path.is_file():
            raise UnreadableError("the video is missing", place=name, code="missing-file")
        try:
            self._container: Any = av.open(str(path))
        except (av.FFmpegError, OSError, ValueError) as error:
            raise _damaged(name, error) from error
        if not self._container.streams.video:
            self._container.close()
            raise UnreadableError("the file holds no video", place=name, code="no-video")
        self._stream: Any = self._container.streams.video[0]
        context = self._stream.codec_context
        self.size = (int(context.height), int(context.width))
        self.declared = int(self._stream.frames or 0)
        if not 0 < self.size[0] * self.size[1] <= MAX_PIXELS:
            self.close()
            raise UnreadableError("the video has frames of an impossible size", place=name, got=self.size)
        context.thread_count = _THREADS
        self._stream.thread_type = "AUTO"
        self._frames: Iterator[Any] | None = None
        self._next = 0
        self._times: list[int] = []
        self._numbers: dict[int, int] = {}
        self._reformatter: Any = None
        self._errors: tuple[type[Exception], ...] = (av.FFmpegError, OSError, ValueError)

    def read(self, start: int, stop: int) -> NDArray[np.uint8]:
        """Frames [start, stop) of the file, (n, H, W, 3) RGB uint8, top row first.

        Raises:
            UnreadableError: the file ends before (`short-video`), or is damaged.
        """
        out = np.empty((stop - start, *self.size, 3), np.uint8)
        if stop <= start:
            return out
        if self._frames is None or start < self._next:
            self._go_back(start)
        pixels, step = out.data.cast("B"), out[0].nbytes
        filled = 0
        while self._next < stop:
            number, frame = self._decode(stop)
            if number >= start:
                self._rgb(frame, pixels[filled : filled + step])
                filled += step
        return out

    def _go_back(self, start: int) -> None:
        """Begin at the key frame at or before a frame decoded before; at the first frame otherwise."""
        import av

        known = start < len(self._times)
        first_pass = self.passes == 0
        self.passes += 1
        try:
            if not first_pass:
                target = self._times[start] if known else 0
                self._container.seek(target, stream=self._stream, backward=True)
        except (av.FFmpegError, OSError) as error:
            raise _damaged(self.name, error) from error
        self._frames = iter(self._container.decode(self._stream))
        self._next = 0
        if not first_pass:
            self._find(start)

    def _find(self, start: int) -> None:
        """Number the first frame after a seek by its time; decode from the beginning when that cannot be."""
        frame = self._following()
        number = None if frame is None or frame.pts is None else self._numbers.get(int(frame.pts))
        if number is None or number > start:
            self._container.seek(0, stream=self._stream, backward=True)
            self._frames = iter(self._container.decode(self._stream))
            return
        assert self._frames is not None
        self._next, self._frames = number, chain((frame,), self._frames)

    def _decode(self, wanted: int) -> tuple[int, Any]:
        frame = self._following()
        if frame is None:
            raise UnreadableError(
                "the video is shorter than its episodes",
                place=self.name,
                got=f"{self._next} frames",
                expected=f"{wanted} frames at least",
                hint="Fetch the video again; the episode is left out.",
                code="short-video",
            )
        if self._next == len(self._times):
            time = self._next if frame.pts is None else int(frame.pts)
            self._times.append(time)
            self._numbers.setdefault(time, self._next)
        self._next += 1
        return self._next - 1, frame

    def _following(self) -> Any:
        """The next decoded frame; None at the end."""
        assert self._frames is not None
        try:
            return next(self._frames, None)
        except self._errors as error:
            raise _damaged(self.name, error, self._next) from error

    def _rgb(self, frame: Any, out: memoryview) -> None:
        """One decoded frame as RGB into `out`, the H x W x 3 bytes of its place in a block."""
        height, width = self.size
        if (frame.height, frame.width) != self.size:
            place = Place(self.name, row=self._next - 1)
            raise UnreadableError(
                "all frames of a video have one size",
                place=place,
                got=(frame.height, frame.width),
                expected=self.size,
                code="bad-video",
            )
        if self._reformatter is None:
            from av.video.reformatter import VideoReformatter

            self._reformatter = VideoReformatter()
        plane = self._reformatter.reformat(frame, format="rgb24", threads=1).planes[0]
        if plane.line_size == 3 * width:  # small frames cost less to copy than to make arrays of
            out[:] = plane
            return
        lines = np.frombuffer(plane, np.uint8).reshape(height, plane.line_size)
        np.frombuffer(out, np.uint8).reshape(height, 3 * width)[...] = lines[:, : 3 * width]

    def close(self) -> None:
        """Close the file."""
        self._frames = None
        self._container.close()


def _damaged(name: str, error: Exception, row: int | None = None) -> UnreadableError:
    return UnreadableError(
        "the video cannot be decoded: not finalised, truncated, or not a video",
        place=Place(name, row=row),
        got=str(error),
        hint="Fetch the video again.",
        code="bad-video",
    )


@dataclass(frozen=True, slots=True, eq=False)
class VideoColumn:
    """An episode's frames of one camera, (T, H, W, 3) uint8.

    Attributes:
        open: Gives the open file; it may have been closed for another one in between.
        first: The episode's first frame in the file.
        shape: (T, H, W, 3).
        sequential: Reading out of order costs a decoding pass; readers that only peek leave it alone.
    """

    open: Callable[[], VideoFile]
    first: int
    shape: tuple[int, ...]
    sequential: bool = True
    dtype: np.dtype[Any] = field(default_factory=lambda: np.dtype(np.uint8))

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Frames [start, stop) of the episode."""
        check_rows(start, stop, self.shape[0])
        return self.open().read(self.first + start, self.first + stop)
