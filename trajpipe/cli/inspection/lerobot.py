"""LeRobot folders v2.0, v2.1 and v3.0: features, episodes, tasks, files, ranges of `action`.

What is not here: whether they are valid; validity is `trajpipe check`'s.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trajpipe.cli.formatting import count, listed, size
from trajpipe.cli.inspection.model import Attribute, Episodes, Inspection, Layout, Node, Ranges
from trajpipe.cli.kinds import LEROBOT_INFO
from trajpipe.core import names
from trajpipe.core.errors import InputError, UnreadableError
from trajpipe.core.order import natural_sorted
from trajpipe.core.progress import Progress


def inspect_lerobot(folder: Path, found: Inspection, progress: Progress) -> None:
    """Fill in features, episodes, tasks, files and action ranges."""
    info = read_json(folder / LEROBOT_INFO)
    version = str(info.get("codebase_version", "unknown version"))
    found.title = f"LeRobot dataset {version}"
    for key, value in info.items():
        if key not in ("features", "codebase_version", "splits") and not isinstance(value, (dict, list)):
            found.facts[key] = value
    found.layouts = [Layout("features of each frame", [_node(n, f) for n, f in _features(info).items()])]
    records = list(_episode_records(folder))
    found.episodes = _episodes(records, info, folder)
    _count_files(folder, found)
    _measure(folder, info, found, progress)
    if (folder / "meta/modality.json").is_file():
        found.attributes.append(
            Attribute("meta", "modality.json", json.dumps(read_json(folder / "meta/modality.json")))
        )


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object of a file, a byte-order mark allowed.

    Raises:
        InputError: it is not a JSON object.
    """
    try:
        value = json.loads(path.read_text("utf-8-sig"))
    except (ValueError, UnicodeDecodeError) as error:
        raise InputError("the file must hold JSON", place=path, got=error) from error
    if not isinstance(value, dict):
        raise InputError("the file must hold a JSON object", place=path, got=type(value).__name__)
    return value


def _features(info: dict[str, Any]) -> dict[str, dict[str, Any]]:
    features = info.get("features")
    found = features if isinstance(features, dict) else {}
    return {name: value for name, value in found.items() if isinstance(value, dict)}


def _node(name: str, feature: dict[str, Any]) -> Node:
    shape = tuple(int(n) for n in feature.get("shape") or () if isinstance(n, int))
    video = feature.get("info") or feature.get("video_info") or {}
    note = " ".join(str(video[k]) for k in ("video.codec", "video.pix_fmt") if k in video)
    return Node(name, str(feature.get("dtype", "?")), ("N", *shape), note=note or listed(_names(feature), 3))


def _names(feature: dict[str, Any]) -> list[str]:
    """Names of a feature's dimensions, whatever nesting their writer chose."""
    value = feature.get("names")
    while isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    while isinstance(value, list) and len(value) == 1 and isinstance(value[0], list):
        value = value[0]
    return [str(v) for v in value] if isinstance(value, list) else []


