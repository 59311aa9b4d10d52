"""Pictures of motion stores: valid PNG of bounded size, the same bytes again, in the asset's metadata.

What is not here: how the pictures look.
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from trajpipe.pipeline.convert import ConvertOptions, convert
from trajpipe.pipeline.results import StageResult
from trajpipe.report.figures import MAX_BYTES, figure, png_of
from trajpipe.report.motion import FOOT_HEIGHTS, JOINT_LIMITS, ROOT_PATH, motion_pictures
from trajpipe.testing.lafan import library_entry, motion_clip, write_pickle
from trajpipe.testing.recording import write_recording


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> StageResult:
    """A store of two clips."""
    folder = tmp_path_factory.mktemp("report")
    entries = {"walk": motion_clip("walk", 30), "fast": motion_clip("fast", 20)}
    raw = write_pickle(folder / "a.pkl", {name: library_entry(clip) for name, clip in entries.items()})
    result = convert([raw], folder / "a.h5", "store", ConvertOptions())[-1]
    assert result.ok
    return result


def test_three_small_pictures_the_same_every_time(store: StageResult) -> None:
    pictures = motion_pictures(store.path)
    assert list(pictures) == [ROOT_PATH, FOOT_HEIGHTS, JOINT_LIMITS]
    for png in pictures.values():
        assert len(png) <= MAX_BYTES
        with Image.open(io.BytesIO(png)) as image:
            image.load()
            assert image.format == "PNG"
            pixels = np.asarray(image.convert("L"))
            assert pixels.std() > 5
    assert motion_pictures(store.path) == pictures


def test_other_stores_have_none(tmp_path: Path) -> None:
    raw = tmp_path / "lift.hdf5"
    write_recording("isaaclab", raw, episodes=1, rows=(4, 4), image_size=16)
    result = convert([raw], tmp_path / "lift.h5", "store", ConvertOptions())[-1]
    assert motion_pictures(result.path) == {}


def test_a_busy_picture_is_drawn_coarser_until_it_fits() -> None:
    drawn, axes = figure(8, 8)
    axes.imshow(np.random.default_rng(0).integers(0, 255, (300, 300, 3), np.uint8))
    assert len(png_of(drawn)) <= MAX_BYTES
    plain, lines = figure(4, 3)
    lines.plot([0, 1])
    with Image.open(io.BytesIO(png_of(plain))) as image:
        assert image.size == (320, 240)


def test_the_assets_metadata_shows_them(store: StageResult) -> None:
    from trajpipe.defs.metadata import stage_metadata

    shown = stage_metadata(store)["pictures"].value
    for name in (ROOT_PATH, FOOT_HEIGHTS, JOINT_LIMITS):
        assert shown.count(f"![{name}](data:image/png;base64,") == 1


def test_a_busy_figure_loses_colours_and_not_its_size() -> None:
    generator = np.random.default_rng(0)
    drawn, axes = figure(6.5, 2.6)
    for _ in range(2):
        axes.plot(generator.normal(size=1500), linewidth=0.7)
    png = png_of(drawn)
    assert len(png) <= MAX_BYTES
    with Image.open(io.BytesIO(png)) as image:
        assert image.width >= 400
