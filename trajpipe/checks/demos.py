"""Every rule of an L2 file, `demos.hdf5`, and `validate`, which runs them.

The rules live in the modules imported here, each a registered check over facts that one pass over the file
gathers with h5py alone. What is not here: raw recordings, see `trajpipe.checks.raw`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Importing a module registers its rules; the order is the order in reports.
from trajpipe.checks import demos_attributes, demos_layout, demos_obs, demos_values  # noqa: F401
from trajpipe.checks.demos_subject import STAGE
from trajpipe.checks.registry import CheckReport, run_checks


def validate(path: Path, context: Mapping[str, Any] | None = None) -> CheckReport:
    """Run every rule of L2 on a file.

    Args:
        path: The L2 file.
        context: Declared facts: `conventions` (plain form of `trajpipe.core.conventions.Conventions`),
            `filters` (`only_success`, `min_length`).

    Returns:
        The report; never raises for what is wrong with the file.
    """
    return run_checks(STAGE, path, context=context)
