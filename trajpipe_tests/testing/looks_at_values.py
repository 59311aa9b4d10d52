"""Looks for defects of values and labels, by plain h5py.

What is not here: defects of layout, images and bytes.
"""

from __future__ import annotations

import json
from itertools import pairwise

import h5py
import numpy as np
import pytest

from trajpipe.core.quaternions import wxyz_to_xyzw
from trajpipe.testing import isaaclab
from trajpipe_tests.testing.looks import Case, differing, look

# --- values ---


@look("nan-action")
def _(case: Case) -> bool:
    bad = np.isnan(case.at()[...])
    return bool(bad.sum() == 1 and bad[case.where.row].any() and case.where.path == "actions")


@look("inf-action")
def _(case: Case) -> bool:
    bad = np.isposinf(case.at()[...])
    return bool(bad.sum() == 1 and bad[case.where.row].any())


@look("nan-obs")
def _(case: Case) -> bool:
    root = "states" if case.kind == "robosuite" else "obs/"
    bad = np.isnan(case.at()[...])
    return bool(str(case.where.path).startswith(root) and bad.sum() == 1 and bad[case.where.row].any())


@look("inf-obs")
def _(case: Case) -> bool:
    bad = np.isneginf(case.at()[...])
    return bool(bad.sum() == 1 and bad[case.where.row].any())


@look("actions-out-of-range")
def _(case: Case) -> bool:
    pairs = [
        (case.bad["data"][n]["actions"][...], case.good["data"][n]["actions"][...]) for n in case.good["data"]
    ]
    return all(np.allclose(bad, good * 1.5) and np.abs(bad).max() > 1 for bad, good in pairs)


@look("constant-actions")
def _(case: Case) -> bool:
    return bool(np.ptp(case.at()[...], axis=0).max() == 0 and case.at().shape[0] > 1)


@look("obs-actions-conflict")
def _(case: Case) -> bool:
    return all(
        d["obs/actions"].shape == (d["actions"].shape[0], d["actions"].shape[1] + 2)
        for d in case.bad["data"].values()
    )


@look("legacy-quaternions")
def _(case: Case) -> bool:
    return "format_version" not in case.bad.attrs and _is_scalar_first(case)


@look("mislabelled-quaternions")
def _(case: Case) -> bool:
    return bool(case.bad.attrs["format_version"] == 1) and _is_scalar_first(case)


def _is_scalar_first(case: Case) -> bool:
    """Turning every declared span back gives the good file again, and nothing else had changed."""
    for name, demo in case.bad["data"].items():
        spans = isaaclab.quaternion_spans(demo)
        if differing(demo, case.good["data"][name]) != set(spans):
            return False
        for path, starts in spans.items():
            values = demo[path][...]
            for start in starts:
                values[..., start : start + 4] = wxyz_to_xyzw(values[..., start : start + 4])
            if not np.array_equal(values, case.good["data"][name][path][...]):
                return False
    return True


@look("zero-quaternion")
def _(case: Case) -> bool:
    norms = np.linalg.norm(case.at()[...], axis=1)
    return bool(norms[case.where.row] == 0 and (norms == 0).sum() == 1)


@look("stale-first-frame")
def _(case: Case) -> bool:
    demos = list(case.bad["data"].values())
    terms = [n for n, item in demos[1]["obs"].items() if isinstance(item, h5py.Dataset)]
    pairs = [(a["obs"][t][-1], b["obs"][t][0]) for a, b in pairwise(demos) for t in terms]
    return (
        all(np.array_equal(a, b) for a, b in pairs) and differing(demos[0], case.good[demos[0].name]) == set()
    )


@look("duplicate-demo")
def _(case: Case) -> bool:
    first = next(iter(case.bad["data"].values()))
    counted = sum(d["actions"].shape[0] for d in case.bad["data"].values())
    return not differing(first, case.demo()) and case.bad["data"].attrs.get("total", counted) == counted


