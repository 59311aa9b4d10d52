"""Raw recordings through the whole chain into LeRobot, loaded by lerobot 0.3.3 and, converted, by 0.4.4.

What the loaders hand out is compared with the raw file, row for row and frame for frame.
What is not here: single features of the exporter.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from trajpipe.pipeline.convert import ConvertOptions, convert
from trajpipe.testing import write_recording
from trajpipe_tests.readers.digests import arrays_below, digest_of

RunReader = Callable[..., dict[str, Any]]
TERMS: Final = ("eef_pos", "eef_quat", "joint_pos")
MIN_PSNR_DB: Final = 30.0


def psnr(a: NDArray[Any], b: NDArray[Any]) -> float:
    """Peak signal-to-noise ratio of two images in [0, 1], dB."""
    return float(10 * np.log10(1 / max(np.mean((a.astype(np.float64) - b) ** 2), 1e-12)))


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """An IsaacLab recording of format version 1: scalar-last quaternions, two cameras, one failed demo."""
    path = tmp_path / "scripted_lift.hdf5"
    return write_recording(
        "isaaclab", path, episodes=4, rows=(20, 30), seed=9, image_size=96, format_version=1, failures=(1,)
    )


def raw(path: Path) -> list[dict[str, NDArray[Any]]]:
    """All demos of a raw file, by number."""
    with h5py.File(path) as handle:
        names = sorted(handle["data"], key=lambda n: int(n.removeprefix("demo_")))
        return [arrays_below(handle["data"][n]) for n in names]


def exported(recording: Path, target: Path) -> Path:
    """The recording as LeRobot v2.1."""
    options = ConvertOptions(task="lift the cube", export={"state": TERMS, "robot_type": "franka"})
    results = convert([recording], target, "lerobot-v2.1", options)
    assert all(r.ok for r in results), [r.error for r in results]
    return target


def test_what_was_recorded_is_what_both_lerobots_hand_out(
    run_reader: RunReader, recording: Path, tmp_path: Path
) -> None:
    demos, root = raw(recording), exported(recording, tmp_path / "lift")
    lengths = [len(d["actions"]) for d in demos]
    last = sum(lengths) - 1
    frames = sorted({0, lengths[0] - 1, lengths[0], last})
    chosen = ",".join(map(str, frames))
    old = run_reader("lerobot-0.3.3", root, "--frames", chosen, "--save", tmp_path / "old")
    converted = run_reader("lerobot-convert", root, tmp_path / "v30")["root"]
    new = run_reader("lerobot-0.4.4", converted, "--frames", chosen, "--save", tmp_path / "new")

    action = np.concatenate([d["actions"] for d in demos])
    state = np.concatenate([np.concatenate([d[f"obs/{t}"] for t in TERMS], axis=1) for d in demos])
    for found in (old, new):
        assert found["columns"]["action"] == digest_of(action)
        assert found["columns"]["observation.state"] == digest_of(state.astype(np.float32))
        assert [row["length"] for row in found["episode_rows"]] == lengths
        assert [row["success"] for row in found["episode_rows"]] == [True, False, True, True]
        assert {row["source"] for row in found["episode_rows"]} == {"scripted"}
        assert [row["source_demo"] for row in found["episode_rows"]] == [f"demo_{i}" for i in range(4)]
        assert {item["task"] for item in found["items"]} == {"lift the cube"}
    assert_frames(old, demos, lengths, tmp_path / "old")
    assert_frames(new, demos, lengths, tmp_path / "new")


def assert_frames(found: Any, demos: list[dict[str, NDArray[Any]]], lengths: list[int], saved: Path) -> None:
    """Every saved frame is the recorded one of that camera and row, above the PSNR bound."""
    starts = np.cumsum([0, *lengths])
    assert len(found["cameras"]) == 2
    for item in found["items"]:
        demo = int(np.searchsorted(starts, item["index"], side="right")) - 1
        for key in found["cameras"]:
            image = demos[demo][f"obs/{key.rsplit('.', 1)[-1]}"][item["index"] - starts[demo]]
            frame = np.load(saved / f"{key}__{item['index']}.npy").transpose(1, 2, 0)
            assert psnr(frame, image / 255.0) > MIN_PSNR_DB, (key, item["index"])
