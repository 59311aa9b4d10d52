"""What a pickle may name, and how each is made by plain code: arrays, dtypes, scalars, ordered dicts, bytes.

Nothing of a pickle is ever imported or called. What is not here: the stack machine, see `pickles.py`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.core.errors import InputError, UntrustedError

MAX_DIMENSIONS: Final = 32
# What may be a dict's key or a set's member: hashing it walks into nothing.
KEYS: Final = (str, bytes, int, float, bool, type(None))
_DTYPE: Final = re.compile(r"([<>=|]?)([biufSU])(\d{1,6})")
_LATIN: Final = ("latin1", "latin-1", "iso8859-1")


@dataclass(frozen=True, slots=True)
class Name:
    """A name that a pickle mentions; never resolved to an object.

    Attributes:
        module: As written.
        name: As written.
    """

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


NDARRAY: Final = Name("numpy", "ndarray")
DTYPE: Final = Name("numpy", "dtype")
WRAPPER: Final = Name("joblib.numpy_pickle", "NumpyArrayWrapper")
_ENCODE: Final = Name("_codecs", "encode")
_ORDERED: Final = Name("collections", "OrderedDict")
# Protocols before 4 make sets, and empty bytes, by calling the type.
_TYPES: Final = {"bytes": bytes, "set": set, "frozenset": frozenset}
_BUILTINS: Final = ("builtins", "__builtin__")
_MULTIARRAY: Final = ("numpy.core.multiarray", "numpy._core.multiarray")
_NUMERIC: Final = ("numpy.core.numeric", "numpy._core.numeric")
ALLOWED: Final = frozenset(
    {NDARRAY, DTYPE, WRAPPER, _ENCODE, _ORDERED}
    | {Name(module, name) for module in _MULTIARRAY for name in ("_reconstruct", "scalar")}
    | {Name(module, "_frombuffer") for module in _NUMERIC}
    | {Name(module, name) for module in _BUILTINS for name in _TYPES}
)


@dataclass(slots=True)
class DTypeShell:
    """A dtype between its making and its state.

    Attributes:
        dtype: The dtype so far.
    """

    dtype: np.dtype[Any]


@dataclass(slots=True)
class ArrayShell:
    """An array between its making and its state.

    Attributes:
        array: None until its state came.
    """

    array: NDArray[Any] | None = None


@dataclass(slots=True)
class WrapperShell:
    """joblib's `NumpyArrayWrapper`: its state says what raw bytes follow in the stream.

    Attributes:
        array: None until its state and its bytes came.
    """

    array: NDArray[Any] | None = None


def require_allowed(name: Name, place: object | None) -> Name:
    """The name itself when it is on the list.

    Raises:
        UntrustedError: it is not; says which.
    """
    if name not in ALLOWED:
        raise UntrustedError(
            "a pickle may name numpy arrays and plain containers only",
            place=place,
            got=str(name),
            expected="numpy.ndarray, numpy.dtype, numpy's reconstruct functions, joblib's NumpyArrayWrapper",
            hint="Nothing of it was run. Convert the file to npz where you trust it.",
            code="pickle-calls-code",
        )
    return name


def reduced(function: Any, arguments: Any, spend: Callable[[int], None], place: object | None) -> Any:
    """What `function(*arguments)` stands for, made by our own code.

    Args:
        function: A `Name` of the list.
        arguments: The argument tuple.
        spend: Called with the bytes that a copy takes; raises when the budget is used up.
        place: Named in errors.

    Raises:
        UntrustedError: a call of something else.
        InputError: arguments of another form.
    """
    if not isinstance(function, Name) or not isinstance(arguments, tuple):
        raise UntrustedError(
            "a pickle calls what is no name",
            place=place,
            got=type(function).__name__,
            code="pickle-calls-code",
        )
    require_allowed(function, place)
    if function.name == "_reconstruct":
        _require(len(arguments) == 3 and arguments[0] == NDARRAY, "_reconstruct makes numpy.ndarray", place)
        return ArrayShell()
    if function == DTYPE:
        return DTypeShell(_dtype(arguments[0] if arguments else None, place))
    if function.name == "scalar":
        _require(len(arguments) == 2 and isinstance(arguments[0], DTypeShell), "a scalar has a dtype", place)
        return _array(arguments[1], arguments[0].dtype, (), "C", place)[()].item()
    if function.name == "_frombuffer":
        _require(len(arguments) == 4 and isinstance(arguments[1], DTypeShell), "a buffer has a dtype", place)
        return ArrayShell(_array(arguments[0], arguments[1].dtype, arguments[2], arguments[3], place))
    if function == _ENCODE:
        return _encoded(arguments, spend, place)
    if function == _ORDERED:
        _require(not arguments, "an OrderedDict is made empty", place)
        return {}
    if function.module in _BUILTINS:
        return _plain(function.name, arguments, place)
    raise UntrustedError(
        "a pickle calls what is no function", place=place, got=str(function), code="pickle-calls-code"
    )


def _plain(name: str, arguments: tuple[Any, ...], place: object | None) -> Any:
    """An empty bytes, or a set of what may be a key."""
    _require(not arguments or name != "bytes", "bytes are made empty", place)
    if not arguments:
        return _TYPES[name]()
    good = len(arguments) == 1 and type(arguments[0]) is list and all(type(v) in KEYS for v in arguments[0])
    _require(good, "a set is made of text or numbers", place)
    return _TYPES[name](arguments[0])


def _encoded(arguments: Sequence[Any], spend: Callable[[int], None], place: object | None) -> bytes:
    good = len(arguments) == 2 and isinstance(arguments[0], str) and arguments[1] in _LATIN
    _require(good, "_codecs.encode makes latin-1 bytes", place)
    spend(len(arguments[0]))
    return str(arguments[0]).encode("latin-1")


def built(shell: Any, state: Any, place: object | None) -> None:
    """Give a shell its state; joblib's wrapper is the machine's, since bytes follow it.

    Raises:
        UntrustedError: state for something else.
        InputError: state of another form.
    """
    if isinstance(shell, DTypeShell):
        good = isinstance(state, tuple) and len(state) >= 5 and state[1] in ("<", ">", "|", "=")
        _require(good and all(s is None for s in state[2:5]), "a dtype is one number or text type", place)
        shell.dtype = shell.dtype.newbyteorder(state[1] if state[1] != "|" else "=")
    elif isinstance(shell, ArrayShell):
        good = isinstance(state, tuple) and len(state) == 5 and isinstance(state[2], DTypeShell)
        _require(good and isinstance(state[3], (bool, int)), "an array's state has five parts", place)
        _, shape, kind, fortran, data = state
        shell.array = _array(data, kind.dtype, shape, "F" if fortran else "C", place)
    else:
        raise UntrustedError(
            "a pickle gives state to what has none",
            place=place,
            got=type(shell).__name__,
            code="pickle-calls-code",
        )


def wrapped(
    state: Any, read: Callable[[int], bytes], align: Callable[[int], None], place: object | None
) -> Any:
    """The array of joblib's wrapper, from the raw bytes that follow its state in the stream.

    Args:
        state: The wrapper's attributes.
        read: Takes so many bytes off the stream; raises when there are fewer.
        align: Skips the padding before the bytes, given the alignment.
        place: Named in errors.

    Raises:
        InputError: state of another form, or an array larger than the rest of the file.
    """
    _require(
        isinstance(state, dict) and state.get("subclass") == NDARRAY, "a wrapper is of numpy.ndarray", place
    )
    kind, shape, order = state.get("dtype"), state.get("shape"), state.get("order")
    _require(isinstance(kind, DTypeShell) and order in ("C", "F"), "a wrapper has dtype and order", place)
    size = _bytes_of(shape, kind.dtype, place)
    alignment = state.get("numpy_array_alignment_bytes")
    if alignment is not None:
        _require(
            isinstance(alignment, int) and 0 < alignment <= 4096, "an alignment is a small number", place
        )
        align(alignment)
    return _array(read(size), kind.dtype, shape, order, place)


def _dtype(text: Any, place: object | None) -> np.dtype[Any]:
    found = _DTYPE.fullmatch(text) if isinstance(text, str) else None
    _require(
        found is not None and int(found[3]) > 0, f"a dtype is a number or text type, not {text!r:.40}", place
    )
    try:
        made: np.dtype[Any] = np.dtype(text)
    except TypeError as error:
        raise InputError("no such dtype", place=place, got=text, code="bad-pickle") from error
    return made


def _bytes_of(shape: Any, dtype: np.dtype[Any], place: object | None) -> int:
    good = isinstance(shape, tuple) and len(shape) <= MAX_DIMENSIONS
    good = good and all(type(n) is int and 0 <= n < 1 << 62 for n in shape)
    _require(good, "a shape is a tuple of whole numbers", place)
    return int(math.prod(shape) * dtype.itemsize)


def _array(data: Any, dtype: np.dtype[Any], shape: Any, order: Any, place: object | None) -> NDArray[Any]:
    """A view of the bytes as an array; its size must be exactly theirs."""
    _require(isinstance(data, (bytes, bytearray)), "an array's data are bytes", place)
    _require(order in ("C", "F"), "an array's order is C or F", place)
    size = _bytes_of(shape, dtype, place)
    if size != len(data):
        raise InputError(
            "an array has as many bytes as its shape says",
            place=place,
            got=f"{len(data)} bytes",
            expected=f"{size} for {shape} {dtype}",
            code="bad-array-header",
        )
    return np.frombuffer(data, dtype).reshape(shape, order=order)


def _require(good: bool, rule: str, place: object | None) -> None:
    if not good:
        raise InputError(rule, place=place, code="bad-pickle")
