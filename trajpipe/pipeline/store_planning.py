"""Store plans from the catalogue: which layout, which suite, which scene family.

What is not here: building stores, see `build_store.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trajpipe.pipeline.catalogue import Recording
from trajpipe.pipeline.catalogue_model import DatasetEntry
from trajpipe.pipeline.store_libero import scene_of, task_of_file
from trajpipe.pipeline.store_plan import LafanOptions, LeRobotOptions, LiberoOptions, StorePlan

if TYPE_CHECKING:
    from trajpipe.pipeline.project import Project

NO_SCENE: Final = "no_scene"
_OWN_LAYOUTS: Final = frozenset({"libero", "lafan"})


def family_of(recording: Recording) -> str:
    """Scene family of a recording by its task's name."""
    return scene_of(task_of_file(recording.path.name)) or NO_SCENE


def layout_of_dataset(dataset: DatasetEntry) -> str:
    """The declared layout; `auto` is the format's own when all raw entries are of one such format."""
    if dataset.store.layout != "auto":
        return dataset.store.layout
    kinds = {entry.kind for entry in dataset.raw}
    own = kinds.pop() if len(kinds) == 1 else ""
    return own if own in _OWN_LAYOUTS else "generic"


def store_plan(project: Project, name: str, recordings: Sequence[Recording], family: str = "") -> StorePlan:
    """The plan of one store from those of the recordings that are ready.

    Args:
        project: The project.
        name: Dataset name.
        recordings: The recordings that belong into this store.
        family: Its scene family; "" = the whole dataset.
    """
    dataset = project.dataset(name)
    options, (inputs, failed) = dataset.store, project.ready_inputs(name, recordings)
    layout = layout_of_dataset(dataset)
    return StorePlan(
        dataset=name,
        inputs=inputs,
        target=project.store_path(name, family),
        seed=dataset.splits.seed,
        terms=options.terms,
        cameras=options.cameras,
        float32=tuple(options.float64_to_float32),
        images=options.images,
        compression=options.compression,
        column_compression=dict(options.column_compression),
        demos_per_task=options.demos_per_task,
        libero=libero_options(dataset, name, project.root, family) if layout == "libero" else None,
        lafan=lafan_options(dataset, project.root) if layout == "lafan" else None,
        lerobot=lerobot_options(dataset) if layout == "lerobot" else None,
        raw={r.path.name: r.path for r in recordings},
        failed=failed,
        absent=tuple(project.demos_path(r) for r in recordings),
    )


def lerobot_options(dataset: DatasetEntry) -> LeRobotOptions:
    """What the catalogue says about a store in a LeRobot set's columns: the size of its images."""
    size = dataset.store.image_size
    return LeRobotOptions(None if size == "native" else size)


def lafan_options(dataset: DatasetEntry, root: Path) -> LafanOptions:
    """What the catalogue says about a motion store: the robot's model."""
    model = dataset.store.target.model
    return LafanOptions(None if model is None else root / model)


def libero_options(dataset: DatasetEntry, name: str, root: Path, family: str = "") -> LiberoOptions:
    """What the catalogue says about a LIBERO suite."""
    options, target = dataset.store, dataset.store.target
    suite = options.suite or name
    return LiberoOptions(
        suite=suite,
        tasks=options.tasks,
        state=options.state,
        model=None if target.model is None else root / target.model,
        joints=target.joints,
        names=dict(target.names),
        family=family or suite,
    )
