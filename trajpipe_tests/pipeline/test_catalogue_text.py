"""Reading YAML: values, lines, and what is refused.

What is not here: the catalogue's keys.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trajpipe.pipeline.catalogue_problems import InvalidCatalogueError
from trajpipe.pipeline.catalogue_text import MAX_BYTES, MAX_VALUES, dotted, plain, read_document


def _read(folder: Path, text: str | bytes) -> Any:
    path = folder / "datasets.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_document(path)


def _refusal(folder: Path, text: str | bytes) -> str:
    with pytest.raises(InvalidCatalogueError) as caught:
        _read(folder, text)
    return str(caught.value).removeprefix(f"{folder / 'datasets.yaml'}: ")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("true", True),
        ("False", False),
        ("yes", "yes"),
        ("on", "on"),
        ("NO", "NO"),
        ("12", 12),
        ("-7", -7),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("1_000", "1_000"),
        ("0x10", "0x10"),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("-2.", -2.0),
        ("1.2.3", "1.2.3"),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("30000/1001", "30000/1001"),
    ],
)
def test_plain_scalars_follow_yaml_1_2(text: str, value: object) -> None:
    assert plain(text) == value
    assert type(plain(text)) is type(value)


def test_values_and_lines(tmp_path: Path) -> None:
    document = _read(tmp_path, 'a: 1\nb:\n  - x\n  - {c: "2", d: null}\ne: |\n  long\n  text\n')
    assert document.value == {"a": 1, "b": ["x", {"c": "2", "d": None}], "e": "long\ntext\n"}
    assert document.line(("a",)) == 1
    assert document.line(("b", 1, "d")) == 4
    assert document.line(("e",)) == 5


def test_a_path_that_is_not_there_has_the_line_of_what_is_above(tmp_path: Path) -> None:
    document = _read(tmp_path, "a: 1\nb:\n  c: 2\n")
    assert document.line(("b", "missing", 3)) == 2
    assert document.line(("z",)) == 1


def test_aliases_are_followed(tmp_path: Path) -> None:
    assert _read(tmp_path, "a: &x {k: 1}\nb: *x\n").value == {"a": {"k": 1}, "b": {"k": 1}}


def test_a_byte_order_mark_and_an_empty_file(tmp_path: Path) -> None:
    assert _read(tmp_path, b"\xef\xbb\xbfa: 1\n").value == {"a": 1}
    assert _read(tmp_path, "# nothing\n").value == {}


def test_an_absent_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidCatalogueError) as caught:
        read_document(tmp_path / "none.yaml")
    assert str(caught.value) == (
        f"{tmp_path / 'none.yaml'}: the catalogue cannot be read; got No such file or directory. "
        "`trajpipe demo` writes a sample catalogue; --data names another folder."
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\na: 2\n", "line 2 · a: the key is there twice; got also on line 1. Remove one of them."),
        (
            "b:\n  a: 1\n  c: 3\n  a: 2\n",
            "line 4 · b.a: the key is there twice; got also on line 2. Remove one of them.",
        ),
        (
            "a: !!python/object:os.system x\n",
            "line 1 · a: tags are not used in a catalogue; got tag:yaml.org,2002:python/object:os.system",
        ),
        ("a: !mine x\n", "line 1 · a: tags are not used in a catalogue; got !mine"),
        (
            "x: &x {k: 1}\ny:\n  <<: *x\n",
            "line 3 · y: merge keys are not used in a catalogue; got <<. Use `defaults:`.",
        ),
        ("1: x\n", "line 1: a key must be text; got 1. Put it in quotes."),
        ("[a]: x\n", "line 1: a key must be text; got a list or mapping. Put it in quotes."),
        (
            "a: [1\n",
            (
                "line 2: the file is not YAML; got while parsing a flow sequence expected ',' or "
                "']', but got '<stream end>'"
            ),
        ),
        ("a: 1\n b: 2\n", "line 2: the file is not YAML; got mapping values are not allowed here"),
        ("a: *nope\n", "line 1: the file is not YAML; got found undefined alias 'nope'"),
        (
            "a: 1\n---\nb: 2\n",
            (
                "line 2: the file is not YAML; got expected a single document in the stream but "
                "found another document"
            ),
        ),
        (b"a: 1\nb: \xff\n", "line 2: the file is not UTF-8 text; got byte 0xff"),
        (
            "a: \x01\n",
            (
                "line 1: the file is not YAML; got unacceptable character #x0001: special characters "
                'are not allowed in "<unicode string>", position 3'
            ),
        ),
    ],
)
def test_refusals(tmp_path: Path, text: str | bytes, message: str) -> None:
    assert _refusal(tmp_path, text) == message


def test_several_refusals_are_listed_together(tmp_path: Path) -> None:
    assert _refusal(tmp_path, "a: 1\na: 2\n2: x\n").splitlines() == [
        "the catalogue has 2 problems:",
        "  line 2 · a: the key is there twice; got also on line 1. Remove one of them.",
        "  line 3: a key must be text; got 2. Put it in quotes.",
    ]


def test_an_alias_bomb_is_refused_quickly(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    text = _refusal(tmp_path, "\n".join(lines))
    assert text == (
        f"line 1: the catalogue holds too many values; got more than {MAX_VALUES} once aliases are followed"
    )


def test_an_alias_to_itself_is_refused(tmp_path: Path) -> None:
    assert "nested too deeply" in _refusal(tmp_path, "a: &a\n  b: *a\n")


@pytest.mark.parametrize("depth", [60, 50_000])
def test_deep_nesting_is_refused(tmp_path: Path, depth: int) -> None:
    assert "nested too deeply" in _refusal(tmp_path, "a: " + "[" * depth + "]" * depth)


def test_a_large_file_is_refused_unread(tmp_path: Path) -> None:
    size = MAX_BYTES + 1
    assert (
        _refusal(tmp_path, b"#" * size)
        == f"the file is too large; got {size} bytes; expected at most {MAX_BYTES}"
    )


def test_key_paths_are_written_as_people_do() -> None:
    assert dotted(("datasets", "lift", "raw", 0, "kind")) == "datasets.lift.raw[0].kind"
    assert dotted(()) == ""
