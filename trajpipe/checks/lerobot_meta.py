"""Rules about the metadata of a LeRobot folder: text, layout, counters, episodes, tasks, splits, features.

What is not here: rows (`lerobot_rows`), videos (`lerobot_video`), statistics (`lerobot_stats`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from trajpipe.checks import lerobot_folder as files
from trajpipe.checks.lerobot_folder import LeRobotFolder, folder_of
from trajpipe.checks.registry import Subject, check
from trajpipe.core.findings import Finding, Place, Severity

STAGE: Final = "lerobot"
_INFO: Final = Place(files.INFO)
_BOOKKEEPING: Final = ("timestamp", "frame_index", "episode_index", "index", "task_index")
_IGNORED_FILES: Final = (
    "README.md",
    ".gitattributes",
    "LICENSE",
    "certificate.json",
    "meta/rejected_episodes.json",
)
_DTYPES: Final = re.compile(r"(float(16|32|64)|u?int(8|16|32|64)|bool|string|image|video)")


def error(
    code: str,
    message: str,
    place: Place,
    got: object | None = None,
    expected: object | None = None,
    severity: Severity = Severity.ERROR,
) -> Finding:
    """A finding with its values as text."""
    show = (None if v is None else str(v) for v in (got, expected))
    return Finding(code, severity, message, place, *show)


@check("lerobot-text", stage=STAGE, title="Metadata are strict UTF-8 JSON with LF, no BOM, no NaN")
def text(subject: Subject) -> Iterator[Finding]:
    """Official readers stumble over each of these, or read a NaN statistic silently."""
    folder = folder_of(subject)
    present = [p for p in (subject.path / "meta").glob("*.json*") if p.is_file()]
    subject.count(len(present), len(present), "JSON files")
    for problem in folder.text:
        yield error("lerobot-text", problem.message, Place(problem.file, row=problem.row), problem.got)


@check("lerobot-layout", stage=STAGE, title="The files are those of the declared codebase_version")
def layout(subject: Subject) -> Iterator[Finding]:
    """The files decide, the declaration is compared with them."""
    code, folder = "lerobot-layout", folder_of(subject)
    subject.count(1, 1, "folders")
    known = {"v2": ("v2.0", "v2.1"), "v3": ("v3.0",)}[folder.layout]
    if folder.version not in known:
        message = "codebase_version contradicts the files"
        yield error(code, message, _INFO, repr(folder.version), f"{' or '.join(known)}, as the files say")
    has_stats = (folder.root / files.EPISODES_STATS).is_file()
    if folder.version == "v2.1" and not has_stats:
        yield error(code, "v2.1 has statistics per episode", Place(files.EPISODES_STATS), "no such file")
    if folder.version == "v2.0" and has_stats:
        yield error(
            code, "v2.0 has no statistics per episode", Place(files.EPISODES_STATS), "the file exists"
        )
    if folder.version in ("v2.0", "v3.0") and folder.stats is None:
        yield error(code, "the loaders need stats.json", Place(files.STATS), "no such file")
    required = [files.TASKS_V3, files.EPISODES_V3] if folder.layout == "v3" else [files.EPISODES, files.TASKS]
    for name in required:
        if not (folder.root / name).exists():
            yield error(code, "the loaders need this file", Place(name), "no such file")
    yield from _stray_parts(folder)


def _stray_parts(folder: LeRobotFolder) -> Iterator[Finding]:
    others = (files.EPISODES, files.TASKS, files.EPISODES_STATS) if folder.layout == "v3" else ()
    for name in others:
        if (folder.root / name).exists():
            message = "a file of v2 lies in a v3 folder: a half-done conversion"
            yield error("lerobot-layout", message, Place(name))


@check("lerobot-counters", stage=STAGE, title="info.json's totals equal what is there")
def counters(subject: Subject) -> Iterator[Finding]:
    """LeRobot 0.3.3 trusts wrong totals."""
    folder = folder_of(subject)
    expected: dict[str, Any] = {
        "total_episodes": len(folder.episodes),
        "total_frames": sum(e.length for e in folder.episodes),
        "total_tasks": len(folder.tasks),
    }
    size = folder.info.get("chunks_size")
    if folder.layout == "v2":
        expected["total_videos"] = len(folder.episodes) * len(folder.cameras)
        if isinstance(size, int) and size > 0:
            expected["total_chunks"] = -(-len(folder.episodes) // size)
    for name, value in expected.items():
        if folder.info.get(name) != value or isinstance(folder.info.get(name), bool):
            place = Place(files.INFO, column=name)
            yield error("lerobot-counters", f"{name} is wrong", place, folder.info.get(name), value)
    if not isinstance(size, int) or size < 1:
        place = Place(files.INFO, column="chunks_size")
        yield error("lerobot-counters", "chunks_size is a positive integer", place, repr(size))
    subject.count(len(expected), len(expected), "counters")


@check("lerobot-episodes", stage=STAGE, title="Episodes are numbered 0..N-1 and carry the same keys")
def episodes(subject: Subject) -> Iterator[Finding]:
    """A key missing in the first episode is dropped for all; missing in a later one crashes the converter."""
    code, folder = "lerobot-episodes", folder_of(subject)
    name = files.EPISODES if folder.layout == "v2" else files.EPISODES_V3
    subject.count(len(folder.episodes), len(folder.episodes), "episodes")
    if not folder.episodes:
        yield error(code, "a dataset has at least one episode", Place(name), 0)
        return
    first = folder.episodes[0]
    for row, episode in enumerate(folder.episodes):
        place = Place(name, f"episode {episode.index}", row=row)
        if episode.index != row:
            yield error(code, "episodes are numbered densely, in order", place, episode.index, row)
        if episode.length < 1:
            yield error(code, "an episode has at least one row", place, episode.length)
        if not episode.tasks:
            yield error(code, "an episode lists its tasks", place, "none")
        yield from _same_keys(first.keys, episode.keys, place)


def _same_keys(first: Any, keys: Any, place: Place) -> Iterator[Finding]:
    for key in sorted(set(first) ^ set(keys)):
        where = "later one" if key in first else "first one"
        message = f"every episode has the same keys; {key!r} is missing in the {where}"
        yield error("lerobot-episodes", message, place, ", ".join(keys), ", ".join(first))
    for key in sorted(set(first) & set(keys)):
        if type(first[key]) is not type(keys[key]):
            message = f"{key!r} has one type on every episode"
            got, expected = type(keys[key]).__name__, type(first[key]).__name__
            yield error("lerobot-episodes", message, place, got, expected)


@check("lerobot-tasks", stage=STAGE, title="Tasks are numbered 0..N-1, each text once, each text used")
def tasks(subject: Subject) -> Iterator[Finding]:
    """Texts are compared byte for byte."""
    code, folder = "lerobot-tasks", folder_of(subject)
    name = files.TASKS if folder.layout == "v2" else files.TASKS_V3
    subject.count(len(folder.tasks), len(folder.tasks), "tasks")
    for row, (index, _) in enumerate(folder.tasks):
        if index != row:
            yield error(code, "tasks are numbered densely, in order", Place(name, row=row), index, row)
    for value, count in Counter(t for _, t in folder.tasks).items():
        if count > 1:
            yield error(code, "a task text stands once", Place(name), f"{value!r} {count} times")
    known = {t for _, t in folder.tasks}
    used = {t for e in folder.episodes for t in e.tasks}
    for value in sorted(used - known):
        yield error(code, "an episode names a task that the table lacks", Place(name), repr(value))
    for value in sorted(known - used):
        message = "no episode names this task"
        yield error(code, message, Place(name), repr(value), severity=Severity.WARN)


@check("lerobot-splits", stage=STAGE, title="Splits cover the episodes once, as ranges")
def splits(subject: Subject) -> Iterator[Finding]:
    """`train` first; every episode in exactly one split."""
    code, folder = "lerobot-splits", folder_of(subject)
    place = Place(files.INFO, column="splits")
    value, total = folder.info.get("splits"), len(folder.episodes)
    subject.count(1, 1, "split tables")
    if not isinstance(value, dict) or not value:
        yield error(code, "splits map names to ranges", place, repr(value), '{"train": "0:N"}')
        return
    ranges: list[tuple[int, int, str]] = []
    for name, span in value.items():
        match = re.fullmatch(r"(\d+):(\d+)", str(span))
        if match is None:
            yield error(code, "a split is a range of episodes", place, f"{name}: {span!r}", "start:stop")
            return
        ranges.append((int(match[1]), int(match[2]), str(name)))
    ranges.sort()
    ends = [0, *(stop for _, stop, _ in ranges)]
    if (
        any(start != ends[i] or stop <= start for i, (start, stop, _) in enumerate(ranges))
        or ends[-1] != total
    ):
        got = ", ".join(f"{n} {a}:{b}" for a, b, n in ranges)
        yield error(code, "splits cover every episode exactly once", place, got, f"0:{total} in all")
    yield from _split_keys(folder, ranges)


def _split_keys(folder: LeRobotFolder, ranges: list[tuple[int, int, str]]) -> Iterator[Finding]:
    """Where episodes carry their split, it is the range's (L2 says `valid`, LeRobot `val`)."""
    if len(ranges) < 2:
        return
    for episode in folder.episodes:
        own = episode.keys.get("split")
        names = [n for a, b, n in ranges if a <= episode.index < b]
        if isinstance(own, str) and names and {"valid": "val"}.get(own, own) != names[0]:
            place = Place(files.EPISODES, f"episode {episode.index}", "split")
            yield error("lerobot-splits", "the episode's split is another one's range", place, own, names[0])


