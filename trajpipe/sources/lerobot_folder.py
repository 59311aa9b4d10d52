"""A LeRobot folder's metadata, v2.0, v2.1 or v3.0: layout, features, episodes, tasks, file paths.

The layout is told by the files, `codebase_version` comes second. Shares no code with the exporter.
What is not here: rows (`lerobot_index`), frames (`lerobot_video`), L2 names of features (`lerobot_features`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, Literal

from trajpipe.core.errors import InputError, UnreadableError, UntrustedError
from trajpipe.core.findings import Finding, Place, Severity
from trajpipe.sources.lerobot_parquet import open_parquet, read_group
from trajpipe.sources.lerobot_text import Report, read_lines, read_object

INFO: Final = "meta/info.json"
EPISODES: Final = "meta/episodes.jsonl"
TASKS: Final = "meta/tasks.jsonl"
EPISODES_V3: Final = "meta/episodes"
TASKS_V3: Final = "meta/tasks.parquet"
MODALITY: Final = "meta/modality.json"
REJECTED: Final = "meta/rejected_episodes.json"
_DATA: Final = {
    "v2": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
    "v3": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
}
_VIDEO: Final = {
    "v2": "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
    "v3": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
}
_FIELD: Final = re.compile(r"\{(\w+)(?::0?(\d{1,2})d)?\}")
_OWN_KEYS: Final = ("episode_index", "length", "tasks", "dataset_from_index", "dataset_to_index")
_OWN_PREFIXES: Final = ("stats/", "data/", "videos/", "meta/")
_BROADCAST: Final = 1001
Layout = Literal["v2", "v3"]


@dataclass(frozen=True, slots=True)
class EpisodeMeta:
    """One episode as the metadata tell it.

    Attributes:
        index: `episode_index`.
        length: Rows.
        tasks: Texts.
        keys: Every key of its line or row but statistics.
    """

    index: int
    length: int
    tasks: tuple[str, ...]
    keys: Mapping[str, Any]

    @property
    def name(self) -> str:
        """`episode_000012`."""
        return f"episode_{self.index:06d}"

    @property
    def extra(self) -> dict[str, Any]:
        """Keys that the format does not define."""
        return {k: v for k, v in self.keys.items() if k not in _OWN_KEYS and not k.startswith(_OWN_PREFIXES)}


@dataclass(frozen=True, slots=True)
class LeRobotMeta:
    """The metadata of a folder.

    Attributes:
        root: The folder.
        layout: `v2` or `v3`, told by the files.
        info: info.json.
        episodes: By index, in order.
        tasks: Task index → text.
        modality: modality.json; None when absent.
        rejected: Indices that `rejected_episodes.json` names.
        findings: What was forgiven or contradicts itself.
    """

    root: Path
    layout: Layout
    info: Mapping[str, Any]
    episodes: tuple[EpisodeMeta, ...]
    tasks: Mapping[int, str]
    modality: Mapping[str, Any] | None = None
    rejected: frozenset[int] = frozenset()
    findings: tuple[Finding, ...] = ()

    @property
    def version(self) -> str:
        """`codebase_version` as declared."""
        return str(self.info.get("codebase_version", ""))

    @property
    def features(self) -> dict[str, Mapping[str, Any]]:
        """Features of info.json, in its order."""
        return dict(self.info["features"])

    @property
    def fps(self) -> Fraction:
        """Declared rate; 29.97 is the broadcast rate 30000/1001 that it stands for."""
        return exact_rate(self.info["fps"])

    def relative(self, path: Path) -> str:
        """A path below the folder, for messages."""
        return path.relative_to(self.root).as_posix()

    def data_file(self, episode: EpisodeMeta) -> Path:
        """Where a v2 episode's rows are."""
        return self._path("data_path", _DATA[self.layout], self._v2_values(episode))

    def video_file(self, camera: str, episode: EpisodeMeta) -> Path:
        """Where an episode's frames of a camera are.

        Raises:
            InputError: a v3 episode does not say (`bad-metadata`).
        """
        values: dict[str, Any] = {"video_key": camera}
        if self.layout == "v2":
            values |= self._v2_values(episode)
        else:
            for name in ("chunk_index", "file_index"):
                values[name] = _required(episode.keys.get(f"videos/{camera}/{name}"), name, episode, camera)
        return self._path("video_path", _VIDEO[self.layout], values)

    def first_frame(self, camera: str, episode: EpisodeMeta) -> int:
        """Number of an episode's first frame in its file; rounded, since floor is wrong for most episodes."""
        if self.layout == "v2":
            return 0
        start = episode.keys.get(f"videos/{camera}/from_timestamp")
        if isinstance(start, bool) or not isinstance(start, (int, float)) or not 0 <= start < 1e9:
            raise _bad_key(f"videos/{camera}/from_timestamp", start, episode, "seconds, 0 or more")
        return round(Fraction(start) * self.fps)

    def _v2_values(self, episode: EpisodeMeta) -> dict[str, Any]:
        size = self.info.get("chunks_size", 1000)
        whole = isinstance(size, int) and not isinstance(size, bool) and size > 0
        return {"episode_chunk": episode.index // (size if whole else 1000), "episode_index": episode.index}

    def _path(self, key: str, default: str, values: Mapping[str, Any]) -> Path:
        """A template filled in: names and zero-padded numbers only, and never out of the folder."""
        template = self.info.get(key) or default
        if not isinstance(template, str) or set("{}") & set(_FIELD.sub("", template)):
            raise InputError("not a path template", place=Place(INFO, column=key), got=repr(template))

        def fill(match: re.Match[str]) -> str:
            name, width = match.group(1), match.group(2)
            if name not in values:
                place, known = Place(INFO, column=key), ", ".join(sorted(values))
                raise InputError(
                    "the template names what is not known", place=place, got=name, expected=known
                )
            return str(values[name]).zfill(int(width or 0))

        path = self.root / _FIELD.sub(fill, template)
        if not path.resolve().is_relative_to(self.root.resolve()):
            raise UntrustedError(
                "a path template leads out of the folder", place=Place(INFO, column=key), got=template
            )
        return path


def exact_rate(fps: int | float) -> Fraction:
    """Frames per second as the fraction that a JSON number stands for (29.97 → 30000/1001)."""
    plain = Fraction(str(fps))
    nominal = Fraction(round(float(fps) * _BROADCAST / 1000) * 1000, _BROADCAST)
    near = plain.denominator != 1 and nominal and abs(float(nominal) - float(fps)) < 6e-4
    return nominal if near else plain.limit_denominator(1_000_000)


def is_lerobot(path: Path) -> bool:
    """True for a folder with `meta/info.json`."""
    return path.is_dir() and (path / INFO).is_file()


def read_meta(root: Path) -> LeRobotMeta:
    """Read a folder's metadata.

    Raises:
        UnreadableError: no LeRobot folder, or a parquet file of `meta/` is not finalised.
        InputError: a required key is absent or of another kind; an index is out of range or repeated;
            every episode is rejected.
    """
    if not is_lerobot(root):
        raise UnreadableError("a LeRobot folder has meta/info.json", place=root, code="not-lerobot")
    found: list[Finding] = []
    info = read_object(root, INFO, found.append) or {}
    _check_info(info)
    layout = _layout(root, info, found.append)
    if layout == "v3":
        episodes, tasks = _episodes_v3(root), _tasks_v3(root)
    else:
        episodes, tasks = _episodes_v2(root, found.append), _tasks_v2(root, found.append)
    _check_episodes(episodes, info, found.append)
    return LeRobotMeta(
        root=root,
        layout=layout,
        info=info,
        episodes=tuple(sorted(episodes, key=lambda e: e.index)),
        tasks=tasks,
        modality=read_object(root, MODALITY, found.append),
        rejected=_rejected(root, episodes, found.append),
        findings=tuple(found),
    )


def _check_info(info: Mapping[str, Any]) -> None:
    fps, features = info.get("fps"), info.get("features")
    if isinstance(fps, bool) or not isinstance(fps, (int, float)) or not 0 < fps < 1e6:
        raise InputError(
            "info.json needs a rate", place=Place(INFO, column="fps"), got=fps, code="bad-metadata"
        )
    objects = isinstance(features, dict) and all(isinstance(f, dict) for f in features.values())
    if not objects or not features:
        place = Place(INFO, column="features")
        raise InputError(
            "info.json needs features", place=place, got=repr(features)[:60], code="bad-metadata"
        )


def _layout(root: Path, info: Mapping[str, Any], report: Report) -> Layout:
    """v3 when its metadata files are there; a `codebase_version` that says otherwise is reported."""
    marks: dict[Layout, bool] = {
        "v3": (root / EPISODES_V3).is_dir() or (root / TASKS_V3).is_file(),
        "v2": (root / EPISODES).is_file() or (root / TASKS).is_file(),
    }
    found = [layout for layout, there in marks.items() if there]
    declared: Layout = "v3" if str(info.get("codebase_version", "")).startswith("v3") else "v2"
    if not found:
        expected = f"{EPISODES} (v2.x) or {EPISODES_V3}/ (v3.0)"
        raise UnreadableError(
            "the folder has no episodes' metadata", place=root.name, expected=expected, code="missing-file"
        )
    layout = declared if declared in found else found[0]
    if len(found) > 1 or layout != declared:
        message = "codebase_version and the files disagree; the files count"
        if len(found) > 1:
            message = "the folder has the metadata of two layouts; the declared one is read"
        got, wanted = f"{info.get('codebase_version')!r}", f"files of {' and '.join(found)}"
        report(Finding("layout-contradiction", Severity.WARN, message, Place(INFO), got, wanted))
    return layout


def _episodes_v2(root: Path, report: Report) -> list[EpisodeMeta]:
    return [_episode(row, Place(EPISODES, row=i)) for i, row in enumerate(read_lines(root, EPISODES, report))]


def _episodes_v3(root: Path) -> list[EpisodeMeta]:
    """All rows of meta/episodes; the many columns of statistics are never read."""
    out: list[EpisodeMeta] = []
    for path in sorted((root / EPISODES_V3).rglob("*.parquet")):
        name = path.relative_to(root).as_posix()
        file = open_parquet(path, name)
        wanted = [c for c in file.schema_arrow.names if not c.startswith("stats/")]
        for group in range(file.metadata.num_row_groups):
            rows = read_group(file, group, wanted, name).to_pylist()
            out += [_episode(row, Place(name)) for row in rows]
        file.close()
    return out


def _episode(row: Mapping[str, Any], place: Place) -> EpisodeMeta:
    for key in ("episode_index", "length"):
        value = row.get(key)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 40:
            where = Place(place.file, column=key, row=place.row)
            raise InputError(
                "an episode's metadata needs a count", place=where, got=repr(value), code="bad-metadata"
            )
    tasks = row.get("tasks")
    texts = tuple(t for t in tasks if isinstance(t, str)) if isinstance(tasks, list) else ()
    return EpisodeMeta(row["episode_index"], row["length"], texts, dict(row))


def _tasks_v2(root: Path, report: Report) -> dict[int, str]:
    if not (root / TASKS).is_file():
        return {}
    return _task_table([(r.get("task_index"), r.get("task")) for r in read_lines(root, TASKS, report)], TASKS)


def _tasks_v3(root: Path) -> dict[int, str]:
    """The text is the pandas index (`task` or `__index_level_0__`) or a plain column `task`."""
    if not (root / TASKS_V3).is_file():
        return {}
    file = open_parquet(root / TASKS_V3, TASKS_V3)
    columns = file.schema_arrow.names
    text = next((c for c in ("task", "__index_level_0__") if c in columns), None)
    if text is None or "task_index" not in columns:
        expected = "task_index, and the text in task or __index_level_0__"
        raise InputError(
            "tasks.parquet has other columns", place=TASKS_V3, got=", ".join(columns), expected=expected
        )
    rows: list[tuple[Any, Any]] = []
    for group in range(file.metadata.num_row_groups):
        table = read_group(file, group, [text, "task_index"], TASKS_V3)
        rows += zip(table["task_index"].to_pylist(), table[text].to_pylist(), strict=True)
    file.close()
    return _task_table(rows, TASKS_V3)


def _task_table(rows: list[tuple[Any, Any]], name: str) -> dict[int, str]:
    out: dict[int, str] = {}
    for number, (index, text) in enumerate(rows):
        place = Place(name, row=number)
        if isinstance(index, bool) or not isinstance(index, int) or not isinstance(text, str):
            raise InputError(
                "a task is an index and a text", place=place, got=repr((index, text)), code="bad-metadata"
            )
        if out.setdefault(index, text) != text:
            raise InputError(
                "a task index has one text", place=place, got=text, expected=out[index], code="bad-metadata"
            )
    return out


def _check_episodes(episodes: list[EpisodeMeta], info: Mapping[str, Any], report: Report) -> None:
    seen: set[int] = set()
    for episode in episodes:
        if episode.index in seen:
            place = Place(demo=episode.name)
            raise InputError("an episode index is given once", place=place, got="twice", code="bad-metadata")
        seen.add(episode.index)
    for key, truth in (("total_episodes", len(episodes)), ("total_frames", sum(e.length for e in episodes))):
        if info.get(key) != truth:
            message, place = f"{key} is not what the episodes' metadata add up to", Place(INFO, column=key)
            report(Finding("total-wrong", Severity.WARN, message, place, str(info.get(key)), str(truth)))


def _rejected(root: Path, episodes: list[EpisodeMeta], report: Report) -> frozenset[int]:
    value = read_object(root, REJECTED, report)
    if value is None:
        return frozenset()
    listed, known = value.get("rejected_episodes"), {e.index for e in episodes}
    whole = isinstance(listed, list) and all(isinstance(i, int) and not isinstance(i, bool) for i in listed)
    if not isinstance(listed, list) or not whole or not set(listed) <= known:
        raise InputError(
            "rejected_episodes lists episode indices of this set",
            place=REJECTED,
            got=repr(listed)[:80],
            expected=f"some of 0..{max(known, default=0)}",
            code="bad-rejected-episodes",
        )
    if known and set(listed) == known:
        raise InputError(
            "every episode is rejected",
            place=REJECTED,
            got=f"{len(known)} of {len(known)}",
            code="all-rejected",
        )
    return frozenset(listed)


def _required(value: Any, name: str, episode: EpisodeMeta, camera: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 31:
        raise _bad_key(f"videos/{camera}/{name}", value, episode, "a whole number")
    return value


def _bad_key(key: str, value: Any, episode: EpisodeMeta, expected: str) -> InputError:
    place = Place(EPISODES_V3, episode.name, key)
    return InputError(
        "the episode's metadata need this",
        place=place,
        got=repr(value),
        expected=expected,
        code="bad-metadata",
    )
