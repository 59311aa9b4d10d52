"""Faults of attributes and masks: counts, success flags, env_args, model files, splits.

What is not here: the arrays.
"""

from __future__ import annotations

import json
from typing import Any

import h5py
import numpy as np

from trajpipe.core import names
from trajpipe.core.errors import InputError
from trajpipe.hdf5.attributes import plain
from trajpipe.testing import mjcf
from trajpipe.testing.defects.registry import Injection, Opened, defect

_COUNTED = ("isaaclab", "robomimic", "libero")


@defect("total-wrong", "`total` says 999", kinds=_COUNTED)
def total_wrong(opened: Opened) -> Injection:
    """As when demos were deleted after recording."""
    opened.data.attrs[names.ATTR_TOTAL] = 999
    return opened.hit(path=f"@{names.ATTR_TOTAL}", detail="999")


@defect("total-missing", "`total` is missing", kinds=_COUNTED)
def total_missing(opened: Opened) -> Injection:
    """A hand-made file."""
    del opened.data.attrs[names.ATTR_TOTAL]
    return opened.hit(path=f"@{names.ATTR_TOTAL}")


@defect("num-samples-missing", "`num_samples` is missing on one demo", kinds=_COUNTED)
def num_samples_missing(opened: Opened) -> Injection:
    """The counter robomimic relies on."""
    demo = opened.a_demo()
    del demo.attrs[names.ATTR_NUM_SAMPLES]
    return opened.hit(demo, f"@{names.ATTR_NUM_SAMPLES}")


@defect("num-samples-wrong", "`num_samples` of one demo is one too many", kinds=_COUNTED)
def num_samples_wrong(opened: Opened) -> Injection:
    """A recorder that counts states."""
    demo = opened.a_demo()
    demo.attrs[names.ATTR_NUM_SAMPLES] = int(demo[names.DATASET_ACTIONS].shape[0]) + 1
    return opened.hit(demo, f"@{names.ATTR_NUM_SAMPLES}")


@defect("no-success", "no demo has a `success` attribute", kinds=("isaaclab",))
def no_success(opened: Opened) -> Injection:
    """Then success is unknown, not false."""
    for demo in opened.demos():
        demo.attrs.pop(names.ATTR_SUCCESS, None)
    return opened.hit(path=f"@{names.ATTR_SUCCESS}")


@defect("success-as-integer", "`success` is 0 or 1 as an integer", kinds=("isaaclab",))
def success_as_integer(opened: Opened) -> Injection:
    """Other writers' habit."""
    for demo in opened.demos():
        demo.attrs[names.ATTR_SUCCESS] = np.int64(demo.attrs[names.ATTR_SUCCESS])
    return opened.hit(path=f"@{names.ATTR_SUCCESS}")


@defect("all-failed", "every demo says it did not succeed", kinds=("isaaclab",))
def all_failed(opened: Opened) -> Injection:
    """A success filter keeps nothing of it."""
    for demo in opened.demos():
        demo.attrs[names.ATTR_SUCCESS] = False
    return opened.hit(path=f"@{names.ATTR_SUCCESS}")


@defect(
    "format-version-missing",
    "quaternions are scalar last but `format_version` is missing",
    kinds=("isaaclab",),
)
def format_version_missing(opened: Opened) -> Injection:
    """What a merge that copies only groups leaves behind."""
    del opened.handle.attrs[names.ATTR_FORMAT_VERSION]
    return opened.hit(path=f"@{names.ATTR_FORMAT_VERSION}")


@defect("format-version-future", "`format_version` is 7", kinds=("isaaclab",))
def format_version_future(opened: Opened) -> Injection:
    """A version that nobody knows yet."""
    opened.handle.attrs[names.ATTR_FORMAT_VERSION] = 7
    return opened.hit(path=f"@{names.ATTR_FORMAT_VERSION}", detail="7")


@defect("env-args-missing", "`env_args` is missing", kinds=_COUNTED)
def env_args_missing(opened: Opened) -> Injection:
    """A hand-made file."""
    del opened.data.attrs[names.ATTR_ENV_ARGS]
    return opened.hit(path=f"@{names.ATTR_ENV_ARGS}")


@defect("env-args-repr", "`env_args` is a Python repr, not JSON", kinds=_COUNTED)
def env_args_repr(opened: Opened) -> Injection:
    """`str(dict)` where `json.dumps` was meant."""
    opened.data.attrs[names.ATTR_ENV_ARGS] = str(_env_args(opened))
    return opened.hit(path=f"@{names.ATTR_ENV_ARGS}")


@defect("env-args-bytes", "`env_args` is bytes", kinds=_COUNTED)
def env_args_bytes(opened: Opened) -> Injection:
    """JSON all the same, as a fixed-length byte string."""
    opened.data.attrs[names.ATTR_ENV_ARGS] = np.bytes_(json.dumps(_env_args(opened)).encode())
    return opened.hit(path=f"@{names.ATTR_ENV_ARGS}")


