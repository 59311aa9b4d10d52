"""Rules of numbers: actions, finite values, ranges, unit quaternions, obs against states and actions.

What is not here: shapes of observations and images, see `trajpipe.checks.demos_obs`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.checks.demos_facts import OBS, DatasetFacts, DemoFacts, FileFacts
from trajpipe.checks.demos_subject import STAGE, facts_of, shown
from trajpipe.checks.registry import Subject, check
from trajpipe.core import jsontext, names
from trajpipe.core.errors import InputError
from trajpipe.core.findings import Finding, Severity
from trajpipe.core.names import Alignment

NORM_TOLERANCE: Final = 1e-3
_OBS_ACTIONS: Final = OBS + names.DATASET_ACTIONS


@check("demos-actions", stage=STAGE, title="actions are float32 (T, A)")
def actions(subject: Subject) -> Iterator[Finding]:
    """In every demo."""
    facts = facts_of(subject)
    for demo in facts.demos:
        place, found = facts.place(demo.name, names.DATASET_ACTIONS), demo.actions
        if found is None:
            message = "the demo has no actions"
            yield Finding("demos-actions", Severity.ERROR, message, place)
        elif found.dtype != np.float32 or len(found.shape or ()) != 2:
            message = "actions must be float32 of rank 2"
            got = f"{found.dtype} {found.shape}"
            yield Finding("demos-actions", Severity.ERROR, message, place, got, "float32 (T, A)")
    subject.count(len(facts.demos), len(facts.demos), "demos")


@check("demos-actions-finite", stage=STAGE, title="actions hold no NaN and no infinity")
def actions_finite(subject: Subject) -> Iterator[Finding]:
    """The first bad row of each demo."""
    facts = facts_of(subject)
    for demo in facts.demos:
        if demo.actions is not None and demo.actions.bad_row is not None:
            yield _not_finite(facts, demo, names.DATASET_ACTIONS, demo.actions, "demos-actions-finite")
    subject.count(len(facts.demos), len(facts.demos), "demos")


def _not_finite(facts: FileFacts, demo: DemoFacts, path: str, dataset: DatasetFacts, code: str) -> Finding:
    terms = path == names.DATASET_ACTIONS or path.startswith(OBS)
    severity = Severity.ERROR if terms else Severity.WARN
    got = f"{dataset.bad_rows} of {dataset.rows} rows with NaN or infinity"
    message = "values must be finite; reject the demo or mend the recording"
    return Finding(code, severity, message, facts.place(demo.name, path, dataset.bad_row), got, "none")


@check("demos-obs-finite", stage=STAGE, title="Observations hold no NaN and no infinity")
def obs_finite(subject: Subject) -> Iterator[Finding]:
    """A warning for what else is kept as recorded (states, rewards, initial_state)."""
    facts, checked = facts_of(subject), 0
    for demo, path, dataset in facts.datasets():
        if path == names.DATASET_ACTIONS or dataset.dtype.kind != "f":
            continue
        checked += 1
        if dataset.bad_row is not None:
            yield _not_finite(facts, demo, path, dataset, "demos-obs-finite")
    if checked:
        subject.count(checked, checked, "float columns of demos")


@check("demos-action-range", stage=STAGE, title="Actions stay in their declared range", blocking=False)
def action_range(subject: Subject) -> Iterator[Finding]:
    """Warned with minimum and maximum per dimension; nothing is ever clipped.

    Without a declared range delta actions, and those of unknown meaning, are expected in [-1, 1].
    """
    facts = facts_of(subject)
    ranges = [r for demo in facts.demos if (r := _range(demo.actions)) is not None]
    same = [r for r in ranges if r[0].shape == ranges[0][0].shape]
    subject.count(len(same), len(facts.demos), "demos")
    if not same:
        return
    # + 0.0 turns -0 into 0, which reads better.
    low, high = np.fmin.reduce([r[0] for r in same]) + 0.0, np.fmax.reduce([r[1] for r in same]) + 0.0
    subject.measures |= {"action_min": float(np.min(low)), "action_max": float(np.max(high))}
    declared = _declared_actions(subject, facts)
    bounds = _bounds(declared, len(low))
    if bounds is None:
        return
    outside = [i for i in range(len(low)) if low[i] < bounds[0][i] or high[i] > bounds[1][i]]
    if outside:
        place = facts.place(column=names.DATASET_ACTIONS)
        got = "; ".join(f"dim {i}: {low[i]:g} to {high[i]:g}" for i in outside)
        expected = "; ".join(f"dim {i}: {bounds[0][i]:g} to {bounds[1][i]:g}" for i in outside)
        message = "actions leave their range; declare `action: {low, high}` if that is meant"
        yield Finding("demos-action-range", Severity.WARN, message, place, got, expected)


def _range(dataset: DatasetFacts | None) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """(low, high) per dimension; None when no value was read."""
    if dataset is None or dataset.low is None or dataset.high is None:
        return None
    return dataset.low, dataset.high


def _bounds(declared: Mapping[str, Any], width: int) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """(low, high) per dimension; None when nothing bounds them."""
    low, high = declared.get("low"), declared.get("high")
    if low is None and high is None:
        if declared.get("meaning") == "absolute":
            return None
        low, high = (-1.0,), (1.0,)
    return _per_dimension(low, -np.inf, width), _per_dimension(high, np.inf, width)


def _per_dimension(values: Any, absent: float, width: int) -> NDArray[Any]:
    given = np.atleast_1d(np.asarray(absent if values is None else values, dtype=np.float64))
    if given.size not in (1, width):
        raise InputError(
            "a declared action range has one bound, or one per dimension",
            got=given.size,
            expected=f"1 or {width}",
        )
    return np.broadcast_to(given, (width,))


def _declared_actions(subject: Subject, facts: FileFacts) -> Mapping[str, Any]:
    """The action convention: the caller's, else the recipe's, over what the recording's format fixes."""
    text = facts.data_attributes.get(names.ATTR_TRAJPIPE)
    try:
        recipe = jsontext.loads(text) if isinstance(text, str) else {}
    except InputError:
        recipe = {}
    given = subject.context.get("conventions", {}).get("action")
    known = _actions_in(recipe)
    return known | {k: v for k, v in given.items() if v is not None} if isinstance(given, Mapping) else known


