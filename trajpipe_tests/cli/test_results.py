"""Reports and stage results as text: marks, denominators, the worst first, repeats, what is left out."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from trajpipe.checks.registry import CheckReport, CheckResult
from trajpipe.cli import reports, results
from trajpipe.core.findings import Denominator, Finding, Findings, Place, Severity
from trajpipe.core.ledger import Ledger, Rejection, entry
from trajpipe.core.names import Stage
from trajpipe.core.temporaries import temporary_beside
from trajpipe.pipeline.results import StageResult, Status


def text_of(parts: Iterable[RenderableType], width: int = 100) -> str:
    """What a terminal of this width shows."""
    console = Console(width=width, color_system=None, force_terminal=False)
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def finding(severity: Severity, code: str = "a-code", column: str = "obs/x", **more: str) -> Finding:
    """A finding of that severity."""
    return Finding(code, severity, f"{code} is so", Place("a.hdf5", "demo_1", column), **more)


def check(code: str, *found: Finding, counted: Denominator | None = None) -> CheckResult:
    """A check's result with these findings."""
    result = CheckResult(code, f"Title of {code}", True, counted=counted)
    result.findings.extend(found)
    return result


def stage(
    status: Status = Status.BUILT,
    checks: Sequence[CheckResult] = (),
    *,
    of: Stage = Stage.DEMOS,
    dataset: str = "lift",
    key: str = "a",
    rejected: Sequence[Rejection] = (),
    error: str | None = None,
) -> StageResult:
    """A stage's result."""
    path = Path("data") / "demos" / f"{dataset}_{key}.hdf5"
    ledger = Ledger([entry("a.hdf5", of.value, 3, rejected)])
    report = CheckReport(of.value, str(path), list(checks) or [check("fine")])
    return StageResult(
        dataset,
        of,
        key,
        path,
        status,
        ledger,
        report,
        bytes=1200,
        seconds=0.25,
        error=error,
        facts={"rows": 9},
    )


def test_a_report_marks_each_rule_and_counts_what_it_looked_at() -> None:
    report = CheckReport(
        "demos",
        "a.hdf5",
        [
            check("fine", counted=Denominator(3, 3, "demos")),
            check("noted", finding(Severity.INFO)),
            check("odd", finding(Severity.WARN)),
            check("bad", finding(Severity.ERROR, got="nan", expected="finite")),
        ],
        {"left-out": "needs conventions"},
    )
    lines = text_of(reports.render_report(report)).splitlines()
    assert lines[0] == "a.hdf5 · demos"
    assert [line.split()[:2] for line in lines[3:7]] == [
        ["pass", "fine"],
        ["pass", "noted"],
        ["warn", "odd"],
        ["FAIL", "bad"],
    ]
    assert lines[3].split("  ")[-1].strip() == "3 of 3 demos"
    assert "  ERROR a-code  a.hdf5 · demo_1 · obs/x" in lines
    assert "        got      nan" in lines
    assert "        expected finite" in lines
    assert "1 rule does not apply here (-v lists them)" in lines
    assert "left-out" not in "".join(lines)
    assert lines[-1] == "5 rules: 2 passed, 1 warned, 1 failed, 1 does not apply"
    full = text_of(reports.render_report(report, full=True)).splitlines()
    assert full[-4:-2] == ["1 rule does not apply here", "  left-out: needs conventions"]


def test_findings_and_errors_name_the_target_of_a_temporary() -> None:
    half = str(temporary_beside(Path("out/x.h5")))
    found = Finding("eacces", Severity.ERROR, f"cannot write {half}", Place("x.h5"), got=f"'{half}'")
    failed = stage(Status.FAILED, [check("bad", found)])
    text = text_of(results.render_results([failed, stage(Status.BLOCKED, key="b", error=f"see {half}")]))
    assert "cannot write out/x.h5" in text
    assert "got      'out/x.h5'" in text
    assert "see out/x.h5" in text
    assert "trajpipe-tmp" not in text


def test_repeats_beyond_three_are_counted() -> None:
    result = check("bad", *[finding(Severity.ERROR) for _ in range(12)])
    text = text_of(reports.render_findings(result))
    assert text.count("ERROR a-code") == 3
    assert "… 9 more error a-code in obs/x" in text


@pytest.mark.parametrize(
    ("severities", "text"),
    [
        ([], ""),
        ([Severity.ERROR], "1 error"),
        ([Severity.WARN, Severity.WARN, Severity.INFO], "2 warnings, 1 note"),
        ([Severity.ERROR] * 5 + [Severity.INFO] * 2, "5 errors, 2 notes"),
    ],
)
def test_findings_in_words(severities: list[Severity], text: str) -> None:
    assert reports.tally_findings([check("x", *map(finding, severities))]) == text


def test_the_table_of_a_run_groups_datasets_and_says_status_and_checks() -> None:
    made = [
        stage(),
        stage(dataset="push", key="b"),
        stage(Status.FAILED, [check("bad", finding(Severity.ERROR))], key="c"),
        stage(Status.BLOCKED, of=Stage.STORE, key="", error="the demos failed"),
        stage(Status.UNCHANGED, [check("odd", finding(Severity.WARN)), check("fine")], key="d"),
    ]
    lines = text_of(results.render_results(made), 120).splitlines()[2:7]
    assert [line.split()[0] for line in lines] == ["lift", "demos", "store", "demos", "push"]
    assert lines[0].endswith("1 passed")
    assert "1 of 1 failed" in lines[1]
    assert lines[2].endswith("not run")
    assert lines[3].endswith("1 passed, 1 warned")


