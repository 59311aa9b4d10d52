"""Rules of numbers: actions, finite values, ranges, quaternions, alignment; each made to fail.

What is not here: shapes of observations, see `test_demos_obs.py`.
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
    Change,
    attribute,
    dataset,
    finding,
    removed,
    result_of,
    together,
    value,
)
from trajpipe_tests.demos.builders import RECIPE, written


def shifted(path: str, rows: object) -> Change:
    """obs/tcp_pos is a run of columns of states/x, one row apart."""
    return together(
        *(dataset(f"data/demo_{i}/obs/tcp_pos", np.zeros((n, 3))) for i, n in ((0, 12), (1, 19), (2, 26))),
        lambda file: _put_shifted(file, path, rows),
    )


def _put_shifted(file: h5py.File, path: str, rows: object) -> None:
    assert isinstance(rows, int)
    states = np.random.default_rng(5).normal(size=(40, 10))
    demo = file["data/demo_0"]
    demo.create_dataset(path, data=states[1 : 1 + 12])
    del demo["obs/tcp_pos"]
    demo.create_dataset("obs/tcp_pos", data=states[1 + rows : 1 + rows + 12, 4:7])


CASES = [
    Case(
        "demos-actions",
        dataset("data/demo_0/actions", np.zeros((12, 7))),
        [
            finding(
                "actions must be float32 of rank 2",
                ("demo_0", "actions", None),
                got="float64 (12, 7)",
                expected="float32 (T, A)",
            )
        ],
    ),
    Case(
        "demos-actions",
        together(removed("data/demo_0/actions"), dataset("data/demo_1/actions", np.zeros(19, np.float32))),
        [
            finding("the demo has no actions", ("demo_0", "actions", None)),
            finding(
                "actions must be float32 of rank 2",
                ("demo_1", "actions", None),
                got="float32 (19,)",
                expected="float32 (T, A)",
            ),
        ],
    ),
    Case(
        "demos-actions-finite",
        together(value("data/demo_1/actions", (5, 2), np.nan), value("data/demo_1/actions", (9, 0), np.inf)),
        [
            finding(
                "values must be finite; reject the demo or mend the recording",
                ("demo_1", "actions", 5),
                got="2 of 19 rows with NaN or infinity",
                expected="none",
            )
        ],
    ),
    Case(
        "demos-obs-finite",
        together(
            value("data/demo_1/obs/joint_pos", (18, 2), -np.inf),
            value("data/demo_2/rewards", 3, np.nan),
        ),
        [
            finding(
                "values must be finite; reject the demo or mend the recording",
                ("demo_1", "obs/joint_pos", 18),
                got="1 of 19 rows with NaN or infinity",
                expected="none",
            ),
            finding(
                "values must be finite; reject the demo or mend the recording",
                ("demo_2", "rewards", 3),
                got="1 of 26 rows with NaN or infinity",
                expected="none",
                severity=Severity.WARN,
            ),
        ],
    ),
    Case(
        "demos-action-range",
        together(
            *(value(f"data/demo_{i}/actions", (slice(None), 3), 0.0) for i in range(3)),
            value("data/demo_0/actions", (0, 3), -1.5),
            value("data/demo_2/actions", (4, 3), 3.0),
        ),
        [
            finding(
                "actions leave their range; declare `action: {low, high}` if that is meant",
                (None, "actions", None),
                got="dim 3: -1.5 to 3",
                expected="dim 3: -1 to 1",
                severity=Severity.WARN,
            )
        ],
    ),
    Case(
        "demos-action-range",
        together(
            *(value(f"data/demo_{i}/actions", Ellipsis, 0.25) for i in range(3)),
            value("data/demo_0/actions", (0, 0), 0.75),
        ),
        [
            finding(
                "actions leave their range; declare `action: {low, high}` if that is meant",
                (None, "actions", None),
                got="dim 0: 0.25 to 0.75",
                expected="dim 0: -inf to 0.5",
                severity=Severity.WARN,
            )
        ],
        {"conventions": {"action": {"high": [0.5], "meaning": "absolute"}}},
    ),
    Case(
        "demos-action-values",
        value("data/demo_1/actions", Ellipsis, 0.5),
        [
            finding(
                "no action of the demo differs from its first",
                ("demo_1", "actions", None),
                severity=Severity.WARN,
            )
        ],
    ),
    Case(
        "demos-action-values",
        together(
            *(value(f"data/demo_{i}/actions", (slice(None), 6), -1.0) for i in range(3)),
            value("data/demo_0/actions", (3, 6), 1.0),
            value("data/demo_1/actions", (3, 6), 0.25),
        ),
        [
            finding(
                "the gripper is declared binary, and its action has more than two values",
                (None, "actions", None),
                got="-1, 0.25, 1",
                expected="two values",
                severity=Severity.WARN,
            )
        ],
        {"conventions": {"action": {"gripper": "binary"}}},
    ),
    Case(
        "demos-quaternions",
        value("data/demo_1/obs/eef_quat", 4, 1.0),
        [
            finding(
                "the quaternion at 0:4 is not a rotation",
                ("demo_1", "obs/eef_quat", 4),
                got="norm 2",
                expected="1 ± 0.001",
                severity=Severity.WARN,
            )
        ],
    ),
    Case(
        "demos-quaternions",
        together(
            *(value(f"data/demo_{i}/obs/joint_pos", (slice(None), slice(3, 7)), 0.5) for i in range(3)),
            value("data/demo_0/obs/joint_pos", (5, slice(3, 7)), 1.0),
            value("data/demo_0/obs/joint_pos", (6, slice(3, 7)), 0.0),
            value("data/demo_1/obs/eef_quat", 0, 9.0),
        ),
        [
            finding(
                "the quaternion at 3:7 is not a rotation",
                ("demo_0", "obs/joint_pos", 5),
                got="norm 2",
                expected="1 ± 0.001",
                severity=Severity.WARN,
            )
        ],
        {
            "conventions": {
                "quaternions": [{"path": "*joint_pos", "starts": [3]}, {"path": "*_quat", "starts": []}]
            }
        },
    ),
    Case(
        "demos-quaternions",
        together(
            *(removed(f"data/demo_{i}/{p}") for i in range(3) for p in ("obs/eef_quat", "initial_state"))
        ),
        [
            finding(
                "no quaternion is declared, and no name says one",
                severity=Severity.INFO,
            )
        ],
    ),
    Case(
        "demos-obs-actions",
        together(
            dataset("data/demo_0/obs/actions", np.zeros((12, 8), np.float32)),
            lambda file: file["data/demo_1/obs"].create_dataset("actions", data=file["data/demo_1/actions"]),
            dataset("data/demo_2/obs/actions", np.ones((26, 7), np.float32)),
        ),
        [
            finding(
                "obs/actions is not actions, nor the row before; the top-level actions are the truth",
                (demo, "obs/actions", None),
                got=f"shape {inner}",
                expected=f"actions {top}",
                severity=Severity.WARN,
            )
            for demo, inner, top in (("demo_0", "(12, 8)", "(12, 7)"), ("demo_2", "(26, 7)", "(26, 7)"))
        ],
    ),
    Case(
        "demos-alignment",
        shifted("states/x", 1),
        [
            finding(
                "observations and states show another alignment than the one recorded",
                ("demo_0", "@obs_alignment", None),
                got="obs/tcp_pos[t] = states/x[t + 1], so after_action",
                expected="'before_action'",
            )
        ],
    ),
    Case(
        "demos-alignment",
        together(shifted("states/x", -1), attribute("demo_0", "obs_alignment", "after_action")),
        [
            finding(
                "observations and states show another alignment than the one recorded",
                ("demo_0", "@obs_alignment", None),
                got="obs/tcp_pos[t + 1] = states/x[t], so before_action",
                expected="'after_action'",
            )
        ],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.code)
def test_a_rule_says_exactly_this(good_demos: Path, case: Case) -> None:
    case.assert_holds(good_demos)


def test_an_absolute_action_has_no_default_range(good_demos: Path) -> None:
    with h5py.File(good_demos, "r+") as file:
        file["data/demo_0/actions"][:, 0] = 5
    report = validate(good_demos, {"conventions": {"action": {"meaning": "absolute"}}})
    assert list(result_of(report, "demos-action-range").findings) == []


def test_the_action_convention_of_the_recipe_is_used(tmp_path: Path) -> None:
    recipe = RECIPE | {"options": {"conventions": {"action": {"low": [-9], "high": [9]}}}}
    path = written(tmp_path / "a.hdf5", recipe=recipe)
    with h5py.File(path, "r+") as file:
        file["data/demo_0/actions"][:, 0] = 5
    assert list(result_of(validate(path), "demos-action-range").findings) == []


def test_a_range_of_another_width_is_an_error(good_demos: Path) -> None:
    report = validate(good_demos, {"conventions": {"action": {"low": [-1, -1], "high": [1]}}})
    (found,) = result_of(report, "demos-action-range").findings
    assert found.severity is Severity.ERROR
    assert "one bound, or one per dimension; got 2; expected 1 or 7" in found.message


@pytest.mark.parametrize(
    ("change", "expected"),
    [(shifted("states/x", -1), 1.0), (shifted("states/x", 0), 0.0), (shifted("poses/x", 1), 0.0)],
)
def test_an_alignment_that_agrees_or_cannot_be_told_passes(
    good_demos: Path, change: Change, expected: float
) -> None:
    with h5py.File(good_demos, "r+") as file:
        change(file)
    result = result_of(validate(good_demos), "demos-alignment")
    assert result.passed
    assert result.measures["demos_that_tell"] == expected


def test_isaaclabs_obs_actions_are_the_row_before(good_demos: Path) -> None:
    with h5py.File(good_demos, "r+") as file:
        for name in file["data"]:
            actions = file[f"data/{name}/actions"][()]
            before = np.concatenate([np.zeros((1, 7), np.float32), actions[:-1]])
            file[f"data/{name}/obs"].create_dataset("actions", data=before)
    result = result_of(validate(good_demos), "demos-obs-actions")
    assert (list(result.findings), str(result.counted)) == ([], "checked 3 of 3 demos")
