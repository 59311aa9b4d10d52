"""LeRobot folders v2.0, v2.1 and v3.0 as recordings: one folder, many episodes, frames streamed from video.

What the importer knows comes from the rows and the files; the metadata are checked against them.
What is not here: the Hub (`trajpipe.hub`), and writing (`trajpipe.export`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trajpipe.core import names
from trajpipe.core.episode import Description, Episode
from trajpipe.core.errors import InputError, TrajpipeError
from trajpipe.core.findings import Finding, Place, Severity
from trajpipe.core.ledger import Rejection
from trajpipe.core.names import Reason, Split
from trajpipe.sources.base import ReadOptions, Source, register
from trajpipe.sources.lerobot_episode import EpisodeReader
from trajpipe.sources.lerobot_features import ACTION, SourceFeature, dimension_names, features_of
from trajpipe.sources.lerobot_folder import INFO, EpisodeMeta, LeRobotMeta, is_lerobot, read_meta
from trajpipe.sources.lerobot_index import RowIndex, index_rows
from trajpipe.sources.quaternion_sites import QuaternionReading

KIND: Final = "lerobot"
_OPTIONS: Final[Mapping[str, tuple[Any, ...]]] = {"state": ("auto", "split", "whole")}
_SPLITS: Final = {"train": Split.TRAIN, "val": Split.VALID, "valid": Split.VALID, "validation": Split.VALID}
_ENV_NAME: Final = "lerobot"


@dataclass(frozen=True, slots=True)
class _Opened:
    """A folder looked through.

    Attributes:
        meta: Its metadata.
        index: Where its rows are.
        features: What is read.
        findings: What was noticed.
    """

    meta: LeRobotMeta
    index: RowIndex
    features: tuple[SourceFeature, ...]
    findings: tuple[Finding, ...]


class LeRobotSource(Source):
    """LeRobot datasets; `detect` looks for `meta/info.json`."""

    kind = KIND
    title = "LeRobot datasets v2.0, v2.1, v3.0 (a folder with meta/info.json)"
    globs = ("*/",)

    def detect(self, path: Path) -> bool:
        """A folder with `meta/info.json`."""
        try:
            return is_lerobot(path)
        except OSError:
            return False

    def describe(self, path: Path, options: ReadOptions) -> Description:
        """Version, rate, features, splits; the index columns of all rows are read.

        Raises:
            UnreadableError: not a LeRobot folder; a file is not finalised (`not-finalised`).
            InputError: metadata of another kind than they must be; no `action`; no episode.
        """
        opened = _open(path, options)
        meta = opened.meta
        return Description(
            kind=KIND,
            episodes=tuple(e.name for e in meta.episodes),
            env_args=_env_args(meta, options),
            fps=meta.fps,
            masks=_masks(meta),
            attributes={"robot_type": str(meta.info.get("robot_type") or "unknown")},
            conventions=_facts(opened, options),
            findings=opened.findings,
        )

    def episodes(self, path: Path, options: ReadOptions) -> Iterator[Episode | Rejection]:
        """Episodes in order of their index; frames are decoded as they are read.

        Raises:
            UnreadableError: as `describe`; a damaged v3 data file.
            InputError: as `describe`.
        """
        opened = _open(path, options)
        with EpisodeReader(
            opened.meta, opened.index, opened.features, _quaternions(path, options), options.report
        ) as reader:
            for episode in opened.meta.episodes:
                yield _one(reader, path, episode, opened, options)


def _open(path: Path, options: ReadOptions) -> _Opened:
    _refuse_unknown_options(path, options)
    meta = read_meta(path)
    if ACTION not in meta.features:
        place, got = Place(INFO, column="features"), ", ".join(meta.features)
        raise InputError(
            "L2 needs actions", place=place, got=got, expected=ACTION, code=Reason.NO_ACTIONS.value
        )
    if not meta.episodes:
        raise InputError("the set has no episodes", place=Place(path.name), code="no-demos")
    index, found = index_rows(meta), list(meta.findings)
    features = features_of(meta, index, str(options.options.get("state", "auto")), found.append)
    return _Opened(meta, index, features, (*found, *index.findings))


def _refuse_unknown_options(path: Path, options: ReadOptions) -> None:
    for name, value in options.options.items():
        if value not in _OPTIONS.get(name, ()):
            listed = "; ".join(f"{n}: {', '.join(v)}" for n, v in _OPTIONS.items())
            raise InputError(
                "not an option of this source",
                place=Place(path.name),
                got=f"{name}: {value!r}",
                expected=listed,
                code="unknown-option",
            )


def _quaternions(path: Path, options: ReadOptions) -> QuaternionReading:
    """Declared sites; LeRobot says nothing about quaternions, so that a site must say its order."""
    conventions = options.conventions
    for site in conventions.quaternions:
        if site.starts and site.order is None and conventions.quaternion_order is None:
            raise InputError(
                "a LeRobot set does not tell the order of its quaternions",
                place=Place(path.name, column=site.path),
                expected="`order: wxyz` or `order: xyzw` at the site",
                code="quaternion-order",
            )
    return QuaternionReading(conventions.quaternions, conventions.quaternion_order or "xyzw", path.name)


def _one(
    reader: EpisodeReader, path: Path, episode: EpisodeMeta, opened: _Opened, options: ReadOptions
) -> Episode | Rejection:
    """An episode, or why it is left out."""
    if episode.index in opened.meta.rejected:
        why = "meta/rejected_episodes.json names it"
        return Rejection(path.name, episode.name, Reason.DECLARED_REJECTED.value, why)
    rejection = opened.index.rejection(path.name, episode)
    if rejection is not None:
        return rejection
    try:
        made = reader.read(episode)
    except TrajpipeError as error:
        return Rejection(path.name, episode.name, error.code, str(error))
    facts = episode.keys
    return Episode(
        name=episode.name,
        length=episode.length,
        columns=made.columns,
        attributes=made.attributes,
        success=made.success,
        success_as=facts.get(names.EPISODE_SUCCESS) is not False,
        task=made.task,
        tag=_tag(path, episode, options),
        alignment=_alignment(episode, options),
        source_file=_base_name(facts.get(names.EPISODE_SOURCE_FILE)) or path.name,
        source_demo=_base_name(facts.get(names.EPISODE_SOURCE_DEMO)) or episode.name,
        source_sha256=options.sha256,
        split=_split_of(opened.meta, episode),
    )


def _base_name(value: Any) -> str:
    return value if isinstance(value, str) and "/" not in value and "\0" not in value else ""


def _tag(path: Path, episode: EpisodeMeta, options: ReadOptions) -> str:
    """The episode's own `source`, when it is one of ours."""
    said = episode.keys.get(names.EPISODE_SOURCE)
    if said is None or said in list(names.Tag):
        return str(said or names.Tag.UNKNOWN)
    place = Place(path.name, episode.name, names.EPISODE_SOURCE)
    message = "a `source` that is none of our tags is kept as unknown"
    options.report(
        Finding("tag-unknown", Severity.WARN, message, place, repr(said)[:60], ", ".join(names.Tag))
    )
    return names.Tag.UNKNOWN.value


