"""Reading pickles without running them: a stack machine for plain values and numpy arrays, joblib's too.

A name outside the list in `pickle_values` is refused by name; Python's own unpickler is never used.
What is not here: what the values mean.
"""

from __future__ import annotations

import codecs
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any, Final

from trajpipe.core.errors import InputError, TrajpipeError, UnreadableError, UntrustedError
from trajpipe.core.pickle_values import (
    KEYS,
    ArrayShell,
    DTypeShell,
    Name,
    WrapperShell,
    built,
    reduced,
    require_allowed,
    wrapped,
)
from trajpipe.core.pickle_values import WRAPPER as _WRAPPER

MAX_BYTES: Final = 2 << 30
MAX_DEPTH: Final = 64
MAX_INFLATION: Final = 64
_MARK: Final = object()
_BROKEN: Final = (
    IndexError,
    KeyError,
    ValueError,
    TypeError,
    OverflowError,
    struct.error,
    AttributeError,
    MemoryError,
)


def read_pickle(path: Path) -> Any:
    """The plain value of a pickle or joblib file (raw, zlib or gzip).

    Returns:
        dict, list, tuple, set, str, bytes, numbers and read-only numpy arrays.

    Raises:
        UnreadableError: it cannot be opened, or is larger than 2 GiB.
        UntrustedError: it names anything but arrays and containers, or inflates without bound.
        InputError: it is not a pickle, a header lies about its size, or a container holds itself.
    """
    try:
        size = path.stat().st_size
        data = path.read_bytes() if size <= MAX_BYTES else b""
    except OSError as error:
        raise UnreadableError("the file cannot be read", place=path.name, got=error) from error
    if size > MAX_BYTES:
        raise UnreadableError(
            "the pickle is too large", place=path.name, got=f"{size} bytes", expected=f"≤ {MAX_BYTES}"
        )
    return loads(_inflated(data, path.name), place=path.name)