@check("lerobot-features", stage=STAGE, title="Features are named, typed and shaped as the loaders expect")
def features(subject: Subject) -> Iterator[Finding]:
    """Names without `/`; `image` in a name means a camera; five bookkeeping columns."""
    code, folder = "lerobot-features", folder_of(subject)
    found = folder.features
    subject.count(len(found), len(found), "features")
    for name in _BOOKKEEPING:
        if name not in found:
            severity = Severity.WARN if name == "frame_index" and folder.version == "v2.0" else Severity.ERROR
            yield error(code, "LeRobot's own column is not declared", _INFO, "none", name, severity)
    for name, spec in found.items():
        place = Place(files.INFO, column=name)
        if "/" in name:
            yield error(code, "a feature name must not hold `/`", place, name)
        yield from _feature(name, spec, place, folder)
    if folder.fps is None:
        yield error(code, "fps is a positive number", Place(files.INFO, column="fps"), folder.info.get("fps"))
    if not found:
        yield error(code, "info.json declares features", _INFO, "none")


def _feature(name: str, spec: dict[str, Any], place: Place, folder: LeRobotFolder) -> Iterator[Finding]:
    code, dtype, shape = "lerobot-features", spec.get("dtype"), spec.get("shape")
    if not isinstance(dtype, str) or not _DTYPES.fullmatch(dtype):
        yield error(code, "the dtype is not one that LeRobot knows", place, repr(dtype))
    if not isinstance(shape, list) or not shape or not all(isinstance(n, int) and n > 0 for n in shape):
        yield error(code, "the shape is a list of positive integers", place, shape)
        return
    camera = dtype in ("image", "video")
    if "image" in name and not camera:
        yield error(code, "a name with `image` in it is a camera", place, dtype, "image or video")
    if camera and (len(shape) != 3 or 3 not in (shape[0], shape[-1])):
        yield error(code, "a camera has three channels", place, shape, "[height, width, 3]")
    names = spec.get("names")
    flat = names[0] if isinstance(names, list) and len(names) == 1 and isinstance(names[0], list) else names
    flat = next(iter(flat.values())) if isinstance(flat, dict) and len(flat) == 1 else flat
    if isinstance(flat, list) and len(shape) == 1 and len(flat) != shape[0]:
        yield error(code, "there is a name for every dimension", place, f"{len(flat)} names", shape[0])
    if dtype == "video":
        yield from _video_info(spec, shape, place, folder)


