"""The catalogue's reference page: its example loads and names every key.

What is not here: the keys' behaviour.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trajpipe.pipeline.catalogue import catalogue_schema, load_catalogue
from trajpipe_tests.conftest import REPOSITORY


def _example() -> str:
    page = (REPOSITORY / "docs/catalogue.md").read_text(encoding="utf-8")
    match = re.search(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert match is not None
    return match.group(1)


def _keys(schema: dict[str, Any]) -> Iterator[str]:
    for model in (schema, *schema["$defs"].values()):
        yield from model.get("properties", {})


def test_the_example_loads(tmp_path: Path) -> None:
    path = tmp_path / "datasets.yaml"
    path.write_text(_example(), encoding="utf-8")
    assert list(load_catalogue(path).datasets) == ["lift_mixed"]


def test_the_example_names_every_key() -> None:
    example = _example()
    missing = [key for key in _keys(catalogue_schema()) if not re.search(rf"\b{key}:", example)]
    assert missing == []


def test_the_bundled_catalogue_loads() -> None:
    assert load_catalogue(REPOSITORY / "data/datasets.yaml").datasets
