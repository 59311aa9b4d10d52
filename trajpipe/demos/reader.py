"""Reading an L2 file back into episodes with lazy columns, our attributes and masks included.

A version-1 IsaacLab file without our attributes is read too. What is not here: other raw formats, and
checking a file, see `trajpipe.checks.demos`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import h5py

from trajpipe.core import names
from trajpipe.core.episode import Episode
from trajpipe.core.errors import InputError, MissingNameError, StateError
from trajpipe.core.findings import Place
from trajpipe.core.order import natural_sorted
from trajpipe.demos.accept import checked_word
from trajpipe.hdf5.attributes import attributes_of, json_object, plain
from trajpipe.hdf5.columns import HDF5Column, column_of, require_written
from trajpipe.hdf5.files import datasets_below, open_hdf5

OLD_LAYOUT: Final = "episodes"
_MAX_DENOMINATOR: Final = 1_000_000
_OWN_DATA_ATTRIBUTES: Final = (
    names.ATTR_TOTAL,
    names.ATTR_ENV_ARGS,
    names.ATTR_TRAJPIPE,
    names.ATTR_IMAGE_CONVENTION,
)


class DemosFile:
    """An L2 file opened for reading; a context manager.

    Columns of its episodes read lazily and are valid while the file is open.
    """

    def __init__(self, path: Path, *, require_version: bool = True) -> None:
        """Remember the path; `with` opens it.

        Args:
            path: The L2 file.
            require_version: False reads a file without format_version 1 too, quaternions as they are.
        """
        self.path = path
        self._require_version = require_version
        self._stack = ExitStack()
        self._file: h5py.File | None = None
        self._names: list[str] = []
        self._split_of: dict[str, str] | None = None

    def __enter__(self) -> DemosFile:
        """Open the file.

        Raises:
            UnreadableError: it cannot be opened.
            UntrustedError: it leads to other files.
            InputError: it is not L2: no format_version 1, the old `episodes/` layout, no /data group.
        """
        self._file = self._stack.enter_context(open_hdf5(self.path))
        try:
            _require_l2(self._file, self.path, require_version=self._require_version)
            self._names = _demo_names(self._data)
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        self._stack.close()
        self._file, self._split_of = None, None

    @property
    def _data(self) -> h5py.Group:
        if self._file is None:
            raise StateError("the L2 file is not open", place=self.path, hint="Use it in a `with` block.")
        return self._file[names.GROUP_DATA]

    def __len__(self) -> int:
        return len(self._names)

    @property
    def is_version_1(self) -> bool:
        """True when the file says that every quaternion in it is xyzw."""
        return _is_version_1(self._data.file)

    @property
    def demos(self) -> tuple[str, ...]:
        """Names of the demos in natural order."""
        return tuple(self._names)

    @property
    def total(self) -> int:
        """Rows of all demos, counted from their actions."""
        return sum(self.lengths)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Rows of each demo in natural order, counted from their actions."""
        return tuple(int(self._data[name][names.DATASET_ACTIONS].shape[0]) for name in self._names)

    @property
    def env_args(self) -> dict[str, Any]:
        """The `env_args` object; empty when absent.

        Raises:
            InputError: present and not a strict JSON object.
        """
        return json_object(self._data, names.ATTR_ENV_ARGS) or {}

    @property
    def recipe(self) -> dict[str, Any]:
        """Our recipe; empty in a file that others wrote.

        Raises:
            InputError: present and not a strict JSON object.
        """
        return json_object(self._data, names.ATTR_TRAJPIPE) or {}

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes of /data kept as recorded, without those that L2 itself defines."""
        return {k: v for k, v in attributes_of(self._data).items() if k not in _OWN_DATA_ATTRIBUTES}

    @property
    def masks(self) -> dict[str, tuple[str, ...]]:
        """Mask name → demo names in natural order."""
        group = self._data.parent.get(names.GROUP_MASK)
        if not isinstance(group, h5py.Group):
            return {}
        return {name: _mask(group[name]) for name in natural_sorted(group)}

    @property
    def fps(self) -> Fraction | None:
        """Frames per second: the recipe's, else what env_args says; None when neither does."""
        conventions = self.recipe.get("conventions")
        declared = conventions.get("fps") if isinstance(conventions, Mapping) else None
        declared = self.recipe.get("fps", declared)
        if declared is not None:
            return _fraction(declared, Place(file=self.path.name, column=f"data@{names.ATTR_TRAJPIPE}"))
        return rate_of_env_args(self.env_args, place=Place(file=self.path.name, column="data@env_args"))

    def episodes(self) -> Iterator[Episode]:
        """All demos in natural order.

        Raises:
            SchemaError: a demo's columns differ in length, or hold what is not numbers.
            InputError: a demo has no actions; an attribute of ours has a value that we do not know.
        """
        splits = self._splits()
        for name in self._names:
            yield self._episode(name, splits.get(name))

    def episode(self, name: str) -> Episode:
        """One demo; the others are not looked at.

        Raises:
            MissingNameError: there is none of this name.
            SchemaError, InputError: as `episodes`.
        """
        if name not in self._names:
            raise MissingNameError("no such demo", place=self.path, got=name)
        return self._episode(name, self._splits().get(name))

    def _splits(self) -> dict[str, str]:
        if self._split_of is None:
            masks = self.masks
            self._split_of = {d: split.value for split in names.Split for d in masks.get(split.value, ())}
        return self._split_of

    def _episode(self, name: str, split: str | None) -> Episode:
        group = self._data[name]
        place = Place(file=self.path.name, demo=name)
        datasets = datasets_below(group)
        if names.DATASET_ACTIONS not in datasets or not datasets[names.DATASET_ACTIONS].shape:
            raise InputError("a demo needs actions", place=place, code=names.Reason.NO_ACTIONS.value)
        length = int(datasets[names.DATASET_ACTIONS].shape[0])
        columns, extras = _divided(datasets, length)
        attributes = attributes_of(group)
        success, seed = _success(attributes), attributes.get(names.ATTR_SEED)
        return Episode(
            name=name,
            length=length,
            columns=columns,
            extras=extras,
            attributes=_recorded(attributes, known=success is not None),
            success=success,
            success_as=attributes.get(names.ATTR_SUCCESS, True) is not False,
            seed=seed if isinstance(seed, int) else None,
            task=_text(attributes, names.ATTR_TASK, "") or None,
            tag=checked_word(names.Tag, attributes.get(names.ATTR_SOURCE, self._tag()), place),
            alignment=_alignment(attributes, place),
            source_file=_text(attributes, names.ATTR_SOURCE_FILE, self.path.name),
            source_demo=_text(attributes, names.ATTR_SOURCE_DEMO, name),
            source_sha256=_text(attributes, names.ATTR_SOURCE_SHA256, ""),
            split=split,
            content_sha256=_text(attributes, names.ATTR_CONTENT_SHA256, ""),
        )

    def _tag(self) -> str:
        return names.tag_of_file_name(self.path.stem).value


