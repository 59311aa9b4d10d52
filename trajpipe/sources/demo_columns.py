"""The columns and extras of one demo: terms split, quaternions and images converted lazily.

What is not here: attributes of a demo, see `trajpipe.sources.recorded_attributes`; renaming of terms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import h5py
import numpy as np

from trajpipe.core import names
from trajpipe.core.conventions import QuaternionSite
from trajpipe.core.episode import Column, FunctionColumn, mapped, sliced
from trajpipe.core.errors import InputError, SchemaError
from trajpipe.core.findings import Finding, Place, Severity
from trajpipe.hdf5 import attributes
from trajpipe.hdf5.columns import column_of
from trajpipe.hdf5.files import items_below
from trajpipe.sources.images import ImageReading, as_image, is_float_image
from trajpipe.sources.quaternion_sites import QuaternionReading
from trajpipe.sources.recording import Recording

OBS_GROUPS: Final = (names.GROUP_OBS, "next_obs")
INITIAL_STATE: Final = "initial_state"
# Groups and datasets that have one row per action in every format of this family.
_ALIGNED: Final = (*OBS_GROUPS, "states", "robot_states", "rewards", "dones", "processed_actions")
_MAX_STRINGS: Final = 1000
ExtraRow = Literal["drop_first", "drop_last"]


@dataclass(frozen=True, slots=True)
class ColumnReading:
    """How the columns of a recording are read.

    Attributes:
        recording: The open recording.
        quaternions: Declared sites.
        images: Row order, channel order and layout of images.
        term_widths: Term → width, for one concatenated `obs` dataset.
        extra_row: Which of T+1 observation rows to drop; None = such a demo is rejected.
        report: Called with each finding.
    """

    recording: Recording
    quaternions: QuaternionReading
    images: ImageReading = field(default_factory=ImageReading)
    term_widths: Mapping[str, int] = field(default_factory=dict)
    extra_row: ExtraRow | None = None
    report: Callable[[Finding], None] = lambda _finding: None


@dataclass(slots=True)
class DemoColumns:
    """What one demo holds.

    Attributes:
        length: T, rows of `actions`.
        columns: Path → column of T rows.
        extras: Path → column of another length.
        loose: What L2 can only keep as attributes of the demo: path → value of a scalar or text dataset,
            `<path>@<name>` → attribute of an inner group or dataset.
    """

    length: int
    columns: dict[str, Column] = field(default_factory=dict)
    extras: dict[str, Column] = field(default_factory=dict)
    loose: dict[str, Any] = field(default_factory=dict)


def recorded_columns(reading: ColumnReading, name: str) -> DemoColumns:
    """The columns of a demo as recorded; a concatenated `obs` is split, nothing is converted yet.

    Raises:
        SchemaError: the demo cannot be an episode: `no-actions`, `ragged`, which names both counts, or
            `bad-episode`: its actions are no numbers.
        InputError: the recording as a whole does not fit: `obs-concatenated` or `term-widths`.
    """
    demo, recording = reading.recording.demo(name), reading.recording
    length = recording.length(name)
    if not length:
        raise SchemaError(
            "a demo has at least one action",
            place=recording.place(name, names.DATASET_ACTIONS),
            got="0 rows" if length == 0 else "no dataset of that name",
            code=names.Reason.NO_ACTIONS.value,
        )
    _require_plain_actions(recording, name)
    out, found = DemoColumns(length), dict[str, Column]()
    for path, item in items_below(demo).items():
        if len(item.attrs):
            out.loose |= {f"{path}@{key}": value for key, value in attributes.attributes_of(item).items()}
        if isinstance(item, h5py.Group):
            continue
        if item.shape is not None and item.ndim >= 1 and item.dtype.kind in "buif":
            found[path] = column_of(item)
        else:
            _keep_loose(reading, name, path, item, out)
    ragged_groups = {_top(p) for p, c in found.items() if not _is_aligned(p) and c.shape[0] != length}
    for path, column in found.items():
        if _top(path) == INITIAL_STATE or _top(path) in ragged_groups:
            out.extras[path] = column
        else:
            out.columns[path] = _of_length(reading, name, path, column, length)
    _as_matrix(out)
    return _split_obs(reading, name, out)


def _require_plain_actions(recording: Recording, name: str) -> None:
    actions = recording.demo(name)[names.DATASET_ACTIONS]
    dtype, place = actions.dtype, recording.place(name, names.DATASET_ACTIONS)
    if dtype.kind not in "buif":
        raise SchemaError(
            "actions are numbers",
            place=place,
            got="text" if h5py.check_string_dtype(dtype) is not None else f"dtype {dtype}",
            expected="a float, integer or bool dtype",
            hint="The file is intact: write its actions again with such a dtype.",
            code=names.Reason.BAD_EPISODE.value,
        )
    if actions.ndim > 2 or 0 in actions.shape:
        raise SchemaError(
            "actions are one vector per row",
            place=place,
            got=f"shape {actions.shape}",
            expected="(T, A)",
            code=names.Reason.BAD_EPISODE.value,
        )


def _top(path: str) -> str:
    return path.split("/", 1)[0]


def _is_aligned(path: str) -> bool:
    return _top(path) in _ALIGNED or path == names.DATASET_ACTIONS


def _as_matrix(out: DemoColumns) -> None:
    """One-dimensional actions become (T, 1): L2 and robomimic want a matrix."""
    actions = out.columns[names.DATASET_ACTIONS]
    if len(actions.shape) == 1:
        out.columns[names.DATASET_ACTIONS] = mapped(actions, lambda rows: rows[:, np.newaxis], trailing=(1,))


def _keep_loose(
    reading: ColumnReading, demo: str, path: str, dataset: h5py.Dataset, out: DemoColumns
) -> None:
    """A scalar or text dataset: kept as an attribute, since IsaacLab's loader dies on such datasets."""
    recording, place = reading.recording, reading.recording.place(demo, path)
    kind = dataset.dtype.kind
    text = h5py.check_string_dtype(dataset.dtype) is not None
    if dataset.shape is None or dataset.size > _MAX_STRINGS or not (text or kind in "buif"):
        message = "a dataset that is neither numeric rows nor text cannot be kept"
        got = f"shape {dataset.shape}, dtype {dataset.dtype}"
        reading.report(
            recording.finding("dataset-not-kept", message, severity=Severity.WARN, place=place, got=got)
        )
        return
    value = dataset[()]
    out.loose[path] = attributes.plain(value if np.ndim(value) == 0 else np.asarray(value))
    message = "a scalar or text dataset is kept as an attribute of the demo"
    reading.report(recording.finding("dataset-as-attribute", message, place=place))


