"""The readers on generated raw recordings: they are what the formats' own tools take for real.

What is not here: files that trajpipe wrote.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from trajpipe.testing import write_recording
from trajpipe_tests.readers.digests import arrays_below, digest_of, digests_below

RunReader = Callable[..., dict[str, Any]]
SMALL: dict[str, Any] = {"episodes": 3, "rows": (6, 9), "image_size": 24}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"task": "stack", "format_version": None, "gzip": False, "cameras": (), "numbers": (0, 4, 11)},
        {"datagen_info": True, "cameras": (), "seeds": True},
        {"failed": True, "cameras": ()},
    ],
    ids=["new", "legacy", "mimic", "failed"],
)
def test_isaaclab_handler_hands_out_every_dataset(
    options: dict[str, Any], run_reader: RunReader, tmp_path: Path
) -> None:
    path = write_recording("isaaclab", tmp_path / "recording.hdf5", **SMALL, **options)
    out = run_reader("isaaclab", path)
    with h5py.File(path) as handle:
        expected = {name: digests_below(demo) for name, demo in handle["data"].items()}
    assert out["count"] == 3
    assert {name: e["columns"] for name, e in out["episodes"].items()} == expected
    assert {bool(e["success"]) for e in out["episodes"].values()} == {"failed" not in options}


@pytest.mark.parametrize(
    "options",
    [{}, {"cameras": (), "next_obs": False, "gzip": True}, {"environment": "isaaclab", "masks": False}],
    ids=["image", "low-dim", "gym"],
)
def test_robomimic_hands_out_every_row(
    options: dict[str, Any], run_reader: RunReader, tmp_path: Path
) -> None:
    path = write_recording("robomimic", tmp_path / "recording.hdf5", **SMALL, **options)
    out = run_reader("robomimic", path)
    with h5py.File(path) as handle:
        total = int(handle["data"].attrs["total"])
        for name, columns in out["columns"].items():
            # robomimic hands out everything but observations in single precision
            arrays = arrays_below(handle["data"][name])
            expected = {
                column: digest_of(
                    arrays[column] if column.startswith("obs/") else arrays[column].astype(np.float32)
                )
                for column in columns
            }
            assert columns == expected
            assert {"actions", "obs/robot0_eef_pos"} <= set(columns)
        assert set(out["columns"]) == set(handle["data"])
    assert out["transitions"] == total
    assert out["info_error"] is None
