"""LIBERO's initial-state tables (`.init`, `.pruned_init`) → a store of `init_state` and `task_index`.

The tables are pickles: they are read without running them. A table has no model, so a recording or MJCF of
the same scene gives the joint order. What is not here: stores of demonstrations, see `store_libero.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trajpipe.checks.registry import CheckReport, run_checks
from trajpipe.core import names, provenance
from trajpipe.core.errors import InputError, SchemaError, TrajpipeError
from trajpipe.core.ledger import Ledger
from trajpipe.core.names import Stage
from trajpipe.core.pickles import read_torch_zip
from trajpipe.core.provenance import Recipe
from trajpipe.core.signatures import looks_like_hdf5
from trajpipe.hdf5.attributes import text
from trajpipe.hdf5.files import open_hdf5, subgroups
from trajpipe.mjcf.document import parse
from trajpipe.mjcf.joints import joint_table
from trajpipe.pipeline.results import Job, Made, StageResult, entry_of, failed_plainly, perform
from trajpipe.pipeline.store_libero import language_of_task, remap_of_model, task_list
from trajpipe.pipeline.store_plan import LiberoOptions
from trajpipe.store import ColumnSpec, TrajectoryStoreWriter

CODE: Final = "init-1"
SUFFIXES: Final = (".init", ".pruned_init")


@dataclass(frozen=True, slots=True)
class InitPlan:
    """What a store of initial states is made of.

    Attributes:
        dataset: Dataset name.
        files: The tables, one per task; the task is the file's name.
        model: A recording (HDF5) or an MJCF of the same scene: the tables' joint order.
        target: The store to make.
        options: The suite and the target's joint order.
    """

    dataset: str
    files: tuple[Path, ...]
    model: Path
    target: Path
    options: LiberoOptions


def build_init_store(plan: InitPlan, *, force: bool = False) -> StageResult:
    """Build the store of a plan, or say that nothing changed. Failures are returned, not raised."""
    try:
        model = model_text(plan.model)
        hashes = {p.name: provenance.sha256_file(p) for p in plan.files}
    except (TrajpipeError, OSError) as error:
        return failed_plainly(plan.dataset, Stage.STORE, "", plan.target, error)
    options = {"libero": plan.options.to_json(), "model": provenance.sha256_bytes(model.encode())}
    job = Job(
        plan.dataset,
        Stage.STORE,
        "",
        plan.target,
        Recipe(Stage.STORE, hashes, options, CODE),
        build=lambda temporary: _write(plan, model, temporary),
        check=lambda temporary: check_init_store(plan, temporary),
    )
    return perform(job, force=force)


def check_init_store(plan: InitPlan, path: Path) -> CheckReport:
    """Run the checks of a store of initial states on a file."""
    model = model_text(plan.model)
    target = plan.options.model
    context = {
        "libero_init": {
            "files": {p.name: str(p) for p in plan.files},
            "models": {p.name: model for p in plan.files},
            "tasks": tasks_of(plan),
            "model": None if target is None else target.read_text("utf-8"),
            "joints": None if plan.options.joints is None else list(plan.options.joints),
            "names": dict(plan.options.names),
        }
    }
    return run_checks(Stage.STORE, path, context=context)


def task_of_table(path: Path) -> str:
    """Task name of a table: its file name up to the first dot."""
    return path.name.split(".")[0]


def tasks_of(plan: InitPlan) -> list[str]:
    """The suite's task list.

    Raises:
        InputError: a table's task is not in it.
    """
    return task_list(plan.options, {task_of_table(p): "" for p in plan.files})


def model_text(path: Path) -> str:
    """MJCF text: the file itself, or `model_file` of a recording's first demo.

    Raises:
        UnreadableError: it cannot be read.
        InputError: the recording has no model.
    """
    if not looks_like_hdf5(path):
        return path.read_text("utf-8")
    with open_hdf5(path) as file:
        for demo in subgroups(file[names.GROUP_DATA]).values():
            found = text(demo, names.ATTR_MODEL_FILE)
            if found and "<mujoco" in found:
                return found
    raise InputError("the recording has no model", place=path.name, code="model-missing")


def read_table(path: Path) -> NDArray[np.float64]:
    """The rows of a table, (N, 1 + nq + nv) float64, the time first.

    Raises:
        UntrustedError: the pickle names anything but an array.
        SchemaError: not a float64 matrix.
    """
    value: Any = read_torch_zip(path)
    if not isinstance(value, np.ndarray) or value.ndim != 2 or value.dtype != np.float64 or not value.size:
        got = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
        raise SchemaError("a table of initial states is float64 (N, W)", place=path.name, got=got)
    return value


def _write(plan: InitPlan, model: str, temporary: Path) -> Made:
    tasks = tasks_of(plan)
    theirs = joint_table(parse(model, place=plan.model.name), place=plan.model.name)
    table = remap_of_model(theirs, plan.options, plan.model.name)
    columns = [
        ColumnSpec(names.COLUMN_INIT_STATE, np.dtype(np.float64), (table.nq + table.nv,)),
        ColumnSpec(names.COLUMN_TASK_INDEX, np.dtype(np.int32), (1,)),
    ]
    ledger, rows = Ledger(), 0
    with TrajectoryStoreWriter(
        temporary,
        columns,
        env_id=f"{names.LIBERO_INIT_ENV_ID}{plan.options.suite}",
        tasks=[language_of_task(task) for task in tasks],
    ) as writer:
        for path in plan.files:
            states = table.apply(read_table(path)[:, 1:], place=path.name)
            index = np.full((len(states), 1), tasks.index(task_of_table(path)), np.int32)
            writer.append(**{names.COLUMN_INIT_STATE: states, names.COLUMN_TASK_INDEX: index})
            writer.end_episode()
            ledger.entries.append(entry_of(path.name, Stage.STORE, 1))
            rows += len(states)
        writer.add_side_table(names.SIDE_EP_FILE, [p.name for p in plan.files])
    facts = {"episodes": len(plan.files), "rows": rows, "columns": 2, "tasks": len(tasks)}
    return Made(ledger, facts)
