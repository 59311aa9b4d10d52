"""Descriptions of the catalogue's keys: the texts below the models' fields, put into their JSON Schema.

Pydantic could read them itself (`use_attribute_docstrings`), but does so whenever the models are imported: a
tenth of a second in each process that runs a recording. What is not here: the models.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel


def describe(schema: dict[str, Any], base: type[BaseModel]) -> None:
    """Put the description of each field into a schema.

    Args:
        schema: JSON Schema of a model, with the models it refers to; changed in place.
        base: What all models derive from.
    """
    models = {model.__name__: model for model in _below(base)}
    parts = {schema["title"]: schema} | schema.get("$defs", {})
    texts: dict[str, dict[str, dict[str, str]]] = {}
    for name, part in parts.items():
        for field, value in part.get("properties", {}).items():
            for owner in models[name].__mro__:
                if owner.__module__ not in texts and owner in models.values():
                    texts[owner.__module__] = _texts_of(Path(inspect.getfile(owner)))
                text = texts.get(owner.__module__, {}).get(owner.__name__, {}).get(field)
                if text is not None:
                    value["description"] = text
                    break


def _below(base: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for model in base.__subclasses__():
        yield model
        yield from _below(model)


def _texts_of(module: Path) -> dict[str, dict[str, str]]:
    """Class → field → the text that stands below the field."""
    found: dict[str, dict[str, str]] = {}
    for one in ast.parse(module.read_text(encoding="utf-8")).body:
        if not isinstance(one, ast.ClassDef):
            continue
        fields: dict[str, str] = {}
        for field, below in zip(one.body, one.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                text = _text(below)
                fields |= {field.target.id: text} if text else {}
        found[one.name] = fields
    return found


def _text(statement: ast.stmt) -> str:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        value = statement.value.value
        return inspect.cleandoc(value) if isinstance(value, str) else ""
    return ""
