"""Entry points of installed packages, read once per process: reading every package's metadata is slow.

What is not here: registering what they load, see `trajpipe.sources.base`, `trajpipe.checks.registry` and
`trajpipe.export.profiles`.
"""

from __future__ import annotations

import importlib.metadata
from functools import cache
from typing import Any


def entry_points(group: str) -> tuple[importlib.metadata.EntryPoint, ...]:
    """The entry points of a group.

    Args:
        group: `trajpipe.sources`, `trajpipe.checks` or `trajpipe.exports`.
    """
    return tuple(_all().select(group=group))


@cache
def _all() -> Any:
    """Everybody's; its type differs between Python 3.11 and 3.12, its `select` does not."""
    return importlib.metadata.entry_points()
