"""The manifest: encode → parse → encode is a fixed point, hostile texts come back exact, faults are named."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajpipe.core.errors import InputError
from trajpipe.store import ColumnSpec, Manifest
from trajpipe.store.columns import DTYPES
from trajpipe.store.manifest import column_text, parse_column, parse_task, quote

HOSTILE = [
    "",
    '"',
    "\\",
    "\\n",
    "a\nb\rc\td",
    "line\u2028sep\x0b\x0c\x85",
    'task=1\t"x"',
    "#no comment",
    " spaces at both ends ",
    "\0nul",
    "émoji 🤖",
    "\udcff undecodable byte",
    '\\\\""\\',
]
EXAMPLE = (
    b"schema_version=1\nenv_id=Lift\nn_rows=9\nn_episodes=2\nseed=7\nsource_commit=abc\n"
    b'column=action:float32:7\ncolumn=reward:float32\ntask=0\t"lift \\"it\\""\npackage=trajpipe 0.1\n'
)

plain_text = st.text(st.characters(codec="utf-8"), max_size=30)
one_line = plain_text.map(lambda t: " ".join(t.split())).filter(lambda t: len(t.splitlines()) < 2)
key = st.from_regex(r"[a-z_][a-z0-9_.\-]{0,12}", fullmatch=True).filter(
    lambda k: (
        k
        not in ("schema_version", "env_id", "n_rows", "n_episodes", "seed", "source_commit", "column", "task")
    )
)
name = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.]{0,12}", fullmatch=True).filter(
    lambda n: n not in ("ep_len", "ep_offset")
)
column = st.builds(
    ColumnSpec, name, st.sampled_from(DTYPES), st.lists(st.integers(1, 500), max_size=4).map(tuple)
)
manifests = st.builds(
    Manifest,
    columns=st.lists(column, max_size=6, unique_by=lambda c: c.name).map(tuple),
    n_rows=st.integers(0, 2**62),
    n_episodes=st.integers(0, 2**62),
    env_id=one_line,
    seed=st.integers(-(2**63), 2**64),
    source_commit=one_line,
    tasks=st.lists(st.one_of(plain_text, st.sampled_from(HOSTILE)), max_size=4).map(tuple),
    extra=st.dictionaries(key, one_line, max_size=3),
)


@given(manifests)
def test_encode_parse_encode_is_a_fixed_point(manifest: Manifest) -> None:
    text = manifest.encode()
    parsed = Manifest.parse(text)
    assert parsed == manifest
    assert parsed.encode() == text


@given(st.text(max_size=50))
def test_any_task_text_comes_back_or_is_refused(text: str) -> None:
    try:
        encoded = Manifest((), 0, 0, tasks=(text,)).encode()
    except InputError:
        with pytest.raises(UnicodeEncodeError):
            text.encode("utf-8", "surrogateescape")
        return
    back = Manifest.parse(encoded).tasks[0]
    assert back.encode("utf-8", "surrogateescape") == text.encode("utf-8", "surrogateescape")


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_task_is_byte_exact(text: str) -> None:
    line = Manifest((), 0, 0, tasks=("first", text)).encode().split(b"task=1\t")[1]
    assert line.count(b"\n") == 1
    assert parse_task("1\t" + quote(text)) == (1, text)
    assert (
        Manifest.parse(b'schema_version=1\nn_rows=0\nn_episodes=0\ntask=0\t""\ntask=1\t' + line).tasks[1]
        == text
    )


def test_the_text_is_the_contracts() -> None:
    manifest = Manifest(
        (ColumnSpec("action", "float32", 7), ColumnSpec("reward", "float32")),
        9,
        2,
        env_id="Lift",
        seed=7,
        source_commit="abc",
        tasks=('lift "it"',),
        extra={"package": "trajpipe 0.1"},
    )
    assert manifest.encode() == EXAMPLE
    assert Manifest.parse(EXAMPLE) == manifest


def test_a_reader_skips_blanks_comments_and_what_it_does_not_know() -> None:
    text = EXAMPLE.replace(b"seed=7", b"  seed = 7 \r\n\n# a comment\nfuture key=?\nnew.key=1=2")
    parsed = Manifest.parse(text)
    assert parsed.seed == 7
    assert parsed.extra == {"package": "trajpipe 0.1", "new.key": "1=2"}


def test_multi_dimensional_columns() -> None:
    spec = ColumnSpec("images", "uint8", (2, 3, 128, 128))
    assert column_text(spec) == "images:uint8:2,3,128,128"
    assert parse_column("images:uint8:2,3,128,128") == spec
    assert parse_column("reward : float32 :").shape == ()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b"schema_version=1", b"", "schema_version"),
        (b"schema_version=1", b"schema_version=2", "schema version"),
        (b"schema_version=1", b"schema_version=0", "schema version"),
        (b"schema_version=1", b"schema_version=one", "integer"),
        (b"n_rows=9", b"", "n_rows"),
        (b"n_episodes=2", b"n_episodes=-2", "n_episodes"),
        (b"seed=7", b"seed=7.5", "integer"),
        (b"seed=7", b"seed=7\nseed=7", "once"),
        (b"seed=7", b"seed", "key=value"),
        (b"reward:float32", b"reward:bool", "name:dtype"),
        (b"reward:float32", b"reward", "name:dtype"),
        (b"reward:float32", b"reward:float32:1:2", "name:dtype"),
        (b"reward:float32", b"reward:float32:0", "at least 1"),
        (b"reward:float32", b"reward:float32:a", "integer"),
        (b"reward:float32", b"action:float32", "once"),
        (b"reward:float32", b"ep_len:float32", "format's own"),
        (b"task=0\t", b"task=0 ", "tab"),
        (b"task=0\t", b"task=1\t", "without a gap"),
        (b"task=0\t", b'task=0\t""\ntask=0\t', "once"),
        (b'\\""', b'\\"', "at the end"),
        (b'\\""', b'\\"x', "quoted text"),
        (b'lift \\"it\\"', b'lift "it"', "is escaped"),
        (b'lift \\"it\\"', b"lift \\x", "five escapes"),
        (b'lift \\"it\\"', b"lift \\", "five escapes"),
    ],
)
def test_a_broken_manifest_says_what_and_where(old: bytes, new: bytes, said: str) -> None:
    assert old in EXAMPLE
    with pytest.raises(InputError, match=said) as caught:
        Manifest.parse(EXAMPLE.replace(old, new, 1), place="x.h5")
    assert "x.h5" in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"env_id": "a\nb"},
        {"env_id": " a"},
        {"source_commit": "a\r"},
        {"extra": {"seed": "1"}},
        {"extra": {"a b": "1"}},
        {"extra": {"a": "1\n2"}},
        {"tasks": ("\ud800",)},
    ],
)
def test_what_cannot_stand_on_a_line_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Manifest((), 0, 0, **options).encode()
