"""Tests of the rules about metadata: each passes on a good set and finds what was broken in a copy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from trajpipe.checks import checks_of, run_checks
from trajpipe.core.findings import Place, Severity
from trajpipe_tests.checks import lerobot_sets as sets
from trajpipe_tests.checks.lerobot_sets import edit_json, edit_lines, finding, result

VERSIONS = ("v2.0", "v2.1", "v3.0")


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A good set of each version."""
    return {v: sets.build(tmp_path_factory.mktemp("good") / v, v) for v in VERSIONS}


@pytest.fixture
def v21(good: dict[str, Path], tmp_path: Path) -> Path:
    """A v2.1 set to break."""
    return sets.copied(good["v2.1"], tmp_path / "set")


@pytest.fixture
def v30(good: dict[str, Path], tmp_path: Path) -> Path:
    """A v3.0 set to break."""
    return sets.copied(good["v3.0"], tmp_path / "set")


def info(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    """A change of info.json."""
    return lambda root: edit_json(root / "meta/info.json", change)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_good_set_passes_every_rule(good: dict[str, Path], version: str) -> None:
    report = run_checks("lerobot", good[version])
    assert [str(f) for f in report.findings() if f.severity is not Severity.WARN] == []
    assert report.passed
    warned = {f.code for f in report.findings()}
    assert warned == ({"lerobot-gr00t"} if version == "v3.0" else set())
    assert {"lerobot-equals-l2", "lerobot-alignment"} <= set(report.skipped)


def test_every_rule_has_a_code_of_its_stage() -> None:
    ours = "trajpipe.checks.lerobot_"
    codes = [c.code for c in checks_of("lerobot") if c.rule.__module__.startswith(ours)]
    assert len(codes) == len(set(codes)) == 19
    assert all(code.startswith("lerobot-") for code in codes)


def test_a_folder_without_info_is_an_error_not_a_crash(tmp_path: Path) -> None:
    report = run_checks("lerobot", tmp_path)
    assert not report.passed
    assert "a LeRobot folder has meta/info.json" in str(next(report.findings()))


# --- lerobot-text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: b"\xef\xbb\xbf" + d, "the file must not begin with a byte order mark"),
        (lambda d: d.replace(b"\n", b"\r\n"), "lines end with LF"),
        (lambda d: d.replace(b"\n", b"\n\n", 1), "a blank line is not a JSON object"),
        (lambda d: d.rstrip(b"\n"), "the last line ends with LF"),
        (lambda d: d.replace("拿".encode(), b"\xff"), "the file must be UTF-8"),
        (lambda d: d.replace(b'"length":37', b'"length":NaN'), "JSON has no such number"),
        (lambda d: d + b"[1]\n", "a line must hold an object"),
        (lambda d: d + b"{\n", "the text is not JSON"),
    ],
)
def test_text_problems(v21: Path, change: Callable[[bytes], bytes], message: str) -> None:
    path = v21 / "meta/episodes.jsonl"
    path.write_bytes(change(path.read_bytes()))
    found = finding(v21, "lerobot-text")
    assert (found.message, found.place.file, found.severity) == (
        message,
        "meta/episodes.jsonl",
        Severity.ERROR,
    )


def test_a_bom_hides_no_episode(v21: Path) -> None:
    path = v21 / "meta/episodes.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert result(v21, "lerobot-counters").passed
    assert result(v21, "lerobot-episodes").passed


def test_nan_statistics_are_found_in_the_text_and_in_the_values(v21: Path) -> None:
    path = v21 / "meta/episodes_stats.jsonl"

    def spoil(rows: list[dict[str, Any]]) -> None:
        rows[1]["stats"]["action"]["mean"][2] = float("nan")

    edit_lines(path, spoil)
    found = finding(v21, "lerobot-text")
    assert (found.place, found.got) == (Place("meta/episodes_stats.jsonl", row=1), "NaN")
    found = finding(v21, "lerobot-stats")
    assert found.message == "mean of dimension 2 differs from the recomputed one"
    assert (found.place.demo, found.place.column, found.got) == ("episode 1", "action", "nan")


# --- lerobot-layout


def test_a_version_that_contradicts_the_files(v21: Path) -> None:
    info(lambda i: i.update(codebase_version="v3.0"))(v21)
    found = finding(v21, "lerobot-layout")
    assert found.message == "codebase_version contradicts the files"
    assert (found.got, found.expected) == ("'v3.0'", "v2.0 or v2.1, as the files say")


@pytest.mark.parametrize(
    ("version", "name", "message"),
    [
        ("v2.1", "meta/episodes_stats.jsonl", "v2.1 has statistics per episode"),
        ("v2.0", "meta/stats.json", "the loaders need stats.json"),
        ("v3.0", "meta/stats.json", "the loaders need stats.json"),
        ("v2.1", "meta/tasks.jsonl", "the loaders need this file"),
        ("v3.0", "meta/tasks.parquet", "the loaders need this file"),
    ],
)
def test_a_missing_file_of_the_version(
    good: dict[str, Path], tmp_path: Path, version: str, name: str, message: str
) -> None:
    root = sets.copied(good[version], tmp_path / "set")
    (root / name).unlink()
    found = finding(root, "lerobot-layout")
    assert (found.message, found.place.file) == (message, name)


