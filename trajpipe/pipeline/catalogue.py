"""The catalogue `data/datasets.yaml`: loading it with errors that name line, key and allowed values.

What is not here: the keys (`catalogue_model`), YAML (`catalogue_text`), globs (`catalogue_recordings`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trajpipe.core.errors import MissingNameError
from trajpipe.pipeline.catalogue_conventions import Model
from trajpipe.pipeline.catalogue_descriptions import describe
from trajpipe.pipeline.catalogue_diagnosis import problems_of
from trajpipe.pipeline.catalogue_model import (
    KIND_AUTO,
    CatalogueDocument,
    DatasetEntry,
    Exclusion,
    RawEntry,
)
from trajpipe.pipeline.catalogue_problems import InvalidCatalogueError, Problem, did_you_mean, invalid
from trajpipe.pipeline.catalogue_recordings import Recording, find_recordings
from trajpipe.pipeline.catalogue_text import read_document
from trajpipe.sources.base import sources

__all__ = [
    "Catalogue",
    "DatasetConfig",
    "Exclusion",
    "InvalidCatalogueError",
    "Problem",
    "RawEntry",
    "Recording",
    "catalogue_schema",
    "load_catalogue",
]


class DatasetConfig(DatasetEntry):
    """A dataset of a loaded catalogue: its entry, with `defaults:` merged in, and its name."""

    name: str
    """The dataset's name."""

    @property
    def task_in_file_names(self) -> str:
        """The `<task>` of L2 file names."""
        return self.task_name or self.name

    def recordings(self, data_root: Path) -> list[Recording]:
        """All recordings that exist now, in natural order of their paths.

        Args:
            data_root: Folder that relative globs begin at (the catalogue's).

        Raises:
            CatalogueError: a recording matches two raw entries.
        """
        return find_recordings(self.name, self.raw, data_root, self.filter.unknown_success)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """A loaded catalogue.

    Attributes:
        path: The file.
        datasets: Name → dataset, in the file's order.
    """

    path: Path
    datasets: Mapping[str, DatasetConfig]

    def dataset(self, name: str) -> DatasetConfig:
        """The dataset of a name.

        Raises:
            MissingNameError: there is none; the message offers the nearest.
        """
        if name not in self.datasets:
            expected = f"one of {', '.join(self.datasets)}" if self.datasets else "a name under `datasets:`"
            hint = did_you_mean(name, self.datasets)
            raise MissingNameError(
                "no dataset of this name", place=self.path, got=name, expected=expected, hint=hint
            )
        return self.datasets[name]


def load_catalogue(path: Path) -> Catalogue:
    """Read and check a catalogue.

    Raises:
        CatalogueError: it is not valid; every problem is listed with its line and key.
    """
    document = read_document(path)
    merged = _merged(document.value)
    problems = problems_of(document, merged)
    if problems:
        raise invalid(path, problems)
    model = CatalogueDocument.model_validate_json(json.dumps(merged))
    datasets = {name: DatasetConfig(name=name, **dict(entry)) for name, entry in model.datasets.items()}
    return Catalogue(path, datasets)


def catalogue_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of the catalogue, for editors."""
    schema = CatalogueDocument.model_json_schema()
    describe(schema, Model)
    kind = schema["$defs"]["RawEntry"]["properties"]["kind"]
    kind["enum"] = [KIND_AUTO, *sources()]
    title = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "trajpipe catalogue"}
    return schema | title


def _merged(value: Any) -> Any:
    """The document with `defaults:` merged into each dataset, and its `conventions:` into each raw entry."""
    if not isinstance(value, dict) or not isinstance(value.get("datasets"), dict):
        return value
    defaults = value.get("defaults")
    defaults = defaults if isinstance(defaults, dict) else {}
    datasets = {}
    for name, entry in value["datasets"].items():
        one = _over(defaults, entry)
        if isinstance(one, dict) and isinstance(one.get("raw"), list) and "conventions" in one:
            shared = {"conventions": one["conventions"]}
            one = one | {"raw": [_over(shared, raw) for raw in one["raw"]]}
        datasets[name] = one
    return value | {"datasets": datasets}


def _over(base: Any, value: Any) -> Any:
    """`value` with the keys of `base` that it lacks, mappings within mappings alike."""
    if not isinstance(base, dict) or not isinstance(value, dict):
        return value
    both = {key: _over(base[key], value[key]) if key in base else value[key] for key in value}
    return both | {key: base[key] for key in base if key not in value}
