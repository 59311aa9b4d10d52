"""Entry points: a group's own, and one reading of the metadata for all groups.

What is not here: what is done with them, see `pipeline/test_plugins.py`.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator

import pytest

from trajpipe.core import plugins

POINTS = importlib.metadata.EntryPoints(
    importlib.metadata.EntryPoint(name, f"package:{name}", group)
    for name, group in (("a", "trajpipe.sources"), ("b", "trajpipe.checks"), ("c", "trajpipe.sources"))
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The times that the metadata was read."""
    times: list[str] = []

    def read() -> importlib.metadata.EntryPoints:
        times.append("read")
        return POINTS

    monkeypatch.setattr(importlib.metadata, "entry_points", read)
    plugins._all.cache_clear()
    yield times
    plugins._all.cache_clear()


def test_a_group_has_its_own_points(asked: list[str]) -> None:
    assert [p.name for p in plugins.entry_points("trajpipe.sources")] == ["a", "c"]
    assert [p.value for p in plugins.entry_points("trajpipe.checks")] == ["package:b"]
    assert plugins.entry_points("trajpipe.exports") == ()


def test_the_metadata_is_read_once(asked: list[str]) -> None:
    for _ in range(3):
        for group in ("trajpipe.sources", "trajpipe.checks", "trajpipe.exports"):
            plugins.entry_points(group)
    assert asked == ["read"]


def test_real_metadata_has_groups() -> None:
    assert "pytest" in {p.name.partition(".")[0] for p in plugins.entry_points("console_scripts")}
