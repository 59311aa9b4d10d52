"""A LeRobot folder of any version as the rules see it: read with json and pyarrow alone, trusting nothing.

Shares no code with the exporter. What is not here: judgement, and videos, see the rules beside this module.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from trajpipe.checks.registry import Subject
from trajpipe.core.errors import InputError, UnreadableError, UntrustedError
from trajpipe.core.findings import Place

INFO: Final = "meta/info.json"
STATS: Final = "meta/stats.json"
MODALITY: Final = "meta/modality.json"
EPISODES: Final = "meta/episodes.jsonl"
EPISODES_STATS: Final = "meta/episodes_stats.jsonl"
TASKS: Final = "meta/tasks.jsonl"
TASKS_V3: Final = "meta/tasks.parquet"
EPISODES_V3: Final = "meta/episodes"
REJECTED: Final = "meta/rejected_episodes.json"
_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class EpisodeLine:
    """One episode as the metadata tell it.

    Attributes:
        index: `episode_index`.
        length: Rows.
        tasks: Texts.
        keys: Every further key (v3.0: file and range columns too, statistics not).
        stats: Feature → statistic → value; empty when absent.
    """

    index: int
    length: int
    tasks: tuple[str, ...]
    keys: Mapping[str, Any]
    stats: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TextProblem:
    """What is wrong with the text of a JSON file.

    Attributes:
        file: Relative path.
        row: Line number from 0; None for the whole file.
        message: The rule that it breaks.
        got: What was found.
    """

    file: str
    row: int | None
    message: str
    got: str


@dataclass(slots=True)
class LeRobotFolder:
    """The metadata of a dataset.

    Attributes:
        root: The folder.
        layout: `v2` or `v3`, told by the files.
        info: info.json; empty when unreadable.
        episodes: In file order.
        tasks: Task index → text, in file order (a repeated index keeps all texts).
        text: Problems of the JSON files' text.
        stats: stats.json; None when absent.
        modality: modality.json; None when absent.
    """

    root: Path
    layout: str
    info: dict[str, Any]
    episodes: list[EpisodeLine]
    tasks: list[tuple[int, str]]
    text: list[TextProblem]
    stats: dict[str, Any] | None = None
    modality: dict[str, Any] | None = None

    @property
    def version(self) -> str:
        """`codebase_version` as declared."""
        return str(self.info.get("codebase_version", ""))

    @property
    def features(self) -> dict[str, dict[str, Any]]:
        """info.json's features that are objects."""
        features = self.info.get("features")
        return (
            {k: v for k, v in features.items() if isinstance(v, dict)} if isinstance(features, dict) else {}
        )

    @property
    def cameras(self) -> list[str]:
        """Names of the video features."""
        return [name for name, spec in self.features.items() if spec.get("dtype") == "video"]

    @property
    def fps(self) -> Fraction | None:
        """Declared rate as the fraction that it was meant to be; None when it is not a positive number."""
        fps = self.info.get("fps")
        if isinstance(fps, bool) or not isinstance(fps, (int, float)) or not fps > 0:
            return None
        plain = Fraction(fps).limit_denominator(1000)
        thousandths = Fraction(round(fps * 1001)) / 1001
        return thousandths if float(thousandths) == fps and float(plain) != fps else Fraction(plain)

    def path(self, template: str, **values: Any) -> Path:
        """The path of a template of info.json, which is not trusted to stay inside the folder.

        Raises:
            InputError: absent or not a template of these values.
            UntrustedError: it leads out of the folder.
        """
        text = self.info.get(template)
        if not isinstance(text, str):
            raise InputError(f"info.json needs {template}", place=Place(INFO), got=repr(text))
        if any(mark in text for mark in (".__", "[", "!")):
            raise UntrustedError(f"{template} is not a plain template", place=Place(INFO), got=text)
        try:
            relative = text.format(**values)
        except (KeyError, ValueError, IndexError, AttributeError) as error:
            raise InputError(
                f"{template} does not fit", place=Place(INFO), got=text, expected=error
            ) from error
        path = self.root / relative
        if not path.resolve().is_relative_to(self.root.resolve()):
            raise UntrustedError(f"{template} leads out of the folder", place=Place(INFO), got=text)
        return path

    def data_file(self, episode: EpisodeLine) -> Path:
        """The parquet file of an episode, as the metadata tell it."""
        if self.layout == "v3":
            chunk, file = episode.keys.get("data/chunk_index"), episode.keys.get("data/file_index")
            return self.path("data_path", chunk_index=chunk, file_index=file)
        return self.path("data_path", episode_chunk=self._chunk(episode), episode_index=episode.index)

    def video_file(self, camera: str, episode: EpisodeLine) -> Path:
        """The mp4 of a camera and episode, as the metadata tell it."""
        if self.layout == "v3":
            chunk = episode.keys.get(f"videos/{camera}/chunk_index")
            file = episode.keys.get(f"videos/{camera}/file_index")
            return self.path("video_path", video_key=camera, chunk_index=chunk, file_index=file)
        values = {"episode_chunk": self._chunk(episode), "episode_index": episode.index}
        return self.path("video_path", video_key=camera, **values)

    def _chunk(self, episode: EpisodeLine) -> int:
        size = self.info.get("chunks_size", 1000)
        return episode.index // size if isinstance(size, int) and size > 0 else 0

    def relative(self, path: Path) -> str:
        """A path below the folder, POSIX."""
        return path.relative_to(self.root).as_posix()

    def row_files(self) -> list[Path]:
        """All parquet files with rows, sorted."""
        return sorted((self.root / "data").rglob("*.parquet"))


