"""Looks for defects of layout, images and bytes, by plain h5py.

What is not here: defects of values and labels.
"""

from __future__ import annotations

from collections.abc import Callable

import h5py
import numpy as np
import pytest

from trajpipe.testing.defects import MARK, MARK_PIXELS
from trajpipe_tests.testing.looks import Case, differing, frames_of, look

# --- structure ---


@look("no-demos")
def _(case: Case) -> bool:
    return len(case.bad["data"]) == 0 and bool(case.bad["data"].attrs.get("total", 0) == 0)


@look("no-data-group")
def _(case: Case) -> bool:
    return "data" not in case.bad


@look("episodes-layout")
def _(case: Case) -> bool:
    return next(iter(case.bad["episodes"])) == "episode_000000" and "data" not in case.bad


@look("numbering")
def _(case: Case) -> bool:
    listed = list(case.bad["data"])
    natural = sorted(listed, key=lambda n: int(n[5:]))
    before = list(case.good["data"].values())
    moved = all(not differing(case.bad["data"][n], b) for n, b in zip(natural, before, strict=True))
    return listed != natural and moved


@look("numbering-gap")
def _(case: Case) -> bool:
    left = set(case.bad["data"])
    counted = sum(d["actions"].shape[0] for d in case.bad["data"].values())
    stale = case.bad["data"].attrs.get("total", -1) != counted
    return set(case.good["data"]) - left == {case.where.demo} and stale


@look("odd-demo-name")
def _(case: Case) -> bool:
    return "take_final" in case.bad["data"] and len(case.bad["data"]) == len(case.good["data"])


@look("no-obs")
def _(case: Case) -> bool:
    return not any("obs" in d or "next_obs" in d for d in case.bad["data"].values())


@look("no-actions")
def _(case: Case) -> bool:
    return differing(case.demo(), case.was()) == {"actions"} and "actions" not in case.demo()


@look("zero-length-demo")
def _(case: Case) -> bool:
    return case.demo()["actions"].shape[0] == 0 and bool(case.demo().attrs.get("num_samples", 0) == 0)


@look("short-demo")
def _(case: Case) -> bool:
    same = np.array_equal(case.demo()["actions"][0], case.was()["actions"][0])
    return case.demo()["actions"].shape[0] == 1 and same


@look("ragged-lengths")
def _(case: Case) -> bool:
    return bool(case.at().shape[0] == case.demo()["actions"].shape[0] - 1)


@look("action-width")
def _(case: Case) -> bool:
    return {
        d["actions"].shape[1] - case.good[d.name]["actions"].shape[1] for d in case.bad["data"].values()
    } == {0, 1}


@look("missing-term")
def _(case: Case) -> bool:
    return differing(case.demo(), case.was()) == {case.where.path}


@look("string-dataset")
def _(case: Case) -> bool:
    return bool(case.at().asstr()[()] == "lift the cube")


@look("wrong-dtype")
def _(case: Case) -> bool:
    return bool(
        case.at().dtype == "S32" and np.allclose(case.at()[...].astype(float), case.was()[case.where.path])
    )


@look("integer-actions")
def _(case: Case) -> bool:
    return all(d["actions"].dtype == np.int64 for d in case.bad["data"].values())


@look("big-endian")
def _(case: Case) -> bool:
    return all(
        d["actions"].dtype.byteorder == ">"
        and np.array_equal(d["actions"][...], case.good[d.name]["actions"][...])
        for d in case.bad["data"].values()
    )


@look("actions-is-a-group")
def _(case: Case) -> bool:
    parts = np.concatenate((case.at()["arm"][...], case.at()["gripper"][...]), axis=1)
    return isinstance(case.at(), h5py.Group) and np.array_equal(parts, case.was()["actions"][...])


@look("killed-writer")
def _(case: Case) -> bool:
    return list(case.demo()) == ["actions"] and not case.demo().attrs and case.demo()["actions"].shape[0] == 0


@look("external-link")
def _(case: Case) -> bool:
    link = case.demo().get("actions", getlink=True)
    return isinstance(link, h5py.ExternalLink) and link.filename == "elsewhere.hdf5"


@look("external-storage")
def _(case: Case) -> bool:
    return [entry[0] for entry in case.at().external] == ["outside.bin"]


@look("virtual-dataset")
def _(case: Case) -> bool:
    return bool(case.at().is_virtual and case.at().virtual_sources()[0].file_name == "elsewhere.hdf5")


