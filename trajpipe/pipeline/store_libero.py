"""The store of a LIBERO suite: action, state in the target's joint order, proprioception, qpos, images.

Names, dtypes and widths are those of noeira's importer. What is not here: reading LIBERO's raw
files (`trajpipe.sources.libero`), joint tables (`trajpipe.mjcf`), proof (`trajpipe.checks.store_libero`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core import jsontext, names
from trajpipe.core.ahead import ahead
from trajpipe.core.episode import Column, Episode, whole, whole_chunks
from trajpipe.core.errors import InputError, SchemaError
from trajpipe.core.findings import Place
from trajpipe.core.order import natural_sorted
from trajpipe.demos.reader import DemosFile
from trajpipe.mjcf.document import parse
from trajpipe.mjcf.joints import JointTable, joint_table, placed
from trajpipe.mjcf.poses import Fixture, fixtures
from trajpipe.mjcf.remap import JointRemap, remap, robot_fixtures_objects, same_table
from trajpipe.pipeline.store_columns import stacked
from trajpipe.pipeline.store_plan import LiberoOptions, StorePlan
from trajpipe.store import ColumnSpec, TrajectoryStoreWriter

CAMERAS: Final = ("agentview_rgb", "eye_in_hand_rgb")
_ARM: Final = 7
_GRIPPER: Final = 2
_PROPRIOCEPTION: Final = _ARM + _GRIPPER
_SCENE: Final = re.compile(r"^([A-Z][A-Z_]*_SCENE\d+)_")
_BLOCK_BYTES: Final = 5 << 20
_TABLES_HINT: Final = "Set `store: {group_by: scene}` for a store per scene family, or `state: false`."


@cache
def suites() -> Mapping[str, tuple[str, ...]]:
    """Built-in suites: name → all task names, sorted."""
    text = files("trajpipe.pipeline").joinpath("libero_tasks.json").read_bytes()
    return {suite: tuple(sorted(tasks)) for suite, tasks in jsontext.loads(text).items()}


def task_of_file(source_file: str) -> str:
    """Task name of a recording: its file name without suffix and `_demo`."""
    return Path(source_file).stem.removesuffix("_demo")


def scene_of(task: str) -> str:
    """Scene family of a task (`KITCHEN_SCENE5`); "" when its name carries none."""
    match = _SCENE.match(task)
    return match.group(1) if match else ""


def language_of_task(task: str) -> str:
    """The instruction that LIBERO derives from a task's name: without its scene, with spaces."""
    return _SCENE.sub("", task).replace("_", " ")


