"""`trajpipe inspect` on everything that is no HDF5: LeRobot folders, tables, videos, pickles, folders."""

import json
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trajpipe_tests.cli.conftest import Command
from trajpipe_tests.sources.lerobot_folders import Folder


def nodes_of(value: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Path → node of the first layout."""
    return {n["path"]: n for n in value["layouts"][0]["nodes"]}


@pytest.fixture
def lerobot(chain: dict[str, Path]) -> Path:
    """A small LeRobot folder that trajpipe exported."""
    return chain["lerobot"]


def test_a_lerobot_folder(invoke: Command, lerobot: Path) -> None:
    value = invoke("inspect", lerobot, "--json").json
    assert (value["kind"], value["stage"], value["title"]) == ("lerobot", "lerobot", "LeRobot dataset v2.1")
    assert value["episodes"]["count"] == 3
    assert value["episodes"]["tasks"] == {"Lift it.": 3}
    assert value["episodes"]["tags"] == {"rl": 3}
    assert value["facts"]["fps"] == 20
    assert value["facts"]["data files"].startswith("3 parquet files")
    assert value["facts"]["video files"].startswith("3 mp4 files")
    nodes = nodes_of(value)
    assert nodes["observation.images.table_cam"]["shape"] == ["N", 64, 64, 3]
    assert nodes["observation.images.table_cam"]["note"] == "h264 yuv420p"
    table = pq.read_table(lerobot / "data", columns=["action"])
    actions = np.stack(table["action"].to_numpy())
    found = value["ranges"][0]["dimensions"]
    assert [d["min"] for d in found] == actions.min(axis=0).astype(float).tolist()
    assert [d["max"] for d in found] == actions.max(axis=0).astype(float).tolist()


def test_its_parquet_and_its_video(invoke: Command, lerobot: Path) -> None:
    value = invoke("inspect", lerobot / "data/chunk-000/episode_000001.parquet", "--json").json
    assert value["kind"] == "parquet"
    assert value["episodes"]["names"] == ["1"]
    rows = value["facts"]["rows"]
    assert value["episodes"]["lengths"] == [rows]
    assert {r["title"] for r in value["ranges"]} == {"action", "observation.state"}
    assert all(n["compression"] for n in value["layouts"][0]["nodes"])
    video = next((lerobot / "videos").rglob("episode_000001.mp4"))
    value = invoke("inspect", video, "--json").json
    assert value["kind"] == "video"
    assert value["facts"]["frames"] == rows
    assert (value["facts"]["width"], value["facts"]["height"], value["facts"]["fps"]) == (64, 64, "20")
    assert value["notes"] == []


def test_a_declared_camera_without_files_is_noted(invoke: Command, lerobot: Path) -> None:
    for video in (lerobot / "videos").rglob("*.mp4"):
        video.unlink()
    ran = invoke("inspect", lerobot)
    assert ran.code == 0
    assert "observation.images.table_cam is declared as video and has no files" in ran.out


def test_byte_order_marks_and_blank_lines_are_allowed(invoke: Command, lerobot: Path) -> None:
    for name in ("info.json", "episodes.jsonl"):
        path = lerobot / "meta" / name
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n") + b"\r\n\r\n")
    value = invoke("inspect", lerobot, "--json").json
    assert value["episodes"]["count"] == 3


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [("info.json", "[1]", "info.json"), ("episodes.jsonl", '{"a": 1}\n{broken\n', "episodes.jsonl line 2")],
)
def test_broken_metadata_is_an_error_with_its_place(
    invoke: Command, lerobot: Path, name: str, text: str, place: str
) -> None:
    (lerobot / "meta" / name).write_text(text)
    ran = invoke("inspect", lerobot)
    assert ran.code == 2
    assert place in ran.err


def test_a_video_that_was_never_finished(invoke: Command, lerobot: Path) -> None:
    video = next((lerobot / "videos").rglob("*.mp4"))
    video.write_bytes(video.read_bytes()[:600])
    ran = invoke("inspect", video)
    assert (ran.code, ran.out) == (2, "")
    assert "error [unreadable] the video cannot be opened" in ran.err


def write_npz(path: Path) -> None:
    np.savez_compressed(path, joints=np.zeros((5, 29), "f8"), fps=np.int64(30), names=np.array(["a", "bc"]))


def write_objects(path: Path) -> None:
    np.savez(path, objects=np.array([{"a": 1}], dtype=object))


def write_npy(path: Path) -> None:
    np.save(path, np.asfortranarray(np.zeros((4, 6), ">f4")))


@pytest.mark.parametrize(
    ("name", "write", "nodes"),
    [
        ("a.npz", write_npz, {"fps": ("int64", []), "joints": ("float64", [5, 29]), "names": ("<U2", [2])}),
        ("o.npz", write_objects, {"objects": ("object", [1])}),
        ("a.npy", write_npy, {"a": (">f4", [4, 6])}),
    ],
)
def test_arrays_are_told_from_their_headers(
    invoke: Command, tmp_path: Path, name: str, write: Callable[[Path], None], nodes: dict[str, Any]
) -> None:
    write(tmp_path / name)
    value = invoke("inspect", name, "--json").json
    assert {p: (n["dtype"], n["shape"]) for p, n in nodes_of(value).items()} == nodes
    notes = {n["note"] for n in nodes_of(value).values()}
    assert notes <= {"", "column-major", "pickled objects: not opened"}
    assert ("pickled objects: not opened" in notes) is (name == "o.npz")


@pytest.mark.parametrize("name", ["bad.npz", "bad.npy", "bad.parquet"])
def test_broken_arrays_and_tables_are_refused(invoke: Command, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"PAR1 nonsense" if name.endswith("parquet") else b"nonsense")
    ran = invoke("inspect", name)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error [unreadable] ")


def test_a_csv_with_and_without_header(invoke: Command, tmp_path: Path) -> None:
    (tmp_path / "plain.csv").write_text("0.5,1,-2\n1.5,3,4\n")
    (tmp_path / "named.csv").write_text("x, y,label\n0.5,1,2\n1.5,3,-4\n")
    plain, named = (invoke("inspect", n, "--json").json for n in ("plain.csv", "named.csv"))
    assert plain["facts"] == {"rows": 2, "columns": 3, "header": "no"}
    assert named["facts"] == {"rows": 2, "columns": 3, "header": "yes"}
    assert [d["name"] for d in plain["ranges"][0]["dimensions"]] == ["0", "1", "2"]
    assert [(d["name"], d["min"], d["max"]) for d in named["ranges"][0]["dimensions"]] == [
        ("x", 0.5, 1.5),
        ("y", 1.0, 3.0),
        ("label", -4.0, 2.0),
    ]


def test_a_ragged_csv_is_noted_and_an_empty_one_is_told(invoke: Command, tmp_path: Path) -> None:
    (tmp_path / "ragged.csv").write_text("1,2\n3,4\n5\n")
    (tmp_path / "empty.csv").write_text("")
    ragged = invoke("inspect", "ragged.csv", "--json").json
    assert ragged["facts"]["rows"] == 3
    assert ragged["notes"] == ["rows of another width than 2 occur"]
    assert invoke("inspect", "empty.csv", "--json").json["facts"]["columns"] == 0


def test_text_that_is_no_csv_is_refused(invoke: Command, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_bytes(b"\xff\xfe1,2")
    assert invoke("inspect", "bad.csv").code == 2


class Trap:
    """An object whose unpickling would leave a file behind."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("trap-was-sprung"),)


def test_a_pickle_is_never_opened(invoke: Command, tmp_path: Path) -> None:
    (tmp_path / "motion.pkl").write_bytes(pickle.dumps(Trap(), protocol=4))
    ran = invoke("inspect", "motion.pkl")
    assert ran.code == 0
    assert "not opened: unpickling runs whatever code its author put in" in ran.out
    assert invoke("inspect", "motion.pkl", "--json").json["facts"] == {"protocol": 4}
    assert not (tmp_path / "trap-was-sprung").exists()


def demo_file(rows: int, episodes: list[tuple[int, int, int]]) -> bytes:
    """A `.demo` file with obs_dim 3 and act_dim 2 whose actions are the row number and its negative."""
    head = struct.pack("<8sIIIQI", b"MRLDEMO1", 1, 3, 2, rows, len(episodes))
    body = b"".join(struct.pack("<3f2ff3ffI", 0, 0, 0, i, -i, 0, 0, 0, 0, 0, 0) for i in range(rows))
    return head + body + b"".join(struct.pack("<QQI", *e) for e in episodes)


def test_a_demo_file(invoke: Command, tmp_path: Path) -> None:
    (tmp_path / "a.demo").write_bytes(demo_file(7, [(0, 3, 1), (3, 4, 0)]))
    value = invoke("inspect", "a.demo", "--json").json
    assert value["kind"] == "transitions"
    assert value["facts"] == {
        "rows": 7,
        "obs_dim": 3,
        "act_dim": 2,
        "rows with a human's intervention": 0,
    }
    assert value["episodes"]["lengths"] == [3, 4]
    assert value["episodes"]["success"] == {"yes": 1, "no": 1}
    assert [(d["min"], d["max"]) for d in value["ranges"][0]["dimensions"]] == [(0, 6), (-6, 0)]
    assert nodes_of(value)["next_obs"]["shape"] == ["N", 3]


def test_a_demo_file_of_another_size_than_it_says(invoke: Command, tmp_path: Path) -> None:
    (tmp_path / "a.demo").write_bytes(demo_file(7, [(0, 7, 1)])[:-1])
    ran = invoke("inspect", "a.demo")
    assert ran.code == 2
    assert "error [truncated] the file's size is what its header says" in ran.err
    (tmp_path / "b.demo").write_bytes(b"MRLDEMO1")
    assert invoke("inspect", "b.demo").code == 2


def test_json_and_text(invoke: Command, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"one": 1, "two": [2]}')
    (tmp_path / "notes").write_text("a\nb\nc\n")
    assert invoke("inspect", "a.json", "--json").json["facts"] == {"keys": "one, two"}
    assert invoke("inspect", "notes", "--json").json["facts"] == {"lines": 3}


def test_a_file_of_no_known_kind(invoke: Command, tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(b"\x00\x01\x02")
    ran = invoke("inspect", "blob")
    assert ran.code == 2
    assert "error [unknown-kind] the file is of no kind that inspect knows" in ran.err
    assert "expected  HDF5, a LeRobot folder" in ran.err


def test_a_folder_tells_the_kind_of_every_entry(invoke: Command, chain: dict[str, Path]) -> None:
    folder = chain["raw"].parent
    (folder / "sub").mkdir()
    (folder / "sub" / "broken.hdf5").write_bytes(b"")
    (folder / ".hidden").write_text("x")
    (folder / "away").symlink_to("/etc")
    value = invoke("inspect", folder, "--json").json
    kinds = {p: n["dtype"] for p, n in nodes_of(value).items()}
    assert kinds == {
        "o.h5": "store",
        "o.hdf5": "l2",
        "o_lerobot": "lerobot",
        "sub/broken.hdf5": "unreadable (empty-file)",
        "take.hdf5": "isaaclab",
    }
    assert value["facts"]["kinds"] == "1 isaaclab, 1 l2, 1 lerobot, 1 store, 1 unreadable (empty-file)"


def test_an_empty_folder_and_a_data_root(invoke: Command, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "the folder is empty" in invoke("inspect", "empty").out
    (tmp_path / "datasets.yaml").write_text("version: 1\ndatasets: {}\n")
    assert "a data root: see `trajpipe list --root" in invoke("inspect", tmp_path).out


def test_a_column_of_lists_of_differing_lengths_has_no_range(invoke: Command, tmp_path: Path) -> None:
    table = pa.table({"action": pa.array([[1.0, 2.0], [3.0]]), "episode_index": [0, 1]})
    pq.write_table(table, tmp_path / "ragged.parquet", compression="zstd")
    value = invoke("inspect", "ragged.parquet", "--json").json
    assert value["ranges"] == []
    assert value["episodes"]["lengths"] == [1, 1]
    assert nodes_of(value)["action"]["compression"] == "zstd"


@pytest.mark.shared
@pytest.mark.parametrize(
    ("folder", "version", "episodes", "rows", "task"),
    [
        ("v2.0_robot_sim.PickNPlace", "v2.0", 5, 2096, None),
        ("v2.1_g1_bottle_2ep", "v2.1", 2, 499, "Pick up the yellow bottle on the table."),
        ("v2.1_screwdriver_panel_ls_080225_4_e5", "v2.1", 5, 1217, None),
        ("v3.0_g1_bottle_2ep", "v3.0", 2, 499, "Pick up the yellow bottle on the table."),
        ("v3.0_pusht", "v3.0", 206, 25650, "Push the T-shaped block onto the T-shaped target."),
    ],
)
def test_real_lerobot_folders(
    invoke: Command, shared_data: Path, folder: str, version: str, episodes: int, rows: int, task: str | None
) -> None:
    value = invoke("inspect", shared_data / "lerobot" / folder, "--json").json
    assert value["title"] == f"LeRobot dataset {version}"
    assert (value["episodes"]["count"], value["episodes"]["rows"]) == (episodes, rows)
    assert value["ranges"][0]["title"] == "action"
    if task is not None:
        assert value["episodes"]["tasks"] == {task: episodes}
    info = json.loads((shared_data / "lerobot" / folder / "meta/info.json").read_text())
    assert set(nodes_of(value)) == set(info["features"])


@pytest.mark.shared
def test_real_motion_files(invoke: Command, shared_data: Path) -> None:
    folder = shared_data / "lafan_g1"
    value = invoke("inspect", folder / "dance1_subject2.csv", "--json").json
    assert value["facts"] == {"clips": 1, "frames per second": "30", "seconds": 131.467, "joints": 29}
    assert value["episodes"]["lengths"] == [3945]
    value = invoke("inspect", folder / "G1_walk.npz", "--json").json
    assert nodes_of(value)["joint_pos"]["shape"] == ["T", 29]
    for path in folder.glob("*.pkl"):
        value = invoke("inspect", path, "--json").json
        assert (value["kind"], value["facts"]["joints"]) == ("lafan", 23)


@pytest.mark.parametrize(
    ("version", "file"),
    [
        ("v2.1", "data/chunk-000/episode_000001.parquet"),
        ("v3.0", "data/chunk-000/file-000.parquet"),
        ("v3.0", "meta/episodes/chunk-000/file-000.parquet"),
        ("v3.0", "meta/tasks.parquet"),
    ],
)
def test_a_truncated_parquet_of_a_folder_is_named(
    invoke: Command, tmp_path: Path, version: str, file: str
) -> None:
    root = Folder(videos=False, version=version).write(tmp_path / "set")
    (root / file).write_bytes((root / file).read_bytes()[:-40])
    ran = invoke("inspect", str(root))
    assert ran.code == 2
    assert "the parquet file cannot be read" in ran.err
    assert file in ran.err
    assert "internal" not in ran.err