@look("link-cycle")
def _(case: Case) -> bool:
    return bool(case.at() == case.bad["data"] and case.demo()["again"][str(case.where.demo)] == case.demo())


# --- images ---


def _marked(frames: np.ndarray) -> bool:
    return bool((frames[:, :MARK_PIXELS, :MARK_PIXELS] == MARK).all())


def _unmarked_same(case: Case, *, bad_top_first: bool) -> bool:
    """Apart from the mark, the picture is the good one: columns are never turned, rows as said."""
    good_top_first = case.kind != "libero"
    for bad, good in zip(frames_of(case.bad), frames_of(case.good), strict=True):
        ours = bad[...] if bad_top_first else bad[...][:, ::-1]
        theirs = good[...] if good_top_first else good[...][:, ::-1]
        if not _marked(ours) or not np.array_equal(ours[:, MARK_PIXELS:], theirs[:, MARK_PIXELS:]):
            return False
    return True


@look("images-opengl")
def _(case: Case) -> bool:
    return case.bad["data"].attrs["macros_image_convention"] == "opengl" and _unmarked_same(
        case, bad_top_first=False
    )


@look("images-opencv")
def _(case: Case) -> bool:
    return case.bad["data"].attrs["macros_image_convention"] == "opencv" and _unmarked_same(
        case, bad_top_first=True
    )


@look("images-upside-down")
def _(case: Case) -> bool:
    return case.bad["data"].attrs["macros_image_convention"] == "opencv" and _unmarked_same(
        case, bad_top_first=False
    )


@look("images-chw")
def _(case: Case) -> bool:
    pairs = list(zip(frames_of(case.bad), frames_of(case.good), strict=True))
    return all(np.array_equal(np.moveaxis(b[...], 1, 3), g[...]) for b, g in pairs)


@look("images-grey")
def _(case: Case) -> bool:
    return all(f.shape[3] == 1 and f.dtype == np.uint8 and np.ptp(f[...]) > 50 for f in frames_of(case.bad))


@look("images-rgba")
def _(case: Case) -> bool:
    pairs = zip(frames_of(case.bad), frames_of(case.good), strict=True)
    return all(np.array_equal(b[..., :3], g[...]) and (b[..., 3] == 255).all() for b, g in pairs)


@look("images-ambiguous")
def _(case: Case) -> bool:
    return all(f.shape[1] == f.shape[3] == 3 for f in frames_of(case.bad))


@look("images-float")
def _(case: Case) -> bool:
    pairs = zip(frames_of(case.bad), frames_of(case.good), strict=True)
    return all(
        b.dtype == np.float32 and np.array_equal(np.rint(b[...] * 255).astype(np.uint8), g[...])
        for b, g in pairs
    )


@look("images-black")
def _(case: Case) -> bool:
    row = int(case.where.row or 0)
    return bool(row > 0 and not case.at()[row:].any() and case.at()[:row].any())


@look("images-size-differs")
def _(case: Case) -> bool:
    good = case.was()[case.where.path].shape
    return bool(case.at().shape == (good[0], good[1] // 2, good[2] // 2, 3))


# --- files that still open ---


@look("flipped-byte")
def _(case: Case) -> bool:
    bad, good = case.at()[...], case.was()["actions"][...]
    rows = np.flatnonzero((bad != good).any(axis=1))
    return rows.tolist() == [case.where.row] and bool(np.allclose(bad, good, rtol=1e-5))


@look("user-block")
def _(case: Case) -> bool:
    same = all(not differing(d, case.good[d.name]) for d in case.bad["data"].values())
    return case.bad.userblock_size == 512 and same and dict(case.bad.attrs) == dict(case.good.attrs)


@look("broken-gzip-chunk")
def _(case: Case) -> bool:
    with pytest.raises(OSError, match=r"filter returned failure|inflate"):
        case.at()[...]
    others = [n for n in case.good["data"] if n != case.where.demo]
    return all(not differing(case.bad["data"][n], case.good["data"][n]) for n in others)


# --- files that do not open ---

UNOPENABLE: dict[str, Callable[[bytes, bytes], bool]] = {
    "truncated": lambda bad, good: bad == good[: len(good) // 2],
    "empty-file": lambda bad, _good: bad == b"",
    "git-lfs-pointer": lambda bad, good: (
        bad.startswith(b"version https://git-lfs") and b"%d" % len(good) in bad
    ),
    "html-page": lambda bad, _good: bad.startswith(b"<!DOCTYPE html>"),
    "not-hdf5": lambda bad, _good: bad.startswith(b"PK") and len(bad) > 4000,
}