def read_torch_zip(path: Path) -> Any:
    """The plain value in a file of `torch.save` (`<root>/data.pkl` of a zip), which holds no tensors.

    Raises:
        UnreadableError: not a zip.
        UntrustedError: members outside one root folder, a compressed bomb, or a name that is not allowed.
        InputError: no `data.pkl`, or it refers to tensor storages.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            member = _pickle_member(archive, path.name)
            with archive.open(member) as stream:
                data = stream.read(member.file_size + 1)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, EOFError, zlib.error) as error:
        if isinstance(error, TrajpipeError):
            raise
        raise UnreadableError("not a torch zip file", place=path.name, got=error) from error
    return loads(data, place=path.name)


def _pickle_member(archive: zipfile.ZipFile, place: str) -> zipfile.ZipInfo:
    members = archive.infolist()
    for member in members:
        parts = PurePosixPath(member.filename.replace("\\", "/")).parts
        if not parts or ".." in parts or member.filename.startswith(("/", "\\")) or ":" in parts[0]:
            raise UntrustedError(
                "a member of the zip lies outside it", place=place, got=member.filename, code="zip-slip"
            )
    found = [
        m for m in members if PurePosixPath(m.filename).name == "data.pkl" and m.filename.count("/") == 1
    ]
    if len(found) != 1:
        raise InputError("a torch zip holds one data.pkl", place=place, got=len(found), code="bad-pickle")
    member = found[0]
    if member.file_size > min(MAX_BYTES, max(1 << 20, member.compress_size * MAX_INFLATION)):
        got = f"{member.compress_size} bytes that become {member.file_size}"
        raise UntrustedError("data.pkl inflates too much", place=place, got=got, code="inflates-too-much")
    return member


def _inflated(data: bytes, place: str) -> bytes:
    """The bytes themselves, or what zlib or gzip holds, within a bound."""
    if data[:2] == b"\x1f\x8b":
        window = 31
    elif data[:1] == b"\x78" and len(data) > 1 and (data[0] << 8 | data[1]) % 31 == 0:
        window = 15
    else:
        return data
    limit = min(MAX_BYTES, max(1 << 20, len(data) * MAX_INFLATION))
    try:
        engine = zlib.decompressobj(window)
        out = engine.decompress(data, limit + 1)
    except zlib.error as error:
        raise UnreadableError("the compressed pickle is damaged", place=place, got=error) from error
    if len(out) > limit:
        got = f"more than {limit} bytes from {len(data)}"
        raise UntrustedError("the pickle inflates too much", place=place, got=got, code="inflates-too-much")
    return out


def loads(data: bytes, *, place: object | None = None) -> Any:
    """The plain value of pickle bytes.

    Raises:
        UntrustedError: it names anything but arrays and containers.
        InputError: it is not a pickle, a header lies about its size, or a container holds itself.
    """
    machine = _Machine(data, place)
    try:
        value = machine.run()
    except TrajpipeError:
        raise
    except _BROKEN as error:
        where = f"byte {machine.position}: {type(error).__name__} {error}"
        raise InputError("not a readable pickle", place=place, got=where, code="bad-pickle") from error
    return _finished(value, place)


class _Machine:
    """The stack machine of the pickle format."""

    def __init__(self, data: bytes, place: object | None) -> None:
        self.data, self.place, self.position = data, place, 0
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        # Copies that a small pickle may ask for in all.
        self.budget = 4 * len(data) + (1 << 16)

    def run(self) -> Any:
        """Execute until STOP."""
        while True:
            code = self.take(1)
            if code == b".":
                return self.pop()
            action = _ACTIONS.get(code)
            if action is None:
                raise UntrustedError(
                    "an opcode of the pickle is refused",
                    place=self.place,
                    got=f"{_REFUSED.get(code, 'unknown')} ({code!r}) at byte {self.position - 1}",
                    code="pickle-opcode",
                )
            action(self)

    def take(self, count: int) -> bytes:
        """The next bytes of the stream.

        Raises:
            InputError: there are fewer.
        """
        end = self.position + count
        if count < 0 or end > len(self.data):
            raise InputError(
                "the file ends before what its header announces",
                place=self.place,
                got=f"{len(self.data) - self.position} bytes at byte {self.position}",
                expected=f"{count} bytes",
                code="bad-array-header",
            )
        out = self.data[self.position : end]
        self.position = end
        return out

    def number(self, form: str) -> Any:
        """A little-endian number (`<I`)."""
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def line(self, encoding: str = "utf-8") -> str:
        """The text up to the end of the line."""
        end = self.data.index(b"\n", self.position)
        text = self.data[self.position : end].decode(encoding)
        self.position = end + 1
        return text

    def spend(self, count: int) -> None:
        """Take from the budget of copies."""
        self.budget -= count
        if self.budget < 0:
            raise UntrustedError(
                "the pickle copies its own data over and over", place=self.place, code="pickle-budget"
            )

    def push(self, value: Any) -> None:
        """Put a value on the stack."""
        self.stack.append(value)

    def pop(self) -> Any:
        """Take the top value.

        Raises:
            InputError: there is none, or it is a mark.
        """
        value = self.stack.pop()
        if value is _MARK:
            raise InputError("a mark is no value", place=self.place, code="bad-pickle")
        return value

    def to_mark(self) -> list[Any]:
        """Take everything above the topmost mark, and the mark."""
        at = len(self.stack) - 1
        while self.stack[at] is not _MARK:
            at -= 1
            if at < 0:
                raise InputError("no mark on the stack", place=self.place, code="bad-pickle")
        out = self.stack[at + 1 :]
        del self.stack[at:]
        return out

    def store(self, index: int) -> None:
        """Remember the top value."""
        self.memo[index] = self.stack[-1]

    def align(self, _alignment: int) -> None:
        """Skip joblib's padding: one byte says how much."""
        self.take(self.take(1)[0])

    def extend(self, values: list[Any]) -> None:
        """Append to the list on top of the stack."""
        target = self.stack[-1]
        if type(target) is not list:
            raise InputError("values are appended to a list", place=self.place, code="bad-pickle")
        target.extend(values)

    def update(self, values: list[Any]) -> None:
        """Set items of the dict on top of the stack."""
        target = self.stack[-1]
        if type(target) is not dict or len(values) % 2:
            raise InputError("items are set on a dict", place=self.place, code="bad-pickle")
        for key, value in zip(values[::2], values[1::2], strict=True):
            target[self.key(key)] = value

    def key(self, key: Any) -> Any:
        """A dict's key or a set's member, which hashing must never walk into."""
        if type(key) not in KEYS:
            raise InputError(
                "keys are text or numbers", place=self.place, got=type(key).__name__, code="bad-pickle"
            )
        return key

    def new(self) -> None:
        """`cls.__new__(cls)`: joblib's wrapper alone."""
        arguments, name = self.pop(), self.pop()
        if name != _WRAPPER or arguments != ():
            raise UntrustedError(
                "a pickle makes an object", place=self.place, got=str(name), code="pickle-calls-code"
            )
        self.push(WrapperShell())

    def reduce(self) -> None:
        """A call, replaced by our own making."""
        arguments, function = self.pop(), self.pop()
        self.push(reduced(function, arguments, self.spend, self.place))

    def build(self) -> None:
        """State for a shell; joblib's raw bytes follow it."""
        state, shell = self.pop(), self.stack[-1]
        if isinstance(shell, WrapperShell):
            shell.array = wrapped(state, self.take, self.align, self.place)
        else:
            built(shell, state, self.place)

    def named(self, module: Any, name: Any) -> None:
        """A name of the list."""
        if type(module) is not str or type(name) is not str:
            raise InputError("a name is text", place=self.place, code="bad-pickle")
        self.push(require_allowed(Name(module, name), self.place))

    def stack_global(self) -> None:
        """A name whose parts lie on the stack."""
        name, module = self.pop(), self.pop()
        self.named(module, name)

    def text(self, form: str) -> None:
        """UTF-8 text with its length before it."""
        self.push(self.take(self.number(form)).decode("utf-8", "surrogatepass"))

    def bytes_of(self, form: str) -> None:
        """Bytes with their length before them."""
        self.push(self.take(self.number(form)))

    def quoted(self) -> None:
        """Protocol 0's text of Python 2, in quotes."""
        text = self.line("latin-1")
        if len(text) < 2 or text[0] != text[-1] or text[0] not in "'\"":
            raise InputError("a quoted text has its quotes", place=self.place, code="bad-pickle")
        self.push(codecs.escape_decode(text[1:-1].encode("latin-1"))[0].decode("latin-1"))

    def integer(self, form: str) -> None:
        """A little-endian two's-complement integer with its length before it."""
        self.push(int.from_bytes(self.take(self.number(form)), "little", signed=True))

    def old_integer(self) -> None:
        """Protocol 0's integer, or its way to write a bool."""
        text = self.line()
        self.push({"00": False, "01": True}[text] if text in ("00", "01") else int(text))

    def set_of(self, values: list[Any]) -> None:
        """Add members to the set on top of the stack."""
        target = self.stack[-1]
        if type(target) is not set:
            raise InputError("members are added to a set", place=self.place, code="bad-pickle")
        target.update([self.key(v) for v in values])


