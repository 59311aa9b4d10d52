"""Pictures of an output of any stage: gathers a small sample and has it drawn.

    for picture in pictures_of(Stage.DEMOS, path, ledger=ledger):
        picture.name, picture.caption, picture.data_uri, picture.markdown

In this order, each left out where it has nothing to show: rejection funnel, episode lengths, contact
sheet, action distribution, state distribution, joint plots, action lag; of a motion store also its own
three. Each is at most 30 kB; all together take about 0.2 s for a small recording, whatever the size of
the output up to thousands of episodes.
What is not here: what is sampled (`sampling`), drawing (`trajpipe.report`), where pictures are shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core.conventions import ActionConvention
from trajpipe.core.ledger import Ledger
from trajpipe.core.names import Stage
from trajpipe.pipeline.catalogue import DatasetConfig
from trajpipe.pipeline.sampling import Sample, of_episodes, sample, spread
from trajpipe.pipeline.sampling_stages import declared_action, first_store, opened
from trajpipe.report.contact_sheet import SheetRow, contact_sheet
from trajpipe.report.distributions import distribution
from trajpipe.report.funnel import funnel
from trajpipe.report.lag import lag_curve, lag_plot
from trajpipe.report.lengths import episode_lengths
from trajpipe.report.motion import motion_pictures
from trajpipe.report.picture import Picture
from trajpipe.report.trajectories import Curve, trajectories

ACTIONS: Final = "action distribution"
STATES: Final = "state distribution"
JOINTS: Final = "joint plots"
JOINT_EPISODES: Final = 4
# The first of these words that the name of a dimension contains makes the joints.
_JOINTS: Final = ("joint_pos", "joint_states", "joint_qpos", "qpos", "joint")
_NOT_JOINTS: Final = ("gripper", "vel")


def pictures_of(
    stage: Stage, path: Path, *, ledger: Ledger | None = None, action: ActionConvention | None = None
) -> tuple[Picture, ...]:
    """The pictures of an output.

    Args:
        stage: `demos`, `store` or `lerobot`.
        path: The output; of a folder of stores the first is drawn.
        ledger: For the funnel; None leaves it out.
        action: What is declared of the actions; None = what an L2 file itself says.

    Raises:
        TrajpipeError: the output cannot be read.
    """
    if action is None:
        action = declared_action(path) if stage is Stage.DEMOS else ActionConvention()
    with opened(stage, path) as episodes:
        drawn = sample_pictures(sample(episodes), action)
    first = [] if ledger is None else [funnel(ledger)]
    motions = []
    if stage is Stage.STORE:
        found = motion_pictures(first_store(path))
        motions = [
            Picture(name, data, f"of the store {first_store(path).name}") for name, data in found.items()
        ]
    return tuple(p for p in (*first, *drawn, *motions) if p is not None)


def action_of(dataset: DatasetConfig) -> ActionConvention | None:
    """What all raw entries of a dataset declare of their actions; None where they differ or say nothing."""
    declared = {entry.conventions.action.to_convention() for entry in dataset.raw} - {ActionConvention()}
    return declared.pop() if len(declared) == 1 else None


def sample_pictures(taken: Sample, action: ActionConvention) -> list[Picture | None]:
    """The pictures of a sample; None for each that has nothing to show."""
    lengths = episode_lengths(taken.lengths, taken.fps)
    if not taken.rows:
        return [lengths]
    frames = [SheetRow(one.label, one.frames) for one in taken.frames]
    of_frames = of_episodes(len(frames), len(taken.lengths))
    of_frames += f"; {taken.unreadable:,} frames cannot be decoded" if taken.unreadable else ""
    actions = np.concatenate([one.action for one in taken.rows])
    states = np.concatenate([one.state for one in taken.rows])
    left_out = f"; left out: {', '.join(taken.left_out)}" if taken.left_out else ""
    left_out += f"; not in every episode: {', '.join(taken.lacking)}" if taken.lacking else ""
    return [
        lengths,
        contact_sheet(frames, taken.frame_headers, of_frames),
        distribution(
            ACTIONS, actions, taken.action_labels, taken.of_rows, declared=_declared(action, actions)
        ),
        distribution(STATES, states, taken.state_labels, taken.of_rows + left_out),
        _joint_plots(taken),
        _lag(taken, action),
    ]


def _declared(action: ActionConvention, values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Both bounds, when both are declared and fit the width."""
    if action.low is None or action.high is None:
        return None
    if not {len(action.low), len(action.high)} <= {1, values.shape[1]}:
        return None
    return np.array(action.low), np.array(action.high)


def _joint_plots(taken: Sample) -> Picture | None:
    """The joints of a few episodes over time; all states where none is called a joint."""
    part = joints_of(taken.state_labels)
    chosen = [taken.rows[i] for i in spread(len(taken.rows), JOINT_EPISODES)]
    curves = [Curve(one.label, one.state[:, part], one.start) for one in chosen]
    names = [taken.state_labels[i] for i in part]
    caption = of_episodes(len(curves), len(taken.lengths))
    if any(one.start for one in chosen):
        caption += f"; of longer ones the middle {max(len(one.state) for one in chosen):,} rows"
    return trajectories(JOINTS, curves, names, caption, step_s=1 / taken.fps if taken.fps else None)


def joints_of(labels: Sequence[str]) -> list[int]:
    """Which dimensions are joint positions, by their names; all of them when none is."""
    for word in _JOINTS:
        found = [i for i, n in enumerate(labels) if word in n and not any(w in n for w in _NOT_JOINTS)]
        if found:
            return found
    return list(range(len(labels)))


def _lag(taken: Sample, action: ActionConvention) -> Picture | None:
    """Actions against states; an observation of the last action is no state."""
    part = [i for i, name in enumerate(taken.state_labels) if "action" not in name]
    states = [one.state[:, part] for one in taken.rows]
    curve = lag_curve([one.action for one in taken.rows], states, action.meaning)
    names = [taken.state_labels[i] for i in part]
    return None if curve is None else lag_plot(curve, taken.action_labels, names, taken.of_rows)
