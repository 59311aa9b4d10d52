"""Frames of a video are PyAV's to the bit, wherever a read begins and however lines are laid out.

What is not here: which frames are an episode's, see `test_lerobot`; damaged files: `test_lerobot_refusals`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from trajpipe.sources.lerobot_video import VideoFile

FRAMES = 40


def write_video(path: Path, height: int, width: int) -> NDArray[np.uint8]:
    """A video of noise in groups of eight frames; its frames as a fresh PyAV reader gives them."""
    rng = np.random.default_rng(height * 1000 + width)
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("libx264", rate=20, options={"g": "8", "preset": "ultrafast"})
        stream.height, stream.width, stream.pix_fmt = height, width, "yuv444p"
        for frame in rng.integers(0, 256, (FRAMES, height, width, 3), np.uint8):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, "rgb24")))
        container.mux(stream.encode(None))
    with av.open(str(path)) as container:
        return np.stack([f.to_ndarray(format="rgb24") for f in container.decode(video=0)])


@pytest.mark.parametrize(
    ("height", "width"),
    [(64, 128), (48, 64), (84, 84), (17, 33), (30, 21)],  # lines without and with padding
)
def test_frames_are_those_of_pyav_bit_for_bit(tmp_path: Path, height: int, width: int) -> None:
    path = tmp_path / "v.mp4"
    expected = write_video(path, height, width)
    video = VideoFile(path, path.name)
    try:
        for start, stop in ((0, 7), (7, 8), (8, 30), (35, FRAMES), (3, 19), (19, 19), (20, 21), (0, FRAMES)):
            found = video.read(start, stop)
            assert found.dtype == np.uint8
            assert found.shape == (stop - start, height, width, 3)
            assert np.array_equal(found, expected[start:stop]), (start, stop)
    finally:
        video.close()


def test_a_block_is_the_readers_own(tmp_path: Path) -> None:
    expected = write_video(tmp_path / "v.mp4", 64, 128)
    video = VideoFile(tmp_path / "v.mp4", "v.mp4")
    first = video.read(0, 4)
    first[:] = 0
    assert np.array_equal(video.read(4, 8), expected[4:8])
    assert not first.any()
    assert np.array_equal(video.read(0, 4), expected[:4])
    video.close()
    assert not first.any()


def test_both_layouts_of_lines_were_there() -> None:
    def padded(width: int) -> bool:
        frame = av.VideoFrame(width, 16, "yuv444p").reformat(format="rgb24")
        return bool(frame.planes[0].line_size != 3 * width)

    assert [padded(w) for w in (128, 64, 84, 33, 21)] == [False, False, True, True, True]
