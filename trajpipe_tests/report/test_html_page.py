"""The page and its overview: policy, order, counts, what odd values do to it.

What is not here: gathering (`trajpipe_tests/pipeline/test_report.py`), a browser (`trajpipe_tests/browser`).
"""

from __future__ import annotations

import errno
import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from trajpipe.core.findings import Denominator, Finding, Findings, Place, Severity
from trajpipe.core.ledger import Ledger, Rejection, entry
from trajpipe.report import html_overview as overview
from trajpipe.report.html_model import (
    EpisodeFacts,
    Output,
    Report,
    Rule,
    first_ledger,
    index_of,
    rules_by_stage,
)
from trajpipe.report.html_page import content_policy, details, size_without_details, write_page
from trajpipe.report.picture import Picture

HOSTILE = '</td><script>alert("1")</script>'


def rule(code: str, *severities: Severity, counted: Denominator | None = None) -> Rule:
    found = Findings()
    for number, severity in enumerate(severities):
        found.add(Finding(code, severity, f"finding {number}", Place("f", "demo_0")))
    return Rule(code, f"What {code} asks", Severity.ERROR not in severities, counted, found)


def ledger(written: int, *reasons: str, stage: str = "demos") -> Ledger:
    rejected = [Rejection("raw.hdf5", f"demo_{i}", reason, HOSTILE) for i, reason in enumerate(reasons)]
    return Ledger([entry("raw.hdf5", stage, written, rejected)])


def episodes(count: int) -> list[EpisodeFacts]:
    return [
        EpisodeFacts(
            f"demo_{i}", "raw.hdf5", f"demo_{i}", 10 + i, "lift", parts=[(0, None, f"demo_{i}", 10 + i)]
        )
        for i in range(count)
    ]


def report(**changes: Any) -> Report:
    made = Report(
        "lift",
        "a dataset",
        [
            Output("demos", "l2.hdf5", "built", ledger=ledger(3, "nan-action")),
            Output("store", "s.h5", "missing"),
        ],
        episodes=episodes(3),
        known=3,
    )
    return replace(made, **changes)


def written(value: Report, folder: Path, blocks: Sequence[Any] = ()) -> str:
    with details(folder, 1 << 20) as added:
        for block in blocks:
            added.add(block)
        size = write_page(value, added, folder / "a.html")
    assert size == (folder / "a.html").stat().st_size
    return (folder / "a.html").read_text("utf-8")


def test_the_policy_names_the_one_style_and_the_one_script(tmp_path: Path) -> None:
    text = written(report(), tmp_path)
    for tag in ("style", "script"):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = b64encode(sha256(content.encode("utf-8")).digest()).decode("ascii")
        assert f"{tag}-src 'sha256-{digest}'" in content_policy()
    assert content_policy().startswith("default-src 'none'; ")
    assert "unsafe" not in content_policy()
    assert not re.findall(r'\s(?:style|on\w+)="', text), "neither inline styles nor handlers would work"


def test_nothing_outside_the_file_is_named(tmp_path: Path) -> None:
    text = written(report(), tmp_path)
    assert not re.findall(r"https?://", text)
    assert set(re.findall(r'(?:href|src)="([^"]{1,20})', text)) == {
        f"#{s}" for s in ("stages", "pictures", "episodes", "certificate", "checks", "ledger")
    }


def test_what_is_filled_in_is_not_filled_in_again(tmp_path: Path) -> None:
    text = written(report(title="{{script}} {{details}}", subtitle=HOSTILE), tmp_path, [{"x": "{{index}}"}])
    assert "<h1>{{script}} {{details}}</h1>" in text
    assert text.count("<script>") == 1
    assert '{"x":"{{index}}"}' in text


def test_details_stop_at_their_bound(tmp_path: Path) -> None:
    with details(tmp_path / "new", 230) as added:
        assert [added.add({"v": "x" * 100}) for _ in range(3)] == [0, None, None]
        assert added.add({}) == 1
        assert added.written <= 230
    assert list((tmp_path / "new").iterdir()) == []


def test_the_size_is_known_before_details_are_written(tmp_path: Path) -> None:
    value = report()
    assert size_without_details(value) == len(written(value, tmp_path).encode("utf-8"))


