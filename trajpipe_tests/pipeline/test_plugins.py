"""A source and a check of another package, one file each, found by entry point, run through the whole chain.

The package lies in a temporary folder with an installer's metadata; trajpipe runs as the real command.
What is not here: the built-in sources and rules.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest

REPOSITORY: Final = Path(__file__).resolve().parents[2]

SOURCE: Final = '''
"""Recordings of a plotter: CSV with one row per step."""

import csv
from fractions import Fraction

import numpy as np

from trajpipe.core.episode import ArrayColumn, Description, Episode
from trajpipe.core.ledger import Rejection
from trajpipe.core.names import Alignment
from trajpipe.core.order import natural_sorted
from trajpipe.sources.base import Source


class PlotterSource(Source):
    """Reads `*.plot.csv`: columns run, x, y, dx, dy."""

    kind = "plotter"
    title = "pen plotter logs (CSV)"
    globs = ("*.plot.csv",)

    def detect(self, path):
        return path.name.endswith(".plot.csv")

    def describe(self, path, options):
        return Description(
            kind=self.kind,
            episodes=tuple(natural_sorted(self._runs(path))),
            env_args={"env_name": "Plotter", "type": 2, "env_kwargs": {}},
            fps=Fraction(10),
        )

    def episodes(self, path, options):
        runs = self._runs(path)
        for name in natural_sorted(runs):
            rows = np.array(runs[name], dtype=np.float32)
            if len(rows) < 3:
                yield Rejection(path.name, name, "too-short", f"{len(rows)} rows")
                continue
            yield Episode(
                name,
                len(rows),
                {"actions": ArrayColumn(rows[:, 2:]), "obs/pen": ArrayColumn(rows[:, :2])},
                success=True,
                alignment=Alignment.BEFORE_ACTION,
                source_file=path.name,
                source_demo=name,
                source_sha256=options.sha256,
            )

    def _runs(self, path):
        runs = {}
        with path.open(newline="") as handle:
            for row in csv.DictReader(handle):
                runs.setdefault(row["run"], []).append([float(row[k]) for k in ("x", "y", "dx", "dy")])
        return runs
'''
CHECK: Final = '''
"""A rule of this lab: the pen stays on the paper."""

import h5py

from trajpipe.checks import check
from trajpipe.core.findings import Finding, Place, Severity


@check("pen-off-paper", stage="demos", title="The pen stays on the paper", blocking=False)
def pen_off_paper(subject):
    with h5py.File(subject.path) as handle:
        demos = handle["data"]
        for name, demo in demos.items():
            far = abs(demo["obs/pen"][()]).max()
            if far > 10:
                place = Place(subject.path.name, name, "obs/pen")
                message = "the pen left the paper"
                yield Finding("pen-off-paper", Severity.ERROR, message, place, got=f"{far:g}")
        subject.count(len(demos), len(demos), "demos")
'''
ENTRY_POINTS: Final = """\
[trajpipe.sources]
plotter = plotterkit.source:PlotterSource

[trajpipe.checks]
pen-off-paper = plotterkit.rules
"""
CATALOGUE: Final = """\
version: 1
datasets:
  drawings:
    task: draw a line
    license: CC0-1.0
    raw:
      - {kind: plotter, glob: "raw/*.plot.csv", tag: scripted}
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with the package `plotterkit` as an installer leaves it."""
    site = tmp_path / "site"
    package, metadata = site / "plotterkit", site / "plotterkit-1.0.dist-info"
    package.mkdir(parents=True)
    metadata.mkdir()
    (package / "__init__.py").touch()
    (package / "source.py").write_text(SOURCE)
    (package / "rules.py").write_text(CHECK)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: plotterkit\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    return site


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with two plotter logs: runs of 5 and 7 steps, one too short, one more in another file."""
    root = tmp_path / "data"
    write_log(root / "raw" / "monday.plot.csv", {"run_2": 7, "run_10": 5, "run_3": 2})
    write_log(root / "raw" / "tuesday.plot.csv", {"run_1": 4})
    (root / "datasets.yaml").write_text(CATALOGUE)
    return root