def _episode_records(folder: Path) -> Iterator[dict[str, Any]]:
    """The records of `episodes.jsonl`, or of v3's `meta/episodes` without its statistics."""
    lines = folder / "meta/episodes.jsonl"
    if lines.is_file():
        yield from read_lines(lines)
        return
    import pyarrow.parquet as pq

    for path in sorted((folder / "meta/episodes").rglob("*.parquet")):
        with _reading(path):
            every = pq.read_schema(path).names
            wanted = [n for n in every if not n.startswith(("stats/", "videos/", "meta/"))]
            rows = pq.read_table(path, columns=wanted).to_pylist()
        yield from rows


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Name the file in what PyArrow says of it: cut short, damaged, no parquet.

    Raises:
        UnreadableError: PyArrow cannot read it.
    """
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise UnreadableError("the parquet file cannot be read", place=path, got=error) from error


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """JSON objects of a `.jsonl` file, blank lines passed over.

    Raises:
        InputError: a line is not JSON; says which.
    """
    for number, line in enumerate(path.read_text("utf-8-sig").splitlines(), 1):
        if line.strip():
            try:
                value = json.loads(line)
            except ValueError as error:
                raise InputError("a line must hold JSON", place=f"{path} line {number}", got=error) from error
            if isinstance(value, dict):
                yield value


def _episodes(records: list[dict[str, Any]], info: dict[str, Any], folder: Path) -> Episodes:
    made = Episodes(
        [str(r.get("episode_index", i)) for i, r in enumerate(records)],
        [int(r.get("length") or 0) for r in records],
    )
    for text in _tasks(folder):
        made.tasks[text] += 0
    for record in records:
        for task in record.get("tasks") or ():
            made.tasks[str(task)] += 1
        if names.EPISODE_SOURCE in record:
            made.tags[str(record[names.EPISODE_SOURCE])] += 1
        if names.EPISODE_SUCCESS in record:
            known = record.get(names.EPISODE_SUCCESS_KNOWN, True)
            made.success[("yes" if record[names.EPISODE_SUCCESS] else "no") if known else "unknown"] += 1
    splits = info.get("splits")
    for name, span in (splits if isinstance(splits, dict) else {}).items():
        start, _, stop = str(span).partition(":")
        if start.isdigit() and stop.isdigit():
            made.splits[name] = int(stop) - int(start)
    return made


def _tasks(folder: Path) -> list[str]:
    lines, table = folder / "meta/tasks.jsonl", folder / "meta/tasks.parquet"
    if lines.is_file():
        return [str(r.get("task", "")) for r in read_lines(lines)]
    if not table.is_file():
        return []
    import pyarrow.parquet as pq

    with _reading(table):
        columns = pq.read_table(table).to_pydict()
    name = next((n for n in ("task", "__index_level_0__") if n in columns), None)
    return [] if name is None else [str(t) for t in columns[name]]


def _data_files(folder: Path) -> list[Path]:
    paths = {p.relative_to(folder).as_posix(): p for p in (folder / "data").rglob("*.parquet")}
    return [paths[name] for name in natural_sorted(paths)]


def _count_files(folder: Path, found: Inspection) -> None:
    data = _data_files(folder)
    videos = sorted(p for p in (folder / "videos").rglob("*.mp4") if p.is_file())
    found.facts["data files"] = (
        f"{count(len(data), 'parquet file')}, {size(sum(p.stat().st_size for p in data))}"
    )
    found.facts["video files"] = (
        f"{count(len(videos), 'mp4 file')}, {size(sum(p.stat().st_size for p in videos))}"
    )
    declared = [
        n for n, f in _features(read_json(folder / LEROBOT_INFO)).items() if f.get("dtype") == "video"
    ]
    for name in declared:
        if not any(name in p.parts for p in videos):
            found.notes.append(f"{name} is declared as video and has no files")


def rows_of(column: Any) -> NDArray[Any]:
    """Rows of an Arrow column as an array (n, width); lists of one length become rows, scalars width 1.

    Args:
        column: A `pyarrow.Array` of numbers, bools or lists of numbers.
    """
    if hasattr(column, "flatten") and hasattr(column.type, "value_type"):
        values = np.asarray(column.flatten().to_numpy(zero_copy_only=False))
        if len(column) and values.size % len(column) == 0:
            return values.reshape(len(column), -1)
        return np.empty((0, 0))
    return np.asarray(column.to_numpy(zero_copy_only=False)).reshape(len(column), -1)


def _measure(folder: Path, info: dict[str, Any], found: Inspection, progress: Progress) -> None:
    """Ranges of `action` over all data files."""
    if "action" not in _features(info):
        return
    import pyarrow.parquet as pq

    ranges = Ranges("action", _names(_features(info)["action"]))
    files = _data_files(folder)
    for done, path in enumerate(files, 1):
        with _reading(path), pq.ParquetFile(path) as handle:
            if "action" not in handle.schema_arrow.names:
                continue
            for batch in handle.iter_batches(columns=["action"]):
                ranges.add(rows_of(batch.column(0)))
        progress("files", done, len(files))
    if ranges.known:
        found.ranges.append(ranges)
