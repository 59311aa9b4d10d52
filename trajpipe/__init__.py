"""trajpipe: raw robot demonstrations into training-ready datasets that one can trust.

The public names are loaded on first use, so that `import trajpipe` stays cheap.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

__version__: Final = "0.1.0"

_PUBLIC: Final[dict[str, str]] = {}


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'trajpipe' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
