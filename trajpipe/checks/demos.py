"""Every rule of an L2 file, `demos.hdf5`, and `validate`, which runs them.

The rules live in the modules named here, each a registered check over facts that one pass over the file
gathers with h5py alone. What is not here: raw recordings, see `trajpipe.checks.raw`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from trajpipe.checks.demos_subject import STAGE
from trajpipe.checks.registry import CheckReport, run_checks

# Importing a module registers its rules; reports list them in this order.
_RULES: Final = ("demos_layout", "demos_attributes", "demos_obs", "demos_values", "demos_quality")
for _module in _RULES:
    importlib.import_module(f"trajpipe.checks.{_module}")


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