def _video_info(
    spec: dict[str, Any], shape: list[int], place: Place, folder: LeRobotFolder
) -> Iterator[Finding]:
    info = spec.get("info") if isinstance(spec.get("info"), dict) else spec.get("video_info")
    if not isinstance(info, dict):
        yield error("lerobot-features", "a video feature carries `info`", place, "none")
        return
    fps = info.get("video.fps")
    if folder.fps is not None and (not isinstance(fps, (int, float)) or abs(fps - float(folder.fps)) > 1e-6):
        yield error("lerobot-features", "video.fps equals fps", place, fps, float(folder.fps))
    for key, axis in (("video.height", 0), ("video.width", 1), ("video.channels", 2)):
        if key in info and shape[-1] == 3 and info[key] != shape[axis]:
            yield error("lerobot-features", f"{key} equals the shape", place, info[key], shape[axis])


@check("lerobot-orphans", stage=STAGE, title="Every file belongs to an episode, every episode has its files")
def orphans(subject: Subject) -> Iterator[Finding]:
    """Files that nothing names are remains; files that are named and absent break the loaders."""
    code, folder = "lerobot-orphans", folder_of(subject)
    wanted: set[str] = set()
    for episode in folder.episodes:
        wanted.add(folder.relative(folder.data_file(episode)))
        wanted |= {folder.relative(folder.video_file(camera, episode)) for camera in folder.cameras}
    present = {folder.relative(p) for p in folder.root.rglob("*") if p.is_file()}
    meta = {n for n in present if n.startswith("meta/")}
    own = meta & _meta_files(folder, meta)
    subject.count(len(present), len(present), "files")
    for name in sorted(wanted - present):
        yield error(code, "a file that the metadata name is missing", Place(name), "no such file")
    for name in sorted(present - wanted - own - set(_IGNORED_FILES)):
        yield error(code, "no episode names this file", Place(name), severity=Severity.WARN)


def _meta_files(folder: LeRobotFolder, present: set[str]) -> set[str]:
    common = {files.INFO, files.STATS, files.MODALITY, "meta/relative_stats.json"}
    if folder.layout == "v2":
        return common | {files.EPISODES, files.TASKS, files.EPISODES_STATS}
    return (
        common
        | {files.TASKS_V3, "meta/subtasks.parquet"}
        | {n for n in present if n.startswith("meta/episodes/") and n.endswith(".parquet")}
    )
