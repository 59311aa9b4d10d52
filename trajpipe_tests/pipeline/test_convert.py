"""Conversion without a catalogue: every target, several sources, broken ones, and real files."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import h5py
import numpy as np
import pytest

from trajpipe.core.conventions import Conventions
from trajpipe.core.errors import UsageError
from trajpipe.pipeline.convert import ConvertOptions, convert, is_l2
from trajpipe.pipeline.results import StageResult, Status
from trajpipe.testing import write_recording


@pytest.fixture
def recordings(tmp_path: Path) -> list[Path]:
    """Two good IsaacLab recordings of two demos each."""
    return [
        write_recording(
            "isaaclab",
            tmp_path / f"teleop_take_{i}.hdf5",
            episodes=2,
            rows=(8, 10),
            seed=i,
            cameras=("front",),
            image_size=64,
        )
        for i in range(2)
    ]


def leftovers(folder: Path) -> list[str]:
    """Temporaries and locks that lie about."""
    return [p.name for p in folder.rglob(".*")]


def test_one_recording_becomes_one_l2_file(recordings: list[Path], tmp_path: Path) -> None:
    (result,) = convert(recordings[:1], tmp_path / "out" / "x.hdf5", "demos")
    assert result.ok, result.error
    assert is_l2(tmp_path / "out" / "x.hdf5")
    assert not is_l2(recordings[0])
    assert leftovers(tmp_path / "out") == []


def test_several_recordings_become_one_l2_file_with_dense_numbers(
    recordings: list[Path], tmp_path: Path
) -> None:
    results = convert(recordings, tmp_path / "all.hdf5", "demos")
    assert all(r.ok for r in results), [r.error for r in results]
    with h5py.File(tmp_path / "all.hdf5") as file:
        assert sorted(file["data"]) == [f"demo_{i}" for i in range(4)]
        assert [file[f"data/demo_{i}"].attrs["source_file"] for i in (0, 2)] == [p.name for p in recordings]
        assert file["data"].attrs["total"] == sum(len(file[f"data/demo_{i}/actions"]) for i in range(4))


def test_several_recordings_into_a_folder_stay_apart(recordings: list[Path], tmp_path: Path) -> None:
    results = convert(recordings, tmp_path / "folder", "demos")
    assert [r.path.name for r in results] == ["teleop_take_0.hdf5", "teleop_take_1.hdf5"]
    assert all(r.ok for r in results)


@pytest.mark.parametrize("to", ["store", "lerobot-v2.1"])
def test_l2_and_raw_may_be_mixed(recordings: list[Path], tmp_path: Path, to: str) -> None:
    (l2,) = convert(recordings[:1], tmp_path / "l2.hdf5", "demos")
    results = convert([l2.path, recordings[1]], tmp_path / "out", to)
    assert results[-1].ok, results[-1].error
    assert results[-1].facts["episodes"] == 4
    assert leftovers(tmp_path) == []


def test_a_broken_recording_fails_alone(recordings: list[Path], tmp_path: Path) -> None:
    recordings[0].write_bytes(b"")
    results = convert(recordings, tmp_path / "store.h5", "store")
    assert [r.status for r in results] == [Status.FAILED, Status.BUILT, Status.BUILT]
    assert results[-1].facts["episodes"] == 2
    assert list(results[-1].ledger.failed) == [recordings[0].name]


def test_nothing_usable_makes_nothing(recordings: list[Path], tmp_path: Path) -> None:
    recordings[0].write_bytes(b"")
    results = convert(recordings[:1], tmp_path / "store.h5", "store")
    assert [r.status for r in results] == [Status.FAILED, Status.FAILED]
    assert not (tmp_path / "store.h5").exists()


def test_a_store_without_a_rate_in_its_recordings_exports_only_with_one(tmp_path: Path) -> None:
    raw = write_recording(
        "isaaclab", tmp_path / "a.hdf5", episodes=1, rows=(8, 8), cameras=(), sim_args=False
    )
    results = convert([raw], tmp_path / "out", "lerobot-v2.1")
    assert results[-1].status is Status.FAILED
    assert "fps: 20" in str(results[-1].error)
    options = ConvertOptions(conventions=Conventions(fps=Fraction(20)))
    assert convert([raw], tmp_path / "out", "lerobot-v2.1", options)[-1].ok
    info = json.loads((tmp_path / "out" / "meta" / "info.json").read_text())
    assert info["fps"] == 20


def test_the_destination_may_not_be_a_source(recordings: list[Path]) -> None:
    before = recordings[0].read_bytes()
    with pytest.raises(UsageError, match="the destination is one of the sources"):
        convert(recordings, recordings[0], "store")
    assert recordings[0].read_bytes() == before


def test_an_unknown_target_is_refused_with_the_known_ones(recordings: list[Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"demos, store, .*lerobot-v2\.1"):
        convert(recordings, tmp_path / "x", "rlds")


def outcome(results: list[StageResult]) -> str:
    """`ok`, or the codes of what refused."""
    if results[-1].ok:
        return "ok"
    return ", ".join(sorted({f.code for r in results for f in r.checks.findings() if f.severity == "error"}))


@pytest.mark.shared
@pytest.mark.parametrize("to", ["demos", "store", "lerobot-v2.1"])
@pytest.mark.parametrize("name", ["dataset.hdf5", "annotated_dataset.hdf5"])
def test_the_real_isaaclab_recordings_come_out_right(
    shared_data: Path, tmp_path: Path, name: str, to: str
) -> None:
    options = ConvertOptions(conventions=Conventions(fps=Fraction(20)), task="stack the cubes")
    destination = tmp_path / {"demos": "x.hdf5", "store": "x.h5"}.get(to, "x")
    results = convert([shared_data / "isaaclab" / name], destination, to, options)
    assert outcome(results) == "ok", [str(f) for r in results for f in r.checks.findings()]
    assert results[-1].facts["episodes"] == 10
    assert results[-1].facts["rows"] == 2163


@pytest.mark.shared
def test_the_real_franka_recording_is_repaired_and_each_repair_is_named(
    shared_data: Path, tmp_path: Path
) -> None:
    raw = shared_data / "isaaclab" / "dataset.hdf5"
    (result,) = convert([raw], tmp_path / "x.hdf5", "demos")
    assert result.ok
    repairs = {f.code: f for f in result.checks.results[0].findings}
    assert (repairs["total-wrong"].got, repairs["total-wrong"].expected) == ("3901", "2163")
    assert {"numbering-gaps", "legacy-quaternions", "format-version-missing"} <= set(repairs)
    with h5py.File(raw) as before, h5py.File(result.path) as after:
        assert after["data"].attrs["total"] == 2163
        assert after.attrs["format_version"] == 1
        old_names = ["demo_0", "demo_1", "demo_2", "demo_6", "demo_8", "demo_9", "demo_12", "demo_13"]
        old_names += ["demo_14", "demo_16"]
        for number, old_name in enumerate(old_names):
            old, new = before["data"][old_name], after[f"data/demo_{number}"]
            assert new.attrs["source_demo"] == old_name
            for path, starts in {
                "obs/eef_quat": (0,),
                "obs/cube_orientations": (0, 4, 8),
                "obs/object": (3, 10, 17),
                "states/articulation/robot/root_pose": (3,),
                "initial_state/rigid_object/cube_1/root_pose": (3,),
            }.items():
                expected = old[path][()]
                for start in starts:
                    expected[:, start : start + 4] = np.roll(expected[:, start : start + 4], -1, axis=1)
                np.testing.assert_array_equal(new[path][()], expected, err_msg=f"{old_name}/{path}")
    again = convert([result.path], tmp_path / "again.hdf5", "demos", ConvertOptions(kind="isaaclab"))[0]
    assert again.ok, again.error
    with h5py.File(result.path) as once, h5py.File(again.path) as twice:
        np.testing.assert_array_equal(
            once["data/demo_0/obs/eef_quat"][()], twice["data/demo_0/obs/eef_quat"][()]
        )


REAL = {
    "robomimic/handover_panda_panda/demo.hdf5": "ok",
    "robosuite/lift/demo.hdf5": "ok",
    "robosuite/wipe_panda/demo.hdf5": "ok",
    "robosuite/stack_panda/demo.hdf5": "ok",
    "libero/KITCHEN_SCENE10_close_the_top_drawer_of_the_cabinet_demo.hdf5": "ok",
}


@pytest.mark.shared
@pytest.mark.parametrize("to", ["demos", "store", "lerobot-v2.1"])
def test_every_other_real_recording_comes_through_or_is_refused_with_the_reason(
    shared_data: Path, tmp_path: Path, to: str
) -> None:
    files = [
        p
        for folder in ("robomimic", "robosuite", "libero", "libero_generated")
        for p in sorted((shared_data / folder).rglob("*.hdf5"))
    ]
    assert len(files) >= 8
    outcomes = {}
    for number, path in enumerate(files):
        options = ConvertOptions(conventions=Conventions(fps=Fraction(20)), task="do it")
        suffix = {"demos": ".hdf5", "store": ".h5"}.get(to, "")
        results = convert([path], tmp_path / f"{number}{suffix}", to, options)
        outcomes[path.relative_to(shared_data).as_posix()] = outcome(results)
        if results[-1].status is Status.FAILED:
            assert results[-1].error
    for name, expected in REAL.items():
        assert outcomes[name] == expected, outcomes


def test_a_store_becomes_a_lerobot_folder_with_the_same_rows(recordings: list[Path], tmp_path: Path) -> None:
    store = convert(recordings, tmp_path / "s.h5", "store")[-1]
    direct = convert(recordings, tmp_path / "direct", "lerobot-v2.1")[-1]
    (result,) = convert([store.path], tmp_path / "from_store", "lerobot-v2.1")
    assert result.ok, result.error or [str(f) for f in result.checks.findings()]
    assert result.facts["rows"] == store.facts["rows"] == direct.facts["rows"]
    info, expected = (
        json.loads((tmp_path / name / "meta" / "info.json").read_text()) for name in ("from_store", "direct")
    )
    assert info["fps"] == expected["fps"]
    assert "observation.images.front" in info["features"]
    episodes = [
        json.loads(line)
        for line in (tmp_path / "from_store" / "meta" / "episodes.jsonl").read_text().splitlines()
    ]
    assert [e["source"] for e in episodes] == ["teleop"] * 4
    assert episodes[2]["source_file"] == recordings[1].name
    again = convert([store.path], tmp_path / "from_store", "lerobot-v2.1")[0]
    assert again.status is Status.UNCHANGED


def test_a_store_converts_alone_and_to_lerobot_only(recordings: list[Path], tmp_path: Path) -> None:
    store = convert(recordings[:1], tmp_path / "s.h5", "store")[-1].path
    for sources, to in (([store], "demos"), ([store], "store"), ([store, recordings[1]], "lerobot-v2.1")):
        with pytest.raises(UsageError, match="converts alone, and to LeRobot only"):
            convert(sources, tmp_path / "out", to)


def test_a_store_without_a_rate_needs_one(tmp_path: Path) -> None:
    raw = write_recording(
        "isaaclab", tmp_path / "a.hdf5", episodes=1, rows=(8, 8), cameras=(), sim_args=False
    )
    store = convert([raw], tmp_path / "s.h5", "store")[-1].path
    (refused,) = convert([store], tmp_path / "out", "lerobot-v2.1")
    assert refused.status is Status.FAILED
    assert "--fps" in str(refused.error)
    options = ConvertOptions(conventions=Conventions(fps=Fraction(20)))
    assert convert([store], tmp_path / "out", "lerobot-v2.1", options)[0].ok


def test_gr00ts_profile_is_v21_held_to_its_rules(recordings: list[Path], tmp_path: Path) -> None:
    result = convert(recordings[:1], tmp_path / "out", "gr00t-v2.1")[-1]
    assert result.ok, [str(f) for f in result.checks.findings()]
    info = json.loads((tmp_path / "out" / "meta" / "info.json").read_text())
    assert info["codebase_version"] == "v2.1"
