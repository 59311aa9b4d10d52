"""Tests that read exports with the real lerobot: 0.3.3 as written, 0.4.4 after its own converter.

What is not here: our own reading back, see `trajpipe_tests/checks/test_lerobot*.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trajpipe_tests.export import scenes
from trajpipe_tests.export.scenes import episode, export

pytestmark = pytest.mark.readers
RunReader = Callable[..., dict[str, Any]]
CAMERA = "observation.images.front"
LENGTHS = (41, 37, 50, 1, 99)


def some_episodes() -> list[Any]:
    """Five episodes of two tasks and two tags."""
    tags = ("scripted", "teleop")
    tasks = ("pick up the cube", "拿起立方体 ")
    return [episode(i, n, tag=tags[i % 2], task=tasks[i % 2]) for i, n in enumerate(LENGTHS)]


def assert_loads(found: dict[str, Any], saved: Path) -> None:
    """Episodes, keys, rows, and the first and last frame of every episode by its colour."""
    assert (found["episodes"], found["frames"], found["fps"]) == (5, sum(LENGTHS), 20)
    rows = found["episode_rows"]
    assert [r["source"] for r in rows] == ["scripted", "teleop", "scripted", "teleop", "scripted"]
    assert [r["source_demo"] for r in rows] == [f"demo_{i}" for i in range(5)]
    assert all(r["success"] is True and r["success_known"] is True for r in rows)
    assert set(found["tasks"].values()) == {"pick up the cube", "拿起立方体 "}
    originals = some_episodes()
    states = np.concatenate([e.columns["actions"].read(0, e.length) for e in originals])
    assert found["columns"]["action"]["sha256"] == scenes.sha256(states)
    assert found["columns"]["index"]["sha256"] == scenes.sha256(np.arange(sum(LENGTHS)))
    offset = 0
    for index, length in enumerate(LENGTHS):
        palette = scenes.colours(length, index)
        for row in {0, length - 1}:
            frame = np.load(saved / f"{CAMERA}__{offset + row}.npy").transpose(1, 2, 0) * 255
            assert scenes.nearest(frame, palette) == row, (index, row)
            np.testing.assert_allclose(frame[40:, 60:].mean((0, 1)), palette[row], atol=6)
        offset += length


def wanted_frames() -> str:
    """First and last row of every episode."""
    ends = np.cumsum(LENGTHS)
    return ",".join(str(i) for i in sorted({*(ends - 1).tolist(), *(ends - np.array(LENGTHS)).tolist()}))


@pytest.mark.parametrize("codec", ["h264", "av1"])
def test_lerobot_033_loads_the_v21_export(tmp_path: Path, run_reader: RunReader, codec: str) -> None:
    export(tmp_path / "ds", some_episodes(), codec=codec)
    found = run_reader(
        "lerobot-0.3.3", tmp_path / "ds", "--frames", wanted_frames(), "--save", tmp_path / "frames"
    )
    assert found["codebase_version"] == "v2.1"
    assert_loads(found, tmp_path / "frames")
    assert [i["task"] for i in found["items"][:2]] == ["pick up the cube", "pick up the cube"]


def test_the_official_converter_takes_it_and_lerobot_044_loads_the_result(
    tmp_path: Path, run_reader: RunReader
) -> None:
    export(tmp_path / "ds", some_episodes())
    run_reader("lerobot-convert", tmp_path / "ds", tmp_path / "v3")
    found = run_reader(
        "lerobot-0.4.4", tmp_path / "v3", "--frames", wanted_frames(), "--save", tmp_path / "frames"
    )
    assert found["codebase_version"] == "v3.0"
    assert_loads(found, tmp_path / "frames")


def test_lerobot_033_loads_the_v20_export(tmp_path: Path, run_reader: RunReader) -> None:
    export(tmp_path / "ds", some_episodes(), version="v2.0")
    found = run_reader(
        "lerobot-0.3.3", tmp_path / "ds", "--frames", wanted_frames(), "--save", tmp_path / "frames"
    )
    assert found["codebase_version"] == "v2.0"
    assert_loads(found, tmp_path / "frames")


def test_scalar_rewards_and_two_cameras_load(tmp_path: Path, run_reader: RunReader) -> None:
    wide = {"obs/wrist": scenes.frames(12, 3, (32, 48)), "rewards": np.arange(12.0).reshape(12, 1)}
    export(tmp_path / "ds", [episode(0, 12, columns=wide)], extras={"next.reward": "rewards"})
    found = run_reader("lerobot-0.3.3", tmp_path / "ds", "--frames", "0,11")
    assert found["cameras"] == ["observation.images.front", "observation.images.wrist"]
    assert found["columns"]["next.reward"]["shape"] == [12]
    assert found["items"][1]["cameras"]["observation.images.wrist"]["shape"] == [3, 32, 48]


def test_solid_red_is_red_in_both_loaders(tmp_path: Path, run_reader: RunReader) -> None:
    red = np.zeros((8, 64, 64, 3), np.uint8)
    red[..., 0] = 255
    export(tmp_path / "ds", [episode(0, 8, columns={"obs/front": red})])
    run_reader("lerobot-convert", tmp_path / "ds", tmp_path / "v3")
    for name, root in (("lerobot-0.3.3", "ds"), ("lerobot-0.4.4", "v3")):
        mean = run_reader(name, tmp_path / root, "--frames", "3")["items"][0]["cameras"][CAMERA]["mean"]
        np.testing.assert_allclose(mean, [1, 0, 0], atol=0.02)


@pytest.mark.parametrize("codec", ["h264", "av1"])
def test_lerobot_044_loads_our_own_v30_export(tmp_path: Path, run_reader: RunReader, codec: str) -> None:
    export(tmp_path / "ds", some_episodes(), version="v3.0", codec=codec)
    found = run_reader(
        "lerobot-0.4.4", tmp_path / "ds", "--frames", wanted_frames(), "--save", tmp_path / "frames"
    )
    assert found["codebase_version"] == "v3.0"
    assert_loads(found, tmp_path / "frames")


def test_our_v30_tells_what_the_official_converter_tells(tmp_path: Path, run_reader: RunReader) -> None:
    """Same rows, same ranges, same times in the video, same keys; statistics equal where both have them."""
    export(tmp_path / "v21", some_episodes())
    export(tmp_path / "ours", some_episodes(), version="v3.0")
    run_reader("lerobot-convert", tmp_path / "v21", tmp_path / "theirs")
    ours = run_reader("lerobot-0.4.4", tmp_path / "ours", "--frames", "0")
    theirs = run_reader("lerobot-0.4.4", tmp_path / "theirs", "--frames", "0")
    assert ours["columns"] == theirs["columns"]
    assert ours["tasks"] == theirs["tasks"]
    for mine, other in zip(ours["episode_rows"], theirs["episode_rows"], strict=True):
        assert mine.keys() == other.keys()
        assert mine.pop("tasks") == other.pop("tasks")
        assert mine == pytest.approx(other)
    for name, stats in theirs["stats"].items():
        for statistic, values in stats.items():
            np.testing.assert_allclose(ours["stats"][name][statistic], values, rtol=1e-6, atol=1e-7)
    quantiles = {"q01", "q10", "q50", "q90", "q99"}
    assert all(quantiles <= set(stats) for stats in ours["stats"].values())


@pytest.mark.parametrize(("version", "reader"), [("v2.1", "lerobot-0.3.3"), ("v3.0", "lerobot-0.4.4")])
def test_png_columns_load_without_loss(
    tmp_path: Path, run_reader: RunReader, version: str, reader: str
) -> None:
    odd = scenes.frames(9, 2, (63, 65))
    some = [episode(i, 9, columns={"obs/front": odd}) for i in range(2)]
    export(tmp_path / "ds", some, version=version, codec="png")
    run_reader(reader, tmp_path / "ds", "--frames", "0,17", "--save", tmp_path / "frames")
    for row, original in ((0, odd[0]), (17, odd[8])):
        frame = np.load(tmp_path / "frames" / f"{CAMERA}__{row}.npy").transpose(1, 2, 0) * 255
        np.testing.assert_array_equal(np.round(frame).astype(np.uint8), original)


def test_the_official_converter_takes_png_columns(tmp_path: Path, run_reader: RunReader) -> None:
    export(tmp_path / "ds", [episode(i, 9) for i in range(2)], codec="png")
    run_reader("lerobot-convert", tmp_path / "ds", tmp_path / "v3")
    found = run_reader("lerobot-0.4.4", tmp_path / "v3", "--frames", "17")
    assert found["items"][0]["cameras"][CAMERA]["shape"] == [3, *scenes.SIZE]
