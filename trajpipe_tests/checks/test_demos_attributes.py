"""Rules of a demo's attributes: success, source, hashes, paths, filters; each made to fail.

What is not here: the content hash, see `test_demos.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from trajpipe.core.findings import Severity
from trajpipe_tests.checks.demos_mutations import Case, attribute, finding, together

CASES = [
    Case(
        "demos-success",
        attribute("demo_0", "success", 1),
        [
            finding(
                "success must be an HDF5 enum bool",
                ("demo_0", "@success", None),
                got="1",
                expected="bool",
            )
        ],
    ),
    Case(
        "demos-success",
        attribute("demo_1", "success_known", False),
        [
            finding(
                "the recording does not say whether these demos succeeded",
                (None, "@success_known", None),
                got="1 of 3 demos",
                severity=Severity.INFO,
            )
        ],
    ),
    Case(
        "demos-attributes",
        together(
            attribute("demo_0", "source", "robot"),
            attribute("demo_0", "source_file", "raw/x.hdf5"),
            attribute("demo_0", "source_demo", None),
            attribute("demo_0", "source_sha256", "AB" * 32),
            attribute("demo_0", "content_sha256", None),
            attribute("demo_0", "task", None),
            attribute("demo_0", "seed", 1.5),
            attribute("demo_0", "obs_alignment", "sideways"),
        ),
        [
            finding(
                "the source tag is one of five",
                ("demo_0", "@source", None),
                got="'robot'",
                expected="scripted, rl, teleop, mocap, unknown",
            ),
            finding(
                "source_file must be a name, never a path",
                ("demo_0", "@source_file", None),
                got="'raw/x.hdf5'",
                expected="a base name",
            ),
            finding(
                "source_demo must be a name, never a path",
                ("demo_0", "@source_demo", None),
                got="absent",
                expected="a base name",
            ),
            finding(
                "source_sha256 must be a SHA-256",
                ("demo_0", "@source_sha256", None),
                got=repr("AB" * 32),
                expected="64 lower-case hex digits",
            ),
            finding(
                "content_sha256 must be a SHA-256",
                ("demo_0", "@content_sha256", None),
                got="absent",
                expected="64 lower-case hex digits",
            ),
            finding(
                "task must be text, empty when there is none",
                ("demo_0", "@task", None),
                got="absent",
                expected="text",
            ),
            finding(
                "a seed is an integer",
                ("demo_0", "@seed", None),
                got="1.5",
                expected="int",
            ),
            finding(
                "the alignment is one of two",
                ("demo_0", "@obs_alignment", None),
                got="'sideways'",
                expected="before_action or after_action",
            ),
        ],
    ),
    Case(
        "demos-attributes",
        attribute("demo_0", "obs_alignment", None),
        [
            finding(
                "nobody declared whether obs precede or follow the action; declare `alignment`",
                ("demo_0", "@obs_alignment", None),
                got="absent",
                expected="before_action or after_action",
                severity=Severity.WARN,
            )
        ],
    ),
    Case(
        "demos-no-absolute-paths",
        together(
            attribute("demo_0", "model_file", '<mesh file="/home/jo/a.stl"/>'),
            attribute("data", "bddl", ["x", "C:\\tmp\\y.bddl"]),
            attribute(None, "made_by", "/opt/tool/bin/record.py"),
        ),
        [
            finding(
                "an attribute holds an absolute path; make the file again with trajpipe",
                (None, "@made_by", None),
                got="/opt/tool/bin/record.py",
            ),
            finding(
                "an attribute holds an absolute path; make the file again with trajpipe",
                (None, "data@bddl", None),
                got="C:\\tmp\\y.bddl",
            ),
            finding(
                "an attribute holds an absolute path; make the file again with trajpipe",
                ("demo_0", "@model_file", None),
                got="/home/jo/a.stl",
            ),
        ],
    ),
    Case(
        "demos-filters",
        attribute("demo_2", "success", False),
        [
            finding(
                "a demo that failed is here though only success stays",
                ("demo_2", "@success", None),
            )
        ],
    ),
    Case(
        "demos-filters",
        lambda file: None,
        [
            finding(
                "a demo is shorter than the filter allows",
                ("demo_0", None, None),
                got="12 rows",
                expected="≥ 13",
            )
        ],
        {"filters": {"min_length": 13}},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.code)
def test_a_rule_says_exactly_this(good_demos: Path, case: Case) -> None:
    case.assert_holds(good_demos)