def test_statistics_per_episode_do_not_belong_to_v20(good: dict[str, Path], tmp_path: Path) -> None:
    root = sets.copied(good["v2.1"], tmp_path / "set")
    info(lambda i: i.update(codebase_version="v2.0"))(root)
    assert finding(root, "lerobot-layout").message == "v2.0 has no statistics per episode"


def test_remains_of_v2_in_a_v3_folder(v30: Path) -> None:
    (v30 / "meta/episodes.jsonl").write_text("{}\n")
    assert (
        finding(v30, "lerobot-layout").message == "a file of v2 lies in a v3 folder: a half-done conversion"
    )


# --- lerobot-counters


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (version, f"total_{what}")
        for version in ("v2.1", "v3.0")
        for what in ("episodes", "frames", "tasks", "videos", "chunks")
        if version == "v2.1" or what not in ("videos", "chunks")
    ],
)
def test_a_wrong_total(good: dict[str, Path], tmp_path: Path, version: str, name: str) -> None:
    root = sets.copied(good[version], tmp_path / "set")
    info(lambda i: i.update({name: i[name] + 1}))(root)
    found = finding(root, "lerobot-counters")
    assert (found.message, found.place) == (f"{name} is wrong", Place("meta/info.json", column=name))
    assert int(found.got or 0) == int(found.expected or 0) + 1


@pytest.mark.parametrize("value", [0, None, "1000"])
def test_chunks_size_is_a_positive_integer(v21: Path, value: Any) -> None:
    info(lambda i: i.update(chunks_size=value))(v21)
    assert "chunks_size is a positive integer" in [
        f.message for f in result(v21, "lerobot-counters").findings
    ]


# --- lerobot-episodes


def test_a_gap_in_the_numbers(v21: Path) -> None:
    edit_lines(v21 / "meta/episodes.jsonl", lambda rows: rows[2].update(episode_index=7))
    found = finding(v21, "lerobot-episodes")
    assert found.message == "episodes are numbered densely, in order"
    assert (found.got, found.expected, found.place.row) == ("7", "2", 2)


@pytest.mark.parametrize(("row", "where"), [(0, "first one"), (2, "later one")])
def test_a_key_that_one_episode_lacks(v21: Path, row: int, where: str) -> None:
    edit_lines(v21 / "meta/episodes.jsonl", lambda rows: rows[row].pop("source"))
    found = finding(v21, "lerobot-episodes")
    assert found.message == f"every episode has the same keys; 'source' is missing in the {where}"


def test_a_key_of_two_types(v21: Path) -> None:
    edit_lines(v21 / "meta/episodes.jsonl", lambda rows: rows[1].update(success="yes"))
    found = finding(v21, "lerobot-episodes")
    assert (found.message, found.got, found.expected) == (
        "'success' has one type on every episode",
        "str",
        "bool",
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[1].update(length=0), "an episode has at least one row"),
        (lambda rows: rows[1].update(tasks=[]), "an episode lists its tasks"),
        (lambda rows: rows.clear(), "a dataset has at least one episode"),
    ],
)
def test_an_episode_line_without_content(
    v21: Path, change: Callable[[list[dict[str, Any]]], None], message: str
) -> None:
    edit_lines(v21 / "meta/episodes.jsonl", change)
    assert message in [f.message for f in result(v21, "lerobot-episodes").findings]


# --- lerobot-tasks


@pytest.mark.parametrize(
    ("change", "message", "severity"),
    [
        (lambda r: r[1].update(task_index=5), "tasks are numbered densely, in order", Severity.ERROR),
        (
            lambda r: r.append({"task_index": 2, "task": sets.TASKS[0]}),
            "a task text stands once",
            Severity.ERROR,
        ),
        (
            lambda r: r[1].update(task="拿起立方体"),
            "an episode names a task that the table lacks",
            Severity.ERROR,
        ),
        (
            lambda r: r.append({"task_index": 2, "task": "unused"}),
            "no episode names this task",
            Severity.WARN,
        ),
    ],
)
def test_tasks(
    v21: Path, change: Callable[[list[dict[str, Any]]], None], message: str, severity: Severity
) -> None:
    edit_lines(v21 / "meta/tasks.jsonl", change)
    found = finding(v21, "lerobot-tasks")
    assert (found.message, found.severity) == (message, severity)


# --- lerobot-splits


@pytest.mark.parametrize(
    "value",
    [
        {"train": "0:3"},
        {"train": "0:3", "val": "2:4"},
        {"train": "0:2", "val": "3:4"},
        {"train": "0:100"},
        {"train": "3:3", "val": "0:4"},
    ],
)
def test_splits_that_do_not_cover_once(v21: Path, value: dict[str, str]) -> None:
    info(lambda i: i.update(splits=value))(v21)
    found = finding(v21, "lerobot-splits")
    assert (found.message, found.expected) == ("splits cover every episode exactly once", "0:4 in all")


