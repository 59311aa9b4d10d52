"""The store's checks: each passes on a good store and finds exactly what is wrong with a bad one."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from trajpipe import checks
from trajpipe.checks import CheckReport, run_checks
from trajpipe.checks.store_reading import manifest_of
from trajpipe.core.findings import Finding, Place, Severity
from trajpipe.store import ColumnSpec, TrajectoryStoreWriter

LENGTHS = (5, 3, 8)
ROWS = sum(LENGTHS)
Edit = Callable[[h5py.File], None]


def arrays() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {
        "action": rng.standard_normal((ROWS, 3)).astype(np.float32),
        "joint_pos": rng.standard_normal((ROWS, 4)),
        "images": rng.integers(0, 255, (ROWS, 2, 3, 6, 5), np.uint8),
        "task_index": np.repeat([0, 1, 0], LENGTHS).astype(np.int32)[:, None],
        "success": np.repeat([1, 0, 1], LENGTHS).astype(np.uint8),
        "done": np.isin(np.arange(ROWS), np.cumsum(LENGTHS) - 1).astype(np.uint8),
    }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A good store with chunks of 4 rows."""
    rows = arrays()
    specs = [ColumnSpec(n, a.dtype, a.shape[1:], chunk_rows=4) for n, a in rows.items()]
    with TrajectoryStoreWriter(tmp_path / "x.h5", specs, env_id="Lift", tasks=["lift", "stack"]) as writer:
        writer.append(**rows)
        writer.end_episodes(LENGTHS)
        writer.add_side_table("ep_source", np.array([0, 1, 1], np.uint8))
        writer.add_side_table("source_tags", ["rl", "teleop"])
        writer.add_side_table("ep_success", np.array([1, 0, 2], np.uint8))
    return tmp_path / "x.h5"


def edited(path: Path, edit: Edit) -> CheckReport:
    with h5py.File(path, "r+") as file:
        edit(file)
    return run_checks("store", path, select=["store-*"])


def findings(report: CheckReport, code: str) -> list[Finding]:
    (result,) = [r for r in report.results if r.code == code]
    return list(result.findings)


def put(name: str, value: Any) -> Edit:
    """Replace a dataset, or with None delete it."""

    def edit(file: h5py.File) -> None:
        if name in file:
            del file[name]
        if value is not None:
            array = np.asarray(value)
            growable = array.ndim > 0 and name not in ("ep_len", "ep_offset", "__manifest__")
            options = (
                {"chunks": (4, *array.shape[1:]), "maxshape": (None, *array.shape[1:])} if growable else {}
            )
            file.create_dataset(name, data=array, **options)

    return edit


def text(old: str, new: str) -> Edit:
    def edit(file: h5py.File) -> None:
        said = file["__manifest__"][()].tobytes().decode()
        assert old in said
        put("__manifest__", np.frombuffer(said.replace(old, new, 1).encode(), np.uint8))(file)

    return edit


def changed(name: str, row: int, value: Any) -> Edit:
    def edit(file: h5py.File) -> None:
        file[name][row] = value

    return edit


def test_a_good_store_passes_every_check(path: Path) -> None:
    report = run_checks("store", path, select=["store-*"])
    assert report.passed
    assert list(report.findings()) == []
    assert report.skipped["store-equals-l2"] == "needs l2"
    counted = {r.code: str(r.counted) for r in report.results}
    assert counted == {
        "store-manifest": "checked 6 of 6 columns",
        "store-episode-index": "checked 3 of 3 episodes",
        "store-names": "checked 6 of 6 columns",
        "store-cross-read": "checked 96 of 96 rows of all columns",
        "store-side-tables": "checked 3 of 3 side tables",
        "store-tasks": "checked 16 of 16 rows",
        "store-flags": "checked 32 of 32 rows of flag columns",
        "store-finite": "checked 32 of 32 rows of float columns",
        "store-rate": "None",
        "store-stamp": "None",
    }
    (cross,) = [r for r in report.results if r.code == "store-cross-read"]
    assert cross.measures["boundaries"] == 6 * 3