def _items(machine: _Machine) -> None:
    values = machine.to_mark()
    machine.push({})
    machine.update(values)


def _pair(machine: _Machine) -> None:
    value, key = machine.pop(), machine.pop()
    machine.update([key, value])


def _appended(machine: _Machine) -> None:
    machine.extend([machine.pop()])


def _tuple_of(count: int) -> Callable[[_Machine], None]:
    def act(machine: _Machine) -> None:
        machine.push(tuple(reversed([machine.pop() for _ in range(count)])))

    return act


def _const(value: Any) -> Callable[[_Machine], None]:
    return lambda machine: machine.push(value)


_ACTIONS: Final[dict[bytes, Callable[[_Machine], None]]] = {
    b"\x80": lambda m: _known_protocol(m, m.take(1)[0]),
    b"\x95": lambda m: _unused(m.take(8)),
    b"(": _const(_MARK),
    b"N": _const(None),
    b"\x88": _const(True),
    b"\x89": _const(False),
    b"K": lambda m: m.push(m.number("<B")),
    b"M": lambda m: m.push(m.number("<H")),
    b"J": lambda m: m.push(m.number("<i")),
    b"I": _Machine.old_integer,
    b"L": lambda m: m.push(int(m.line().removesuffix("L"))),
    b"F": lambda m: m.push(float(m.line())),
    b"\x8a": lambda m: m.integer("<B"),
    b"\x8b": lambda m: m.integer("<I"),
    b"G": lambda m: m.push(m.number(">d")),
    b"\x8c": lambda m: m.text("<B"),
    b"X": lambda m: m.text("<I"),
    b"\x8d": lambda m: m.text("<Q"),
    b"V": lambda m: m.push(m.line("raw-unicode-escape")),
    b"C": lambda m: m.bytes_of("<B"),
    b"B": lambda m: m.bytes_of("<I"),
    b"\x8e": lambda m: m.bytes_of("<Q"),
    b"\x96": lambda m: m.bytes_of("<Q"),
    b"S": _Machine.quoted,
    b"U": lambda m: m.push(m.take(m.number("<B")).decode("latin-1")),
    b"T": lambda m: m.push(m.take(m.number("<I")).decode("latin-1")),
    b")": _const(()),
    b"]": lambda m: m.push([]),
    b"}": lambda m: m.push({}),
    b"\x8f": lambda m: m.push(set()),
    b"\x90": lambda m: m.set_of(m.to_mark()),
    b"\x91": lambda m: m.push(frozenset(m.key(v) for v in m.to_mark())),
    b"\x85": _tuple_of(1),
    b"\x86": _tuple_of(2),
    b"\x87": _tuple_of(3),
    b"t": lambda m: m.push(tuple(m.to_mark())),
    b"l": lambda m: m.push(m.to_mark()),
    b"d": _items,
    b"a": _appended,
    b"e": lambda m: m.extend(m.to_mark()),
    b"s": _pair,
    b"u": lambda m: m.update(m.to_mark()),
    b"0": lambda m: _unused(m.stack.pop()),
    b"1": lambda m: _unused(m.to_mark()),
    b"2": lambda m: m.push(m.stack[-1]),
    b"\x94": lambda m: m.store(len(m.memo)),
    b"q": lambda m: m.store(m.number("<B")),
    b"r": lambda m: m.store(m.number("<I")),
    b"p": lambda m: m.store(int(m.line())),
    b"h": lambda m: m.push(m.memo[m.number("<B")]),
    b"j": lambda m: m.push(m.memo[m.number("<I")]),
    b"g": lambda m: m.push(m.memo[int(m.line())]),
    b"c": lambda m: m.named(m.line(), m.line()),
    b"\x93": _Machine.stack_global,
    b"\x81": _Machine.new,
    b"R": _Machine.reduce,
    b"b": _Machine.build,
}
_REFUSED: Final = {
    b"i": "INST",
    b"o": "OBJ",
    b"\x92": "NEWOBJ_EX",
    b"\x82": "EXT1",
    b"\x83": "EXT2",
    b"\x84": "EXT4",
    b"P": "PERSID",
    b"Q": "BINPERSID",
    b"\x97": "NEXT_BUFFER",
    b"\x98": "READONLY_BUFFER",
}


