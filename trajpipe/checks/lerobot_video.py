"""Rules about videos: every file decoded once with PyAV, frames counted and compared with the metadata.

What is not here: statistics (`lerobot_stats`) and equality with L2 (`lerobot_l2`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import av
import numpy as np
from av.video.reformatter import VideoReformatter
from numpy.typing import NDArray

from trajpipe.checks.lerobot_folder import EpisodeLine, LeRobotFolder, folder_of
from trajpipe.checks.lerobot_meta import STAGE, error
from trajpipe.checks.registry import Subject, check
from trajpipe.core.findings import Finding, Findings, Place, Severity

_OPENCV_READS: Final = ("h264", "mpeg4", "hevc", "vp9")
_MOST_SAMPLED: Final = 32


@dataclass(slots=True)
class Frames:
    """Sums over decoded frames of one camera and episode, per channel.

    Attributes:
        number: Frames summed.
        pixels: Pixels per channel in all.
        total: (3,) sum of values.
        squares: (3,) sum of squares.
    """

    number: int = 0
    pixels: float = 0
    total: NDArray[Any] = field(default_factory=lambda: np.zeros(3, np.int64))
    squares: NDArray[Any] = field(default_factory=lambda: np.zeros(3, np.int64))

    def add(self, frame: NDArray[np.uint8]) -> None:
        """Add a frame (H, W, 3); large ones thinned as LeRobot does."""
        largest = max(frame.shape[:2])
        step = int(largest / 150) if largest >= 300 else 1
        values = frame[::step, ::step].reshape(-1, 3).astype(np.int64)
        self.number += 1
        self.pixels += len(values)
        self.total += values.sum(axis=0)
        self.squares += (values * values).sum(axis=0)

    @classmethod
    def joined(cls, parts: Sequence[Frames], weights: Sequence[int]) -> Frames:
        """All of them together, each standing for so many frames as its weight says."""
        out = cls()
        for part, weight in zip(parts, weights, strict=True):
            share = weight / part.number
            out.number += part.number
            out.pixels += part.pixels * share
            out.total = out.total + part.total * share
            out.squares = out.squares + part.squares * share
        return out

    @property
    def mean(self) -> NDArray[np.float64]:
        """(3,) in 0..1."""
        value: NDArray[np.float64] = self.total / self.pixels / 255
        return value

    @property
    def std(self) -> NDArray[np.float64]:
        """(3,) in 0..1."""
        mean = self.total / self.pixels
        spread: NDArray[np.float64] = np.sqrt(np.maximum(0, self.squares / self.pixels - mean**2)) / 255
        return spread


@dataclass(slots=True)
class VideoScan:
    """What decoding every video found.

    Attributes:
        findings: All findings.
        frames: (camera, episode) → sums of sampled frames.
        files: Files decoded.
        total: Files that the metadata name.
        counted: Frames decoded.
    """

    findings: Findings = field(default_factory=Findings)
    frames: dict[tuple[str, int], Frames] = field(default_factory=dict)
    files: int = 0
    total: int = 0
    counted: int = 0


@dataclass(frozen=True, slots=True)
class Span:
    """An episode's frames [first, first + length) in a file."""

    episode: EpisodeLine
    first: int


def sampled_count(length: int) -> int:
    """How many frames LeRobot's statistics use of an episode."""
    return max(min(length, 100), min(int(length**0.75), 10_000))


def spans_of(folder: LeRobotFolder, camera: str) -> dict[Path, list[Span]]:
    """File → the spans of the episodes in it, in order."""
    out: dict[Path, list[Span]] = {}
    fps = folder.fps or Fraction(1)
    for episode in folder.episodes:
        start = episode.keys.get(f"videos/{camera}/from_timestamp", 0.0) if folder.layout == "v3" else 0.0
        first = round(float(start) * float(fps)) if isinstance(start, (int, float)) else 0
        out.setdefault(folder.video_file(camera, episode), []).append(Span(episode, first))
    return out


def videos_of(subject: Subject) -> VideoScan:
    """The decoding pass over the subject's videos, made once."""
    scan: VideoScan = subject.fact("lerobot-videos", lambda: _scan(folder_of(subject)))
    return scan


def _scan(folder: LeRobotFolder) -> VideoScan:
    scan = VideoScan()
    for camera in folder.cameras:
        for path, spans in spans_of(folder, camera).items():
            scan.total += 1
            name = folder.relative(path)
            if not path.is_file():
                scan.findings.add(error("lerobot-video", "the video is missing", Place(name), "no such file"))
                continue
            cut = box_problem(path)
            if cut is not None:
                message = "the video is not finalised: its writer was stopped, or the file was cut"
                scan.findings.add(error("lerobot-video", message, Place(name, column=camera), cut))
                continue
            try:
                _scan_file(scan, folder, camera, path, spans)
            except (av.FFmpegError, OSError, ValueError, IndexError) as problem:
                message = "the video cannot be decoded"
                scan.findings.add(error("lerobot-video", message, Place(name, column=camera), problem))
    return scan


def box_problem(path: Path) -> str | None:
    """What is wrong with the mp4's top-level boxes; None when they fill the file and hold an index.

    A decoder does not notice a few bytes that are missing at the end.
    """
    size, kinds, start = path.stat().st_size, list[str](), 0
    with path.open("rb") as file:
        while start < size:
            file.seek(start)
            head = file.read(16)
            if len(head) < 8:
                return f"{size - start} bytes after the last box"
            length, kind = int.from_bytes(head[:4], "big"), head[4:8].decode("latin-1")
            length = int.from_bytes(head[8:16], "big") if length == 1 else length or size - start
            if length < 8 or start + length > size:
                return f"box {kind!r} at byte {start} ends at {start + length}, the file at {size}"
            kinds.append(kind)
            start += length
    return None if "moov" in kinds else f"no index (moov) among the boxes {', '.join(kinds) or 'none'}"


