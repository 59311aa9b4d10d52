"""A new project folder: catalogue, baseline, workspace, data folders, .gitignore and a CI recipe.

What is not here: the texts of its YAML files, they lie in `new_project/` beside this.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Final

from trajpipe.core import atomic, jsontext, names
from trajpipe.core.errors import UsageError
from trajpipe.pipeline.catalogue import catalogue_schema
from trajpipe.pipeline.gate_baseline import BASELINE

WORKSPACE: Final = "workspace.yaml"
CI: Final = ".github/workflows/data.yml"
SCHEMA: Final = "datasets.schema.json"
_PLACEHOLDER: Final = "DATASET"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_GITIGNORE: Final = """\
# made from data/raw by trajpipe
data/demos/
data/stores/
data/lerobot/
data/reports/
data/.trajpipe/
reports/
# the Dagster instance
.dagster/
# programs
.venv/
__pycache__/
"""
_RAW_README: Final = """\
Put recordings of `{dataset}` here, one file each; `../../datasets.yaml` says what becomes of them.
"""


@dataclass(slots=True)
class Started:
    """What a new project folder holds.

    Attributes:
        folder: The folder.
        written: Files that were written, relative to it.
        kept: Files that were there already and were left as they are.
    """

    folder: Path
    written: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)


def init(folder: Path, dataset: str = "my_task", *, force: bool = False) -> Started:
    """Start a project: write what is absent, leave what is there.

    Args:
        folder: The project folder; made when absent.
        dataset: Name of the catalogue's first dataset.
        force: Write over files that are there.

    Raises:
        UsageError: the folder is a file, or the name is no dataset's name.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError("a project is a folder", place=folder, got="a file")
    if _NAME.fullmatch(dataset) is None:
        raise UsageError("a dataset's name is letters, digits and _, not beginning with a digit", got=dataset)
    out = Started(folder)
    for name, text in _files(dataset):
        path = folder / name
        if path.exists() and not force:
            out.kept.append(name)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_text(path, text)
        out.written.append(name)
    return out


def _files(dataset: str) -> Iterator[tuple[str, str]]:
    """(path below the project, text)."""
    yield f"data/{names.CATALOGUE}", _template(names.CATALOGUE, dataset)
    yield f"data/{SCHEMA}", jsontext.dumps(catalogue_schema(), indent=2, sort_keys=False) + "\n"
    yield f"data/{BASELINE}", _template(BASELINE, dataset)
    yield f"data/{names.FOLDER_RAW}/{dataset}/README.md", _RAW_README.format(dataset=dataset)
    yield WORKSPACE, _template(WORKSPACE, dataset)
    yield CI, _template("ci.yaml", dataset)
    yield ".gitignore", _GITIGNORE


def _template(name: str, dataset: str) -> str:
    text = (resources.files("trajpipe.pipeline") / "new_project" / name).read_text("utf-8")
    return text.replace(_PLACEHOLDER, dataset)
