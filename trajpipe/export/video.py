"""Frames to constant-rate mp4: segments encoded in parallel, muxed in order, the same bytes always.

An h264 segment has an encoder of its own (one thread, closed groups of two frames), so segments of one or
of many episodes run side by side and memory holds a few segments only. SVT-AV1 fills the cores by itself:
one encoder per episode, fed in order. What is not here: which cameras there are, and where files go.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import av
import numpy as np
from av.video.reformatter import VideoReformatter
from numpy.typing import NDArray

from trajpipe.core.errors import StateError
from trajpipe.export.statistics import FrameHistogram

ENCODERS: Final = {"h264": "libx264", "av1": "libsvtav1"}
PIXEL_FORMAT: Final = "yuv420p"
GROUP: Final = 2
_SEGMENT_BYTES: Final = 12 << 20
_IN_FLIGHT_BYTES: Final = 64 << 20
# Whole HDF5 chunks of L2's images (16 frames): a chunk is never inflated twice.
_CHUNK_FRAMES: Final = 16
_MOST_FRAMES: Final = 256
_GLOBAL_HEADER: Final = 1 << 22


@dataclass(frozen=True, slots=True)
class VideoSettings:
    """How frames are encoded.

    Attributes:
        codec: `h264` or `av1`.
        fps: Exact rate.
        crf: Constant rate factor.
        preset: Encoder preset.
    """

    codec: str
    fps: Fraction
    crf: int
    preset: str

    def options(self) -> dict[str, str]:
        """Encoder options; no B-frames: a one-frame episode with them crashes LeRobot's v3 converter."""
        common = {"crf": str(self.crf), "g": str(GROUP), "preset": self.preset}
        return common | ({"bf": "0", **_reproducible_assembly()} if self.codec == "h264" else {})


@cache
def _reproducible_assembly() -> dict[str, str]:
    """Keep x264 off AVX-512: under some hypervisors one encode in 500 came out a few bits different.

    AVX2 gives the bytes of x264's plain C, always. Set only where AVX-512 is: the option also switches
    instructions on, whatever the processor has.
    """
    cpu = Path("/proc/cpuinfo")
    wide = cpu.is_file() and "avx512" in cpu.read_text(encoding="utf-8", errors="replace")
    return {"x264-params": "asm=avx2"} if wide else {}


def segment_frames(height: int, width: int) -> int:
    """Frames per segment: a multiple of 16 near 12 MiB of RGB, so always an even number."""
    fit = _SEGMENT_BYTES // (3 * height * width) // _CHUNK_FRAMES * _CHUNK_FRAMES
    return max(_CHUNK_FRAMES, min(fit, _MOST_FRAMES))


