"""L3: LeRobot datasets written from L2 episodes, in every version that readers still want.

What is not here: reading LeRobot datasets (a source), judging them (`trajpipe.checks.lerobot`), publishing.
"""

from __future__ import annotations

from trajpipe.export.options import ExportOptions, ExportResult
from trajpipe.export.writer import export_lerobot

__all__ = ["ExportOptions", "ExportResult", "export_lerobot"]
