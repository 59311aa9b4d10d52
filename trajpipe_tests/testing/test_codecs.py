"""Generated frames under the codecs that matter: about as small, and as faithful, as a simulator's real ones.

What is not here: the exporter's own encoder, its tests are in `trajpipe_tests/export`.
"""

from __future__ import annotations

import io
import zlib
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from trajpipe.testing import write_recording

Frames = NDArray[np.uint8]


@pytest.fixture(scope="module")
def cameras(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Frames]:
    """Both cameras of one LIBERO episode, top row first."""
    path = write_recording(
        "libero", tmp_path_factory.mktemp("codecs") / "x_demo.hdf5", episodes=1, rows=(48, 48)
    )
    with h5py.File(path) as handle:
        obs = handle["data/demo_0/obs"]
        return {
            name: np.ascontiguousarray(obs[name][...][:, ::-1])
            for name in ("agentview_rgb", "eye_in_hand_rgb")
        }


def _h264(frames: Frames, crf: int = 23) -> bytes:
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp4") as container:
        stream: Any = container.add_stream("libx264", rate=Fraction(20), options={"crf": str(crf)})
        stream.height, stream.width, stream.pix_fmt = frames.shape[1], frames.shape[2], "yuv420p"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode(None))
    return buffer.getvalue()


def _psnr(frames: Frames, packed: bytes) -> float:
    with av.open(io.BytesIO(packed), "r") as container:
        decoded = np.stack([f.to_ndarray(format="rgb24") for f in container.decode(video=0)])
    assert decoded.shape == frames.shape
    error = float(((decoded.astype(np.float64) - frames) ** 2).mean())
    return 10 * float(np.log10(255**2 / error))


def _deflated(frames: Frames) -> float:
    """How many times smaller deflate makes whole frames."""
    return float(np.mean([f.nbytes / len(zlib.compress(f.tobytes(), 4)) for f in frames[::8]]))


@pytest.mark.parametrize("name", ["agentview_rgb", "eye_in_hand_rgb"])
def test_h264_keeps_frames_above_the_bound(name: str, cameras: dict[str, Frames]) -> None:
    packed = _h264(cameras[name])
    assert _psnr(cameras[name], packed) > 30
    assert 15 < cameras[name].nbytes / len(packed) < 300


def test_a_lower_rate_is_worse_and_smaller(cameras: dict[str, Frames]) -> None:
    frames = cameras["eye_in_hand_rgb"]
    good, poor = _h264(frames, 18), _h264(frames, 40)
    assert len(poor) < len(good) / 2
    assert _psnr(frames, poor) < _psnr(frames, good) - 3


def test_a_static_camera_packs_better_along_time_than_frame_by_frame(cameras: dict[str, Frames]) -> None:
    """Why L2 chunks images in strips of rows over 16 frames."""
    frames = cameras["agentview_rgb"][:16]
    strip = np.ascontiguousarray(frames[:, :16])
    along = sum(
        len(zlib.compress(np.ascontiguousarray(frames[:, r : r + 16]).tobytes(), 4))
        for r in range(0, 128, 16)
    )
    alone = sum(len(zlib.compress(frame.tobytes(), 4)) for frame in frames)
    assert strip.shape == (16, 16, 128, 3)
    assert along < alone / 1.5


@pytest.mark.shared
def test_frames_pack_within_a_factor_of_four_of_real_ones(
    cameras: dict[str, Frames], shared_data: Path
) -> None:
    real = shared_data / "libero" / "KITCHEN_SCENE10_close_the_top_drawer_of_the_cabinet_demo.hdf5"
    with h5py.File(real) as handle:
        for name, ours in cameras.items():
            theirs = handle[f"data/demo_0/obs/{name}"][:48]
            assert 0.25 < _deflated(ours) / _deflated(theirs) < 4
            sizes = [frames.nbytes / len(_h264(frames)) for frames in (ours, theirs)]
            assert 0.2 < sizes[0] / sizes[1] < 5
