"""Writing HDF5 attributes: text of any length as variable-length UTF-8, numbers and arrays as they are.

What is not here: reading them, see `trajpipe.hdf5.attributes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import h5py
import numpy as np

from trajpipe.core.errors import InputError
from trajpipe.core.findings import Place
from trajpipe.core.order import natural_sorted
from trajpipe.hdf5.attributes import plain

# HDF5 keeps an attribute in an object header message, which holds at most 64 KiB with its own name and type.
MAX_ARRAY_BYTES: Final = 64_000
_TEXT: Final = h5py.string_dtype("utf-8")


def write_attributes(item: h5py.Group, values: Mapping[str, Any]) -> None:
    """Write attributes in natural order of their names.

    Text is stored with variable length, so a 91 KB `model_file` fits (a fixed-length one does not);
    bool becomes HDF5's enum bool, lists become arrays.

    Raises:
        InputError: a value has no HDF5 form: None, an object, text with a NUL, an array above 64 KB.
    """
    file, owner, attrs = str(item.file.filename).rsplit("/", 1)[-1], item.name, item.attrs
    for name in natural_sorted(values):
        _write_one(attrs, name, plain(values[name]), Place(file=file, column=f"{owner}@{name}"))


def _write_one(attrs: h5py.AttributeManager, name: str, value: Any, place: Place) -> None:
    if isinstance(value, str):
        attrs.create(name, _encoded(value, place), dtype=_TEXT)
    elif isinstance(value, (list, tuple)) and any(isinstance(v, str) for v in value):
        encoded = [_encoded(v, place) for v in value]
        attrs.create(name, encoded, shape=(len(value),), dtype=_TEXT)
    else:
        attrs[name] = _number(value, place)


def _encoded(value: Any, place: Place) -> bytes:
    if not isinstance(value, str) or "\0" in value:
        raise InputError("an attribute's text must be text without NUL", place=place, got=repr(value)[:80])
    return value.encode("utf-8", "surrogateescape")


def _number(value: Any, place: Place) -> Any:
    array = np.asarray(value)
    if array.dtype.kind not in "buif":
        raise InputError(
            "an attribute is text, a number, a bool or an array of these",
            place=place,
            got=type(value).__name__,
        )
    if array.nbytes > MAX_ARRAY_BYTES:
        raise InputError(
            "an array attribute does not fit in HDF5's object header",
            place=place,
            got=f"{array.nbytes} bytes",
            expected=f"≤ {MAX_ARRAY_BYTES}",
            hint="Record it as a dataset of the demo.",
            code="attribute-too-large",
        )
    return array if array.ndim else array[()]
