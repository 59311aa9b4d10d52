"""Rules that compare a LeRobot dataset with its L2 files: rows bit for bit, frames by PSNR.

L2 is read with h5py, L3 with pyarrow and PyAV; nothing of the exporter. They need the context key `l2`.
What is not here: L2's own rules, see `trajpipe.checks.demos`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import av
import h5py
import numpy as np
from numpy.typing import NDArray

from trajpipe.checks.lerobot_folder import EpisodeLine, LeRobotFolder, episode_tables, folder_of
from trajpipe.checks.lerobot_meta import STAGE, error
from trajpipe.checks.lerobot_rows import matrix
from trajpipe.checks.lerobot_video import spans_of
from trajpipe.checks.registry import Subject, check
from trajpipe.core import names
from trajpipe.core.findings import Finding, Place, Severity
from trajpipe.core.order import natural_sorted
from trajpipe.hdf5.attributes import attributes_of
from trajpipe.hdf5.open_files import OpenFiles

MIN_PSNR_DB: Final = 30.0
_FRAMES_PER_EPISODE: Final = 3
_IMAGES: Final = "observation.images."
_STATE: Final = "observation.state"
_Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class _Demo:
    """Where a demo is, and whether it is known to have succeeded."""

    path: Path
    name: str
    succeeded: bool


@dataclass(slots=True)
class L2Demos:
    """Demos of L2 files by what the export says of them.

    Attributes:
        files: The L2 files, opened as they are asked for.
        demos: (source file, source demo, content hash) → where it is.
        alignments: `obs_alignment` value → demos with it.
    """

    files: OpenFiles
    demos: dict[_Key, _Demo] = field(default_factory=dict)
    alignments: dict[str, int] = field(default_factory=dict)

    @classmethod
    def open(cls, paths: list[Path], stack: ExitStack) -> L2Demos:
        """Look through the files, which stay at hand for the stack's life.

        Raises:
            UnreadableError: a file cannot be opened.
        """
        out = cls(stack.enter_context(OpenFiles()))
        for path in paths:
            data = out.files[Path(path)][names.GROUP_DATA]
            for name in natural_sorted(data):
                attributes = attributes_of(data[name])
                key = (
                    str(attributes.get(names.ATTR_SOURCE_FILE, Path(path).name)),
                    str(attributes.get(names.ATTR_SOURCE_DEMO, name)),
                    str(attributes.get(names.ATTR_CONTENT_SHA256, "")),
                )
                out.demos[key] = _Demo(Path(path), name, _succeeded(attributes))
                alignment = str(attributes.get(names.ATTR_OBS_ALIGNMENT, ""))
                out.alignments[alignment] = out.alignments.get(alignment, 0) + 1
        return out

    def of(self, episode: EpisodeLine) -> h5py.Group | None:
        """The demo of an exported episode, valid until the next ones are asked for."""
        found = self.demos.get(_key(episode))
        return None if found is None else self.files[found.path][names.GROUP_DATA][found.name]


def _key(episode: EpisodeLine) -> _Key:
    wanted = (names.EPISODE_SOURCE_FILE, names.EPISODE_SOURCE_DEMO, names.EPISODE_CONTENT)
    file, demo, content = (str(episode.keys.get(k, "")) for k in wanted)
    return file, demo, content


@check("lerobot-equals-l2", stage=STAGE, title="Rows equal L2 bit for bit, frames above 30 dB", needs=("l2",))
def equals_l2(subject: Subject) -> Iterator[Finding]:
    """Rows after the declared cast; first, middle and last frame of every episode and camera."""
    folder = folder_of(subject)
    with ExitStack() as stack:
        demos = L2Demos.open(list(subject.context["l2"]), stack)
        yield from _same_episodes(folder, demos, subject)
        compared = 0
        for finding, rows in _compare_rows(folder, demos, subject.context):
            compared += rows
            if finding is not None:
                yield finding
        total = sum(e.length for e in folder.episodes)
        subject.count(compared, total, "rows")
        yield from _compare_frames(folder, demos, subject)


def _same_episodes(folder: LeRobotFolder, demos: L2Demos, subject: Subject) -> Iterator[Finding]:
    """No episode lost, none invented, each with its own task, tag and success."""
    code, exported = "lerobot-equals-l2", {_key(e) for e in folder.episodes}
    if len(exported) != len(folder.episodes):
        yield error(
            code, "two episodes come from one demo", Place("meta"), len(folder.episodes), len(exported)
        )
    for episode in folder.episodes:
        demo = demos.of(episode)
        place = Place("meta", f"episode {episode.index}")
        if demo is None:
            yield error(code, "no L2 demo has this source and content", place, " · ".join(_key(episode)))
            continue
        yield from _same_facts(episode, attributes_of(demo), place)
    chosen = bool(subject.context.get("successful_only"))
    for key, demo in demos.demos.items():
        if key not in exported and not (chosen and not demo.succeeded):
            yield error(code, "an L2 demo is missing in the export", Place(key[0], key[1]), "not exported")


def _succeeded(attributes: Mapping[str, Any]) -> bool:
    return bool(attributes.get(names.ATTR_SUCCESS)) and bool(attributes.get(names.ATTR_SUCCESS_KNOWN, True))


def _same_facts(episode: EpisodeLine, attributes: Mapping[str, Any], place: Place) -> Iterator[Finding]:
    pairs = [
        (names.EPISODE_SOURCE, attributes.get(names.ATTR_SOURCE)),
        (names.EPISODE_SUCCESS, attributes.get(names.ATTR_SUCCESS)),
        (names.EPISODE_SUCCESS_KNOWN, attributes.get(names.ATTR_SUCCESS_KNOWN)),
    ]
    for key, value in pairs:
        if value is not None and episode.keys.get(key) != value:
            yield error("lerobot-equals-l2", f"{key} is L2's", place, episode.keys.get(key), value)
    task = attributes.get(names.ATTR_TASK)
    if task and len(episode.tasks) == 1 and episode.tasks[0] != task:
        yield error(
            "lerobot-equals-l2", "the task is L2's, byte for byte", place, repr(episode.tasks[0]), repr(task)
        )


def _compare_rows(
    folder: LeRobotFolder, demos: L2Demos, context: Mapping[str, Any]
) -> Iterator[tuple[Finding | None, int]]:
    """Findings, and how many rows were compared."""
    by_index = {e.index: e for e in folder.episodes}
    for path, index, table in episode_tables(folder):
        episode = by_index.get(-1 if index is None else index)
        demo = demos.of(episode) if episode is not None else None
        if episode is None or demo is None:
            continue
        place = Place(folder.relative(path), f"episode {episode.index}")
        terms = row_terms(folder, demo, context)
        for name in ("action", _STATE):
            if name in folder.features and name not in terms:
                message = "the L2 terms of this feature cannot be told from its names"
                yield error("lerobot-equals-l2", message, place, name), 0
        for name, paths in terms.items():
            column = matrix(table[name]) if name in table.column_names else None
            finding = _compare_column(demo, paths, column, Place(place.file, place.demo, name))
            if finding is not None:
                yield finding, 0
        yield None, table.num_rows


def row_terms(folder: LeRobotFolder, demo: h5py.Group, context: Mapping[str, Any]) -> dict[str, list[str]]:
    """Feature → L2 paths that it concatenates: from the context, modality.json, or the dimensions' names."""
    out: dict[str, list[str]] = {}
    if "action" in folder.features:
        out["action"] = [str(context.get("action", names.DATASET_ACTIONS))]
    if _STATE in folder.features:
        terms = context.get("state") or _modality_terms(folder)
        terms = terms or _named_terms(folder, demo, context.get("names") or {})
        if terms:
            out[_STATE] = [f"{names.GROUP_OBS}/{term}" for term in terms]
    extras = context.get("extras")
    if isinstance(extras, Mapping):
        out |= {str(name): [str(path)] for name, path in extras.items()}
    return out


