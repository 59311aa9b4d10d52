"""Certificates of whole chains: what passes, and that every edge finds its fault by place and values.

What is not here: how the UI shows them, see `trajpipe_tests/defs/test_certificate.py`.
"""

from __future__ import annotations

import io
import json
import shutil
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin  # noqa: F401 - registers zstd
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from trajpipe.checks import certificate
from trajpipe.checks.certificate import sampled
from trajpipe.checks.lerobot_l2 import frame_at
from trajpipe.checks.registry import CheckReport, run_checks
from trajpipe.core.conventions import ActionConvention, Conventions, QuaternionSite, TermConvention
from trajpipe.core.errors import InputError, UsageError
from trajpipe.core.findings import Finding
from trajpipe.core.names import Alignment
from trajpipe.pipeline import certify
from trajpipe.pipeline.certify_paths import certify_paths
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.recorded import conventions_of, reading_of
from trajpipe.pipeline.results import Status
from trajpipe.pipeline.run import export_dataset, run
from trajpipe.report.frame_pair import frame_pair
from trajpipe.testing import write_recording
from trajpipe_tests.sources.lerobot_folders import Folder

CATALOGUE = """\
version: 1
datasets:
  lift:
    task: lift the cube
    raw:
      - {kind: isaaclab, glob: raw/lift/*.hdf5, tag: scripted}
    filter: {only_success: true}
    license: apache-2.0
  bottle:
    raw:
      - {kind: lerobot, glob: raw/sets/*, tag: teleop}
    store: {layout: lerobot, image_size: [24, 32]}
    license: apache-2.0
  drawer:
    raw:
      - {kind: libero, glob: raw/libero/*.hdf5}
    align: causal
    store: {group_by: scene}
    export: {cameras: []}
    license: apache-2.0
"""
CODES = (
    "certificate-raw",
    "certificate-store",
    "certificate-export",
    "certificate-frames",
    "certificate-counts",
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data root with three datasets brought through all stages."""
    root = tmp_path_factory.mktemp("chain") / "data"
    for i in range(2):
        path = root / f"raw/lift/take_{i}.hdf5"
        kind: dict[str, Any] = {"cameras": ("front",), "image_size": 64, "failures": (1,) if i else ()}
        write_recording("isaaclab", path, episodes=2, rows=(8, 12), seed=i, **kind)
    Folder(lengths=(9, 6), version="v3.0", tasks=[[0, 1, 0] * 3, [1] * 6]).write(root / "raw/sets/one_v3.0")
    write_recording(
        "libero", root / "raw/libero/KITCHEN_SCENE1_open_it_demo.hdf5", episodes=2, rows=(8, 9), seed=3
    )
    (root / "datasets.yaml").write_text(CATALOGUE)
    result = run(Project.open(root / "datasets.yaml"))
    assert result.ok, [(r.error, [str(f) for f in r.checks.findings()]) for r in result.results if not r.ok]
    return root


def stored(root: Path, name: str) -> dict[str, Any]:
    """The certificate of a dataset."""
    value: dict[str, Any] = json.loads((root / f"lerobot/{name}.certificate.json").read_text("utf-8"))
    return value


@pytest.mark.parametrize("name", ["lift", "bottle", "drawer"])
def test_a_built_chain_has_a_certificate_beside_its_export(built: Path, name: str) -> None:
    value = stored(built, name)
    assert value["passed"] is True
    assert [e["code"] for e in value["edges"]] == list(CODES)
    assert all(e["findings"] == [] for e in value["edges"])
    counts = value["counts"]
    assert len({c["episodes"] for c in counts.values()}) == 1
    assert len({c["rows"] for c in counts.values()}) == 1
    assert counts["demos"]["tags"] == counts["store"]["tags"] == counts["lerobot"]["tags"]
    assert set(value["stages"]) == {"raw", "demos", "store", "lerobot"}
    assert all(len(h) == 64 for stage in value["stages"].values() for h in stage.values())


def test_rejections_and_transforms_are_told(built: Path) -> None:
    lift, drawer = stored(built, "lift"), stored(built, "drawer")
    assert lift["rejected"] == {"take_1.hdf5": {"demo_1": "not-successful"}}
    assert lift["counts"]["raw"]["episodes"] == 3
    assert "causal shift" in drawer["transforms"]["KITCHEN_SCENE1_open_it_demo.hdf5"]
    assert lift["frames"]["worst"]["camera"] == "observation.images.front"
    assert lift["frames"]["sampled"] == 9
    picture = (built / "lerobot/lift.certificate.png").read_bytes()
    assert len(picture) <= 30_000
    assert Image.open(io.BytesIO(picture)).size == (64 + 4 + 64, 64)
    assert not (built / "lerobot/drawer.certificate.png").exists()


def test_the_command_s_certificate_is_the_same_to_the_byte(built: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(built, tmp_path / "data"))
    before = (root / "lerobot/lift.certificate.json").read_bytes()
    (root / "lerobot/lift.certificate.json").unlink()
    report, path = certify_paths(root / "raw", root / "demos", root / "stores/lift.h5", root / "lerobot/lift")
    assert report.passed
    assert path.read_bytes() == before


def test_one_store_per_scene_is_certified_as_one(built: Path) -> None:
    assert list(stored(built, "drawer")["stages"]["store"]) == ["KITCHEN_SCENE1.h5"]
    report, _ = certify_paths(
        built / "raw", built / "demos", built / "stores/drawer", built / "lerobot/drawer"
    )
    assert report.passed, [str(f) for f in report.findings()]


def test_one_video_is_open_at_a_time(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A decoder per episode kept open costs memory by the dataset, and every file descriptor in the end."""
    opened = list[int]()

    def counted(*given: Any) -> Any:
        names = [str(f.readlink()) for f in Path("/proc/self/fd").iterdir() if f.is_symlink()]
        opened.append(sum(name.endswith(".mp4") for name in names))
        return frame_at(*given)

    monkeypatch.setattr(certificate, "frame_at", counted)
    report, _ = certify_paths(
        built / "raw", built / "demos", built / "stores/lift.h5", built / "lerobot/lift"
    )
    assert report.passed
    assert opened == [1] * 9


def test_what_the_cap_leaves_out_is_counted(tmp_path: Path) -> None:
    write_recording(
        "isaaclab", tmp_path / "raw/a.hdf5", episodes=3, rows=(8, 9), seed=1, cameras=(), format_version=1
    )
    (tmp_path / "datasets.yaml").write_text(
        "version: 1\ndatasets:\n  capped:\n    task: lift\n    license: mit\n"
        "    raw: [{kind: isaaclab, glob: raw/*}]\n    store: {demos_per_task: 2}\n"
    )
    result = run(Project.open(tmp_path / "datasets.yaml"))
    assert result.ok, [r.error for r in result.results]
    assert [c["episodes"] for c in stored(tmp_path, "capped")["counts"].values()] == [3, 3, 3, 2]
    (tmp_path / "stores/capped.h5.ledger.json").unlink()
    report = chain_report(tmp_path, "capped")
    assert only_failing(report, "certificate-counts").place.column == "store episodes"


def test_dropped_stale_rows_are_a_declared_transform(tmp_path: Path) -> None:
    root = Folder(videos=False, version="v3.0", lengths=(7, 6, 5)).write(tmp_path / "raw/set")
    path = root / "data/chunk-000/file-000.parquet"
    table = pq.read_table(path)
    rows = table["observation.state"].to_pylist()
    rows[7] = rows[6]
    pq.write_table(table.set_column(0, "observation.state", pa.array(rows, pa.list_(pa.float32()))), path)
    (tmp_path / "datasets.yaml").write_text(
        "version: 1\ndatasets:\n  stale:\n    license: mit\n    raw: [{kind: lerobot, glob: raw/*}]\n"
        "    filter: {drop_stale_first_row: true}\n"
    )
    result = run(Project.open(tmp_path / "datasets.yaml"))
    assert result.ok, [str(f) for r in result.results for f in r.checks.findings()]
    value = stored(tmp_path, "stale")
    assert value["transforms"] == {"set": ["stale first rows dropped", "actions to float32"]}
    assert {c["rows"] for c in value["counts"].values()} == {17}
    moved = root.rename(tmp_path / "renamed")
    paths = (tmp_path / "demos", tmp_path / "stores/stale.h5", tmp_path / "lerobot/stale")
    report, _ = certify_paths(moved, *paths)
    assert report.passed, [str(f) for f in report.findings()]


def test_a_motion_store_counts_episodes_since_its_rows_are_resampled(
    tmp_path: Path, shared_data: Path
) -> None:
    lines = (shared_data / "lafan_g1/dance1_subject2.csv").read_text().splitlines()[:90]
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/dance.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "datasets.yaml").write_text(
        "version: 1\ndatasets:\n  dance: {license: mit, raw: [{kind: lafan, glob: raw/*}]}\n"
    )
    result = run(Project.open(tmp_path / "datasets.yaml"))
    assert result.results[-1].usable, [str(f) for f in result.results[-1].checks.findings()]
    counts = stored(tmp_path, "dance")["counts"]
    assert {c["episodes"] for c in counts.values()} == {1}
    assert counts["store"]["rows"] != counts["demos"]["rows"] == counts["raw"]["rows"] == 90


