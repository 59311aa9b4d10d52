"""Rules of L2's layout: version, numbering, counts, env_args, recipe, masks; each made to fail.

What is not here: bytes that cannot be read, see `test_demos.py`.
"""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from trajpipe.core.findings import Severity
from trajpipe_tests.checks.demos_mutations import (
    Case,
    attribute,
    dataset,
    finding,
    removed,
    renamed,
    together,
)

CASES = [
    Case(
        "demos-format-version",
        attribute(None, "format_version", None),
        [
            finding(
                "the root attribute format_version must be int 1, else readers take quaternions as wxyz",
                (None, "@format_version", None),
                got="absent",
                expected="1",
            )
        ],
    ),
    Case(
        "demos-format-version",
        attribute(None, "format_version", True),
        [
            finding(
                "the root attribute format_version must be int 1, else readers take quaternions as wxyz",
                (None, "@format_version", None),
                got="True",
                expected="1",
            )
        ],
    ),
    Case(
        "demos-layout",
        lambda file: file.create_group("episodes"),
        [
            finding(
                "the old `episodes/` layout is not L2; convert it with the tool that wrote it",
                (None, "/episodes", None),
            )
        ],
    ),
    Case(
        "demos-layout",
        renamed("data", "recordings"),
        [
            finding("there is no group /data", got="mask, recordings"),
            finding(
                "nothing reads this item of the root",
                (None, "/recordings", None),
                severity=Severity.INFO,
            ),
        ],
    ),
    Case(
        "demos-layout",
        dataset("data/loose", [1.0]),
        [finding("only groups lie below /data", (None, "/data/loose", None))],
    ),
    Case(
        "demos-numbering",
        renamed("data/demo_1", "data/demo_10"),
        [
            finding(
                "demos are not numbered densely from 0",
                got="demo_10",
                expected="without demo_1",
            )
        ],
    ),
    Case(
        "demos-numbering",
        together(*(removed(f"data/demo_{i}") for i in range(3))),
        [
            finding(
                "the file has no demos; an empty recording is no success",
                (None, "/data", None),
                got="0 demos",
            ),
            finding(
                "the check compared nothing, which is never a pass",
                got="checked 0 of 0 demos",
            ),
        ],
    ),
    Case(
        "demos-num-samples",
        attribute("demo_2", "num_samples", 25),
        [
            finding(
                "num_samples must be len(actions)",
                ("demo_2", "@num_samples", None),
                got="25",
                expected="26",
            )
        ],
    ),
    Case(
        "demos-num-samples",
        attribute("demo_2", "num_samples", None),
        [
            finding(
                "num_samples must be len(actions)",
                ("demo_2", "@num_samples", None),
                got="absent",
                expected="26",
            )
        ],
    ),
    Case(
        "demos-num-samples",
        together(
            dataset("data/demo_0/actions", np.zeros((0, 7), np.float32)),
            attribute("demo_0", "num_samples", 0),
        ),
        [
            finding(
                "a demo has at least one row of actions",
                ("demo_0", "@num_samples", None),
                got="0 rows",
                expected="≥ 1",
            )
        ],
    ),
    Case(
        "demos-total",
        attribute("data", "total", 3),
        [
            finding(
                "total must be the number of rows of all demos",
                (None, "data@total", None),
                got="3",
                expected="57",
            )
        ],
    ),
    *(
        Case(
            "demos-env-args",
            attribute("data", "env_args", text),
            [
                finding(
                    "env_args must be the text of a JSON object",
                    (None, "data@env_args", None),
                    got=got,
                )
            ],
        )
        for text, got in [
            (None, "absent"),
            ("{'env_name': 'X'}", "\"{'env_name': 'X'}\""),
            ('{"env_name": NaN}', "'{\"env_name\": NaN}'"),
            ("[1]", "'[1]'"),
        ]
    ),
    Case(
        "demos-env-args",
        attribute("data", "env_args", '{"env_name": "", "type": true}'),
        [
            finding(
                "env_args must hold type",
                (None, "data@env_args", None),
                got="True",
                expected="int",
            ),
            finding(
                "env_args must hold env_kwargs",
                (None, "data@env_args", None),
                got="absent",
                expected="dict",
            ),
            finding(
                "env_name is empty, so nobody can make the environment again",
                (None, "data@env_args", None),
                severity=Severity.WARN,
            ),
        ],
    ),
    Case(
        "demos-recipe",
        attribute("data", "trajpipe", None),
        [
            finding(
                "the recipe must be the text of a JSON object; make the file with trajpipe",
                (None, "data@trajpipe", None),
                got="absent",
            )
        ],
    ),
    Case(
        "demos-recipe",
        attribute("data", "trajpipe", '{"b":1,"a":2}'),
        [
            finding(
                "the recipe must be compact JSON with sorted keys, so that equal recipes are equal text",
                (None, "data@trajpipe", None),
            )
        ],
    ),
    Case(
        "demos-row-counts",
        together(
            dataset("data/demo_0/obs/joint_pos", np.zeros((11, 9), np.float32)),
            dataset("data/demo_0/states/x", np.float32(3)),
            dataset("data/demo_1/initial_state/y", np.zeros((2, 7))),
        ),
        [
            finding(
                "a dataset below obs has T rows",
                ("demo_0", "obs/joint_pos", None),
                got="shape (11, 9)",
                expected="12 rows",
            ),
            finding(
                "a dataset below states has T rows",
                ("demo_0", "states/x", None),
                got="shape ()",
                expected="12 rows",
            ),
            finding(
                "a dataset below initial_state has one row",
                ("demo_1", "initial_state/y", None),
                got="shape (2, 7)",
                expected="1 rows",
            ),
        ],
    ),
    Case(
        "demos-row-counts",
        together(
            *(removed(f"data/demo_{i}/{g}") for i in range(3) for g in ("obs", "states", "initial_state"))
        ),
        [
            finding(
                "there are no obs, states or initial_state to count",
                severity=Severity.INFO,
            )
        ],
    ),
    Case(
        "demos-no-strings",
        dataset("data/demo_1/obs/instruction", "lift"),
        [
            finding(
                "a demo holds numbers and bools only; keep text in attributes",
                ("demo_1", "obs/instruction", None),
                got="object",
            )
        ],
    ),
    Case(
        "demos-masks",
        dataset("mask/valid", np.array([b"demo_0", b"demo_1"])),
        [
            finding(
                "train and valid share demos",
                (None, "mask", None),
                got="demo_0",
                expected="no demo in both",
            )
        ],
    ),
    Case(
        "demos-masks",
        dataset("mask/valid", np.array([b"demo_1", b"demo_1", b"demo_7"])),
        [
            finding(
                "a mask names demos that are not in the file",
                (None, "mask/valid", None),
                got="demo_7",
            ),
            finding("a mask names a demo twice", (None, "mask/valid", None), got="demo_1"),
        ],
    ),
    Case(
        "demos-masks",
        dataset("mask/valid", ["demo_1"], dtype=h5py.string_dtype()),
        [
            finding(
                "a mask is one axis of fixed-length byte strings",
                (None, "mask/valid", None),
                got="object (1,)",
                expected="S<n> (N,)",
            )
        ],
    ),
    Case(
        "demos-masks",
        removed("mask/valid"),
        [
            finding(
                "demos lie in neither train nor valid",
                (None, "mask", None),
                got="demo_1",
                severity=Severity.WARN,
            )
        ],
    ),
    Case(
        "demos-masks",
        removed("mask"),
        [
            finding(
                "the file has no masks, so every demo is for training",
                (None, "mask", None),
                severity=Severity.INFO,
            )
        ],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.code)
def test_a_rule_says_exactly_this(good_demos: Path, case: Case) -> None:
    case.assert_holds(good_demos)
