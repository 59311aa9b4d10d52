"""Writing the byte stream that joblib writes: a pickle with raw array bytes after each array's header.

What is not here: joblib, and reading such a stream.
"""

from __future__ import annotations

import io
import pickle
from typing import Any, Final

import numpy as np

ALIGNMENT: Final = 16


class _Wrapper:
    """Stands for joblib's `NumpyArrayWrapper`."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.subclass = np.ndarray
        self.shape = array.shape
        self.order = "C"
        self.dtype = array.dtype
        self.allow_mmap = not array.dtype.hasobject
        self.numpy_array_alignment_bytes = ALIGNMENT


# Python's pickler in Python, as joblib builds on it; typeshed has only a part of it.
_Base: Any = pickle._Pickler


class _Pickler(_Base):  # type: ignore[misc]  # a base that typeshed does not describe
    """Puts a wrapper and the raw bytes in an array's place."""

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        """Pickle a value; an array by its wrapper, its padding and its bytes."""
        if type(obj) is not np.ndarray:
            super().save(obj, save_persistent_id)
            return
        super().save(_Wrapper(obj))
        self.framer.commit_frame(force=True)
        stream = self._file_handle
        padding = ALIGNMENT - (stream.tell() + 1) % ALIGNMENT
        stream.write(bytes([padding]) + b"\xff" * padding + np.ascontiguousarray(obj).tobytes())

    def save_global(self, obj: Any, name: str | None = None) -> None:
        """The wrapper's class goes by joblib's name."""
        if obj is not _Wrapper:
            super().save_global(obj, name)
            return
        self.save("joblib.numpy_pickle")
        self.save("NumpyArrayWrapper")
        self.write(pickle.STACK_GLOBAL)
        self.memoize(obj)

    dispatch = {**_Base.dispatch, type: save_global}  # noqa: RUF012 - a table of the base class

    def __init__(self, stream: io.BytesIO) -> None:
        self._file_handle = stream
        super().__init__(stream, protocol=4)


def joblib_bytes(value: Any) -> bytes:
    """A value as `joblib.dump` without compression writes it."""
    stream = io.BytesIO()
    _Pickler(stream).dump(value)
    return stream.getvalue()
