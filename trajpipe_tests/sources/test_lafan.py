"""Motion clips as a source: CSV in its forms and libraries; joints by name, quaternions judged.

What is not here: npz (`test_lafan_npz.py`), reading pickles safely (`core/test_pickles.py`).
"""

from __future__ import annotations

import os
import pickle
import re
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trajpipe.core.conventions import Conventions
from trajpipe.core.episode import Episode, whole
from trajpipe.core.errors import InputError, UnreadableError, UntrustedError
from trajpipe.core.findings import Severity
from trajpipe.core.ledger import Rejection
from trajpipe.sources import base
from trajpipe.testing.joblib_stream import joblib_bytes
from trajpipe.testing.lafan import (
    JOINTS,
    MotionClip,
    library_entry,
    motion_clip,
    write_csv,
    write_npz,
    write_pickle,
)
from trajpipe.testing.recording import write_recording
from trajpipe_tests.sources.motion_episodes import describe, one, read, require_clip, term

NO_WRISTS = tuple(joint for joint in JOINTS if "wrist" not in joint)
ROOT = ("x", "y", "z", "qx", "qy", "qz", "qw")


def test_a_csv_becomes_one_episode(tmp_path: Path) -> None:
    clip = motion_clip("walk", 20)
    path = write_csv(tmp_path / "walk1_subject1.csv", clip)
    episode = one(path)
    require_clip(episode, clip, 6e-7)
    assert {p: (c.dtype.name, c.shape) for p, c in episode.columns.items()} == {
        "actions": ("float32", (20, 29)),
        "obs/joint_pos": ("float64", (20, 29)),
        "obs/root_pos": ("float64", (20, 3)),
        "obs/root_quat": ("float64", (20, 4)),
    }
    assert (episode.name, episode.task, episode.tag) == ("walk1_subject1", "walk1_subject1", "mocap")
    assert (episode.success, episode.alignment) == (None, "before_action")
    assert (episode.source_file, episode.source_demo) == ("walk1_subject1.csv", "walk1_subject1")
    assert episode.attributes == {"fps": 30.0}
    np.testing.assert_array_equal(term(episode, "joint_pos"), np.loadtxt(path, delimiter=",")[:, 7:])