def chain_report(root: Path, name: str) -> CheckReport:
    """The certificate's rules on what is on disk, over files anywhere."""
    return certify_paths(root / "raw", root / "demos", root / f"stores/{name}.h5", root / f"lerobot/{name}")[
        0
    ]


def only_failing(report: CheckReport, *codes: str) -> Finding:
    """The first finding of the first of exactly these failing rules."""
    failing = [r for r in report.results if not r.passed]
    assert [r.code for r in failing] == list(codes), [str(f) for r in failing for f in r.findings]
    return next(iter(failing[0].findings))


@pytest.fixture
def root(built: Path, tmp_path: Path) -> Path:
    """A copy to break."""
    return Path(shutil.copytree(built, tmp_path / "data"))


def l2_of(root: Path, name: str) -> Path:
    """The L2 file of a dataset's first recording."""
    return min((root / "demos").glob(f"*{name}*.hdf5"))


def nudged(path: Path, dataset: str, row: int) -> tuple[float, float]:
    """Move one value of an HDF5 dataset by one step of its type; (new, old)."""
    with h5py.File(path, "r+") as file:
        values = file[dataset][()]
        old = values[row, 0]
        values[row, 0] = np.nextafter(old, np.inf, dtype=values.dtype)
        file[dataset][...] = values
        return values[row, 0].item(), old.item()