def rate_of_env_args(env_args: Mapping[str, Any], *, place: Place) -> Fraction | None:
    """The rate that env_args tells: robosuite's `control_freq`, IsaacLab's 1 / (`dt` · `decimation`).

    Args:
        env_args: As L2 holds it.
        place: Named in the error.

    Returns:
        Frames per second, or None.

    Raises:
        InputError: a rate is there and is not a positive number.
    """
    kwargs = env_args.get("env_kwargs")
    if isinstance(kwargs, Mapping) and "control_freq" in kwargs:
        return _fraction(kwargs["control_freq"], place)
    arguments = env_args.get("sim_args")
    if isinstance(arguments, Mapping) and {"dt", "decimation"} <= set(arguments):
        return 1 / (_fraction(arguments["dt"], place) * _fraction(arguments["decimation"], place))
    return None


def _fraction(value: Any, place: Place) -> Fraction:
    """A positive rate; a float such as 0.016666 becomes the plain fraction it was meant to be."""
    try:
        rate = Fraction(value).limit_denominator(_MAX_DENOMINATOR)
    except (TypeError, ValueError, ZeroDivisionError, OverflowError) as error:
        raise InputError("a rate is a number", place=place, got=repr(value)) from error
    if rate <= 0:
        raise InputError("a rate is positive", place=place, got=repr(value))
    return rate


