"""Hints that name a key of the catalogue name the flag of `convert` too: not everybody has a catalogue."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import trajpipe

PACKAGE = Path(trajpipe.__file__).parent
FOLDERS = ("sources", "demos", "export")
OF_THE_CATALOGUE = ("raw entry", "catalogue", "options: {")


def hints(path: Path) -> Iterator[str]:
    """The constant text of every `hint=` of a module."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.keyword) and node.arg == "hint":
            parts = [n.value for n in ast.walk(node.value) if isinstance(n, ast.Constant)]
            yield "".join(p for p in parts if isinstance(p, str))


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_hint_at_the_catalogue_names_a_flag(folder: str) -> None:
    every = [(p.name, text) for p in sorted((PACKAGE / folder).glob("*.py")) for text in hints(p)]
    about = [(name, text) for name, text in every if any(word in text for word in OF_THE_CATALOGUE)]
    assert about, "no hint is about the catalogue: the search is wrong"
    assert [one for one in about if "--" not in one[1]] == []
