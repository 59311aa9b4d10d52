"""Motions through the whole chain: convert and run, store layout, model option, LeRobot, same bytes.

What is not here: the source (`sources/test_lafan.py`), the rules (`checks/test_store_lafan.py`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest

from trajpipe import TrajectoryStore
from trajpipe.cli.inspection.reading import inspect_path
from trajpipe.core import provenance
from trajpipe.core.findings import Severity
from trajpipe.core.names import Stage
from trajpipe.demos.reader import DemosFile
from trajpipe.pipeline.convert import ConvertOptions, convert
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.report import write_report
from trajpipe.pipeline.report_subject import subject_of_path
from trajpipe.pipeline.results import StageResult
from trajpipe.pipeline.run import run
from trajpipe.testing.lafan import JOINTS, library_entry, motion_clip, write_csv, write_npz, write_pickle

COLUMNS = {
    "qpos": (36,), "qvel": (35,), "state": (64,), "privileged": (463,), "body_pos": (93,),
    "body_vel": (93,), "body_ang_vel": (93,), "body_quat": (124,), "motion_id": (),
}  # fmt: skip


def _convert(sources: list[Path], target: Path, to: str, **options: Any) -> StageResult:
    *steps, result = convert(sources, target, to, ConvertOptions(**options))
    assert all(step.ok for step in steps), [step.error for step in steps]
    assert result.ok, (result.error, [str(f) for f in result.checks.findings()])
    return result


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    """A CSV of 24 frames."""
    return write_csv(tmp_path / "walk1_subject1.csv", motion_clip("walk", 24))


def test_a_csv_becomes_a_store(clip: Path, tmp_path: Path) -> None:
    result = _convert([clip], tmp_path / "walk.h5", "store")
    assert result.facts["rows"] == 39
    assert result.facts["columns"] == 9
    with TrajectoryStore(result.path) as store:
        assert {name: spec.shape for name, spec in store.columns.items()} == COLUMNS
        assert store.env_id == "unitree_g1_lafan1_50hz"
        assert list(store.tasks) == ["walk1_subject1"]
        assert store.extra["fps"] == "50", "rows are 0.02 s apart, whatever the clip's own rate"
        assert store.episodes_to_pandas()["task"].tolist() == ["walk1_subject1"]
    with h5py.File(result.path) as file:
        assert file["motion_key"][()].tolist() == [b"walk1_subject1"]
        assert file["env_dt"][()].tolist() == [0.02]
        assert file["default_dof_pos"].shape == (29,)
        assert file["motion_id"].dtype == np.int32
        assert file["motion_id"].shape == (39,)
        assert file["source_tags"][()].tolist() == [b"mocap"]
    ran = {r.code for r in result.checks.results}
    assert {"lafan-kinematics", "lafan-velocities", "lafan-observations", "lafan-clips", "store-rate"} <= ran
    # Rows are resampled: nothing compares them with L2's one by one.
    assert "store-equals-l2" in result.checks.skipped


def test_l2_keeps_the_clips_own_frames(clip: Path, tmp_path: Path) -> None:
    result = _convert([clip], tmp_path / "walk.hdf5", "demos")
    with DemosFile(result.path) as demos:
        assert demos.fps == 30
        assert demos.env_args["actions"] == "next_joint_pos"
        assert demos.env_args["env_kwargs"]["joint_names"] == list(JOINTS)
        (episode,) = demos.episodes()
        assert episode.length == 24
        assert episode.tag == "mocap"
        assert episode.success is None
    worst = [f for f in result.checks.findings() if f.severity is not Severity.INFO]
    assert worst == []


def test_the_same_clip_gives_the_same_bytes(clip: Path, tmp_path: Path) -> None:
    files = [_convert([clip], tmp_path / f"{i}" / "walk.h5", "store").path for i in range(2)]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_clips_of_several_files_and_rates_share_a_store(tmp_path: Path) -> None:
    walk, fast = motion_clip("walk", 12), motion_clip("fast", 25, fps=60)
    library = write_pickle(tmp_path / "lib.pkl", {"a": library_entry(walk), "b": library_entry(fast)})
    other = write_csv(tmp_path / "a.csv", walk)
    npz = write_npz(tmp_path / "c.npz", fast)
    result = _convert([library, other, npz], tmp_path / "all.h5", "store")
    with h5py.File(result.path) as file:
        # Two clips are called `a`: their files tell them apart.
        assert file["motion_key"][()].tolist() == [b"lib.pkl:a", b"b", b"a.csv:a", b"c"]
        assert file["ep_len"][()].tolist() == [19, 21, 19, 21]
        ids = file["motion_id"][()]
        np.testing.assert_array_equal(ids, np.repeat([0, 1, 2, 3], [19, 21, 19, 21]))
        np.testing.assert_allclose(file["body_pos"][:19], file["body_pos"][40:59], atol=2e-6)


def test_a_declared_layout_comes_before_the_kinds_own(clip: Path, tmp_path: Path) -> None:
    result = _convert([clip], tmp_path / "walk.h5", "store", layout="generic")
    with TrajectoryStore(result.path) as store:
        assert set(store.columns) == {
            "action", "joint_pos", "root_pos", "root_quat", "task_index", "success"
        }  # fmt: skip
        assert store.n_rows == 24


def test_motions_export_to_lerobot_by_joint_name(clip: Path, tmp_path: Path) -> None:
    result = _convert([clip], tmp_path / "lerobot", "lerobot-v2.1")
    info = json.loads((result.path / "meta/info.json").read_text())
    assert (info["fps"], info["robot_type"], info["total_frames"]) == (30, "unitree_g1", 24)
    assert info["features"]["action"]["names"] == list(JOINTS)
    state = info["features"]["observation.state"]["names"]
    assert state[:29] == list(JOINTS)
    assert state[29:] == [f"root_pos_{c}" for c in "xyz"] + [f"root_quat_{c}" for c in "xyzw"]
    assert not any(name.startswith("observation.images") for name in info["features"])
    table = pq.read_table(next(result.path.glob("data/**/*.parquet")))
    rows = np.stack(table["observation.state"].to_numpy())
    actions = np.stack(table["action"].to_numpy())
    np.testing.assert_array_equal(actions[:-1], rows[1:, :29])


def test_an_export_of_another_robot_type_keeps_it(clip: Path, tmp_path: Path) -> None:
    named = {"robot_type": "mine", "names": {"joint_pos": tuple(f"j{i}" for i in range(29))}}
    result = _convert([clip], tmp_path / "lerobot", "lerobot-v2.1", export=named)
    info = json.loads((result.path / "meta/info.json").read_text())
    assert info["robot_type"] == "mine"
    assert info["features"]["observation.state"]["names"][0] == "j0"


def _project(root: Path, text: str) -> Project:
    (root / "datasets.yaml").write_text("version: 1\ndatasets:\n" + text)
    return Project.open(root / "datasets.yaml")


def test_a_catalogue_entry_runs_every_stage(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    for i in range(2):
        write_csv(tmp_path / f"raw/walk{i}.csv", motion_clip("walk", 12 + i, seed=i))
    project = _project(tmp_path, '  lafan:\n    raw: [{kind: lafan, glob: "raw/*.csv"}]\n')
    results = run(project, ["lafan"]).results
    assert all(r.ok for r in results), [(r.stage, r.error) for r in results]
    assert sorted(p.name for p in (tmp_path / "demos").glob("*.hdf5")) == [
        "mocap_lafan__walk0.hdf5",
        "mocap_lafan__walk1.hdf5",
    ]
    with TrajectoryStore(tmp_path / "stores/lafan.h5") as store:
        assert store.n_episodes == 2
        assert "privileged" in store.columns
    again = run(project, ["lafan"]).results
    assert {r.status.value for r in again} == {"unchanged"}


def test_options_and_model_of_the_catalogue_reach_source_and_store(tmp_path: Path, shared_data: Path) -> None:
    (tmp_path / "raw").mkdir()
    joints = tuple(j for j in JOINTS if "wrist" not in j)
    entry = library_entry(motion_clip("walk", 12), joints, extra_bodies=3)
    write_pickle(tmp_path / "raw/a.pkl", {"a": entry})
    model = shared_data / "mujoco/g1_29dof_rev_1_0.xml"
    (tmp_path / "robot.xml").write_bytes(model.read_bytes())
    text = (
        '  plain:\n    raw: [{kind: lafan, glob: "raw/*.pkl", options: {missing_joints: 0.0}}]\n'
        '  other:\n    raw: [{kind: lafan, glob: "raw/*.pkl", options: {missing_joints: 0.0}}]\n'
        "    store: {target: {model: robot.xml}}\n"
    )
    results = run(_project(tmp_path, text), ["plain", "other"]).results
    assert all(r.ok for r in results), [(r.stage, r.error) for r in results]
    stores = [h5py.File(tmp_path / f"stores/{name}.h5") for name in ("plain", "other")]
    apart = np.abs(stores[0]["body_pos"][()] - stores[1]["body_pos"][()]).max()
    assert 1e-3 < apart < 2e-2
    for store in stores:
        store.close()


def test_a_broken_clip_fails_alone(tmp_path: Path, clip: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text(clip.read_text().splitlines()[0] + "\n1,2,3\n")
    results = convert([clip, bad], tmp_path / "out.h5", "store", ConvertOptions())
    assert [r.usable for r in results] == [True, False, True]
    assert "same count" in str(results[1].error)
    assert results[-1].ledger.failed
    with TrajectoryStore(results[-1].path) as store:
        assert store.n_episodes == 1


def test_a_store_without_joint_names_is_refused(tmp_path: Path) -> None:
    from trajpipe.testing.recording import write_recording

    raw = tmp_path / "lift.hdf5"
    write_recording("isaaclab", raw, episodes=1, rows=(4, 4), image_size=16)
    result = convert([raw], tmp_path / "x.h5", "store", ConvertOptions(layout="lafan"))[-1]
    assert not result.ok
    assert "names its joints" in str(result.error)


def test_a_long_walk_away_from_the_origin(tmp_path: Path) -> None:
    """A clip as long as LAFAN1's dances that ends 105 m away, where float32 positions are 7.6e-6 m apart."""
    csv = write_csv(tmp_path / "walk.csv", motion_clip("walk", 3945))
    result = _convert([csv], tmp_path / "walk.h5", "store")
    (velocities,) = (r for r in result.checks.results if r.code == "lafan-velocities")
    assert velocities.counted is not None
    assert velocities.counted.checked == result.facts["rows"] == 6574
    assert 0.4 < velocities.measures["worst_of_allowed"] <= 1