def folder_of(subject: Subject) -> LeRobotFolder:
    """The subject's folder, read once.

    Raises:
        UnreadableError: it is not a LeRobot folder, or its metadata cannot be read.
    """
    folder: LeRobotFolder = subject.fact("lerobot-folder", lambda: read_folder(subject.path))
    return folder


def read_folder(root: Path) -> LeRobotFolder:
    """Read the metadata of a folder.

    Raises:
        UnreadableError: no meta/info.json, or a metadata file cannot be read.
    """
    if not (root / INFO).is_file():
        raise UnreadableError("a LeRobot folder has meta/info.json", place=root.name, code="not-lerobot")
    text: list[TextProblem] = []
    info = _object(root, INFO, text)
    layout = "v3" if (root / EPISODES_V3).is_dir() or (root / TASKS_V3).is_file() else "v2"
    folder = LeRobotFolder(root, layout, info or {}, [], [], text)
    if layout == "v3":
        folder.episodes, folder.tasks = _episodes_v3(root), _tasks_v3(root)
    else:
        folder.episodes = _episodes_v2(root, text)
        rows = _lines(root, TASKS, text)
        folder.tasks = [(_integer(r.get("task_index")), str(r.get("task", ""))) for r in rows]
    folder.stats, folder.modality = _object(root, STATS, text), _object(root, MODALITY, text)
    return folder


def _integer(value: Any) -> int:
    """An index; -1 stands for what is none, and every rule about indices finds it."""
    return value if isinstance(value, int) and not isinstance(value, bool) else -1


def _episodes_v2(root: Path, text: list[TextProblem]) -> list[EpisodeLine]:
    stats: dict[int, Any] = {}
    if (root / EPISODES_STATS).is_file():
        for row in _lines(root, EPISODES_STATS, text):
            value = row.get("stats")
            stats[_integer(row.get("episode_index"))] = value if isinstance(value, dict) else {}
    out = []
    for row in _lines(root, EPISODES, text):
        index = _integer(row.pop("episode_index", None))
        length, tasks = _integer(row.pop("length", None)), row.pop("tasks", None)
        texts = tuple(str(t) for t in tasks) if isinstance(tasks, list) else ()
        out.append(EpisodeLine(index, length, texts, row, stats.get(index, {})))
    return out


def _episodes_v3(root: Path) -> list[EpisodeLine]:
    out: list[EpisodeLine] = []
    for path in sorted((root / EPISODES_V3).rglob("*.parquet")):
        for batch in open_parquet(path, root).iter_batches(batch_size=256):
            out += [_line_v3(row) for row in batch.to_pylist()]
    return out


def _line_v3(row: dict[str, Any]) -> EpisodeLine:
    stats: dict[str, dict[str, Any]] = {}
    keys: dict[str, Any] = {}
    for name, value in row.items():
        if name.startswith("stats/"):
            feature, _, statistic = name.removeprefix("stats/").rpartition("/")
            stats.setdefault(feature, {})[statistic] = value
        else:
            keys[name] = value
    tasks = keys.pop("tasks", None)
    index, length = _integer(keys.pop("episode_index", None)), _integer(keys.pop("length", None))
    return EpisodeLine(index, length, tuple(tasks) if isinstance(tasks, list) else (), keys, stats)


def _tasks_v3(root: Path) -> list[tuple[int, str]]:
    if not (root / TASKS_V3).is_file():
        return []
    table = open_parquet(root / TASKS_V3, root).read()
    column = next((n for n in ("task", "__index_level_0__") if n in table.column_names), None)
    if column is None or "task_index" not in table.column_names:
        raise UnreadableError(
            "tasks.parquet needs task_index and the text", place=TASKS_V3, got=", ".join(table.column_names)
        )
    texts, indices = table[column].to_pylist(), table["task_index"].to_pylist()
    return [(_integer(i), str(t)) for i, t in zip(indices, texts, strict=True)]


