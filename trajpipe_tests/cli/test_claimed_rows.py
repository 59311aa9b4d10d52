"""Files that declare 10^8 to 10^12 rows and store none: every verb that reads them says so at once.

What is not here: the rule itself, see `trajpipe_tests/hdf5/test_columns.py`.
"""

import time
from pathlib import Path

import h5py
import numpy as np
import pytest

from trajpipe.testing import write_recording
from trajpipe_tests.cli.conftest import Command

MOST_SECONDS = 20.0


@pytest.fixture(params=[10**8, 10**12])
def claiming(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A recording of one whole demo, and one whose actions were never written."""
    path = write_recording("robomimic", tmp_path / "take.hdf5", episodes=2, rows=(8, 9))
    with h5py.File(path, "r+") as file:
        width = file["data/demo_0/actions"].shape[1]
        del file["data/demo_1/actions"]
        file["data/demo_1"].create_dataset("actions", (request.param, width), "f4", chunks=(1000, width))
    return path


def _store(path: Path, episodes: int, rows: int) -> Path:
    with h5py.File(path, "w") as file:
        if episodes > 1:
            file.create_dataset("ep_len", (episodes,), "i8", chunks=(1000,))
            file.create_dataset("ep_offset", (episodes,), "i8", chunks=(1000,))
        else:
            file["ep_len"], file["ep_offset"] = np.array([rows], "i8"), np.zeros(1, "i8")
        file.create_dataset("action", (rows, 7), "f4", chunks=(1000, 7))
    return path


def test_every_verb_says_so_of_a_demo_and_goes_on(invoke: Command, claiming: Path, tmp_path: Path) -> None:
    began = time.monotonic()
    looked = invoke("inspect", claiming)
    assert looked.code == 0
    assert "/data/demo_1/actions cannot be read: a dataset declares values and stores none" in looked.out
    checked = invoke("check", claiming, "--json")
    assert checked.code == 1
    found = [f for r in checked.json["reports"][0]["results"] for f in r["findings"]]
    assert any(f["code"] == "never-written" and "demo_1/actions" in str(f["place"]) for f in found)
    reported = invoke("report", claiming, "-o", tmp_path / "a.html")
    assert reported.code == 0, reported.err
    assert "stores none" in (tmp_path / "a.html").read_text("utf-8")
    converted = invoke("convert", claiming, tmp_path / "out.hdf5", "--json")
    ledger = converted.json["results"][0]["ledger"]
    assert "stores none" in str(ledger)
    assert time.monotonic() - began < MOST_SECONDS


@pytest.mark.parametrize("verb", ["check", "convert", "report"])
def test_a_mask_that_was_never_written(invoke: Command, tmp_path: Path, verb: str) -> None:
    path = write_recording("isaaclab", tmp_path / "take.hdf5", episodes=2, rows=(8, 9))
    with h5py.File(path, "r+") as file:
        file.create_dataset("mask/train", (10**11,), "S8", chunks=(1000,))
    options: dict[str, list[str | Path]] = {
        "convert": [tmp_path / "o.hdf5"],
        "report": ["-o", tmp_path / "a.html"],
        "check": [],
    }
    ran = invoke(verb, path, *options[verb])
    assert ran.code in (1, 2)
    assert "mask/train" in ran.out + ran.err
    assert "never-written" in ran.out + ran.err


@pytest.mark.parametrize("verb", ["inspect", "check", "report"])
def test_an_episode_index_beyond_any_store_names_the_file(invoke: Command, tmp_path: Path, verb: str) -> None:
    path = _store(tmp_path / "many.h5", 10**11, 2000)
    ran = invoke(verb, path, *(["-o", tmp_path / "a.html"] if verb == "report" else []))
    assert ran.code in (1, 2)
    said = ran.out + ran.err
    assert "many.h5" in said
    assert "out of memory" not in said
    assert "100,000,000,000 in ep_len" in said or "never-written" in said or "stores none" in said


@pytest.mark.parametrize("verb", ["inspect", "check", "report"])
def test_a_column_of_a_store_that_was_never_written(invoke: Command, tmp_path: Path, verb: str) -> None:
    path = _store(tmp_path / "long.h5", 1, 10**12)
    page = tmp_path / "a.html"
    ran = invoke(verb, path, *(["-o", page] if verb == "report" else []))
    said = ran.out + ran.err + (page.read_text("utf-8") if page.exists() else "")
    assert "stores none" in said