def test_the_real_clip(shared_data: Path, tmp_path: Path) -> None:
    result = _convert([shared_data / "lafan_g1/dance1_subject2.csv"], tmp_path / "dance.h5", "store")
    assert result.facts["rows"] == 6574
    measures = {r.code: r.measures for r in result.checks.results}
    assert measures["lafan-kinematics"]["worst_m"] <= 1e-6
    assert measures["lafan-velocities"]["angular_share_off"] == 0
    assert 0 < measures["lafan-velocities"]["worst_of_allowed"] <= 1
    assert measures["lafan-joint-limits"]["joint_values_outside"] == 0
    assert 0 < measures["lafan-feet"]["penetration_m"] < 0.1


@pytest.mark.parametrize("version", ["lerobot-v2.0", "lerobot-v3.0"])
def test_every_lerobot_version_takes_motions(clip: Path, tmp_path: Path, version: str) -> None:
    _convert([clip], tmp_path / "lerobot", version)


def test_a_merged_l2_file_is_still_one_of_motions(clip: Path, tmp_path: Path) -> None:
    other = write_csv(tmp_path / "b.csv", motion_clip("fast", 12))
    merged = _convert([clip, other], tmp_path / "all.hdf5", "demos")
    assert [f.code for f in merged.checks.findings() if f.severity is Severity.WARN] == []
    store = _convert([merged.path], tmp_path / "all.h5", "store")
    assert store.facts["columns"] == 9
    assert store.facts["episodes"] == 2


