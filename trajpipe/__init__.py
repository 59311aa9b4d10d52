"""trajpipe: raw robot demonstrations into training-ready datasets that one can trust.

The public names are loaded on first use, so that `import trajpipe` stays cheap.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

__version__: Final = "0.1.0"

_PUBLIC: Final[dict[str, str]] = {
    "ColumnSpec": "trajpipe.store",
    "ConvertOptions": "trajpipe.pipeline.convert",
    "DemosFile": "trajpipe.demos.reader",
    "DemosWriter": "trajpipe.demos.writer",
    "Episode": "trajpipe.core.episode",
    "ExportOptions": "trajpipe.export",
    "Project": "trajpipe.pipeline.project",
    "RunOptions": "trajpipe.pipeline.run",
    "TrajectoryStore": "trajpipe.store",
    "TrajectoryStoreWriter": "trajpipe.store",
    "TrajpipeError": "trajpipe.core.errors",
    "convert": "trajpipe.pipeline.convert",
    "export_lerobot": "trajpipe.export",
    "merge": "trajpipe.demos.merge",
    "run": "trajpipe.pipeline.run",
    "run_checks": "trajpipe.checks.registry",
}


__all__ = ["__version__", *_PUBLIC]  # noqa: PLE0604 - names that load on first use


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'trajpipe' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
