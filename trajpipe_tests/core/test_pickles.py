"""Reading pickles without running them: what comes through, and what is refused, by name and at once.

What is not here: what motion libraries and initial-state tables mean.
"""

from __future__ import annotations

import collections
import contextlib
import os
import pickle
import struct
import time
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajpipe.core import pickles
from trajpipe.core.errors import InputError, TrajpipeError, UnreadableError, UntrustedError
from trajpipe.core.pickles import loads, read_pickle, read_torch_zip
from trajpipe.testing.joblib_stream import joblib_bytes

PLAIN: list[Any] = [
    None, True, False, 0, -1, 255, 256, 70_000, -(2**31), 2**80, -(2**80), 1.5, float("inf"),
    "", "text ü\n",
    b"", b"bytes\0", [], [1, [2, [3]]], {}, {"a": {"b": [1, 2.5, None]}},
    (), (1,), (1, 2), (1, 2, 3), tuple(range(9)),
    {1, 2}, frozenset({"x"}), "x" * 300, b"y" * 300, list(range(3000)), {str(i): i for i in range(2000)},
]  # fmt: skip


@pytest.mark.parametrize("protocol", range(6))
def test_plain_values_come_through_in_every_protocol(protocol: int) -> None:
    for value in PLAIN:
        assert loads(pickle.dumps(value, protocol)) == value


ARRAYS = [
    np.arange(12, dtype=np.float32).reshape(3, 4),
    np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    np.arange(6, dtype=">i4"),
    np.array(3.5),
    np.zeros((0, 7)),
    np.array(["left", "right"]),
    np.array([b"x", b"yz"]),
    np.array([True, False]),
    np.arange(24, dtype=np.uint8).reshape(2, 3, 4),
]


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype}-{a.shape}")
def test_arrays_come_through(array: np.ndarray[Any, Any], protocol: int) -> None:
    found = loads(pickle.dumps({"a": array, "again": [array, array]}, protocol))
    for one in (found["a"], *found["again"]):
        assert one.dtype == array.dtype
        assert one.shape == array.shape
        np.testing.assert_array_equal(one, array)
        assert not one.flags.writeable


def test_scalars_dtypes_and_ordered_dicts_come_through() -> None:
    value = collections.OrderedDict(fps=np.int64(30), dt=np.float32(0.5))
    assert loads(pickle.dumps(value, 2)) == {"fps": 30, "dt": 0.5}
    assert loads(pickle.dumps(np.dtype(">f4"))) == ">f4"


def test_text_of_python_2_comes_through() -> None:
    assert loads(b"S'a\\n\\xe9'\n.") == "a\n\xe9"
    assert loads(b'S"it\'s"\n.') == "it's"
    assert loads(b"U\x02\xe9b.") == "\xe9b"
    assert loads(b"T\x01\0\0\0c.") == "c"
    _refused(b"S'open\n.", InputError, "quotes")


def test_names_of_older_and_newer_numpy_are_one() -> None:
    data = pickle.dumps(np.arange(3.0), 2)
    older = data.replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
    assert older != data
    np.testing.assert_array_equal(loads(older), np.arange(3.0))


@pytest.mark.parametrize(
    "array", [a for a in ARRAYS if a.ndim and not np.isfortran(a)], ids=lambda a: str(a.dtype)
)
def test_joblibs_stream_comes_through(array: np.ndarray[Any, Any]) -> None:
    found = loads(
        joblib_bytes({"clip": {"a": array, "fps": 30, "b": array + array if array.dtype.kind == "f" else 1}})
    )
    np.testing.assert_array_equal(found["clip"]["a"], array)
    assert found["clip"]["fps"] == 30