def test_rejections_say_the_episode_the_reason_and_the_stage() -> None:
    rejected = [Rejection("a.hdf5", f"demo_{i}", "nan-action", f"row {i}") for i in range(50)]
    text = text_of(results.render_rejections([stage(rejected=rejected)]))
    assert "  a.hdf5:demo_0  nan-action  row 0 · demos" in text
    assert "… 10 more: the ledgers beside the outputs have them all" in text
    assert text_of(results.render_rejections([stage()])) == ""


def test_failures_tell_their_findings_or_their_error() -> None:
    failed = stage(Status.FAILED, [check("bad", finding(Severity.ERROR, code="truncated"))])
    blocked = stage(Status.BLOCKED, of=Stage.STORE, key="", error="0 of 2 recordings are ready")
    text = text_of(results.render_failures([stage(), failed, blocked]))
    assert "  lift · demos · a: failed\n    ERROR truncated" in text
    assert "  lift · store: blocked\n    0 of 2 recordings are ready" in text
    assert text_of(results.render_failures([stage()])) == ""


def test_findings_are_told_worst_first_and_once_per_code() -> None:
    facts = [finding(Severity.INFO, "repaired", f"obs/{c}") for c in "abc"]
    made = [
        stage(checks=[check("x", *facts)]),
        stage(checks=[check("y", finding(Severity.WARN, "odd"))], key="b"),
    ]
    text = text_of(results.render_results(made))
    assert text.index("WARN  odd") < text.index("INFO  repaired")
    assert text.count("INFO  repaired") == 1
    assert "… 2 more: obs/b, obs/c" in text
    full = text_of(results.render_results(made, full=True))
    assert full.count("INFO  repaired") == 3


def test_equal_facts_of_several_recordings_are_told_once() -> None:
    facts = [finding(Severity.INFO, "repaired", f"obs/{c}") for c in "abc"]
    made = [stage(checks=[check("x", *facts)], key=key) for key in "pqr"]
    made[1].checks.results.append(check("y", finding(Severity.WARN, "odd")))
    text = text_of(results.render_results(made)).partition("Findings")[2]
    assert text.splitlines().count("  lift · demos") == 1
    assert text.index("WARN  odd") < text.index("INFO  repaired")
    assert text.count("INFO  repaired") == 1
    assert "in 3 recordings · … 8 more: obs/b, obs/c …" in text
    full = text_of(results.render_results(made, full=True)).partition("Findings")[2]
    assert full.count("INFO  repaired") == 9
    assert [line for line in full.splitlines() if "lift · demos" in line] == [
        f"  lift · demos · {key}" for key in "qpr"
    ]


def test_a_warning_of_each_recording_is_told() -> None:
    made = [stage(checks=[check("x", finding(Severity.WARN, "odd"))], key=key) for key in "pq"]
    text = text_of(results.render_results(made))
    assert text.count("WARN  odd") == 2
    assert "more" not in text


def test_in_full_what_was_capped_is_counted() -> None:
    result = check("x", *[finding(Severity.WARN, "odd") for _ in range(20)])
    text = text_of(results.render_results([stage(checks=[result])], full=True))
    assert text.count("WARN  odd") == 3
    assert "… 17 more warn odd in obs/x" in text


def test_facts_of_unchanged_outputs_are_not_told_again() -> None:
    one = check("x", finding(Severity.INFO, "repaired"), finding(Severity.WARN, "odd"))
    text = text_of(results.render_results([stage(Status.UNCHANGED, [one])]))
    assert "odd" in text
    assert "repaired" not in text
    assert "repaired" in text_of(results.render_results([stage(Status.UNCHANGED, [one])], full=True))


def test_the_number_of_more_counts_what_was_capped() -> None:
    many = Findings()
    many.extend(finding(Severity.WARN, "odd") for _ in range(20))
    result = CheckResult("x", "X", True, many)
    assert "… 19 more" in text_of(results.render_results([stage(checks=[result])]))


def test_the_closing_line_counts_the_first_stage_and_sums_all_sizes() -> None:
    rejected = [Rejection("a.hdf5", "demo_1", "nan-action"), Rejection("a.hdf5", "demo_2", "too-short")]
    made = [stage(rejected=rejected), stage(of=Stage.STORE, key="")]
    line = results.closing_line(made, 3.14)
    assert line == "read 5 · written 3 · rejected 2 (1 nan-action, 1 too-short) · 2.4 kB · 3.1 s"
    assert results.closing_line(made, 3.14, made[1:]).endswith(" · 1.2 kB · 3.1 s")
    assert results.closing_line([], 0) == "read 0 · written 0 · rejected 0 · 0 B · 0.0 s"


def test_paths_are_relative_and_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert results.shown_path(tmp_path / "data" / "a.h5") == "data/a.h5"
    assert results.shown_path(tmp_path / "my data" / "a.h5") == "'my data/a.h5'"
    assert results.shown_path(Path("/etc/x")) == "/etc/x"


def test_text_of_files_cannot_style_or_drive_the_terminal() -> None:
    evil = finding(Severity.ERROR, column="[bold]x[/bold]\x1b[2J", got="[red]y")
    text = text_of(results.render_results([stage(checks=[check("x", evil)])]))
    assert "\x1b" not in text
    assert "[bold]x[/bold]\\x1b[2J" in text
    assert "[red]y" in text