def test_one_bit_in_the_recording_is_found(root: Path) -> None:
    old, new = nudged(root / "raw/lift/take_0.hdf5", "data/demo_1/obs/joint_pos", 5)
    report = chain_report(root, "lift")
    (result,) = (r for r in report.results if not r.passed)
    assert result.code == "certificate-raw"
    other, value = result.findings.kept
    assert other.message == "the recording is not the one that L2 was made of"
    place = (value.place.file, value.place.demo, value.place.column, value.place.row)
    assert place == ("take_0.hdf5", "demo_1", "obs/joint_pos", 5)
    assert (value.got, value.expected) == (repr(new), repr(old))


def test_one_bit_in_a_lerobot_recording_is_found(root: Path) -> None:
    path = root / "raw/sets/one_v3.0/data/chunk-000/file-000.parquet"
    table = pq.read_table(path)
    rows = np.array(table["observation.state"].to_pylist(), np.float32)
    rows[11, 2] = np.nextafter(rows[11, 2], np.float32(9))
    state = pa.array(rows.tolist(), pa.list_(pa.float32()))
    pq.write_table(table.set_column(0, "observation.state", state), path, row_group_size=6)
    report = chain_report(root, "bottle")
    (result,) = (r for r in report.results if not r.passed)
    place = result.findings.kept[-1].place
    assert (place.demo, place.column, place.row) == ("episode_000001", "obs/state", 2)


def test_a_lost_and_an_invented_episode_are_found(root: Path) -> None:
    with h5py.File(root / "raw/lift/take_0.hdf5", "r+") as file:
        file.move("data/demo_1", "data/demo_9")
    report = chain_report(root, "lift")
    (result,) = (r for r in report.results if not r.passed)
    messages = {f.message: str(f.place) for f in result.findings}
    assert messages["an episode is neither in L2 nor in its ledger"] == "take_0.hdf5 · demo_9"
    assert "an L2 demo comes from no episode of the recording" in messages