class LiberoLayout:
    """Columns of a LIBERO suite's store.

    Attributes:
        env_id: `libero_demos:<suite>`.
        tasks: Language instruction of every task of the suite, by task index.
        task_names: Task names, sorted; the index of a name is the task index.
        table: The one remap table; None without the `state` column.
    """

    # two tasks of libero_90 may share an instruction; a recording is one task
    cap_attribute = names.ATTR_SOURCE_FILE
    rate = None

    def __init__(self, plan: StorePlan, options: LiberoOptions) -> None:
        """Read tasks, models and image size of all L2 files; no rows are read.

        Raises:
            InputError: models give different tables, or joint sets that differ from the target's.
            SchemaError: cameras of different sizes.
        """
        self._plan, self._options = plan, options
        self.env_id = f"{names.LIBERO_ENV_ID}{options.suite}"
        found, tables, sizes = _surveyed(plan, options)
        self.task_names = task_list(options, found)
        self.tasks: Sequence[str] = [found.get(task, language_of_task(task)) for task in self.task_names]
        table = same_table(tables, hint=_TABLES_HINT) if options.state else None
        self.table = None if table is None else replace(table, tasks=len(found))
        self._size = _one_size(sizes)
        self._fixtures: list[list[Fixture]] = []

    def specs(self) -> Sequence[ColumnSpec]:
        """The columns, in order."""
        f4, width = np.dtype(np.float32), _PROPRIOCEPTION * 2 + len(self.task_names)
        out = [ColumnSpec(names.COLUMN_ACTION, f4, (7,))]
        if self.table is not None:
            width_of_state = self.table.nq + self.table.nv
            out.append(ColumnSpec(names.COLUMN_STATE, np.dtype(np.float64), (width_of_state,)))
        out += [
            ColumnSpec(names.COLUMN_JOINT_STATES, f4, (_ARM,)),
            ColumnSpec(names.COLUMN_GRIPPER_STATES, f4, (_GRIPPER,)),
            ColumnSpec(names.COLUMN_QPOS, f4, (width,)),
            ColumnSpec(names.COLUMN_TASK_INDEX, np.dtype(np.int32), (1,)),
        ]
        if self._size is not None:
            own = self._plan.column_compression.get(names.COLUMN_IMAGES, self._plan.compression)
            shape = (len(CAMERAS), 3, *self._size)
            out.append(ColumnSpec(names.COLUMN_IMAGES, np.dtype(np.uint8), shape, compression=own))
        return out

    def append(self, writer: TrajectoryStoreWriter, episode: Episode, file: str) -> None:
        """Append all columns of an episode; images block by block.

        Raises:
            SchemaError: a term is missing or of another width.
        """
        place = Place(file=file, demo=episode.name)
        joints = _term(episode, "obs/joint_states", _ARM, place)
        grippers = _term(episode, "obs/gripper_states", _GRIPPER, place)
        task = self.task_names.index(task_of_file(episode.source_file))
        index = np.full((episode.length, 1), task, np.int32)
        if self._size is not None:
            # first: they are still being compressed while the small columns follow
            for rows in ahead(_images(episode, self._size, place)):
                writer.append(names.COLUMN_IMAGES, rows)
        writer.append(names.COLUMN_ACTION, _term(episode, names.DATASET_ACTIONS, 7, place))
        if self.table is not None:
            model = parse(model_of(episode, place), place=place)
            self._fixtures.append(fixtures(model, place=place))
            states = whole(_column(episode, "states", place))
            writer.append(names.COLUMN_STATE, self.table.apply(states[:, 1:], place=place))
        writer.append(names.COLUMN_JOINT_STATES, joints)
        writer.append(names.COLUMN_GRIPPER_STATES, grippers)
        writer.append(names.COLUMN_QPOS, qpos_rows(joints, grippers, index, len(self.task_names)))
        writer.append(names.COLUMN_TASK_INDEX, index)

    @property
    def cameras(self) -> Sequence[str]:
        """Agentview and eye in hand, unless images are left out."""
        return () if self._size is None else CAMERAS

    def side_tables(self) -> Mapping[str, Any]:
        """Each episode's fixture poses; NaN where an episode's scene has no such fixture."""
        if not self._fixtures:
            return {}
        all_names = sorted({f.name for row in self._fixtures for f in row})
        position = np.full((len(self._fixtures), len(all_names), 3), np.nan)
        quaternion = np.full((len(self._fixtures), len(all_names), 4), np.nan)
        for number, row in enumerate(self._fixtures):
            for fixture in row:
                column = all_names.index(fixture.name)
                position[number, column] = fixture.position
                quaternion[number, column] = fixture.quaternion
        return {
            names.SIDE_FIXTURE_NAMES: all_names,
            names.SIDE_FIXTURE_POS: position,
            names.SIDE_FIXTURE_QUAT: quaternion,
        }

    def check_context(self) -> Mapping[str, Any]:
        """What the LIBERO checks compare with; raw files when they are at hand."""
        columns = {
            names.COLUMN_ACTION: [names.DATASET_ACTIONS],
            names.COLUMN_JOINT_STATES: ["obs/joint_states"],
            names.COLUMN_GRIPPER_STATES: ["obs/gripper_states"],
        }
        if self._size is not None:
            columns[names.COLUMN_IMAGES] = [f"obs/{camera}" for camera in CAMERAS]
        model, joints = self._options.model, self._options.joints
        return {
            "columns": columns,
            "libero": {
                "tasks": list(self.task_names),
                "state": self._options.state,
                "model": None if model is None else model.read_text("utf-8"),
                "joints": None if joints is None else list(joints),
                "names": dict(self._options.names),
                "raw": {name: str(path) for name, path in self._plan.raw.items()},
            },
        }


def task_list(options: LiberoOptions, found: Mapping[str, str]) -> list[str]:
    """All task names of the suite, sorted: declared, else built in, else those found.

    Raises:
        InputError: a recording's task is not in the list.
    """
    known = options.tasks if options.tasks is not None else suites().get(options.suite)
    if known is None:
        return sorted(found)
    strange = natural_sorted(set(found) - set(known))
    if strange:
        raise InputError(
            "a recording's task is in the suite's task list",
            place=options.suite,
            got=", ".join(strange[:3]),
            expected=f"one of {len(known)} tasks",
            hint="Declare `store: tasks:` in the catalogue, or the right `suite:`.",
            code="task-not-in-suite",
        )
    return sorted(known)


def _surveyed(
    plan: StorePlan, options: LiberoOptions
) -> tuple[dict[str, str], dict[str, JointRemap], dict[str, tuple[int, int]]]:
    """Task → language, recording:demo → remap table, recording → image size."""
    languages: dict[str, str] = {}
    tables: dict[str, JointRemap] = {}
    sizes: dict[str, tuple[int, int]] = {}
    for path in plan.inputs:
        with DemosFile(path) as demos:
            for episode in demos.episodes():
                place = Place(file=path.name, demo=episode.name)
                task = task_of_file(episode.source_file)
                languages.setdefault(task, episode.task or language_of_task(task))
                if options.state:
                    tables[str(place)] = _table_of(episode, options, place)
                if plan.images:
                    sizes[str(place)] = _size_of(episode, place)
    return languages, tables, sizes


