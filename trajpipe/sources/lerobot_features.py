"""Which L2 paths a LeRobot folder's features become, and their rows as arrays.

`action` → `actions`; `next.reward|done|truncated` → `rewards|dones|truncated`; cameras and every other
feature become obs terms, `observation.images.` and `observation.` taken off. `observation.state` becomes the
terms that `meta/modality.json` tiles it with, else one term `state`. Text becomes a number and a table.
What is not here: where rows and frames are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from trajpipe.core import names
from trajpipe.core.errors import InputError, SchemaError
from trajpipe.core.findings import Finding, Place, Severity
from trajpipe.sources.lerobot_folder import INFO, MODALITY, LeRobotMeta
from trajpipe.sources.lerobot_index import RowIndex
from trajpipe.sources.lerobot_text import Report

STATE: Final = "observation.state"
ACTION: Final = "action"
BOOKKEEPING: Final = ("timestamp", "frame_index", "episode_index", "index", "task_index")
_PREFIXES: Final = ("observation.images.", "observation.")
_PLAIN: Final = {
    ACTION: names.DATASET_ACTIONS,
    "next.reward": "rewards",
    "next.done": "dones",
    "next.truncated": "truncated",
}
_OBS: Final = names.GROUP_OBS + "/"
Kind = Literal["rows", "video", "image", "text"]


@dataclass(frozen=True, slots=True)
class Part:
    """One L2 column of a feature.

    Attributes:
        path: L2 path.
        start: First dimension.
        stop: One past the last; None = all.
    """

    path: str
    start: int = 0
    stop: int | None = None


@dataclass(frozen=True, slots=True)
class SourceFeature:
    """One feature that is read.

    Attributes:
        name: LeRobot's name.
        kind: `rows` (numbers), `video`, `image` (encoded pictures in the rows) or `text`.
        parts: What it becomes.
    """

    name: str
    kind: Kind
    parts: tuple[Part, ...]


def features_of(meta: LeRobotMeta, index: RowIndex, state: str, report: Report) -> tuple[SourceFeature, ...]:
    """The features that can be read; those that cannot are reported and left out.

    Args:
        meta: The folder's metadata.
        index: Which columns the data files have.
        state: `auto`, `split` (by modality.json) or `whole`.
        report: Called for each feature that is left out.

    Raises:
        InputError: `split` is asked for and modality.json does not tile `observation.state`.
    """
    terms = state_terms(meta, state)
    found: list[SourceFeature] = []
    taken: set[str] = {p.path for p in terms}
    for name, spec in meta.features.items():
        kind = _kind(meta, index, name, spec, report)
        if kind is None or name in BOOKKEEPING:
            continue
        parts = terms if name == STATE and kind == "rows" else (Part(_path(name, kind, taken)),)
        taken |= {p.path for p in parts}
        found.append(SourceFeature(name, kind, parts))
    undeclared = [c for c in index.columns if c not in meta.features and c not in BOOKKEEPING]
    if undeclared:
        message = "columns that info.json does not declare are not read"
        report(Finding("column-undeclared", Severity.WARN, message, Place(INFO), ", ".join(undeclared)))
    return tuple(found)


def _kind(
    meta: LeRobotMeta, index: RowIndex, name: str, spec: Mapping[str, Any], report: Report
) -> Kind | None:
    dtype = str(spec.get("dtype"))
    if dtype == "video":
        if _has_videos(meta, name):
            return "video"
        message = "a declared camera has no video files and is left out"
        report(Finding("video-missing", Severity.WARN, message, Place("videos", column=name), "no mp4 file"))
        return None
    if name not in index.columns:
        if name not in BOOKKEEPING:
            message = "a declared feature is in no data file and is left out"
            report(Finding("column-missing", Severity.WARN, message, Place(INFO, column=name), dtype))
        return None
    return "image" if dtype == "image" else "text" if dtype in ("string", "large_string") else "rows"


def _has_videos(meta: LeRobotMeta, camera: str) -> bool:
    return any(_exists(meta, camera, episode) for episode in meta.episodes)


def _exists(meta: LeRobotMeta, camera: str, episode: Any) -> bool:
    try:
        return meta.video_file(camera, episode).is_file()
    except InputError:
        return False


def _path(name: str, kind: Kind, taken: set[str]) -> str:
    if kind == "rows" and name in _PLAIN:
        return _PLAIN[name]
    term = next((name.removeprefix(p) for p in _PREFIXES if name.startswith(p)), name) or name
    tail = "_index" if kind == "text" else ""
    path = _OBS + term + tail
    return path if path not in taken else _OBS + name + tail


def state_terms(meta: LeRobotMeta, state: str) -> tuple[Part, ...]:
    """What `observation.state` becomes: modality.json's parts when they tile it, else `obs/state`.

    Raises:
        InputError: `split` is asked for and they do not.
    """
    whole = (Part(_OBS + "state"),)
    if state == "whole" or STATE not in meta.features:
        return whole
    width, labels = _width(meta), _labels(meta)
    listed = (meta.modality or {}).get("state")
    parts = _tiles(listed, width) if isinstance(listed, dict) else None
    if parts is None and listed is None and _is_ours(meta) and len(labels) == width:
        own = _labelled(labels)
        # Names without `<term>_<i>` are names of joints, and one term.
        return tuple(Part(_OBS + n, a, b) for n, a, b in own) if len(own) < width else whole
    if parts is None:
        if state == "split":
            message = "modality.json's state parts tile observation.state without gap or overlap"
            raise InputError(message, place=MODALITY, got=repr(listed)[:80], expected=f"0..{width}")
        return whole
    return tuple(Part(_OBS + _term(n, labels[a:b]), a, b) for n, a, b in parts)


def _tiles(listed: Mapping[str, Any], width: int) -> list[tuple[str, int, int]] | None:
    """(name, start, end) in order; None when they do not tile the state, or slice another feature."""
    parts = []
    for name, part in listed.items():
        if not isinstance(part, dict) or part.get("original_key", STATE) != STATE:
            return None
        a, b = part.get("start"), part.get("end")
        if not isinstance(a, int) or not isinstance(b, int) or not 0 <= a < b or "/" in name:
            return None
        parts.append((name, a, b))
    parts.sort(key=lambda part: part[1])
    ends = [0, *(b for _, _, b in parts)]
    tiled = bool(parts) and all(part[1] == end for part, end in zip(parts, ends, strict=False))
    return parts if tiled and ends[-1] == width else None


def _term(name: str, labels: list[str]) -> str:
    """The term's whole path when the dimensions are named after it (`group/term_0`), else the part's name."""
    stem = labels[0].removesuffix("_0") if labels else ""
    plain = labels == [stem] or labels == [f"{stem}_{i}" for i in range(len(labels))]
    return stem if plain and stem.rsplit("/", 1)[-1] == name else name


def _is_ours(meta: LeRobotMeta) -> bool:
    """True for our own exports, which name dimensions after their terms (v3.0 has no modality.json)."""
    return all(isinstance(e.keys.get(names.EPISODE_CONTENT), str) for e in meta.episodes)


def _labelled(labels: list[str]) -> list[tuple[str, int, int]]:
    """(term, start, end): `term_0`, `term_1`, … are one term, any other label is a term of one dimension."""
    out: list[tuple[str, int, int]] = []
    for i, label in enumerate(labels):
        if out and label == f"{out[-1][0]}_{i - out[-1][1]}":
            out[-1] = (out[-1][0], out[-1][1], i + 1)
        else:
            out.append((label.removesuffix("_0"), i, i + 1))
    return out


def _width(meta: LeRobotMeta) -> int:
    shape = meta.features[STATE].get("shape")
    return shape[0] if isinstance(shape, list) and len(shape) == 1 and isinstance(shape[0], int) else 0


def _labels(meta: LeRobotMeta, feature: str = STATE) -> list[str]:
    """Names of a feature's dimensions; `names` may be a list, a nested list or an object of lists."""
    found = meta.features[feature].get("names")
    while isinstance(found, dict) and len(found) == 1:
        found = next(iter(found.values()))
    while isinstance(found, list) and len(found) == 1 and isinstance(found[0], list):
        found = found[0]
    return [str(n) for n in found] if isinstance(found, list) else []


