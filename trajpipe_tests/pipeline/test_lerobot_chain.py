"""LeRobot in and out: round trips through L2, real sets, catalogues whose recordings are folders.

What is not here: single rules of the importer, see `trajpipe_tests/sources/test_lerobot.py`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from trajpipe.core.episode import Episode, whole
from trajpipe.core.ledger import Rejection
from trajpipe.hdf5.attributes import attributes_of
from trajpipe.pipeline.convert import ConvertOptions, convert
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.run import run
from trajpipe.sources.base import ReadOptions, source
from trajpipe.testing import write_recording
from trajpipe_tests.sources.lerobot_folders import TASKS, Folder

RunReader = Callable[..., dict[str, Any]]
FACTS = ("source", "success", "success_known", "task", "source_file", "source_demo", "num_samples")
TERMS = ("eef_pos", "eef_quat", "joint_pos")


def made(sources: Path, destination: Path, to: str, **options: Any) -> Path:
    """Convert, all checks passed."""
    results = convert([sources], destination, to, ConvertOptions(**options))
    assert all(r.ok for r in results), [r.error or [str(f) for f in r.checks.findings()] for r in results]
    return destination


def demos(path: Path) -> list[tuple[dict[str, NDArray[Any]], dict[str, Any]]]:
    """Arrays and attributes of each demo of an L2 file, in order."""
    out = []
    with h5py.File(path) as file:
        for i in range(len(file["data"])):
            demo, arrays = file[f"data/demo_{i}"], dict[str, NDArray[Any]]()
            demo.visititems(
                lambda n, d, a=arrays: a.update({n: d[()]}) if isinstance(d, h5py.Dataset) else None
            )
            out.append((arrays, attributes_of(demo)))
    return out


@pytest.fixture(scope="module")
def l2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """L2 of a recording with a camera and one failed demo."""
    folder = tmp_path_factory.mktemp("l2")
    raw = write_recording(
        "isaaclab",
        folder / "teleop_lift.hdf5",
        episodes=3,
        rows=(9, 14),
        seed=5,
        image_size=64,
        cameras=("front",),
        format_version=1,
        failures=(1,),
    )
    return made(raw, folder / "lift_l2.hdf5", "demos", task="lift the cube ", tag="teleop")


@pytest.mark.parametrize("version", ["v2.0", "v2.1", "v3.0"])
def test_l2_to_lerobot_and_back_is_equal(l2: Path, tmp_path: Path, version: str) -> None:
    root = made(l2, tmp_path / "lift", f"lerobot-{version}", export={"state": TERMS})
    back = made(root, tmp_path / "back.hdf5", "demos")
    before, after = demos(l2), demos(back)
    assert len(before) == len(after) == 3
    for (arrays, facts), (again, told) in zip(before, after, strict=True):
        for path in ("actions", *(f"obs/{t}" for t in TERMS)):
            assert again[path].dtype == np.float32
            assert again[path].tobytes() == arrays[path].tobytes(), path
        assert set(again) == {"actions", "obs/front", *(f"obs/{t}" for t in TERMS)}
        assert again["obs/front"].shape == arrays["obs/front"].shape
        error = again["obs/front"].astype(float) - arrays["obs/front"]
        assert 10 * np.log10(255**2 / (error**2).mean()) > 30
        assert {k: told.get(k) for k in FACTS} == {k: facts.get(k) for k in FACTS}
    with h5py.File(l2) as one, h5py.File(back) as other:
        recipes = [json.loads(f["data"].attrs["trajpipe"]) for f in (one, other)]
        assert Fraction(recipes[0]["fps"]) == Fraction(recipes[1]["fps"])
        assert recipes[1]["read"]["state"] == [f"obs/{t}" for t in TERMS]


def test_without_cameras_even_the_content_hash_comes_back(l2: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"export": {"cameras": (), "state": TERMS}}
    first = made(made(l2, tmp_path / "a", "lerobot-v2.1", **options), tmp_path / "a.hdf5", "demos")
    second = made(made(first, tmp_path / "b", "lerobot-v2.1", **options), tmp_path / "b.hdf5", "demos")
    hashes = [[facts["content_sha256"] for _, facts in demos(p)] for p in (first, second)]
    assert hashes[0] == hashes[1]


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_tasks_that_change_inside_an_episode_survive_the_round_trip(tmp_path: Path, version: str) -> None:
    tasks = [[2, 0, 1, 2, 0, 1, 2], [0] * 4, [1, 1, 0, 0, 1]]
    root = Folder(videos=False, version=version, tasks=tasks).write(tmp_path / "set")
    first = made(root, tmp_path / "a.hdf5", "demos")
    exported = made(first, tmp_path / "out", "lerobot-v2.1")
    lines = (exported / "meta/tasks.jsonl").read_text("utf-8").splitlines()
    texts = [json.loads(line)["task"] for line in lines]
    for i, numbers in enumerate(tasks):
        table = pq.read_table(exported / f"data/chunk-000/episode_{i:06d}.parquet")
        assert [texts[n] for n in table["task_index"].to_pylist()] == [TASKS[n] for n in numbers]
    again = made(exported, tmp_path / "b.hdf5", "demos")
    for (arrays, facts), (other, told) in zip(demos(first), demos(again), strict=True):
        np.testing.assert_array_equal(arrays["task_index"], other["task_index"])
        assert (facts["tasks"], facts["task"]) == (told["tasks"], told["task"])


def test_names_of_dimensions_and_the_robot_survive(tmp_path: Path) -> None:
    root = Folder(videos=False).write(tmp_path / "set")
    l2 = made(root, tmp_path / "a.hdf5", "demos")
    info = json.loads((made(l2, tmp_path / "out", "lerobot-v2.1") / "meta/info.json").read_text())
    assert info["robot_type"] == "arm"
    assert info["features"]["observation.state"]["names"] == ["a", "b", "c"]
    declared = {"robot_type": "panda", "names": {"state": ("x", "y", "z")}}
    other = made(l2, tmp_path / "named", "lerobot-v2.1", export=declared)
    info = json.loads((other / "meta/info.json").read_text())
    assert (info["robot_type"], info["features"]["observation.state"]["names"]) == ("panda", ["x", "y", "z"])


TARGETS = ("lerobot-v2.0", "lerobot-v2.1", "lerobot-v3.0", "gr00t-v2.1")


@pytest.mark.parametrize("to", TARGETS)
@pytest.mark.parametrize(
    "given",
    [["kElbow", "kWrist", "kHand"], [["kElbow", "kWrist", "kHand"]], {"motors": ["m_0", "m_1", "m_2"]}, None],
    ids=["list", "nested list", "object", "none"],
)
def test_any_form_of_names_goes_to_every_version(tmp_path: Path, to: str, given: Any) -> None:
    root = Folder().write(tmp_path / "set")
    info = json.loads((root / "meta/info.json").read_text())
    info["features"]["observation.state"]["names"] = given
    (root / "meta/info.json").write_text(json.dumps(info))
    results = convert([root], tmp_path / "out", to, ConvertOptions())
    assert all(r.ok for r in results), [str(f) for r in results for f in r.checks.findings()]
    (compared,) = [c for c in results[-1].checks.results if c.code == "lerobot-equals-l2"]
    assert str(compared.counted) == "checked 16 of 16 rows"


@pytest.mark.shared
@pytest.mark.parametrize(
    "name",
    ["v2.1_g1_bottle_2ep", "v3.0_g1_bottle_2ep", "v2.1_screwdriver_panel_ls_080225_4_e5", "v3.0_pusht"],
)
def test_a_real_set_becomes_v30(shared_data: Path, tmp_path: Path, name: str) -> None:
    results = convert([shared_data / "lerobot" / name], tmp_path / "out", "lerobot-v3.0")
    assert all(r.ok for r in results), [str(f) for r in results for f in r.checks.findings()]
    (compared,) = [c for c in results[-1].checks.results if c.code == "lerobot-equals-l2"]
    assert compared.counted is not None
    assert compared.counted.checked == compared.counted.total > 400


def test_sets_that_name_their_dimensions_differently_get_none_of_them(tmp_path: Path) -> None:
    folders = [Folder(videos=False).write(tmp_path / f"raw/{n}") for n in ("one", "two")]
    info = json.loads((folders[1] / "meta/info.json").read_text())
    info["features"]["observation.state"]["names"] = ["a", "b", "d"]
    (folders[1] / "meta/info.json").write_text(json.dumps(info | {"robot_type": "leg"}))
    made(tmp_path / "raw", tmp_path / "out", "lerobot-v2.1")
    info = json.loads((tmp_path / "out/meta/info.json").read_text())
    assert info["robot_type"] == "unknown"
    assert info["features"]["observation.state"]["names"] == ["state_0", "state_1", "state_2"]


def test_a_second_build_gives_the_same_bytes(tmp_path: Path) -> None:
    root = Folder(version="v3.0").write(tmp_path / "set")
    one, two = (made(root, tmp_path / f"{n}/x.hdf5", "demos") for n in "ab")
    assert one.read_bytes() == two.read_bytes()


def test_a_broken_set_among_good_ones_fails_alone(tmp_path: Path) -> None:
    folder = tmp_path / "sets"
    Folder(videos=False, version="v3.0").write(folder / "good_v3.0")
    bad = Folder(videos=False, version="v3.0").write(folder / "bad_v3.0") / "data/chunk-000/file-000.parquet"
    bad.write_bytes(bad.read_bytes()[:-8])
    results = convert([folder], tmp_path / "all.h5", "store")
    assert [(r.path.name, r.ok) for r in results] == [
        ("bad_v3.0", False),
        ("good_v3.0", True),
        ("all.h5", True),
    ]
    assert "not finalised" in str(results[0].error)
    assert results[-1].ledger.failed.keys() == {"bad_v3.0"}


def test_a_short_video_is_a_rejection_in_the_ledger(tmp_path: Path) -> None:
    root = Folder().write(tmp_path / "set")
    path = root / "videos/chunk-000/observation.images.front/episode_000001.mp4"
    shutil.copy(path, root / "videos/chunk-000/observation.images.front/episode_000000.mp4")
    (result,) = convert([root], tmp_path / "x.hdf5", "demos")
    assert result.ok, result.error
    assert [(r.episode, r.reason) for r in result.ledger.rejected] == [("episode_000000", "short-video")]
    assert (result.ledger.read, result.ledger.written) == (3, 2)


CATALOGUE = """\
version: 1
datasets:
  folders:
    raw:
      - {kind: lerobot, glob: raw/*, tag: teleop}
    license: mit
"""


def test_a_catalogue_of_folders_runs_and_sees_what_changed(tmp_path: Path) -> None:
    root = tmp_path / "data"
    sets = [Folder(videos=False).write(root / f"raw/{n}") for n in ("one_v2.1", "two_v2.1")]
    (root / "datasets.yaml").write_text(CATALOGUE)
    project = Project.open(root / "datasets.yaml")
    assert [r.key for r in project.recordings("folders")] == ["one_v2.1", "two_v2.1"]
    assert run(project).ok
    assert {r.status.value for r in run(project).results} == {"unchanged"}
    changed = sets[1] / "data/chunk-000/episode_000000.parquet"
    pq.write_table(pq.read_table(changed), changed, compression="none")
    whole_folder = CATALOGUE.replace("raw/*", "raw")
    (tmp_path / "whole.yaml").write_text(whole_folder)
    assert len(Project.open(tmp_path / "whole.yaml", root).recordings("folders")) == 2
    again = run(Project.open(root / "datasets.yaml"))
    assert [r.status.value for r in again.results[:2]] == ["unchanged", "built"]


REAL = {
    "v2.0_robot_sim.PickNPlace": (5, 2096, Fraction(20), {"ego_view"}),
    "v2.1_g1_bottle_2ep": (2, 499, Fraction(30), {"cam_high"}),
    "v2.1_screwdriver_panel_ls_080225_4_e5": (5, 1217, Fraction(30), set()),
    "v3.0_g1_bottle_2ep": (2, 499, Fraction(30), {"cam_high"}),
    "v3.0_pusht": (206, 25650, Fraction(10), set()),
}


@pytest.mark.parametrize("name", REAL)
def test_real_sets_come_through(shared_data: Path, name: str) -> None:
    count, rows, fps, cameras = REAL[name]
    root, reader, options = shared_data / "lerobot" / name, source("lerobot"), ReadOptions(sha256="0" * 64)
    assert reader.describe(root, options).fps == fps
    found = 0
    for item in reader.episodes(root, options):
        assert isinstance(item, Episode), str(item)
        images = {p.removeprefix("obs/") for p, c in item.columns.items() if len(c.shape) == 4}
        assert images == cameras
        assert item.columns["actions"].shape[1] == item.columns["obs/state"].shape[1]
        assert item.task
        found += item.length
        count -= 1
    assert (count, found) == (0, rows)


def test_the_same_set_as_v21_and_v30_is_the_same(shared_data: Path) -> None:
    reader, options = source("lerobot"), ReadOptions(sha256="0" * 64)
    both = [
        reader.episodes(shared_data / "lerobot" / f"{v}_g1_bottle_2ep", options) for v in ("v2.1", "v3.0")
    ]
    for old, new in zip(*both, strict=True):
        assert not isinstance(old, Rejection)
        assert not isinstance(new, Rejection)
        for path in ("actions", "obs/state"):
            np.testing.assert_array_equal(whole(old.columns[path]), whole(new.columns[path]))
        for row in (0, old.length - 1):
            frames = [e.columns["obs/cam_high"].read(row, row + 1) for e in (old, new)]
            np.testing.assert_array_equal(*frames)
        assert (old.task, old.length) == (new.task, new.length)


@pytest.mark.shared
def test_a_real_v30_set_loads_in_lerobot_033_after_our_hands(
    shared_data: Path, tmp_path: Path, run_reader: RunReader
) -> None:
    l2 = made(shared_data / "lerobot/v3.0_g1_bottle_2ep", tmp_path / "bottle.hdf5", "demos")
    root = made(l2, tmp_path / "bottle", "lerobot-v2.1")
    found = run_reader("lerobot-0.3.3", root, "--frames", "0,277,278,498", "--save", tmp_path)
    assert (found["episodes"], found["frames"], found["fps"]) == (2, 499, 30)
    assert [r["length"] for r in found["episode_rows"]] == [278, 221]
    assert {i["task"] for i in found["items"]} == {"Pick up the yellow bottle on the table."}
    original = ReadOptions(sha256="0" * 64)
    offset = 0
    for item in source("lerobot").episodes(shared_data / "lerobot/v3.0_g1_bottle_2ep", original):
        assert isinstance(item, Episode)
        for row in (0, item.length - 1):
            saved = (
                np.load(tmp_path / f"observation.images.cam_high__{offset + row}.npy").transpose(1, 2, 0)
                * 255
            )
            frame = item.columns["obs/cam_high"].read(row, row + 1)[0]
            assert 10 * np.log10(255**2 / ((saved - frame.astype(float)) ** 2).mean()) > 30
        offset += item.length


def test_rates_reach_the_export(tmp_path: Path) -> None:
    root = Folder(videos=False, info={"fps": 29.97}).write(tmp_path / "set")
    exported = made(root, tmp_path / "out", "lerobot-v2.1")
    info = json.loads((exported / "meta/info.json").read_text())
    assert info["fps"] == float(Fraction(30000, 1001))
