"""`store-equals-l2`: every row after the declared cast, every episode fact, and what differs is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from trajpipe.checks import CheckResult, run_checks
from trajpipe.core.findings import Place, Severity
from trajpipe.store import ColumnSpec, TrajectoryStoreWriter

CODE = "store-equals-l2"
COLUMNS = {
    "action": ["actions"],
    "joint_pos": ["obs/joint_pos"],
    "images": ["obs/front", "obs/wrist"],
    "images_top": ["obs/top"],
    "done": ["dones"],
    "grasped": ["obs/grasped"],
}
LENGTHS = {"a.hdf5": {"demo_0": 3, "demo_2": 4, "demo_10": 2}, "b.hdf5": {"demo_0": 5}}


def demo(length: int, seed: int) -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(seed)
    return {
        "actions": rng.standard_normal((length, 3)),
        "obs/joint_pos": rng.standard_normal((length, 2)),
        "obs/front": rng.integers(0, 255, (length, 6, 5, 3), np.uint8),
        "obs/wrist": rng.integers(0, 255, (length, 6, 5, 3), np.uint8),
        "obs/top": rng.integers(0, 255, (length, 4, 4, 1), np.uint8),
        "obs/grasped": rng.random(length) > 0.5,
        "dones": (np.arange(length) == length - 1).astype(np.int64),
    }


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, list[Path]]:
    """A store and the two L2 files it was made from, by hand."""
    specs = [
        ColumnSpec("action", "float32", 3),
        ColumnSpec("joint_pos", "float64", 2),
        ColumnSpec("images", "uint8", (2, 3, 6, 5)),
        ColumnSpec("images_top", "uint8", (1, 4, 4)),
        ColumnSpec("done", "uint8"),
        ColumnSpec("grasped", "bool"),
        ColumnSpec("task_index", "int32", 1),
        ColumnSpec("success", "uint8"),
    ]
    inputs: list[Path] = []
    facts: list[tuple[str, str]] = []
    with TrajectoryStoreWriter(
        tmp_path / "x.h5", specs, tasks=["lift", "stack"], image_compression="none"
    ) as writer:
        for number, (name, demos) in enumerate(LENGTHS.items()):
            with h5py.File(tmp_path / name, "w") as file:
                for key, length in demos.items():
                    rows = demo(length, len(facts))
                    group = file.create_group(f"data/{key}")
                    for path, array in rows.items():
                        group[path] = array
                    group.attrs.update(
                        task=["lift", "stack"][number],
                        success=len(facts) % 2 == 0,
                        success_known=len(facts) != 2,
                        source="teleop",
                        source_file=name,
                        source_demo=key,
                        content_sha256=bytes([len(facts)] * 32).hex(),
                    )
                    cameras = np.stack([rows["obs/front"], rows["obs/wrist"]], 1)
                    writer.append(
                        action=rows["actions"].astype(np.float32),
                        joint_pos=rows["obs/joint_pos"],
                        images=np.moveaxis(cameras, 4, 2),
                        images_top=np.moveaxis(rows["obs/top"], 3, 1),
                        done=rows["dones"].astype(np.uint8),
                        grasped=rows["obs/grasped"],
                        task_index=np.full((length, 1), number, np.int32),
                        success=np.full(length, len(facts) % 2 == 0, np.uint8),
                    )
                    writer.end_episode()
                    facts.append((name, key))
            inputs.append(tmp_path / name)
        writer.add_side_table("ep_file", [f for f, _ in facts])
        writer.add_side_table("ep_demo", [d for _, d in facts])
        writer.add_side_table("ep_source", np.zeros(4, np.uint8))
        writer.add_side_table("source_tags", ["teleop"])
        writer.add_side_table("ep_success", np.array([1, 0, 2, 0], np.uint8))
        writer.add_side_table("ep_content", np.repeat(np.arange(4, dtype=np.uint8)[:, None], 32, 1))
    return tmp_path / "x.h5", inputs


def compare(store: Path, inputs: list[Path], **context: Any) -> CheckResult:
    given = {"l2": inputs, "columns": COLUMNS, **context}
    report = run_checks("store", store, context=given, select=[CODE])
    return report.results[0]


def test_an_equal_store_passes_and_counts_every_value(files: tuple[Path, list[Path]]) -> None:
    result = compare(*files)
    assert result.passed
    assert list(result.findings) == []
    values = 14 * (3 + 2 + 2 * 3 * 6 * 5 + 16 + 1 + 1)
    facts = 4 * 6
    assert str(result.counted) == f"checked {values + facts} of {values + facts} values"
    assert result.measures == {"differing_values": 0.0}


def test_without_a_map_the_generic_names_hold(files: tuple[Path, list[Path]]) -> None:
    result = compare(*files, columns=None)
    messages = [f.message for f in result.findings if f.severity is Severity.INFO]
    assert messages == ["columns that no L2 path was declared for were not compared"]
    assert [f.got for f in result.findings if f.severity is Severity.ERROR] == ["missing"] * 3, (
        "obs/images_top"
    )


def edit_store(edit: Callable[[h5py.File], None]) -> Callable[[Path, list[Path]], None]:
    def run(store: Path, _: list[Path]) -> None:
        with h5py.File(store, "r+") as file:
            edit(file)

    return run


def edit_l2(edit: Callable[[h5py.Group], None]) -> Callable[[Path, list[Path]], None]:
    def run(_: Path, inputs: list[Path]) -> None:
        with h5py.File(inputs[0], "r+") as file:
            edit(file["data"])

    return run


def nudge(name: str, row: int) -> Callable[[h5py.File], None]:
    """The smallest change of one value."""

    def edit(file: h5py.File) -> None:
        rows = file[name][row : row + 1]
        flat = rows.reshape(-1)
        flat[0] = np.nextafter(flat[0], np.inf) if rows.dtype.kind == "f" else flat[0] ^ 1
        file[name][row : row + 1] = rows

    return edit


def swap_cameras(file: h5py.File) -> None:
    file["images"][...] = file["images"][()][:, ::-1]


def flip(file: h5py.File) -> None:
    file["images"][...] = file["images"][()][..., ::-1, :]


def swap_demos(file: h5py.File) -> None:
    rows = file["action"][()]
    file["action"][...] = np.concatenate([rows[7:9], rows[:7], rows[9:]])


def attribute(name: str, value: Any) -> Callable[[h5py.Group], None]:
    def edit(data: h5py.Group) -> None:
        data["demo_2"].attrs[name] = value

    return edit


def table(name: str, row: int, value: Any) -> Callable[[h5py.File], None]:
    def edit(file: h5py.File) -> None:
        file[name][row] = value

    return edit


def no_term(data: h5py.Group) -> None:
    del data["demo_2/obs/joint_pos"]


def one_more(data: h5py.Group) -> None:
    data.copy("demo_2", "demo_3")


@pytest.mark.parametrize(
    ("damage", "column", "said"),
    [
        (edit_store(nudge("action", 8)), "action", "equals its L2 row"),
        (edit_store(nudge("joint_pos", 0)), "joint_pos", "equals its L2 row"),
        (edit_store(nudge("images", 13)), "images", "equals its L2 row"),
        (edit_store(nudge("images_top", 5)), "images_top", "equals its L2 row"),
        (edit_store(nudge("grasped", 5)), "grasped", "equals its L2 row"),
        (edit_store(nudge("done", 5)), "done", "equals its L2 row"),
        (edit_store(swap_cameras), "images", "equals its L2 row"),
        (edit_store(flip), "images", "equals its L2 row"),
        (edit_store(swap_demos), "action", "equals its L2 row"),
        (edit_store(table("task_index", 4, 1)), "task_index", "demo's attribute"),
        (edit_store(table("ep_demo", 1, b"demo_9")), "ep_demo", "demo's attribute"),
        (edit_store(table("ep_content", 1, 9)), "ep_content", "demo's attribute"),
        (edit_l2(attribute("source", "rl")), "ep_source", "demo's attribute"),
        (edit_l2(attribute("source_file", "c.hdf5")), "ep_file", "demo's attribute"),
        (edit_l2(attribute("success", True)), "ep_success", "demo's attribute"),
        (edit_l2(attribute("success_known", False)), "ep_success", "demo's attribute"),
        (edit_l2(attribute("task", "other")), "task_index", "demo's attribute"),
        (edit_l2(no_term), "joint_pos", "has the column's datasets"),
        (edit_l2(one_more), None, "has the rows of its demo"),
    ],
)
def test_each_difference_is_found(
    files: tuple[Path, list[Path]],
    damage: Callable[[Path, list[Path]], None],
    column: str | None,
    said: str,
) -> None:
    damage(*files)
    result = compare(*files)
    assert not result.passed
    first = next(f for f in result.findings if said in f.message)
    assert first.place.column == column
    assert first.severity is Severity.ERROR


def test_the_place_of_a_difference_is_its_demo_and_row(files: tuple[Path, list[Path]]) -> None:
    edit_store(nudge("action", 5))(*files)
    (finding,) = compare(*files).findings
    assert finding.place == Place(file="a.hdf5", demo="demo_2", column="action", row=2)


@pytest.mark.parametrize("order", [[1, 0], [0], [0, 1, 1]])
def test_the_files_are_those_of_the_store_in_order(files: tuple[Path, list[Path]], order: list[int]) -> None:
    store, inputs = files
    assert not compare(store, [inputs[i] for i in order]).passed


def test_comparing_nothing_is_no_pass(files: tuple[Path, list[Path]]) -> None:
    assert not compare(files[0], []).passed


def test_only_the_declared_cast_may_lose(files: tuple[Path, list[Path]]) -> None:
    """float64 to float32 is declared; 300 in a uint8 column is not."""

    def widen(data: h5py.Group) -> None:
        del data["demo_2/dones"]
        data["demo_2/dones"] = np.array([300, 0, 0, 1])

    edit_l2(widen)(*files)
    finding = next(iter(compare(*files).findings))
    assert "loses nothing" in finding.message
    assert finding.place.demo == "demo_2"