def test_a_rejection_that_the_ledger_does_not_know_is_found(root: Path) -> None:
    for ledger in (root / "demos").glob("*.ledger.json"):
        ledger.unlink()
    found = only_failing(chain_report(root, "lift"), "certificate-raw", "certificate-counts")
    assert (found.place.demo, found.expected) == ("demo_1", "written or rejected")


def test_one_bit_in_the_store_is_found(root: Path) -> None:
    new, old = nudged(root / "stores/lift.h5", "joint_pos", 3)
    found = only_failing(chain_report(root, "lift"), "certificate-store")
    assert found.message.startswith("store-equals-l2")
    assert (found.place.column, found.place.row) == ("joint_pos", 3)
    assert float(str(found.got)) == pytest.approx(new)
    assert float(str(found.expected)) == pytest.approx(old)


def test_one_pixel_in_the_store_is_found(root: Path) -> None:
    with h5py.File(root / "stores/lift.h5", "r+") as file:
        frames = file["images"][()]
        frames[0, 0, 1, 2, 3] ^= 1
        file["images"][...] = frames
    found = only_failing(chain_report(root, "lift"), "certificate-store")
    assert (found.place.column, found.place.row) == ("images", 0)
    assert "(0, 1, 2, 3)" in found.message


def test_one_bit_in_the_export_is_found(root: Path) -> None:
    path = root / "lerobot/lift/data/chunk-000/episode_000001.parquet"
    table = pq.read_table(path)
    rows = np.array(table["action"].to_pylist(), np.float32)
    rows[4, 0] = np.nextafter(rows[4, 0], np.float32(9))
    at = table.column_names.index("action")
    action = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), rows.shape[1])
    pq.write_table(table.set_column(at, "action", action), path)
    found = only_failing(chain_report(root, "lift"), "certificate-export")
    assert (found.place.demo, found.place.column, found.place.row) == ("episode 1", "action", 4)


def test_frames_of_another_episode_are_found_and_the_worst_is_shown(root: Path) -> None:
    videos = root / "lerobot/bottle/videos/chunk-000/observation.images.front"
    shutil.copy(videos / "episode_000000.mp4", videos / "episode_000001.mp4")
    report = chain_report(root, "bottle")
    assert [r.code for r in report.results if not r.passed] == ["certificate-export", "certificate-frames"]
    value = stored(root, "bottle")
    assert value["passed"] is False
    assert value["frames"]["worst"]["db"] < 30
    assert value["frames"]["worst"]["episode"] == "episode 1"


def test_a_task_and_a_tag_that_change_are_found(root: Path) -> None:
    path = root / "lerobot/lift/meta/episodes.jsonl"
    path.write_text(
        path.read_text()
        .replace('"source":"scripted"', '"source":"rl"')
        .replace('"source": "scripted"', '"source": "rl"')
    )
    with h5py.File(root / "stores/lift.h5", "r+") as file:
        text = bytes(file["__manifest__"][()]).replace(b"lift the cube", b"lift the cabe")
        file["__manifest__"][...] = np.frombuffer(text, np.uint8)
    report = chain_report(root, "lift")
    (result,) = (r for r in report.results if r.code == "certificate-counts")
    assert [(f.place.column, f.got, f.expected) for f in result.findings] == [
        ("store tasks", "'lift the cabe': 3, 'lift the cube': 0", "'lift the cabe': 0, 'lift the cube': 3"),
        ("lerobot tags", "'rl': 3, 'scripted': 0", "'rl': 0, 'scripted': 3"),
    ]


def test_a_higher_bound_fails_the_frames(built: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(built, tmp_path / "data"))
    paths = (root / "raw", root / "demos", root / "stores/lift.h5", root / "lerobot/lift")
    report, _ = certify_paths(*paths, bound_db=90)
    assert [r.code for r in report.results if not r.passed] == ["certificate-export", "certificate-frames"]
    found = next(iter(report.results[3].findings))
    assert found.expected == "90 dB at least"


def test_an_unchanged_export_is_proven_anew_when_its_store_changed(root: Path) -> None:
    project = Project.open(root / "datasets.yaml")
    assert export_dataset(project, "lift").status is Status.UNCHANGED
    nudged(root / "stores/lift.h5", "joint_pos", 3)
    result = export_dataset(project, "lift")
    assert result.status is Status.UNCHANGED
    assert not result.usable
    assert stored(root, "lift")["passed"] is False
    assert json.loads((root / "lerobot/lift.checks.json").read_text())["passed"] is False


