"""The motion store of the Unitree G1: 50 Hz rows of poses, velocities and observations, one episode per clip.

Names, dtypes and widths are those of noeira's importer. What is not here: how rows are made
(`trajpipe.motion`), reading clips (`trajpipe.sources.lafan`), proof (`trajpipe.checks.store_lafan`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core import names
from trajpipe.core.episode import Episode, whole
from trajpipe.core.errors import InputError, SchemaError
from trajpipe.core.findings import Place
from trajpipe.demos.reader import DemosFile
from trajpipe.motion.g1 import HEAD_HEIGHT, TORSO, default_joint_pos, g1
from trajpipe.motion.observations import PRIVILEGED_WIDTH, STATE_WIDTH
from trajpipe.motion.rows import RATE, STEP, Clip, VirtualBody, motion_rows
from trajpipe.motion.skeleton import Skeleton
from trajpipe.motion.skeleton_mjcf import skeleton_of_file
from trajpipe.pipeline.store_plan import LafanOptions, StorePlan
from trajpipe.store import ColumnSpec, TrajectoryStoreWriter

_BODIES: Final = 31
_JOINTS: Final = 29
_F4: Final = np.dtype(np.float32)
WIDTHS: Final[Mapping[str, int]] = {
    names.COLUMN_QPOS: 7 + _JOINTS,
    names.COLUMN_QVEL: 6 + _JOINTS,
    names.COLUMN_STATE: STATE_WIDTH,
    names.COLUMN_PRIVILEGED: PRIVILEGED_WIDTH,
    names.COLUMN_BODY_POS: 3 * _BODIES,
    names.COLUMN_BODY_VEL: 3 * _BODIES,
    names.COLUMN_BODY_ANG_VEL: 3 * _BODIES,
    names.COLUMN_BODY_QUAT: 4 * _BODIES,
}


class LafanLayout:
    """Columns of a motion store.

    Attributes:
        env_id: The plan's, else `unitree_g1_lafan1_50hz`.
        tasks: Empty: a clip's name becomes a task when its episode comes.
        cap_attribute: Demo attribute that a cap per task counts by.
        rate: 50 rows per second, whatever the clips' own rates.
    """

    tasks: Sequence[str] = ()
    cap_attribute: str = names.ATTR_TASK
    rate: Fraction | None = Fraction(RATE)

    def __init__(self, plan: StorePlan, options: LafanOptions) -> None:
        """Read the model, and each L2 file's joint names and rate; no rows are read.

        Raises:
            InputError: the model is not there, of another form, or of another size than the store's.
        """
        self._plan, self._options = plan, options
        self.env_id = plan.env_id or names.LAFAN_ENV_ID
        self._skeleton = g1() if options.model is None else skeleton_of_file(options.model)
        _require_fits(self._skeleton)
        self._default = default_joint_pos(self._skeleton.joints)
        self._joints: dict[str, tuple[str, ...]] = {}
        self._fps: dict[str, float | None] = {}
        self._keys: list[str] = []
        clips = Counter[str]()
        for path in plan.inputs:
            with DemosFile(path) as demos:
                self._joints[path.name] = joint_names_of(demos.env_args, Place(path.name))
                self._fps[path.name] = None if demos.fps is None else float(demos.fps)
                clips.update(episode.source_demo for episode in demos.episodes())
        self._twice = {name for name, count in clips.items() if count > 1}

    def specs(self) -> Sequence[ColumnSpec]:
        """The columns, in order."""
        floats = [ColumnSpec(name, _F4, (width,)) for name, width in WIDTHS.items()]
        return [*floats, ColumnSpec(names.COLUMN_MOTION_ID, np.dtype(np.int32), ())]

    def append(self, writer: TrajectoryStoreWriter, episode: Episode, file: str) -> None:
        """Append all columns of a clip.

        Raises:
            SchemaError: a term is missing or of another width.
            InputError: fewer than 3 frames, or a joint of the model is not in the recording.
        """
        clip = self._clip(episode, Place(file, episode.name))
        rows = motion_rows(clip, self._skeleton, self._default, VirtualBody(TORSO, HEAD_HEIGHT))
        for name in WIDTHS:
            writer.append(name, rows[name])
        count = len(rows[names.COLUMN_QPOS])
        writer.append(names.COLUMN_MOTION_ID, np.full(count, len(self._keys), np.int32))
        writer.add_task(clip.name)
        self._keys.append(clip.name)

    def _clip(self, episode: Episode, place: Place) -> Clip:
        own = self._joints[place.file or ""]
        joint_pos = _term(episode, "obs/joint_pos", len(own), place)
        absent = [j for j in self._skeleton.joints if j not in own]
        if absent:
            got = ", ".join(absent[:5])
            raise InputError("the recording has every joint of the model", place=place, got=f"no {got}")
        rate = episode.attributes.get(names.ATTR_FPS, self._fps[place.file or ""])
        if not isinstance(rate, (int, float)) or not rate > 0:
            raise InputError("a clip has a rate", place=place, got=repr(rate), code="fps-unknown")
        name = episode.source_demo
        if name in self._twice:
            name = f"{episode.source_file}:{name}"
        return Clip(
            name,
            float(rate),
            _term(episode, "obs/root_pos", 3, place),
            _term(episode, "obs/root_quat", 4, place),
            joint_pos[:, [own.index(j) for j in self._skeleton.joints]],
        )

    @property
    def cameras(self) -> Sequence[str]:
        """A motion has none."""
        return ()

    def side_tables(self) -> Mapping[str, Any]:
        """Default joint angles, seconds per row, clip names."""
        return {
            names.SIDE_DEFAULT_DOF_POS: self._default,
            names.SIDE_ENV_DT: np.array([STEP], np.float64),
            names.SIDE_MOTION_KEY: list(self._keys),
        }

    def check_context(self) -> Mapping[str, Any]:
        """What the motion store's checks compare with; its rows are not L2's, so `l2` stays away."""
        model = self._options.model
        return {
            "lafan": {
                "l2": list(self._plan.inputs),
                "model": None if model is None else model.read_text("utf-8"),
                "demos_per_task": self._plan.demos_per_task,
            }
        }


def joint_names_of(env_args: Mapping[str, Any], place: Place) -> tuple[str, ...]:
    """Names of the columns of `obs/joint_pos`, as an L2 file of motions says.

    Raises:
        InputError: it does not.
    """
    kwargs = env_args.get("env_kwargs")
    found = kwargs.get("joint_names") if isinstance(kwargs, Mapping) else None
    if (
        not isinstance(found, list)
        or not all(isinstance(n, str) for n in found)
        or len(set(found)) != len(found)
    ):
        raise InputError(
            "a motion's L2 file names its joints",
            place=place,
            got="no list `env_kwargs: joint_names` in env_args",
            hint="Read the recording with kind lafan, or set `store: {layout: generic}`.",
            code="joints-unnamed",
        )
    return tuple(found)


def _require_fits(skeleton: Skeleton) -> None:
    if len(skeleton.bodies) != _BODIES - 1 or TORSO not in skeleton.bodies:
        raise InputError(
            "a motion store is of a robot with 30 bodies, one of them torso_link",
            place=skeleton.name,
            got=f"{len(skeleton.bodies)} bodies",
            code="bad-model",
        )


def _term(episode: Episode, path: str, width: int, place: Place) -> NDArray[np.float64]:
    """A term in float64, (T, width)."""
    where = Place(place.file, place.demo, path)
    if path not in episode.columns:
        raise SchemaError("a motion store needs this term", place=where, got="absent", code="term-missing")
    rows = whole(episode.columns[path])
    if rows.shape[1:] != (width,) or rows.dtype.kind != "f":
        got = f"{rows.dtype} {rows.shape[1:]}"
        raise SchemaError("the term has another form", place=where, got=got, expected=f"floats ({width},)")
    return rows.astype(np.float64, copy=False)