def test_actions_are_the_next_joint_angles_and_env_args_says_so(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", motion_clip("walk", 9))
    episode, said = one(path), describe(path)
    angles = term(episode, "joint_pos").astype(np.float32)
    np.testing.assert_array_equal(
        whole(episode.columns["actions"]), np.concatenate([angles[1:], angles[-1:]])
    )
    assert said.env_args == {
        "env_name": "unitree_g1_motion",
        "type": 2,
        "env_kwargs": {"joint_names": list(JOINTS), "robot": "unitree_g1", "control_freq": 30},
        "actions": "next_joint_pos",
    }
    assert (said.kind, said.tag, said.fps, said.episodes) == ("lafan", "mocap", Fraction(30), ("a",))


def test_a_declared_rate_comes_before_the_files(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "a.npz", motion_clip("walk", 9, fps=60))
    assert describe(path).fps == 60
    declared = Conventions(fps=Fraction(50))
    assert describe(path, declared).fps == 50
    assert one(path, declared).attributes == {"fps": 50.0}
    assert describe(path, declared).env_args is not None


@pytest.mark.parametrize(
    "header",
    [
        (*ROOT, *JOINTS),
        ("root_pos_x", "root_pos_y", "root_pos_z", "root_rot_x", "root_rot_y", "root_rot_z", "root_rot_w",
         *(j.removesuffix("_joint") for j in JOINTS)),
    ],
)  # fmt: skip
def test_a_header_is_found(tmp_path: Path, header: tuple[str, ...]) -> None:
    clip = motion_clip("walk", 8)
    path = write_csv(tmp_path / "a.csv", clip, header)
    assert base.detect(path).kind == "lafan"
    require_clip(one(path), clip, 6e-7)


def test_named_columns_may_come_in_any_order_with_a_frame_counter(tmp_path: Path) -> None:
    clip = motion_clip("walk", 8)
    values = np.concatenate([clip.root_pos, clip.root_quat, clip.joint_pos], axis=1)
    order = np.random.default_rng(1).permutation(36)
    names = ["frame", *((*ROOT, *JOINTS)[i] for i in order)]
    lines = [",".join(names)]
    lines += [",".join([str(n), *(f"{values[n, i]:.6f}" for i in order)]) for n in range(8)]
    path = tmp_path / "a.csv"
    path.write_text("\ufeff" + "\r\n".join(lines) + "\r\n", "utf-8")
    require_clip(one(path), clip, 6e-7)


def test_declared_columns_and_header_rows(tmp_path: Path) -> None:
    clip = motion_clip("walk", 8)
    text = write_csv(tmp_path / "a.csv", clip).read_text()
    mirrored = [j.replace("left", "L").replace("right", "left").replace("L", "right") for j in JOINTS]
    path = tmp_path / "b.csv"
    path.write_text("made by hand\n2024,01\n" + text)
    episode = one(path, header_rows=2, columns=[*ROOT, *mirrored])
    swapped = clip.joint_pos[:, [mirrored.index(j) for j in JOINTS]]
    np.testing.assert_allclose(term(episode, "joint_pos"), swapped, atol=6e-7)


@pytest.mark.parametrize(
    ("text", "options", "match"),
    [
        ("", {}, "has frames"),
        ("1,2,3\n", {}, "known by name"),
        ("1,2\n1\n", {}, "same count"),
        ("0,0,1,0,0,0,1,abc\n0,0,1,0,0,0,1,2\n", {"header_rows": 0}, "same count"),
        ("a,b\n1,2\n", {}, "root's columns"),
        ("1,2\n1,2\n", {"columns": ["x"]}, "every column has a name"),
        (",".join(ROOT) + ",tail_joint\n" + "0,0,1,0,0,0,1,2\n" * 4, {}, "not the robot's.*tail_joint"),
        (",".join(ROOT) + ",waist_yaw,waist_yaw_joint\n" + "0,0,1,0,0,0,1,2,3\n" * 4, {}, "comes twice"),
    ],
)  # fmt: skip
def test_a_csv_that_is_no_clip_says_what_is_wrong(
    tmp_path: Path, text: str, options: dict[str, Any], match: str
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    try:
        items, _ = read(path, **options)
    except InputError as error:
        said = str(error)
    else:
        said = str(items[0].detail)
    assert re.search(match, said), said


def test_text_that_is_not_utf8_is_unreadable(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xff\xfe1,2")
    with pytest.raises(UnreadableError, match="UTF-8"):
        read(path)


def test_missing_joints_must_be_declared(tmp_path: Path) -> None:
    clip = motion_clip("walk", 8)
    path = write_pickle(tmp_path / "a.pkl", {"c": library_entry(clip, NO_WRISTS, extra_bodies=3)})
    (rejected,), _ = read(path)
    assert isinstance(rejected, Rejection)
    assert rejected.reason == "joints-missing"
    assert "left_wrist_roll_joint" in rejected.detail
    assert "missing_joints: 0.0" in rejected.detail
    (episode,), found = read(path, missing_joints=0.25)
    assert [f.code for f in found] == ["joints-filled-in"]
    angles = term(episode, "joint_pos")
    wrists = [i for i, j in enumerate(JOINTS) if "wrist" in j]
    assert (angles[:, wrists] == 0.25).all()
    kept = [i for i, j in enumerate(JOINTS) if "wrist" not in j]
    np.testing.assert_allclose(angles[:, kept], clip.joint_pos[:, kept], atol=1e-6)
    (rejected,), _ = read(path, missing_joints={"left_wrist_roll_joint": 0.1})
    assert "left_wrist_roll_joint" not in rejected.detail
    each = {j: 0.1 * i for i, j in enumerate(JOINTS) if "wrist" in j}
    episode = one(path, missing_joints=each)
    np.testing.assert_allclose(term(episode, "joint_pos")[:, wrists], [list(each.values())] * 8)


def test_joints_of_an_unknown_set_are_named_by_hand(tmp_path: Path) -> None:
    clip = motion_clip("walk", 8)
    legs = JOINTS[:12]
    path = write_pickle(tmp_path / "a.pkl", {"c": library_entry(clip, legs)})
    with pytest.raises(InputError, match="12 unnamed joint columns"):
        read(path)
    episode = one(path, joints=list(legs), missing_joints=0.0)
    np.testing.assert_allclose(term(episode, "joint_pos")[:, :12], clip.joint_pos[:, :12], atol=1e-6)
    theirs = [f"leg{i}" for i in range(12)]
    episode = one(path, joints=theirs, joint_names=dict(zip(theirs, legs, strict=True)), missing_joints=0.0)
    np.testing.assert_allclose(term(episode, "joint_pos")[:, :12], clip.joint_pos[:, :12], atol=1e-6)
    with pytest.raises(InputError, match="names each joint column"):
        read(path, joints=["waist_yaw_joint"])


@pytest.mark.parametrize("encode", [joblib_bytes, pickle.dumps])
def test_a_library_holds_several_clips_in_natural_order(
    tmp_path: Path, encode: Callable[[Any], bytes]
) -> None:
    clips = {f"clip_{i}": motion_clip("walk", 8 + i, seed=i) for i in (10, 2, 1)}
    path = tmp_path / "motions.pkl"
    path.write_bytes(encode({name: library_entry(clip) for name, clip in clips.items()}))
    items, found = read(path)
    assert [e.name for e in items] == ["clip_1", "clip_2", "clip_10"]
    assert found == []
    for episode in items:
        require_clip(episode, clips[episode.name], 1e-6)


def test_axis_angles_alone_are_enough(tmp_path: Path) -> None:
    clip = motion_clip("fast", 12)
    entry = library_entry(clip)
    for key in ("dof", "root_rot"):
        del entry[key]
    require_clip(one(write_pickle(tmp_path / "a.pkl", {"c": entry})), clip, 1e-6)
    entry = library_entry(clip, NO_WRISTS, extra_bodies=3)
    del entry["dof"]
    episode = one(write_pickle(tmp_path / "b.pkl", {"c": entry}), missing_joints=0.0)
    np.testing.assert_allclose(term(episode, "joint_pos")[:, :15], clip.joint_pos[:, :15], atol=1e-6)
    only = {k: v for k, v in library_entry(clip).items() if k != "pose_aa"}
    require_clip(one(write_pickle(tmp_path / "c.pkl", {"c": only})), clip, 1e-6)


def test_records_that_disagree_are_told(tmp_path: Path) -> None:
    entry: dict[str, Any] = library_entry(motion_clip("walk", 8))
    entry["dof"] = entry["dof"] + np.float32(0.01)
    entry["root_rot"] = entry["root_rot"][:, [3, 0, 1, 2]]
    entry["pose_aa"] = entry["pose_aa"].copy()
    entry["pose_aa"][:, [1, 2]] = entry["pose_aa"][:, [2, 1]]
    entry["contact"] = np.zeros(8)
    path = write_pickle(tmp_path / "a.pkl", {"c": entry})
    _, found = read(path)
    codes = {(f.code, f.place.column, f.severity) for f in found}
    assert codes == {
        ("clip-disagrees", "dof", Severity.WARN),
        ("clip-disagrees", "root_rot", Severity.WARN),
        ("joint-axis-off", "pose_aa", Severity.WARN),
    }
    assert [(f.code, f.got) for f in describe(path).findings] == [("arrays-left-out", "contact")]


def _damaged(change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    entry = dict(library_entry(motion_clip("walk", 8)))
    change(entry)
    return {"c": entry}


@pytest.mark.parametrize(
    ("value", "match"),
    [
        ([1, 2], "maps clip names.*list"),
        ({"a": {"x": 1}}, "maps clip names"),
        ({}, "maps clip names"),
        (_damaged(lambda e: e.update(fps=0)), "fps is a positive number"),
        (_damaged(lambda e: e.update(fps="thirty")), "fps is a positive number"),
        (_damaged(lambda e: e.update(root_trans_offset=np.zeros((8, 2)))), "root_trans_offset"),
        (_damaged(lambda e: e.update(root_trans_offset=np.zeros((7, 3)))), "axis-angle"),
        (_damaged(lambda e: e.update(pose_aa=np.zeros((8, 30)))), "axis-angle"),
        (_damaged(lambda e: e.update(pose_aa=e["pose_aa"][:, :20])), "row for the root and each joint"),
        (_damaged(lambda e: e.update(dof=e["dof"][:5], pose_aa=None)), "one length"),
        (_damaged(lambda e: e.update(dof="x", pose_aa=None)), "dof"),
    ],
)
def test_a_library_of_another_form_is_refused(tmp_path: Path, value: Any, match: str) -> None:
    path = tmp_path / "a.pkl"
    path.write_bytes(pickle.dumps(value))
    with pytest.raises(InputError, match=match):
        read(path)


def test_short_clips_are_rejected_the_others_land(tmp_path: Path) -> None:
    entries = {f"c{n}": library_entry(motion_clip("walk", n)) for n in (2, 3, 5)}
    items, _ = read(write_pickle(tmp_path / "a.pkl", entries))
    assert [(i.episode, i.reason) for i in items if isinstance(i, Rejection)] == [("c2", "too-short")]
    assert [i.name for i in items if isinstance(i, Episode)] == ["c3", "c5"]


def test_clips_of_different_rates_keep_their_own(tmp_path: Path) -> None:
    entries = {f"c{fps}": library_entry(motion_clip("walk", 6, fps=fps)) for fps in (30, 60)}
    path = write_pickle(tmp_path / "a.pkl", entries)
    items, _ = read(path)
    assert [e.attributes["fps"] for e in items] == [30.0, 60.0]
    said = describe(path)
    assert said.fps is None
    assert said.env_args is not None
    assert "control_freq" not in said.env_args["env_kwargs"]


def _scaled(tmp_path: Path, factor: float) -> Path:
    clip = motion_clip("walk", 8)
    quaternions = clip.root_quat.copy()
    quaternions[3] *= factor
    return write_csv(tmp_path / "a.csv", MotionClip(30, clip.root_pos, quaternions, clip.joint_pos))


def test_quaternions_off_the_unit_are_reported_and_scaled_only_when_told(tmp_path: Path) -> None:
    path = _scaled(tmp_path, 1.001)
    (episode,), found = read(path)
    assert [(f.code, f.severity, f.place.row) for f in found] == [("quaternion-not-unit", Severity.WARN, 3)]
    assert np.linalg.norm(term(episode, "root_quat")[3]) == pytest.approx(1.001, abs=1e-6)
    (episode,), found = read(path, normalise_quaternions=True)
    assert "scaled to 1" in found[0].message
    np.testing.assert_allclose(np.linalg.norm(term(episode, "root_quat"), axis=1), 1, atol=1e-12)


def test_a_quaternion_that_is_no_rotation_is_rejected_unless_told_to_scale(tmp_path: Path) -> None:
    path = _scaled(tmp_path, 2.0)
    (rejected,), _ = read(path)
    assert rejected.reason == "quaternion-not-unit"
    assert "row 3" in rejected.detail
    assert isinstance(one(path, normalise_quaternions=True), Episode)
    (rejected,), _ = read(_scaled(tmp_path, 0.0), normalise_quaternions=True)
    assert rejected.reason == "quaternion-not-unit"


@pytest.mark.parametrize(
    "options",
    [
        {"missing_joint": 0}, {"header_rows": -1}, {"header_rows": True}, {"columns": "x"}, {"joints": [1]},
        {"joint_names": ["a"]}, {"missing_joints": "zero"}, {"missing_joints": {"a": "b"}},
        {"normalise_quaternions": 1},
    ],
)  # fmt: skip
def test_options_are_checked(tmp_path: Path, options: dict[str, Any]) -> None:
    path = write_csv(tmp_path / "a.csv", motion_clip("walk", 5))
    with pytest.raises(InputError, match=next(iter(options)).removesuffix("_joint")):
        read(path, **options)


class _Run:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch ran",)


def test_a_hostile_pickle_is_claimed_so_that_its_reason_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.pkl"
    path.write_bytes(pickle.dumps({"clip": _Run()}))
    assert base.detect(path).kind == "lafan"
    began = time.process_time()
    with pytest.raises(UntrustedError, match=r"posix\.system"):
        describe(path)
    assert time.process_time() - began < 1
    assert not Path("ran").exists()


def test_detection_takes_motions_alone(tmp_path: Path) -> None:
    source, clip = base.source("lafan"), motion_clip("walk", 5)
    for path in (
        write_csv(tmp_path / "a.csv", clip),
        write_npz(tmp_path / "a.npz", clip),
        write_pickle(tmp_path / "a.pkl", {"c": library_entry(clip)}),
        write_pickle(tmp_path / "a.joblib", {"c": library_entry(clip, NO_WRISTS)}),
    ):
        assert base.detect(path).kind == "lafan"
    others = {"t.csv": b"name,score\na,1\n", "u.csv": b"1,2,3\n", "e.csv": b"", "v.csv": b"a\0b"}
    others |= {"w.csv": (",".join(["1"] * 36) + "\n").encode(), "x.txt": b"0", "p.pkl": pickle.dumps([1])}
    for name, data in others.items():
        (tmp_path / name).write_bytes(data)
        assert not source.detect(tmp_path / name), name
    np.savez(tmp_path / "o.npz", images=np.zeros(3))
    (tmp_path / "broken.npz").write_bytes(b"PK\3\4")
    for name in ("o.npz", "broken.npz", "gone.csv", "."):
        assert not source.detect(tmp_path / name)


@pytest.mark.parametrize("kind", ["isaaclab", "libero", "robomimic", "robosuite"])
def test_hdf5_recordings_are_not_motions(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x.hdf5"
    write_recording(kind, path, episodes=1, rows=(4, 4), image_size=16)
    assert not base.source("lafan").detect(path)
    assert base.detect(path).kind == kind


def test_the_real_files(shared_data: Path) -> None:
    folder = shared_data / "lafan_g1"
    csv, npz = folder / "dance1_subject2.csv", folder / "G1_walk.npz"
    for path in sorted(folder.iterdir()):
        assert base.detect(path).kind == "lafan"
    episode = one(csv)
    assert episode.length == 3945
    steps = np.abs(np.diff(term(episode, "joint_pos"), axis=0))
    assert int((steps > 0.5).sum()) == 209
    walk = one(npz)
    assert (walk.length, walk.attributes["fps"]) == (399, 60.0)
    for path in sorted(folder.glob("*.pkl")):
        (episode,), found = read(path, missing_joints=0.0)
        assert [f.code for f in found] == ["joints-filled-in"]
        assert episode.columns["actions"].shape[1] == 29
