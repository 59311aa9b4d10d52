"""The one resource: where the project's catalogue and data are.

What is not here: which outputs lie where below the data root, see `trajpipe.pipeline.project`.
"""

from pathlib import Path
from typing import Any

import dagster as dg

from trajpipe.pipeline.project import Project


class ProjectResource(dg.ConfigurableResource[Any]):
    """Paths of a project; everything else follows from the catalogue.

    Attributes:
        catalogue: Path of `datasets.yaml`.
        data_root: Folder that globs begin at and outputs go to; the catalogue's own when empty.
    """

    catalogue: str
    data_root: str = ""

    def open(self) -> Project:
        """The project as its files are now.

        Raises:
            CatalogueError: the catalogue is not there or not valid.
        """
        return Project.open(Path(self.catalogue), Path(self.data_root) if self.data_root else None)
