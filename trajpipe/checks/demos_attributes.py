"""Rules of a demo's attributes: success, source, task, hashes, alignment, and that no path leaks.

What is not here: attributes of the file as a whole, see `trajpipe.checks.demos_layout`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from trajpipe.checks.demos_facts import DemoFacts, FileFacts
from trajpipe.checks.demos_subject import STAGE, facts_of, listed, shown
from trajpipe.checks.registry import Subject, check
from trajpipe.core import names
from trajpipe.core.findings import Finding, Severity
from trajpipe.core.paths import absolute_paths

_SHA256: Final = re.compile(r"[0-9a-f]{64}")


@check("demos-success", stage=STAGE, title="Every demo says success, as an HDF5 bool")
def success(subject: Subject) -> Iterator[Finding]:
    """And whether that is known."""
    facts = facts_of(subject)
    for demo in facts.demos:
        for name in (names.ATTR_SUCCESS, names.ATTR_SUCCESS_KNOWN):
            value = demo.attributes.get(name)
            if not isinstance(value, bool):
                place = facts.place(demo.name, f"@{name}")
                message = f"{name} must be an HDF5 enum bool"
                yield Finding("demos-success", Severity.ERROR, message, place, shown(value), "bool")
    unknown = [d.name for d in facts.demos if d.attributes.get(names.ATTR_SUCCESS_KNOWN) is False]
    failed = [d.name for d in facts.demos if d.attributes.get(names.ATTR_SUCCESS) is False]
    if unknown:
        message = "the recording does not say whether these demos succeeded"
        got = f"{len(unknown)} of {len(facts.demos)} demos"
        place = facts.place(column=f"@{names.ATTR_SUCCESS_KNOWN}")
        yield Finding("demos-success", Severity.INFO, message, place, got)
    subject.measures |= {"unknown_success": float(len(unknown)), "failed": float(len(failed))}
    subject.count(len(facts.demos), len(facts.demos), "demos")


@check("demos-attributes", stage=STAGE, title="Source, task, hashes and alignment are on every demo")
def attributes(subject: Subject) -> Iterator[Finding]:
    """Each of its own kind."""
    facts = facts_of(subject)
    for demo in facts.demos:
        yield from _attributes_of(facts, demo)
    subject.count(len(facts.demos), len(facts.demos), "demos")


def _attributes_of(facts: FileFacts, demo: DemoFacts) -> Iterator[Finding]:
    def finding(name: str, message: str, expected: str, severity: Severity = Severity.ERROR) -> Finding:
        place, got = facts.place(demo.name, f"@{name}"), shown(demo.attributes.get(name))
        return Finding("demos-attributes", severity, message, place, got, expected)

    tags, alignments = [t.value for t in names.Tag], [a.value for a in names.Alignment]
    value = demo.attributes
    if value.get(names.ATTR_SOURCE) not in tags:
        yield finding(names.ATTR_SOURCE, "the source tag is one of five", ", ".join(tags))
    for name in (names.ATTR_SOURCE_FILE, names.ATTR_SOURCE_DEMO):
        if not isinstance(value.get(name), str) or not value[name] or "/" in value[name]:
            yield finding(name, f"{name} must be a name, never a path", "a base name")
    for name in (names.ATTR_SOURCE_SHA256, names.ATTR_CONTENT_SHA256):
        if not isinstance(value.get(name), str) or not _SHA256.fullmatch(value[name]):
            yield finding(name, f"{name} must be a SHA-256", "64 lower-case hex digits")
    if not isinstance(value.get(names.ATTR_TASK), str):
        yield finding(names.ATTR_TASK, "task must be text, empty when there is none", "text")
    if names.ATTR_SEED in value and type(value[names.ATTR_SEED]) is not int:
        yield finding(names.ATTR_SEED, "a seed is an integer", "int")
    alignment = value.get(names.ATTR_OBS_ALIGNMENT)
    if alignment is None and not demo.below(names.GROUP_OBS):
        return
    if alignment is None:
        message = "nobody declared whether obs precede or follow the action; declare `alignment`"
        yield finding(names.ATTR_OBS_ALIGNMENT, message, " or ".join(alignments), Severity.WARN)
    elif alignment not in alignments:
        yield finding(names.ATTR_OBS_ALIGNMENT, "the alignment is one of two", " or ".join(alignments))


@check("demos-content-hash", stage=STAGE, title="content_sha256 is the hash of the demo's datasets")
def content_hash(subject: Subject) -> Iterator[Finding]:
    """Recomputed from path, dtype, shape and bytes; equal demos are told too."""
    facts = facts_of(subject)
    known = [demo for demo in facts.demos if demo.content_sha256 is not None]
    for demo in known:
        stated = demo.attributes.get(names.ATTR_CONTENT_SHA256)
        if stated != demo.content_sha256:
            message = "the demo's values are not those that were written; make the file again"
            place = facts.place(demo.name, f"@{names.ATTR_CONTENT_SHA256}")
            got, expected = shown(stated), demo.content_sha256
            yield Finding("demos-content-hash", Severity.ERROR, message, place, got, expected)
    for content, count in Counter(demo.content_sha256 for demo in known).items():
        if count > 1:
            same = [demo.name for demo in known if demo.content_sha256 == content]
            message = "demos are equal value for value; exclude all but one"
            yield Finding("demos-content-hash", Severity.WARN, message, facts.place(same[0]), listed(same))
    subject.count(len(known), len(facts.demos), "demos")


@check("demos-no-absolute-paths", stage=STAGE, title="No absolute path of anybody is in an attribute")
def no_absolute_paths(subject: Subject) -> Iterator[Finding]:
    """`model_file` names meshes on its author's disk; outputs hold base names."""
    facts = facts_of(subject)
    owners: list[tuple[str | None, str, Mapping[str, Any]]] = [
        (None, "", facts.root_attributes),
        (None, names.GROUP_DATA, facts.data_attributes),
        *((demo.name, "", demo.attributes) for demo in facts.demos),
    ]
    checked = 0
    for demo, owner, values in owners:
        for name, value in values.items():
            texts = [v for v in (value if isinstance(value, list) else [value]) if isinstance(v, str)]
            checked += len(texts)
            found = [path for text in texts for path in absolute_paths(text)]
            if found:
                message = "an attribute holds an absolute path; make the file again with trajpipe"
                place = facts.place(demo, f"{owner}@{name}")
                yield Finding("demos-no-absolute-paths", Severity.ERROR, message, place, listed(found))
    subject.count(checked, checked, "texts")


@check("demos-filters", stage=STAGE, title="Every demo passes the declared filters", needs=("filters",))
def filters(subject: Subject) -> Iterator[Finding]:
    """Minimum length and success."""
    facts, declared = facts_of(subject), subject.context["filters"]
    shortest = int(declared.get("min_length", 1))
    for demo in facts.demos:
        if demo.length < shortest:
            message = "a demo is shorter than the filter allows"
            place = facts.place(demo.name)
            got = f"{demo.length} rows"
            yield Finding("demos-filters", Severity.ERROR, message, place, got, f"≥ {shortest}")
        if declared.get("only_success") and demo.attributes.get(names.ATTR_SUCCESS) is not True:
            message = "a demo that failed is here though only success stays"
            yield Finding("demos-filters", Severity.ERROR, message, facts.place(demo.name, "@success"))
    subject.count(len(facts.demos), len(facts.demos), "demos")
