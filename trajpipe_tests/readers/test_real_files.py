"""The readers on published files: what each hands out equals what the files hold, byte for byte.

What is not here: files that trajpipe wrote; those tests use the same readers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest

from trajpipe_tests.readers.digests import digests_below
from trajpipe_tests.readers.runner import ReaderFailedError

RunReader = Callable[..., dict[str, Any]]


@pytest.fixture(params=["dataset.hdf5", "annotated_dataset.hdf5"])
def isaaclab_file(request: pytest.FixtureRequest, shared_data: Path) -> Path:
    """NVIDIA's Franka stack recordings."""
    return shared_data / "isaaclab" / str(request.param)


def test_isaaclab_handler_hands_out_every_dataset(run_reader: RunReader, isaaclab_file: Path) -> None:
    out = run_reader("isaaclab", isaaclab_file)
    with h5py.File(isaaclab_file) as handle:
        expected = {name: digests_below(demo) for name, demo in handle["data"].items()}
    assert out["count"] == 10
    assert {name: e["columns"] for name, e in out["episodes"].items()} == expected
    assert {e["success"] for e in out["episodes"].values()} == {True}


def test_robomimic_hands_out_flat_terms_and_counts_2163(run_reader: RunReader, isaaclab_file: Path) -> None:
    out = run_reader("robomimic", isaaclab_file)
    with h5py.File(isaaclab_file) as handle:
        for name, columns in out["columns"].items():
            expected = digests_below(handle["data"][name])
            assert columns == {path: expected[path] for path in columns}
            assert {"actions", "obs/eef_quat", "obs/object"} <= set(columns)
    assert out["transitions"] == 2163
    assert "total transitions: 2163" in out["info"]


def test_get_dataset_info_dies_on_nested_terms_only(run_reader: RunReader, shared_data: Path) -> None:
    assert run_reader("robomimic", shared_data / "isaaclab" / "dataset.hdf5")["info_error"] is None
    error = run_reader("robomimic", shared_data / "isaaclab" / "annotated_dataset.hdf5")["info_error"]
    assert error == "AttributeError: 'Group' object has no attribute 'shape'"


def test_both_lerobots_hand_out_the_same_rows_and_frames(
    run_reader: RunReader, shared_data: Path, tmp_path: Path
) -> None:
    source = shared_data / "lerobot" / "v2.1_g1_bottle_2ep"
    old = run_reader("lerobot-0.3.3", source, "--frames", "0,277,278,-1", "--save", tmp_path / "old")
    converted = run_reader("lerobot-convert", source, tmp_path / "converted")
    new = run_reader(
        "lerobot-0.4.4", converted["root"], "--frames", "0,277,278,-1", "--save", tmp_path / "new"
    )
    assert (old["version"], new["version"]) == ("0.3.3", "0.4.4")
    assert (old["codebase_version"], new["codebase_version"]) == ("v2.1", "v3.0")
    assert old["columns"] == new["columns"]
    assert old["items"] == new["items"]
    assert [i["episode_index"] for i in old["items"]] == [0, 0, 1, 1]
    for path in sorted((tmp_path / "old").iterdir()):
        np.testing.assert_array_equal(np.load(path), np.load(tmp_path / "new" / path.name))


def test_lerobot_columns_are_the_parquet_files_own(run_reader: RunReader, shared_data: Path) -> None:
    source = shared_data / "lerobot" / "v2.1_g1_bottle_2ep"
    out = run_reader("lerobot-0.3.3", source)
    parts = [pq.read_table(p)["action"].to_pylist() for p in sorted(source.glob("data/*/*.parquet"))]
    action = np.array([row for rows in parts for row in rows], dtype=np.float32)
    assert out["columns"]["action"]["shape"] == list(action.shape) == [499, 26]
    assert out["columns"]["action"]["sha256"] == hashlib.sha256(action.tobytes()).hexdigest()
    assert [row["length"] for row in out["episode_rows"]] == [278, 221]


def test_a_missing_video_is_an_error_of_the_loader(run_reader: RunReader, shared_data: Path) -> None:
    with pytest.raises(ReaderFailedError) as caught:
        run_reader("lerobot-0.3.3", shared_data / "lerobot" / "v2.1_screwdriver_panel_ls_080225_4_e5")
    assert "OfflineModeIsEnabled" in caught.value.said