def _scan_file(scan: VideoScan, folder: LeRobotFolder, camera: str, path: Path, spans: list[Span]) -> None:
    name = folder.relative(path)
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        scan.findings.extend(_stream_findings(folder, camera, stream, name))
        decoded = _decode(scan, container, camera, spans)
    scan.files += 1
    scan.counted += len(decoded.times)
    scan.findings.extend(_count_findings(spans, decoded, name))
    if folder.fps is not None:
        scan.findings.extend(_time_findings(folder.fps, decoded, name))


@dataclass(slots=True)
class _Decoded:
    """What decoding one file gave: presentation times in seconds, and the first corrupt frame."""

    times: list[Fraction] = field(default_factory=list)
    corrupt: int | None = None


def _decode(scan: VideoScan, container: Any, camera: str, spans: list[Span]) -> _Decoded:
    out, convert = _Decoded(), VideoReformatter()
    wanted = {row: span.episode.index for span in spans for row in _sampled(span)}
    for number, frame in enumerate(container.decode(video=0)):
        out.times.append(Fraction(frame.pts or 0) * Fraction(frame.time_base))
        if frame.is_corrupt and out.corrupt is None:
            out.corrupt = number
        if number in wanted:
            picture = np.asarray(convert.reformat(frame, format="rgb24", threads=1).to_ndarray(), np.uint8)
            scan.frames.setdefault((camera, wanted[number]), Frames()).add(picture)
    return out


def _sampled(span: Span) -> list[int]:
    """Some of the frames that LeRobot's statistics use: enough to recognise a wrong mean."""
    length = max(1, span.episode.length)
    number = min(_MOST_SAMPLED, sampled_count(length))
    return [span.first + int(i) for i in np.round(np.linspace(0, length - 1, number))]


def _stream_findings(folder: LeRobotFolder, camera: str, stream: Any, name: str) -> Iterator[Finding]:
    code, spec = "lerobot-video", folder.features[camera]
    place = Place(name, column=camera)
    shape = spec.get("shape") or [0, 0, 0]
    size = (stream.codec_context.height, stream.codec_context.width)
    declared = tuple(shape[1:3]) if shape[0] == 3 and shape[-1] != 3 else tuple(shape[:2])
    if size != declared:
        yield error(
            code, "frames have the declared size", place, f"{size[0]}x{size[1]}", "x".join(map(str, declared))
        )
    info = spec.get("info") or spec.get("video_info") or {}
    codec = stream.codec_context.codec.canonical_name
    for key, value in (("video.codec", codec), ("video.pix_fmt", stream.codec_context.pix_fmt)):
        if key in info and info[key] != value:
            yield error(code, f"{key} is the stream's", place, value, info[key])
    rate = stream.average_rate
    if folder.fps is not None and (
        rate is None or abs(float(rate) - float(folder.fps)) > 1e-3 * float(folder.fps)
    ):
        yield error(code, "the stream's rate is fps", place, rate, folder.fps)
    if codec not in _OPENCV_READS:
        message = "OpenCV's wheels and decord cannot decode this codec"
        yield error(code, message, place, codec, "h264", Severity.INFO)


def _count_findings(spans: list[Span], decoded: _Decoded, name: str) -> Iterator[Finding]:
    code, number = "lerobot-video", len(decoded.times)
    if decoded.corrupt is not None:
        yield error(code, "a frame is corrupt", Place(name, row=decoded.corrupt))
    end = 0
    for span in sorted(spans, key=lambda s: s.first):
        place = Place(name, f"episode {span.episode.index}")
        if span.first + span.episode.length > number:
            message = "the video is shorter than the episode"
            yield error(code, message, place, f"{number} frames", span.first + span.episode.length)
        if span.first != end:
            message = "episodes follow each other in the file without gap or overlap"
            yield error(code, message, place, f"from frame {span.first}", f"frame {end}")
        end = span.first + span.episode.length
    if number > end:
        yield error(code, "the video has more frames than the episodes", Place(name), number, end)


def _time_findings(fps: Fraction, decoded: _Decoded, name: str) -> Iterator[Finding]:
    """Frame i is shown at i / fps: LeRobot looks frames up by time."""
    for i, time in enumerate(decoded.times):
        if abs(time - i / fps) > Fraction(1, 10_000):
            message = "frame i is shown at i / fps: the rate is constant, from 0"
            got, wanted = f"{float(time):.6f} s", f"{float(i / fps):.6f} s"
            yield error("lerobot-video", message, Place(name, row=i), got, wanted)
            return


@check(
    "lerobot-video", stage=STAGE, title="Videos decode to as many frames, of the size and rate, as declared"
)
def video(subject: Subject) -> Iterator[Finding]:
    """Every frame of every video is decoded."""
    folder = folder_of(subject)
    if not folder.cameras:
        return
    scan = videos_of(subject)
    subject.count(scan.files, scan.total, "videos")
    subject.measures["frames decoded"] = float(scan.counted)
    yield from scan.findings
    for code, severity, column, more in scan.findings.repeats():
        like = next(
            f for f in scan.findings if (f.code, f.severity, f.place.column) == (code, severity, column)
        )
        yield from (like for _ in range(more))