def _of_length(reading: ColumnReading, demo: str, path: str, column: Column, length: int) -> Column:
    """The column with T rows; one extra observation row is dropped only when it is declared which."""
    rows = column.shape[0]
    if rows == length:
        return column
    place = reading.recording.place(demo, path)
    if rows == length + 1 and _top(path) in OBS_GROUPS and reading.extra_row is not None:
        first = 1 if reading.extra_row == "drop_first" else 0
        message = f"one observation more than actions: {reading.extra_row} as configured"
        reading.report(
            reading.recording.finding("image-alignment", message, place=place, got=rows, expected=length)
        )
        return sliced(column, first, first + length)
    hint = None
    if rows == length + 1 and _top(path) in OBS_GROUPS:
        hint = "Add `options: {image_alignment: drop_first}` or `drop_last` to the raw entry, or pass "
        hint += "--option image_alignment=drop_first."
    raise SchemaError(
        "every column of a demo has one row per action",
        place=place,
        got=f"{rows} rows",
        expected=f"{length} rows",
        hint=hint,
        code=names.Reason.RAGGED.value,
    )


def _split_obs(reading: ColumnReading, demo: str, out: DemoColumns) -> DemoColumns:
    """A concatenated `obs` (or `next_obs`) dataset becomes one column per declared term."""
    for group in OBS_GROUPS:
        joined = out.columns.get(group)
        if joined is None:
            continue
        width = joined.shape[1] if len(joined.shape) == 2 else 0
        place = reading.recording.place(demo, group)
        if not reading.term_widths:
            raise InputError(
                "obs is one concatenated dataset and no term widths are declared",
                place=place,
                got=f"shape {joined.shape}",
                hint="Add to the raw entry of data/datasets.yaml:\n    conventions:\n      term_widths: "
                f"{{<term>: <width>, …}}\nin recorded order, {width} in all; "
                "or pass --term-width TERM=N for each.",
                code="obs-concatenated",
            )
        total = sum(reading.term_widths.values())
        if total != width:
            raise InputError(
                "declared term widths must add up to the width of the concatenated obs",
                place=place,
                got=f"{' + '.join(map(str, reading.term_widths.values()))} = {total}",
                expected=f"{width}",
                hint="Correct `term_widths` in the conventions of the raw entry (--term-width).",
                code="term-widths",
            )
        del out.columns[group]
        start = 0
        for term, term_width in reading.term_widths.items():
            out.columns[f"{group}/{term}"] = _span(joined, start, start + term_width)
            start += term_width
    return out


