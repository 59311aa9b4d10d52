"""Tests of encoding: what a decoder makes of the files, frame by frame, and that bytes repeat."""

from __future__ import annotations

import os
import threading
from fractions import Fraction
from functools import partial
from pathlib import Path

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from trajpipe.core.errors import StateError
from trajpipe.export.options import DEFAULT_CRF, DEFAULT_PRESET
from trajpipe.export.statistics import FrameHistogram
from trajpipe.export.video import VideoPool, VideoSettings, encode_segment, rgb, segment_frames
from trajpipe_tests.export import scenes


def settings(codec: str = "h264", fps: Fraction = Fraction(20)) -> VideoSettings:
    """The defaults of a codec."""
    return VideoSettings(codec, fps, DEFAULT_CRF[codec], DEFAULT_PRESET[codec])


def encode(
    path: Path,
    frames: NDArray[np.uint8],
    *,
    step: int = 16,
    how: VideoSettings | None = None,
    workers: int = 2,
) -> FrameHistogram:
    """Encode frames in segments of `step`; the histogram of every frame."""
    done: list[FrameHistogram] = []
    with VideoPool(how or settings(), workers) as pool:
        video = pool.begin(path, frames.shape[1:3], done.append)
        for start in range(0, len(frames), step):
            block = frames[start : start + step]
            pool.add(video, block, np.arange(len(block)), last=start + step >= len(frames))
    return done[0]


