"""L2 files of trajpipe, read by robomimic 0.3.0 and IsaacLab 2.3.2's handler: every value, name and count.

What is expected is computed here from the raw files with h5py and numpy alone.
What is not here: the rules of L2 as checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from trajpipe.pipeline.convert import ConvertOptions, convert
from trajpipe.testing import write_recording
from trajpipe_tests.readers.digests import Digest, arrays_below, digest_of, digests_below

RunReader = Callable[..., dict[str, Any]]
NESTED: Final = "AttributeError: 'Group' object has no attribute 'shape'"
# Where NVIDIA's Franka stack environment records scalar-first quaternions: path's last part → offsets.
LEGACY: Final = {"root_pose": (3,), "eef_quat": (0,), "cube_orientations": (0, 4, 8), "object": (3, 10, 17)}


def to_l2(source: Path, target: Path, **options: Any) -> Path:
    """One recording as L2; it must come out whole."""
    (result,) = convert([source], target, "demos", ConvertOptions(**options))
    assert result.ok, result.error or [str(f) for f in result.checks.findings()]
    return target


def scalar_last(path: str, rows: NDArray[Any]) -> NDArray[Any]:
    """The rows with every legacy quaternion turned into xyzw."""
    out = rows.copy()
    for start in LEGACY.get(path.rsplit("/", 1)[-1], ()):
        out[..., start : start + 3] = rows[..., start + 1 : start + 4]
        out[..., start + 3] = rows[..., start]
    return out


def raw_demos(path: Path) -> Iterator[tuple[str, dict[str, NDArray[Any]]]]:
    """Demos of a raw file by their numbers, with all their datasets."""
    with h5py.File(path) as handle:
        for name in sorted(handle["data"], key=lambda n: int(n.removeprefix("demo_"))):
            yield name, arrays_below(handle["data"][name])


def l2_digests(path: Path) -> dict[str, dict[str, Digest]]:
    """Demo → digests of what the file holds."""
    with h5py.File(path) as handle:
        return {name: digests_below(demo) for name, demo in handle["data"].items()}


def as_robomimic_caches(path: Path) -> dict[str, dict[str, Digest]]:
    """Demo → digests of its flat columns as robomimic keeps them in memory: float32, but for observations."""
    out: dict[str, dict[str, Digest]] = {}
    for name, demo in raw_demos(path):
        flat = {p: rows for p, rows in demo.items() if p.count("/") == p.startswith("obs/")}
        out[name] = {
            p: digest_of(r if p.startswith("obs/") else r.astype(np.float32)) for p, r in flat.items()
        }
    return out


@pytest.mark.parametrize(("name", "info_error"), [("dataset", None), ("annotated_dataset", NESTED)])
def test_nvidia_s_recording_is_read_with_every_quaternion_scalar_last(
    run_reader: RunReader, shared_data: Path, tmp_path: Path, name: str, info_error: str | None
) -> None:
    source = shared_data / "isaaclab" / f"{name}.hdf5"
    target = to_l2(source, tmp_path / "teleop_stack.hdf5")
    expected = {
        f"demo_{i}": {path: digest_of(scalar_last(path, rows)) for path, rows in demo.items()}
        for i, (_, demo) in enumerate(raw_demos(source))
    }

    by_isaaclab = run_reader("isaaclab", target)
    assert {n: e["columns"] for n, e in by_isaaclab["episodes"].items()} == expected
    assert {e["success"] for e in by_isaaclab["episodes"].values()} == {True}
    assert by_isaaclab["count"] == 10

    by_robomimic = run_reader("robomimic", target)
    flat = {n: {p: d for p, d in c.items() if p in by_robomimic["columns"][n]} for n, c in expected.items()}
    assert by_robomimic["columns"] == flat
    assert by_robomimic["transitions"] == 2163
    assert by_robomimic["demos"] == [f"demo_{i}" for i in range(10)]
    assert "total transitions: 2163" in by_robomimic["info"]
    assert by_robomimic["info_error"] == info_error


def test_the_annotated_file_keeps_its_nested_groups(
    run_reader: RunReader, shared_data: Path, tmp_path: Path
) -> None:
    target = to_l2(shared_data / "isaaclab" / "annotated_dataset.hdf5", tmp_path / "a.hdf5")
    columns = run_reader("isaaclab", target)["episodes"]["demo_0"]["columns"]
    assert columns["obs/datagen_info/eef_pose/franka"]["shape"] == [236, 4, 4]
    assert columns["obs/datagen_info/subtask_term_signals/grasp_1"]["dtype"] == "bool"


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("isaaclab", {}),
        ("isaaclab", {"format_version": 1}),
        ("robomimic", {"image_size": 32}),
        ("libero", {"image_size": 32}),
    ],
    ids=["isaaclab-legacy", "isaaclab-v1", "robomimic", "libero"],
)
def test_every_kind_of_recording_comes_out_for_both_readers(
    run_reader: RunReader, tmp_path: Path, kind: str, options: dict[str, Any]
) -> None:
    source = write_recording(
        kind, tmp_path / f"{kind}_demo.hdf5", episodes=3, rows=(12, 20), seed=5, **options
    )
    target = to_l2(source, tmp_path / "l2.hdf5", task="lift the cube")
    held = l2_digests(target)

    by_isaaclab = run_reader("isaaclab", target)
    assert {n: e["columns"] for n, e in by_isaaclab["episodes"].items()} == held
    assert all(isinstance(e["success"], bool) for e in by_isaaclab["episodes"].values())

    by_robomimic, cached = run_reader("robomimic", target), as_robomimic_caches(target)
    for name, columns in by_robomimic["columns"].items():
        assert columns == {path: cached[name][path] for path in columns}
        assert "actions" in columns
        assert any(path.startswith("obs/") for path in columns)
    with h5py.File(target) as handle:
        assert by_robomimic["transitions"] == handle["data"].attrs["total"]
    assert by_robomimic["info_error"] in (None, NESTED)


def test_masks_are_robomimic_s_filter_keys(run_reader: RunReader, tmp_path: Path) -> None:
    source = write_recording("robomimic", tmp_path / "ph.hdf5", episodes=6, rows=(6, 9), cameras=())
    found = run_reader("robomimic", to_l2(source, tmp_path / "l2.hdf5", task="lift"))
    with h5py.File(source) as handle:
        expected = {m: [n.decode() for n in handle["mask"][m][()]] for m in ("train", "valid")}
    assert {m: sorted(found["masks"][m]) for m in expected} == {m: sorted(n) for m, n in expected.items()}


def test_images_are_handed_out_top_row_first(run_reader: RunReader, tmp_path: Path) -> None:
    source = write_recording("libero", tmp_path / "x_demo.hdf5", episodes=1, rows=(8, 8), image_size=32)
    target = to_l2(source, tmp_path / "l2.hdf5")
    with h5py.File(source) as handle:
        upside_down = handle["data/demo_0/obs/agentview_rgb"][()]
    columns = run_reader("robomimic", target)["columns"]["demo_0"]
    assert columns["obs/agentview_rgb"] == digest_of(upside_down[:, ::-1])
