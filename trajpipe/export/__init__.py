"""L3: LeRobot datasets written from L2 episodes, in every version that readers still want.

The writer needs PyArrow and PyAV, which are slow to import: it is loaded on first use, so that options and
profiles stay cheap to ask for. What is not here: reading LeRobot datasets (a source), judging them
(`trajpipe.checks.lerobot`), publishing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from trajpipe.export.options import ExportOptions, ExportResult

if TYPE_CHECKING:
    from trajpipe.export.writer import export_lerobot

_WRITER: Final = "trajpipe.export.writer"

__all__ = ["ExportOptions", "ExportResult", "export_lerobot"]


def __getattr__(name: str) -> Any:
    if name == "export_lerobot":
        value = globals()[name] = importlib.import_module(_WRITER).export_lerobot
        return value
    raise AttributeError(f"module 'trajpipe.export' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
