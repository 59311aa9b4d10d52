"""A project's own DAGSTER_HOME: telemetry off, no welcome dialog, as many runs at a time as there are cores.

What is not here: starting Dagster, see `trajpipe.cli.verbs.dev`.
"""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path
from typing import Final

from trajpipe.core import atomic
from trajpipe.core.errors import UsageError

HOME: Final = ".dagster"
CONFIG: Final = "dagster.yaml"
DIALOG_SEEN: Final = ".nux/nux.yaml"


def prepare_home(home: Path) -> list[Path]:
    """Make a DAGSTER_HOME ready; files that are there are kept.

    Args:
        home: The folder; made when absent.

    Returns:
        The files that were written.

    Raises:
        UsageError: the place is a file.
    """
    if home.exists() and not home.is_dir():
        raise UsageError("DAGSTER_HOME is a folder", place=home, got="a file")
    home.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in ((CONFIG, _config()), (DIALOG_SEEN, "seen: 1\n")):
        path = home / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic.write_text(path, text)
            written.append(path)
    return written


def _config() -> str:
    text = (resources.files("trajpipe.pipeline") / "new_project" / CONFIG).read_text("utf-8")
    return text.replace("RUNS", str(max(1, min(8, os.cpu_count() or 1))))