def rgb(frames: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Frames (n, H, W, 3), contiguous: grey is repeated, alpha is dropped."""
    channels = frames.shape[-1]
    if channels == 1:
        return np.repeat(frames, 3, axis=-1)
    return np.ascontiguousarray(frames[..., :3])


@dataclass(slots=True)
class Video:
    """One mp4 in the making.

    Attributes:
        path: The file.
        settings: How frames are encoded.
        size: (height, width).
        finished: Called with the sampled frames' histogram when the file is closed.
    """

    path: Path
    settings: VideoSettings
    size: tuple[int, int]
    finished: Callable[[FrameHistogram], None]
    frames: int = 0
    histogram: FrameHistogram = field(default_factory=FrameHistogram)
    _container: Any = None
    _stream: Any = None
    _encoder: Any = None
    _header: bytes = b""

    def open(self) -> None:
        """Open the file and a bare stream: whoever encodes, it takes packets only."""
        options = {"fflags": "+bitexact"}
        self._container = av.open(str(self.path), "w", format="mp4", container_options=options)
        height, width = self.size
        name, fps = ENCODERS[self.settings.codec], self.settings.fps
        self._stream = self._container.add_mux_stream(name, rate=fps, width=width, height=height)
        self._stream.time_base = 1 / fps

    def encode_in_order(self, frames: NDArray[np.uint8], first: int, *, last: bool) -> list[Any]:
        """Packets of the one AV1 encoder of this video, made, fed and freed by the calling thread.

        Two SVT-AV1 encoders at once can wait for each other for ever, so there is never a second one.
        """
        if self._encoder is None:
            # SVT-AV1 tells its life story on stderr unless this is set before its first use.
            os.environ.setdefault("SVT_LOG", "1")
            self._encoder = _encoder(self.size, self.settings)
        packets = _encode(self._encoder, frames, first, self.settings.fps)
        if last:
            packets += list(self._encoder.encode(None))
            self._encoder = None
        return packets

    def mux(self, packets: list[Any], header: bytes) -> None:
        """Append a segment's packets.

        Args:
            packets: In order.
            header: The h264 encoder's parameter sets, which go before the first packet: the file's own header
                is made of them. Empty for AV1, whose packets carry theirs.

        Raises:
            StateError: the header is not the first segment's.
        """
        if self._header and header != self._header:
            raise StateError("segments of one video must share the encoder's header", place=self.path.name)
        if header and not self._header:
            packets = [_prefixed(packets[0], header), *packets[1:]]
        self._header = header
        for packet in packets:
            packet.stream = self._stream
            self._container.mux(packet)

    def close(self) -> None:
        """Finish the file; call once, also on failure."""
        if self._container is not None:
            self._container.close()
            self._container = None


def _prefixed(packet: Any, header: bytes) -> Any:
    out = av.Packet(header + bytes(packet))
    out.pts, out.dts, out.duration = packet.pts, packet.dts, packet.duration
    out.time_base, out.is_keyframe = packet.time_base, packet.is_keyframe
    return out


def _encode(encoder: Any, frames: NDArray[np.uint8], first: int, fps: Fraction) -> list[Any]:
    """Packets of frames (n, H, W, 3) whose first has index `first` in the episode."""
    convert, packets = VideoReformatter(), list[Any]()
    for i, rows in enumerate(frames):
        picture = convert.reformat(
            av.VideoFrame.from_numpy_buffer(rows, "rgb24"), format=PIXEL_FORMAT, threads=1
        )
        picture.pts = first + i
        picture.time_base = 1 / fps
        packets += encoder.encode(picture)
    return packets


def _encoder(size: tuple[int, int], settings: VideoSettings) -> Any:
    context: Any = av.CodecContext.create(ENCODERS[settings.codec], "w")
    context.height, context.width = size
    context.pix_fmt = PIXEL_FORMAT
    context.framerate, context.time_base = settings.fps, 1 / settings.fps
    context.options = settings.options()
    if settings.codec == "h264":
        context.thread_count = 1
        context.flags |= _GLOBAL_HEADER
    return context


def encode_segment(frames: NDArray[np.uint8], first: int, settings: VideoSettings) -> tuple[list[Any], bytes]:
    """An independent h264 segment: its packets and the encoder's header.

    Args:
        frames: (n, H, W, 3) uint8.
        first: Index of the first frame in the episode.
        settings: How to encode.
    """
    height, width = frames.shape[1:3]
    context = _encoder((height, width), settings)
    packets = _encode(context, frames, first, settings.fps)
    return packets + list(context.encode(None)), bytes(context.extradata or b"")


@dataclass(slots=True)
class _Piece:
    """A segment in flight; `video` closes after its last one."""

    video: Video
    result: Future[tuple[list[Any], bytes, FrameHistogram]]
    last: bool
    size: int


class VideoPool:
    """Encodes segments of many videos on a few threads; videos finish in the order in which they began.

    Args:
        settings: How frames are encoded.
        workers: Threads.
    """

    def __init__(self, settings: VideoSettings, workers: int) -> None:
        self._settings = settings
        self._threads = ThreadPoolExecutor(
            1 if settings.codec == "av1" else workers, thread_name_prefix="encode"
        )
        self._most = workers + 1
        self._pieces: deque[_Piece] = deque()
        self._bytes = 0
        self._open: list[Video] = []

    def __enter__(self) -> VideoPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.drain()
        finally:
            self._threads.shutdown(wait=True, cancel_futures=True)
            for video in self._open:
                video.close()

    def begin(self, path: Path, size: tuple[int, int], finished: Callable[[FrameHistogram], None]) -> Video:
        """Start a video; its frames follow through `add`."""
        path.parent.mkdir(parents=True, exist_ok=True)
        video = Video(path, self._settings, size, finished)
        self._open.append(video)
        video.open()
        return video

    def add(self, video: Video, frames: NDArray[np.uint8], sampled: NDArray[np.int64], *, last: bool) -> None:
        """Queue the next segment; waits while enough are in flight.

        Args:
            video: From `begin`.
            frames: (n, H, W, 1|3|4) uint8, not written into afterwards; n is even but in the last segment.
            sampled: Indices within `frames` that the statistics use.
            last: True with the video's last segment.
        """
        if video.frames % GROUP:
            raise StateError("only the last segment may have an odd number of frames", place=video.path.name)
        while self._pieces and (
            len(self._pieces) >= self._most or self._bytes + frames.nbytes > _IN_FLIGHT_BYTES
        ):
            self._take()
        result = self._threads.submit(_work, video, frames, sampled, video.frames, last)
        self._pieces.append(_Piece(video, result, last, frames.nbytes))
        self._bytes += frames.nbytes
        video.frames += len(frames)

    def drain(self) -> None:
        """Wait for everything that is in flight."""
        while self._pieces:
            self._take()

    def _take(self) -> None:
        piece = self._pieces.popleft()
        packets, header, histogram = piece.result.result()
        self._bytes -= piece.size
        piece.video.mux(packets, header)
        piece.video.histogram.merge(histogram)
        if piece.last:
            piece.video.close()
            self._open.remove(piece.video)
            piece.video.finished(piece.video.histogram)


def _work(
    video: Video, frames: NDArray[np.uint8], sampled: NDArray[np.int64], first: int, last: bool
) -> tuple[list[Any], bytes, FrameHistogram]:
    histogram = FrameHistogram()
    pixels = rgb(frames)
    histogram.add_some(pixels, sampled)
    if video.settings.codec == "av1":
        return video.encode_in_order(pixels, first, last=last), b"", histogram
    return *encode_segment(pixels, first, video.settings), histogram