def _require_l2(file: h5py.File, path: Path, *, require_version: bool) -> None:
    place = Place(file=path.name)
    if OLD_LAYOUT in file:
        raise InputError(
            "the old `episodes/` layout is not L2",
            place=place,
            hint="Convert it with the tool that wrote it, then read the result.",
            code="old-layout",
        )
    version = (
        plain(file.attrs[names.ATTR_FORMAT_VERSION]) if names.ATTR_FORMAT_VERSION in file.attrs else None
    )
    if require_version and not _is_version_1(file):
        raise InputError(
            "L2 has format_version 1: every quaternion is xyzw",
            place=place,
            got=f"format_version {'absent' if version is None else version}",
            expected=names.L2_FORMAT_VERSION,
            hint="Read it as a raw recording (kind isaaclab), which converts it.",
            code="bad-format-version",
        )
    if not isinstance(file.get(names.GROUP_DATA), h5py.Group):
        raise InputError("L2 has a group /data", place=place, code="no-demos")


def _is_version_1(file: h5py.File) -> bool:
    version = attributes_of(file).get(names.ATTR_FORMAT_VERSION)
    return version == names.L2_FORMAT_VERSION and not isinstance(version, bool)


def _demo_names(data: h5py.Group) -> list[str]:
    found = [n for n in natural_sorted(data) if isinstance(data[n], h5py.Group)]
    strange = [n for n in found if not n.startswith(names.DEMO_PREFIX)]
    if strange:
        place = Place(file=str(data.file.filename).rsplit("/", 1)[-1], column=data.name)
        raise InputError("groups below /data are demos", place=place, got=strange[0], expected="demo_<i>")
    return found


def _divided(
    datasets: Mapping[str, h5py.Dataset], length: int
) -> tuple[dict[str, HDF5Column], dict[str, HDF5Column]]:
    """Columns with T rows, and extras: `initial_state/…`, and what has another leading axis outside obs."""
    columns: dict[str, HDF5Column] = {}
    extras: dict[str, HDF5Column] = {}
    for path, dataset in datasets.items():
        column = column_of(dataset)
        group = path.split("/", 1)[0]
        must = group in (names.GROUP_OBS, names.DATASET_ACTIONS)
        rows = group != "initial_state" and column.shape[0] == length
        (columns if must or rows else extras)[path] = column
    return columns, extras


def _recorded(attributes: Mapping[str, Any], *, known: bool) -> dict[str, Any]:
    """Attributes kept as recorded, the content hash, and what an unknown success was written as."""
    own = {names.ATTR_NUM_SAMPLES, names.ATTR_SUCCESS, names.ATTR_SEED, *names.DEMO_ATTRS_OURS}
    shown = {names.ATTR_CONTENT_SHA256} if known else {names.ATTR_CONTENT_SHA256, names.ATTR_SUCCESS}
    return {k: v for k, v in attributes.items() if k not in own or k in shown}


def _alignment(attributes: Mapping[str, Any], place: Place) -> str | None:
    value = attributes.get(names.ATTR_OBS_ALIGNMENT)
    return None if value is None else checked_word(names.Alignment, value, place)


def _success(attributes: Mapping[str, Any]) -> bool | None:
    """The recorded success; None when it is absent, not a truth value, or said to be unknown."""
    value = attributes.get(names.ATTR_SUCCESS)
    known = attributes.get(names.ATTR_SUCCESS_KNOWN, True)
    return bool(value) if known and isinstance(value, (bool, int)) else None


def _text(attributes: Mapping[str, Any], name: str, default: str) -> str:
    value = attributes.get(name)
    return value if isinstance(value, str) and value else default


def _mask(dataset: h5py.Dataset) -> tuple[str, ...]:
    require_written(dataset)
    return tuple(natural_sorted(str(plain(v)) for v in dataset[()].ravel().tolist()))
