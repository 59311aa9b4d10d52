"""The real files of the shared folder: one kind each, values compared with numpy alone, every repair named.

What is not here: what becomes of them in L2, see the readers' tests.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from trajpipe.core.episode import Episode, blocks
from trajpipe.core.paths import absolute_paths
from trajpipe.sources import base
from trajpipe.sources.base import ReadOptions
from trajpipe_tests.sources.builders import Read, read

pytestmark = pytest.mark.shared

STUDY = "STUDY_SCENE1_pick_up_the_yellow_and_white_mug_and_place_it_to_the_right_of_the_caddy"
KINDS = {
    "isaaclab/dataset.hdf5": ("isaaclab", 10, 2163, None),
    "isaaclab/annotated_dataset.hdf5": ("isaaclab", 10, 2163, None),
    "robomimic/handover_panda_panda/demo.hdf5": ("robomimic", 7, 2775, 20),
    "robosuite/lift/demo.hdf5": ("robosuite", 3, 1384, None),
    "robosuite/wipe_panda/demo.hdf5": ("robosuite", 1, 174, None),
    "robosuite/stack_panda/demo.hdf5": ("robosuite", 1, 532, None),
    "libero/KITCHEN_SCENE10_close_the_top_drawer_of_the_cabinet_demo.hdf5": ("libero", 1, 51, 20),
    f"libero/{STUDY}_demo.hdf5": ("libero", 2, 162, 20),
    f"libero/raw_teleop/{STUDY}/demo.hdf5": ("robosuite", 2, 172, None),
    "libero_generated/KITCHEN_SCENE5_close_the_top_drawer_of_the_cabinet_demo.hdf5": ("libero", 1, 57, 20),
    "libero_generated/open_the_middle_drawer_of_the_cabinet_demo.hdf5": ("libero", 2, 53, 20),
    "libero_generated/put_the_bowl_on_the_plate_demo.hdf5": ("libero", 2, 53, 20),
}
LANGUAGE = {
    f"libero/{STUDY}_demo.hdf5": "pick up the yellow and white mug and place it to the right of the caddy",
    f"libero/raw_teleop/{STUDY}/demo.hdf5": (
        "pick up the yellow and white mug and place it to the right of the caddy"
    ),
    "libero_generated/open_the_middle_drawer_of_the_cabinet_demo.hdf5": "open the middle layer of the drawer",
    "libero_generated/put_the_bowl_on_the_plate_demo.hdf5": "put the bowl on the plate",
}
FRANKA_SITES: dict[str, tuple[int, ...]] = {
    "obs/eef_quat": (0,),
    "obs/cube_orientations": (0, 4, 8),
    "obs/object": (3, 10, 17),
    **{
        f"{group}/{body}/root_pose": (3,)
        for group in ("initial_state", "states")
        for body in (
            "articulation/robot",
            "rigid_object/cube_1",
            "rigid_object/cube_2",
            "rigid_object/cube_3",
        )
    },
}


@pytest.fixture(scope="module")
def reads(shared_data: Path) -> dict[str, Read]:
    return {name: read(shared_data / name) for name in KINDS}


def test_the_table_names_every_recording_of_the_folder(shared_data: Path) -> None:
    folders = ("isaaclab", "robomimic", "robosuite", "libero", "libero_generated")
    found = {
        p.relative_to(shared_data).as_posix() for f in folders for p in (shared_data / f).rglob("*.hdf5")
    }
    assert found == set(KINDS)


@pytest.mark.parametrize("name", KINDS)
def test_each_has_one_kind_its_episodes_and_its_rate(
    shared_data: Path, reads: dict[str, Read], name: str
) -> None:
    kind, episodes, rows, fps = KINDS[name]
    assert [s.kind for s in base.sources().values() if s.detect(shared_data / name)] == [kind]
    found = reads[name]
    assert (found.description.kind, len(found.episodes), found.rejections) == (kind, episodes, [])
    assert sum(e.length for e in found.episodes) == rows
    assert found.description.fps == (None if fps is None else Fraction(fps))
    assert [e.name for e in found.episodes] == list(found.description.episodes)


def expected_values(demo: h5py.Group, where: str, *, flip: bool) -> np.ndarray[Any, Any]:
    """What a dataset must come out as, by numpy alone."""
    values = demo[where][()]
    if flip and where.endswith("_rgb"):
        return np.asarray(values[:, ::-1])
    return np.asarray(values)


@pytest.mark.parametrize("name", [n for n in KINDS if not n.startswith("isaaclab")])
def test_every_number_comes_as_recorded_and_images_are_flipped_once(
    shared_data: Path, reads: dict[str, Read], name: str
) -> None:
    found, compared = reads[name], 0
    with h5py.File(shared_data / name) as handle:
        for episode in found.episodes:
            demo, paths = handle["data"][episode.name], list[str]()
            demo.visititems(
                lambda n, item, out=paths: out.append(n) if isinstance(item, h5py.Dataset) else None
            )
            got = found.values[episode.name] | found.extras[episode.name]
            own = {"initial_state/libero/init_state"} if "init_state" in demo.attrs else set()
            assert set(got) == set(paths) | own
            for where in paths:
                np.testing.assert_array_equal(
                    got[where], expected_values(demo, where, flip=True), err_msg=where
                )
                assert got[where].dtype == demo[where].dtype
                compared += 1
    assert compared >= 2 * len(found.episodes)


@pytest.mark.parametrize("name", [n for n in KINDS if n.startswith("isaaclab")])
def test_every_franka_quaternion_is_turned_and_nothing_else_moves(
    shared_data: Path, reads: dict[str, Read], name: str
) -> None:
    found, quaternions = reads[name], 0
    with h5py.File(shared_data / name) as handle:
        for episode in found.episodes:
            demo = handle["data"][episode.name]
            for where, values in (found.values[episode.name] | found.extras[episode.name]).items():
                expected = demo[where][()]
                for start in FRANKA_SITES.get(where, ()):
                    expected[:, start : start + 4] = np.roll(demo[where][:, start : start + 4], -1, axis=1)
                    quaternions += len(expected)
                np.testing.assert_array_equal(values, expected, err_msg=f"{episode.name} {where}")
    assert quaternions == 8692 + 15141
    told = sum(int(str(f.got).split()[0]) for f in found.findings if f.code == "legacy-quaternions")
    assert told == quaternions


def test_each_repair_of_the_franka_recording_is_named(reads: dict[str, Read]) -> None:
    found = reads["isaaclab/dataset.hdf5"]
    total, gaps = found.finding("total-wrong"), found.finding("numbering-gaps")
    assert (total.got, total.expected) == ("3901", "2163")
    assert (gaps.got, gaps.expected) == ("0, 1, 2, 6, 8, 9, 12, 13, 14, 16", "0..9")
    assert found.finding("format-version-missing").got == "legacy, wxyz"
    sites = {f.place.column for f in found.findings if f.code == "legacy-quaternions"}
    assert sites == set(FRANKA_SITES)
    assert found.finding("alignment").got == "2153 of 2153 rows agree with before_action"
    assert set(found.codes()) == {
        "total-wrong",
        "numbering-gaps",
        "format-version-missing",
        "env-args-defaulted",
        "legacy-quaternions",
        "alignment",
    }
    assert all(e.success is True for e in found.episodes)


def test_the_annotated_recording_keeps_its_nested_groups(reads: dict[str, Read]) -> None:
    found = reads["isaaclab/annotated_dataset.hdf5"]
    assert "total-wrong" not in found.codes()
    values = found.values["demo_0"]
    assert values["obs/datagen_info/eef_pose/franka"].shape == (236, 4, 4)
    assert values["obs/datagen_info/subtask_term_signals/grasp_1"].dtype == np.bool_


@pytest.mark.parametrize("name", [n for n, (kind, *_) in KINDS.items() if kind == "libero"])
def test_the_alignment_of_libero_is_exact(reads: dict[str, Read], name: str) -> None:
    _, episodes, rows, _ = KINDS[name]
    compared = rows - episodes
    assert reads[name].finding("alignment").got == f"{compared} of {compared} rows agree with after_action"
    assert {e.alignment for e in reads[name].episodes} == {"after_action"}
    assert {e.success for e in reads[name].episodes} == {None}


@pytest.mark.parametrize("name", LANGUAGE)
def test_the_language_is_the_recorded_one(reads: dict[str, Read], name: str) -> None:
    assert {e.task for e in reads[name].episodes} == {LANGUAGE[name]}


@pytest.mark.parametrize("name", KINDS)
def test_no_absolute_path_of_anybody_is_left(reads: dict[str, Read], name: str) -> None:
    found = reads[name]
    texts = [str(v) for v in found.description.attributes.values()]
    texts += [str(found.description.env_args)]
    texts += [v for e in found.episodes for v in e.attributes.values() if isinstance(v, str)]
    for text in texts:
        assert list(absolute_paths(text)) == []
        for root in ("/Users/", "/home/", "/opt/", "site-packages"):
            assert root not in text


@pytest.mark.parametrize("name", ["robosuite/wipe_panda/demo.hdf5", "robosuite/stack_panda/demo.hdf5"])
def test_old_collections_find_their_model_beside_them(reads: dict[str, Read], name: str) -> None:
    (episode,) = reads[name].episodes
    assert episode.attributes["model_file"].startswith("<mujoco")
    assert 'file="link0.stl"' in episode.attributes["model_file"]
    assert reads[name].finding("model-file-read").got == "model_1.xml"
    assert reads[name].values["demo_1"]["joint_torques"].shape == (episode.length, 7)


def test_a_model_of_91_kilobytes_compiles_without_its_meshes(reads: dict[str, Read]) -> None:
    import re

    mujoco = pytest.importorskip("mujoco")
    name = "libero_generated/put_the_bowl_on_the_plate_demo.hdf5"
    for episode in reads[name].episodes:
        model = str(episode.attributes["model_file"])
        bare = re.sub(r"<asset>.*?</asset>", "", model, flags=re.DOTALL)
        bare = re.sub(r'<geom[^>]*type="mesh"[^>]*/>', "", bare)
        bare = re.sub(r'\smaterial="[^"]*"', "", bare)
        compiled = mujoco.MjModel.from_xml_string(bare)
        assert 1 + compiled.nq + compiled.nv == reads[name].values[episode.name]["states"].shape[1]


def test_roboturk_logs_are_extras(reads: dict[str, Read]) -> None:
    found = reads["robomimic/handover_panda_panda/demo.hdf5"]
    for name, extras in found.extras.items():
        assert {p.split("/")[0] for p in extras} == {"controller_info", "user_info"}
        assert set(found.values[name]) == {
            "actions",
            "interventions",
            "policy_acting",
            "states",
            "user_acting",
        }


@pytest.mark.parametrize("name", KINDS)
def test_blocks_of_any_size_give_the_same_rows(shared_data: Path, reads: dict[str, Read], name: str) -> None:
    reader = base.detect(shared_data / name)
    for item in reader.episodes(shared_data / name, ReadOptions()):
        assert isinstance(item, Episode)
        for where, column in item.columns.items():
            got = np.concatenate(list(blocks(column, max_bytes=1 << 14)))
            np.testing.assert_array_equal(got, reads[name].values[item.name][where], err_msg=where)
        break
