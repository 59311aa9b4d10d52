"""The pipeline as Dagster definitions: a thin shell around `trajpipe.pipeline`, one module per concept.

What is not here: what the stages do. No module here may use `from __future__ import annotations`:
Dagster reads the annotations of its functions.
"""

from trajpipe.defs.definitions import build_defs

__all__ = ["build_defs"]