def write_log(path: Path, runs: dict[str, int], scale: float = 1.0) -> None:
    """A log whose pen moves right by one hundredth a step, times the scale."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        f"{run},{i / 100 * scale},0,{scale / 100},0" for run, steps in runs.items() for i in range(steps)
    ]
    path.write_text("run,x,y,dx,dy\n" + "\n".join(lines) + "\n")


def trajpipe(*arguments: object, site: Path | None) -> subprocess.CompletedProcess[str]:
    """The real command, with or without the other package in reach."""
    folders = [str(REPOSITORY), *([str(site)] if site is not None else [])]
    return subprocess.run(
        [sys.executable, "-m", "trajpipe", *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
    )


def document(*arguments: object, site: Path, code: int = 0) -> Any:
    """The JSON document that a verb prints."""
    done = trajpipe(*arguments, "--json", site=site)
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)


def results_of(run: Any, stage: str) -> list[Any]:
    """A run's results of one stage."""
    return [r for r in run["results"] if r["stage"] == stage]


def test_a_source_and_a_check_of_another_package_run_through_the_whole_chain(
    installed: Path, data: Path
) -> None:
    run = document("run", "--root", data, site=installed)
    demos = results_of(run, "demos")
    assert [r["status"] for r in run["results"]] == ["built"] * 4
    assert sum(r["ledger"]["entries"][0]["written"] for r in demos) == 3
    assert "read 4 · written 3 · rejected 1 (1 too-short)" in run["summary"]
    own = [c for r in demos for c in r["checks"]["results"] if c["code"] == "pen-off-paper"]
    assert [c["counted"] for c in own] == [[2, 2, "demos"], [1, 1, "demos"]]

    with h5py.File(data / "demos" / "scripted_drawings__monday.plot.hdf5") as handle:
        assert [handle["data"][d].attrs["source_demo"] for d in ("demo_0", "demo_1")] == ["run_2", "run_10"]
        assert handle["data"].attrs["total"] == 12
    with h5py.File(data / "stores" / "drawings.h5") as handle:
        assert handle["ep_len"][()].tolist() == [7, 5, 4]
        np.testing.assert_array_equal(handle["action"][:, 0], np.full(16, 0.01, np.float32))
    info = json.loads((data / "lerobot" / "drawings" / "meta" / "info.json").read_text())
    assert (info["total_episodes"], info["total_frames"], info["fps"]) == (3, 16, 10)
    table = pq.read_table(data / "lerobot/drawings/data/chunk-000/episode_000001.parquet")
    assert table["observation.state"].to_pylist() == [[np.float32(i / 100), 0] for i in range(5)]


def test_the_other_package_s_check_fails_a_run_like_any_other(installed: Path, data: Path) -> None:
    write_log(data / "raw" / "tuesday.plot.csv", {"run_1": 4}, scale=1000)
    run = document("run", "--root", data, site=installed, code=1)
    found = [
        f
        for r in results_of(run, "demos")
        for c in r["checks"]["results"]
        for f in c["findings"]
        if f["severity"] == "error"
    ]
    assert [(f["code"], f["place"]["demo"], f["got"]) for f in found] == [("pen-off-paper", "demo_0", "30")]
    assert [r["status"] for r in run["results"]] == ["built"] * 4


def test_both_are_listed_beside_the_built_in_ones(installed: Path) -> None:
    assert "pen plotter logs (CSV)" in trajpipe("sources", site=installed).stdout
    assert "pen-off-paper" in trajpipe("checks", site=installed).stdout
    assert "plotter" not in trajpipe("sources", site=None).stdout
    assert "pen-off-paper" not in trajpipe("checks", site=None).stdout


def test_its_recordings_are_detected_and_converted_without_a_catalogue(installed: Path, data: Path) -> None:
    out = data / "out.hdf5"
    done = trajpipe("convert", data / "raw" / "tuesday.plot.csv", out, "--to", "demos", site=installed)
    assert done.returncode == 0, done.stdout + done.stderr
    with h5py.File(out) as handle:
        np.testing.assert_allclose(handle["data/demo_0/obs/pen"][:, 0], [0, 0.01, 0.02, 0.03], rtol=1e-6)


def test_without_the_package_the_catalogue_names_the_kinds_that_there_are(data: Path) -> None:
    done = trajpipe("run", "--root", data, site=None)
    assert done.returncode == 2
    assert "plotter" in done.stderr
    assert "isaaclab" in done.stderr
