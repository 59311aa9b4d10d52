"""From the terms of an episode to the features of a LeRobot dataset; every episode must give the same ones.

What is not here: the frames' bytes (`trajpipe.export.video`) and tables (`trajpipe.export.tables`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from trajpipe.core import names
from trajpipe.core.episode import Column, Episode, is_image, whole
from trajpipe.core.errors import InputError, SchemaError
from trajpipe.core.findings import Place
from trajpipe.core.order import natural_sorted
from trajpipe.export.options import ExportOptions

STATE: Final = "observation.state"
ACTION: Final = "action"
IMAGES: Final = "observation.images."
BOOKKEEPING: Final[Mapping[str, str]] = {
    "timestamp": "float32",
    "frame_index": "int64",
    "episode_index": "int64",
    "index": "int64",
    "task_index": "int64",
}
_OBS: Final = f"{names.GROUP_OBS}/"
Kind = Literal["rows", "video", "image"]


@dataclass(frozen=True, slots=True)
class Feature:
    """One user feature.

    Attributes:
        name: LeRobot name (`observation.state`).
        kind: `rows` (a parquet column), `video` or `image`.
        dtype: numpy name of the stored rows, `video` or `image`.
        shape: Per row; (1,) is a scalar column.
        parts: (L2 path, first dimension, end dimension) of each term it is made of.
        names: A name per dimension; None for scalars.
    """

    name: str
    kind: Kind
    dtype: str
    shape: tuple[int, ...]
    parts: tuple[tuple[str, int, int], ...]
    names: tuple[str, ...] | None = None

    def rows(self, episode: Episode) -> NDArray[Any]:
        """All rows of a `rows` feature, (T, n) in its dtype, C-contiguous.

        Raises:
            InputError: a value is NaN or infinite after the cast.
        """
        out = np.empty((episode.length, self.shape[0]), np.dtype(self.dtype))
        for path, start, end in self.parts:
            values = whole(episode.columns[path]).reshape(episode.length, -1)
            with np.errstate(over="ignore"):
                out[:, start:end] = values
            _require_finite(out[:, start:end], path, episode)
        return out


def _require_finite(rows: NDArray[Any], path: str, episode: Episode) -> None:
    if rows.dtype.kind != "f" or np.isfinite(rows).all():
        return
    row = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
    raise InputError(
        "an exported value must be finite",
        place=Place(episode.source_file, episode.name, path, row),
        got=rows[row].tolist(),
        hint="Reject the episode at ingest, or leave the term out.",
        code="not-finite",
    )


def width_of(column: Column) -> int | None:
    """Dimensions per row of a (T,) or (T, n) numeric column; None for any other."""
    if len(column.shape) > 2 or column.dtype.kind not in "buif":
        return None
    return 1 if len(column.shape) == 1 else int(column.shape[1])


def features_of(episode: Episode, options: ExportOptions) -> tuple[Feature, ...]:
    """The user features of an episode, in the order of info.json.

    Raises:
        SchemaError: a configured term is absent or has the wrong shape, names do not fit the width, or a
            feature name breaks LeRobot's rules.
    """
    found = [_state(episode, options), _action(episode, options)]
    found += [_extra(episode, options, name, path) for name, path in options.extras.items()]
    found += [_camera(episode, options, term) for term in _camera_terms(episode, options)]
    features = tuple(f for f in found if f is not None)
    _check_names(features)
    if options.gr00t:
        _check_gr00t(features)
    return features


def state_terms(episode: Episode, options: ExportOptions) -> tuple[str, ...]:
    """The obs terms of `observation.state`, configured or found."""
    if options.state is not None:
        return options.state
    used = set(options.extras.values())
    terms = (p.removeprefix(_OBS) for p in episode.columns if p.startswith(_OBS) and p not in used)
    flat = (t for t in terms if "/" not in t and width_of(episode.columns[_OBS + t]) is not None)
    return tuple(natural_sorted(flat))


def left_out(episode: Episode, features: Sequence[Feature]) -> list[str]:
    """L2 paths of the episode that no feature uses, with shape and dtype, for the report."""
    used = {path for feature in features for path, _, _ in feature.parts}
    rest = natural_sorted(set(episode.columns) - used - {names.COLUMN_TASK_INDEX})
    return [f"{p} {episode.columns[p].shape[1:]} {episode.columns[p].dtype}" for p in rest]


def _state(episode: Episode, options: ExportOptions) -> Feature | None:
    parts: list[tuple[str, int, int]] = []
    dims: list[str] = []
    for term in state_terms(episode, options):
        path, width = _OBS + term, _width(episode, _OBS + term)
        parts.append((path, len(dims), len(dims) + width))
        dims += _dimension_names(term, width, options)
    if not parts:
        return None
    return Feature(STATE, "rows", "float32", (len(dims),), tuple(parts), tuple(dims))


def _action(episode: Episode, options: ExportOptions) -> Feature:
    width = _width(episode, options.action)
    dims = _dimension_names(options.action, width, options, stem="action")
    return Feature(ACTION, "rows", "float32", (width,), ((options.action, 0, width),), dims)


def _extra(episode: Episode, options: ExportOptions, name: str, path: str) -> Feature:
    width, dtype = _width(episode, path), episode.columns[path].dtype
    dims = _dimension_names(path, width, options, stem=name) if width > 1 else None
    return Feature(name, "rows", dtype.name, (width,), ((path, 0, width),), dims)


def _camera_terms(episode: Episode, options: ExportOptions) -> tuple[str, ...]:
    if options.cameras is not None:
        return options.cameras
    terms = (p.removeprefix(_OBS) for p in episode.columns if p.startswith(_OBS))
    return tuple(natural_sorted(t for t in terms if "/" not in t and is_image(episode.columns[_OBS + t])))


def _camera(episode: Episode, options: ExportOptions, term: str) -> Feature:
    column = _column(episode, _OBS + term)
    if not is_image(column):
        raise SchemaError(
            "a camera is a uint8 term of frames, rows top first, channels last",
            place=_place(episode, _OBS + term),
            got=f"shape {column.shape}, dtype {column.dtype}",
            expected="(T, H, W, 1|3|4) uint8",
            code="not-a-camera",
        )
    height, width = int(column.shape[1]), int(column.shape[2])
    kind: Kind = "image" if options.codec == "png" else "video"
    _check_size(episode, term, (height, width), options.codec)
    return Feature(IMAGES + term, kind, kind, (height, width, 3), ((_OBS + term, 0, 3),))


def _check_size(episode: Episode, term: str, size: tuple[int, int], codec: str) -> None:
    """Yuv420p has no odd sizes; libsvtav1 kills the process on tiny frames, so it is never called there."""
    odd = codec != "png" and (size[0] % 2 or size[1] % 2)
    tiny = codec == "av1" and min(size) < 64
    if odd or tiny:
        raise SchemaError(
            f"the {codec} encoder does not take frames of this size",
            place=_place(episode, _OBS + term),
            got=f"{size[0]}x{size[1]}",
            expected="even height and width" + (", both at least 64" if codec == "av1" else ""),
            hint="Use codec png" + (" or h264" if tiny and not odd else "") + ", or resize the camera.",
            code="frame-size",
        )


def _dimension_names(path: str, width: int, options: ExportOptions, *, stem: str = "") -> tuple[str, ...]:
    declared = options.names.get(path)
    if declared is None:
        stem = stem or path
        return (stem,) if width == 1 and stem != "action" else tuple(f"{stem}_{i}" for i in range(width))
    if len(declared) != width:
        extra = f"; beyond the width: {', '.join(declared[width:])}" if len(declared) > width else ""
        bare = f"; no name for dimensions {len(declared)}..{width - 1}" if len(declared) < width else ""
        raise SchemaError(
            f"the configured names must fit the columns of {path}",
            got=f"{len(declared)} names ({', '.join(declared)}){extra}{bare}",
            expected=f"{width} names",
            code="names-do-not-fit",
        )
    return declared


def _column(episode: Episode, path: str) -> Column:
    column = episode.columns.get(path)
    if column is None:
        raise SchemaError(
            "the episode has no such term",
            place=_place(episode, path),
            got=f"terms {', '.join(natural_sorted(episode.columns))}",
            hint="Correct the term's name in the export options (--state, --cameras), or rename it in the "
            "catalogue's `terms` (--rename KEY=TERM).",
            code="no-such-term",
        )
    return column


def _width(episode: Episode, path: str) -> int:
    column = _column(episode, path)
    width = width_of(column)
    if width is None or width == 0:
        raise SchemaError(
            "a row feature is a numeric term of one value or one vector per row",
            place=_place(episode, path),
            got=f"shape {column.shape}, dtype {column.dtype}",
            expected="(T,) or (T, n)",
            code="not-a-vector",
        )
    return width


def _place(episode: Episode, path: str) -> Place:
    return Place(episode.source_file or None, episode.name, path)


def _check_names(features: Sequence[Feature]) -> None:
    seen: set[str] = set(BOOKKEEPING)
    for feature in features:
        name = feature.name
        problem = (
            "a feature name must not hold `/`"
            if "/" in name or not name
            else "a feature name is used twice, or is one of LeRobot's own"
            if name in seen
            else "a name with `image` in it must be a camera"
            if "image" in name and feature.kind == "rows"
            else None
        )
        if problem:
            raise SchemaError(
                problem, got=repr(name), hint="Name the feature otherwise.", code="feature-name"
            )
        seen.add(name)


def _check_gr00t(features: Sequence[Feature]) -> None:
    """GR00T stacks state and action columns to two dimensions: a scalar column breaks its loader."""
    for feature in features:
        if feature.name in (STATE, ACTION) and feature.shape == (1,):
            raise SchemaError(
                "GR00T's loader cannot stack a state or action of width 1",
                got=f"{feature.name} of width 1",
                expected="width 2 or more",
                hint="Add a term, or export without the GR00T flavour.",
                code="gr00t-width-1",
            )


def require_same(first: Sequence[Feature], episode: Episode, found: Sequence[Feature]) -> None:
    """Raise unless an episode has exactly the first episode's features.

    Raises:
        SchemaError: a feature appears in some episodes only, or its shape, dtype or terms differ (ragged).
    """
    ours, theirs = {f.name: f for f in first}, {f.name: f for f in found}
    for name in [*ours, *(n for n in theirs if n not in ours)]:
        if ours.get(name) != theirs.get(name):
            raise SchemaError(
                "every episode must have the same features",
                place=Place(episode.source_file or None, episode.name, name),
                got=_describe(theirs.get(name)),
                expected=f"{_describe(ours.get(name))}, as in the first episode",
                hint="Choose the terms that all recordings have (--state), or rename terms in the catalogue "
                "(--rename KEY=TERM).",
                code="features-differ",
            )


def _describe(feature: Feature | None) -> str:
    if feature is None:
        return "no such feature"
    terms = ", ".join(f"{path}[{end - start}]" for path, start, end in feature.parts)
    return f"{feature.dtype} {list(feature.shape)} of {terms}"
