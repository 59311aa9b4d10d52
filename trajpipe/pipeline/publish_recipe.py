"""The recipe of a published dataset: inputs, options and versions, and a catalogue to rebuild by.

Nothing in it names this machine: paths are relative to the folder that the recordings share.
What is not here: building from it again, see `rebuild.py`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PurePath
from typing import Any, Final

from trajpipe.core import names, provenance
from trajpipe.core.errors import StateError
from trajpipe.core.paths import without_absolute_paths_in
from trajpipe.pipeline.catalogue import Recording
from trajpipe.pipeline.catalogue_recordings import shared_base
from trajpipe.pipeline.ingest import recording_sha256
from trajpipe.pipeline.project import Project

PACKAGES: Final = ("av", "h5py", "hdf5plugin", "numpy", "pillow", "pyarrow")
FOLDER_MODELS: Final = "models"
_LEFT_OUT: Final = {"name", "hub", "schedule", "owners"}


def recipe_of_dataset(project: Project, name: str, outputs: Iterable[Path]) -> dict[str, Any]:
    """What a dataset's outputs were made of and with, plain JSON values.

    Args:
        project: The project.
        name: Dataset name.
        outputs: Stamped outputs: L2 files, stores, the LeRobot folder.

    Raises:
        StateError: an output has no stamp.
    """
    dataset = project.dataset(name)
    return {
        "seed": dataset.splits.seed,
        "packages": {"trajpipe": provenance.package_version(), **_versions()},
        "stages": [_stage(project.root, output) for output in outputs],
        "inputs": _inputs(project, name),
        "dataset": _entry(project, name),
    }


def _versions() -> dict[str, str]:
    found: dict[str, str] = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _stage(root: Path, output: Path) -> dict[str, Any]:
    stamp = provenance.read_stamp(output)
    if stamp is None:
        raise StateError("an output has no recipe beside it", place=output, hint="Run its stage again.")
    kept = {key: stamp[key] for key in ("stage", "inputs", "options", "code", "package", "key")}
    made = {key: stamp["output"][key] for key in ("sha256", "size")}
    path = output.relative_to(root).as_posix() if output.is_relative_to(root) else output.name
    return dict(without_absolute_paths_in({"output": {"path": path, **made}, **kept}))


def _base(project: Project, name: str) -> Path:
    return shared_base(name, project.dataset(name).raw, Path(os.path.abspath(project.root)))  # noqa: PTH100


def _inputs(project: Project, name: str) -> list[dict[str, str]]:
    """Every recording, and the target scene's model, by name and hash."""
    base = _base(project, name)
    rows = [
        {
            "path": _below(recording.path, base),
            "key": recording.key,
            "sha256": recording_sha256(recording.path, project.demos_path(recording)),
            "role": "recording",
        }
        for recording in project.recordings(name)
    ]
    model = project.dataset(name).store.target.model
    if model is not None:
        path = project.root / model
        sha256 = provenance.sha256_file(path)
        rows.append({"path": path.name, "key": "", "sha256": sha256, "role": "model"})
    return rows


def _entry(project: Project, name: str) -> dict[str, Any]:
    """The dataset as a catalogue says it, globs below `raw/<name>`, the model below `models/`."""
    dataset, base = project.dataset(name), _base(project, name)
    value: dict[str, Any] = dataset.model_dump(mode="json", exclude_defaults=True, exclude=_LEFT_OUT)
    root = Path(os.path.abspath(project.root))  # noqa: PTH100 - resolve() would follow the user's links
    for entry, raw in zip(dataset.raw, value["raw"], strict=True):
        patterns = [Path(os.path.normpath(root / pattern)) for pattern in entry.patterns(name)]
        raw["glob"] = [f"{names.FOLDER_RAW}/{name}/{_below(p, base)}" for p in patterns]
        raw.pop("hub", None)
        raw.pop("follow", None)
    keys = {_below(r.path, root): r.key for r in project.recordings(name)}
    for exclusion in value.get("exclude", []):
        exclusion["recording"] = keys.get(exclusion["recording"], exclusion["recording"])
    if dataset.store.target.model is not None:
        value["store"]["target"]["model"] = f"{FOLDER_MODELS}/{PurePath(dataset.store.target.model).name}"
    return value


def _below(path: Path, base: Path) -> str:
    return path.relative_to(base).as_posix() if path.is_relative_to(base) else path.name


def sources_of(recordings: Iterable[Recording]) -> Mapping[str, str]:
    """Partition key → `kind, tag` of each recording, for people."""
    return {r.key: ", ".join(filter(None, (r.entry.kind, r.entry.tag))) for r in recordings}