def _is_ours(episode: EpisodeMeta) -> bool:
    return isinstance(episode.keys.get(names.EPISODE_CONTENT), str)


def _alignment(episode: EpisodeMeta, options: ReadOptions) -> str | None:
    """Declared; else LeRobot's own, obs before the action, but for our exports, which do not say."""
    declared = options.conventions.alignment
    if declared is not None:
        return str(declared)
    return None if _is_ours(episode) else names.Alignment.BEFORE_ACTION.value


def _split_of(meta: LeRobotMeta, episode: EpisodeMeta) -> str:
    """The episode's own `split`, else info.json's ranges, else train."""
    said = episode.keys.get(names.EPISODE_SPLIT)
    if said in _SPLITS:
        return _SPLITS[str(said)].value
    listed = meta.info.get("splits")
    for name, text in listed.items() if isinstance(listed, dict) else ():
        first, _, last = str(text).partition(":")
        inside = first.isdecimal() and last.isdecimal() and int(first) <= episode.index < int(last)
        if inside and name in _SPLITS:
            return _SPLITS[name].value
    return Split.TRAIN.value


def _masks(meta: LeRobotMeta) -> dict[str, tuple[str, ...]]:
    """Episode names of each split; empty when nothing is for validation."""
    of = {e.name: _split_of(meta, e) for e in meta.episodes}
    if Split.VALID.value not in of.values():
        return {}
    return {split.value: tuple(n for n, s in of.items() if s == split) for split in Split}


def _env_args(meta: LeRobotMeta, options: ReadOptions) -> dict[str, Any]:
    conventions = options.conventions
    if conventions.env_args is not None:
        return dict(conventions.env_args)
    robot = meta.info.get("robot_type")
    own = robot if isinstance(robot, str) and robot else _ENV_NAME
    return {"env_name": conventions.env_name or own}


def _facts(opened: _Opened, options: ReadOptions) -> dict[str, Any]:
    """What was read as what, for the recipe."""
    meta = opened.meta
    state = next((f for f in opened.features if f.name == "observation.state"), None)
    return {
        "layout": meta.layout,
        "version": meta.version,
        "features": {f.name: [p.path for p in f.parts] for f in opened.features},
        "state": [] if state is None else [p.path for p in state.parts],
        "names": dimension_names(meta, opened.features),
        "images": "opencv",
        "images_from": "file",
        "quaternion_order": options.conventions.quaternion_order,
    }


register(LeRobotSource())