def test_a_broken_store_keeps_a_new_export_from_being_published(root: Path) -> None:
    shutil.rmtree(root / "lerobot")
    nudged(root / "stores/lift.h5", "joint_pos", 3)
    result = export_dataset(Project.open(root / "datasets.yaml"), "lift")
    assert result.status is Status.FAILED
    assert "certificate-store" in str(result.error)
    assert not (root / "lerobot/lift").exists()


def test_without_a_chain_the_rules_do_not_apply(built: Path) -> None:
    report = run_checks("lerobot", built / "lerobot/lift", select=["certificate-*"])
    assert set(report.skipped) == set(CODES)


def test_a_merged_file_cannot_be_certified(root: Path) -> None:
    path = l2_of(root, "lift")
    with h5py.File(path, "r+") as file:
        recipe = json.loads(file["data"].attrs["trajpipe"])
        del recipe["options"]["kind"]
        file["data"].attrs["trajpipe"] = json.dumps(recipe)
    found = only_failing(chain_report(root, "lift"), "certificate-raw", "certificate-counts")
    assert "does not say how its recording was read" in found.message


def test_paths_that_do_not_belong_together_are_refused(built: Path, tmp_path: Path) -> None:
    stores, exports = built / "stores", built / "lerobot"
    with pytest.raises(UsageError, match="no episode of the stores"):
        certify_paths(built / "raw", l2_of(built, "open_it"), stores / "lift.h5", exports / "lift")
    with pytest.raises(UsageError, match="no such file"):
        certify_paths(built / "raw", built / "demos", stores / "absent.h5", exports / "lift")
    with pytest.raises(InputError, match=r"no take_0\.hdf5"):
        certify_paths(built / "raw/sets", built / "demos", stores / "lift.h5", exports / "lift")


def test_conventions_come_back_from_the_recipe() -> None:
    declared = Conventions(
        quaternion_order="wxyz",
        quaternions=(QuaternionSite("obs/quat", (0, 4), "wxyz"), QuaternionSite("x", ())),
        images="opengl",
        channel_order="bgr",
        alignment=Alignment.AFTER_ACTION,
        fps=None,
        action=ActionConvention("delta", low=(-1.0,), high=(1.0, 2.0), gripper_open=-1),
        terms={"a": "b"},
        term_meanings={"b": TermConvention("relative")},
        term_widths={"b": 3},
        env_name="Lift",
        env_args={"env_name": "Lift"},
    )
    assert conventions_of(json.loads(json.dumps(declared.to_json()))) == declared
    plain = replace(declared, action=ActionConvention(), alignment=None, fps=Fraction(30000, 1001))
    assert conventions_of(json.loads(json.dumps(plain.to_json()))) == plain
    with pytest.raises(InputError, match="damaged"):
        reading_of({"options": {"kind": "libero", "conventions": {}}}, Path("x.hdf5"))


@pytest.mark.parametrize(("length", "rows"), [(0, []), (1, [0]), (2, [0, 1]), (9, [0, 4, 8])])
def test_first_middle_and_last_rows_are_sampled(length: int, rows: list[int]) -> None:
    assert sampled(length) == rows


def test_a_noisy_pair_is_shrunk_until_it_fits() -> None:
    noise = np.random.default_rng(0).integers(0, 255, (240, 320, 3), np.uint8)
    data = frame_pair(noise, noise[::2, ::2])
    assert len(data) <= 30_000
    picture = Image.open(io.BytesIO(data))
    assert picture.size[0] > 2 * picture.size[1]
    assert frame_pair(noise, np.zeros((0, 0, 3), np.uint8)) == frame_pair(noise, np.zeros_like(noise))
    grey = frame_pair(noise[:40, :40, :1], noise[:40, :40])
    assert Image.open(io.BytesIO(grey)).mode == "RGB"


def test_the_stored_certificate_of_another_version_is_not_taken(tmp_path: Path) -> None:
    assert certify.stored(tmp_path / "x") is None
    (tmp_path / "x.certificate.json").write_text('{"version": 0}')
    assert certify.stored(tmp_path / "x") is None
    (tmp_path / "x.certificate.json").write_text("{")
    assert certify.stored(tmp_path / "x") is None
