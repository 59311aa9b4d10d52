"""Faults and variants of images: row order, layout, channels, sizes.

What is not here: broken compressed chunks, see `files`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core import names
from trajpipe.testing.defects.registry import Injection, Opened, defect, replace

MARK: Final = (255, 0, 255)
MARK_PIXELS: Final = 6
"""A magenta square of this many pixels in the top left corner tells which way up a frame is."""

_KINDS: Final = ("isaaclab", "robomimic", "libero")


def _images(name: str, title: str) -> Callable[..., Any]:
    return defect(name, title, kinds=_KINDS, needs=("images",))


@_images(
    "images-opengl", "the bottom row comes first and the file says `opengl`; the top left corner is magenta"
)
def images_opengl(opened: Opened) -> Injection:
    """A reader must turn the rows over, once, and no column."""
    return _mark(opened, top_first=False, convention="opengl")


@_images(
    "images-opencv", "the top row comes first and the file says `opencv`; the top left corner is magenta"
)
def images_opencv(opened: Opened) -> Injection:
    """A reader must leave the rows alone."""
    return _mark(opened, top_first=True, convention="opencv")


@_images("images-upside-down", "the bottom row comes first although the file says `opencv`")
def images_upside_down(opened: Opened) -> Injection:
    """A label that lies: only eyes, or the magenta corner, can tell."""
    return _mark(opened, top_first=False, convention="opencv")


@_images("images-chw", "frames are stored channel first: (T, 3, H, W)")
def images_chw(opened: Opened) -> Injection:
    """The layout is found by the axis of 1, 3 or 4."""
    return _each(opened, lambda frames: np.moveaxis(frames, 3, 1))


@_images("images-grey", "frames have one channel: (T, H, W, 1)")
def images_grey(opened: Opened) -> Injection:
    """A depth or infrared camera, 8 bits."""
    return _each(opened, lambda frames: frames.mean(axis=3, keepdims=True).astype(np.uint8))


@_images("images-rgba", "frames have an alpha channel: (T, H, W, 4)")
def images_rgba(opened: Opened) -> Injection:
    """What a renderer's buffer holds."""
    return _each(opened, lambda frames: np.pad(frames, ((0, 0),) * 3 + ((0, 1),), constant_values=255))


@_images("images-ambiguous", "frames are (T, 3, W, 3): both axes could be the channels")
def images_ambiguous(opened: Opened) -> Injection:
    """An error, never a guess."""
    return _each(opened, lambda frames: frames[:, :3])


@_images("images-float", "frames are float32 in [0, 1]")
def images_float(opened: Opened) -> Injection:
    """Normalised too early: four times the size and no longer exact."""
    return _each(opened, lambda frames: frames.astype(np.float32) / np.float32(255))


@_images("images-black", "one camera of one demo is black from the middle on")
def images_black(opened: Opened) -> Injection:
    """The renderer died."""
    demo, path = opened.all_images()[-1]
    middle = int(demo[path].shape[0]) // 2
    demo[path][middle:] = 0
    return opened.hit(demo, path, row=middle)


@_images("images-size-differs", "one demo's first camera is half the size of the others'")
def images_size_differs(opened: Opened) -> Injection:
    """Two recording sessions in one file."""
    demo = opened.demos()[-1]
    path = opened.image_terms(demo)[-1]
    replace(demo, path, demo[path][:, ::2, ::2])
    return opened.hit(demo, path)


def _each(opened: Opened, change: Callable[[NDArray[Any]], NDArray[Any]]) -> Injection:
    for demo, path in opened.all_images():
        replace(demo, path, np.ascontiguousarray(change(demo[path][...])))
    return opened.hit(path=path, detail=str(demo[path].shape))


def _mark(opened: Opened, *, top_first: bool, convention: str) -> Injection:
    usual = "opengl" if "problem_info" in opened.data.attrs else "opencv"
    stored_top_first = opened.data.attrs.get(names.ATTR_IMAGE_CONVENTION, usual) != "opengl"
    for demo, path in opened.all_images():
        frames = demo[path][...]
        frames = frames if stored_top_first else frames[:, ::-1].copy()
        frames[:, :MARK_PIXELS, :MARK_PIXELS] = MARK
        demo[path][...] = frames if top_first else frames[:, ::-1]
    opened.data.attrs[names.ATTR_IMAGE_CONVENTION] = convention
    return opened.hit(path=f"@{names.ATTR_IMAGE_CONVENTION}", detail=convention)
