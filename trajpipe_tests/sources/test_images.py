"""Images: layout by the channel axis, rows flipped exactly once and for opengl only, BGR when declared.

What is not here: which convention a kind has by default, see the tests of the kinds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trajpipe.core.conventions import Conventions, ImageConvention
from trajpipe.core.episode import ArrayColumn, is_image, whole
from trajpipe.core.errors import InputError
from trajpipe.core.findings import Place, Severity
from trajpipe.sources.images import ImageReading, as_image, layout_of
from trajpipe_tests.sources.builders import ROBOSUITE_ENV, Demo, frames, random, read, write

HERE = Place("x.hdf5")
U8 = np.dtype(np.uint8)


def image_file(path: Path, images: Any, *, data: dict[str, Any] | None = None) -> Path:
    demo = Demo({"actions": random(len(images), 7), "obs/cam": images, "next_obs/cam": images}, {})
    return write(path, {"demo_0": demo}, data={"env_args": ROBOSUITE_ENV} | (data or {}))


@pytest.mark.parametrize(
    ("shape", "layout"),
    [
        ((5, 84, 84, 3), "hwc"),
        ((5, 84, 84, 1), "hwc"),
        ((5, 84, 84, 4), "hwc"),
        ((5, 3, 84, 84), "chw"),
        ((5, 1, 84, 84), "chw"),
        ((5, 4, 84, 60), "chw"),
        ((5, 84, 84), "hw"),
        ((5, 3, 84, 3), "ambiguous"),
        ((5, 4, 4, 4), "ambiguous"),
        ((5, 84, 84, 2), None),
        ((5, 84, 3, 84), None),
        ((5, 4, 4), None),
        ((5, 12), None),
        ((5, 2, 84, 84, 3), None),
    ],
)
def test_layout_is_found_by_the_axis_of_1_3_or_4(shape: tuple[int, ...], layout: str | None) -> None:
    assert layout_of(shape, U8) == layout


@pytest.mark.parametrize(
    ("shape", "dtype", "layout"),
    [
        ((5, 84, 84, 1), "f4", "hwc"),
        ((5, 84, 84, 1), "i4", "hwc"),
        ((5, 3, 84, 84), "f4", None),
        ((5, 6, 4, 4), "f4", None),
        ((5, 4, 4), "f4", None),
        ((5, 84, 84), "f4", None),
        ((5, 84, 84, 1), "?", None),
    ],
)
def test_maps_of_other_dtypes_are_told_by_their_last_axis(
    shape: tuple[int, ...], dtype: str, layout: str | None
) -> None:
    assert layout_of(shape, np.dtype(dtype)) == layout


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_hwc_and_chw_give_the_same_frames(channels: int) -> None:
    hwc = frames(4, channels=channels)
    chw = np.ascontiguousarray(np.moveaxis(hwc, -1, 1))
    for given_frames in (hwc, chw):
        column = as_image(ArrayColumn(given_frames), ImageReading(), HERE)
        assert is_image(column)
        np.testing.assert_array_equal(whole(column), hwc)


def test_grey_frames_get_a_channel_axis() -> None:
    grey = frames(4, 20, 24, 1)[..., 0]
    column = as_image(ArrayColumn(grey), ImageReading(), HERE)
    assert column.shape == (4, 20, 24, 1)
    np.testing.assert_array_equal(whole(column)[..., 0], grey)


@pytest.mark.parametrize(("convention", "row"), [("opencv", 0), ("opengl", -1)])
def test_a_coloured_corner_tells_that_only_opengl_rows_are_flipped(
    convention: ImageConvention, row: int
) -> None:
    stored = frames(3)
    if convention == "opengl":
        stored = stored[:, ::-1].copy()
    assert stored[0, row, 0].tolist() == [200, 100, 50]
    shown = whole(as_image(ArrayColumn(stored), ImageReading(convention), HERE))
    assert shown[:, 0, 0].tolist() == [[200, 100, 50]] * 3
    np.testing.assert_array_equal(shown, frames(3))


def test_bgr_becomes_rgb_and_alpha_stays_last() -> None:
    for channels in (3, 4):
        rgb = frames(3, channels=channels)
        bgr = np.concatenate((rgb[..., 2::-1], rgb[..., 3:]), axis=-1)
        column = as_image(ArrayColumn(bgr), ImageReading(channel_order="bgr"), HERE)
        np.testing.assert_array_equal(whole(column), rgb)
    grey = frames(3, channels=1)
    np.testing.assert_array_equal(
        whole(as_image(ArrayColumn(grey), ImageReading(channel_order="bgr"), HERE)), grey
    )


def test_an_ambiguous_layout_is_an_error_until_it_is_declared(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 255, (5, 3, 40, 4), dtype=np.uint8)
    path = image_file(tmp_path / "x.hdf5", images)
    with pytest.raises(InputError, match="image_layout: hwc") as caught:
        read(path)
    assert caught.value.code == "image-layout"
    assert "obs/cam" in str(caught.value)
    as_hwc = read(path, options={"image_layout": "hwc"}).values["demo_0"]["obs/cam"]
    np.testing.assert_array_equal(as_hwc, images)
    as_chw = read(path, options={"image_layout": "chw"}).values["demo_0"]["obs/cam"]
    np.testing.assert_array_equal(as_chw, np.moveaxis(images, 1, -1))


def test_the_file_tells_before_the_declaration_before_the_default(tmp_path: Path) -> None:
    images = frames(4)
    silent = image_file(tmp_path / "silent.hdf5", images)
    flipped = image_file(tmp_path / "gl.hdf5", images, data={"macros_image_convention": "opengl"})
    upright = image_file(tmp_path / "cv.hdf5", images, data={"macros_image_convention": np.bytes_(b"opencv")})
    opengl = Conventions(images="opengl")
    for path, conventions, expected, origin in (
        (silent, Conventions(), images, "default"),
        (silent, opengl, images[:, ::-1], "declared"),
        (flipped, Conventions(), images[:, ::-1], "file"),
        (upright, Conventions(), images, "file"),
        (upright, opengl, images, "file"),
    ):
        found = read(path, conventions=conventions)
        for where in ("obs/cam", "next_obs/cam"):
            np.testing.assert_array_equal(found.values["demo_0"][where], expected)
        assert found.description.conventions["images_from"] == origin
    conflict = read(upright, conventions=opengl).finding("image-convention-conflict")
    assert (conflict.severity, conflict.got, conflict.expected) == (Severity.WARN, "opencv", "opengl")


def test_an_unknown_convention_in_the_file_is_refused(tmp_path: Path) -> None:
    path = image_file(tmp_path / "x.hdf5", frames(3), data={"macros_image_convention": "vulkan"})
    with pytest.raises(InputError, match="opengl or opencv") as caught:
        read(path)
    assert caught.value.code == "image-convention"


def test_depth_is_flipped_with_the_images_beside_it(tmp_path: Path) -> None:
    depth = random(4, 12, 16, 1)
    demo = Demo({"actions": random(4, 7), "obs/cam": frames(4), "obs/cam_depth": depth})
    data = {"env_args": ROBOSUITE_ENV, "macros_image_convention": "opengl"}
    values = read(write(tmp_path / "x.hdf5", {"demo_0": demo}, data=data)).values["demo_0"]
    np.testing.assert_array_equal(values["obs/cam_depth"], depth[:, ::-1])
    assert values["obs/cam_depth"].dtype == np.float32


def test_float_frames_are_told_and_kept_until_they_are_declared(tmp_path: Path) -> None:
    images = frames(4)
    floats = images.astype(np.float32) / np.float32(255)
    data = {"macros_image_convention": "opengl"}
    path = image_file(tmp_path / "x.hdf5", floats, data=data)
    found = read(path)
    told = [f for f in found.findings if f.code == "image-float"]
    assert [(f.severity, f.place.column) for f in told] == [
        (Severity.WARN, "next_obs/cam"),
        (Severity.WARN, "obs/cam"),
    ]
    assert found.values["demo_0"]["obs/cam"].dtype == np.float32
    declared = read(path, options={"float_images": "unit"})
    np.testing.assert_array_equal(declared.values["demo_0"]["obs/cam"], images[:, ::-1])
    assert "image-float" not in declared.codes()


def test_float_frames_outside_of_the_unit_range_are_refused(tmp_path: Path) -> None:
    path = image_file(tmp_path / "x.hdf5", frames(4).astype(np.float32))
    with pytest.raises(InputError, match=r"0\.\.1") as caught:
        read(path, options={"float_images": "unit"})
    assert caught.value.code == "image-float"
    values = frames(4).astype(np.float32) / np.float32(255)
    values[2, 3, 3, 0] = np.nan
    with pytest.raises(InputError, match="nan"):
        read(image_file(tmp_path / "nan.hdf5", values), options={"float_images": "unit"})


@settings(max_examples=40, deadline=None)
@given(
    length=st.integers(1, 5),
    height=st.integers(5, 20),
    width=st.integers(5, 20),
    channels=st.sampled_from([1, 3, 4]),
    chw=st.booleans(),
    data=st.data(),
)
def test_any_rows_of_a_lazy_column_equal_those_of_the_whole(
    length: int, height: int, width: int, channels: int, chw: bool, data: st.DataObject
) -> None:
    stored = np.random.default_rng(length).integers(0, 255, (length, height, width, channels), dtype=np.uint8)
    shown = stored[:, ::-1]
    if channels > 1:
        shown = np.concatenate((shown[..., 2::-1], shown[..., 3:]), axis=-1)
    raw = np.moveaxis(stored, -1, 1) if chw else stored
    column = as_image(ArrayColumn(raw), ImageReading("opengl", "bgr"), HERE)
    start = data.draw(st.integers(0, length))
    stop = data.draw(st.integers(start, length))
    rows = column.read(start, stop)
    assert rows.flags.c_contiguous
    assert column.shape == (length, height, width, channels)
    np.testing.assert_array_equal(rows, shown[start:stop])