def _actions_in(recipe: Any) -> dict[str, Any]:
    """What a recipe knows of its actions; of a merged file, what all its inputs agree on."""
    merged = recipe.get("merged") if isinstance(recipe, Mapping) else None
    if isinstance(merged, list) and merged:
        each = [_actions_in(part.get("recipe")) if isinstance(part, Mapping) else {} for part in merged]
        return {k: v for k, v in each[0].items() if all(k in other and other[k] == v for other in each)}
    declared = _part(recipe, "options", "conventions", "action")
    return {**_part(recipe, "read", "action"), **{k: v for k, v in declared.items() if v is not None}}


def _part(recipe: Any, *keys: str) -> Mapping[str, Any]:
    """A part of a recipe; empty where it has none."""
    for key in keys:
        recipe = recipe.get(key) if isinstance(recipe, Mapping) else None
    return recipe if isinstance(recipe, Mapping) else {}


@check(
    "demos-action-values", stage=STAGE, title="Actions move, and a binary gripper is binary", blocking=False
)
def action_values(subject: Subject) -> Iterator[Finding]:
    """The gripper is the last dimension."""
    facts = facts_of(subject)
    found = [(d, d.actions, r) for d in facts.demos if d.actions and (r := _range(d.actions)) is not None]
    for demo, one, (low, high) in found:
        if one.rows > 1 and np.array_equal(low, high):
            message = "no action of the demo differs from its first"
            place = facts.place(demo.name, names.DATASET_ACTIONS)
            yield Finding("demos-action-values", Severity.WARN, message, place)
    values = [one.few_values for _, one, _ in found if one.few_values is not None]
    distinct = np.unique(np.concatenate(values)) if values else np.zeros(0)
    if _declared_actions(subject, facts).get("gripper") == "binary" and len(distinct) > 2:
        message = "the gripper is declared binary, and its action has more than two values"
        got = ", ".join(f"{v:g}" for v in distinct[:4])
        place = facts.place(column=names.DATASET_ACTIONS)
        yield Finding("demos-action-values", Severity.WARN, message, place, got, "two values")
    subject.count(len(found), len(facts.demos), "demos")


