"""The overview of a page, which needs no script: stages, pictures, certificate, checks, ledger, episodes.

What is not here: escaping, see `html_text`; the viewer of episodes, see `html_page.js`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from trajpipe.core.findings import Finding, Severity
from trajpipe.core.ledger import Ledger
from trajpipe.core.names import Stage
from trajpipe.report.html_model import EpisodeFacts, Output, Report, Rule, first_ledger, rules_by_stage
from trajpipe.report.html_text import Markup, element, joined, picture, table
from trajpipe.report.picture import Picture

FIRST_PAGE: Final = 100
_WORST: Final = (Severity.ERROR, Severity.WARN, Severity.INFO)
_HASH: Final = 12


def tiles(report: Report) -> Markup:
    """The figures that one looks for first."""
    ledger = first_ledger(report.outputs)
    failed = sum(o.failed for o in report.outputs)
    checks = sum(len(o.rules) for o in report.outputs)
    rows = sum(e.length for e in report.episodes)
    shown = [
        ("episodes", f"{report.known:,}", ""),
        ("rows", f"{rows:,}" if len(report.episodes) == report.known else f"{rows:,} listed", ""),
        *_failed_recordings(report),
        ("rejected", f"{len(ledger.rejected):,} of {ledger.read:,}" if ledger.entries else "no ledger", ""),
        (
            "checks failed",
            f"{failed:,} of {checks:,}" if checks else "none ran",
            "bad" if failed else "good" if checks else "",
        ),
    ]
    if report.certificate is not None:
        passed = report.certificate.get("passed") is True and report.certificate_current
        word = "proven" if passed else "not proven" if report.certificate_current else "of other bytes"
        shown.append(("certificate", word, "good" if passed else "bad"))
    return joined(
        [element("div", element("b", v, cls=c), element("span", k), cls="tile") for k, v, c in shown]
    )


def _failed_recordings(report: Report) -> list[tuple[str, str, str]]:
    """A tile of the recordings that could not be used, when there are any: of the output that lacks most."""
    ledgers = [o.ledger for o in report.outputs if o.ledger is not None and o.ledger.failed]
    if not ledgers:
        return []
    worst = max(ledgers, key=lambda one: len(one.failed))
    known = {entry.recording for entry in worst.entries} | set(worst.failed)
    return [("recordings failed", f"{len(worst.failed):,} of {len(known):,}", "bad")]


def stages(report: Report) -> Markup:
    """One row per output."""
    rows = [
        (
            element("b", o.stage),
            o.name,
            element("span", o.state, cls="good" if o.state in ("built", "there") else "bad"),
            f"{o.episodes:,}" if o.is_read else "",
            f"{o.rows:,}" if o.is_read else "",
            o.facts.get("size", ""),
            element("code", o.facts.get("sha256", "")[:_HASH]),
            _checks_word(o),
            o.note,
        )
        for o in report.outputs[: report.listed]
    ]
    headers = ("stage", "output", "state", "episodes", "rows", "size", "sha256", "checks", "note")
    return joined(
        [
            table(headers, rows, right=("episodes", "rows", "size")),
            _more(report.outputs, report.listed, "outputs"),
        ]
    )


def _checks_word(output: Output) -> Markup:
    total = len(output.rules)
    if not total:
        return element("span", "not run", cls="dim")
    if output.failed:
        return element("span", f"{output.failed} of {total} failed", cls="bad")
    warned = sum(r.findings.worst() is Severity.WARN for r in output.rules)
    return element("span", f"{total - warned} passed" + (f", {warned} warned" if warned else ""), cls="good")


def pictures(report: Report) -> Markup:
    """All pictures, grouped by what they are of."""
    if not report.pictures:
        return element("p", "No picture could be drawn.", cls="dim")
    groups = dict.fromkeys(of for of, _ in report.pictures)
    parts: list[Markup] = []
    for of in groups:
        figures = element("div", *_figures_of(report, of), cls="figures")
        shown = of in report.opened or not report.opened
        parts.append(joined([element("h3", of), figures]) if shown else _folded(of, figures))
    return joined(parts)


def _figures_of(report: Report, of: str) -> list[Markup]:
    return [_figure(p, p.name) for name, p in report.pictures if name == of]


def _figure(shown: Picture, title: str) -> Markup:
    words = element("figcaption", element("b", title), " ", shown.caption)
    return element("figure", picture(shown.data_uri, title), words)


def certificate(report: Report) -> Markup:
    """The certificate beside the export: what was compared, what was found."""
    value = report.certificate
    if value is None:
        text = "There is no certificate: building a LeRobot export makes one, and so does trajpipe certify."
        return element("p", text, cls="dim")
    passed = value.get("passed") is True
    verdict = "Proven: raw = L2 = store = LeRobot, row for row." if passed else "Not proven."
    if not report.certificate_current:
        verdict = (
            "The export was changed after this certificate was made: it proves nothing of what is there now."
        )
        passed = False
    parts: list[Markup] = [element("p", element("b", verdict, cls="good" if passed else "bad"))]
    edges = [e for e in _list(value.get("edges")) if isinstance(e, Mapping)]
    parts.append(table(("edge", "result", "compared", "code"), [_edge(e) for e in edges[: report.listed]]))
    frames = value.get("frames")
    if isinstance(frames, Mapping):
        parts.append(element("p", _frames_words(frames)))
    if report.certificate_picture is not None:
        worst = Picture("worst frame", report.certificate_picture, "Source left, export right.")
        parts.append(element("div", _figure(worst, worst.name), cls="figures"))
    hashes = value.get("stages")
    if isinstance(hashes, Mapping):
        rows = [
            (stage, name, element("code", sha))
            for stage, of in hashes.items()
            if isinstance(of, Mapping)
            for name, sha in of.items()
        ]
        inner = table(("stage", "name", "sha256"), rows[: report.listed])
        parts.append(_folded(f"{len(rows):,} files and folders with their hashes", inner))
    return joined(parts)


def _edge(edge: Mapping[str, Any]) -> tuple[object, ...]:
    errors = [
        f for f in _list(edge.get("findings")) if isinstance(f, Mapping) and f.get("severity") == "error"
    ]
    counted = _list(edge.get("counted"))
    compared = f"{counted[0]} of {counted[1]} {counted[2]}" if len(counted) == 3 else ""
    result = element("span", "differs" if errors else "equal", cls="bad" if errors else "good")
    return edge.get("title", ""), result, compared, element("code", edge.get("code", ""))


def _frames_words(frames: Mapping[str, Any]) -> str:
    text = f"{frames.get('sampled', 0)} frames sampled, at least {frames.get('bound_db')} dB asked for"
    worst = frames.get("worst")
    if isinstance(worst, Mapping):
        decibels = worst.get("db")
        text += "; the worst has " + ("no difference" if decibels is None else f"{decibels} dB")
        text += f" ({worst.get('episode')} · {worst.get('camera')} · row {worst.get('row')})"
    return text + "."


def checks(report: Report) -> Markup:
    """What the checks found, the worst first; all rules are folded away. Outputs of a stage are one."""
    parts: list[Markup] = []
    for stage, rules in rules_by_stage(report.outputs).items():
        found = sorted(
            ((r, f) for r in rules for f in r.findings), key=lambda pair: _WORST.index(pair[1].severity)
        )
        if found:
            rows = [_finding(rule, finding) for rule, finding in found[: report.listed]]
            headers = ("", "rule", "place", "what", "got", "expected")
            parts += [element("h3", stage), table(headers, rows), _more(found, report.listed, "findings")]
            parts += [_repeats(rules)]
        lines = [
            (element("code", r.code), "passed" if r.passed else "failed", r.title, r.counted or "")
            for r in rules
        ]
        skipped = {c: why for o in report.outputs if o.stage == stage for c, why in o.skipped.items()}
        lines += [(element("code", c), "not applicable", "", why) for c, why in sorted(skipped.items())]
        summary = f"{stage}: all {len(rules):,} rules that ran"
        parts.append(_folded(summary, table(("rule", "result", "what it asks", "looked at"), lines)))
    return joined(parts) or element("p", "No checks ran.", cls="dim")


def _finding(rule: Rule, finding: Finding) -> tuple[object, ...]:
    word = element("span", finding.severity.value, cls=f"s-{finding.severity.value}")
    own = finding.code if finding.code == rule.code else f"{rule.code}: {finding.code}"
    return (
        word,
        element("code", own),
        finding.place,
        finding.message,
        finding.got or "",
        finding.expected or "",
    )


def _repeats(rules: Sequence[Rule]) -> Markup:
    """How many findings were counted and not kept."""
    more: Counter[str] = Counter()
    for rule in rules:
        for code, _, _, count in rule.findings.repeats():
            more[code] += count
    if not more:
        return Markup("")
    text = ", ".join(f"{n:,} {code}" for code, n in sorted(more.items()))
    return element("p", f"Of each kind and column three are kept. Counted beyond them: {text}.", cls="dim")


def ledger(report: Report) -> Markup:
    """What each recording gave to each stage; each rejected episode with its reason."""
    whole = Ledger.joined(o.ledger for o in report.outputs if o.ledger is not None)
    if not whole.entries and not whole.failed:
        return element("p", "There is no ledger beside these files.", cls="dim")
    by_stage = [(s, Ledger([e for e in whole.entries if e.stage == s])) for s in Stage]
    rows = [(e.stage, e.recording, e.read, e.written, len(e.rejected)) for e in whole.entries]
    counts = ("read", "written", "rejected")
    parts = [
        *(element("p", element("b", s.value), " ", of.summary()) for s, of in by_stage if of.entries),
        table(("stage", "recording", *counts), rows[: report.listed], right=counts),
        _more(rows, report.listed, "recordings"),
    ]
    rejected = [(e.stage, r) for e in whole.entries for r in e.rejected]
    if rejected:
        lines = [
            (stage, r.recording, r.episode, element("code", r.reason), r.detail)
            for stage, r in rejected[: report.listed]
        ]
        parts += [element("h3", "Rejected episodes")]
        parts += [table(("stage", "recording", "episode", "reason", "detail"), lines)]
        parts += [_more(rejected, report.listed, "rejected episodes")]
    if whole.failed:
        parts += [element("h3", "Recordings that could not be used")]
        parts += [table(("recording", "why"), sorted(whole.failed.items())[: report.listed])]
    return joined(parts)


def first_rows(episodes: Sequence[EpisodeFacts]) -> Markup:
    """The first page of the table of episodes; the page's script takes its place."""
    words = {True: "yes", False: "no", None: "unknown"}
    return joined(
        [
            element(
                "tr",
                element("td", str(number), cls="n"),
                element("td", e.name),
                element("td", e.task),
                element("td", f"{e.length:,}", cls="n"),
                element("td", e.tag),
                element("td", words[e.success]),
                element("td", e.split),
                element("td", e.recording),
                element("td", str(len(e.findings) or ""), cls="n"),
            )
            for number, e in enumerate(episodes[:FIRST_PAGE])
        ]
    )


def notes(report: Report) -> Markup:
    """What the page leaves out."""
    return element("ul", *(element("li", n) for n in report.notes)) if report.notes else Markup("")


def _folded(summary: str, content: Markup) -> Markup:
    return element("details", element("summary", summary), content)


def _more(items: Sequence[object], limit: int, unit: str) -> Markup:
    if len(items) <= limit:
        return Markup("")
    return element("p", f"The first {limit:,} of {len(items):,} {unit} are listed.", cls="dim")


def _list(value: object) -> list[Any]:
    return list(value) if isinstance(value, Iterable) and not isinstance(value, (str, Mapping)) else []
