"""Tests of the rules that compare an export with its L2 files: real files, one thing changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest

from trajpipe.checks import CheckResult, run_checks
from trajpipe.checks.lerobot_l2 import psnr, tiling
from trajpipe.core.episode import Episode
from trajpipe.core.findings import Place, Severity
from trajpipe.demos.reader import DemosFile
from trajpipe.demos.writer import DemosWriter
from trajpipe.export import export_lerobot
from trajpipe_tests.checks import lerobot_sets as sets
from trajpipe_tests.checks.lerobot_sets import edit_lines, edit_table, finding, result, with_column
from trajpipe_tests.export import scenes

CODE = "lerobot-equals-l2"
ROWS = "data/chunk-000/episode_000001.parquet"


@dataclass(frozen=True)
class Chain:
    """Two L2 files and their export."""

    l2: list[Path]
    l3: Path

    def result(self, code: str = CODE, **context: Any) -> CheckResult:
        """What a rule says."""
        return result(self.l3, code, l2=self.l2, **context)

    def finding(self, **context: Any) -> Any:
        """The first finding."""
        return finding(self.l3, CODE, l2=self.l2, **context)


def write_l2(path: Path, episodes: list[Episode]) -> Path:
    """An L2 file."""
    with DemosWriter(path, env_args={"env_name": "Lift"}, recipe={}) as writer:
        for episode in episodes:
            writer.write(episode)
    return path


def read_l2(paths: list[Path]) -> Iterator[Episode]:
    """Episodes of L2 files, each file open while its episodes are used."""
    for path in paths:
        with DemosFile(path) as demos:
            yield from demos.episodes()


def chain(root: Path, **options: Any) -> Chain:
    """Two scripted demos in one file, one teleoperated in another, exported."""
    files = [
        write_l2(
            root / "scripted_lift.hdf5",
            [scenes.episode(i, n, content_sha256="") for i, n in enumerate((30, 21))],
        ),
        write_l2(
            root / "teleop_lift.hdf5",
            [scenes.episode(2, 12, tag="teleop", source_file="teleop_lift.hdf5", alignment="after_action")],
        ),
    ]
    export_lerobot(read_l2(files), root / "l3", scenes.options(**options))
    return Chain(files, root / "l3")


@pytest.fixture
def good(tmp_path: Path) -> Chain:
    """A v2.1 chain."""
    return chain(tmp_path)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"version": "v2.0"},
        {"version": "v3.0"},
        {"state": ("joint_pos", "gripper")},
        {"version": "v3.0", "state": ("joint_pos", "gripper")},
        {"extras": {"next.reward": "rewards"}},
        {"codec": "av1"},
    ],
    ids=str,
)
def test_an_export_equals_its_l2(tmp_path: Path, options: dict[str, Any]) -> None:
    made = chain(tmp_path, **options)
    found = made.result(extras=options.get("extras"))
    assert [str(f) for f in found.findings] == []
    assert str(found.counted) == "checked 63 of 63 rows"
    assert found.measures["worst frame, dB"] > 30


def test_the_context_of_the_options_is_what_the_rule_needs(tmp_path: Path) -> None:
    options = scenes.options(extras={"next.reward": "rewards"}, state=("joint_pos",), version="v3.0")
    files = [write_l2(tmp_path / "a.hdf5", [scenes.episode(0, 9, source_file="a.hdf5")])]
    export_lerobot(read_l2(files), tmp_path / "l3", options)
    assert result(tmp_path / "l3", CODE, l2=files, **options.check_context()).passed


def test_one_bit_of_one_value(good: Chain) -> None:
    def flip(table: pa.Table) -> pa.Table:
        rows = np.stack(table["action"].to_pylist()).astype(np.float32)
        rows.view(np.uint32)[7, 2] ^= 1
        return with_column("action", pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), 7))(table)

    edit_table(sets.rows_of(good.l3, 1), flip)
    found = good.finding()
    assert found.message == "1 values differ from L2; the first in dimension 2"
    assert found.place == Place(ROWS, "episode 1", "action", 7)
    assert float(found.got) == pytest.approx(float(found.expected), rel=1e-6)
    assert found.got != found.expected


def test_an_extra_feature_is_compared_when_it_is_declared(tmp_path: Path) -> None:
    made = chain(tmp_path, extras={"next.reward": "rewards"})
    edit_table(sets.rows_of(made.l3, 1), with_column("next.reward", np.zeros(21)))
    assert made.result().passed
    found = made.finding(extras={"next.reward": "rewards"})
    assert (found.place.column, found.place.row) == ("next.reward", 1)


def test_terms_in_another_order_are_found(good: Chain) -> None:
    found = good.finding(state=("joint_pos", "gripper"))
    assert found.place.column == "observation.state"


def test_a_term_that_l2_lacks(good: Chain) -> None:
    found = good.finding(state=("joint_vel",))
    assert (found.message, found.got) == ("L2 has no such term", "obs/joint_vel")


def test_frames_of_another_episode(good: Chain) -> None:
    sets.video_of(good.l3, 1).write_bytes(sets.video_of(good.l3, 0).read_bytes())
    found = good.finding()
    assert (found.message, found.expected) == ("the frame differs from L2's", "≥ 30 dB")
    assert found.place.demo == "episode 1"


def test_frames_that_are_upside_down(tmp_path: Path) -> None:
    made = chain(tmp_path)
    with h5py.File(made.l2[0], "r+") as file:
        for demo in file["data"]:
            frames = file["data"][demo]["obs/front"]
            frames[...] = frames[...][:, ::-1]
    found = made.finding()
    assert found.message == "the frame differs from L2's"


def test_the_bound_can_be_raised(good: Chain) -> None:
    assert not good.result(psnr=80.0).passed


def test_an_episode_that_no_demo_is_the_origin_of(good: Chain) -> None:
    edit_lines(good.l3 / "meta/episodes.jsonl", lambda rows: rows[2].update(source_demo="demo_9"))
    messages = [f.message for f in good.result().findings]
    assert messages == ["no L2 demo has this source and content", "an L2 demo is missing in the export"]


def test_a_demo_left_out_is_an_error_unless_it_was_not_successful(tmp_path: Path) -> None:
    some = [
        scenes.episode(0, 9, source_file="a.hdf5"),
        scenes.episode(1, 9, source_file="a.hdf5", success=False),
    ]
    files = [write_l2(tmp_path / "a.hdf5", some)]
    export_lerobot(read_l2(files), tmp_path / "l3", scenes.options(successful_only=True))
    made = Chain(files, tmp_path / "l3")
    assert made.finding().message == "an L2 demo is missing in the export"
    assert made.result(successful_only=True).passed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.update(source="rl"), "source is L2's"),
        (lambda r: r.update(success=False), "success is L2's"),
        (lambda r: r.update(tasks=["pick up the cube "]), "the task is L2's, byte for byte"),
    ],
)
def test_a_fact_that_is_not_l2s(good: Chain, change: Callable[[dict[str, Any]], None], message: str) -> None:
    edit_lines(good.l3 / "meta/episodes.jsonl", lambda rows: change(rows[0]))
    found = good.finding()
    assert (found.message, found.place.demo) == (message, "episode 0")


def test_terms_that_cannot_be_told(tmp_path: Path) -> None:
    made = chain(tmp_path, names={"joint_pos": tuple("abcdefghi")}, version="v3.0")
    assert "cannot be told from its names" in made.finding().message
    assert made.result(state=("gripper", "joint_pos")).passed


JOINTS = tuple("abcdefghi")


@pytest.mark.parametrize("version", ["v2.0", "v2.1", "v3.0"])
def test_declared_names_tell_the_terms(tmp_path: Path, version: str) -> None:
    options = scenes.options(names={"joint_pos": JOINTS}, version=version)
    made = chain(tmp_path, names={"joint_pos": JOINTS}, version=version)
    found = made.result(**options.check_context())
    assert (found.passed, str(found.counted)) == (True, "checked 63 of 63 rows")
    with h5py.File(made.l2[0], "r+") as file:
        file["data/demo_0/obs/joint_pos"][4, 2] += 1
    said = made.finding(**options.check_context())
    assert (said.place.column, said.place.row) == ("observation.state", 4)


@pytest.mark.parametrize(
    ("wanted", "labels", "terms"),
    [
        ("xyxy", {"pos": ["x", "y"], "vel": ["x", "y"]}, ["pos", "vel"]),
        ("xyz", {"pair": ["x", "y"], "three": ["x", "y", "z"]}, ["three"]),
        ("abc", {"a": ["a"], "ab": ["a", "b"], "bc": ["b", "c"]}, ["a", "bc"]),
        ("abc", {"a": ["a"], "none": [], "c": ["c"]}, []),
    ],
    ids=["each term once", "a longer term", "the first that fits may be wrong", "none"],
)
def test_terms_by_their_labels(wanted: str, labels: dict[str, list[str]], terms: list[str]) -> None:
    assert tiling(list(wanted), labels) == terms


def test_without_l2_the_rules_are_skipped_and_say_so(good: Chain) -> None:
    report = run_checks("lerobot", good.l3, select=[CODE])
    assert report.skipped == {CODE: "needs l2"}


def test_mixed_and_late_alignments_are_warned_of(good: Chain) -> None:
    found = good.result("lerobot-alignment")
    assert found.passed
    assert [(f.severity, f.got) for f in found.findings] == [
        (Severity.WARN, "1 of 3 demos after_action"),
        (Severity.WARN, "unknown: 2, after_action: 1"),
    ]


def test_observations_before_actions_need_no_warning(tmp_path: Path) -> None:
    files = [write_l2(tmp_path / "a.hdf5", [scenes.episode(0, 9, alignment="before_action")])]
    export_lerobot(read_l2(files), tmp_path / "l3", scenes.options())
    assert Chain(files, tmp_path / "l3").result("lerobot-alignment").findings.kept == []


def test_psnr_of_known_frames() -> None:
    grey = np.full((4, 4, 1), 100, np.uint8)
    assert psnr(np.full((4, 4, 3), 100, np.uint8), grey) == float("inf")
    assert psnr(np.full((4, 4, 3), 110, np.uint8), grey) == pytest.approx(28.13, abs=0.01)
    assert psnr(np.zeros((2, 2, 3), np.uint8), grey) == 0
