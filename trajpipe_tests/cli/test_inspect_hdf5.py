"""`trajpipe inspect` on HDF5: recordings of every kind, L2, stores of ours and foreign ones, broken files."""

import json
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pytest

from trajpipe.testing import KINDS, write_recording
from trajpipe_tests.cli.conftest import Command
from trajpipe_tests.cli.test_start import cpu_seconds


def nodes_of(value: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Path → node of the first layout."""
    return {n["path"]: n for n in value["layouts"][0]["nodes"]}


@pytest.mark.parametrize("kind", KINDS)
def test_a_recording_of_every_kind_is_recognised(invoke: Command, tmp_path: Path, kind: str) -> None:
    path = write_recording(kind, tmp_path / "take_demo.hdf5", episodes=2, rows=(6, 9), image_size=32)
    value = invoke("inspect", path, "--json").json
    assert (value["kind"], value["stage"]) == (kind, "raw")
    with h5py.File(path) as handle:
        lengths = [len(handle["data"][n]["actions"]) for n in value["episodes"]["names"]]
        actions = np.concatenate([handle["data"][n]["actions"][:] for n in value["episodes"]["names"]])
    assert value["episodes"]["lengths"] == lengths
    assert value["bytes"] == path.stat().st_size
    found = value["ranges"][0]
    assert found["title"] == "actions"
    assert [d["min"] for d in found["dimensions"]] == actions.min(axis=0).astype(float).tolist()
    assert [d["max"] for d in found["dimensions"]] == actions.max(axis=0).astype(float).tolist()


def test_the_tree_says_dtype_shape_chunks_and_filters(invoke: Command, tmp_path: Path) -> None:
    path = tmp_path / "made.hdf5"
    with h5py.File(path, "w") as handle:
        for index, rows in enumerate((20, 30)):
            demo = handle.create_group(f"data/demo_{index}")
            demo["actions"] = np.zeros((rows, 2), ">f8")
            demo["initial_state/pose"] = np.zeros((1, 7), np.float32)
            demo["other"] = np.zeros((rows + 1, 2), np.int32)
            obs = demo.create_group("obs")
            obs.create_dataset(
                "a", data=np.zeros((rows, 3), "f4"), chunks=(10, 3), compression="gzip", shuffle=True
            )
            obs.create_dataset(
                "z", data=np.zeros((rows, 8, 8, 3), "u1"), chunks=(4, 8, 8, 3), **hdf5plugin.Zstd(3)
            )
            obs.create_dataset("f", data=np.zeros((rows,), bool), chunks=(10,), fletcher32=True)
    value = invoke("inspect", path, "--json").json
    nodes = nodes_of(value)
    assert [n["shape"] for n in nodes.values()] == [
        ["T", 2],
        [1, 7],
        ["T", 3],
        ["T"],
        ["T", 8, 8, 3],
        ["varies", 2],
    ]
    assert list(nodes) == ["actions", "initial_state/pose", "obs/a", "obs/f", "obs/z", "other"]
    assert nodes["actions"]["dtype"] == "float64 big-endian"
    assert (nodes["obs/a"]["chunks"], nodes["obs/a"]["compression"]) == ([10, 3], "shuffle gzip-4")
    assert (nodes["obs/z"]["chunks"], nodes["obs/z"]["compression"]) == ([4, 8, 8, 3], "zstd-3")
    assert (nodes["obs/f"]["dtype"], nodes["obs/f"]["compression"]) == ("bool", "fletcher32")
    assert nodes["actions"]["chunks"] is None
    assert nodes["actions"]["stored_bytes"] == 50 * 16
    text = invoke("inspect", path).out
    assert "(T, 8, 8, 3)   (4, 8, 8, 3)" in text
    assert "Each of 2 episodes: demo_0, demo_1" in text


def test_episodes_that_differ_are_shown_apart(invoke: Command, tmp_path: Path) -> None:
    path = tmp_path / "made.hdf5"
    with h5py.File(path, "w") as handle:
        for index in range(10):
            demo = handle.create_group(f"data/demo_{index}")
            demo["actions"] = np.zeros((5, 2), "f4")
            if index == 7:
                demo["obs/extra"] = np.zeros((5, 1), "f4")
    value = invoke("inspect", path, "--json").json
    assert [(x["title"], len(x["members"])) for x in value["layouts"]] == [
        ("9 of 10 episodes", 9),
        ("1 of 10 episodes", 1),
    ]
    assert value["layouts"][1]["members"] == ["demo_7"]


def test_names_are_in_natural_order_and_gaps_are_noted(invoke: Command, tmp_path: Path) -> None:
    path = write_recording(
        "isaaclab", tmp_path / "gaps.hdf5", episodes=3, rows=(5, 6), numbers=(0, 2, 10), cameras=()
    )
    value = invoke("inspect", path, "--json").json
    assert value["episodes"]["names"] == ["demo_0", "demo_2", "demo_10"]
    assert value["notes"] == ["episode names are not demo_0 … demo_2 without gaps"]


def test_success_words(invoke: Command, tmp_path: Path) -> None:
    path = tmp_path / "made.hdf5"
    with h5py.File(path, "w") as handle:
        for index in range(4):
            handle[f"data/demo_{index}/actions"] = np.zeros((2, 1), "f4")
        handle["data/demo_0"].attrs["success"] = True
        handle["data/demo_1"].attrs["success"] = np.bool_(False)
        handle["data/demo_2"].attrs.update({"success": True, "success_known": False})
    value = invoke("inspect", path, "--json").json
    assert value["episodes"]["success"] == {"yes": 1, "no": 1, "unknown": 2}


def test_a_wrong_total_no_actions_and_odd_attributes_are_told(invoke: Command, tmp_path: Path) -> None:
    path = tmp_path / "made.hdf5"
    with h5py.File(path, "w") as handle:
        handle["data/demo_0/actions"] = np.zeros((4, 1), "f4")
        handle["data/demo_1/states"] = np.zeros((4, 1), "f4")
        handle["data"].attrs["total"] = 99
        handle["data/demo_0"].attrs["note"] = b"caf\xe9\x1b[2J"
    ran = invoke("inspect", path)
    assert "99 (recorded; the actions have 4 rows)" in ran.out
    assert "1 episode without actions: demo_1" in ran.out
    assert "episodes carry 2 different sets of attributes" in ran.out
    assert "\x1b" not in ran.out
    assert "\\x1b[2J" in ran.out


def test_a_long_attribute_is_cut_in_text_and_whole_in_json(invoke: Command, tmp_path: Path) -> None:
    path = tmp_path / "made.hdf5"
    xml = "<mujoco>\n" + "x" * 70_000
    with h5py.File(path, "w") as handle:
        handle["data/demo_0/actions"] = np.zeros((4, 1), "f4")
        handle["data/demo_0"].attrs["model_file"] = xml
    assert "… (70,009 characters)" in invoke("inspect", path).out
    assert "x" * 70_000 in invoke("inspect", path, "--all").out.replace("\n", "").replace(" ", "")
    value = invoke("inspect", path, "--json").json
    assert {"place": "/data/demo_0", "name": "model_file", "value": xml} in value["attributes"]


def test_the_instruction_of_libero_is_the_task(invoke: Command, tmp_path: Path) -> None:
    path = write_recording(
        "libero", tmp_path / "put_the_bowl_demo.hdf5", episodes=2, rows=(5, 6), image_size=32
    )
    value = invoke("inspect", path, "--json").json
    with h5py.File(path) as handle:
        problem = json.loads(handle["data"].attrs["problem_info"])
    assert value["episodes"]["tasks"] == {problem["language_instruction"]: 2}


def test_a_broken_chunk_is_a_note(invoke: Command, tmp_path: Path) -> None:
    path = tmp_path / "made.hdf5"
    with h5py.File(path, "w") as handle:
        actions = np.random.default_rng(0).normal(size=(400, 7))
        handle.create_dataset("data/demo_0/actions", data=actions, compression="gzip")
        info = handle["data/demo_0/actions"].id.get_chunk_info(0)
    with path.open("r+b") as raw:
        raw.seek(info.byte_offset + 20)
        raw.write(b"\xff" * 40)
    ran = invoke("inspect", path)
    assert ran.code == 0
    assert "/data/demo_0/actions cannot be read" in ran.out


def test_a_converted_chain_is_inspected_at_every_stage(invoke: Command, chain: dict[str, Path]) -> None:
    l2, store = chain["demos"], chain["store"]
    value = invoke("inspect", l2, "--json").json
    assert (value["kind"], value["stage"]) == ("l2", "demos")
    assert value["episodes"]["tasks"] == {"Lift it.": 3}
    assert value["episodes"]["tags"] == {"rl": 3}
    assert value["facts"]["format version"] == "1 (quaternions scalar last)"
    rows = value["episodes"]["rows"]
    value = invoke("inspect", store, "--json").json
    assert (value["kind"], value["stage"]) == ("store", "store")
    assert value["episodes"]["rows"] == value["facts"]["rows"] == rows
    assert value["episodes"]["tasks"] == {"Lift it.": 3}
    assert value["episodes"]["tags"] == {"rl": 3}
    assert value["ranges"][0]["title"] == "action"
    columns = nodes_of(value)
    with h5py.File(store) as handle:
        assert columns["action"]["shape"] == list(handle["action"].shape)
        assert columns["images"]["shape"] == list(handle["images"].shape)
        assert columns["images"]["chunks"] == list(handle["images"].chunks)
    assert columns["images"]["note"] == "unlimited"
    assert "ep_len" not in columns
    assert "ep_len" in {n["path"] for n in value["layouts"][1]["nodes"]}


def test_a_foreign_store_has_columns_by_its_episode_index(invoke: Command, tmp_path: Path) -> None:
    path = tmp_path / "foreign.h5"
    with h5py.File(path, "w") as handle:
        handle["ep_len"] = np.array([3, 4], np.int32)
        handle["ep_offset"] = np.array([0, 3], np.int64)
        handle["action"] = np.arange(14, dtype="f4").reshape(7, 2)
        handle["norm"] = np.zeros(5)
    value = invoke("inspect", path, "--json").json
    assert value["kind"] == "store"
    assert value["facts"]["manifest"] == "none (a foreign file)"
    assert list(nodes_of(value)) == ["action"]
    assert [n["path"] for n in value["layouts"][1]["nodes"]] == ["ep_len", "ep_offset", "norm"]
    assert value["episodes"]["lengths"] == [3, 4]


def test_a_store_with_a_broken_manifest_is_shown_and_noted(invoke: Command, tmp_path: Path) -> None:
    path = tmp_path / "broken.h5"
    with h5py.File(path, "w") as handle:
        handle["__manifest__"] = np.frombuffer(b"nonsense", np.uint8)
        handle["ep_len"] = np.array([2])
        handle["x"] = np.zeros((2, 3))
    ran = invoke("inspect", path)
    assert ran.code == 0
    assert "the manifest cannot be read" in ran.out


def test_hdf5_of_another_layout_is_a_plain_tree(invoke: Command, tmp_path: Path) -> None:
    path = tmp_path / "other.h5"
    with h5py.File(path, "w") as handle:
        handle["a/b"] = np.zeros((3, 2), "i2")
        handle["name"] = "text"
        handle["empty"] = h5py.Empty("f4")
        handle.attrs["made"] = "by hand"
    value = invoke("inspect", path, "--json").json
    assert value["kind"] == "hdf5"
    assert {n["path"]: (n["dtype"], n["shape"]) for n in value["layouts"][0]["nodes"]} == {
        "a/b": ("int16", [3, 2]),
        "empty": ("float32", []),
        "name": ("str", []),
    }
    assert {"place": "/", "name": "made", "value": "by hand"} in value["attributes"]


def test_the_old_episodes_layout_is_named(invoke: Command, tmp_path: Path) -> None:
    path = tmp_path / "old.hdf5"
    with h5py.File(path, "w") as handle:
        handle["episodes/0/actions"] = np.zeros((3, 2))
    assert "the old `episodes/` layout: trajpipe refuses it" in invoke("inspect", path).out


def test_a_recording_without_episodes_is_told(invoke: Command, tmp_path: Path) -> None:
    path = tmp_path / "none.hdf5"
    with h5py.File(path, "w") as handle:
        handle.create_group("data").attrs["total"] = 0
    ran = invoke("inspect", path)
    assert ran.code == 0
    assert "no episodes: the recording ended without one" in ran.out


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "empty-file"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n", "git-lfs-pointer"),
        (b"<!DOCTYPE html><html></html>", "html-page"),
        (b"\x00\x01nonsense", "unreadable"),
    ],
)
def test_what_is_not_hdf5_is_refused_by_name(
    invoke: Command, tmp_path: Path, content: bytes, code: str
) -> None:
    path = tmp_path / "bad.hdf5"
    path.write_bytes(content)
    ran = invoke("inspect", path)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error [{code}] ")


def test_a_truncated_file_says_both_sizes(invoke: Command, recording: Path) -> None:
    whole = recording.read_bytes()
    recording.write_bytes(whole[: len(whole) // 2])
    ran = invoke("inspect", recording)
    assert ran.code == 2
    assert f"got       {len(whole) // 2} bytes" in ran.err
    assert f"expected  {len(whole)} bytes" in ran.err


def test_a_file_that_reads_other_files_is_refused(invoke: Command, tmp_path: Path) -> None:
    path = tmp_path / "link.hdf5"
    with h5py.File(path, "w") as handle:
        handle["data/demo_0/actions"] = np.zeros((2, 1))
        handle["data/demo_1"] = h5py.ExternalLink("/etc/other.h5", "/x")
    ran = invoke("inspect", path)
    assert ran.code == 2
    assert "external link" in ran.err


def test_several_paths_are_one_document(invoke: Command, recording: Path, tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_text("one\ntwo\n")
    value = invoke("inspect", recording, text, "--json").json
    assert [x["kind"] for x in value["inspections"]] == ["isaaclab", "text"]


@pytest.mark.parametrize("width", [60, 200])
def test_the_text_fits_the_terminal(invoke: Command, recording: Path, width: int) -> None:
    ran = invoke("inspect", recording, COLUMNS=str(width))
    assert ran.code == 0
    assert max(len(line) for line in ran.out.splitlines()) <= width
    assert "3 episodes" in ran.out


def test_a_small_file_takes_no_longer_than_a_second(recording: Path) -> None:
    assert cpu_seconds("-m", "trajpipe", "inspect", str(recording)) <= 1.0


@pytest.mark.shared
def test_the_real_isaaclab_recording(invoke: Command, shared_data: Path) -> None:
    value = invoke("inspect", shared_data / "isaaclab" / "dataset.hdf5", "--json").json
    assert value["kind"] == "isaaclab"
    assert (value["episodes"]["count"], value["episodes"]["rows"]) == (10, 2163)
    assert value["facts"]["total"] == "3901 (recorded; the actions have 2163 rows)"
    assert value["episodes"]["success"] == {"yes": 10}


@pytest.mark.shared
@pytest.mark.parametrize(
    ("path", "kind", "episodes", "rows"),
    [
        ("robosuite/lift/demo.hdf5", "robosuite", 3, 1384),
        ("robosuite/wipe_panda/demo.hdf5", "robosuite", 1, 174),
        ("robomimic/handover_panda_panda/demo.hdf5", "robomimic", 7, 2775),
        ("libero_generated/put_the_bowl_on_the_plate_demo.hdf5", "libero", 2, 53),
        ("stable_worldmodel/pusht_swm_small.h5", "store", 4, 176),
    ],
)
def test_real_files_of_other_kinds(
    invoke: Command, shared_data: Path, path: str, kind: str, episodes: int, rows: int
) -> None:
    ran = invoke("inspect", shared_data / path, "--json")
    value = ran.json
    assert value["kind"] == kind
    assert (value["episodes"]["count"], value["episodes"]["rows"]) == (episodes, rows)
    assert invoke("inspect", shared_data / path, COLUMNS="60").code == 0
