"""The evidence of an output for its report: size, hash, checks, ledger, certificate.

Stored results are taken when the output is the one that they were made for; else its rules run.
What is not here: episodes, see `report_episodes.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from trajpipe.checks.registry import CheckReport, run_checks
from trajpipe.core import jsontext, names, provenance
from trajpipe.core.errors import TrajpipeError
from trajpipe.core.ledger import Ledger
from trajpipe.core.names import Stage
from trajpipe.pipeline import certify
from trajpipe.pipeline.build_store import sha256_of_output
from trajpipe.pipeline.check_raw import check_raw
from trajpipe.pipeline.report_subject import Reported, Subject
from trajpipe.report.html_model import Output, Report, Rule

_Form = TypeVar("_Form")
_UNITS: Final = ("B", "kB", "MB", "GB", "TB")


def output_of(subject: Subject, one: Reported, *, run_rules: bool) -> Output:
    """An output with its evidence, its episodes not yet counted.

    Args:
        subject: What the report is about.
        one: One of its outputs.
        run_rules: Run its rules when no results are stored; False leaves them out.
    """
    made = Output(one.stage.value, one.path.name, one.state, one.note)
    if one.state == "failed":
        _add_rules(made, _failure(one.path))
    if not one.path.exists():
        return made
    stamp = provenance.read_stamp(one.path) or {}
    current = bool(stamp) and stamp["output"].get("touch") == provenance.touch_of(one.path)
    made.facts["size"] = _size(provenance.size_of(one.path))
    if current:
        made.facts["sha256"] = str(stamp["output"].get("sha256", ""))
    made.ledger = _read(one.path, names.SUFFIX_LEDGER, Ledger.from_json)
    if not made.rules:
        stored = _read(one.path, names.SUFFIX_CHECKS, CheckReport.from_json) if current else None
        _add_rules(made, stored or (_run(subject, one) if run_rules else None))
    return made


def add_certificate(subject: Subject, report: Report) -> None:
    """Put the export's certificate into a report, and whether it is of the bytes that are there now."""
    for one in subject.outputs:
        found = certify.stored(one.path) if one.stage is Stage.LEROBOT else None
        if found is None:
            continue
        picture = provenance.beside(one.path, certify.SUFFIX_PICTURE)
        report.certificate = found
        report.certificate_picture = picture.read_bytes() if picture.is_file() else None
        stages = found.get("stages")
        of_export = stages.get(Stage.LEROBOT.value) if isinstance(stages, Mapping) else None
        hashes = list(of_export.values()) if isinstance(of_export, Mapping) else []
        report.certificate_current = one.path.exists() and hashes == [sha256_of_output(one.path)]
        return


def _failure(path: Path) -> CheckReport | None:
    """The report of a failed attempt."""
    return _read(path, names.SUFFIX_FAILURE, lambda value: CheckReport.from_json(value["checks"]))


def _read(output: Path, suffix: str, form: Callable[[Any], _Form]) -> _Form | None:
    """A file beside an output in its form; None when it is absent or damaged."""
    path = provenance.beside(output, suffix)
    if not path.is_file():
        return None
    try:
        return form(jsontext.loads(path.read_bytes(), place=path))
    except (TrajpipeError, OSError, KeyError, TypeError, ValueError, AttributeError):
        return None


def _run(subject: Subject, one: Reported) -> CheckReport:
    if one.stage is Stage.RAW:
        return check_raw(one.path, kind=subject.kind, conventions=subject.conventions)
    return run_checks(one.stage, one.path)


def _add_rules(output: Output, report: CheckReport | None) -> None:
    if report is None:
        return
    output.rules = [Rule(r.code, r.title, r.passed, r.counted, r.findings) for r in report.results]
    output.skipped = dict(report.skipped)


def _size(count: int) -> str:
    """`34.1 MB`, decimal."""
    power = min(max(0, (len(str(count)) - 1) // 3), len(_UNITS) - 1)
    return f"{count / 1000**power:.1f} {_UNITS[power]}" if power else f"{count} B"