def dimension_names(meta: LeRobotMeta, features: tuple[SourceFeature, ...]) -> dict[str, list[str]]:
    """L2 path → names of its dimensions, for rows whose feature names every one of them."""
    out: dict[str, list[str]] = {}
    for feature in (f for f in features if f.kind == "rows"):
        labels, shape = _labels(meta, feature.name), meta.features[feature.name].get("shape")
        if isinstance(shape, list) and shape == [len(labels)]:
            out |= {p.path: labels[p.start : p.stop] for p in feature.parts}
    return out


def rows_of(column: Any, place: Place) -> NDArray[Any]:
    """Rows of an arrow column as an array: (T,) of plain values, (T, n, …) of lists.

    Raises:
        SchemaError: nulls, ragged lists, or what is not numbers (`bad-episode`).
    """
    import pyarrow as pa

    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    shape: tuple[int, ...] = (len(array),)
    while (
        pa.types.is_list(array.type)
        or pa.types.is_large_list(array.type)
        or pa.types.is_fixed_size_list(array.type)
    ):
        array, width = _opened(array, place)
        shape = (*shape, width)
    if array.null_count or not (
        pa.types.is_integer(array.type) or pa.types.is_floating(array.type) or pa.types.is_boolean(array.type)
    ):
        got = f"{array.null_count} nulls in {array.type}" if array.null_count else str(array.type)
        raise SchemaError(
            "a feature holds numbers, none absent", place=place, got=got, code=names.Reason.BAD_EPISODE.value
        )
    return np.asarray(array.to_numpy(zero_copy_only=False)).reshape(shape)


def _opened(array: Any, place: Place) -> tuple[Any, int]:
    """The values of lists of one length, and that length."""
    import pyarrow.compute as pc

    lengths = pc.unique(pc.list_value_length(array)).to_pylist()
    if len(lengths) > 1 or None in lengths:
        raise SchemaError(
            "rows have one width",
            place=place,
            got=f"widths {sorted(map(str, lengths))[:5]}",
            code=names.Reason.RAGGED.value,
        )
    return array.flatten(), int(lengths[0]) if lengths else 0


def text_rows(column: Any) -> tuple[NDArray[np.int32], list[str]]:
    """Text as an index per row, (T,) int32, and the texts in order of first appearance; null is empty."""
    texts = ["" if t is None else str(t) for t in column.to_pylist()]
    table = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    return np.array([table[t] for t in texts], np.int32), list(table)
