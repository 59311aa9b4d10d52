"""Rules of an L2 file's layout: it reads, its version, its numbering and counts, env_args, recipe, masks.

What is not here: the demos' attributes (`trajpipe.checks.demos_attributes`) and values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from trajpipe.checks.demos_facts import INITIAL_STATE, STATES, FileFacts
from trajpipe.checks.demos_subject import STAGE, facts_of, facts_or_error, listed, shown
from trajpipe.checks.registry import Subject, check
from trajpipe.core import jsontext, names
from trajpipe.core.errors import InputError
from trajpipe.core.findings import Finding, Severity
from trajpipe.core.order import natural_sorted

OLD_LAYOUT: Final = "episodes"


@check("demos-readable", stage=STAGE, title="The file opens, and every stored byte of it can be read")
def readable(subject: Subject) -> Iterator[Finding]:
    """Truncated files, external links, broken gzip chunks: with dataset and row."""
    facts = facts_or_error(subject)
    if facts.error is not None:
        place = facts.place()
        yield Finding("demos-readable", Severity.ERROR, str(facts.error), place, got=facts.error.code)
        return
    every = list(facts.datasets())
    for demo, path, dataset in every:
        if dataset.unreadable_row is not None:
            message = "stored bytes cannot be read; make the file again"
            place = facts.place(demo.name, path, dataset.unreadable_row)
            yield Finding("demos-readable", Severity.ERROR, message, place)
    subject.measures["bytes_read"] = float(sum(d.bytes_read for _, _, d in every))
    subject.count(len(every), len(every), "datasets")


@check("demos-format-version", stage=STAGE, title="format_version is 1: every quaternion is xyzw")
def format_version(subject: Subject) -> Iterator[Finding]:
    """0 or absent is the legacy wxyz order."""
    facts = facts_of(subject)
    version = facts.root_attributes.get(names.ATTR_FORMAT_VERSION)
    if type(version) is not int or version != names.L2_FORMAT_VERSION:
        message = "the root attribute format_version must be int 1, else readers take quaternions as wxyz"
        place = facts.place(column=f"@{names.ATTR_FORMAT_VERSION}")
        yield Finding("demos-format-version", Severity.ERROR, message, place, shown(version), "1")


@check("demos-layout", stage=STAGE, title="Demos lie below /data, nothing else does")
def layout(subject: Subject) -> Iterator[Finding]:
    """The old `episodes/` layout is refused by name."""
    facts = facts_of(subject)
    if OLD_LAYOUT in facts.root_items:
        message = "the old `episodes/` layout is not L2; convert it with the tool that wrote it"
        yield Finding("demos-layout", Severity.ERROR, message, facts.place(column=f"/{OLD_LAYOUT}"))
    if names.GROUP_DATA not in facts.root_items:
        message = "there is no group /data"
        yield Finding("demos-layout", Severity.ERROR, message, facts.place(), listed(list(facts.root_items)))
    for name in facts.strange:
        message = "only groups lie below /data"
        yield Finding("demos-layout", Severity.ERROR, message, facts.place(column=f"/data/{name}"))
    for name in sorted(set(facts.root_items) - {names.GROUP_DATA, names.GROUP_MASK, OLD_LAYOUT}):
        message = "nothing reads this item of the root"
        yield Finding("demos-layout", Severity.INFO, message, facts.place(column=f"/{name}"))


@check("demos-numbering", stage=STAGE, title="Demos are numbered demo_0 … demo_<N-1> without gaps")
def numbering(subject: Subject) -> Iterator[Finding]:
    """At least one demo."""
    facts = facts_of(subject)
    found = [demo.name for demo in facts.demos]
    wanted = [f"{names.DEMO_PREFIX}{i}" for i in range(len(found))]
    if not found:
        message = "the file has no demos; an empty recording is no success"
        yield Finding("demos-numbering", Severity.ERROR, message, facts.place(column="/data"), "0 demos")
    elif found != wanted:
        message = "demos are not numbered densely from 0"
        missing = f"without {listed([n for n in wanted if n not in set(found)])}"
        strange = listed([n for n in found if n not in set(wanted)])
        yield Finding("demos-numbering", Severity.ERROR, message, facts.place(), strange, missing)
    subject.count(len(found), len(found), "demos")


@check("demos-num-samples", stage=STAGE, title="num_samples is len(actions), at least 1")
def num_samples(subject: Subject) -> Iterator[Finding]:
    """Of every demo."""
    facts = facts_of(subject)
    for demo in facts.demos:
        stated = demo.attributes.get(names.ATTR_NUM_SAMPLES)
        place = facts.place(demo.name, f"@{names.ATTR_NUM_SAMPLES}")
        if type(stated) is not int or stated != demo.length:
            message = "num_samples must be len(actions)"
            yield Finding(
                "demos-num-samples", Severity.ERROR, message, place, shown(stated), str(demo.length)
            )
        if demo.length < 1:
            message = "a demo has at least one row of actions"
            yield Finding("demos-num-samples", Severity.ERROR, message, place, "0 rows", "≥ 1")
    subject.count(len(facts.demos), len(facts.demos), "demos")


@check("demos-total", stage=STAGE, title="total is the sum of len(actions)")
def total(subject: Subject) -> Iterator[Finding]:
    """Transitions and not episodes."""
    facts = facts_of(subject)
    stated, true = facts.data_attributes.get(names.ATTR_TOTAL), sum(demo.length for demo in facts.demos)
    if type(stated) is not int or stated != true:
        message = "total must be the number of rows of all demos"
        place = facts.place(column=f"data@{names.ATTR_TOTAL}")
        yield Finding("demos-total", Severity.ERROR, message, place, shown(stated), str(true))
    subject.measures["rows"] = float(true)
    subject.count(len(facts.demos), len(facts.demos), "demos")


@check("demos-env-args", stage=STAGE, title="env_args is strict JSON with env_name, type and env_kwargs")
def env_args(subject: Subject) -> Iterator[Finding]:
    """Robomimic 0.5 raises without env_kwargs; a bare NaN is no JSON."""
    facts = facts_of(subject)
    place = facts.place(column=f"data@{names.ATTR_ENV_ARGS}")
    text = facts.data_attributes.get(names.ATTR_ENV_ARGS)
    value = _json_object(text)
    if value is None:
        message = "env_args must be the text of a JSON object"
        yield Finding("demos-env-args", Severity.ERROR, message, place, shown(text))
        return
    for key, kind in (("env_name", str), ("type", int), ("env_kwargs", dict)):
        if type(value.get(key)) is not kind:
            message = f"env_args must hold {key}"
            got = shown(value.get(key))
            yield Finding("demos-env-args", Severity.ERROR, message, place, got, kind.__name__)
    if value.get("env_name") == "":
        message = "env_name is empty, so nobody can make the environment again"
        yield Finding("demos-env-args", Severity.WARN, message, place)


def _json_object(text: object) -> dict[str, Any] | None:
    try:
        value = jsontext.loads(text) if isinstance(text, str) else None
    except InputError:
        return None
    return value if isinstance(value, dict) else None


@check("demos-recipe", stage=STAGE, title="The recipe is strict JSON with sorted keys")
def recipe(subject: Subject) -> Iterator[Finding]:
    """It says what the file was made of."""
    facts = facts_of(subject)
    text = facts.data_attributes.get(names.ATTR_TRAJPIPE)
    value = _json_object(text)
    place = facts.place(column=f"data@{names.ATTR_TRAJPIPE}")
    if value is None:
        message = "the recipe must be the text of a JSON object; make the file with trajpipe"
        yield Finding("demos-recipe", Severity.ERROR, message, place, shown(text))
    elif jsontext.dumps(value) != text:
        message = "the recipe must be compact JSON with sorted keys, so that equal recipes are equal text"
        yield Finding("demos-recipe", Severity.ERROR, message, place)


@check("demos-row-counts", stage=STAGE, title="obs and states have T rows, initial_state one")
def row_counts(subject: Subject) -> Iterator[Finding]:
    """Other groups are kept as recorded, whatever their length."""
    facts, checked = facts_of(subject), 0
    for demo, path, dataset in facts.datasets():
        group = path.split("/", 1)[0]
        if group not in (names.GROUP_OBS, STATES, INITIAL_STATE):
            continue
        checked += 1
        wanted = 1 if group == INITIAL_STATE else demo.length
        if dataset.rows != wanted or not dataset.shape:
            message = f"a dataset below {group} has {'one row' if group == INITIAL_STATE else 'T rows'}"
            got, place = f"shape {dataset.shape}", facts.place(demo.name, path)
            yield Finding("demos-row-counts", Severity.ERROR, message, place, got, f"{wanted} rows")
    if checked:
        subject.count(checked, checked, "datasets")
    else:
        message = "there are no obs, states or initial_state to count"
        yield Finding("demos-row-counts", Severity.INFO, message, facts.place())


@check("demos-no-strings", stage=STAGE, title="No string dataset inside a demo")
def no_strings(subject: Subject) -> Iterator[Finding]:
    """IsaacLab's load_episode turns every dataset into a tensor and dies of text."""
    facts = facts_of(subject)
    every = list(facts.datasets())
    for demo, path, dataset in every:
        if not dataset.is_number:
            message = "a demo holds numbers and bools only; keep text in attributes"
            place = facts.place(demo.name, path)
            yield Finding("demos-no-strings", Severity.ERROR, message, place, str(dataset.dtype))
    subject.count(len(every), len(every), "datasets")