@look("shifted-obs")
def _(case: Case) -> bool:
    demo = case.bad["data/demo_0"]
    joints, states = demo["obs/joint_states"][...], demo["states"][...]
    return not np.array_equal(joints[:-1], states[1:, 1:8]) and np.array_equal(joints[1:], states[1:, 1:8])


# --- labels ---


@look("total-wrong")
def _(case: Case) -> bool:
    return bool(case.bad["data"].attrs["total"] == 999 != case.good["data"].attrs["total"])


@look("total-missing")
def _(case: Case) -> bool:
    return "total" not in case.bad["data"].attrs


@look("num-samples-missing")
def _(case: Case) -> bool:
    without = [n for n, d in case.bad["data"].items() if "num_samples" not in d.attrs]
    return without == [case.where.demo]


@look("num-samples-wrong")
def _(case: Case) -> bool:
    return bool(case.demo().attrs["num_samples"] == case.demo()["actions"].shape[0] + 1)


@look("no-success")
def _(case: Case) -> bool:
    return not any("success" in d.attrs for d in case.bad["data"].values())


@look("success-as-integer")
def _(case: Case) -> bool:
    return all(d.attrs.get_id("success").dtype == np.int64 for d in case.bad["data"].values())


@look("all-failed")
def _(case: Case) -> bool:
    return not any(d.attrs["success"] for d in case.bad["data"].values())


@look("format-version-missing")
def _(case: Case) -> bool:
    same = all(not differing(d, case.good[d.name]) for d in case.bad["data"].values())
    return same and "format_version" not in case.bad.attrs


@look("format-version-future")
def _(case: Case) -> bool:
    return bool(case.bad.attrs["format_version"] == 7)


@look("env-args-missing")
def _(case: Case) -> bool:
    return "env_args" not in case.bad["data"].attrs


@look("env-args-repr")
def _(case: Case) -> bool:
    text = case.bad["data"].attrs["env_args"]
    with pytest.raises(json.JSONDecodeError):
        json.loads(text)
    return bool(text.startswith("{'"))


@look("env-args-bytes")
def _(case: Case) -> bool:
    value = case.bad["data"].attrs["env_args"]
    same = json.loads(bytes(value)) == json.loads(case.good["data"].attrs["env_args"])
    return isinstance(value, np.bytes_) and same


@look("env-args-nan")
def _(case: Case) -> bool:
    return "NaN" in case.bad["data"].attrs["env_args"]


@look("attributes-as-bytes")
def _(case: Case) -> bool:
    for group in (case.bad["data"], *case.bad["data"].values()):
        for name in group.attrs:
            value, before = group.attrs[name], case.good[group.name].attrs[name]
            if (
                isinstance(before, str)
                and (group.attrs.get_id(name).dtype.metadata or {}).get("vlen") is not bytes
            ):
                return False
            if isinstance(before, np.int64) and not (value.shape == (1,) and value[0] == before):
                return False
    return True


@look("no-language")
def _(case: Case) -> bool:
    return "problem_info" not in case.bad["data"].attrs


@look("meshes-on-authors-disk")
def _(case: Case) -> bool:
    models = [str(d.attrs["model_file"]) for d in case.bad["data"].values()]
    return all(len(m) > 1 << 16 and '.stl"' in m and 'mesh="vis_0"' in m for m in models)


@look("xml-entity")
def _(case: Case) -> bool:
    models = [str(d.attrs["model_file"]) for d in case.bad["data"].values()]
    return all('<!ENTITY peek SYSTEM "file:' in m and "&peek;<worldbody>" in m for m in models)


@look("mask-overlap")
def _(case: Case) -> bool:
    train, valid = (set(case.bad[f"mask/{m}"][...].tolist()) for m in ("train", "valid"))
    return train & valid == {str(case.where.demo).encode()}


@look("mask-unknown-demo")
def _(case: Case) -> bool:
    valid = [v.decode() for v in case.bad["mask/valid"][...].tolist()]
    return valid == ["demo_999"] and "demo_999" not in case.bad["data"]
