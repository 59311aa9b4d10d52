"""The sample that pictures are drawn from, at every stage, against the files themselves.

What is not here: drawing, see `trajpipe_tests.report`.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from PIL import Image

from trajpipe.core.conventions import ActionConvention
from trajpipe.core.episode import ArrayColumn, Column, FunctionColumn
from trajpipe.core.errors import TrajpipeError
from trajpipe.core.ledger import Ledger
from trajpipe.core.names import Stage
from trajpipe.pipeline.convert import ConvertOptions, convert
from trajpipe.pipeline.pictures import action_of, joints_of, pictures_of, sample_pictures
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.results import StageResult
from trajpipe.pipeline.sampling import (
    MAX_EPISODES,
    MAX_ROWS,
    MAX_VALUES,
    MAX_WIDTH,
    SHEET_EPISODES,
    labels,
    sample,
    spread,
)
from trajpipe.pipeline.sampling_stages import declared_action, first_store, opened
from trajpipe.report.picture import MAX_BYTES
from trajpipe.store import ColumnSpec, TrajectoryStoreWriter
from trajpipe.testing import write_recording

STAGES = (Stage.DEMOS, Stage.STORE, Stage.LEROBOT)
PICTURES = (
    "episode lengths",
    "contact sheet",
    "action distribution",
    "state distribution",
    "joint plots",
    "action lag",
)


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Mapping[Stage, StageResult]:
    """One recording at every stage."""
    folder = tmp_path_factory.mktemp("chain")
    raw = write_recording(
        "isaaclab", folder / "take.hdf5", episodes=7, rows=(30, 40), image_size=64, cameras=("table_cam",)
    )
    targets = {
        Stage.DEMOS: ("o.hdf5", "demos"),
        Stage.STORE: ("o.h5", "store"),
        Stage.LEROBOT: ("o_lerobot", "lerobot-v2.1"),
    }
    made = {
        stage: convert([raw], folder / name, to, ConvertOptions())[-1]
        for stage, (name, to) in targets.items()
    }
    assert all(result.ok for result in made.values())
    return made


@dataclass
class Rows:
    """An episode set in memory that notes what is read of it.

    Attributes:
        lengths: int64 (E,)
        state: Values of a row of the state.
        fps: Rows per second.
        action: Column name.
        cameras: Names of cameras.
        asked: Episodes whose columns were asked for.
        read: Longest slab read of a column.
    """

    lengths: NDArray[np.int64]
    state: int = 3
    fps: float | None = 20.0
    action: str = "actions"
    cameras: Sequence[str] = ()
    asked: list[int] = field(default_factory=list)
    read: int = 0

    def label(self, episode: int) -> str:
        return f"demo_{episode}"

    def columns(self, episode: int) -> Mapping[str, Column]:
        self.asked.append(episode)
        count = int(self.lengths[episode])

        def rows(start: int, stop: int) -> NDArray[np.float32]:
            self.read = max(self.read, stop - start)
            return np.repeat(np.arange(start, stop, dtype=np.float32)[:, None], self.state, axis=1)

        def frames(start: int, stop: int) -> NDArray[np.uint8]:
            return np.stack([np.full((8, 8, 3), t % 256, np.uint8) for t in range(start, stop)])

        kind = np.dtype(np.uint8)
        return {
            self.action: ArrayColumn(np.full((count, 2), float(episode))),
            "obs/joint_pos": FunctionColumn(np.dtype(np.float32), (count, self.state), rows),
            "obs/step": ArrayColumn(np.arange(count)),
            "obs/scan": ArrayColumn(np.zeros((count, MAX_WIDTH + 1))),
            **{c: FunctionColumn(kind, (count, 8, 8, 3), frames) for c in self.cameras},
        }

    def dimensions(self, column: str, width: int) -> Sequence[str]:
        return labels(column, width)


# --- what is sampled


def test_columns_that_differ_between_episodes_are_gaps_and_are_named() -> None:
    class Uneven(Rows):
        def columns(self, episode: int) -> Mapping[str, Column]:
            found = dict(super().columns(episode))
            count = int(self.lengths[episode])
            if episode == 1:
                del found["obs/joint_pos"]
            if episode == 2:
                found["obs/joint_pos"] = ArrayColumn(np.zeros((count, 9), np.float32))
                del found[self.action]
            return found

    taken = sample(Uneven(np.array([30, 30, 30])))
    assert [one.state.shape for one in taken.rows] == [(30, 3)] * 3
    assert [one.action.shape for one in taken.rows] == [(30, 2)] * 3
    assert [bool(np.isnan(one.state).all()) for one in taken.rows] == [False, True, True]
    assert [bool(np.isnan(one.action).all()) for one in taken.rows] == [False, False, True]
    assert taken.lacking == ("actions", "obs/joint_pos")
    drawn = {p.name: p for p in sample_pictures(taken, ActionConvention()) if p is not None}
    assert "not in every episode: actions, obs/joint_pos" in drawn["state distribution"].caption


def test_one_episode_is_one_episode() -> None:
    taken = sample(Rows(np.array([40])))
    assert taken.of_rows.startswith("1 of 1 episode, ")


def test_joint_plots_say_that_they_show_the_middle_of_long_episodes() -> None:
    long, short = (
        {p.name: p for p in sample_pictures(sample(Rows(np.array([n, 40]))), ActionConvention()) if p}
        for n in (MAX_ROWS * 5, 50)
    )
    assert f"of longer ones the middle {MAX_ROWS:,} rows" in long["joint plots"].caption
    assert "middle" not in short["joint plots"].caption


def test_the_spread_has_both_ends_and_no_more_than_asked() -> None:
    assert spread(500, 3) == [0, 250, 499] or spread(500, 3) == [0, 249, 499]
    assert spread(3, 40) == [0, 1, 2]
    assert spread(1, 40) == [0]
    for count in (2, 39, 40, 41, 1000):
        chosen = spread(count, MAX_EPISODES)
        assert (chosen[0], chosen[-1], len(chosen)) == (0, count - 1, min(count, MAX_EPISODES))


def test_a_large_set_is_read_at_a_bounded_number_of_places() -> None:
    episodes = Rows(np.full(5000, 3000), cameras=("obs/cam",))
    taken = sample(episodes)
    assert len(taken.lengths) == 5000
    assert len(set(episodes.asked)) <= MAX_EPISODES + SHEET_EPISODES
    assert episodes.read == MAX_ROWS
    assert taken.of_rows == f"{len(taken.rows)} of 5,000 episodes, {len(taken.rows)},000 of 15,000,000 rows"


def test_a_long_episode_gives_its_middle_rows() -> None:
    taken = sample(Rows(np.array([3000])))
    assert (taken.rows[0].start, len(taken.rows[0].state)) == (1000, MAX_ROWS)
    assert taken.rows[0].state[0].tolist() == [1000.0] * 3


def test_wide_rows_are_fewer_and_very_wide_columns_are_left_out_by_name() -> None:
    taken = sample(Rows(np.array([3000, 10]), state=MAX_WIDTH))
    values = sum(one.state.size + one.action.size for one in taken.rows)
    assert values <= MAX_VALUES
    assert taken.left_out == ("obs/scan",)
    assert taken.state_labels[:2] == ("joint_pos[0]", "joint_pos[1]")
    assert len(taken.state_labels) == MAX_WIDTH  # counters are no states


def test_frames_are_the_first_middle_and_last_of_each_camera() -> None:
    taken = sample(Rows(np.array([101, 51]), cameras=("obs/b", "obs/a")))
    assert taken.frame_headers == ("a first", "a middle", "a last", "b first", "b middle", "b last")
    values = [[int(f[0, 0, 0]) for f in one.frames if f is not None] for one in taken.frames]
    assert values == [[0, 50, 100] * 2, [0, 25, 50] * 2]


def test_many_cameras_show_their_middle_frame_each() -> None:
    taken = sample(Rows(np.array([9]), cameras=[f"obs/c{i}" for i in range(8)]))
    assert taken.frame_headers == tuple(f"c{i} middle" for i in range(6))


def test_no_episodes_give_no_pictures() -> None:
    taken = sample(Rows(np.array([], np.int64)))
    assert taken.rows == []
    assert sample_pictures(taken, ActionConvention()) == [None]


# --- the stages' own forms


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_gives_the_same_sample(chain: Mapping[Stage, StageResult], stage: Stage) -> None:
    with opened(Stage.DEMOS, chain[Stage.DEMOS].path) as file:
        expected = sample(file)
    with opened(stage, chain[stage].path) as file:
        taken = sample(file)
    assert taken.lengths.tolist() == expected.lengths.tolist()
    assert taken.fps == expected.fps == 20.0
    for mine, theirs in zip(taken.rows, expected.rows, strict=True):
        assert np.array_equal(mine.action, theirs.action)
    names = {name.replace("[", "_").replace("]", "") for name in taken.state_labels}
    assert "joint_pos_0" in names
    assert [h.split()[-1] for h in taken.frame_headers] == ["first", "middle", "last"]
    for mine_frames, their_frames in zip(taken.frames, expected.frames, strict=True):
        for a, b in zip(mine_frames.frames, their_frames.frames, strict=True):
            assert a is not None
            assert b is not None
            assert a.shape == b.shape
            # video is lossy, and small; upside down, swapped channels or another row would differ by more
            assert np.abs(a.astype(int) - b).mean() < (8 if stage is Stage.LEROBOT else 1e-9)


def test_l2_rows_are_the_files(chain: Mapping[Stage, StageResult]) -> None:
    path = chain[Stage.DEMOS].path
    with opened(Stage.DEMOS, path) as file:
        taken = sample(file)
    with h5py.File(path) as file:
        at = 0
        for name in sorted(
            n for n in file["data/demo_3/obs"] if file[f"data/demo_3/obs/{n}"].dtype.kind == "f"
        ):
            values = file[f"data/demo_3/obs/{name}"][()].astype(np.float32)
            assert np.array_equal(taken.rows[3].state[:, at : at + values.shape[1]], values), name
            at += values.shape[1]
    assert at == len(taken.state_labels)


def test_lerobot_rows_are_the_files_and_bear_its_names(chain: Mapping[Stage, StageResult]) -> None:
    folder = chain[Stage.LEROBOT].path
    with opened(Stage.LEROBOT, folder) as file:
        taken = sample(file)
    rows = pq.read_table(folder / "data/chunk-000/episode_000003.parquet")["observation.state"].to_pylist()
    assert np.array_equal(taken.rows[3].state, np.array(rows, np.float32))
    assert taken.action_labels[0] == "action_0"


def test_lerobot_v3_gives_the_rows_of_v21(chain: Mapping[Stage, StageResult], tmp_path: Path) -> None:
    made = convert([chain[Stage.DEMOS].path], tmp_path / "v3", "lerobot-v3.0", ConvertOptions())[-1]
    assert made.ok
    samples = []
    for path in (made.path, chain[Stage.LEROBOT].path):
        with opened(Stage.LEROBOT, path) as file:
            samples.append(sample(file))
    for a, b in zip(samples[0].rows, samples[1].rows, strict=True):
        assert np.array_equal(a.state, b.state)
    for one, other in zip(samples[0].frames, samples[1].frames, strict=True):
        for mine, theirs in zip(one.frames, other.frames, strict=True):
            assert mine is not None
            assert theirs is not None
            assert np.abs(mine.astype(int) - theirs).mean() < 8


def test_a_video_that_cannot_be_decoded_leaves_gaps_and_the_other_pictures(
    chain: Mapping[Stage, StageResult], tmp_path: Path
) -> None:
    folder = shutil.copytree(chain[Stage.LEROBOT].path, tmp_path / "set")
    videos = sorted(folder.rglob("*.mp4"))
    videos[0].write_bytes(b"no video")
    videos[-1].unlink()
    captions = {p.name: p.caption for p in pictures_of(Stage.LEROBOT, folder)}
    assert tuple(captions) == PICTURES
    assert captions["contact sheet"] == "6 of 7 episodes; 6 frames cannot be decoded"
    with opened(Stage.LEROBOT, folder) as file:
        taken = sample(file)
    assert [all(f is None for f in one.frames) for one in taken.frames] == [True, *[False] * 4, True]


def test_a_camera_that_is_declared_without_files_takes_no_room(
    chain: Mapping[Stage, StageResult], tmp_path: Path
) -> None:
    folder = shutil.copytree(chain[Stage.LEROBOT].path, tmp_path / "set")
    for video in folder.rglob("*.mp4"):
        video.unlink()
    captions = {p.name: p.caption for p in pictures_of(Stage.LEROBOT, folder)}
    assert tuple(captions) == tuple(name for name in PICTURES if name != "contact sheet")


# --- the pictures


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_has_its_pictures_the_same_each_time(
    chain: Mapping[Stage, StageResult], stage: Stage
) -> None:
    result = chain[stage]
    pictures = pictures_of(stage, result.path, ledger=result.ledger)
    assert tuple(p.name for p in pictures) == ("rejection funnel", *PICTURES)
    for picture in pictures:
        assert len(picture.data) <= MAX_BYTES
        with Image.open(io.BytesIO(picture.data)) as image:
            assert Image.MIME[image.format or ""] == picture.media_type
            assert np.asarray(image.convert("L")).std() > 5
    assert pictures_of(stage, result.path, ledger=result.ledger) == pictures
    captions = {p.name: p.caption for p in pictures}
    assert captions["contact sheet"] == "6 of 7 episodes"
    rows = int(result.facts["rows"])
    assert captions["action distribution"] == f"7 of 7 episodes, {rows} of {rows} rows"
    assert captions["action lag"].startswith("lag +1 ")


def test_the_declared_range_is_that_of_the_recipe(tmp_path: Path) -> None:
    raw = write_recording("isaaclab", tmp_path / "take.hdf5", episodes=1, rows=(30, 30), cameras=())
    assert pictures_of(Stage.DEMOS, made_with(raw, None))[1].caption.endswith("rows")
    narrow = ActionConvention(meaning="absolute", low=(-0.01,), high=(0.01,))
    path = made_with(raw, narrow)
    assert declared_action(path) == narrow
    caption = pictures_of(Stage.DEMOS, path)[1].caption
    with h5py.File(path) as file:
        actions = file["data/demo_0/actions"][()]
    outside = int((np.abs(actions) > 0.01 + 2e-8).sum())
    assert outside > 0
    assert caption.endswith(f"declared range shaded, {outside} values outside")


def made_with(raw: Path, action: ActionConvention | None) -> Path:
    """An L2 file whose recipe declares something of the actions."""
    from trajpipe.core.conventions import Conventions
    from trajpipe.pipeline.ingest import IngestPlan, ingest

    name = "plain" if action is None else "declared"
    conventions = Conventions() if action is None else Conventions(action=action)
    target = raw.with_name(f"{name}.hdf5")
    assert ingest(IngestPlan("lift", "take", raw, "isaaclab", target, conventions)).ok
    return target


def test_bounds_that_do_not_fit_the_width_are_not_drawn() -> None:
    taken = sample(Rows(np.array([30])))
    wrong = ActionConvention(low=(-1.0,) * 5, high=(1.0,) * 5)
    fitting = ActionConvention(low=(-1.0,), high=(1.0, 2.0))
    captions = [
        next(p.caption for p in sample_pictures(taken, a) if p and p.name == "action distribution")
        for a in (wrong, fitting, ActionConvention(low=(-1.0,)))
    ]
    assert ["declared" in caption for caption in captions] == [False, True, False]


def test_a_dataset_declares_an_action_when_its_entries_agree(tmp_path: Path) -> None:
    def declared(*actions: str) -> ActionConvention | None:
        entries = [f"{{glob: r{i}/*.hdf5, conventions: {{action: {a}}}}}" for i, a in enumerate(actions)]
        text = f"version: 1\ndatasets:\n  lift:\n    raw: [{', '.join(entries)}]\n"
        (tmp_path / "datasets.yaml").write_text(text)
        return action_of(Project.open(tmp_path / "datasets.yaml").dataset("lift"))

    assert declared("{low: [-1], high: [1]}") == ActionConvention(low=(-1.0,), high=(1.0,))
    assert declared("{low: [-1], high: [1]}", "{low: [-1], high: [1]}") == declared("{low: [-1], high: [1]}")
    assert declared("{}") is None


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["eef_pos[0]", "joint_pos[0]", "joint_vel[0]", "joint_pos[1]"], [1, 3]),
        (["robot0_gripper_qpos[0]", "robot0_joint_pos[0]"], [1]),
        (["robot0_gripper_qpos[0]", "object[0]"], [0, 1]),
        (["qpos[0]", "qvel[0]"], [0]),
        (["gripper_states[0]", "joint_states[1]"], [1]),
        ([], []),
    ],
)
def test_joints_are_found_by_their_names(names: list[str], expected: list[int]) -> None:
    assert joints_of(names) == expected


def test_an_observation_of_the_last_action_is_no_state_of_the_lag(
    chain: Mapping[Stage, StageResult],
) -> None:
    with opened(Stage.DEMOS, chain[Stage.DEMOS].path) as file:
        taken = sample(file)
    assert any(name.startswith("actions[") for name in taken.state_labels)
    caption = pictures_of(Stage.DEMOS, chain[Stage.DEMOS].path)[-1].caption
    only = sample_pictures(taken, ActionConvention())[-1]
    assert only is not None
    assert only.caption == caption
    assert "of 8 telling" not in caption


def test_a_recording_without_obs_shows_its_states(tmp_path: Path) -> None:
    raw = write_recording("robosuite", tmp_path / "demo.hdf5", episodes=2, rows=(30, 30))
    made = convert([raw], tmp_path / "o.hdf5", "demos", ConvertOptions())[-1]
    captions = {p.name: p for p in pictures_of(Stage.DEMOS, made.path)}
    assert "state distribution" in captions
    assert "contact sheet" not in captions


def test_of_a_folder_of_stores_the_first_is_drawn(chain: Mapping[Stage, StageResult], tmp_path: Path) -> None:
    for name in ("b.h5", "a.h5"):
        (tmp_path / name).write_bytes(chain[Stage.STORE].path.read_bytes())
    assert first_store(tmp_path) == tmp_path / "a.h5"
    assert pictures_of(Stage.STORE, tmp_path) == pictures_of(Stage.STORE, chain[Stage.STORE].path)


def test_what_cannot_be_read_is_an_error_with_a_place(tmp_path: Path) -> None:
    (tmp_path / "broken.hdf5").write_bytes(b"not HDF5")
    for stage in (Stage.DEMOS, Stage.STORE):
        with pytest.raises(TrajpipeError, match="broken"):
            pictures_of(stage, tmp_path / "broken.hdf5", ledger=Ledger())
    with pytest.raises(TrajpipeError):
        pictures_of(Stage.LEROBOT, tmp_path)


def test_a_motion_store_has_no_actions_and_lacks_none(tmp_path: Path) -> None:
    with TrajectoryStoreWriter(tmp_path / "m.h5", [ColumnSpec("qpos", np.float32, (3,))]) as writer:
        writer.append("qpos", np.zeros((4, 3), np.float32))
        writer.end_episode()
    with opened(Stage.STORE, tmp_path / "m.h5") as episodes:
        taken = sample(episodes)
    assert (taken.lacking, taken.action_labels) == ((), ())
    assert taken.state_labels == ("qpos[0]", "qpos[1]", "qpos[2]")
