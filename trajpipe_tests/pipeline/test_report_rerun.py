"""Recordings for Rerun, read back with Rerun's own reader; what is said without Rerun.

What is not here: Rerun's viewer.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from PIL import Image

from trajpipe.core.errors import MissingExtraError, UsageError
from trajpipe.core.names import Stage
from trajpipe.pipeline.report_rerun import write_rerun
from trajpipe.pipeline.report_subject import subject_of_path
from trajpipe.testing import write_recording

HOSTILE = "a/b </script> \u2028"


@pytest.fixture(scope="module")
def l2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three episodes with a camera, a task of odd text."""
    path = tmp_path_factory.mktemp("rerun") / "take.hdf5"
    write_recording("isaaclab", path, episodes=3, rows=(9, 14), cameras=("table_cam",), image_size=24)
    with h5py.File(path, "r+") as file:
        for demo in file["data"].values():
            demo.attrs["task"] = HOSTILE
    return path


def _read(path: Path) -> dict[str, list[Any]]:
    """Entity path → its chunks, by Rerun's own reader."""
    reader = pytest.importorskip(
        "rerun.chunk", reason="rerun-sdk is not installed (trajpipe[viz])"
    ).RrdReader(path)
    out: dict[str, list[Any]] = {}
    for chunk in reader.stream():
        out.setdefault(chunk.entity_path, []).append(chunk)
    return out


def _rows(chunks: list[Any], component: str) -> tuple[list[int], list[Any]]:
    """Row numbers and values of a component, over all chunks of an entity."""
    rows: list[int] = []
    values: list[Any] = []
    for chunk in chunks:
        batch = chunk.to_record_batch()
        rows += batch.column("row").to_pylist()
        values += batch.column(component).to_pylist()
    order = np.argsort(rows)
    return [rows[i] for i in order], [values[i] for i in order]


@pytest.fixture
def rerun() -> None:
    pytest.importorskip("rerun", reason="rerun-sdk is not installed (trajpipe[viz])")


@pytest.mark.usefixtures("rerun")
def test_every_row_comes_back(l2: Path, tmp_path: Path) -> None:
    target = tmp_path / "a.rrd"
    assert write_rerun(subject_of_path(l2, Stage.DEMOS), target) == (3, 3)
    entities = _read(target)
    with h5py.File(l2) as file:
        for number in range(3):
            demo = file[f"data/demo_{number}"]
            prefix = f"/take.hdf5\\ demo_{number}/demos"
            rows, values = _rows(entities[f"{prefix}/actions"], "Scalars:scalars")
            assert rows == list(range(len(demo["actions"])))
            assert np.array_equal(np.array(values, np.float32), demo["actions"][()])
            rows, frames = _rows(entities[f"{prefix}/obs/table_cam"], "EncodedImage:blob")
            assert rows == list(range(len(demo["actions"])))
            with Image.open(io.BytesIO(bytes(frames[-1][0]))) as image:
                shown = np.asarray(image, np.int64)
            assert np.abs(shown - demo["obs/table_cam"][-1]).mean() < 12
            facts = entities[f"{prefix}/facts"][0].to_record_batch().column("TextDocument:text").to_pylist()
            assert f"task: {HOSTILE}" in facts[0][0]
    assert [p.name for p in tmp_path.iterdir()] == ["a.rrd"]


@pytest.mark.usefixtures("rerun")
def test_only_the_episodes_asked_for(l2: Path, tmp_path: Path) -> None:
    subject, target = subject_of_path(l2, Stage.DEMOS), tmp_path / "a.rrd"
    assert write_rerun(subject, target, ("demo_1",)) == (1, 3)
    assert {e.split("/")[1] for e in _read(target) if "take" in e} == {"take.hdf5\\ demo_1"}
    before = target.read_bytes()
    with pytest.raises(UsageError, match="no episode of this name"):
        write_rerun(subject, target, ("demo_8",))
    assert target.read_bytes() == before


def test_without_rerun_the_error_names_the_extra(
    l2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rerun", None)
    with pytest.raises(MissingExtraError, match=r"trajpipe\[viz\]"):
        write_rerun(subject_of_path(l2, Stage.DEMOS), tmp_path / "a.rrd")
    assert not list(tmp_path.iterdir())
