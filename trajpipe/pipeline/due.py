"""Whether a store or an export is due: what a build would make now is not what is on disk.

What is not here: asking for the build, see `trajpipe.defs.automation`; a whole run's plan, see `run.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from trajpipe.core import provenance
from trajpipe.core.errors import TrajpipeError
from trajpipe.core.names import Stage
from trajpipe.core.provenance import Recipe
from trajpipe.export.options import EXPORT_CODE
from trajpipe.pipeline.build_store import recipe_of_store
from trajpipe.pipeline.export_lerobot import DECLARED, declared, options_of, recipe_of_export
from trajpipe.pipeline.project import Project
from trajpipe.pipeline.store_plan import StorePlan


def due(project: Project, name: str, stage: Stage) -> str:
    """A digest of what a build would make now; "" when that is on disk, or when there is nothing to build.

    An export whose store is not what it would be is not due: that store comes first. No L2 file is opened,
    so that a dataset of many recordings can be looked at often.

    Args:
        project: The project, its catalogue just read.
        name: Dataset name.
        stage: `store` or `lerobot`.

    Raises:
        TrajpipeError: the catalogue or a recording says something that no plan can be made of.
        OSError: an L2 file cannot be read, it was renamed just now, say.
    """
    stores = _stores(project, name)
    inputs = {file: sha256 for _, recipe in stores for file, sha256 in recipe.inputs.items()}
    if not inputs:
        return ""
    made = _are_made(stores)
    if stage is Stage.STORE:
        return "" if made else _digest(recipe.key() for _, recipe in stores)
    said = _declared(project, name)
    if not made or _export_is_made(project, name, inputs, said):
        return ""
    return _digest([EXPORT_CODE, said, *(f"{file} {sha256}" for file, sha256 in sorted(inputs.items()))])


def store_is_current(project: Project, name: str) -> bool:
    """True when the stores on disk are the ones their plans make."""
    return _are_made(_stores(project, name))


def export_is_current(project: Project, name: str) -> bool:
    """True when the export on disk is the one its plan makes."""
    plan = project.export_plan(name)
    try:
        recipe = recipe_of_export(plan)
    except (TrajpipeError, OSError):
        return False
    return provenance.unchanged(plan.target, recipe)


def _digest(lines: Iterable[str]) -> str:
    return provenance.sha256_bytes("\n".join(lines).encode())


def _stores(project: Project, name: str) -> list[tuple[StorePlan, Recipe]]:
    """Each store of a dataset, one or one per scene family, with its recipe."""
    return [(plan, recipe_of_store(plan)) for plan in project.store_plans(name)]


def _are_made(stores: Sequence[tuple[StorePlan, Recipe]]) -> bool:
    return all(plan.inputs and provenance.unchanged(plan.target, recipe) for plan, recipe in stores)


def _declared(project: Project, name: str) -> str:
    """What the catalogue says about an export, as its stamp keeps it."""
    dataset = project.dataset(name)
    return declared(options_of(dataset.export, dataset.task), dataset.export.fps)


def _export_is_made(project: Project, name: str, inputs: Mapping[str, str], said: str) -> bool:
    """True when the export on disk was made of these L2 files, and of what the catalogue says now.

    Its recipe also has names and a rate that are read from the L2 files. They are the stamp's as long as the
    files are.
    """
    target = project.lerobot_path(name)
    stamp = provenance.read_stamp(target)
    if stamp is None or stamp.get(DECLARED) != said:
        return False
    return provenance.unchanged(target, Recipe(Stage.LEROBOT, inputs, stamp["options"], EXPORT_CODE))
