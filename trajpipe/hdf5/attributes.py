"""HDF5 attributes as plain Python values, whatever their writer made of them.

What is not here: which attributes exist, see `trajpipe.core.names`.
"""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np

from trajpipe.core import jsontext
from trajpipe.core.errors import InputError
from trajpipe.core.findings import Place


def plain(value: Any) -> Any:
    """str, int, float, bool, list of these, or the numpy array: bytes are decoded as UTF-8.

    Undecodable bytes keep their information as surrogates.
    """
    if isinstance(value, (bytes, np.bytes_)):
        return bytes(value).decode("utf-8", "surrogateescape")
    if isinstance(value, h5py.Empty):
        return ""
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, np.ndarray):
        if value.ndim == 0:
            return plain(value.item())
        if value.dtype.kind in "SOU":
            return [plain(v) for v in value.ravel().tolist()]
    return value


def attributes_of(item: h5py.Group | h5py.Dataset | h5py.File) -> dict[str, Any]:
    """All attributes as plain values, sorted by name.

    Raises:
        InputError: one cannot be read, or is a reference or compound (`bad-attribute`).
    """
    return {name: read(item, name) for name in sorted(item.attrs)}


def read(item: h5py.Group | h5py.Dataset | h5py.File, name: str) -> Any:
    """One attribute that is there, as a plain value.

    Raises:
        InputError: it cannot be read, or is a reference or compound (`bad-attribute`).
    """
    try:
        value = plain(item.attrs[name])
    except (OSError, TypeError, ValueError, KeyError) as error:
        raise InputError(
            "an attribute cannot be read", place=_place(item, name), got=error, code="bad-attribute"
        ) from error
    if isinstance(value, str | int | float | list) or (
        isinstance(value, np.ndarray) and value.dtype.kind in "buif"
    ):
        return value
    raise InputError(
        "an attribute is text, a number or an array of these",
        place=_place(item, name),
        got=getattr(value, "dtype", type(value).__name__),
        code="bad-attribute",
    )


def _place(item: h5py.Group | h5py.Dataset | h5py.File, name: str) -> Place:
    """Where an attribute is; asked only for an error, since h5py opens the file anew to tell its name."""
    return Place(file=str(item.file.filename).rsplit("/", 1)[-1], column=f"{item.name}@{name}")


def text(item: h5py.Group | h5py.File, name: str) -> str | None:
    """A text attribute; None when absent or not text."""
    value = read(item, name) if name in item.attrs else None
    return value if isinstance(value, str) else None


def json_object(item: h5py.Group | h5py.File, name: str) -> dict[str, Any] | None:
    """An attribute that holds a JSON object; None when absent.

    Raises:
        InputError: present and not strict JSON of an object (a Python repr, bare NaN, …).
    """
    value = text(item, name)
    if value is None:
        return None
    place = Place(file=str(item.file.filename).rsplit("/", 1)[-1], column=f"{item.name}@{name}")
    parsed = jsontext.loads(value, place=place)
    if not isinstance(parsed, dict):
        raise InputError("the attribute must hold a JSON object", place=place, got=type(parsed).__name__)
    return parsed