def psnr(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> float:
    """Worst frame's peak signal-to-noise ratio, dB."""
    error = ((a.astype(float) - b) ** 2).mean(axis=(1, 2, 3)).max()
    return float(10 * np.log10(255**2 / error))


def textured(length: int, size: tuple[int, int] = (64, 96)) -> NDArray[np.uint8]:
    """A gradient with a moving block and a little noise."""
    rng = np.random.default_rng(5)
    rows, columns = np.mgrid[0 : size[0], 0 : size[1]]
    base = np.stack([60 + rows, 80 + columns, 140 - columns / 2], axis=-1)
    out = np.repeat(base[None], length, axis=0) + rng.integers(-2, 3, (length, *size, 1))
    for i in range(length):
        x = int((size[1] - 20) * (0.5 + 0.45 * np.sin(0.05 * i)))
        out[i, 20:40, x : x + 20] = (200, 60, 40)
    return out.clip(0, 255).astype(np.uint8)


@pytest.mark.parametrize("codec", ["h264", "av1"])
@pytest.mark.parametrize("length", [1, 2, 15, 16, 17, 40])
def test_every_frame_comes_back_in_its_place(tmp_path: Path, codec: str, length: int) -> None:
    frames = scenes.frames(length, size=(64, 96))
    encode(tmp_path / "v.mp4", frames, how=settings(codec))
    found, times = scenes.decoded(tmp_path / "v.mp4")
    assert len(found) == length
    assert times == [Fraction(i, 20) for i in range(length)]
    palette = scenes.colours(length)
    assert [scenes.nearest(f, palette) for f in found] == list(range(length))


@pytest.mark.parametrize("codec", ["h264", "av1"])
def test_quality_is_above_30_db_on_every_frame(tmp_path: Path, codec: str) -> None:
    frames = textured(50, (128, 128))
    encode(tmp_path / "v.mp4", frames, how=settings(codec))
    assert psnr(scenes.decoded(tmp_path / "v.mp4")[0], frames) > 30


@pytest.mark.parametrize(("codec", "name"), [("h264", "h264"), ("av1", "libdav1d")])
def test_the_stream_is_what_the_metadata_will_say(tmp_path: Path, codec: str, name: str) -> None:
    encode(tmp_path / "v.mp4", textured(20), how=settings(codec, Fraction(30000, 1001)))
    with av.open(str(tmp_path / "v.mp4")) as container:
        (stream,) = container.streams
        assert isinstance(stream, av.VideoStream)
        context = stream.codec_context
        assert (context.name, context.pix_fmt, context.width, context.height) == (name, "yuv420p", 96, 64)
        assert stream.average_rate == Fraction(30000, 1001)
        assert stream.frames == 20
        assert not context.has_b_frames


def test_every_second_frame_is_a_key_frame(tmp_path: Path) -> None:
    """Random access in training decodes two frames at most."""
    encode(tmp_path / "v.mp4", textured(33))
    with av.open(str(tmp_path / "v.mp4")) as container:
        keys = [p.is_keyframe for p in container.demux(video=0) if p.size]
    assert keys == [i % 2 == 0 for i in range(32)] + [True]


def test_seeking_to_any_frame_finds_it(tmp_path: Path) -> None:
    frames = scenes.frames(40)
    encode(tmp_path / "v.mp4", frames)
    palette = scenes.colours(40)
    with av.open(str(tmp_path / "v.mp4")) as container:
        stream = container.streams.video[0]
        for row in (39, 0, 17, 16, 15):
            assert stream.time_base is not None
            container.seek(int(Fraction(row, 20) / stream.time_base), stream=stream)
            for frame in container.decode(stream):
                if abs(float(frame.time or 0) - row / 20) < 1e-3:
                    assert scenes.nearest(frame.to_ndarray(format="rgb24").astype(np.uint8), palette) == row
                    break
            else:
                pytest.fail(f"frame {row} not found")


@pytest.mark.parametrize("codec", ["h264", "av1"])
def test_bytes_repeat_whatever_the_number_of_threads(tmp_path: Path, codec: str) -> None:
    frames = textured(70)
    made = []
    for number, workers in enumerate((1, 2, 4, 2)):
        encode(tmp_path / f"{number}.mp4", frames, how=settings(codec), workers=workers)
        made.append((tmp_path / f"{number}.mp4").read_bytes())
    assert all(m == made[0] for m in made)


def test_a_file_tells_no_time_and_no_tool(tmp_path: Path) -> None:
    encode(tmp_path / "v.mp4", textured(4))
    data = (tmp_path / "v.mp4").read_bytes()
    assert b"Lavf" not in data
    header = data.index(b"mvhd") + 8
    assert data[header : header + 8] == bytes(8), "creation and modification time"


@pytest.mark.parametrize("channels", [1, 4])
def test_grey_is_repeated_and_alpha_dropped(tmp_path: Path, channels: int) -> None:
    frames = np.full((4, 32, 32, channels), 90, np.uint8)
    if channels == 4:
        frames[..., 3] = 7
    encode(tmp_path / "v.mp4", frames)
    found, _ = scenes.decoded(tmp_path / "v.mp4")
    np.testing.assert_allclose(found, 90, atol=3)
    assert rgb(frames).shape == (4, 32, 32, 3)


def test_solid_red_is_red(tmp_path: Path) -> None:
    frames = np.zeros((6, 64, 64, 3), np.uint8)
    frames[..., 0] = 255
    for codec in ("h264", "av1"):
        encode(tmp_path / f"{codec}.mp4", frames, how=settings(codec))
        mean = scenes.decoded(tmp_path / f"{codec}.mp4")[0].mean(axis=(0, 1, 2))
        np.testing.assert_allclose(mean, (255, 0, 0), atol=4)


def test_several_videos_at_once_finish_in_order(tmp_path: Path) -> None:
    order: list[str] = []

    def note(name: str, _: FrameHistogram) -> None:
        order.append(name)

    with VideoPool(settings(), 2) as pool:
        for name in ("a", "b", "c"):
            frames = scenes.frames(48)
            video = pool.begin(tmp_path / f"{name}.mp4", scenes.SIZE, partial(note, name))
            for start in range(0, 48, 16):
                pool.add(video, frames[start : start + 16], np.arange(16), last=start == 32)
    assert order == ["a", "b", "c"]
    assert all(len(scenes.decoded(tmp_path / f"{n}.mp4")[0]) == 48 for n in "abc")


def test_an_odd_segment_may_only_be_the_last(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="only the last segment"):
        encode(tmp_path / "v.mp4", scenes.frames(10), step=5)
    assert not [t for t in threading.enumerate() if t.name.startswith("encode")]


def test_an_encoder_that_fails_is_an_error_and_closes_everything(tmp_path: Path) -> None:
    wrong = VideoSettings("h264", Fraction(20), 23, "no-such-preset")
    with pytest.raises((av.FFmpegError, ValueError)):
        encode(tmp_path / "v.mp4", scenes.frames(40), how=wrong)
    assert not [t for t in threading.enumerate() if t.name.startswith("encode")]


@pytest.mark.parametrize(
    "size", [(8, 8), (84, 84), (128, 128), (256, 256), (480, 640), (1080, 1920), (2160, 3840)]
)
def test_a_segment_is_whole_chunks_of_16_frames_near_12_mib(size: tuple[int, int]) -> None:
    number = segment_frames(*size)
    assert number % 16 == 0
    assert 16 <= number <= 256
    assert number == 16 or number * size[0] * size[1] * 3 <= 12 << 20


def test_segments_share_one_header() -> None:
    headers = {encode_segment(textured(n), 0, settings())[1] for n in (1, 2, 16)}
    assert len(headers) == 1


def test_the_av1_encoder_keeps_silent(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    encode(tmp_path / "v.mp4", textured(4), how=settings("av1"))
    assert os.environ.get("SVT_LOG") == "1"
    assert "Svt" not in capfd.readouterr().err
