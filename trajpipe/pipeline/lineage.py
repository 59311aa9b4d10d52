"""Which columns an output's columns are made of, for the UI's column lineage.

What is not here: values; the certificate proves that they agree.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from trajpipe.core import jsontext, names, provenance
from trajpipe.demos.reader import DemosFile
from trajpipe.pipeline.build_store import layout_of
from trajpipe.pipeline.store_plan import StorePlan
from trajpipe.store import TrajectoryStore

Lineage = Mapping[str, Sequence[str]]
_INFO: Final = "meta/info.json"
_NUMBERED: Final = re.compile(r"_\d+$")
_BY_NAME: Final = {
    names.COLUMN_ACTION: names.DATASET_ACTIONS,
    names.COLUMN_REWARD: "rewards",
    names.COLUMN_DONE: "dones",
    names.COLUMN_STATE: "states",
}


def store_lineage(plan: StorePlan, path: Path) -> Lineage:
    """Column of a store → columns of its L2 files.

    A generic store says it itself; of other layouts columns of the same name are taken, and those that are
    computed from several are left out.

    Args:
        plan: Of the store.
        path: The store.

    Raises:
        TrajpipeError: an L2 file or the store cannot be read.
    """
    # all L2 files of a store have the first one's columns: no need to look at every demo's model
    said = layout_of(replace(plan, inputs=plan.inputs[:1])).check_context().get("columns")
    if isinstance(said, Mapping):
        return {column: list(paths) for column, paths in said.items()}
    with DemosFile(plan.inputs[0]) as demos:
        known = set(demos.episode(demos.demos[0]).columns)
    with TrajectoryStore(path) as store:
        columns = list(store.columns)
    same = {c: [p for p in (f"{names.GROUP_OBS}/{c}", _BY_NAME.get(c, c)) if p in known] for c in columns}
    return {column: paths[:1] for column, paths in same.items() if paths}


def lerobot_lineage(folder: Path) -> Lineage:
    """Feature of an export → columns of its L2 files, by its recipe, else by the names of its dimensions.

    Raises:
        TrajpipeError: info.json or the recipe is damaged.
        OSError: info.json cannot be read.
    """
    features = jsontext.loads((folder / _INFO).read_bytes(), place=folder / _INFO)["features"]
    options: Mapping[str, Any] = (provenance.read_stamp(folder) or {}).get("options", {})
    out: dict[str, list[str]] = {}
    for name, feature in features.items():
        if name == "action":
            out[name] = [str(options.get("action") or names.DATASET_ACTIONS)]
        elif name == "observation.state":
            terms = options.get("state") or _numbered(feature.get("names"))
            out[name] = [f"{names.GROUP_OBS}/{term}" for term in terms]
        elif name.startswith("observation.images."):
            out[name] = [f"{names.GROUP_OBS}/{name.removeprefix('observation.images.')}"]
    return out


def _numbered(dimensions: Any) -> list[str]:
    """`[eef_pos, gripper]` of `[eef_pos_0, eef_pos_1, gripper_0]`; names of the user's own tell no term."""
    said = [str(n) for n in dimensions] if isinstance(dimensions, list) else []
    return list(dict.fromkeys(_NUMBERED.sub("", n) for n in said if _NUMBERED.search(n)))