def _table_of(episode: Episode, options: LiberoOptions, place: Place) -> JointRemap:
    theirs = joint_table(parse(model_of(episode, place), place=place), place=place)
    return remap_of_model(theirs, options, place)


def remap_of_model(theirs: JointTable, options: LiberoOptions, place: object) -> JointRemap:
    """The remap from a recorded joint table to the target's: a model's, a declared order, or the built-in.

    Raises:
        InputError: the joint sets differ, or the target model is not there.
    """
    if options.model is not None:
        if not options.model.is_file():
            raise InputError("the target model is not there", place=options.model, code="missing-file")
        target = _target_table(options.model.read_bytes(), options.model.name)
    else:
        own = _renamed(theirs, [options.names.get(n, n) for n in theirs.names])
        target = own.reordered(options.joints) if options.joints else robot_fixtures_objects(own)
    return remap(theirs, target, names=options.names, family=options.family or options.suite, place=place)


@lru_cache(maxsize=4)
def _target_table(text: bytes, name: str) -> JointTable:
    return joint_table(parse(text, place=name), place=name)


def _renamed(table: JointTable, new: Sequence[str]) -> JointTable:
    return placed((name, joint.type, joint) for name, joint in zip(new, table.joints, strict=True))


def model_of(episode: Episode, place: Place) -> str:
    """The recorded model of an episode.

    Raises:
        InputError: the recording has none.
    """
    model = episode.attributes.get(names.ATTR_MODEL_FILE)
    if not isinstance(model, str) or not model.strip():
        raise InputError(
            "the remap needs the recorded model",
            place=place,
            got="no `model_file` attribute",
            hint="Set `store: {state: false}` to keep a store without the column.",
            code="model-missing",
        )
    return model


def _size_of(episode: Episode, place: Place) -> tuple[int, int]:
    shapes = {_column(episode, f"obs/{camera}", place).shape[1:] for camera in CAMERAS}
    if len(shapes) != 1 or len(next(iter(shapes))) != 3 or next(iter(shapes))[2] != 3:
        raise SchemaError("both cameras have one size and three channels", place=place, got=sorted(shapes))
    height, width, _ = next(iter(shapes))
    return height, width


def _one_size(sizes: Mapping[str, tuple[int, int]]) -> tuple[int, int] | None:
    """The native image size; None without images.

    Raises:
        SchemaError: recordings differ.
    """
    distinct = {size: where for where, size in reversed(list(sizes.items()))}
    if len(distinct) > 1:
        listed = ", ".join(f"{h}x{w} ({where})" for (h, w), where in distinct.items())
        raise SchemaError("all tasks of a store have one image size", got=listed, code="image-sizes-differ")
    return next(iter(distinct), None)


def _column(episode: Episode, path: str, place: Place) -> Column:
    if path not in episode.columns:
        raise SchemaError(
            "a LIBERO store needs this column", place=place, got=f"no `{path}`", code="term-missing"
        )
    return episode.columns[path]


def _term(episode: Episode, path: str, width: int, place: Place) -> NDArray[np.float32]:
    """A low-dimensional column in float32, (T, width)."""
    rows = whole(_column(episode, path, place))
    if rows.shape[1:] != (width,):
        where = Place(place.file, place.demo, path)
        raise SchemaError("the column has another width", place=where, got=rows.shape[1:], expected=(width,))
    return rows.astype(np.float32, copy=False)


def qpos_rows(
    joints: NDArray[np.float32], grippers: NDArray[np.float32], index: NDArray[np.int32], n_tasks: int
) -> NDArray[np.float32]:
    """Proprioception (9), its one-step difference in float32 (9, zero on the first row), one-hot task.

    Args:
        joints: (T, 7).
        grippers: (T, 2).
        index: (T, 1) task index.
        n_tasks: Length of the suite's task list.

    Returns:
        (T, 18 + n_tasks) float32.
    """
    out = np.zeros((len(joints), 2 * _PROPRIOCEPTION + n_tasks), np.float32)
    now = out[:, :_PROPRIOCEPTION]
    now[:, :_ARM], now[:, _ARM:] = joints, grippers
    np.subtract(now[1:], now[:-1], out=out[1:, _PROPRIOCEPTION : 2 * _PROPRIOCEPTION])
    out[np.arange(len(out)), 2 * _PROPRIOCEPTION + index[:, 0]] = 1
    return out


def _images(episode: Episode, size: tuple[int, int], place: Place) -> Iterator[NDArray[np.uint8]]:
    """Blocks (n, 2, 3, H, W): agentview, then eye in hand."""
    cameras = [_column(episode, f"obs/{camera}", place) for camera in CAMERAS]
    step = whole_chunks(max(1, _BLOCK_BYTES // (len(CAMERAS) * 3 * size[0] * size[1])))
    for start in range(0, episode.length, step):
        stop = min(start + step, episode.length)
        yield stacked(cameras, (start, stop), (len(CAMERAS), 3, *size))
