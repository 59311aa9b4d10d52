"""The generic store layout: `action`, obs terms, cameras, `task_index`, `success`, rewards and dones.

What is not here: which columns those are, see `store_columns.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from trajpipe.core import names
from trajpipe.core.ahead import ahead
from trajpipe.core.episode import Episode
from trajpipe.demos.reader import DemosFile
from trajpipe.pipeline.store_columns import ColumnSource, agree, columns_of, rows_of
from trajpipe.pipeline.store_plan import StorePlan
from trajpipe.store import ColumnSpec, TrajectoryStoreWriter

_EPISODE_COLUMNS: Final = (
    ColumnSpec(names.COLUMN_TASK_INDEX, np.dtype(np.int32), (1,)),
    ColumnSpec(names.COLUMN_SUCCESS, np.dtype(np.uint8), ()),
)


class GenericLayout:
    """The columns of the first episode; every other episode must have the same.

    Attributes:
        env_id: The plan's, else the first L2 file's env_name.
        tasks: Empty: tasks are numbered in order of appearance.
    """

    tasks: Sequence[str] = ()
    cap_attribute = names.ATTR_TASK
    rate = None

    def __init__(self, plan: StorePlan) -> None:
        """Look at the first L2 file.

        Raises:
            SchemaError: a column's name is not allowed, or two get one name.
        """
        self._plan, self._columns = plan, columns_of(plan)
        with DemosFile(plan.inputs[0]) as first:
            self.env_id = plan.env_id or str(first.env_args.get("env_name", plan.dataset))

    def specs(self) -> Sequence[ColumnSpec]:
        """The columns, in order."""
        return [*(self._spec(c) for c in self._columns), *_EPISODE_COLUMNS]

    def _spec(self, column: ColumnSource) -> ColumnSpec:
        plan = self._plan
        own = plan.column_compression.get(column.name, plan.compression if column.image else None)
        if own is None:
            return ColumnSpec(column.name, column.dtype, column.trailing)
        return ColumnSpec(column.name, column.dtype, column.trailing, compression=own)

    def append(self, writer: TrajectoryStoreWriter, episode: Episode, file: str) -> None:
        """Append all columns of an episode, block by block.

        Raises:
            SchemaError: its terms, shapes or dtypes differ from the first one's; names both files.
        """
        agree(episode, self._columns, self._plan, file)
        for column in self._columns:
            for rows in ahead(rows_of(episode, column)) if column.image else rows_of(episode, column):
                writer.append(column.name, rows)
        success = episode.success_as if episode.success is None else episode.success
        task = writer.add_task(episode.task or "")
        writer.append(names.COLUMN_TASK_INDEX, np.full((episode.length, 1), task, np.int32))
        writer.append(names.COLUMN_SUCCESS, np.full(episode.length, success, np.uint8))

    @property
    def cameras(self) -> Sequence[str]:
        """Cameras of the `images` column, sorted by name."""
        images = [c for c in self._columns if c.name == names.COLUMN_IMAGES]
        return [p.removeprefix(f"{names.GROUP_OBS}/") for c in images for p in c.paths]

    def side_tables(self) -> Mapping[str, Any]:
        """None of its own."""
        return {}

    def check_context(self) -> Mapping[str, Any]:
        """Column → L2 paths."""
        return {"columns": {c.name: list(c.paths) for c in self._columns}}