def _span(column: Column, start: int, stop: int) -> FunctionColumn:
    return mapped(column, lambda rows: rows[:, start:stop], trailing=(stop - start,))


def sites_of_terms(
    sites: tuple[QuaternionSite, ...], widths: Mapping[str, int]
) -> tuple[QuaternionSite, ...]:
    """Sites declared on a concatenated `obs` as sites of the terms that it is split into.

    Raises:
        InputError: a quaternion lies across two terms (`quaternion-outside`).
    """
    out = list[QuaternionSite]()
    for site in sites:
        if site.path not in OBS_GROUPS or not widths:
            out.append(site)
            continue
        begin, left = 0, set(site.starts)
        for term, width in widths.items():
            inside = tuple(s - begin for s in site.starts if begin <= s and s + 4 <= begin + width)
            left -= {s + begin for s in inside}
            out.append(QuaternionSite(f"{site.path}/{term}", inside, site.order))
            begin += width
        if left:
            raise InputError(
                "a quaternion declared on the concatenated obs lies across two terms or beyond them",
                place=site.path,
                got=f"starts {sorted(left)}",
                expected=f"inside one of {dict(widths)}",
                code="quaternion-outside",
            )
    return tuple(out)


def converted_columns(reading: ColumnReading, name: str, recorded: DemoColumns) -> DemoColumns:
    """Quaternions scalar-last, images top row first and RGB; done when rows are asked for.

    Raises:
        InputError: an image's layout is ambiguous, or a declared quaternion lies outside its column.
    """
    out = DemoColumns(recorded.length, loose=recorded.loose)
    for path, column in recorded.columns.items():
        place = reading.recording.place(name, path)
        if reading.images.floats == "keep" and is_float_image(column):
            reading.report(_float_image(reading, place, column))
        out.columns[path] = as_image(reading.quaternions.as_xyzw(path, column), reading.images, place)
    for path, column in recorded.extras.items():
        out.extras[path] = reading.quaternions.as_xyzw(path, column)
    return out


def _float_image(reading: ColumnReading, place: Place, column: Column) -> Finding:
    message = (
        "floats of the shape of colour frames are kept as numbers; "
        "`options: {float_images: unit}` (--option float_images=unit) stores [0, 1] as uint8 frames"
    )
    got = f"{column.dtype} {column.shape}"
    return reading.recording.finding("image-float", message, severity=Severity.WARN, place=place, got=got)