def test_an_interrupted_write_leaves_the_older_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(report(), tmp_path)
    before = (tmp_path / "a.html").read_bytes()

    def broken(_: Any, __: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("trajpipe.report.html_page.shutil.copyfileobj", broken)
    with pytest.raises(KeyboardInterrupt):
        written(report(title="new"), tmp_path)
    assert (tmp_path / "a.html").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.html"]


def test_tiles_count_rejections_of_the_first_stage_once() -> None:
    outputs = [Output("demos", "a", ledger=ledger(3, "nan-action")), Output("demos", "b", ledger=ledger(2))]
    outputs.append(Output("store", "s", ledger=ledger(5, stage="store")))
    assert first_ledger(outputs).summary() == "read 6 · written 5 · rejected 1 (1 nan-action)"
    assert "<b>1 of 6</b>" in overview.tiles(report(outputs=outputs)).replace(' class=""', "")
    assert "no ledger" in overview.tiles(report(outputs=[]))


def test_failed_recordings_are_told_at_the_top_in_red() -> None:
    built = ledger(4, stage="store")
    built.failed = {f"take_{i}.hdf5": "truncated" for i in range(12)}
    outputs = [Output("demos", "a", ledger=ledger(4)), Output("store", "s.h5", ledger=built)]
    shown = overview.tiles(report(outputs=outputs))
    assert '<b class="bad">12 of 13</b><span>recordings failed</span>' in shown
    assert "recordings failed" not in overview.tiles(report(outputs=outputs[:1]))


def test_rules_of_several_outputs_are_one() -> None:
    one = Output("demos", "a", rules=[rule("x", counted=Denominator(3, 4, "demos"))])
    other = Output("demos", "b", rules=[rule("x", Severity.ERROR, counted=Denominator(2, 2, "demos"))])
    third = Output("store", "s", rules=[rule("x")])
    together = rules_by_stage([one, other, third])
    assert list(together) == ["demos", "store"]
    (joined,) = together["demos"]
    assert (joined.passed, str(joined.counted), len(joined.findings)) == (False, "checked 5 of 6 demos", 1)
    assert together["store"][0].passed


def test_the_worst_findings_come_first_and_repeats_are_counted() -> None:
    rules = [rule("calm", Severity.INFO), rule("odd", *[Severity.WARN] * 5), rule("bad", Severity.ERROR)]
    text = overview.checks(
        report(outputs=[Output("demos", "a", rules=rules, skipped={"other": "needs fps"})])
    )
    order = [text.index(f'class="s-{word}"') for word in ("error", "warn", "info")]
    assert order == sorted(order)
    assert text.count('class="s-warn"') == 3
    assert "Counted beyond them: 2 odd." in text
    assert "needs fps" in text
    assert "all 3 rules that ran" in text


def test_the_ledger_names_each_rejected_episode() -> None:
    text = overview.ledger(report())
    assert "<b>demos</b> read 4 · written 3 · rejected 1 (1 nan-action)" in text.replace(' class=""', "")
    assert "&lt;/td&gt;&lt;script&gt;" in text
    failed = report(outputs=[Output("demos", "a", ledger=Ledger(failed={"cut.hdf5": "truncated"}))])
    assert "cut.hdf5" in overview.ledger(failed)


def test_long_tables_are_cut_and_say_of_how_many() -> None:
    many = ledger(0, *["too-short"] * 40)
    text = overview.ledger(report(outputs=[Output("demos", "a", ledger=many)], listed=10))
    assert "The first 10 of 40 rejected episodes are listed." in text
    assert text.count("<code>too-short</code>") == 10


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"passed": True, "edges": []}, "Proven"),
        ({"passed": "yes"}, "Not proven."),
        ({"passed": False, "edges": "nonsense", "frames": 3, "stages": ["x"]}, "Not proven."),
        (
            {"edges": [{"title": HOSTILE, "findings": [{"severity": "error"}], "counted": [1, 2, "rows"]}]},
            "1 of 2 rows",
        ),
        ({"frames": {"sampled": 12, "bound_db": 30, "worst": {"db": None, "row": 4}}}, "no difference"),
        ({"stages": {"raw": {"a.hdf5": "ab12"}}}, "1 files and folders"),
    ],
)
def test_a_certificate_is_shown_whatever_it_holds(value: dict[str, Any], words: str) -> None:
    text = overview.certificate(report(certificate=value))
    assert words in text
    assert "<script>" not in text


def test_pictures_are_grouped_and_some_folded() -> None:
    def drawn(name: str) -> Picture:
        return Picture(name, b"png", "of everything")

    value = report(
        pictures=[("lift", drawn("funnel")), ("store", drawn("a")), ("store", drawn("b"))], opened=("lift",)
    )
    text = overview.pictures(value)
    assert text.count("<figure>") == 3
    assert text.index("funnel") < text.index("<details>") < text.index(">a<")
    assert "<details>" not in overview.pictures(replace(value, opened=()))


def test_the_index_is_small_and_whole() -> None:
    value = index_of(
        report(episodes=[*episodes(2), EpisodeFacts("x" * 900, "raw.hdf5", "y", 3, success=False)])
    )
    assert value["tables"] == {
        "task": ["lift", ""],
        "tag": ["unknown"],
        "split": [""],
        "recording": ["raw.hdf5"],
    }
    assert value["task"] == [0, 0, 1]
    assert value["success"] == [2, 2, 0]
    assert value["demo"] == ["", "", "y"]
    assert len(value["name"][2]) < 300
    assert value["parts"][1] == [[0, None, "", 11]]


def test_the_first_page_of_the_list_needs_no_script(tmp_path: Path) -> None:
    text = written(report(episodes=episodes(250), known=250), tmp_path)
    assert text.partition('id="list"')[2].partition("</table>")[0].count("<td>demo_") == 100
    assert "Without JavaScript the first 100 of 250 episodes are listed" in text


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_what_the_system_refuses_names_the_folder(tmp_path: Path, code: int) -> None:
    with pytest.raises(OSError, match=re.escape(str(tmp_path))), details(tmp_path, 1 << 20):
        raise OSError(code, "refused", str(tmp_path / "tmp8yyv2r1e"))
    with pytest.raises(OSError, match="source") as caught, details(tmp_path, 1 << 20):
        raise OSError(errno.EIO, "refused", "source.hdf5")
    assert caught.value.filename == "source.hdf5"