@pytest.mark.parametrize("value", [None, {}, {"train": "all"}, {"train": [0, 4]}])
def test_splits_that_are_no_ranges(v21: Path, value: Any) -> None:
    info(lambda i: i.update(splits=value))(v21)
    assert not result(v21, "lerobot-splits").passed


def test_an_episode_of_another_split(v21: Path) -> None:
    edit_lines(v21 / "meta/episodes.jsonl", lambda rows: rows[3].update(split="train"))
    found = finding(v21, "lerobot-splits")
    assert (found.place.demo, found.got, found.expected) == ("episode 3", "train", "val")


# --- lerobot-features


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.pop("timestamp"), "LeRobot's own column is not declared"),
        (lambda f: f.update({"a/b": {"dtype": "float32", "shape": [2]}}), "a feature name must not hold `/`"),
        (lambda f: f["action"].update(dtype="double"), "the dtype is not one that LeRobot knows"),
        (lambda f: f["action"].update(shape=[]), "the shape is a list of positive integers"),
        (lambda f: f["action"].update(names=["x"]), "there is a name for every dimension"),
        (
            lambda f: f.update({"image_id": {"dtype": "int64", "shape": [1]}}),
            "a name with `image` in it is a camera",
        ),
        (lambda f: f[sets.CAMERA].update(shape=[64, 96, 4]), "a camera has three channels"),
        (lambda f: f[sets.CAMERA].pop("info"), "a video feature carries `info`"),
        (lambda f: f[sets.CAMERA]["info"].update({"video.fps": 30}), "video.fps equals fps"),
        (lambda f: f[sets.CAMERA]["info"].update({"video.height": 65}), "video.height equals the shape"),
    ],
)
def test_features(v21: Path, change: Callable[[dict[str, Any]], None], message: str) -> None:
    info(lambda i: change(i["features"]))(v21)
    found = finding(v21, "lerobot-features")
    assert (found.message, found.severity) == (message, Severity.ERROR)


@pytest.mark.parametrize("fps", [0, -1, None, "20"])
def test_fps_is_a_positive_number(v21: Path, fps: Any) -> None:
    info(lambda i: i.update(fps=fps))(v21)
    assert "fps is a positive number" in [f.message for f in result(v21, "lerobot-features").findings]


@pytest.mark.parametrize("names", [[["a"] * 7], {"motors": ["a"] * 7}])
def test_names_may_be_nested_as_in_real_sets(v21: Path, names: Any) -> None:
    info(lambda i: i["features"]["action"].update(names=names))(v21)
    assert result(v21, "lerobot-features").passed


def test_video_info_is_the_old_name_of_info(v21: Path) -> None:
    def rename(i: dict[str, Any]) -> None:
        i["features"][sets.CAMERA]["video_info"] = i["features"][sets.CAMERA].pop("info")

    info(rename)(v21)
    assert result(v21, "lerobot-features").passed


# --- lerobot-orphans


def test_a_file_of_no_episode(v21: Path) -> None:
    stray = v21 / "data/chunk-000/episode_000099.parquet"
    stray.write_bytes(sets.rows_of(v21, 0).read_bytes())
    found = finding(v21, "lerobot-orphans")
    assert (found.place.file, found.severity) == ("data/chunk-000/episode_000099.parquet", Severity.WARN)


@pytest.mark.parametrize("which", [sets.rows_of, sets.video_of])
def test_a_file_that_is_missing(v21: Path, which: Callable[[Path, int], Path]) -> None:
    which(v21, 2).unlink()
    found = finding(v21, "lerobot-orphans")
    assert found.message == "a file that the metadata name is missing"
    assert found.place.file == which(v21, 2).relative_to(v21).as_posix()


@pytest.mark.parametrize(
    "template", ["../{episode_index:06d}.parquet", "{episode_index.__class__}", "{x}", None]
)
def test_a_template_is_not_trusted(v21: Path, template: str | None) -> None:
    info(lambda i: i.update(data_path=template))(v21)
    found = finding(v21, "lerobot-orphans")
    assert "data_path" in found.message
    assert found.severity is Severity.ERROR


def test_a_readme_and_a_certificate_are_no_orphans(v21: Path) -> None:
    for name in ("README.md", "certificate.json", ".gitattributes"):
        (v21 / name).write_text("x")
    assert not result(v21, "lerobot-orphans").findings.kept


def test_a_damaged_episode_table(v30: Path) -> None:
    path = v30 / "meta/episodes/chunk-000/file-000.parquet"
    path.write_bytes(path.read_bytes()[:-8])
    assert "the parquet file cannot be read" in finding(v30, "lerobot-episodes").message


def test_a_v3_task_table_may_name_its_index_either_way(v30: Path) -> None:
    path = v30 / "meta/tasks.parquet"
    table = pq.read_table(path)
    pq.write_table(
        table.rename_columns(["task_index", "__index_level_0__"]).replace_schema_metadata(None), path
    )
    assert result(v30, "lerobot-tasks").passed
    pq.write_table(table.select(["task_index"]).replace_schema_metadata(None), path)
    assert "tasks.parquet needs task_index and the text" in finding(v30, "lerobot-tasks").message
