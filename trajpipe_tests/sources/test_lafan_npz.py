"""Motion clips in npz files: named joints, the root among bodies, headers that lie, bodies as evidence.

What is not here: CSV and pickles, see `test_lafan.py`.
"""

from __future__ import annotations

import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trajpipe.core.conventions import Conventions
from trajpipe.core.errors import InputError, TrajpipeError, UntrustedError
from trajpipe.core.findings import Severity
from trajpipe.motion.g1 import g1
from trajpipe.motion.kinematics import forward
from trajpipe.motion.skeleton_mjcf import skeleton_of_file
from trajpipe.sources import motion_npz
from trajpipe.testing.lafan import JOINTS, motion_clip, write_npz
from trajpipe_tests.sources.motion_episodes import one, read, require_clip, term


def test_an_npz_names_its_joints_and_its_root(tmp_path: Path) -> None:
    clip = motion_clip("walk", 9, fps=60)
    path = write_npz(tmp_path / "walk.npz", clip)
    episode = one(path)
    require_clip(episode, clip, 1e-12)
    assert episode.name == "walk"
    arrays = dict(np.load(path))
    order = np.random.default_rng(2).permutation(29)
    arrays["dof_names"], arrays["dof_positions"] = (
        arrays["dof_names"][order],
        arrays["dof_positions"][:, order],
    )
    np.savez_compressed(path, **arrays)
    require_clip(one(path), clip, 1e-12)


def test_an_npz_with_its_own_root_must_declare_the_order(tmp_path: Path) -> None:
    clip, path = motion_clip("walk", 9), tmp_path / "a.npz"
    np.savez(path, joint_pos=clip.joint_pos, root_pos=clip.root_pos, root_quat=clip.root_quat)
    with pytest.raises(InputError, match=r"quaternion_order: xyzw"):
        read(path)
    require_clip(one(path, Conventions(quaternion_order="xyzw")), clip, 1e-12)
    turned = one(path, Conventions(quaternion_order="wxyz"))
    np.testing.assert_array_equal(term(turned, "root_quat"), clip.root_quat[:, [1, 2, 3, 0]])


def test_recorded_bodies_tell_mixed_up_joints(tmp_path: Path) -> None:
    clip = motion_clip("walk", 9)
    path = write_npz(tmp_path / "a.npz", clip)
    positions, _ = forward(g1(), clip.root_pos, clip.root_quat, clip.joint_pos)
    arrays = dict(np.load(path)) | {"body_names": np.array(["left_ankle_roll_link", "pelvis"])}
    arrays["body_positions"] = positions[:, [g1().body("left_ankle_roll_link"), 0]]
    np.savez(path, **arrays)
    assert read(path)[1] == []
    exchanged = [n.replace("left", "L").replace("right", "left").replace("L", "right") for n in JOINTS]
    np.savez(path, **(arrays | {"dof_names": np.array(exchanged)}))
    ((finding,),) = (read(path)[1],)
    assert (finding.code, finding.severity) == ("bodies-misplaced", Severity.WARN)
    assert str(finding.got).startswith("left_ankle_roll_link")
    np.savez(path, **(arrays | {"body_rotations": arrays["body_rotations"][:, :, [1, 2, 3, 0]]}))
    assert [f.code for f in read(path)[1]] == ["bodies-misplaced"]


@pytest.mark.parametrize(
    ("changes", "kind", "match"),
    [
        ({"dof_positions": np.array([[{}]], object)}, UntrustedError, "pickle"),
        ({"dof_positions": np.zeros(9)}, InputError, "dof_positions"),
        ({"dof_names": np.array(["a"])}, InputError, "1 names, 29 columns"),
        ({"dof_names": np.zeros(29)}, InputError, "list of text"),
        ({"body_names": np.array(["torso_link", "hips"])}, InputError, "pelvis"),
        ({"body_positions": np.zeros((9, 2))}, InputError, "body_positions"),
        ({"body_rotations": np.zeros((9, 2, 3))}, InputError, "3 \\+ 4 numbers"),
        ({"body_rotations": np.zeros((4, 2, 4))}, InputError, "one length"),
        ({"fps": np.array([1, 2])}, InputError, "fps"),
    ],
)
def test_an_npz_of_another_form_is_refused(
    tmp_path: Path, changes: dict[str, Any], kind: type[TrajpipeError], match: str
) -> None:
    path = write_npz(tmp_path / "a.npz", motion_clip("walk", 9))
    np.savez(path, **(dict(np.load(path)) | changes))
    with pytest.raises(kind, match=match):
        read(path)


def test_an_npz_whose_header_lies_or_that_inflates_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_npz(tmp_path / "a.npz", motion_clip("walk", 9))
    members = {n: zipfile.ZipFile(path).read(n) for n in zipfile.ZipFile(path).namelist()}
    good = members["dof_positions.npy"]
    header = good.replace(b"'shape': (9, 29), }           ", b"'shape': (99999999999, 29), }", 1)
    assert header != good
    began = time.process_time()
    for data in (header, good[:-8], b"no array"):
        with zipfile.ZipFile(tmp_path / "b.npz", "w") as archive:
            for name, old in members.items():
                archive.writestr(name, data if name == "dof_positions.npy" else old)
        with pytest.raises(InputError):
            read(tmp_path / "b.npz")
    monkeypatch.setattr(motion_npz, "MAX_MEMBER", 2000)
    with zipfile.ZipFile(tmp_path / "c.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("dof_positions.npy", good + b"\0" * (2 << 20))
    with pytest.raises(UntrustedError, match="inflates too much"):
        read(tmp_path / "c.npz")
    assert time.process_time() - began < 5


def test_a_published_clips_own_bodies_prove_the_kinematics(shared_data: Path) -> None:
    """An npz made elsewhere holds positions of bodies: ours agree to float32, on the revision it used."""
    recorded = np.load(shared_data / "lafan_g1/G1_walk.npz")
    episode = one(shared_data / "lafan_g1/G1_walk.npz")
    terms = [term(episode, name) for name in ("root_pos", "root_quat", "joint_pos")]
    names = recorded["body_names"].tolist()
    compared = 0
    for file, tolerance in (("g1_29dof_rev_1_0.xml", 1e-6), ("g1_29dof.xml", 1.1e-2)):
        tree = skeleton_of_file(shared_data / "mujoco" / file)
        positions, _ = forward(tree, *terms)
        for index, name in enumerate(names):
            if name in tree.bodies:
                theirs = recorded["body_positions"][:, index]
                assert np.abs(positions[:, tree.body(name)] - theirs).max() <= tolerance, name
                compared += 1
    assert compared == 18