@check("demos-masks", stage=STAGE, title="Masks are disjoint and name demos of the file")
def masks(subject: Subject) -> Iterator[Finding]:
    """Fixed-length byte strings, which robomimic decodes."""
    facts = facts_of(subject)
    known = {demo.name for demo in facts.demos}
    for name, mask in facts.masks.items():
        place = facts.place(column=f"mask/{name}")
        if not mask.fixed_bytes:
            message = "a mask is one axis of fixed-length byte strings"
            yield Finding("demos-masks", Severity.ERROR, message, place, mask.stored, "S<n> (N,)")
        strange = [d for d in mask.demos if d not in known]
        if strange:
            message = "a mask names demos that are not in the file"
            yield Finding("demos-masks", Severity.ERROR, message, place, listed(strange))
        twice = [d for d, count in Counter(mask.demos).items() if count > 1]
        if twice:
            message = "a mask names a demo twice"
            yield Finding("demos-masks", Severity.ERROR, message, place, listed(twice))
    yield from _split_findings(facts)
    subject.measures |= {f"mask_{name}": float(len(mask.demos)) for name, mask in facts.masks.items()}


def _split_findings(facts: FileFacts) -> Iterator[Finding]:
    place = facts.place(column=names.GROUP_MASK)
    train, valid = (
        set(facts.masks[m].demos) if m in facts.masks else set() for m in (names.MASK_TRAIN, names.MASK_VALID)
    )
    if train & valid:
        message = "train and valid share demos"
        got = listed(natural_sorted(train & valid))
        yield Finding("demos-masks", Severity.ERROR, message, place, got, "no demo in both")
    if not facts.masks:
        message = "the file has no masks, so every demo is for training"
        yield Finding("demos-masks", Severity.INFO, message, place)
    else:
        neither = [d.name for d in facts.demos if d.name not in train | valid]
        if neither:
            message = "demos lie in neither train nor valid"
            yield Finding("demos-masks", Severity.WARN, message, place, listed(neither))
