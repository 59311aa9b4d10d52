"""What the L2 writer accepts: env_args, dataset paths, dtypes, finite values; each refusal says the rule.

What is not here: filters that a user configures, see `trajpipe.demos.select`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trajpipe.core import names
from trajpipe.core.episode import Column, Episode, mapped
from trajpipe.core.errors import DTypeError, InputError, SchemaError
from trajpipe.core.findings import Place


def checked_env_args(env_args: Mapping[str, Any]) -> dict[str, Any]:
    """`env_args` with `type` (2) and `env_kwargs` (empty) filled in where absent.

    Raises:
        InputError: no `env_name`, or a value of another kind than L2 wants.
    """
    value = {"type": names.ENV_TYPE_GYM, "env_kwargs": {}} | dict(env_args)
    for key, kind in (("env_name", str), ("type", int), ("env_kwargs", Mapping)):
        if not isinstance(value.get(key), kind) or isinstance(value[key], bool):
            raise InputError(
                f"env_args needs {key!r} of its own kind",
                place=names.ATTR_ENV_ARGS,
                got=repr(value.get(key)),
                expected=kind.__name__,
                hint="Declare env_args or env_name for this raw entry in the catalogue, or pass --env-name.",
                code="bad-env-args",
            )
    return value


def checked_columns(episode: Episode) -> dict[str, Column]:
    """All columns and extras by path, actions cast to float32; paths and dtypes checked."""
    place = Place(file=episode.source_file, demo=episode.name)
    actions = episode.columns.get(names.DATASET_ACTIONS)
    if actions is None or episode.length < 1:
        raise InputError(
            "a demo needs actions and at least one row",
            place=place,
            got="no actions" if actions is None else "0 rows",
            code=names.Reason.NO_ACTIONS.value,
        )
    both = set(episode.columns) & set(episode.extras)
    if both:
        raise SchemaError("a path is a column or an extra, not both", place=place, got=min(both))
    columns = dict(episode.columns) | dict(episode.extras)
    if len(actions.shape) != 2:
        raise SchemaError("actions are (T, A)", place=place, got=actions.shape)
    for path, column in columns.items():
        _check_path(path, columns, place)
        if column.dtype.kind not in "buif":
            raise DTypeError(
                "a demo holds numbers and bools only",
                place=Place(place.file, place.demo, path),
                got=column.dtype,
            )
    single = actions if actions.dtype == np.float32 else mapped(actions, _to_float32, dtype=np.float32)
    return columns | {names.DATASET_ACTIONS: single}


def _to_float32(rows: NDArray[Any]) -> NDArray[np.float32]:
    # A float64 beyond float32 becomes infinite; the finite check names its row.
    with np.errstate(over="ignore"):
        return rows.astype(np.float32)


def _check_path(path: str, paths: Collection[str], place: Place) -> None:
    parts = path.split("/")
    if not path or any(p in ("", ".", "..") or "\0" in p for p in parts):
        raise SchemaError("not a dataset path below a demo", place=place, got=repr(path), expected="a/b/c")
    for depth in range(1, len(parts)):
        if "/".join(parts[:depth]) in paths:
            raise SchemaError(
                "a path is both a dataset and a group", place=place, got="/".join(parts[:depth])
            )


def checked_word(kind: type[StrEnum], value: Any, place: Place) -> str:
    """The value of an attribute that holds one of a few words.

    Raises:
        InputError: another word; names those that are known.
    """
    try:
        return kind(value).value
    except ValueError as error:
        rule = "an attribute has a value that we do not know"
        raise InputError(rule, place=place, got=repr(value), expected=", ".join(kind)) from error


def require_finite(rows: NDArray[Any], start: int, place: Place) -> None:
    """Raise when a block of float rows, the first of which is row `start`, holds NaN or infinity.

    Raises:
        InputError: with the first bad row; code `nan-action` for actions, `nan-obs` elsewhere.
    """
    finite = np.isfinite(rows)
    if finite.all():
        return
    bad = int(np.argmax(~finite.reshape(rows.shape[0], -1).all(axis=1)))
    is_action = place.column == names.DATASET_ACTIONS
    raise InputError(
        "values must be finite",
        place=Place(place.file, place.demo, place.column, start + bad),
        got=f"{rows[bad][~finite[bad]].flat[0]}",
        expected="no NaN, no infinity",
        code=(names.Reason.NAN_ACTION if is_action else names.Reason.NAN_OBS).value,
    )
