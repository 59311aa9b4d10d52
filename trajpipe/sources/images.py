"""Camera columns as an Episode wants them: uint8 (T, H, W, C), row 0 on top, RGB; flipped once, by blocks.

The layout is found by the axis of 1, 3 or 4 and never guessed when two axes could be it.
What is not here: which convention a recording has; its source decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from trajpipe.core.conventions import ImageConvention
from trajpipe.core.episode import Column, mapped
from trajpipe.core.errors import InputError
from trajpipe.core.findings import Place

CHANNELS: Final = (1, 3, 4)
Layout = Literal["hwc", "chw", "hw"]
_SMALLEST_GREY: Final = 16
_SMALLEST_MAP: Final = 8


@dataclass(frozen=True, slots=True)
class ImageReading:
    """How a recording's images are read.

    Attributes:
        convention: `opengl` = bottom row first, flipped here; `opencv` = top row first, kept.
        channel_order: `bgr` is reversed to RGB; a fourth channel stays last.
        layout: Declared layout for shapes that fit both; None = found by shape.
        floats: Colour frames stored as floats: `unit` turns [0, 1] into uint8, `keep` leaves them numbers.
    """

    convention: ImageConvention = "opencv"
    channel_order: Literal["rgb", "bgr"] = "rgb"
    layout: Literal["hwc", "chw"] | None = None
    floats: Literal["keep", "unit"] = "keep"


def layout_of(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Layout | Literal["ambiguous"] | None:
    """Layout of one column by its shape (T, …) and dtype; None when it is no image.

    uint8 of rank 4 with an axis of 1, 3 or 4 is an image; uint8 of rank 3 with 16 rows and columns or more is
    grey. Depth and segmentation maps, of other dtypes, are told by a last axis of 1, 3 or 4 after 8 rows and
    columns or more: they are stored in the same row order as the images beside them.
    """
    trailing = shape[1:]
    if dtype == np.uint8 and len(trailing) == 2:
        return "hw" if min(trailing) >= _SMALLEST_GREY else None
    if len(trailing) != 3 or min(trailing) < 1:
        return None
    last, first = trailing[2] in CHANNELS, trailing[0] in CHANNELS
    if dtype != np.uint8:
        return "hwc" if last and min(trailing[:2]) >= _SMALLEST_MAP and dtype.kind in "iuf" else None
    if last and first:
        return "ambiguous"
    return "hwc" if last else "chw" if first else None


def is_float_image(column: Column) -> bool:
    """True for floating columns of the shape of colour frames: three or four channels, last or first."""
    shape = column.shape[1:]
    if column.dtype.kind != "f" or len(shape) != 3:
        return False
    return (shape[2] in (3, 4) and min(shape[:2]) >= _SMALLEST_MAP) or (
        shape[0] in (3, 4) and min(shape[1:]) >= _SMALLEST_MAP
    )


def from_unit(column: Column, place: Place) -> Column:
    """Colour frames of [0, 1] as uint8: the nearest of 256 levels.

    Raises:
        InputError: when rows are read that leave [0, 1] (`image-float`).
    """

    def convert(rows: NDArray[Any]) -> NDArray[Any]:
        low, high = float(rows.min(initial=0)), float(rows.max(initial=0))
        if not (low >= 0 and high <= 1):
            raise InputError(
                "frames declared to lie in [0, 1] do not",
                place=place,
                got=f"{low:.3g}..{high:.3g}",
                expected="0..1",
                code="image-float",
            )
        return np.rint(rows * np.float64(255)).astype(np.uint8)

    return mapped(column, convert, dtype=np.uint8)


def as_image(column: Column, reading: ImageReading, place: Place) -> Column:
    """The column as (T, H, W, C) frames, top row first, RGB; the column itself when it is no image.

    Args:
        column: (T, H, W, C), (T, C, H, W) or grey (T, H, W) frames, or anything else.
        reading: How the recording's images are to be read.
        place: Named in the error.

    Raises:
        InputError: both ends of the shape could be the channel axis (`image-layout`).
    """
    if reading.floats == "unit" and is_float_image(column):
        column = from_unit(column, place)
    layout = layout_of(column.shape, column.dtype)
    if layout is None:
        return column
    if layout == "ambiguous":
        if reading.layout is None:
            raise InputError(
                "the image layout is ambiguous: first and last axis could both be the channels",
                place=place,
                got=f"shape {column.shape}",
                hint="Add `options: {image_layout: hwc}` or `chw` to the raw entry, or pass "
                "--option image_layout=hwc.",
                code="image-layout",
            )
        layout = reading.layout
    height, width, channels = _sizes(column.shape, layout)
    flip = reading.convention == "opengl"
    reverse = reading.channel_order == "bgr" and channels in (3, 4) and column.dtype == np.uint8
    if layout == "hwc" and not flip and not reverse:
        return column

    def convert(rows: NDArray[Any]) -> NDArray[Any]:
        return _converted(rows, layout, flip=flip, reverse=reverse)

    return mapped(column, convert, trailing=(height, width, channels))


def _sizes(shape: tuple[int, ...], layout: Layout) -> tuple[int, int, int]:
    if layout == "hw":
        return shape[1], shape[2], 1
    return (shape[2], shape[3], shape[1]) if layout == "chw" else (shape[1], shape[2], shape[3])


def _converted(rows: NDArray[Any], layout: Layout, *, flip: bool, reverse: bool) -> NDArray[Any]:
    if layout == "chw":
        rows = np.moveaxis(rows, 1, -1)
    elif layout == "hw":
        rows = rows[..., np.newaxis]
    if flip:
        rows = rows[:, ::-1]
    if reverse:
        rows = np.concatenate((rows[..., 2::-1], rows[..., 3:]), axis=-1)
    return np.ascontiguousarray(rows)