def test_every_view_of_a_motion_store_says_fifty_rows_a_second_and_its_clips(
    clip: Path, tmp_path: Path
) -> None:
    store = _convert([clip], tmp_path / "walk.h5", "store").path
    found = inspect_path(store)
    assert found.facts["fps"] == "50"
    assert found.episodes is not None
    assert dict(found.episodes.tasks) == {"walk1_subject1": 1}
    page = write_report(subject_of_path(store, Stage.STORE), tmp_path / "walk.html").path.read_text("utf-8")
    assert "at 50 Hz 0.78 s" in page
    assert '"walk1_subject1"' in page


def test_a_motion_store_alone_has_no_actions_to_export_and_says_where_they_are(
    clip: Path, tmp_path: Path
) -> None:
    store = _convert([clip], tmp_path / "walk.h5", "store").path
    (result,) = convert([store], tmp_path / "out", "lerobot-v2.1", ConvertOptions())
    assert not result.ok
    assert "in L2 a motion's actions are its next angles" in str(result.error)
    assert not (tmp_path / "out").exists()


def test_the_rate_is_part_of_the_recipe(clip: Path, tmp_path: Path) -> None:
    """Stores of before said the clips' rate; a recipe that says another is built again."""
    store = _convert([clip], tmp_path / "walk.h5", "store").path
    stamp = provenance.read_stamp(store)
    assert stamp is not None
    assert stamp["options"]["lafan"]["rate"] == 50