def _modality_terms(folder: LeRobotFolder) -> list[str]:
    parts = (folder.modality or {}).get("state")
    if not isinstance(parts, dict):
        return []
    return sorted(parts, key=lambda name: int(parts[name].get("start", 0)))


def _named_terms(folder: LeRobotFolder, demo: h5py.Group, declared: Mapping[str, Any]) -> list[str]:
    """Terms whose names make up the feature's from left to right, each term once; [] when none do.

    A term's names are the declared ones, else `<term>` or `<term>_<i>`. Of several readings the first in
    natural order of the terms is taken, which is the exporter's own order.
    """
    wanted = folder.features[_STATE].get("names")
    obs = demo.get(names.GROUP_OBS)
    if not isinstance(wanted, list) or not isinstance(obs, h5py.Group):
        return []
    labels: dict[str, list[str]] = {}
    for term in natural_sorted(obs):
        if isinstance(obs[term], h5py.Dataset) and obs[term].ndim <= 2:
            width = 1 if obs[term].ndim == 1 else int(obs[term].shape[1])
            own = [term] if width == 1 else [f"{term}_{i}" for i in range(width)]
            labels[term] = [str(n) for n in declared.get(term) or own]
    return tiling(wanted, labels)


def tiling(wanted: list[Any], labels: Mapping[str, list[str]]) -> list[str]:
    """The first terms whose labels, one after another, are all that is wanted."""
    open_ends: list[list[str]] = [[]]
    while open_ends:
        taken = open_ends.pop()
        start = sum(len(labels[t]) for t in taken)
        if start == len(wanted):
            return taken
        fits = [
            t
            for t, label in labels.items()
            if t not in taken and label and wanted[start:][: len(label)] == label
        ]
        open_ends += [[*taken, term] for term in reversed(fits)]
    return []


