"""Attributes of demos and of `/data` as an Episode keeps them: plain values, paths reduced, none lost.

What is not here: counts (`total`, `num_samples`), which are counted again, see `trajpipe.sources.recording`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import h5py
import numpy as np

from trajpipe.core import jsontext, names
from trajpipe.core.episode import ArrayColumn, Column
from trajpipe.core.errors import InputError
from trajpipe.core.findings import Place
from trajpipe.hdf5 import attributes
from trajpipe.sources.recorded_text import without_paths
from trajpipe.sources.recording import Recording

# Counted or known to the Episode itself.
_OWN: Final = (names.ATTR_NUM_SAMPLES, names.ATTR_SUCCESS, names.ATTR_SEED)
_OF_DATA: Final = (
    names.ATTR_TOTAL,
    names.ATTR_ENV_ARGS,
    names.ATTR_TRAJPIPE,
    names.ATTR_IMAGE_CONVENTION,
    "num_demos",
)
PROBLEM_INFO: Final = "problem_info"
_INSTRUCTION: Final = "language_instruction"
_RENAMED: Final = "recorded_"
# HDF5 keeps attributes in an object header of 64 KiB; larger arrays become datasets.
_MAX_ARRAY_BYTES: Final = 32 << 10


@dataclass(slots=True)
class KeptAttributes:
    """Attributes of a demo.

    Attributes:
        values: Name → str, int, float, bool, list of str or array.
        extras: Path → column, for arrays too large for an attribute.
    """

    values: dict[str, Any] = field(default_factory=dict)
    extras: dict[str, Column] = field(default_factory=dict)


def kept_attributes(recording: Recording, name: str) -> KeptAttributes:
    """All attributes of a demo that are not counted again or fields of the Episode.

    In a raw file, an attribute that happens to be named like one of ours is kept as `recorded_<name>`.
    """
    out, demo = KeptAttributes(), recording.demo(name)
    for key, value in attributes.attributes_of(demo).items():
        if key in _OWN or (recording.is_l2 and key in names.DEMO_ATTRS_OURS):
            continue
        keep(out, f"{_RENAMED}{key}" if key in names.DEMO_ATTRS_OURS else key, value)
    return out


def keep(out: KeptAttributes, key: str, value: Any) -> None:
    """Put one value where it fits: text with its paths reduced, arrays by size."""
    if isinstance(value, np.ndarray) and value.nbytes > _MAX_ARRAY_BYTES:
        out.extras[f"recorded_attributes/{key}"] = ArrayColumn(value[np.newaxis])
    else:
        out.values[key] = _reduced(key, value)


def _reduced(key: str, value: Any) -> Any:
    if isinstance(value, str):
        return without_paths(value, name=key)
    return [_reduced(key, v) for v in value] if isinstance(value, list) else value


def data_attributes(recording: Recording) -> dict[str, Any]:
    """Attributes of `/data` and of the file to keep, str or number; lists and arrays become JSON text."""
    out = dict[str, Any]()
    for key, value in attributes.attributes_of(recording.data).items():
        if key not in _OF_DATA:
            out[key] = _flat(_reduced(key, value))
    for key, value in attributes.attributes_of(recording.handle).items():
        if key != names.ATTR_FORMAT_VERSION:
            out.setdefault(f"file@{key}", _flat(_reduced(key, value)))
    return out


def _flat(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        finite = value.dtype.kind != "f" or bool(np.isfinite(value).all())
        return jsontext.dumps(value.tolist() if finite else value.astype(str).tolist())
    return jsontext.dumps(value) if isinstance(value, list) else value


def success_of(demo: h5py.Group) -> bool | None:
    """The recorded success (HDF5 bool, or 0/1); None when absent or another kind of value."""
    if names.ATTR_SUCCESS not in demo.attrs:
        return None
    value = attributes.plain(demo.attrs[names.ATTR_SUCCESS])
    if isinstance(value, np.ndarray):
        value = value.ravel()[0].item() if value.size == 1 else None
    return bool(value) if isinstance(value, bool | int | float) and value in (0, 1) else None


def recorded_text_hashes(recording: Recording) -> Mapping[str, str]:
    """SHA-256 of every recorded text that was reduced, as recorded; one over all demos per attribute name."""
    digests = dict[str, str]()
    for key, value in attributes.attributes_of(recording.data).items():
        if isinstance(value, str) and _reduced(key, value) != value:
            digests[f"data@{key}"] = hashlib.sha256(_bytes(value)).hexdigest()
    joined = dict[str, Any]()
    for name in recording.demos:
        for key, value in attributes.attributes_of(recording.demo(name)).items():
            if isinstance(value, str) and _reduced(key, value) != value:
                digest = joined.setdefault(f"demo@{key}", hashlib.sha256())
                digest.update(name.encode() + b"\0" + hashlib.sha256(_bytes(value)).digest())
    return digests | {key: digest.hexdigest() for key, digest in sorted(joined.items())}


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def language_of(data: h5py.Group) -> str | None:
    """`language_instruction` of the JSON in `problem_info`, byte-exact; None when there is none.

    Raises:
        InputError: `problem_info` is damaged, or its instruction is no text (`problem-info`).
    """
    try:
        info = attributes.json_object(data, PROBLEM_INFO)
    except InputError as error:
        raise _damaged(data, repr(attributes.text(data, PROBLEM_INFO))[:80]) from error
    value = (info or {}).get(_INSTRUCTION)
    if isinstance(value, list) and all(isinstance(v, str) for v in value):
        value = "".join(value)
    if value is not None and not (isinstance(value, str) and _is_text(value)):
        raise _damaged(data, f"{_INSTRUCTION} {ascii(value)[:80]}")
    return value


def _is_text(value: str) -> bool:
    """True for text that UTF-8 can hold: no undecodable byte, no half of a surrogate pair."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _damaged(data: h5py.Group, got: str) -> InputError:
    return InputError(
        f"{PROBLEM_INFO} is the text of a JSON object, and its {_INSTRUCTION} is text",
        place=Place(Path(str(data.file.filename)).name, column=f"data@{PROBLEM_INFO}"),
        got=got,
        expected=f'{{"{_INSTRUCTION}": "…"}}',
        hint="The demos are intact: write the attribute again.",
        code="problem-info",
    )