@check("demos-quaternions", stage=STAGE, title="Quaternions have norm 1", blocking=False)
def quaternions(subject: Subject) -> Iterator[Finding]:
    """At declared sites, and where a name says quaternion; neither norm nor magnitude tells the order."""
    facts, checked = facts_of(subject), 0
    for demo, path, dataset in facts.datasets():
        for start, (norm, row) in dataset.norms.items():
            checked += 1
            if abs(norm - 1) > NORM_TOLERANCE:
                message = f"the quaternion at {start}:{start + 4} is not a rotation"
                place = facts.place(demo.name, path, row)
                got, expected = f"norm {norm:g}", f"1 ± {NORM_TOLERANCE:g}"
                yield Finding("demos-quaternions", Severity.WARN, message, place, got, expected)
    if checked:
        subject.count(checked, checked, "quaternion columns of demos")
    else:
        message = "no quaternion is declared, and no name says one"
        yield Finding("demos-quaternions", Severity.INFO, message, facts.place())


@check("demos-obs-actions", stage=STAGE, title="obs/actions agrees with actions", blocking=False)
def obs_actions(subject: Subject) -> Iterator[Finding]:
    """The top-level actions are the truth; IsaacLab's obs/actions is the row before."""
    facts = facts_of(subject)
    both = [demo for demo in facts.demos if demo.obs_actions_agree is not None]
    for demo in both:
        if not demo.obs_actions_agree:
            message = "obs/actions is not actions, nor the row before; the top-level actions are the truth"
            inner, top = demo.datasets[_OBS_ACTIONS], demo.actions
            got, expected = f"shape {inner.shape}", f"actions {shown(top and top.shape)}"
            place = facts.place(demo.name, _OBS_ACTIONS)
            yield Finding("demos-obs-actions", Severity.WARN, message, place, got, expected)
    if both:
        subject.count(len(both), len(both), "demos")


@check("demos-alignment", stage=STAGE, title="obs_alignment is what obs and states show")
def alignment(subject: Subject) -> Iterator[Finding]:
    """Where an obs term equals a run of columns of the states one row later or earlier, exactly."""
    facts = facts_of(subject)
    told = [demo for demo in facts.demos if demo.slices]
    for demo in told:
        stated = demo.attributes.get(names.ATTR_OBS_ALIGNMENT)
        against = [s for s in demo.slices if s.alignment.value != stated]
        if against and stated is not None:
            one, late = against[0], against[0].alignment is Alignment.AFTER_ACTION
            equal = f"{one.term}{'[t]' if late else '[t + 1]'} = {one.state}{'[t + 1]' if late else '[t]'}"
            message = "observations and states show another alignment than the one recorded"
            place = facts.place(demo.name, f"@{names.ATTR_OBS_ALIGNMENT}")
            got = f"{equal}, so {one.alignment.value}"
            yield Finding("demos-alignment", Severity.ERROR, message, place, got, shown(stated))
    subject.measures["demos_that_tell"] = float(len(told))
    if told:
        subject.count(len(told), len(facts.demos), "demos")
    else:
        message = "no observation is a run of state columns, so the data cannot tell the alignment"
        yield Finding("demos-alignment", Severity.INFO, message, facts.place())
