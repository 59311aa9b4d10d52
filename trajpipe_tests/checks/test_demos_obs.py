"""Rules of observations and images; each made to fail.

What is not here: numbers, see `test_demos_values.py`.
"""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from trajpipe.checks.demos import validate
from trajpipe.core.findings import Severity
from trajpipe_tests.checks.demos_mutations import (
    Case,
    attribute,
    dataset,
    finding,
    frames,
    removed,
    result_of,
    together,
    value,
)

CASES = [
    Case(
        "demos-obs-terms",
        together(removed("data/demo_0/obs"), dataset("data/demo_0/obs", np.zeros((12, 13)))),
        [
            finding(
                "obs must be a group of terms; declare term_widths to split it",
                ("demo_0", "obs", None),
                got="one dataset",
                expected="a group",
            ),
            finding(
                "a nested group is kept as recorded; robomimic reads flat terms only",
                (None, "obs/datagen_info", None),
                severity=Severity.INFO,
            ),
        ],
    ),
    Case(
        "demos-obs-terms",
        removed("data/demo_1/obs"),
        [
            finding(
                "the demo has no observations; they are not invented",
                ("demo_1", "obs", None),
                severity=Severity.INFO,
            ),
            finding(
                "a nested group is kept as recorded; robomimic reads flat terms only",
                (None, "obs/datagen_info", None),
                severity=Severity.INFO,
            ),
        ],
    ),
    Case(
        "demos-same-terms",
        together(
            dataset("data/demo_1/obs/joint_pos", np.zeros((19, 7), np.float32)),
            dataset("data/demo_1/obs/extra", np.zeros((19, 2))),
            removed("data/demo_2/rewards"),
        ),
        [
            finding(
                "the demo differs from demo_0 in this dataset",
                ("demo_1", "obs/extra", None),
                got="float64 (2,)",
                expected="absent",
            ),
            finding(
                "the demo differs from demo_0 in this dataset",
                ("demo_1", "obs/joint_pos", None),
                got="float32 (7,)",
                expected="float32 (9,)",
            ),
            finding(
                "the demo differs from demo_0 in this dataset",
                ("demo_2", "rewards", None),
                got="absent",
                expected="float64 ()",
                severity=Severity.WARN,
            ),
        ],
    ),
    Case(
        "demos-images",
        together(
            dataset("data/demo_0/obs/front_rgb", frames((12, 3, 24, 20)), compression="gzip"),
            dataset("data/demo_1/obs/front_rgb", frames((19, 24, 20)), compression="gzip"),
        ),
        [
            finding(
                "frames are (T, H, W, C) with 1, 3 or 4 channels last",
                (demo, "obs/front_rgb", None),
                got=f"shape {shape}",
                expected="(T, H, W, 1|3|4)",
            )
            for demo, shape in (("demo_0", "(12, 3, 24, 20)"), ("demo_1", "(19, 24, 20)"))
        ],
    ),
    Case(
        "demos-images",
        dataset("data/demo_0/obs/front_rgb", frames((12, 64, 64, 3)), compression="lzf"),
        [
            finding(
                "frames use a filter that not every HDF5 reads",
                ("demo_0", "obs/front_rgb", None),
                got="filter 32000",
                expected="deflate",
            )
        ],
    ),
    Case(
        "demos-images",
        dataset("data/demo_0/obs/front_rgb", frames((12, 64, 64, 3))),
        [
            finding(
                "frames are not compressed",
                ("demo_0", "obs/front_rgb", None),
                got="no filter",
                expected="deflate",
                severity=Severity.WARN,
            )
        ],
    ),
    Case(
        "demos-image-convention",
        attribute("data", "macros_image_convention", "opengl"),
        [
            finding(
                "a reader that takes opengl would turn the frames upside down",
                (None, "data@macros_image_convention", None),
                got="'opengl'",
                expected="'opencv'",
            )
        ],
    ),
    Case(
        "demos-image-convention",
        together(
            attribute("data", "macros_image_convention", None),
            *(removed(f"data/demo_{i}/obs/front_rgb") for i in range(3)),
        ),
        [
            finding(
                "a reader that takes opengl would turn the frames upside down",
                (None, "data@macros_image_convention", None),
                got="absent",
                expected="'opencv'",
                severity=Severity.WARN,
            )
        ],
    ),
    Case(
        "demos-cameras-alive",
        value("data/demo_1/obs/front_rgb", Ellipsis, 7),
        [
            finding(
                "every pixel of every frame has one value",
                ("demo_1", "obs/front_rgb", None),
                got="7",
                severity=Severity.WARN,
            )
        ],
    ),
    Case(
        "demos-stale-first-row",
        lambda file: file["data/demo_1/obs/front_rgb"].__setitem__(0, file["data/demo_0/obs/front_rgb"][-1]),
        [
            finding(
                "the first row is the previous demo's last; `drop_stale_first_row` drops it",
                ("demo_1", "obs/front_rgb", 0),
                got="demo_0's last row",
                severity=Severity.WARN,
            )
        ],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.code)
def test_a_rule_says_exactly_this(good_demos: Path, case: Case) -> None:
    case.assert_holds(good_demos)


def test_a_still_camera_and_a_recurring_value_are_not_stale(good_demos: Path) -> None:
    with h5py.File(good_demos, "r+") as file:
        first, second = file["data/demo_0"], file["data/demo_1"]
        second["obs/joint_pos"][0] = first["obs/joint_pos"][-1]
        second["obs/front_rgb"][0] = first["obs/front_rgb"][-1]
        second["obs/front_rgb"][1] = first["obs/front_rgb"][-1]
    assert list(result_of(validate(good_demos), "demos-stale-first-row").findings) == []


def test_low_dimensional_terms_are_stale_together(good_demos: Path) -> None:
    with h5py.File(good_demos, "r+") as file:
        first, second = file["data/demo_0"], file["data/demo_1"]
        for term in ("joint_pos", "eef_quat"):
            second[f"obs/{term}"][0] = first[f"obs/{term}"][-1]
    found = list(result_of(validate(good_demos), "demos-stale-first-row").findings)
    assert [f.place.column for f in found] == ["obs/eef_quat", "obs/joint_pos"]
