"""What a catalogue's document breaks: pydantic's errors and our own rules, as problems with line and key.

What is not here: the keys (`catalogue_model`), merging of defaults (`catalogue`).
"""

from __future__ import annotations

import json
import types
import typing
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from trajpipe.pipeline.catalogue_model import KIND_AUTO, CatalogueDocument
from trajpipe.pipeline.catalogue_problems import Problem, did_you_mean
from trajpipe.pipeline.catalogue_text import Document, KeyPath, dotted
from trajpipe.sources.base import sources

# pydantic's error type → (our rule, what is expected)
_RULES: Final[dict[str, tuple[str, str | None]]] = {
    "missing": ("a required key is missing", None),
    "string_type": ("the value has the wrong type", "text"),
    "int_type": ("the value has the wrong type", "a whole number"),
    "int_from_float": ("the value has the wrong type", "a whole number"),
    "float_type": ("the value has the wrong type", "a number"),
    "bool_type": ("the value has the wrong type", "true or false"),
    "tuple_type": ("the value has the wrong type", "a list"),
    "dict_type": ("the value has the wrong type", "a mapping of keys to values"),
    "model_type": ("the value has the wrong type", "a mapping of keys to values"),
    "model_attributes_type": ("the value has the wrong type", "a mapping of keys to values"),
    "string_too_short": ("the value is empty", "text"),
    "too_short": ("the list is empty", "one item at least"),
    "literal_error": ("the value is not allowed", None),
    "greater_than_equal": ("the number is too small", None),
    "less_than_equal": ("the number is too large", None),
    "less_than": ("the number is too large", None),
}
_BOUNDS: Final = {"ge": "{:g} or more", "le": "{:g} or less", "lt": "less than {:g}"}


def problems_of(document: Document, merged: Any) -> list[Problem]:
    """All problems of a document.

    Args:
        document: As written, with the lines.
        merged: Its value with `defaults:` and `conventions:` merged in.
    """
    found = [
        *_problems_of_model(document, merged),
        *_problems_of_kinds(document),
        *_problems_of_task_names(document),
    ]
    # a key of `defaults:` is met again in every dataset: it is told once
    return list({(one.line, one.key, one.rule): one for one in reversed(found)}.values())


def _problems_of_model(document: Document, merged: Any) -> list[Problem]:
    if not isinstance(merged, dict):
        return [
            Problem(1, "", "the catalogue is not a mapping", _shown(merged), "the keys version and datasets")
        ]
    try:
        CatalogueDocument.model_validate_json(json.dumps(merged))
    except ValidationError as error:
        details = error.errors(include_url=False)
        # an item that is not valid does not count for pydantic: the list is not empty for that
        return [_problem_of(document, d) for d in details if d["type"] != "too_short" or not d["input"]]
    return []


def _problem_of(document: Document, detail: ErrorDetails) -> Problem:
    path = _written_path(document, tuple(part for part in detail["loc"] if part != "[key]"))
    context = detail.get("ctx", {})
    line, key, kind = document.line(path), dotted(path), detail["type"]
    if kind == "trajpipe":
        got = None if isinstance(detail["input"], (dict, list)) else _shown(detail["input"])
        return Problem(line, key, context["rule"], got, context["expected"], context["hint"])
    if kind == "extra_forbidden":
        known = _known_keys(detail["loc"][:-1])
        return Problem(
            line, key, "unknown key", None, f"one of {', '.join(known)}", did_you_mean(str(path[-1]), known)
        )
    rule, expected = _RULES.get(kind, (detail["msg"], None))
    if kind == "literal_error":
        expected = "one of " + str(context["expected"]).replace("'", "").replace(" or ", ", ")
    for bound, text in _BOUNDS.items():
        expected = text.format(context[bound]) if bound in context else expected
    got = None if kind in ("missing", "too_short", "string_too_short") else _shown(detail["input"])
    return Problem(line, key, rule, got, expected)


def _written_path(document: Document, path: KeyPath) -> KeyPath:
    """Where a value was written: the dataset's own key, its `conventions:`, or `defaults:`."""
    candidates = [path]
    if path[:1] == ("datasets",) and len(path) > 2:
        if path[2] == "raw" and len(path) > 4 and path[4] == "conventions":
            candidates += [(*path[:2], *path[4:]), ("defaults", *path[4:])]
        candidates.append(("defaults", *path[2:]))
    return next((one for one in candidates if one in document.lines), path)


def _known_keys(path: KeyPath) -> list[str]:
    """Keys of the model at a place of the document."""
    kind: Any = CatalogueDocument
    for part in path:
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            kind = _without_none(kind.model_fields[str(part)].annotation)
        else:
            kind = _without_none(typing.get_args(kind)[0 if isinstance(part, int) else 1])
    return list(kind.model_fields)


def _without_none(annotation: Any) -> Any:
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        return next(arg for arg in typing.get_args(annotation) if arg is not type(None))
    return annotation


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "…"


def _entries(document: Document) -> list[tuple[str, dict[str, Any]]]:
    """(name, entry as written) of every dataset that is a mapping."""
    datasets = document.value.get("datasets") if isinstance(document.value, dict) else None
    pairs = datasets.items() if isinstance(datasets, dict) else ()
    return [(name, entry) for name, entry in pairs if isinstance(entry, dict)]


def _problems_of_kinds(document: Document) -> list[Problem]:
    known = [KIND_AUTO, *sources()]
    found = []
    for name, entry in _entries(document):
        raw = entry.get("raw")
        for index, one in enumerate(raw if isinstance(raw, list) else []):
            kind = one.get("kind", KIND_AUTO) if isinstance(one, dict) else KIND_AUTO
            if isinstance(kind, str) and kind not in known:
                path = ("datasets", name, "raw", index, "kind")
                hint, expected = did_you_mean(kind, known), f"one of {', '.join(known)}"
                found.append(
                    Problem(
                        document.line(path),
                        dotted(path),
                        "no source of this kind",
                        _shown(kind),
                        expected,
                        hint,
                    )
                )
    return found


def _problems_of_task_names(document: Document) -> list[Problem]:
    """Two datasets with one task name would write the same L2 files; `__` parts task and recording there."""
    owner: dict[str, str] = {}
    found = []
    for name, entry in _entries(document):
        task = entry.get("task_name") or name
        path = ("datasets", name, "task_name") if entry.get("task_name") else ("datasets", name)
        if not isinstance(task, str):
            continue
        if "__" in task:
            rule = "a task's name in file names must not hold `__`"
            found.append(
                Problem(document.line(path), dotted(path), rule, task, "one _ at a time", "Set `task_name:`.")
            )
        other = owner.setdefault(task.lower(), name)
        if other != name:
            rule = f"the dataset `{other}` has the same task name, their L2 files would be one"
            found.append(
                Problem(document.line(path), dotted(path), rule, task, None, "Set another `task_name:`.")
            )
    return found
