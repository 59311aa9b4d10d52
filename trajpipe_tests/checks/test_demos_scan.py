"""The pass over an L2 file: every byte once, bounded memory, quaternion sites, hashes, odd datasets.

What is not here: what the rules make of the facts, see the other `test_demos_*` files.
"""

from __future__ import annotations

import hashlib
import tracemalloc
from pathlib import Path

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from trajpipe.checks.demos_evidence import Rows, alignment_slices
from trajpipe.checks.demos_facts import Slice
from trajpipe.checks.demos_scan import BLOCK_BYTES, scan, sites_of_recipe
from trajpipe.core import jsontext
from trajpipe.core.conventions import QuaternionSite
from trajpipe.core.episode import ArrayColumn
from trajpipe.core.names import Alignment
from trajpipe_tests.demos.builders import episode, written


def test_every_byte_is_read_once(good_demos: Path) -> None:
    facts = scan(good_demos)
    with h5py.File(good_demos) as file:
        for demo, path, found in facts.datasets():
            stored = file["data"][demo.name][path]
            assert found.bytes_read == stored.nbytes, path
            assert (found.dtype, found.shape, found.chunks) == (stored.dtype, stored.shape, stored.chunks)
    assert [d.length for d in facts.demos] == [12, 19, 26]


def test_a_column_longer_than_a_block_is_read_in_whole_chunks(tmp_path: Path) -> None:
    rows = 3 * BLOCK_BYTES // 4000 + 7
    wide = np.arange(rows * 1000, dtype=np.float32).reshape(rows, 1000) / 1e6
    wide[rows - 1, 5] = np.nan
    path = tmp_path / "a.hdf5"
    with h5py.File(path, "w") as file:
        demo = file.create_group("data/demo_0")
        demo.create_dataset("actions", data=wide, chunks=(100, 1000), compression="gzip", compression_opts=1)
    (demo_facts,) = scan(path).demos
    assert demo_facts.actions is not None
    assert (demo_facts.actions.bad_row, demo_facts.actions.bad_rows) == (rows - 1, 1)
    assert demo_facts.actions.bytes_read == wide.nbytes
    assert demo_facts.actions.low is not None
    np.testing.assert_array_equal(demo_facts.actions.low, wide[0])
    header = f"actions\0<f4\0{rows},1000\0".encode()
    assert demo_facts.content_sha256 == hashlib.sha256(header + wide.tobytes()).hexdigest()


def test_memory_does_not_grow_with_the_demos(tmp_path: Path) -> None:
    frames = np.random.default_rng(0).integers(0, 255, (2, 128, 128, 3)).astype(np.uint8)
    columns = {"actions": ArrayColumn(np.zeros((2, 7), np.float32)), "obs/rgb": ArrayColumn(frames)}
    path = written(tmp_path / "a.hdf5", *(episode(i, 2, columns=columns, attributes={}) for i in range(300)))
    tracemalloc.start()
    facts = scan(path)
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(facts.demos) == 300
    assert kept < 300 * 16_000, "a frame of 49 kB per demo is not kept"


def test_big_endian_and_bool_values_hash_by_the_rule(tmp_path: Path) -> None:
    path = tmp_path / "a.hdf5"
    actions, flags = np.arange(6, dtype=">f4").reshape(3, 2), np.array([True, False, True])
    with h5py.File(path, "w") as file:
        file["data/demo_0/actions"], file["data/demo_0/obs/flag"] = actions, flags
    expected = hashlib.sha256(b"actions\0<f4\x003,2\0" + actions.astype("<f4").tobytes())
    expected.update(b"obs/flag\0|b1\x003\0" + bytes([1, 0, 1]))
    assert scan(path).demos[0].content_sha256 == expected.hexdigest()