def open_parquet(path: Path, root: Path) -> pq.ParquetFile:
    """A parquet file opened.

    Raises:
        UnreadableError: not there, or not parquet.
    """
    name = path.relative_to(root).as_posix()
    try:
        return pq.ParquetFile(path)
    except (OSError, pa.ArrowInvalid) as error:
        what = "the file is missing" if not path.is_file() else "the parquet file cannot be read"
        raise UnreadableError(what, place=name, got=error, code="bad-parquet") from error


def _object(root: Path, name: str, problems: list[TextProblem]) -> dict[str, Any] | None:
    if not (root / name).is_file():
        return None
    value = _parse(name, None, _decoded(root, name, problems), problems)
    if value is not None and not isinstance(value, dict):
        problems.append(TextProblem(name, None, "the file must hold a JSON object", type(value).__name__))
    return value if isinstance(value, dict) else None


def _lines(root: Path, name: str, problems: list[TextProblem]) -> list[dict[str, Any]]:
    if not (root / name).is_file():
        return []
    rows: list[dict[str, Any]] = []
    text = _decoded(root, name, problems)
    for number, line in enumerate(text.removesuffix("\n").split("\n")):
        if not line.strip():
            problems.append(TextProblem(name, number, "a blank line is not a JSON object", repr(line)))
            continue
        value = _parse(name, number, line, problems)
        if isinstance(value, dict):
            rows.append(value)
        elif value is not None:
            problems.append(TextProblem(name, number, "a line must hold an object", type(value).__name__))
    return rows


def _decoded(root: Path, name: str, problems: list[TextProblem]) -> str:
    data = (root / name).read_bytes()
    if data.startswith(_BOM):
        problems.append(TextProblem(name, None, "the file must not begin with a byte order mark", "BOM"))
        data = data[len(_BOM) :]
    if b"\r" in data:
        problems.append(TextProblem(name, None, "lines end with LF", "CR"))
        data = data.replace(b"\r\n", b"\n")
    if not data.endswith(b"\n") and name.endswith(".jsonl"):
        problems.append(TextProblem(name, None, "the last line ends with LF", repr(data[-10:])))
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        problems.append(TextProblem(name, None, "the file must be UTF-8", str(error)))
        return data.decode("utf-8", "replace")


def _parse(name: str, row: int | None, text: str, problems: list[TextProblem]) -> Any:
    def note(token: str) -> float:
        problems.append(TextProblem(name, row, "JSON has no such number", token))
        return float(token.replace("Infinity", "inf"))

    try:
        return json.loads(text, parse_constant=note)
    except (json.JSONDecodeError, RecursionError) as error:
        problems.append(TextProblem(name, row, "the text is not JSON", str(error)))
        return None


def episode_tables(
    folder: LeRobotFolder, columns: list[str] | None = None
) -> Iterator[tuple[Path, int | None, pa.Table]]:
    """Runs of rows with one `episode_index`, file by file: (file, episode index, rows).

    A v2 file is one run whatever its rows say; the index is then None when rows disagree.

    Args:
        folder: The dataset.
        columns: Columns to read; None = all.

    Raises:
        UnreadableError: a file is not parquet.
    """
    for path in folder.row_files():
        file = open_parquet(path, folder.root)
        wanted = None if columns is None else [c for c in columns if c in file.schema_arrow.names]
        if folder.layout == "v2":
            table = _read(file, path, folder, wanted)
            yield path, _only_index(table), table
        else:
            yield from ((path, index, table) for index, table in _runs(file, wanted))


def _read(file: pq.ParquetFile, path: Path, folder: LeRobotFolder, columns: list[str] | None) -> pa.Table:
    try:
        return file.read(columns=columns)
    except (OSError, pa.ArrowInvalid) as error:
        place = folder.relative(path)
        raise UnreadableError(
            "the rows cannot be read", place=place, got=error, code="bad-parquet"
        ) from error


def _only_index(table: pa.Table) -> int | None:
    if "episode_index" not in table.column_names or not table.num_rows:
        return None
    values = set(table["episode_index"].to_pylist())
    return values.pop() if len(values) == 1 else None


def _runs(file: pq.ParquetFile, columns: list[str] | None) -> Iterator[tuple[int | None, pa.Table]]:
    """Rows of a v3 file cut where `episode_index` changes; an episode's rows are joined across row groups."""
    pending: list[pa.Table] = []
    current: int | None = None
    for batch in file.iter_batches(batch_size=4096, columns=columns):
        table = pa.Table.from_batches([batch])
        if "episode_index" not in table.column_names:
            yield None, table
            continue
        indices = table["episode_index"].to_numpy()
        cuts = [0, *((indices[1:] != indices[:-1]).nonzero()[0] + 1).tolist(), len(indices)]
        for start, stop in pairwise(cuts):
            index = int(indices[start]) if stop > start else current
            if pending and index != current:
                yield current, pa.concat_tables(pending)
                pending = []
            current = index
            pending.append(table.slice(start, stop - start))
    if pending:
        yield current, pa.concat_tables(pending)
