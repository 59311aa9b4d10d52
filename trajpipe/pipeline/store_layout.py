"""The two layouts of a store: generic, and a LIBERO suite's; what a layout has to offer.

What is not here: a layout's columns, see `store_generic.py` and `store_libero.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Protocol

from trajpipe.core.episode import Episode
from trajpipe.store import ColumnSpec, TrajectoryStoreWriter


class StoreLayout(Protocol):
    """How the episodes of a plan become columns; made for one build."""

    @property
    def env_id(self) -> str:
        """The manifest's environment name."""

    @property
    def tasks(self) -> Sequence[str]:
        """Texts of the task table that stand from the start."""

    @property
    def cap_attribute(self) -> str:
        """The L2 attribute whose values a cap of demos per task counts: `task` or `source_file`."""

    @property
    def rate(self) -> Fraction | None:
        """Rows per second of a layout that makes rows at its own rate; None where rows are L2's."""

    def specs(self) -> Sequence[ColumnSpec]:
        """The columns, in order."""

    def append(self, writer: TrajectoryStoreWriter, episode: Episode, file: str) -> None:
        """Append all columns of an episode.

        Raises:
            SchemaError: it does not fit; names file and demo.
        """

    @property
    def cameras(self) -> Sequence[str]:
        """Names or L2 paths of the cameras of the `images` column, in order; empty when there is none."""

    def side_tables(self) -> Mapping[str, Any]:
        """Side tables of this layout, after all episodes."""

    def check_context(self) -> Mapping[str, Any]:
        """What the store's checks compare with."""