def test_odd_datasets_are_facts_and_no_crash(tmp_path: Path) -> None:
    path = tmp_path / "a.hdf5"
    with h5py.File(path, "w") as file:
        demo = file.create_group("data/demo_0")
        demo["actions"] = np.zeros((2, 3), np.float32)
        demo["states/scalar"] = 3.0
        demo["states/empty"] = h5py.Empty("f4")
        demo["states/none"] = np.zeros((2, 0), np.float32)
        demo["obs/text"] = "hello"
        demo["obs/pair"] = np.zeros(2, [("a", "f4"), ("b", "i4")])
    (facts,) = scan(path).demos
    shapes = {p: d.shape for p, d in facts.datasets.items()}
    assert (shapes["states/scalar"], shapes["states/empty"]) == ((), None)
    assert [p for p, d in facts.datasets.items() if not d.is_number] == ["obs/pair", "obs/text"]
    assert facts.content_sha256 is None


def test_sites_come_from_the_recipe_at_any_depth() -> None:
    recipe = {
        "merged": [
            {"recipe": {"read": {"quaternion_sites": [{"path": "obs/q", "starts": [0, 4]}, {"x": 1}]}}}
        ],
        "options": {"conventions": {"quaternions": [{"path": "*_pose", "starts": [3], "order": "wxyz"}]}},
    }
    assert sites_of_recipe(jsontext.dumps(recipe)) == (
        QuaternionSite("obs/q", (0, 4)),
        QuaternionSite("*_pose", (3,)),
    )


@pytest.mark.parametrize("text", [None, 3, "no json", "[]", '{"quaternions": 3}'])
def test_a_recipe_without_sites_declares_none(text: object) -> None:
    assert sites_of_recipe(text) == ()


@pytest.mark.parametrize(
    ("path", "width", "declared", "starts"),
    [
        ("obs/eef_quat", 4, (), [0]),
        ("states/robot/root_pose", 7, (), [3]),
        ("obs/cubes", 12, (QuaternionSite("obs/cubes", (0, 4, 8)),), [0, 4, 8]),
        ("obs/eef_quat", 4, (QuaternionSite("obs/*", ()),), []),
        ("obs/quaternion", 4, (), []),
        ("obs/eef_quat", 5, (), []),
        ("obs/cubes", 6, (QuaternionSite("obs/cubes", (0, 4)),), [0]),
    ],
)
def test_where_quaternions_are_looked_for(
    tmp_path: Path, path: str, width: int, declared: tuple[QuaternionSite, ...], starts: list[int]
) -> None:
    file_path = tmp_path / "a.hdf5"
    with h5py.File(file_path, "w") as file:
        file[f"data/demo_0/{path}"] = np.ones((3, width), np.float32)
    found = scan(file_path, declared).demos[0].datasets[path]
    assert sorted(found.norms) == starts
    assert all(norm == (2.0, 0) for norm in found.norms.values())


def _rows(values: NDArray[np.float64]) -> Rows:
    return Rows(is_image=False, is_float=True, head=values)


def test_alignment_is_told_by_a_run_of_columns_one_row_apart() -> None:
    states = np.random.default_rng(0).normal(size=(9, 20))
    later, earlier, same = states[1:, 5:9], states[:-2, 5:9], states[:-1, 5:9]
    base = {"states/x": _rows(states[:-1])}
    assert list(alignment_slices(base | {"obs/a": _rows(later)})) == [
        Slice(Alignment.AFTER_ACTION, "obs/a", "states/x")
    ]
    shifted = {"states/x": _rows(states[1:-1]), "obs/a": _rows(earlier)}
    assert list(alignment_slices(shifted)) == [Slice(Alignment.BEFORE_ACTION, "obs/a", "states/x")]
    assert list(alignment_slices(base | {"obs/a": _rows(same)})) == []


def test_a_term_that_stands_still_tells_nothing() -> None:
    still = np.ones((8, 4))
    assert list(alignment_slices({"states/x": _rows(still), "obs/a": _rows(still)})) == []
