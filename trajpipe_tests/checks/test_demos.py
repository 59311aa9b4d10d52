"""L2's rules together: all pass on a good file, each has a case in which it fails; broken bytes are found.

What is not here: the cases of single rules, see the `test_demos_*` files beside this one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from trajpipe.checks.demos import validate
from trajpipe.checks.registry import CheckReport, checks_of
from trajpipe.core.findings import Severity
from trajpipe_tests.checks import test_demos_attributes, test_demos_layout, test_demos_obs, test_demos_values
from trajpipe_tests.checks.demos_mutations import CONTEXT, chunk_of, finding, overwrite, result_of, with_code
from trajpipe_tests.demos.builders import written

TABLES = (test_demos_layout, test_demos_attributes, test_demos_obs, test_demos_values)
ELSEWHERE = {"demos-readable", "demos-content-hash", "demos-quality", "demos-stamp"}  # here and elsewhere
MOTION = "demos-motion-"  # rules of motion clips, which pass over everything else: test_demos_motion.py


def test_every_rule_passes_on_a_good_file(good_demos: Path) -> None:
    report = validate(good_demos, CONTEXT)
    assert report.passed
    assert [r.code for r in report.results] == [c.code for c in checks_of("demos")]
    assert report.results[0].code == "demos-readable"
    assert report.skipped == {}
    assert [f for f in report.findings() if f.severity is not Severity.INFO] == []


def test_every_rule_has_a_failing_case() -> None:
    tested = {case.code for table in TABLES for case in table.CASES}
    rules = {c.code for c in checks_of("demos") if not c.code.startswith(MOTION)}
    assert rules == tested | ELSEWHERE


def test_a_broken_gzip_chunk_is_found(good_demos: Path) -> None:
    offset, size = chunk_of(good_demos, "data/demo_1/obs/front_rgb")
    overwrite(good_demos, offset + 2, b"\xff" * (size - 2))
    report = validate(good_demos)
    expected = [
        finding(
            "stored bytes cannot be read; make the file again",
            ("demo_1", "obs/front_rgb", 0),
        )
    ]
    assert list(result_of(report, "demos-readable").findings) == with_code("demos-readable", expected)
    assert str(result_of(report, "demos-content-hash").counted) == "checked 2 of 3 demos"


def test_a_checksum_finds_a_flipped_byte_of_plain_numbers(tmp_path: Path) -> None:
    path = written(tmp_path / "a.hdf5", fletcher32=True)
    offset, _ = chunk_of(path, "data/demo_0/actions")
    overwrite(path, offset + 1, b"\x55")
    (found,) = result_of(validate(path), "demos-readable").findings
    assert (found.place.demo, found.place.column, found.place.row) == ("demo_0", "actions", 0)


def test_the_content_hash_finds_a_flipped_byte_that_hdf5_cannot_see(good_demos: Path) -> None:
    offset, _ = chunk_of(good_demos, "data/demo_2/obs/joint_pos")
    with h5py.File(good_demos) as file:
        stated = file["data/demo_2"].attrs["content_sha256"]
    overwrite(good_demos, offset, b"\x55")
    report = validate(good_demos)
    assert result_of(report, "demos-readable").passed
    (found,) = result_of(report, "demos-content-hash").findings
    expected = finding(
        "the demo's values are not those that were written; make the file again",
        ("demo_2", "@content_sha256", None),
        got=repr(stated),
        expected=found.expected,
    )
    assert [found] == with_code("demos-content-hash", [expected])
    assert found.expected not in (None, stated)


def test_equal_demos_are_told(good_demos: Path) -> None:
    with h5py.File(good_demos, "r+") as file:
        file.copy("data/demo_1", "data/demo_3")
    expected = finding(
        "demos are equal value for value; exclude all but one",
        ("demo_1", None, None),
        got="demo_1, demo_3",
        severity=Severity.WARN,
    )
    found = result_of(validate(good_demos), "demos-content-hash").findings
    assert list(found) == with_code("demos-content-hash", [expected])


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda p: p.write_bytes(p.read_bytes()[: p.stat().st_size // 2]), "truncated"),
        (lambda p: p.write_bytes(b""), "empty-file"),
        (lambda p: p.write_bytes(b"version https://git-lfs.github.com/spec/v1\n"), "git-lfs-pointer"),
        (lambda p: p.unlink(), "missing-file"),
    ],
)
def test_a_file_that_does_not_open_fails_every_rule(
    good_demos: Path, spoil: Callable[[Path], object], code: str
) -> None:
    spoil(good_demos)
    report = validate(good_demos, CONTEXT)
    (found,) = result_of(report, "demos-readable").findings
    assert (found.severity, found.got) == (Severity.ERROR, code)
    silent = ("demos-readable", "demos-stamp")
    others = [r for r in report.results if r.code not in silent and not r.code.startswith(MOTION)]
    assert not any(r.passed for r in others)
    assert all("demos-readable says why" in next(iter(r.findings)).message for r in others)


def test_an_external_link_is_refused(good_demos: Path) -> None:
    with h5py.File(good_demos, "r+") as file:
        file["data/demo_0/obs/outside"] = h5py.ExternalLink("/etc/passwd", "/")
    (found,) = result_of(validate(good_demos), "demos-readable").findings
    assert found.got == "external-reference"
    assert "obs/outside" in found.message


def test_an_unreadable_mask_is_an_error_and_no_crash(good_demos: Path) -> None:
    with h5py.File(good_demos, "r+") as file:
        del file["mask/train"]
        file.create_dataset("mask/train", data=np.array([b"demo_0", b"demo_2"]), chunks=(2,), fletcher32=True)
    offset, _ = chunk_of(good_demos, "mask/train")
    overwrite(good_demos, offset, b"X")
    report = validate(good_demos)
    assert not result_of(report, "demos-readable").passed
    assert not report.passed


def test_the_report_survives_json(good_demos: Path) -> None:
    with h5py.File(good_demos, "r+") as file:
        file["data/demo_1/actions"][3] = np.nan
    report = validate(good_demos, CONTEXT)
    back = CheckReport.from_json(json.loads(json.dumps(report.to_json())))
    assert [str(f) for f in back.findings()] == [str(f) for f in report.findings()]
    assert "actions" in json.dumps(report.to_json())