@pytest.mark.parametrize("wbits", [15, 31])
def test_compressed_streams_come_through_within_a_bound(tmp_path: Path, wbits: int) -> None:
    engine = zlib.compressobj(wbits=wbits)
    path = tmp_path / "a.pkl"
    path.write_bytes(engine.compress(joblib_bytes([np.arange(5)])) + engine.flush())
    np.testing.assert_array_equal(read_pickle(path)[0], np.arange(5))
    bomb = zlib.compressobj(9, wbits=wbits)
    path.write_bytes(bomb.compress(pickle.dumps(b"\0" * (40 << 20))) + bomb.flush())
    with pytest.raises(UntrustedError, match="inflates too much"):
        read_pickle(path)
    path.write_bytes((b"\x78\x9c" if wbits == 15 else b"\x1f\x8b\x08\0") + b"garbage" * 9)
    with pytest.raises(UnreadableError, match="damaged"):
        read_pickle(path)


class _Calls:
    """Its pickle calls a function."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.function, self.arguments = function, arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return self.function, self.arguments


class _Holds:
    """Its pickle makes an object with attributes."""

    def __init__(self) -> None:
        self.value = 1


def _refused(data: bytes, kind: type[TrajpipeError], match: str) -> None:
    began = time.process_time()
    with pytest.raises(kind, match=match):
        loads(data, place="clip.pkl")
    assert time.process_time() - began < 1.0


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_that_runs_code_is_refused_by_name_and_runs_nothing(tmp_path: Path, protocol: int) -> None:
    trace = tmp_path / "ran"
    calls: list[tuple[Any, str]] = [
        (_Calls(os.system, f"touch {trace}"), r"\w+\.system"),
        (_Calls(eval, f"open({str(trace)!r}, 'w')"), r"\w+\.eval"),
        (_Calls(exec, "1"), r"\w+\.exec"),
        (_Calls(getattr, "x", "y"), r"\w+\.getattr"),
        (_Calls(np.load, str(trace)), r"numpy.*load"),
        (_Holds(), r"_Holds|_reconstructor"),
        (Path("x"), "pathlib|_reconstructor"),
        (print, "print"),
    ]
    for value, name in calls:
        _refused(pickle.dumps({"clip": [value]}, protocol), UntrustedError, name)
    assert not trace.exists()


def test_hand_made_calls_are_refused() -> None:
    _refused(b"cos\nsystem\n(S'touch x'\ntR.", UntrustedError, r"os\.system")
    _refused(b"(S'touch x'\nios\nsystem\n.", UntrustedError, "INST")
    _refused(b"(cnumpy\nndarray\no.", UntrustedError, "OBJ")
    _refused(b"cnumpy\nndarray\n)\x81.", UntrustedError, r"numpy\.ndarray")
    _refused(b"cnumpy\nndarray\n)}\x92.", UntrustedError, "NEWOBJ_EX")
    _refused(b"Pstorage\n.", UntrustedError, "PERSID")
    _refused(b"K\x01Q.", UntrustedError, "BINPERSID")
    _refused(b"\x82\x01.", UntrustedError, "EXT1")
    _refused(b"\x97.", UntrustedError, "NEXT_BUFFER")
    _refused(b"K\x01(K\x02tR.", UntrustedError, "what is no name")
    _refused(b"cnumpy\nndarray\n)R.", UntrustedError, r"numpy\.ndarray")
    _refused(b"]}b.", UntrustedError, "gives state")
    _refused(b"cnumpy\nndarray\n.", UntrustedError, "function or class")
    _refused(b"\x8c\x02os\x8c\x06system\x93.", UntrustedError, r"os\.system")
    _refused(b"c_codecs\nencode\n(X\x01\0\0\0xX\x05\0\0\0rot13tR.", InputError, "latin-1")


def _wrapper(shape: tuple[int, ...], dtype: str = "f8") -> bytes:
    """A joblib header for an array of any shape, followed by eight bytes."""
    real = joblib_bytes(np.zeros(1, dtype))
    fake = pickle.dumps(shape, 4)[2:-1]  # without PROTO and STOP
    if fake[:1] == b"\x95":
        fake = fake[9:]
    one = pickle.dumps((1,), 4)[2:-1]
    one = one[9:] if one[:1] == b"\x95" else one
    # the memo's numbers stay as they are: only the constant inside the tuple is replaced
    assert one[:2] == b"K\x01"
    assert fake[-2:-1] in (b"\x85", b"\x86", b"\x87")
    return real.replace(one[:-1], fake[:-1], 1)


def test_a_header_that_lies_about_its_size_is_refused_at_once() -> None:
    for size in (2, 10**9, 10**15, 2**61):
        _refused(_wrapper((size,)), InputError, "ends before|whole numbers")
    _refused(_wrapper((2**40, 2**40)), InputError, "ends before|whole numbers")
    _refused(_wrapper((-1,)), InputError, "whole numbers")
    array = pickle.dumps(np.arange(4.0), 2)
    _refused(array.replace(b"K\x04\x85", b"J\xff\xff\xff\x7f\x85", 1), InputError, "as many bytes")
    for opcode, form in (
        (b"X", "<I"),
        (b"B", "<I"),
        (b"\x8d", "<Q"),
        (b"\x8e", "<Q"),
        (b"\x96", "<Q"),
        (b"\x8b", "<I"),
    ):
        _refused(opcode + struct.pack(form, 0xFFFFFFF0) + b"abc.", InputError, "ends before")
    _refused(b"\x8e" + struct.pack("<Q", 2**63) + b".", InputError, "ends before|readable")


@pytest.mark.parametrize("kind", [np.array([{}], object), np.zeros(2, "i4,f8"), np.array(["2024"], "M8[D]")])
def test_arrays_of_objects_structures_and_dates_are_refused(kind: np.ndarray[Any, Any]) -> None:
    _refused(pickle.dumps(kind, 2), InputError, "dtype")


def _cyclic_list() -> Any:
    value: list[Any] = [1]
    value.append({"deep": [value]})
    return value


def _cyclic_dict() -> Any:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


def _cyclic_tuple() -> Any:
    inner: list[Any] = []
    value = (inner,)
    inner.append(value)
    return value


@pytest.mark.parametrize("make", [_cyclic_list, _cyclic_dict, _cyclic_tuple])
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_container_that_holds_itself_is_refused(make: Any, protocol: int) -> None:
    _refused(pickle.dumps(make(), protocol), InputError, "holds itself")


def test_depth_and_copies_are_bounded() -> None:
    nested: list[Any] = []
    for _ in range(200):
        nested = [nested]
    _refused(pickle.dumps(nested, 2), InputError, "too deeply")
    _refused(b"]" * 100_000 + b"a" * 99_999 + b".", InputError, "too deeply")
    laughs: list[Any] = ["ha"]
    for _ in range(60):
        laughs = [laughs, laughs]
    shared = loads(pickle.dumps(laughs, 2))
    assert shared[0] is shared[1]
    copies = b"X" + struct.pack("<I", 100_000) + b"a" * 100_000 + b"q\x000"
    call = b"c_codecs\nencode\nh\0X\x06\0\0\0latin1\x86R0"
    _refused(copies + call * 2000 + b"N.", UntrustedError, "over and over")


@pytest.mark.parametrize(
    "data",
    [b"", b".", b"t.", b"(.", b"a.", b"K\x01a.", b"K\x01e.", b"]K\x01s.", b"}K\x01u.", b"h\x07.",
     b"}]K\x01s.", b"\x80\x09N.", b"Iabc\n.", b"L9" + b"9" * 9999 + b"L\n.", b"\x8c\x02\xff\xfe.",
     b"zzz", b"<html>", b"}(]K\x01u.", b"c__builtin__\nset\n(](]ea\x85R.", b"cbuiltins\nbytes\n(K\x09tR.",
     b"K\x01\x90.", b"\x8f(]\x90.", b"Nb.", b"2.", b"0.", b"1."],
)  # fmt: skip
def test_what_is_no_pickle_is_an_error_of_ours(data: bytes) -> None:
    with pytest.raises((InputError, UntrustedError)):
        loads(data, place="clip.pkl")


@given(st.binary(max_size=200))
def test_random_bytes_raise_nothing_but_our_errors(data: bytes) -> None:
    with contextlib.suppress(TrajpipeError):
        loads(data)


@given(st.data())
def test_a_damaged_stream_raises_nothing_but_our_errors(data: st.DataObject) -> None:
    whole = bytearray(joblib_bytes({"clip": {"a": np.arange(3.0), "b": [1, "x"]}}))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(TrajpipeError):
        loads(bytes(whole))


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=20,
), st.sampled_from([0, 2, 4, 5]))  # fmt: skip
def test_any_plain_value_comes_through(value: Any, protocol: int) -> None:
    assert loads(pickle.dumps(value, protocol)) == value


def test_missing_and_oversized_files_are_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnreadableError, match="cannot be read"):
        read_pickle(tmp_path / "gone.pkl")
    (tmp_path / "a.pkl").write_bytes(pickle.dumps([1] * 100))
    monkeypatch.setattr(pickles, "MAX_BYTES", 10)
    with pytest.raises(UnreadableError, match="too large"):
        read_pickle(tmp_path / "a.pkl")


def _torch_zip(path: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def test_a_torch_zip_gives_its_array(tmp_path: Path) -> None:
    states = np.arange(12.0).reshape(3, 4)
    path = _torch_zip(
        tmp_path / "a.init", {"archive/data.pkl": pickle.dumps(states, 2), "archive/version": b"3\n"}
    )
    np.testing.assert_array_equal(read_torch_zip(path), states)


@pytest.mark.parametrize(
    ("members", "kind", "match"),
    [
        ({"a/data.pkl": b"N.", "../evil": b""}, UntrustedError, "outside"),
        ({"/abs/data.pkl": b"N."}, UntrustedError, "outside"),
        ({"a\\..\\..\\data.pkl": b"N."}, UntrustedError, "outside"),
        ({"a/data.pkl": b"N.", "b/data.pkl": b"N."}, InputError, "one data.pkl"),
        ({"a/version": b"3"}, InputError, "one data.pkl"),
        ({"a/data.pkl": b"X\x01\0\0\0sQ."}, UntrustedError, "BINPERSID"),
        ({"a/data.pkl": b"cos\nsystem\n(S'x'\ntR."}, UntrustedError, r"os\.system"),
    ],
)
def test_a_torch_zip_that_reaches_out_is_refused(
    tmp_path: Path, members: dict[str, bytes], kind: type[TrajpipeError], match: str
) -> None:
    with pytest.raises(kind, match=match):
        read_torch_zip(_torch_zip(tmp_path / "a.init", members))


def test_a_torch_zip_that_inflates_or_is_none_is_refused(tmp_path: Path) -> None:
    bomb = _torch_zip(tmp_path / "b.init", {"a/data.pkl": b"\0" * (8 << 20)}, zipfile.ZIP_DEFLATED)
    with pytest.raises(UntrustedError, match="inflates too much"):
        read_torch_zip(bomb)
    (tmp_path / "c.init").write_bytes(b"no zip")
    with pytest.raises(UnreadableError, match="not a torch zip"):
        read_torch_zip(tmp_path / "c.init")
    whole = _torch_zip(tmp_path / "d.init", {"a/data.pkl": pickle.dumps(list(range(99)))}).read_bytes()
    (tmp_path / "d.init").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UnreadableError):
        read_torch_zip(tmp_path / "d.init")


def test_real_files(shared_data: Path) -> None:
    widths = {77, 45, 47}
    found = sorted(shared_data.glob("libero/init_files/*init"))
    assert found
    for path in found:
        states = read_torch_zip(path)
        assert states.dtype == np.float64
        assert states.shape[1] in widths
        assert not states[:, 0].any()
    for path in sorted(shared_data.glob("lafan_g1/*.pkl")):
        (clip,) = read_pickle(path).values()
        assert clip["fps"] == 30
        assert clip["pose_aa"].shape[1:] == (27, 3)
        np.testing.assert_array_equal(clip["pose_aa"][:, 1:24].sum(axis=2), clip["dof"])