def _known_protocol(machine: _Machine, version: int) -> None:
    if version > 5:
        raise InputError(
            "the pickle is of a newer protocol",
            place=machine.place,
            got=version,
            expected="≤ 5",
            code="bad-pickle",
        )


def _unused(_value: Any) -> None:
    """Values that the format carries and we do not need."""


def _finished(value: Any, place: object | None) -> Any:
    """The value with shells replaced by what they became; refuses cycles, depth, and names as values."""
    return _Finisher(place).value(value, 0)


class _Finisher:
    """Walks a value once: shared parts stay shared, a part inside itself is refused."""

    def __init__(self, place: object | None) -> None:
        self.place = place
        self.done: dict[int, Any] = {}
        self.open: set[int] = set()

    def value(self, value: Any, depth: int) -> Any:
        """The finished form of a value `depth` levels down."""
        if isinstance(value, (ArrayShell, WrapperShell)):
            if value.array is None:
                raise InputError("an array without data", place=self.place, code="bad-pickle")
            return value.array
        if isinstance(value, DTypeShell):
            return value.dtype.str
        if isinstance(value, Name):
            raise UntrustedError(
                "a pickle holds a function or class",
                place=self.place,
                got=str(value),
                code="pickle-calls-code",
            )
        if type(value) not in (dict, list, tuple):
            return value
        if id(value) in self.done:
            return self.done[id(value)]
        if id(value) in self.open:
            raise InputError("a container of the pickle holds itself", place=self.place, code="pickle-cycle")
        if depth >= MAX_DEPTH:
            got = f"more than {MAX_DEPTH} levels"
            raise InputError(
                "the pickle is nested too deeply", place=self.place, got=got, code="pickle-depth"
            )
        self.open.add(id(value))
        if type(value) is dict:
            out: Any = {k: self.value(v, depth + 1) for k, v in value.items()}
        else:
            out = type(value)([self.value(v, depth + 1) for v in value])
        self.open.discard(id(value))
        self.done[id(value)] = out
        return out