@defect("env-args-nan", "`env_args` holds a bare NaN, which strict JSON has not", kinds=_COUNTED)
def env_args_nan(opened: Opened) -> Injection:
    """What Python's json writes for a float nan."""
    opened.data.attrs[names.ATTR_ENV_ARGS] = json.dumps(_env_args(opened) | {"reward_scale": float("nan")})
    return opened.hit(path=f"@{names.ATTR_ENV_ARGS}")


@defect("attributes-as-bytes", "every text attribute is bytes and every count a numpy scalar")
def attributes_as_bytes(opened: Opened) -> Injection:
    """Long texts stay variable-length: HDF5 holds no fixed attribute above 64 KB."""
    for group in (opened.data, *opened.demos()):
        for name, value in list(group.attrs.items()):
            if isinstance(value, str):
                group.attrs.create(name, value.encode(), dtype=h5py.string_dtype("ascii"))
            elif isinstance(value, (int, np.integer)):
                group.attrs.create(name, np.array([value]), dtype=np.int32, shape=(1,))
    return opened.hit(path="@*")


@defect("no-language", "`problem_info` is missing: the demos have no instruction", kinds=("libero",))
def no_language(opened: Opened) -> Injection:
    """A file that lost LIBERO's own attributes."""
    del opened.data.attrs["problem_info"]
    return opened.hit(path="@problem_info")


@defect(
    "meshes-on-authors-disk",
    "`model_file` names meshes and textures on the author's disk",
    kinds=("robomimic", "robosuite", "libero"),
)
def meshes_on_authors_disk(opened: Opened) -> Injection:
    """The model compiles only without assets and mesh geoms; longer than 64 KB, as real ones are."""
    folder = f"{mjcf.AUTHOR}/robosuite/models/assets"
    assets = "".join(
        f'<texture type="2d" name="tex{i}" file="{folder}/textures/skin_{i}.png"/>\n'
        f'    <mesh name="vis_{i}" file="{folder}/meshes/link_{i}.stl"/>\n    '
        for i in range(320)
    )
    geom = '<geom name="hand_vis" type="mesh" mesh="vis_0" contype="0" conaffinity="0" group="1"/>\n'
    for demo in opened.demos():
        model = _model(opened, demo)
        model = model.replace("  </asset>", f"    {assets}\n  </asset>", 1)
        model = model.replace("</worldbody>", f"  {geom}  </worldbody>", 1)
        demo.attrs[names.ATTR_MODEL_FILE] = model
    return opened.hit(path=f"@{names.ATTR_MODEL_FILE}", detail=f"{len(model)} characters")


@defect(
    "xml-entity",
    "`model_file` declares an entity that reads a file of the machine",
    kinds=("robomimic", "robosuite", "libero"),
)
def xml_entity(opened: Opened) -> Injection:
    """Untrusted XML: nothing may be read from disk because a recording says so."""
    doctype = '<?xml version="1.0"?>\n<!DOCTYPE mujoco [<!ENTITY peek SYSTEM "file:///etc/hostname">]>\n'
    for demo in opened.demos():
        model = doctype + _model(opened, demo).replace("<worldbody>", "&peek;<worldbody>", 1)
        demo.attrs[names.ATTR_MODEL_FILE] = model
    return opened.hit(path=f"@{names.ATTR_MODEL_FILE}", detail="&peek;")


@defect("mask-overlap", "one demo is in both `mask/train` and `mask/valid`")
def mask_overlap(opened: Opened) -> Injection:
    """A validation set that was trained on."""
    found = [str(demo.name).rsplit("/", 1)[-1] for demo in opened.demos()]
    _write_masks(opened, found, found[-1:])
    return opened.hit(opened.demos()[-1], "mask")


@defect("mask-unknown-demo", "`mask/valid` names a demo that the file lacks")
def mask_unknown_demo(opened: Opened) -> Injection:
    """Masks that were copied from another file."""
    found = [str(demo.name).rsplit("/", 1)[-1] for demo in opened.demos()]
    _write_masks(opened, found, ["demo_999"])
    return opened.hit(path=f"mask/{names.MASK_VALID}", detail="demo_999")


def _write_masks(opened: Opened, train: list[str], valid: list[str]) -> None:
    if names.GROUP_MASK in opened.handle:
        del opened.handle[names.GROUP_MASK]
    mask = opened.handle.create_group(names.GROUP_MASK)
    mask.create_dataset(names.MASK_TRAIN, data=np.array(train, dtype="S"))
    mask.create_dataset(names.MASK_VALID, data=np.array(valid, dtype="S"))


def _env_args(opened: Opened) -> dict[str, Any]:
    found = json.loads(str(plain(opened.data.attrs[names.ATTR_ENV_ARGS])))
    return dict(found)


def _model(opened: Opened, demo: h5py.Group) -> str:
    model = str(demo.attrs.get(names.ATTR_MODEL_FILE, ""))
    if not model.startswith("<mujoco"):
        raise InputError("the defect needs demos with an inline model_file", got=opened.name)
    return model