def test_no_check_uses_the_stores_own_code() -> None:
    folder = Path(checks.__file__).parent
    for module in ("store.py", "store_l2.py", "store_reading.py"):
        tree = ast.parse((folder / module).read_text())
        imported = [n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
        assert not [m for m in imported if m.startswith("trajpipe.store")]


CASES: list[tuple[str, Edit, Severity, str]] = [
    ("store-manifest", text("schema_version=1", "schema_version=2"), Severity.ERROR, "schema_version is 1"),
    ("store-manifest", text("schema_version=1\n", ""), Severity.ERROR, "schema_version is 1"),
    ("store-manifest", text("n_rows=16", "n_rows=17"), Severity.ERROR, "n_rows is what"),
    ("store-manifest", text("n_episodes=3", "n_episodes=x"), Severity.ERROR, "n_episodes is what"),
    ("store-manifest", text("env_id=Lift\n", ""), Severity.WARN, "the manifest says env_id"),
    ("store-manifest", text("float32:3", "float32:3:4"), Severity.ERROR, "name:dtype"),
    ("store-manifest", text("float32:3", "float64:3"), Severity.ERROR, "declared dtype"),
    ("store-manifest", text("float32:3", "float32:4"), Severity.ERROR, "declared shape"),
    ("store-manifest", text('"stack"', '"st"ack"'), Severity.ERROR, "a task is"),
    ("store-manifest", text('"stack"', '"st\\ack"'), Severity.ERROR, "a task is"),
    ("store-manifest", text("task=1", "task=2"), Severity.ERROR, "without a gap"),
    ("store-manifest", text("task=1", "task=0"), Severity.ERROR, "given once"),
    ("store-manifest", text("seed=0", "seed=0\nnonsense"), Severity.ERROR, "no `=`"),
    ("store-manifest", text("seed=0", "seed=0\nseed=0"), Severity.ERROR, "given once"),
    ("store-manifest", text("column=done", "new=1\ncolumn=done"), Severity.WARN, "head, columns, tasks"),
    ("store-manifest", put("done", None), Severity.ERROR, "has a dataset"),
    ("store-manifest", put("__manifest__", None), Severity.INFO, "foreign"),
    ("store-episode-index", put("ep_len", [5, 3, 7]), Severity.ERROR, "cover all rows"),
    ("store-episode-index", put("ep_len", [5, -3, 14]), Severity.ERROR, "at least one row"),
    ("store-episode-index", put("ep_len", [5, 11]), Severity.ERROR, "one length"),
    ("store-episode-index", put("ep_len", [5.0, 3, 8]), Severity.ERROR, "rows of integers"),
    ("store-episode-index", put("ep_offset", [0, 5, 9]), Severity.ERROR, "begins where"),
    ("store-episode-index", put("ep_offset", None), Severity.ERROR, "rows of integers"),
    ("store-episode-index", put("ep_len", np.array(LENGTHS, np.int32)), Severity.ERROR, "int64"),
    ("store-names", text("column=action", "column=ac tion"), Severity.WARN, "letters, digits"),
    ("store-names", text("column=action", "column=ep_len"), Severity.ERROR, "format's own"),
    ("store-names", text("done:uint8", "done:uint8:2"), Severity.ERROR, "one value a row"),
    ("store-names", text("column=action", "column=command"), Severity.WARN, "action column"),
    ("store-side-tables", put("ep_success", [1, 0]), Severity.ERROR, "one row per episode"),
    ("store-side-tables", put("ep_source", [0, 1, 2]), Severity.ERROR, "names a label"),
    ("store-side-tables", put("source_tags", None), Severity.ERROR, "names a label"),
    ("store-side-tables", put("ep_success", [1, 0, 3]), Severity.ERROR, "names a label"),
    ("store-side-tables", put("ep_split", [0, 0, 0]), Severity.ERROR, "names a label"),
    ("store-tasks", changed("task_index", 4, 2), Severity.ERROR, "names a task"),
    ("store-tasks", changed("task_index", 4, -1), Severity.ERROR, "names a task"),
    ("store-tasks", changed("task_index", 2, 1), Severity.WARN, "one task"),
    ("store-flags", changed("done", 3, 2), Severity.ERROR, "done is 0 or 1"),
    ("store-flags", changed("success", 0, 0), Severity.ERROR, "agrees with ep_success"),
    ("store-finite", changed("action", 3, np.nan), Severity.ERROR, "finite"),
    ("store-finite", changed("joint_pos", 3, np.inf), Severity.WARN, "finite"),
]


@pytest.mark.parametrize(("code", "edit", "severity", "said"), CASES)
def test_each_fault_is_found(path: Path, code: str, edit: Edit, severity: Severity, said: str) -> None:
    found = [f for f in findings(edited(path, edit), code) if said in f.message]
    assert found, said
    assert {f.severity for f in found} == {severity}
    assert {f.code for f in found} == {code}
    assert {f.place.file for f in found} == {"x.h5"}


def test_a_whole_finding(path: Path) -> None:
    report = edited(path, changed("action", 3, np.nan))
    assert findings(report, "store-finite") == [
        Finding(
            "store-finite",
            Severity.ERROR,
            "values are finite",
            Place(file="x.h5", column="action", row=3),
            got="1 of 16 rows are not",
            expected="finite",
        )
    ]
    assert report.blocked


# --- the cross-read


def test_a_broken_chunk_is_found_and_named(path: Path) -> None:
    with h5py.File(path) as file:
        info = file["images"].id.get_chunk_info(2)
    data = bytearray(path.read_bytes())
    data[info.byte_offset : info.byte_offset + 30] = b"\xff" * 30
    path.write_bytes(data)
    (finding,) = findings(run_checks("store", path, select=["store-*"]), "store-cross-read")
    assert finding.place == Place(file="x.h5", column="images")
    assert finding.message.startswith("row 0 and after")


@pytest.mark.parametrize(
    ("options", "severity"),
    [
        ({}, Severity.WARN),
        ({"chunks": (4, 3), "maxshape": (100, 3)}, Severity.WARN),
        ({"chunks": (4, 3), "maxshape": (None, None)}, Severity.ERROR),
    ],
)
def test_columns_grow_along_rows_alone(path: Path, options: dict[str, Any], severity: Severity) -> None:
    def edit(file: h5py.File) -> None:
        del file["action"]
        file.create_dataset("action", data=arrays()["action"], **options)

    (finding,) = findings(edited(path, edit), "store-cross-read")
    assert finding.severity is severity
    assert finding.place.column == "action"


def test_an_unreadable_file_fails_every_check(tmp_path: Path) -> None:
    (tmp_path / "x.h5").write_bytes(b"not a store")
    report = run_checks("store", tmp_path / "x.h5", select=["store-*"], ignore=["store-stamp"])
    assert not any(r.passed for r in report.results)


def test_a_foreign_store_is_checked_too(path: Path) -> None:
    report = edited(path, put("__manifest__", None))
    assert report.passed or [f.message for f in report.findings() if f.severity is Severity.ERROR] == [
        "task_index names a task of the table"
    ]


# --- the reading itself


def test_the_manifest_is_parsed_by_its_contract() -> None:
    found = manifest_of(
        b"schema_version=1\n# no\n\n  seed=-3 \ncolumn=a:float32:2,3\ncolumn=b:uint8\n"
        b'task=0\t"a\\n\\"b\\" \\\\n\\t\xff"\nlater=1=2\n'
    )
    assert found.wrong == []
    assert found.number("seed") == -3
    assert found.columns == [("a", "float32", (2, 3)), ("b", "uint8", ())]
    assert found.tasks == {0: b'a\n"b" \\n\t\xff'}
    assert found.order == ["schema_version", "seed", "column", "column", "task", "later"]