def _compare_column(
    demo: h5py.Group, paths: list[str], column: NDArray[Any] | None, place: Place
) -> Finding | None:
    code = "lerobot-equals-l2"
    if column is None:
        return error(code, "the column is missing or ragged", place, "none")
    absent = [p for p in paths if p not in demo]
    if absent:
        return error(code, "L2 has no such term", place, absent[0], ", ".join(natural_sorted(demo)))
    parts = [np.asarray(demo[p][()]).reshape(demo[p].shape[0], -1) for p in paths]
    expected = np.concatenate([p.astype(column.dtype) for p in parts], axis=1)
    if expected.shape != column.shape:
        return error(code, "rows and width equal L2's", place, column.shape, expected.shape)
    width = column.dtype.itemsize
    same = np.ascontiguousarray(column).view(f"V{width}") == np.ascontiguousarray(expected).view(f"V{width}")
    if same.all():
        return None
    row, dimension = (int(i) for i in np.argwhere(~same)[0])
    where = Place(place.file, place.demo, place.column, row)
    message = f"{int((~same).sum())} values differ from L2; the first in dimension {dimension}"
    got, wanted = column[row, dimension].item(), expected[row, dimension].item()
    return error(code, message, where, repr(got), repr(wanted))


def _compare_frames(folder: LeRobotFolder, demos: L2Demos, subject: Subject) -> Iterator[Finding]:
    bound = float(subject.context.get("psnr", MIN_PSNR_DB))
    worst = np.inf
    for camera in folder.cameras:
        term = f"{names.GROUP_OBS}/{camera.removeprefix(_IMAGES)}"
        for path, spans in spans_of(folder, camera).items():
            with av.open(str(path)) as container:
                for span in spans:
                    demo = demos.of(span.episode)
                    if demo is None or span.episode.length < 1:
                        continue
                    place = Place(folder.relative(path), f"episode {span.episode.index}", camera)
                    if term not in demo:
                        yield error("lerobot-equals-l2", "L2 has no such camera", place, term)
                        continue
                    for row in _sample(span.episode.length):
                        frame = frame_at(container, span.first + row, folder.fps or Fraction(1))
                        value = psnr(frame, demo[term][row])
                        worst = min(worst, value)
                        if value < bound:
                            where = Place(place.file, place.demo, camera, row)
                            message = "the frame differs from L2's"
                            yield error(
                                "lerobot-equals-l2", message, where, f"{value:.1f} dB", f"≥ {bound:g} dB"
                            )
    if np.isfinite(worst):
        subject.measures["worst frame, dB"] = round(float(worst), 2)


def _sample(length: int) -> list[int]:
    return sorted({int(i) for i in np.linspace(0, length - 1, _FRAMES_PER_EPISODE)})


def frame_at(container: Any, number: int, fps: Fraction) -> NDArray[np.uint8]:
    """The frame shown at number / fps as (H, W, 3) RGB; black of no size when there is none."""
    stream = container.streams.video[0]
    target = Fraction(number) / fps
    container.seek(int(target / stream.time_base), stream=stream, backward=True)
    for frame in container.decode(stream):
        if abs(frame.pts * Fraction(frame.time_base) - target) < Fraction(1, 2) / fps:
            picture: NDArray[np.uint8] = frame.to_ndarray(format="rgb24")
            return picture
    return np.zeros((0, 0, 3), np.uint8)


def psnr(found: NDArray[np.uint8], wanted: NDArray[np.uint8]) -> float:
    """Peak signal-to-noise ratio in dB; 0 when the sizes differ. Grey is repeated, alpha left out."""
    if wanted.shape[-1] == 1:
        wanted = np.repeat(wanted, 3, axis=-1)
    wanted = wanted[..., :3]
    if found.shape != wanted.shape:
        return 0.0
    difference = found.astype(np.float64) - wanted
    error_ = float((difference * difference).mean())
    return float("inf") if error_ == 0 else 10 * float(np.log10(255**2 / error_))


@check(
    "lerobot-alignment",
    stage=STAGE,
    title="Observations precede the action that they are paired with",
    blocking=False,
    needs=("l2",),
)
def alignment(subject: Subject) -> Iterator[Finding]:
    """An `after_action` dataset exported unshifted is legal, and the published baselines use it; say so."""
    with ExitStack() as stack:
        found = L2Demos.open(list(subject.context["l2"]), stack).alignments
    total = sum(found.values())
    subject.count(total, total, "demos")
    after = found.get(names.Alignment.AFTER_ACTION, 0)
    if after:
        message = "obs[t] follows actions[t]; `align: causal` shifts it"
        got, place = f"{after} of {total} demos after_action", Place(column=names.ATTR_OBS_ALIGNMENT)
        yield error("lerobot-alignment", message, place, got, severity=Severity.WARN)
    if len(found) > 1:
        message = "demos of one dataset have different alignments"
        listed = ", ".join(f"{k or 'unknown'}: {n}" for k, n in sorted(found.items()))
        yield error("lerobot-alignment", message, Place(), listed, severity=Severity.WARN)
