"""Rules of observations and images: terms, one layout for all demos, HWC frames, live cameras, stale rows.

What is not here: numbers that must be finite or in range, see `trajpipe.checks.demos_values`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from trajpipe.checks.demos_facts import OBS, DatasetFacts, DemoFacts, FileFacts
from trajpipe.checks.demos_subject import STAGE, facts_of, listed, shown
from trajpipe.checks.registry import Subject, check
from trajpipe.core import names
from trajpipe.core.findings import Finding, Severity
from trajpipe.core.order import natural_sorted

_CHANNELS: Final = (1, 3, 4)
_PLAIN_FILTERS: Final = ("deflate", "shuffle", "fletcher32")
_UNCOMPRESSED_BYTES: Final = 64 << 10


@check("demos-obs-terms", stage=STAGE, title="obs is a group of terms")
def obs_terms(subject: Subject) -> Iterator[Finding]:
    """One concatenated dataset has lost the terms; a demo without obs is said, never filled in."""
    facts = facts_of(subject)
    nested: set[str] = set()
    for demo in facts.demos:
        terms = demo.below(names.GROUP_OBS)
        place = facts.place(demo.name, names.GROUP_OBS)
        if demo.obs_is_dataset:
            message = "obs must be a group of terms; declare term_widths to split it"
            yield Finding("demos-obs-terms", Severity.ERROR, message, place, "one dataset", "a group")
        elif not terms:
            message = "the demo has no observations; they are not invented"
            yield Finding("demos-obs-terms", Severity.INFO, message, place)
        nested |= {p.removeprefix(OBS).split("/", 1)[0] for p in terms if "/" in p.removeprefix(OBS)}
    for group in natural_sorted(nested):
        message = "a nested group is kept as recorded; robomimic reads flat terms only"
        yield Finding("demos-obs-terms", Severity.INFO, message, facts.place(column=OBS + group))
    subject.count(len(facts.demos), len(facts.demos), "demos")


@check("demos-same-terms", stage=STAGE, title="All demos have the same terms, widths and dtypes")
def same_terms(subject: Subject) -> Iterator[Finding]:
    """Of actions and flat obs terms; what is kept as recorded may differ, and is told."""
    facts = facts_of(subject)
    kinds = [{p: _kind(d) for p, d in demo.datasets.items()} for demo in facts.demos]
    for demo, kind in zip(facts.demos[1:], kinds[1:], strict=True):
        for path in natural_sorted({*kind, *kinds[0]}):
            if kind.get(path) == kinds[0].get(path):
                continue
            term = path == names.DATASET_ACTIONS or (path.startswith(OBS) and path.count("/") == 1)
            message = f"the demo differs from {facts.demos[0].name} in this dataset"
            severity = Severity.ERROR if term else Severity.WARN
            got, expected = kind.get(path, "absent"), kinds[0].get(path, "absent")
            yield Finding("demos-same-terms", severity, message, facts.place(demo.name, path), got, expected)
    subject.count(len(facts.demos), len(facts.demos), "demos")


def _kind(dataset: DatasetFacts) -> str:
    return f"{dataset.dtype} {(dataset.shape or ())[1:]}"


def _images(facts: FileFacts) -> list[tuple[DemoFacts, str, DatasetFacts]]:
    return [(m, p, d) for m, p, d in facts.datasets() if p.startswith(OBS) and d.is_image]


@check("demos-images", stage=STAGE, title="Images are uint8 HWC, deflated in chunks")
def images(subject: Subject) -> Iterator[Finding]:
    """A filter that is not HDF5's own needs a plugin wherever the file is read."""
    facts = facts_of(subject)
    found = _images(facts)
    for demo, path, dataset in found:
        place = facts.place(demo.name, path)
        trailing = (dataset.shape or ())[1:]
        if len(trailing) != 3 or trailing[-1] not in _CHANNELS:
            message = "frames are (T, H, W, C) with 1, 3 or 4 channels last"
            got = f"shape {dataset.shape}"
            yield Finding("demos-images", Severity.ERROR, message, place, got, "(T, H, W, 1|3|4)")
        foreign = [f for f in dataset.filters if f not in _PLAIN_FILTERS]
        if foreign:
            message = "frames use a filter that not every HDF5 reads"
            got, expected = listed(foreign), "deflate"
            yield Finding("demos-images", Severity.ERROR, message, place, got, expected)
        elif "deflate" not in dataset.filters and int(np.prod(dataset.shape or (0,))) > _UNCOMPRESSED_BYTES:
            message = "frames are not compressed"
            got = listed(dataset.filters) or "no filter"
            yield Finding("demos-images", Severity.WARN, message, place, got, "deflate")
    if found:
        subject.count(len(found), len(found), "cameras of demos")


@check("demos-image-convention", stage=STAGE, title="macros_image_convention says opencv: top row first")
def image_convention(subject: Subject) -> Iterator[Finding]:
    """So that reading the file again never flips it."""
    facts = facts_of(subject)
    value = facts.data_attributes.get(names.ATTR_IMAGE_CONVENTION)
    if value != "opencv":
        message = "a reader that takes opengl would turn the frames upside down"
        place = facts.place(column=f"data@{names.ATTR_IMAGE_CONVENTION}")
        severity = Severity.ERROR if _images(facts) else Severity.WARN
        yield Finding("demos-image-convention", severity, message, place, shown(value), "'opencv'")


@check("demos-cameras-alive", stage=STAGE, title="No camera is black or of one colour", blocking=False)
def cameras_alive(subject: Subject) -> Iterator[Finding]:
    """All frames of a demo equal to one value: the camera was not rendered."""
    facts = facts_of(subject)
    found = _images(facts)
    for demo, path, dataset in found:
        if dataset.low is not None and dataset.high is not None:
            low, high = int(np.min(dataset.low)), int(np.max(dataset.high))
            if low == high:
                message = "every pixel of every frame has one value"
                place = facts.place(demo.name, path)
                yield Finding("demos-cameras-alive", Severity.WARN, message, place, f"{low}")
    if found:
        subject.count(len(found), len(found), "cameras of demos")


@check(
    "demos-stale-first-row",
    stage=STAGE,
    title="No demo begins with the last row before it",
    blocking=False,
)
def stale_first_row(subject: Subject) -> Iterator[Finding]:
    """A recorder that reads its buffer before the reset has taken effect writes such a row."""
    facts = facts_of(subject)
    for before, demo in zip(facts.demos, facts.demos[1:], strict=False):
        for path in demo.stale:
            message = "the first row is the previous demo's last; `drop_stale_first_row` drops it"
            place = facts.place(demo.name, path, 0)
            yield Finding("demos-stale-first-row", Severity.WARN, message, place, f"{before.name}'s last row")
    subject.count(len(facts.demos), len(facts.demos), "demos")
