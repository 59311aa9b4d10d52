"""A store's rate as the store says it: the manifest's `fps`, else `env_dt`; a text that is no rate is none.

What is not here: whether it is true, see `checks/test_store_rate.py`.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from trajpipe.store import ColumnSpec, TrajectoryStore, TrajectoryStoreWriter
from trajpipe.store.rate import own_rate


def rate_of(path: Path, fps: str = "", step: object = None) -> Fraction | None:
    """The rate of a store with these facts."""
    extra = {"fps": fps} if fps else {}
    with TrajectoryStoreWriter(path, [ColumnSpec("action", "float32", (1,))], extra=extra) as writer:
        writer.append(action=np.zeros((2, 1), np.float32))
        writer.end_episode()
        if step is not None:
            writer.add_side_table("env_dt", np.asarray(step))
    with TrajectoryStore(path) as store:
        return own_rate(store)


@pytest.mark.parametrize(
    ("fps", "step", "rate"),
    [
        ("20", None, Fraction(20)),
        ("30000/1001", None, Fraction(30000, 1001)),
        ("29.97", None, Fraction(2997, 100)),
        ("", [0.02], Fraction(50)),
        ("30", [0.02], Fraction(30)),  # which of them is right is a rule's to say
        ("", [1e-5], Fraction(100000)),
    ],
)
def test_the_manifest_then_the_table(tmp_path: Path, fps: str, step: object, rate: Fraction) -> None:
    assert rate_of(tmp_path / "x.h5", fps, step) == rate


@pytest.mark.parametrize("fps", ["0", "-1", "fast", "1/0", "nan", "1e999999999", "9" * 5000])
def test_a_text_that_is_no_rate_is_none(tmp_path: Path, fps: str) -> None:
    assert rate_of(tmp_path / "x.h5", fps) is None


@pytest.mark.parametrize("step", [[0.0], [-0.1], [np.nan], [np.inf], [0.1, 0.2], [5], [1e-300]])
def test_a_table_that_is_no_step_is_none(tmp_path: Path, step: object) -> None:
    assert rate_of(tmp_path / "x.h5", "", step) is None


def test_without_either_there_is_none(tmp_path: Path) -> None:
    assert rate_of(tmp_path / "x.h5") is None
