"""LIBERO demonstrations: `<task>_demo.hdf5` as LIBERO's `create_dataset` writes them.

Images are bottom row first (opengl), obs[t] follows actions[t], states are (time, qpos, qvel), 20 Hz; rewards
and dones end in 1 whatever happened, so they are no evidence of success.
What is not here: remapping states into another scene's joint order; raw teleoperation files (`robosuite`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Final

import numpy as np

from trajpipe.core import names
from trajpipe.core.episode import ArrayColumn, Column
from trajpipe.core.errors import InputError, SchemaError
from trajpipe.core.findings import Finding
from trajpipe.sources.base import ReadOptions, register
from trajpipe.sources.demo_columns import DemoColumns
from trajpipe.sources.demo_source import DemoSource, Streams
from trajpipe.sources.detection import LIBERO
from trajpipe.sources.reading import Defaults, Reading
from trajpipe.sources.recorded_attributes import KeptAttributes, language_of
from trajpipe.sources.recording import Recording, numbering_gaps

_INIT_STATE: Final = "init_state"
INIT_STATE_PATH: Final = "initial_state/libero/init_state"
_JOINTS: Final = "obs/joint_states"


class LiberoSource(DemoSource):
    """LIBERO: what the format fixes is fixed here, none of it is the user's chore."""

    kind = LIBERO
    title = "LIBERO demonstrations (<task>_demo.hdf5)"
    globs = ("*_demo.hdf5", "*.hdf5")
    default_fps: ClassVar[int | None] = 20

    def task_name(self, path: Path) -> str | None:
        """The file name without `_demo`: one recording is one task."""
        return path.stem.removesuffix("_demo")

    def defaults(self, _recording: Recording, _options: ReadOptions, /) -> Defaults:
        """Bottom row first, obs after the action."""
        return Defaults(images="opengl", alignment=names.Alignment.AFTER_ACTION)

    def check_recording(self, recording: Recording, options: ReadOptions, /) -> list[Finding]:
        """Gaps in the numbering are an error: the writer leaves none, so demos were lost.

        Raises:
            InputError: `numbering-gaps`, unless the option `allow_gaps` is true; `problem-info`, which holds
                the task's text, is damaged.
        """
        language_of(recording.data)
        gap = numbering_gaps(recording, 0)
        if gap is None:
            return []
        if options.options.get("allow_gaps") is True:
            return [gap]
        raise InputError(
            "demos of a LIBERO file are numbered without gaps",
            place=gap.place,
            got=gap.got,
            expected=gap.expected,
            hint="Fetch the file again, or add `options: {allow_gaps: true}` to the raw entry "
            "(--option allow_gaps=true).",
            code="numbering-gaps",
        )

    def check_demo(self, reading: Reading, name: str, columns: DemoColumns) -> None:
        """Every row of `states` is as wide as the recorded initial state.

        Raises:
            SchemaError: it is not (`bad-episode`).
        """
        states = columns.columns.get("states")
        recorded = reading.recording.demo(name).attrs.get(_INIT_STATE)
        if states is None or recorded is None:
            return
        width, expected = int(np.prod(states.shape[1:])), int(np.size(recorded))
        if len(states.shape) != 2 or width != expected:
            raise SchemaError(
                "a row of states is as wide as init_state",
                place=reading.recording.place(name, "states"),
                got=f"{width} values",
                expected=f"{expected} values",
                code=names.Reason.BAD_EPISODE.value,
            )

    def streams(self, columns: Mapping[str, Column], /) -> Streams | None:
        """Joint positions: `joint_states[t] == states[t+1][1:8]`, exactly."""
        obs, states = columns.get(_JOINTS), columns.get("states")
        if obs is None or states is None or len(states.shape) != 2 or len(obs.shape) != 2:
            return None
        width = obs.shape[1]
        if states.shape[1] <= width:
            return None
        return Streams(_JOINTS, "states", slice(1, 1 + width), states_follow=False)

    def adjust_attributes(self, _reading: Reading, _name: str, /, kept: KeptAttributes) -> None:
        """`init_state` becomes a dataset with one row, the way IsaacLab keeps initial states."""
        state = kept.values.pop(_INIT_STATE, None)
        if state is not None:
            kept.extras[INIT_STATE_PATH] = ArrayColumn(np.asarray(state)[np.newaxis])


register(LiberoSource())
